"""Every command that a page or a help text shows: its options exist, its values are valid.

`build` and `show` are planned, with the network, the values and the targets that they name, and
nothing is compiled; of the others, those that only list or write small files are run, and the rest
is parsed as it stands. What toolchain/test_pages.py and simulator/test_simulator_pages.py run is
here, too: a second judge costs less than a list of what they leave out. Ten seconds
of a processor.
"""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper
from transcripts import Command, File, lines, parts

from simgen.bundle import writing
from simgen.cli import main
from simgen.errors import SimgenError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "docker/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
OF_READERS = "blank|scale_fwd"  # a target and a layer that readers of two pages write
PLANNED, RUN = ("build", "show"), ("list", "new", "data")


class PlannedError(Exception):
    """In place of what would be written."""


def calls(line: str) -> Iterator[list[str]]:
    """What simgen is told by a line for a shell; of a loop, in its first turn."""
    for name, values in re.findall(r"\bfor (\w+) in ([^;]*)", line):
        line = line.replace(f"${name}", values.split()[0])
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&()<>\n")
    lexer.whitespace_split = True
    lexer.commenters = ""
    lexer.whitespace = " \t"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set(";|&()<>\n"):
            while words and (words[0] == "do" or re.match(r"[A-Z]\w*=", words[0])):
                words.pop(0)
            if words and Path(words[0]).name == "simgen":
                yield words[1:]
            words = []
        else:
            words.append(word)


@dataclass(frozen=True)
class Shown:
    """A call of simgen: its page or help text, the line that it is in, its words."""

    where: str
    line: str
    words: tuple[str, ...]
    inline: bool = False  # in a sentence, and may be the begin of a command

    @property
    def of_readers(self) -> bool:
        return bool(re.search(OF_READERS, self.line))


def shown() -> Iterator[Shown]:
    """Of all pages and help texts; not what a page shows as an error."""
    for page in PAGES:
        text, where = page.read_text(), page.relative_to(ROOT).as_posix()
        failing = {each.line for each in parts(text) if isinstance(each, Command) and each.fails}
        sentences = re.sub(r"^```.*?^```$|^ {4}[^\n]*$", "", text, flags=re.MULTILINE | re.DOTALL)
        inline = re.findall(r"`((?:[A-Z]\w*=\S+ )?simgen [^`]*)`", sentences)
        for line in lines(text):
            if line not in failing:
                yield from (Shown(where, line, tuple(each)) for each in calls(line))
        for line in (" ".join(each.split()) for each in inline):
            yield from (Shown(where, line, tuple(each), True) for each in calls(line))
    for name, command in walked(main.cli, "simgen"):
        for line in re.findall(r"^\s*((?:[A-Z]\w*=\S+ )?simgen .*)$", command.help or "", re.M):
            yield from (Shown(f"{name} --help", line, tuple(each)) for each in calls(line))


