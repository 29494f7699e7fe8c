"""Every tile of tile.py in every layout: right on the host, and within its registers on AMD GPUs.

The contract tests' problems are small, and so are the tiles that they lead to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from layer_bundles import Problem, failures, make, plan
from layer_variants import Variant

from simgen import render, toolchain
from simgen.ir import Pass
from simgen.layers import tile
from simgen.layers.gemm import Gemm
from simgen.targets.host import Host

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.build import Builder
    from simgen.ir import Kernel
    from simgen.layers.tile import Cut, Tile

pytestmark = pytest.mark.skipif(
    bool(Host().missing()), reason="this machine cannot run the host target"
)

# Rests in all extents, loads of one and of two elements; and whole tiles with loads of four.
EXTENTS = ((131, 67, 37), (130, 262, 42), (128, 256, 48))
# Which sides are transposed. Extents take turns: each of them has each side both ways.
LAYOUTS = (("", "ab"), ("a", "b"))
REGISTERS = 128  # of a work-item, where a work-group has 256: two groups on a compute unit


def forced(monkeypatch: pytest.MonkeyPatch, wanted: Tile, *, splits: bool) -> None:
    """Let every product that may have this tile be cut alike, with a rest in the last chunk."""
    choose = tile.cut

    def cut(m: int, n: int, k: int, *, tiles: tuple[Tile, ...] = tile.TILES) -> Cut:
        chunk = 2 * wanted.depth if splits else k
        made = tile.Cut(wanted, chunk, -(-k // chunk))
        return made if wanted in tiles else choose(m, n, k, tiles=tiles)

    monkeypatch.setattr(tile, "cut", cut)


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
    forced(monkeypatch, wanted, splits=sanitize)
    problems = {
        f"p{at}_{layout}": Problem(Variant("gemm", parameters(extents, layout)), (1, 1, 1, 1))
        for at, extents in enumerate(EXTENTS[: 2 if sanitize else 3])
        for layout in LAYOUTS[at % 2]
    }
    assert not failures(
        make(tmp_path, plan(problems, Pass.FORWARD), builder, sanitize=sanitize).good()
    )


def tiled(wanted: Tile, monkeypatch: pytest.MonkeyPatch) -> list[Kernel]:
    """The kernels of this tile."""
    forced(monkeypatch, wanted, splits=False)
    layers = [
        Gemm.from_config([(name, value, "test") for name, value in parameters(extents, layout)])
        for extents, layouts in zip(EXTENTS[::2], LAYOUTS, strict=True)
        for layout in layouts
    ]
    return [kernel for layer in layers for kernel in layer.lower((), Pass.FORWARD).kernels]


@pytest.mark.parametrize("arch", ["gfx803", "gfx942"])
@pytest.mark.parametrize("wanted", tile.TILES, ids=str)
def test_every_tile_keeps_to_its_registers(
    monkeypatch: pytest.MonkeyPatch, wanted: Tile, arch: str
) -> None:
    include = f'#include "{render.PRELUDE}"\n'
    bodies = [render.kernel(kernel).replace(include, "") for kernel in tiled(wanted, monkeypatch)]
    spaces = [f"namespace kernel_{at} {{\n{body}\n}}\n" for at, body in enumerate(bodies)]
    text = toolchain.assembly(render.self_contained(include + "".join(spaces)), arch)
    assert set(found(text, "vgpr_spill_count")) == {0}
    assert set(found(text, "sgpr_spill_count")) == {0}
    assert set(found(text, "private_segment_fixed_size")) == {0}
    if wanted.block == 256 and arch != "gfx942":  # which has 512
        assert max(found(text, "vgpr_count")) <= REGISTERS


def found(text: str, key: str) -> list[int]:
    """The values of a key in the metadata of all kernels."""
    return [int(value) for value in re.findall(rf"^\s+(?:- )?\.{key}:\s+(\d+)$", text, re.M)]


def test_products_are_cut_without_empty_chunks() -> None:
    for m, n, k in [(1, 1, 1), (100, 4096, 9162), (4096, 9162, 100), (35, 700, 2048), (9, 9, 1031)]:
        for batch in (1, 16):
            made = tile.cut(m, n, k, batch)
            assert (made.splits - 1) * made.chunk < k <= made.splits * made.chunk
            assert made.splits == 1 or made.chunk % made.tile.depth == 0


def test_large_products_take_the_large_tile_and_small_ones_fill_the_gpu() -> None:
    assert str(tile.cut(4096, 4096, 4096).tile) == "128x128x8"
    small = tile.cut(256, 256, 256)
    across, down = small.tile.grid(256, 256)
    assert across * down * small.splits >= tile.UNITS / 2


def test_tiles_have_names_of_their_own() -> None:
    assert len({str(each) for each in tile.TILES}) == len(tile.TILES)
