"""Products by NVIDIA's mma.sync: right on the host, which emulates each lane, bit by bit.

What a GPU makes of the same kernels is in tests/gpu.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from layer_bundles import Problem, failures, make, plan
from layer_variants import Variant
from test_tiles import forced

from simgen.ground.ir import DType, Pass
from simgen.ground.machine import find
from simgen.kernels import render
from simgen.layers.product import fragment, padding
from simgen.targets.host import Host
from simgen.tensors import data_file

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.ground.machine import Machine
    from simgen.kernels.build import Builder
    from simgen.layers.product.tile import Tile

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

MACHINE = find("h200,matrix=tf32", "test")
# Several instructions of a warp in each direction, and one; rests in all extents, with loads of one
# element and of four; each side lies both ways. Rows are no runs of 16 bytes: steps do not wait.
RESTS = {"m": "67", "n": "131", "k": "37", "a_t": "true", "beta": "0.5"}
WHOLE = {"m": "128", "n": "64", "k": "132", "b_t": "true"}
CASES = (
    ("f16", "64x64x64_m16x16w4", RESTS, True),
    ("bf16", "32x32x64_m16x16w4", WHOLE, False),
)


# Steps that wait in LDS: each side both ways, a rest of all extents but of the runs that are moved,
# more steps than wait; and what wgmma multiplies on a GPU, as the host does.
LYING = {"m": "72", "n": "136", "k": "336", "a_t": "true", "beta": "0.5"}
# The same of which lanes store 16 bytes at once; and sums of neighbours, where C is added.
RUNS = {**LYING, "n": "144", "beta": "0", "a_t": "false", "b_t": "true"}
STAGED = (
    ("bf16", "64x64x64_m16x16w4s4", LYING, True),
    ("bf16", "64x64x64_m16x16w4s4", {**RUNS, "alpha": "0.5"}, False),
    ("f8e4m3fn", "64x64x128_wgw4s4", RUNS, True),
    ("f16", "64x128x64_wgw4s4", {**WHOLE, "a_t": "true", "k": "64"}, False),
    ("bf16", "64x128x64_wgw4s4p", RUNS, True),
    ("f16", "64x128x64_wgw4s8p", {**WHOLE, "m": "64", "a_t": "true", "k": "192"}, False),
    ("f32", "64x64x32_m16x8w4s4", {**LYING, "a_t": "false", "b_t": "true"}, False),
    ("f8e4m3fn", "64x64x128_m16x32w4s4", {**LYING, "a_t": "false", "b_t": "true"}, False),
    ("f8e5m2", "64x64x128_wgw4s4", {**LYING, "a_t": "false", "b_t": "true"}, False),
    ("i8", "64x64x128_m16x32w4s4", {**LYING, "a_t": "false", "b_t": "true", "beta": "1"}, False),
)


def problem(parameters: dict[str, str]) -> dict[str, Problem]:
    return {"gemm": Problem(Variant("gemm", tuple(parameters.items())), (1, 1, 1, 1))}


def named(factors: str, wanted: str, machine: Machine = MACHINE) -> Tile:
    """A tile of either kind."""
    waiting = fragment.staged(machine, factors, (64, True), (64, True))
    along_k = factors in fragment.F8  # which have no tiles of the other kind
    others = () if along_k else fragment.tiles(machine, factors)
    return next(each for each in (*others, *waiting) if str(each) == wanted)


@pytest.mark.parametrize(("factors", "wanted", "parameters", "sanitize"), [*CASES, *STAGED])
def test_products_are_right(
    tmp_path: Path,
    builder: Builder,
    monkeypatch: pytest.MonkeyPatch,
    factors: str,
    wanted: str,
    parameters: dict[str, str],
    sanitize: bool,
) -> None:
    machine = find("h200,matrix=yes", "test") if factors in fragment.F8 else MACHINE
    forced(monkeypatch, named(factors, wanted, machine), splits=sanitize)
    # Factors stay as they lie (test_any_extents has copied ones).
    monkeypatch.setattr(padding, "cycles", lambda copied, _: inf if copied else 0.0)
    along_k = DType.table[factors].nbytes != 2  # what lies so in the forward pass alone
    passes = (Pass.FORWARD,) if along_k else (Pass.FORWARD, Pass.BACKWARD)
    given = problem(parameters), *passes
    planned = plan(*given, dtype=DType.table[factors], machine=machine)
    assert all(wanted in kernel.name for kernel in planned.kernels if kernel.template == "gemm.hip")
    tiled = [kernel for kernel in planned.kernels if kernel.template == "gemm.hip"]
    assert len(tiled) == 2 * len(passes) - 1
    assert all(dict(kernel.constants)["multiply"] == "mma" for kernel in tiled)
    assert not failures(make(tmp_path, planned, builder, sanitize=sanitize).good())


@pytest.mark.parametrize("tile", ["64x128x64_wgw4s4", "64x128x64_wgw4s4p", "64x64x64_m16x16w4s4"])
def test_work_groups_compute_several_tiles(
    tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch, tile: str
) -> None:
    """As many as a machine of two units holds, each of which has every so manieth tile."""
    machine = find("h200,num_compute_units=2", "test")
    wanted = named("f16", tile, machine)
    forced(monkeypatch, wanted, splits=False)
    sides = {"m": "136", "n": "264", "k": "136", "b_t": "true", "batch": "3", "beta": "0.5"}
    planned = plan(problem(sides), Pass.FORWARD, dtype=DType.table["f16"], machine=machine)
    (kernel,) = planned.kernels
    (launch,) = planned.steps[0].launches
    assert launch.grid == (dict(kernel.constants)["groups"], 1, 1) == (2 * wanted.at_once, 1, 1)
    assert not failures(make(tmp_path, planned, builder).good())


@dataclass(frozen=True)
class Mutant:
    """One change in the text of a kernel."""

    what: str
    old: str
    new: str

    def __str__(self) -> str:
        return self.what


MUTANTS = (
    Mutant("nothing", "", ""),
    Mutant("the second instruction's columns first",
           "+ lane() / 16 * 2 + lane() % 2)", "+ (1 - lane() / 16) * 2 + lane() % 2)"),
    Mutant("words of a row exchanged",
           "* stride + lane() / 16 * RUN", "* stride + (1 - lane() / 16) * RUN"),
    Mutant("results in another row", "i % 2 * 8 + lane() / 4", "(1 - i % 2) * 8 + lane() / 4"),
)  # fmt: skip
OF_STAGED = (
    MUTANTS[0],
    Mutant("a swizzle of other rows",
           "(k / PIECE ^ at % 8) * 16", "(k / PIECE ^ (at + k / 32) % 8) * 16"),
    Mutant("runs of which nothing is exchanged",
           "[threadIdx.x / 4 * 4 + lane][threadIdx.x % 4]", "[threadIdx.x][lane]"),
    Mutant("a run of another lane",
           "+ threadIdx.x % 4 * LENGTH", "+ (3 - threadIdx.x % 4) * LENGTH"),
    Mutant("a stage that is filled too early", "free = now;", "free = (now + STAGE) % NBYTES;"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("mutant", "wanted", "k"),
    [
        *((mutant, "32x32x64_m16x16w4", "132") for mutant in MUTANTS),
        *((mutant, "64x64x64_m16x16w4s4", "448") for mutant in OF_STAGED),
    ],
    ids=str,
)
def test_a_mutant_is_caught(
    tmp_path: Path,
    builder: Builder,
    monkeypatch: pytest.MonkeyPatch,
    mutant: Mutant,
    wanted: str,
    k: str,
) -> None:
    """What is right has the bits of fused multiply-adds in order of k, rounded once more."""
    forced(monkeypatch, named("f16", wanted), splits=False)
    planned = plan(
        problem({**WHOLE, "k": k}), Pass.FORWARD, dtype=DType.table["f16"], machine=MACHINE
    )
    ((name, text),) = render.kernels(planned).items()
    assert mutant.old in text
    made = make(
        tmp_path,
        planned,
        builder,
        sources={name: text.replace(mutant.old, mutant.new)},
        optimise=False,
    )
    (verdict,) = made.good().values()
    assert verdict.passed is (mutant is MUTANTS[0])
    if verdict.passed:
        inputs = data_file.load(made.bundle.path / "data.h5", planned)
        a, b = (np.array(inputs[f"gemm.{port}"], np.float64) for port in "ab")
        total: np.ndarray[Any, Any] = np.zeros((len(a), len(b)), np.float32)
        for k in range(a.shape[1]):  # products of 11 bits each are exact in float64, and the sum
            total = (total.astype(np.float64) + np.outer(a[:, k], b[:, k])).astype(np.float32)
        assert np.array_equal(made.outputs()["gemm.y"], total.astype(np.float16))
