"""What lint refuses for gem5, no build puts into a bundle; what has a rule is replaced."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import simgen
from simgen.errors import RefusedError
from simgen.isa.lint import linting
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
    mirrored = plan(tmp_path, "v_add_f32_dpp %0, %1, %1 row_half_mirror row_mask:0xf bank_mask:0xf")
    for _ in range(2):  # once looked at, once from the cache
        with pytest.raises(RefusedError, match=r"v_add_f32_dpp: gem5 24\.1 reads lanes there"):
            mirrored.build(tmp_path / "bundle", Gem5Se(gem5_version="24.1"))
        monkeypatch.setattr(linting, "code_objects", lambda *_: pytest.fail("looked at again"))
    assert not (tmp_path / "bundle").exists()


def test_what_lint_lets_pass_is_built(tmp_path: Path) -> None:
    good = plan(tmp_path, "v_cvt_f32_i32_e32 %0, %1")
    good.build(tmp_path / "bundle", Gem5Se(gem5_version="24.1"))


def costs(bundle: Path) -> dict[str, dict[str, object]]:
    return json.loads((bundle / "gem5-se/kernels/replaced.json").read_text())


def test_what_gem5_ignores_in_kernels_of_users_is_replaced(tmp_path: Path) -> None:
    """As the compiler writes it: the magnitude in the comparison, the sign in the selection."""
    (tmp_path / "k.hip").write_text(
        "__global__ void k(const float* x, float* out)\n"
        "{\n"
        "    float of = x[threadIdx.x];\n"
        "    out[threadIdx.x] = fabsf(of) > 0.5f ? of : -of;\n"
        "}\n"
    )
    right = 'reference = "np.where(np.abs(x) > 0.5, x, -x)"'
    text = SETTINGS.replace("i32[n]", "f32[n]").replace('reference = "x"', right)
    (tmp_path / "k.toml").write_text(text)
    near = simgen.plan(tmp_path / "k.toml")
    target = Gem5Se(gem5_version="24.1")
    near.build(tmp_path / "with", target)
    cost = costs(tmp_path / "with")["k"]
    assert cost["replaced"] == {"v_cmp_gt_f32_e64": 1, "v_cndmask_b32_e64": 1}
    assert cost["added"] == 2
    instructions = cost["instructions"]
    (line,) = target.package.notes(tmp_path / "with" / "gem5-se")
    said = f"gem5-se: replaced 2 of {instructions} instructions by 4 "
    assert line.startswith(said)
    assert line.endswith(", see gem5-se/kernels/replaced.json")
    plain = Gem5Se(gem5_version="24.1", legalise=False)
    near.build(tmp_path / "without", plain)
    assert costs(tmp_path / "without") == {}
    assert plain.package.notes(tmp_path / "without" / "gem5-se") == []
    binaries = {(tmp_path / name / "gem5-se/binary").read_bytes() for name in ("with", "without")}
    assert len(binaries) == 2


def test_kernels_of_simgen_that_are_right_stay_as_they_are(tmp_path: Path) -> None:
    target = Gem5Se(gem5_version="24.1")
    simgen.plan("softmax_fwd").build(tmp_path / "b", target)
    (cost,) = costs(tmp_path / "b").values()
    assert not {word for word in cost["replaced"] if word.startswith("v_")}


PACKED = """
#pragma pack(1)
struct Record { unsigned char tag; int value; };
#pragma pack()
__global__ void k(const int* x, float* out)
{
    out[threadIdx.x] = ((const Record*)x)[threadIdx.x].value;
}
"""


def test_what_is_not_aligned_is_loaded_by_bytes(tmp_path: Path) -> None:
    """gem5 loses bytes of what lies across two lines; the compiler knows what may."""
    (tmp_path / "k.hip").write_text(PACKED)
    (tmp_path / "k.toml").write_text(SETTINGS)
    made = simgen.plan(tmp_path / "k.toml")
    found = {}
    for legalise in (True, False):
        bundle = tmp_path / f"b{legalise}"
        made.build(bundle, Gem5Se(gem5_version="24.1", legalise=legalise))
        (looked,), unread = linting.of_files([bundle], "", "gem5", "24.1")
        assert not unread
        found[legalise] = [(f.instruction, f.verdict, f.refused) for f in looked.findings]
    assert found == {True: [], False: [("global_load_dword", "edges", False)]}
