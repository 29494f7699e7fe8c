"""The commands of pages about MGPUSim, run as they stand, and what they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from page_calls import CALLS, own_files
from transcripts import Command, File, parts, run, same

from simgen.targets.mgpusim.target import MGPUSim

pytestmark = pytest.mark.skipif(
    bool(MGPUSim().needs.missing()), reason="this machine cannot run MGPUSim"
)
DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    found = list(parts((DOCS / "first-simulation.md").read_text()))
    assert sum(isinstance(each, Command) for each in found) >= 12
    for each in found:
        if isinstance(each, File):
            (tmp_path / each.name).write_text(each.content)
            continue
        printed, code = run(each.line, tmp_path)
        assert same(printed, each.shown), f"$ {each.line}\n{printed}"
        assert code == 0, each.line


@pytest.mark.parametrize(
    ("page", "others"),
    [
        ("docs/mgpusim.md", ""),
        ("docs/install.md", "venv|_COMPLETE|docker|DOCKER"),
        ("docs/files.md", "AstraSim|ACCELSIM|block"),
        ("docs/conform.md", "conform|rates|lint|gem5-se$|--code"),
    ],
)
def test_commands_of_a_page_run_one_after_the_other(page: str, others: str, tmp_path: Path) -> None:
    """But for those of `others`; what they print is on no page."""
    own_files(tmp_path)
    told = dict.fromkeys(each.line for each in CALLS if each.where == page and not each.inline)
    chosen = [line for line in told if not others or not re.search(others, line)]
    assert len(chosen) >= 2
    for line in chosen:
        printed, code = run(line, tmp_path)
        assert code == 0, f"$ {line}\n{printed}"
