"""Code objects as the compiler makes them, legalised by the command's function, on MGPUSim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ordinary import built, execute, kernels, wrong

from simgen.isa.lint import rewriting
from simgen.targets.mgpusim.target import MGPUSim

if TYPE_CHECKING:
    from pathlib import Path

LACKS = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))


def test_legalised_code_objects_are_right(tmp_path: Path) -> None:
    chosen = kernels()[::9]
    objects = {
        name: rewriting.rewritten(made.elf, name, "mgpusim", "4.2.0")[0]
        for name, made in built(chosen, "gfx942", legal=False).items()
    }
    got = execute(tmp_path, "gfx942", "emu", objects)
    assert not isinstance(got, str), got
    assert [found for item in chosen if (found := wrong(item, got[item.name]))] == []
