"""The commands that the README and the tutorial show, run as they stand, and what they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from loaded import program
from page_calls import CALLS, own_files
from transcripts import Command, File, parts, run, same

from simgen.targets.host import Host

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("page", "least"),
    [("README.md", 3), ("docs/first-hour.md", 10), ("docs/files.md", 5), ("docs/verdicts.md", 2)],
)
def test_commands_print_what_the_page_shows(page: str, least: int, tmp_path: Path) -> None:
    found = list(parts((ROOT / page).read_text()))
    assert sum(isinstance(each, Command) for each in found) >= least
    for each in found:
        if isinstance(each, File):
            (tmp_path / each.name).write_text(each.content)
            continue
        printed, code = run(each.line, tmp_path, tmp_path / ".cache", program())
        assert same(printed, each.shown), f"$ {each.line}\n{printed}"
        assert (code != 0) is each.fails, each.line


@pytest.mark.parametrize(
    ("page", "only"),
    [
        ("docs/index.md", ""),
        ("docs/cpu-and-gpus.md", "--target host|diff softmax"),
        ("docs/own-kernels.md", ""),
    ],
)
def test_commands_of_a_page_run_one_after_the_other(page: str, only: str, tmp_path: Path) -> None:
    """Those that this machine can run; what they print is on no page."""
    own_files(tmp_path)
    told = dict.fromkeys(each.line for each in CALLS if each.where == page and not each.inline)
    chosen = [line for line in told if re.search(only, line)]
    assert len(chosen) >= 3
    for line in chosen:
        printed, code = run(line, tmp_path, tmp_path / ".cache", program())
        assert code == 0, f"$ {line}\n{printed}"


def test_another_figure_or_line_is_seen() -> None:
    shown = "a 12 ms\n\n  b   17.24%\n...\nend\n"
    assert same("a 3 us\nb 17.24%\nmore\nend\n", shown)
    assert not same("a 3 us\nb 17.25%\nmore\nend\n", shown)
    assert not same("a 3 us\nb 17.24%\nmore\n", shown)
    slow = "kernels: 4 of 10\nmgpusim: 3 of 8 launches, 11 s so far, 40 s left\n"
    assert same(f"{slow}a 3 us\nb 17.24%\nmore\nend\n", shown)
