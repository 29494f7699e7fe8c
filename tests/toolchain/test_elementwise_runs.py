"""Kernels whose work-items have several accesses at once, as on a GPU that they fill (runs.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from layer_bundles import Problem, failures, make, plan
from layer_variants import Variant

from simgen.ground.ir import DType, Pass
from simgen.ground.machine import find
from simgen.layers import elementwise
from simgen.targets.host import Host

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

GROUP = elementwise.BLOCK * elementwise.VECTOR
SIZES = (36 * GROUP, 36 * GROUP + 3, 37 * GROUP + 5)  # whole; a run that begins, one that is left
LAYERS = (
    ("activation", (("activation_mode", "relu"),)),
    ("activation", (("activation_mode", "gelu"),)),
    ("dropout", ()),
)


@pytest.mark.parametrize(("dtype", "runs"), [("bf16", 2), ("f8e4m3fn", 4)])
def test_elements_of_several_runs_are_right(
    tmp_path: Path, builder: Builder, dtype: str, runs: int
) -> None:
    machine = find("h200,num_compute_units=1", "test")
    each = [(layer, size) for layer in LAYERS for size in SIZES]
    problems = {
        f"v{at}": Problem(Variant(*layer), (1, size, 1, 1)) for at, (layer, size) in enumerate(each)
    }
    planned = plan(problems, Pass.FORWARD, dtype=DType.table[dtype], machine=machine)
    assert {dict(kernel.constants)["runs"] for kernel in planned.kernels} == {runs}
    assert not failures(make(tmp_path, planned, builder, sanitize=True).good())


def test_runs_are_of_narrow_elements_that_fill_a_gpu() -> None:
    h200, few = find("h200", "test"), GROUP * 8 * 132
    assert elementwise.runs(2 * few, DType.table["f16"], h200) == 2
    assert elementwise.runs(4 * few, DType.table["i8"], h200) == 4
    assert elementwise.runs(2 * few - 1, DType.table["f16"], h200) == 1
    assert elementwise.runs(2 * few, DType.F32, h200) == 1
    assert elementwise.runs(2 * few, DType.table["f16"], find("mi300a", "test")) == 1