def walked(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found
            yield from walked(found, f"{name} {each}")
    else:
        yield name, command


def parsed(call: Shown) -> str:
    """What is wrong with the options and their values; no file is looked for."""
    command: click.Command = main.cli
    words = list(call.words)
    try:
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            if words[0].isupper():  # COMMAND, in a sentence
                return ""
            found = command.get_command(click.Context(command), words[0])
            if found is None:
                return f"{call.line}: no command {words[0]}"
            command, words = found, words[1:]
        if not {"--help", "--version"} & {*words}:
            command.make_context("simgen", words)
    except (click.MissingParameter, click.BadOptionUsage) as error:
        return "" if call.inline else f"{call.line}: {error}"
    except (click.ClickException, SimgenError) as error:
        return f"{call.line}: {error}"
    return ""


CALLS = list(shown())


def test_pages_and_help_texts_show_commands() -> None:
    """As many as there were, or more: what finds them finds them still."""
    of_pages = {each.where for each in CALLS if each.where.endswith(".md")}
    assert len(CALLS) > 400
    assert len(of_pages) > 35
    assert len({each.where for each in CALLS} - of_pages) > 20
    loop = next(e for e in CALLS if e.where == "docs/exports.md" and "layer-1" in e.words)
    assert loop.words[:2] == ("build", "layer.dnnmark")
    assert "up.n=1" in loop.words


@pytest.mark.parametrize("where", sorted({each.where for each in CALLS}))
def test_options_of_every_command_exist(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: Path(value))
    here = [each for each in CALLS if each.where == where and not each.of_readers]
    assert not [wrong for each in here if (wrong := parsed(each))]


# What commands are told of that is somebody's own: files of ours in their place.
FILES = {
    "alexnet.dnnmark": "tests/data/alexnet.dnnmark",
    "path/to/model.dnnmark": "data/lenet5.dnnmark",
    "decoder.pt2": "tests/data/gpt.pt2",
    "digits-images-idx3-ubyte.gz": "data/samples/digits-images-idx3-ubyte.gz",
    "digits-labels-idx1-ubyte.gz": "data/samples/digits-labels-idx1-ubyte.gz",
}
BRANCHES = """
[Convolution]\nname=a\nn=8\nc=4\nh=6\nw=6\nnum_output=6\nkernel_size=1
[Convolution]\nname=b\nprevious_layer=a\nnum_output=6\nkernel_size=1
[Convolution]\nname=c\nprevious_layer=a\nnum_output=6\nkernel_size=1
[Concat]\nname=d\nprevious_layer=b,c
"""
# What is not planned here, and why; it is parsed all the same.
NOT_PLANNED = (
    (r"[A-Z]{4,}|\.\.\.$", "a name stands for others"),
    (r"\$", "its words come from another command"),
    (r"--bytes 2G", "it writes 2 GB"),
    (r"build mix\.dnnmark", "synthesise makes the file, in a minute"),
    (r"--config CONFIG", "GPGPU-Sim's own file"),
    (OF_READERS, "toolchain/test_packages.py and its like run them"),
)


def own_files(folder: Path) -> None:
    """What pages show as files, and files of ours under the names that commands have."""
    for page in PAGES:
        for each in parts(page.read_text()):
            if isinstance(each, File):
                (folder / each.name).write_text(each.content)
    for name, source in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, folder / name)
    shutil.copytree(ROOT / "data" / "rates", folder / "data" / "rates")
    (folder / "inception.dnnmark").write_text(BRANCHES)
    (folder / "block.dnntemplate").write_text(
        BRANCHES.replace("=8\n", "=$N\n").replace("=6\n", "=$K\n")
    )
    (folder / "layer.dnnmark").write_text("[FullyConnected]\nname=up\nn=1\nc=8\nnum_output=4\n")
    (folder / "model.log").write_text(
        "./bin/MIOpenDriver conv -n 1 -c 3 -H 9 -W 9 -k 4 -y 3 -x 3\n"
    )
    np.savez(folder / "weights.npz", **{"conv1.b": np.zeros(20, np.float32)})
    rows = np.minimum(np.arange(31) * 8, 96)  # where each begins; 8 elements in each of 12
    columns, values = np.arange(96) % 8, np.ones(96, np.float32)
    sparse = {"rows": rows, "columns": columns, "values": values}
    np.savez(folder / "own.npz", **{f"sparse_gemm.{name}": each for name, each in sparse.items()})
    x, w, y = (("x", ["batch", 8]), ("w", [8, 4]), ("y", ["batch", 4]))
    infos = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (x, y)]
    known = numpy_helper.from_array(np.ones(w[1], np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", infos[:1],
                              infos[1:], [known])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
              folder / "model.onnx")  # fmt: skip


def without_targets(words: tuple[str, ...]) -> tuple[str, ...]:
    """A build's words that make another workload, or other settings of its target."""
    over = {
        at + more for at, word in enumerate(words) if word in ("--target", "-o") for more in (0, 1)
    }
    plain = ("--run", "--quiet", "-q")
    return tuple(word for at, word in enumerate(words) if at not in over and word not in plain)


@pytest.mark.parametrize("page", sorted({each.where for each in CALLS if ".md" in each.where}))
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
