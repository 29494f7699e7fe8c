"""Products with 2:4 sparsity by NVIDIA's mma.sp: right on the host, which emulates each lane.

What a GPU makes of the same kernels is in tests/gpu.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from layer_bundles import Problem, failures, make, plan
from layer_variants import Variant

from simgen.ground.ir import DType, Pass
from simgen.ground.machine import find
from simgen.kernels import render
from simgen.targets.host import Host

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

# Rests of rows, columns and steps, and more steps than wait; whole tiles of other sizes, on a
# machine of few units.
RESTS = {"m": "45", "n": "72", "k": "672"}
WHOLE = {"m": "128", "n": "128", "k": "256"}
CASES = (
    ("f16", "h200", RESTS, "t32x64s4", True),
    ("bf16", "h200,num_compute_units=2", WHOLE, "t128x64s4", False),
    ("bf16", "a100,num_compute_units=1", WHOLE, "t128x128s3", False),
)


def planned(dtype: str, machine: str, parameters: dict[str, str]) -> Workload:
    problem = Problem(Variant("structured_gemm", tuple(parameters.items())), (1, 1, 1, 1))
    given = {"structured_gemm": problem}, Pass.FORWARD
    return plan(*given, dtype=DType.table[dtype], machine=find(machine, "test"))


@pytest.mark.parametrize(("dtype", "machine", "parameters", "tile", "sanitize"), CASES)
def test_products_are_right(
    tmp_path: Path,
    builder: Builder,
    dtype: str,
    machine: str,
    parameters: dict[str, str],
    tile: str,
    sanitize: bool,
) -> None:
    made = planned(dtype, machine, parameters)
    (kernel,) = (each for each in made.kernels if each.template == "structured_matrix.hip")
    assert tile in kernel.name
    assert not failures(make(tmp_path, made, builder, sanitize=sanitize).good())


MUTANTS = {
    "the other instruction's positions": ("lane % 4 / 2;", "1 - lane % 4 / 2;"),
    "positions of the other 16 columns": ("threadIdx.x % 2];", "1 - threadIdx.x % 2];"),
    "rows exchanged": ("above | below << 16", "below | above << 16"),
    "the same positions in each step": ("places = coming;\n    }", "}"),
    "a stage that is filled too early": ("free = now;", "free = (now + STAGE) % (STAGES * STAGE);"),
}


@pytest.mark.parametrize("what", MUTANTS)
def test_a_wrong_kernel_is_seen(tmp_path: Path, builder: Builder, what: str) -> None:
    old, new = MUTANTS[what]
    made = planned("f16", "h200", RESTS)
    ((name, text),) = render.kernels(made).items()
    before, found, after = text.rpartition(old)  # what the kernel includes has some of them too
    assert found
    wrong = make(tmp_path, made, builder, sources={name: before + new + after}, optimise=False)
    assert not all(verdict.passed for verdict in wrong.good().values())
