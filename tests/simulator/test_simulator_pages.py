"""The commands of pages about MGPUSim, run as they stand, and what they print."""

from __future__ import annotations

from pathlib import Path

import pytest
from transcripts import Command, File, parts, run, same

from simgen.targets.mgpusim.target import MGPUSim

pytestmark = pytest.mark.skipif(
    bool(MGPUSim().needs.missing()), reason="this machine cannot run MGPUSim"
)
DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["first-simulation.md", "example-two-gpus.md"])
def test_commands_print_what_the_page_shows(page: str, tmp_path: Path) -> None:
    found = list(parts((DOCS / page).read_text()))
    assert sum(isinstance(each, Command) for each in found) >= 5
    for each in found:
        if isinstance(each, File):
            (tmp_path / each.name).write_text(each.content)
            continue
        printed, code = run(each.line, tmp_path)
        assert same(printed, each.shown), f"$ {each.line}\n{printed}"
        assert code == 0, each.line
