"""bisect finds faults that were put into one side's code, and an error of a simulator."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import simgen
from simgen.bundle import writing as bundles
from simgen.isa.lint import rewriting
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.mgpusim import needs
from simgen.targets.mgpusim.target import MGPUSim
from simgen_examine.bisect import instrumented, opening, telling

if TYPE_CHECKING:
    from simgen_examine.bisect.searching import Search

LACKS = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))

MEDIAN = """
__global__ void median(const unsigned* x, const unsigned* y, unsigned* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned found;
    asm("v_med3_u32 %0, %1, %2, %2" : "=v"(found) : "v"(x[i]), "v"(y[i]));
    out[i] = found;
}
"""
SETTINGS = """
source = "median.hip"
kernel = "median"
parameters = { n = 50 }
inputs = { x = "i32[n] uniform(0, 100)", y = "i32[n] uniform(0, 100)" }
outputs = { out = "i32[n]" }
args = ["x", "y", "out", "i32 n"]
items = "n"
block = 64
reference = "y"
"""


def searched(path: Path, folder: Path, a: str, b: str, code: str = "") -> Search:
    return opening.search(bundles.load(path), a, b, folder, code=code)


def with_fault(code: bytes, symbol: str, old: str, new: str) -> tuple[bytes, int]:
    """A code object with another instruction in one place, and the number of that."""
    items = instrumented.blocks(code, symbol, "gfx942").items
    number = next(n for n, item in enumerate(items) if re.match(old, str(item)))
    was = str(items[number])

    def change(text: str) -> str:
        head, found, tail = text.partition(f"\t{was}\n")
        assert found, was
        return f"{head}\t{re.sub(old, new, was, count=1)}\n{tail}"

    return rewriting.changed(code, symbol, change), number


@pytest.mark.parametrize(
    ("old", "new"),
    [("v_pk_add_f32", "v_pk_mul_f32"), ("s_cmp_gt_u32", "s_cmp_lt_u32")],
    ids=["arithmetic", "branch"],
)
def test_a_changed_instruction_is_found(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "gemm"
    simgen.plan("gemm_fwd", set={"n": 40}).build(path, MGPUSim())
    search = searched(path, tmp_path, "mgpusim", "mgpusim:emu")
    assert search.place() is None
    symbol = list(search.objects_a)[-1]
    changed, number = with_fault(search.objects_a[symbol], symbol, old, new)
    search.objects_b = {**search.objects_a, symbol: changed}
    place = search.place()
    assert place is not None
    assert search.of.launches[place.launch].kernel == symbol
    assert place.number == number
    if place.difference:
        lines = telling.reproducer(place, search.a, search.b, search.arch)
        assert len(lines) <= telling.MOST_LINES
        assert str(place.item) in lines


def test_a_change_of_a_build_is_found_by_conform_and_bisect(tmp_path: Path) -> None:
    """Lane 5 of a subtraction, changed in MGPUSim's own sources."""
    go = needs.go()
    if go is None:
        pytest.skip("no Go")
    words = [go, "list", "-m", "-f", "{{.Dir}}", "github.com/sarchlab/mgpusim/v4"]
    found = subprocess.run(
        words, cwd=needs.templates(), capture_output=True, text=True, check=True,
        env={**os.environ, "GOFLAGS": "-mod=mod"},
    )  # fmt: skip
    changed = tmp_path / "mgpusim"
    for path in (source := Path(found.stdout.strip())).rglob("*"):
        if path.suffix in (".go", ".hsaco", ".mod", ".sum", ".csv"):
            copy = changed / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    code = changed / "amd/emu/cdna3/vop2.go"
    head, name, tail = code.read_text().partition("runVSUBF32(state")
    line = "dst := src0 - src1\n"
    fault = "if i == 5 {\ndst *= 1.0001\n}\n"
    code.write_text(head + name + tail.replace(line, line + fault, 1))

    out = tmp_path / "findings"
    simgen.conform("mgpusim", only="^v_sub_f32_e32", output=out)
    table = simgen.conform(
        f"mgpusim@{changed}", only="^v_sub_f32_e32", against=out / "findings.json"
    )
    assert {"e32: v_sub_f32_e32 v10, v4, v6"} <= table.worse.keys()
    assert not table
    bundle = simgen.plan("softmax_fwd", set={"n": 3, "c": 70}).build(tmp_path / "b", MGPUSim())
    place = bundle.bisect("mgpusim", f"mgpusim@{changed}")
    assert (place.text or "").startswith("v_sub_f32_e32")
    assert place.lanes == (5,)


@pytest.mark.skipif(bool(Gem5Se().needs.missing()), reason="no gem5")
def test_an_error_of_a_simulator_is_found(tmp_path: Path, place: Path) -> None:
    (tmp_path / "median.hip").write_text(MEDIAN)
    (tmp_path / "median.toml").write_text(SETTINGS)
    path = tmp_path / "bundle"
    plan = simgen.plan(tmp_path / "median.toml")
    plan.build(path, [MGPUSim(), Gem5Se(arch="gfx942")])
    found = searched(path, place, "mgpusim", "gem5-se", "gem5-se").place()
    assert found is not None
    assert found.item is not None
    assert found.item.mnemonic == "v_med3_u32"
    assert found.difference is not None
    assert found.difference.a != found.difference.b == found.before[found.item.operands[2]][0]
