"""Every command that a page or a help text shows: its options exist, its values are valid.

`build` and `show` are planned, with the network, the values and the targets that they name, and
nothing is compiled; of the others, those that only list or write small files are run, and the rest
is parsed as it stands. What toolchain/test_pages.py and simulator/test_simulator_pages.py run is
here, too: a second judge costs less than a list of what they leave out. Ten seconds
of a processor.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from census import census
from click.testing import CliRunner
from page_calls import CALLS, OF_READERS, Shown, own_files

from simgen.bundle import writing
from simgen.cli import main
from simgen.errors import SimgenError

PLANNED, RUN = ("build", "show"), ("list", "new")
# What is not planned here, and why; it is parsed all the same.
NOT_PLANNED = (
    (r"[A-Z]{4,}|\.\.\.$", "a name stands for others"),
    (r"\$", "its words come from another command"),
    (r"--bytes 2G", "it writes 2 GB"),
    (r"(build|network) .*mix\.dnnmark|build mix", "new network makes the file, in a minute"),
    (r"--config CONFIG", "GPGPU-Sim's own file"),
    (OF_READERS, "toolchain/test_packages.py and its like run them"),
)


class PlannedError(Exception):
    """In place of what would be written."""


def parsed(call: Shown) -> str:
    """What is wrong with the options and their values; no file is looked for."""
    command: click.Command = main.cli
    words = list(call.words)
    names = click.Context(main.cli, **main.cli.context_settings)  # -h: click keeps the first
    try:
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            if words[0].isupper():  # COMMAND, in a sentence
                return ""
            found = command.get_command(click.Context(command), words[0])
            if found is None:
                return f"{call.line}: no command {words[0]}"
            command, words = found, words[1:]
        if not {"--help", "--version"} & {*words}:
            command.make_context("simgen", words, parent=names)
    except (click.MissingParameter, click.BadOptionUsage) as error:
        return "" if call.inline else f"{call.line}: {error}"
    except (click.ClickException, SimgenError) as error:
        return f"{call.line}: {error}"
    return ""


def test_pages_and_help_texts_show_commands() -> None:
    """As many as there were, or more: what finds them finds them still."""
    of_pages = {each.where for each in CALLS if each.where.endswith(".md")}
    assert len(CALLS) > 400
    assert len(of_pages) > 22
    assert len({each.where for each in CALLS} - of_pages) > 20
    loop = next(e for e in CALLS if e.where == "docs/files.md" and "layer-1" in e.words)
    assert loop.words[:2] == ("build", "layer.dnnmark")
    assert "up.n=1" in loop.words


@census("where", sorted({each.where for each in CALLS}))
def test_options_of_every_command_exist(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: Path(value))
    here = [each for each in CALLS if each.where == where and not each.of_readers]
    assert not [wrong for each in here if (wrong := parsed(each))]


def without_targets(words: tuple[str, ...]) -> tuple[str, ...]:
    """A build's words that make another workload, or other settings of its target."""
    over = {
        at + more for at, word in enumerate(words) if word in ("--target", "-o") for more in (0, 1)
    }
    plain = ("--run", "--quiet", "-q")
    return tuple(word for at, word in enumerate(words) if at not in over and word not in plain)


@census("page", sorted({each.where for each in CALLS if ".md" in each.where}))
def test_no_build_of_a_page_loses_the_results_of_one_before(page: str) -> None:
    """It would be refused (exit code 4): the commands of a page work one after the other."""
    built: dict[str, tuple[str, ...]] = {}
    ran, wrong = set[str](), []
    for call in CALLS:
        if call.where != page or call.inline or len(call.words) < 2:
            continue
        name = call.words[1]
        if call.words[0] == "build":
            words = without_targets(call.words)
            name = call.words[call.words.index("-o") + 1] if "-o" in call.words else Path(name).stem
            if name in ran and built[name] != words and "--replace" not in words:
                wrong.append(call.line)
            built[name] = words
        if call.words[0] == "run" or "--run" in call.words:
            ran.add(name)
            built.setdefault(name, ())
    assert not wrong


@pytest.mark.parametrize(
    "where", sorted({each.where for each in CALLS if each.words and each.words[0] in PLANNED + RUN})
)
def test_every_build_is_planned(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: object, **__: object) -> None:
        raise PlannedError

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path / ".cache"))
    monkeypatch.setattr(writing, "write", write)
    own_files(tmp_path)
    wrong = []
    for call in CALLS:
        here = call.where == where and call.words and call.words[0] in PLANNED + RUN
        if not here or any(re.search(each, " ".join(call.words)) for each, _ in NOT_PLANNED):
            continue
        done = CliRunner().invoke(main.cli, list(call.words))
        if call.inline and re.search("Missing argument|requires an argument", done.output):
            continue  # the begin of a command
        if done.exit_code and not isinstance(done.exception, PlannedError):
            wrong.append(f"{call.line}: {done.exception} {done.output[-300:]}")
    assert not wrong
