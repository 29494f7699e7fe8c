"""Every tile of tile.py in every layout: right on the host, and within its registers on AMD GPUs.

The contract tests' problems are small, and so are the tiles that they lead to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from layer_bundles import Problem, failures, make, plan
from layer_variants import Variant, inputs_of
from machine_code import metadata, mgpusim_runs, no_scratch_no_stack_no_spills, together

from simgen.ground.ir import Pass
from simgen.ground.machine import Machine, fitted
from simgen.isa import toolchain
from simgen.layers.conv import implicit_gemm, transform_tiles
from simgen.layers.product import tile
from simgen.layers.product.gemm import Gemm
from simgen.targets.host import Host

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.ground.ir import Kernel
    from simgen.kernels.build import Builder
    from simgen.layers.product.tile import Cut, Tile

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

# Rests in all extents, loads of one and of two elements; and whole tiles with loads of four.
EXTENTS = ((131, 67, 37), (130, 262, 42), (128, 256, 48))
# Which sides are transposed. Extents take turns: each of them has each side both ways.
LAYOUTS = (("", "ab"), ("a", "b"))
REGISTERS = 128  # of a work-item, where a work-group has 256: two groups on a compute unit

# A convolution with rests in all extents of its products, and one with whole tiles, whose sums in
# the forward pass are too short to be cut.
FILTERS = {"kernel_size": "3", "pad": "1", "num_output": "36", "bias": "true"}
CONVOLUTIONS = {
    "gemm": ({**FILTERS, "algo": "implicit_gemm"}, (2, 20, 7, 11)),
    "im2col": ({**FILTERS, "algo": "im2col"}, (2, 20, 7, 11)),
    "winograd": ({**FILTERS, "algo": "winograd"}, (2, 20, 7, 11)),
    "whole": (
        {"kernel_size": "1", "pad": "0", "num_output": "128", "algo": "implicit_gemm"},
        (2, 16, 8, 16),
    ),
}


def forced(monkeypatch: pytest.MonkeyPatch, wanted: Tile, *, splits: bool) -> None:
    """Let every product that may have this tile be cut alike, with a rest in the last chunk."""
    choose = tile.best_cut

    def cut(
        m: int,
        n: int,
        k: int,
        batch: int = 1,
        *,
        machine: Machine,
        tiles: tuple[Tile, ...] = tile.TILES,
        splits: int = tile.SPLITS if splits else 1,
        nbytes: tuple[int, int, int] = tile.WORDS,
        rows: tuple[float, float] = (1.0, 1.0),
    ) -> Cut:
        chunk = 2 * wanted.depth if splits > 1 else k
        made = tile.Cut(wanted, chunk, -(-k // chunk))
        if wanted in tiles:
            return made
        given = {"machine": machine, "tiles": tiles, "splits": splits, "nbytes": nbytes}
        return choose(m, n, k, batch, **given, rows=rows)

    monkeypatch.setattr(tile, "best_cut", cut)


def parameters(extents: tuple[int, int, int], layout: str) -> tuple[tuple[str, str], ...]:
    sides = {f"{side}_t": str(side in layout).lower() for side in "ab"}
    return (*zip("mnk", map(str, extents)), *sides.items(), ("beta", "0.5"))


@pytest.mark.parametrize("sanitize", [False, True], ids=["fast", "sanitize"])
@pytest.mark.parametrize("wanted", tile.TILES, ids=str)
def test_every_tile_is_right(
    tmp_path: Path,
    builder: Builder,
    monkeypatch: pytest.MonkeyPatch,
    wanted: Tile,
    sanitize: bool,
) -> None:
    """With every check on, each layout with rests; at full speed, a layout with whole tiles and one
    with rests, in turns: what layouts do is in the text, which is the same."""
    forced(monkeypatch, wanted, splits=sanitize)
    rests = [(at, layout) for at in (0, 1) for layout in LAYOUTS[at]]
    turn = tile.TILES.index(wanted) % len(rests)
    problems = {
        f"p{at}_{layout}": Problem(Variant("gemm", parameters(EXTENTS[at], layout)), (1, 1, 1, 1))
        for at, layout in (rests if sanitize else [rests[turn], (2, LAYOUTS[0][turn % 2])])
    }
    work, options = plan(problems, Pass.FORWARD), {"sanitize": sanitize}
    assert not failures(make(tmp_path, work, builder, **options).good())


def convolutions() -> dict[str, Problem]:
    return {
        name: Problem(Variant("conv", tuple(given.items())), shape)
        for name, (given, shape) in CONVOLUTIONS.items()
    }


@pytest.mark.parametrize("wanted", tile.TILES, ids=str)
def test_every_tile_of_a_convolution_is_right(
    tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch, wanted: Tile
) -> None:
    forced(monkeypatch, wanted, splits=True)
    planned = plan(convolutions(), Pass.FORWARD, Pass.BACKWARD)
    splits = [dict(k.constants)["splits"] for k in planned.kernels if of_tile(k, wanted)]
    # The largest are those of transforms only.
    assert len(splits) >= (9 if wanted in implicit_gemm.TILES else 3)
    assert 1 in splits
    assert max(splits) > 1
    assert not failures(make(tmp_path, planned, builder, sanitize=True).good())


@pytest.mark.parametrize("wanted", [*tile.TILES, *transform_tiles.NARROWER], ids=str)
def test_every_tile_of_complex_products_is_right(
    tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch, wanted: Tile
) -> None:
    """With rests in all extents and every check on; and whole tiles at full speed."""
    forced(monkeypatch, wanted, splits=False)
    given = {"kernel_size": "3", "pad": "1", "algo": "fft"}
    for name, filters, shape in (
        ("rests", "37", (35, 3, 5, 6)),
        ("whole", str(wanted.rows // 2), (wanted.columns, wanted.depth // 2, 4, 4)),
    ):
        variant = Variant("conv", tuple({**given, "num_output": filters}.items()))
        planned = plan({name: Problem(variant, shape)}, Pass.FORWARD, Pass.BACKWARD)
        assert sum(of_tile(kernel, wanted) for kernel in planned.kernels) == 3
        options = {"sanitize": name == "rests", "optimise": name == "whole"}
        assert not failures(make(tmp_path / name, planned, builder, **options).good())


def of_tile(kernel: Kernel, wanted: Tile) -> bool:
    given = dict(kernel.constants)
    found = tuple(given.get(f"tile_{side}") for side in "mnk")
    return found == (wanted.rows, wanted.columns, wanted.depth)


def tiled(wanted: Tile, monkeypatch: pytest.MonkeyPatch) -> list[Kernel]:
    """The kernels of this tile. im2col's windows are a matrix as gemm's is, and take no more."""
    forced(monkeypatch, wanted, splits=False)
    layers = [
        Gemm.from_config([(name, value, "test") for name, value in parameters(extents, layout)])
        for extents, layouts in zip(EXTENTS[::2], LAYOUTS, strict=True)
        for layout in layouts
    ]
    products = [kernel for layer in layers for kernel in layer.lower((), Pass.FORWARD).kernels]
    of_convolutions = {
        kernel.name: kernel
        for name, problem in convolutions().items()
        if name in ("gemm", "winograd")
        for direction in problem.variant.layer.able
        for kernel in problem.variant.layer.lower(
            inputs_of(problem.variant.layer, problem.shape), direction
        ).kernels
        if of_tile(kernel, wanted)
    }
    return [*products, *of_convolutions.values()]


# A gfx942 has twice the registers: what fits into a gfx803's fits there, so the ends are enough.
REGISTER_TESTS = [
    *((each, "gfx803") for each in tile.TILES),
    *((each, "gfx942") for each in (tile.TILES[0], tile.TILES[-1])),
]


@pytest.mark.parametrize(("wanted", "arch"), REGISTER_TESTS, ids=str)
def test_every_tile_keeps_to_its_registers(
    monkeypatch: pytest.MonkeyPatch, wanted: Tile, arch: str
) -> None:
    kernels = tiled(wanted, monkeypatch)
    text = toolchain.assembly(together(kernels), arch)
    no_scratch_no_stack_no_spills(text)
    if wanted.block == 256 and arch != "gfx942":  # which has 512
        assert max(map(int, metadata(text, "vgpr_count"))) <= REGISTERS
    mgpusim_runs(kernels, text, arch)


def test_products_are_cut_without_empty_chunks() -> None:
    for m, n, k in [(1, 1, 1), (100, 4096, 9162), (4096, 9162, 100), (35, 700, 2048), (9, 9, 1031)]:
        for batch in (1, 16):
            made = tile.best_cut(m, n, k, batch, machine=fitted())
            assert (made.splits - 1) * made.chunk < k <= made.splits * made.chunk
            assert made.splits == 1 or made.chunk % made.tile.depth == 0


def test_large_products_take_the_large_tile_and_small_ones_fill_the_gpu() -> None:
    assert str(tile.best_cut(4096, 4096, 4096, machine=fitted()).tile) == "128x128x8i16"
    small = tile.best_cut(256, 256, 4096, machine=fitted())
    across, down = small.tile.grid(256, 256)
    assert across * down * small.splits >= fitted().units
    assert (
        tile.best_cut(256, 256, 256, machine=fitted()).splits == 1
    )  # a second kernel would take longer


def test_tiles_have_names_of_their_own() -> None:
    assert len({str(each) for each in tile.TILES}) == len(tile.TILES)
