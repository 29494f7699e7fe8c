"""Products by matrix instructions: right on the host, which emulates each lane; and as AMD's code.

The emulation is held against sums in the order that templates/kernels/mfma.h documents, bit by bit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from layer_bundles import Problem, failures, make, plan
from layer_variants import Variant
from machine_code import metadata, no_scratch_no_stack_no_spills, together
from test_tiles import forced

from simgen.ground.ir import DType, Pass
from simgen.ground.machine import find, named
from simgen.isa import toolchain
from simgen.kernels import render
from simgen.layers.product import fragment
from simgen.targets.host import Host
from simgen.tensors import data_file

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.kernels.build import Builder
    from simgen.layers.product.tile import Tile

    Array = NDArray[Any]

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

MACHINE = find("mi210,matrix=yes", "test")
NAMES = ("mi100", "mi210", "mi300a", "mi355x", "rx7900xtx", "rx9060xt")
MACHINES = {named(name).arch: find(f"{name},matrix=yes", "test") for name in NAMES}
TYPES = ("f32", "f16", "bf16", "f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3fn", "f8e5m2", "i8")
TILES = {
    (dtype, str(each)): each
    for machine in MACHINES.values()
    for dtype in TYPES
    if fragment.instructions(machine, dtype)
    for each in fragment.tiles(machine, dtype)
}
# Of each type a tile with several instructions in each direction, or with one for each wavefront.
SOME = (
    ("f32", "64x64x16_m16x4"),
    ("f32", "32x64x8_m32x2"),
    ("f16", "64x64x32_m16x16"),
    ("bf16", "32x64x16_m32x8"),
)
# Of those that machines after these have, or before: architecture, type, tile, and LLVM's name.
MORE = (
    ("gfx908", "bf16", "64x64x32_m16x8", "v_mfma_f32_16x16x8bf16"),
    ("gfx908", "bf16", "32x64x16_m32x4", "v_mfma_f32_32x32x4bf16"),
    ("gfx90a", "i8", "64x64x64_m16x16", "v_mfma_i32_16x16x16i8"),
    ("gfx90a", "i8", "32x64x32_m32x8", "v_mfma_i32_32x32x8i8"),
    ("gfx942", "i8", "64x64x64_m16x32", "v_mfma_i32_16x16x32_i8"),
    ("gfx942", "i8", "32x64x32_m32x16", "v_mfma_i32_32x32x16_i8"),
    ("gfx942", "f8e4m3fnuz", "64x64x64_m16x32", "v_mfma_f32_16x16x32_fp8_fp8"),
    ("gfx942", "f8e5m2fnuz", "32x64x32_m32x16", "v_mfma_f32_32x32x16_bf8_bf8"),
    ("gfx950", "f8e4m3fn", "32x64x32_m32x16", "v_mfma_f32_32x32x16_fp8_fp8"),
    ("gfx950", "f8e5m2", "64x64x64_m16x32", "v_mfma_f32_16x16x32_bf8_bf8"),
    ("gfx950", "f16", "64x64x32_m16x32", "v_mfma_f32_16x16x32_f16"),
    ("gfx950", "f16", "32x64x16_m32x16", "v_mfma_f32_32x32x16_f16"),
    ("gfx950", "bf16", "64x64x32_m16x32", "v_mfma_f32_16x16x32_bf16"),
    ("gfx950", "bf16", "32x64x16_m32x16", "v_mfma_f32_32x32x16_bf16"),
    ("gfx950", "i8", "64x64x64_m16x64", "v_mfma_i32_16x16x64_i8"),
    ("gfx950", "i8", "32x64x32_m32x32", "v_mfma_i32_32x32x32_i8"),
    ("gfx1100", "f16", "64x64x32_m16x16w16", "v_wmma_f32_16x16x16_f16"),
    ("gfx1100", "bf16", "64x32x32_m16x16w16", "v_wmma_f32_16x16x16_bf16"),
    ("gfx1100", "i8", "64x64x64_m16x16w16", "v_wmma_i32_16x16x16_iu8"),
    ("gfx1200", "f16", "32x64x32_m16x16w8", "v_wmma_f32_16x16x16_f16"),
    ("gfx1200", "bf16", "64x64x32_m16x16w8", "v_wmma_f32_16x16x16_bf16"),
    ("gfx1200", "i8", "64x64x64_m16x16w8", "v_wmma_i32_16x16x16_iu8"),
)
# Rests in all extents, with loads of one element, and of four; each side lies both ways.
PRODUCTS = {
    "rests": {"m": "67", "n": "131", "k": "37", "a_t": "true"},
    "whole": {"m": "128", "n": "64", "k": "48", "b_t": "true"},
}
CONVOLUTION = {"kernel_size": "3", "pad": "1", "num_output": "36", "algo": "implicit_gemm"}


def problems(beta: str = "0.5") -> dict[str, Problem]:
    given = {**PRODUCTS, "rests": {**PRODUCTS["rests"], "beta": beta}}
    found = {
        name: Problem(Variant("gemm", tuple(each.items())), (1, 1, 1, 1))
        for name, each in given.items()
    }
    conv = Variant("conv", (*CONVOLUTION.items(), ("bias", "true")))
    return {**found, "conv": Problem(conv, (2, 20, 7, 11))}


@pytest.mark.parametrize("wanted", SOME, ids=str)
def test_products_are_right(
    tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch, wanted: tuple[str, str]
) -> None:
    dtype, _ = wanted
    forced(monkeypatch, TILES[wanted], splits=wanted == SOME[0])
    passes = Pass.FORWARD, Pass.BACKWARD
    planned = plan(problems(), *passes, dtype=DType.table[dtype], machine=MACHINE)
    tiled = [kernel for kernel in planned.kernels if "multiply" in dict(kernel.constants)]
    assert len(tiled) >= 6
    assert all(dict(kernel.constants)["multiply"] == "mfma" for kernel in tiled)
    assert not failures(make(tmp_path, planned, builder, sanitize=wanted == SOME[0]).good())


def in_order(a: Array, b: Array, wanted: Tile) -> Array:
    """A B in float32, added up as mfma.h says: runs of 16 bytes for each group of lanes, of which
    each instruction takes so many elements. What is multiplied has so few bits that float64 is
    exact, so that a fused multiply-add is one rounding."""
    assert wanted.matrix is not None
    run, groups = 16 // wanted.nbytes, 64 // wanted.matrix.m
    depth = -(-a.shape[1] // wanted.depth) * wanted.depth
    order = [
        start + group * run + first + element
        for start in range(0, depth, run * groups)
        for first in range(0, run, wanted.each)
        for group in range(groups)
        for element in range(wanted.each)
    ]
    assert sorted(order) == list(range(depth))
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for k in (k for k in order if k < a.shape[1]):
        total = (total.astype(np.float64) + np.outer(a[:, k], b[k])).astype(np.float32)
    return total


def few_bits(values: Array) -> None:
    values[...] = np.round(values * 2**14) / 2**14


@dataclass(frozen=True)
class Mutant:
    """One change in the text of a kernel."""

    what: str
    old: str
    new: str
    wrong: bool = True  # or only added up in another order

    def __str__(self) -> str:
        return self.what


MUTANTS = (
    Mutant("nothing", "", "", wrong=False),
    Mutant("lanes of the first factor swapped",
           "(wave_column() + lane() % SIDE)", "(wave_column() + (lane() ^ 1) % SIDE)"),
    Mutant("groups of the second factor swapped",
           "(wave_row() + lane() % SIDE) * stride + lane() / SIDE * RUN",
           "(wave_row() + lane() % SIDE) * stride + (GROUPS - 1 - lane() / SIDE) * RUN"),
    Mutant("results in another row",
           "j % RESULTS / 4 * (4 * GROUPS)\n               + lane() / SIDE * 4 + j % 4",
           "j % RESULTS / 4 * (4 * GROUPS) + (lane() / SIDE ^ 1) * 4 + j % 4"),
    Mutant("a step of k left out",
           "start < PART; start += STEP", "start < PART - STEP; start += STEP"),
    Mutant("groups added up backwards",
           f"first[e][group * SIDE + x + next],\n{'':32}second[e][group * SIDE + y]",
           "first[e][(GROUPS - 1 - group) * SIDE + x + next], "
           "second[e][(GROUPS - 1 - group) * SIDE + y]", wrong=False),
)  # fmt: skip


# Of each type a machine that has it, and a tile.
MUTATED = {
    "f32": ("gfx90a", SOME[0][1]),
    "f16": ("gfx90a", SOME[2][1]),
    "bf16": ("gfx90a", SOME[3][1]),
    **{of: (arch, tile) for arch, of, tile, _ in MORE if arch == "gfx942"},
}


@pytest.mark.parametrize("dtype", MUTATED)
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_is_caught(
    tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch, mutant: Mutant, dtype: str
) -> None:
    """By the bounds, where the result is wrong; another order by its bits, of float32."""
    arch, tile = MUTATED[dtype]
    wanted = TILES[dtype, tile]
    forced(monkeypatch, wanted, splits=False)
    given = {"gemm": problems("1" if dtype == "i8" else "0.5")["rests"]}
    planned = plan(given, Pass.FORWARD, dtype=DType.table[dtype], machine=MACHINES[arch])
    name, text = next(iter(render.kernels(planned).items()))
    assert mutant.old in text
    made = make(
        tmp_path,
        planned,
        builder,
        sources={name: text.replace(mutant.old, mutant.new)},
        optimise=False,
    )
    for port in "abc" if dtype == "f32" else "":
        made.rewrite(f"gemm.{port}", few_bits)
    (verdict,) = made.good().values()
    assert verdict.passed is not mutant.wrong
    if dtype != "f32":
        return
    inputs = data_file.load(made.bundle.path / "data.h5", planned)
    a, b, c = (np.array(inputs[f"gemm.{port}"], np.float64) for port in "abc")
    exact = in_order(a.T, b, wanted).astype(np.float64) + 0.5 * c
    same = np.array_equal(made.outputs()["gemm.y"], exact.astype(np.float32))
    assert same is (mutant is MUTANTS[0])


@pytest.mark.parametrize(("wanted", "arch"), [*zip(SOME, ("gfx90a", "gfx942") * 2, strict=True)])
def test_amd_code(monkeypatch: pytest.MonkeyPatch, wanted: tuple[str, str], arch: str) -> None:
    """Each instruction of the tile, in registers; accumulation registers would need more."""
    (dtype, _), chosen = wanted, TILES[wanted]
    forced(monkeypatch, chosen, splits=False)
    kernels = plan(problems(), Pass.FORWARD, dtype=DType.table[dtype], machine=MACHINE).kernels
    tiled = [kernel for kernel in kernels if "multiply" in dict(kernel.constants)]
    text = toolchain.assembly(together(tiled), arch)
    no_scratch_no_stack_no_spills(text)
    assert set(metadata(text, "agpr_count")) == {"0"}
    found = set(re.findall(r"^\s+(v_mfma_\w+)", text, re.M))
    assert chosen.matrix is not None
    form = f"{chosen.matrix.m}x{chosen.matrix.n}x{chosen.matrix.k}"
    gap, end = ("_", "") if arch == "gfx942" else ("", "_1k" if dtype == "bf16" else "")
    assert found == {f"v_mfma_f32_{form}{gap}{dtype}{end}"}


@pytest.mark.parametrize(("arch", "dtype", "tile", "mnemonic"), MORE)
def test_more_amd_code(
    monkeypatch: pytest.MonkeyPatch, arch: str, dtype: str, tile: str, mnemonic: str
) -> None:
    forced(monkeypatch, TILES[dtype, tile], splits=False)
    given = {"gemm": problems()["whole"]}
    planned = plan(given, Pass.FORWARD, dtype=DType.table[dtype], machine=MACHINES[arch])
    text = toolchain.assembly(together(list(planned.kernels)), arch)
    no_scratch_no_stack_no_spills(text)
    assert set(re.findall(r"^\s+(v_w?mf?ma_\w+)", text, re.M)) == {mnemonic}


# On the host, what differs is the type, and how many elements a lane gives.
@pytest.mark.parametrize(
    ("arch", "dtype", "tile"),
    [each[:3] for each in MORE if each[2][:5] == "64x64" or each[1] == "f8e5m2fnuz"],
)
def test_more_products_are_right(
    tmp_path: Path,
    builder: Builder,
    monkeypatch: pytest.MonkeyPatch,
    arch: str,
    dtype: str,
    tile: str,
) -> None:
    forced(monkeypatch, TILES[dtype, tile], splits=False)
    given = {"gemm": problems("1" if dtype == "i8" else "0.5")["rests"]}
    planned = plan(given, Pass.FORWARD, dtype=DType.table[dtype], machine=MACHINES[arch])
    tiled = [kernel for kernel in planned.kernels if "multiply" in dict(kernel.constants)]
    assert {dict(kernel.constants)["multiply"] for kernel in tiled} <= {"mfma", "wmma"}
    assert not failures(make(tmp_path, planned, builder).good())


@pytest.mark.parametrize(
    ("arch", "old", "new"),
    [
        ("gfx1100", "lane() % 2 * 8 + lane() % 16 / 2", "lane() % 16"),
        (
            "gfx1200",
            "0 : lane() / 16 * EACH",
            "0 : 0",
        ),
    ],
)
def test_wmma_with_lanes_swapped_is_caught(
    tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch, arch: str, old: str, new: str
) -> None:
    tile = "64x64x32_m16x16w16" if arch == "gfx1100" else "64x64x32_m16x16w8"
    forced(monkeypatch, TILES["f16", tile], splits=False)
    given = {"gemm": problems()["rests"]}
    planned = plan(given, Pass.FORWARD, dtype=DType.table["f16"], machine=MACHINES[arch])
    name, text = next(iter(render.kernels(planned).items()))
    assert old in text
    made = make(tmp_path, planned, builder, sources={name: text.replace(old, new)}, optimise=False)
    (verdict,) = made.good().values()
    assert not verdict.passed
