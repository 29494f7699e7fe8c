"""What lint refuses for gem5, no build puts into a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simgen
from simgen.errors import RefusedError
from simgen.lint import linting
from simgen.targets.gem5.se import Gem5Se

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = """
source = "k.hip"
kernel = "k"
parameters = { n = 64 }
inputs = { x = "i32[n]" }
outputs = { out = "f32[n]" }
args = ["x", "out"]
items = "n"
block = 64
reference = "x"
"""
SOURCE = """
__global__ void k(const int* x, float* out)
{{
    float found;
    asm("{line}" : "=v"(found) : "v"(x[threadIdx.x]));
    out[threadIdx.x] = found;
}}
"""


def plan(folder: Path, line: str) -> simgen.Plan:
    (folder / "k.hip").write_text(SOURCE.format(line=line))
    (folder / "k.toml").write_text(SETTINGS)
    return simgen.plan(folder / "k.toml")


def test_a_build_refuses_what_lint_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirrored = plan(tmp_path, "v_mov_b32_dpp %0, %1 row_half_mirror row_mask:0xf bank_mask:0xf")
    for _ in range(2):  # once looked at, once from the cache
        with pytest.raises(RefusedError, match=r"v_mov_b32_dpp: gem5 24\.1 reads lanes there"):
            mirrored.build(tmp_path / "bundle", Gem5Se(gem5_version="24.1"))
        monkeypatch.setattr(linting, "code_objects", lambda *_: pytest.fail("looked at again"))
    assert not (tmp_path / "bundle").exists()


def test_what_lint_lets_pass_is_built(tmp_path: Path) -> None:
    good = plan(tmp_path, "v_cvt_f32_i32_e32 %0, %1")
    good.build(tmp_path / "bundle", Gem5Se(gem5_version="24.1"))
