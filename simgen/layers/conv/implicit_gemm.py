"""Convolution as a matrix product, on the tiles of tile.py.

A gather: filters (M = output channels, K = input channels and taps) times windows (K, N = pixels of
all samples). The gradient of the filters: gradients of the result (M = filters, K = pixels of all
samples) times windows (K, N = input channels and taps). Groups are a batch of products.

An implicit product finds each element of a window in the tensor itself, while it loads a tile.
im2col has a kernel of its own unroll the windows into a workspace first. The products are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.dtypes import TOGETHER
from simgen.ground.ir import Constants, Kernel, Launch, TensorSpec
from simgen.layers.base import Choice, Lowering
from simgen.layers.conv.geometry import Gather, Geometry, Names, Split, to_result
from simgen.layers.conv.job import Algorithm, ConvJob, Workspaces
from simgen.layers.product import fragment, tile

if TYPE_CHECKING:
    from simgen.ground.machine import Machine

BLOCK = 256  # work-items that unroll windows
GROUPS_OF_UNIT = 4  # work-groups for each compute unit, where the pixels are shared out
MIN_STEPS = 32  # steps of a work-group at least, there
# The largest tiles leave no registers for the places of windows.
TILES = tuple(
    each
    for each in tile.TILES
    if each.rows * each.columns < 128 * 128
    and each.item_rows * each.item_columns * each.depth <= 512
)
WINDOWS = "windows"  # the port of unrolled windows
UNROLLED = (  # what a kernel that unrolls them reads of a gather
    "batch", "groups", "group_in",
    *(f"{axis}_{name}" for axis in ("rows", "columns")
      for name in ("count", "source", "start", "stride", "taps", "gap", "divide")),
)  # fmt: skip


def _factors(of: Gather | Geometry) -> str:
    """What matrix instructions would multiply."""
    return fragment.factors_of(of.dtype, of.dtype, shifted=of.shifted)


def _tiles(machine: Machine, factors: str) -> tuple[tile.Tile, ...]:
    """Tiles of matrix instructions, if they are to multiply."""
    return fragment.tiles(machine, factors) or TILES


def gather(gathers: tuple[Gather, ...], names: Names, *, unrolled: bool) -> Lowering:
    """One product for each gather; partial sums where `gather_split` says so."""
    made = [
        _gather(each, names, at if len(gathers) > 1 else None, unrolled, len(gathers) == 1)
        for at, each in enumerate(gathers)
    ]
    return Lowering(
        tuple(kernel for one in made for kernel in one.kernels),
        tuple(launch for one in made for launch in one.launches),
    )


def windows(gathers: tuple[Gather, ...]) -> TensorSpec:
    """The workspace of im2col; one phase after the other uses it."""
    sizes = [each.groups * each.depth * each.count for each in gathers]
    return TensorSpec((max(sizes),))


def gather_split(gathers: tuple[Gather, ...]) -> Split:
    """How the sum over channels and taps is shared out."""
    found = _tile_cut(gathers[0], several=len(gathers) > 1)
    met = max(each.met for each in gathers)
    terms = min(found.chunk, met) if found.splits > 1 else met
    return Split(found.chunk, found.splits, found.tile.roundings(terms))


def filter_split(g: Geometry) -> Split:
    """How the sum over pixels and samples is shared out."""
    found = _filter_cut(g)
    terms = min(found.chunk, g.batch * g.pixels)
    return Split(found.chunk, found.splits, found.tile.roundings(terms))


def _tile_cut(each: Gather, *, several: bool) -> tile.Cut:
    # Phases write one partial tensor together: each would need as many chunks as the others.
    splits = 1 if several else tile.SPLITS
    m, n, k = each.group_out, each.count, each.depth
    tiles = _tiles(each.machine, _factors(each))
    return tile.best_cut(
        m,
        n,
        k,
        each.groups,
        machine=each.machine,
        tiles=tiles,
        splits=splits,
        nbytes=(each.dtype.nbytes,) * 3,
    )


def gather_tile(gathers: tuple[Gather, ...]) -> tile.Tile:
    """The tile of a gather, or of the first of its phases."""
    return _tile_cut(gathers[0], several=len(gathers) > 1).tile


def filter_tile(g: Geometry) -> tile.Tile:
    """The tile of the gradient of the filters."""
    return _filter_cut(g).tile


def groups(gathers: tuple[Gather, ...]) -> int:
    """Work-groups of all gathers."""
    total = 0
    for each in gathers:
        found = _tile_cut(each, several=len(gathers) > 1)
        total += prod(found.tile.grid(each.group_out, each.count)) * each.groups * found.splits
    return total


def gather_choices(gathers: tuple[Gather, ...]) -> tuple[Choice, ...]:
    """What is planned for a gather, or for the first of its phases."""
    each = gathers[0]
    splits = 1 if len(gathers) > 1 else tile.SPLITS
    sides = each.group_out, each.count, each.depth
    tiles, how = (
        _tiles(each.machine, _factors(each)),
        fragment.explain_matrix(each.machine, _factors(each)),
    )
    nbytes = (each.dtype.nbytes,) * 3
    told = tile.explain_cut(
        *sides, each.groups, machine=each.machine, tiles=tiles, splits=splits, nbytes=nbytes
    )
    return (*how, *told)


def filter_choices(g: Geometry) -> tuple[Choice, ...]:
    """What is planned for the gradient of the filters."""
    sides = g.group_filters, g.group_channels * g.taps, g.batch * g.pixels
    size, chunks = tile.explain_cut(
        *sides,
        g.groups,
        machine=g.machine,
        tiles=_tiles(g.machine, _factors(g)),
        nbytes=(g.dtype.nbytes,) * 3,
    )
    found = _filter_cut(g)
    across, down = found.tile.grid(sides[0], sides[1])
    groups = across * down * g.groups * found.splits
    why = f"{groups} work-groups on {g.machine.units} units share all pixels"
    if found.splits > 1:
        chunks = Choice(chunks.what, f"{found.splits} of {found.chunk}", why)
    return (
        *fragment.explain_matrix(g.machine, _factors(g)),
        Choice(size.what, size.chosen, why),
        chunks,
    )


def _filter_cut(g: Geometry) -> tile.Cut:
    """As `tile.best_cut`, with as many chunks as fill a GPU: the sum is by far the longest side."""
    columns, depth = g.group_channels * g.taps, g.batch * g.pixels
    sides = g.group_filters, columns, depth
    found = tile.best_cut(
        *sides,
        g.groups,
        machine=g.machine,
        tiles=_tiles(g.machine, _factors(g)),
        nbytes=(g.dtype.nbytes,) * 3,
    )
    across, down = found.tile.grid(g.group_filters, columns)
    steps = ceil(depth / found.tile.depth)
    wanted = min(GROUPS_OF_UNIT * g.machine.units // (across * down * g.groups), steps // MIN_STEPS)
    if wanted <= found.splits:
        return found
    chunk = ceil(steps / wanted) * found.tile.depth
    return tile.Cut(found.tile, chunk, ceil(depth / chunk))


def _gather(each: Gather, names: Names, phase: int | None, unrolled: bool, alone: bool) -> Lowering:
    found = _tile_cut(each, several=not alone)
    algorithm = "im2col" if unrolled else "gemm"
    pixels = each.rows.count * each.columns.count
    along_m = each.out_stride == 1 and each.group_in > 1
    straight = not along_m and each.straight
    writes = names if found.splits == 1 else names.summing
    constants: Constants = (
        *writes.constants,
        *each.constants,
        ("unrolled", int(unrolled)),
        ("straight", int(straight)),
        ("splits", found.splits),
        ("chunk", found.chunk),
        ("left_along", "m" if along_m else "k"),
        ("left_width", _left_width(each, along_m=along_m, straight=straight)),
        ("right_along", "n"),
        ("right_width", tile.width(pixels) if unrolled else 1),
        ("store_width", _store_width(each)),
        *found.tile.constants,
        *names.elements("filter", *(() if unrolled else ("source",))),
        *names.added,
        *writes.result,
    )
    name = names.kernel(algorithm, phase)
    kernel = Kernel(name, "conv_gemm.hip", found.tile.block, constants)
    across, down = found.tile.grid(each.group_out, each.count)
    written = names.partial if found.splits > 1 else names.target
    read = WINDOWS if unrolled else names.source
    args = (read, *writes.gather_args[1:-1], written)
    launch = Launch(name, (across, down, each.groups * found.splits), args)
    if not unrolled:
        return Lowering((kernel,), (launch,))
    first = _unroll(each, names, phase)
    return Lowering((*first.kernels, kernel), (*first.launches, launch))


def _store_width(each: Gather) -> int:
    """Elements of a store of results."""
    return tile.width(each.rows.count * each.columns.count) if each.whole else 1


def _left_width(each: Gather, *, along_m: bool, straight: bool) -> int:
    """Elements of a load of filters."""
    if along_m:
        return tile.width(each.group_out)
    return tile.width(each.depth) if straight else 1


def _unroll(each: Gather, names: Names, phase: int | None) -> Lowering:
    wide = 4 if each.columns.count % 4 == 0 else 1
    name = names.kernel("windows", phase)
    constants: Constants = (*each.some(*UNROLLED), ("wide", wide), *names.elements("source"))
    kernel = Kernel(name, "conv_windows.hip", BLOCK, constants)
    grid = (ceil(each.groups * each.depth * each.count / (wide * BLOCK)), 1, 1)
    return Lowering((kernel,), (Launch(name, grid, (names.source, WINDOWS)),))


def stores(gathers: tuple[Gather, ...], g: Geometry) -> bool:
    """Whether the kernels store by fours what they compute, as narrow elements must be; without
    gathers, that is the gradient of the filters."""
    if not gathers:
        return _filter_store_width(g) == TOGETHER
    return all(_store_width(each) == TOGETHER for each in gathers)


def _filter_store_width(g: Geometry) -> int:
    """Elements of a store of filters."""
    turned = g.flipped and g.taps > 1
    return 1 if turned else tile.width(g.group_channels * g.taps)


def filters(g: Geometry, names: Names, *, unrolled: bool) -> Lowering:
    """The gradient of the filters, or its partial sums."""
    found = _filter_cut(g)
    columns = g.group_channels * g.taps
    constants: Constants = (
        *g.constants,
        ("unrolled", int(unrolled)),
        ("splits", found.splits),
        ("chunk", found.chunk),
        ("left_along", "k"),
        ("left_width", tile.width(g.pixels)),
        ("right_along", "k"),
        ("right_width", tile.width(g.pixels) if unrolled else 1),
        ("store_width", _filter_store_width(g)),
        *found.tile.constants,
        *names.elements("result", *(() if unrolled else ("source",))),
        *(names if found.splits == 1 else names.summing).result,
    )
    name = names.kernel("im2col" if unrolled else "gemm")
    kernel = Kernel(name, "conv_gemm_filters.hip", found.tile.block, constants)
    across, down = found.tile.grid(g.group_filters, columns)
    written = names.partial if found.splits > 1 else names.target
    read = WINDOWS if unrolled else names.source
    grid = (across, down, g.groups * found.splits)
    launch = Launch(name, grid, (read, names.filters, written))
    if not unrolled:
        return Lowering((kernel,), (launch,))
    (windows_of,) = to_result(g.straightened)
    first = _unroll(windows_of, names, None)
    return Lowering((*first.kernels, kernel), (*first.launches, launch))


@dataclass(frozen=True)
class ImplicitGemm(ConvJob):
    algorithm = Algorithm.IMPLICIT_GEMM
    unrolled: ClassVar[bool] = False

    @property
    def fault(self) -> str:
        return ""

    @property
    def split(self) -> Split:
        return filter_split(self.g) if self.of_filters else gather_split(self.gathers)

    @property
    def by_fours(self) -> bool:
        return stores(self.gathers, self.g)

    @property
    def tile(self) -> tile.Tile:
        return filter_tile(self.g) if self.of_filters else gather_tile(self.gathers)

    def planned(self) -> tuple[Choice, ...]:
        return filter_choices(self.g) if self.of_filters else gather_choices(self.gathers)

    def products(self) -> Lowering:
        if self.of_filters:
            return filters(self.g, self.typed, unrolled=self.unrolled)
        return gather(self.gathers, self.typed, unrolled=self.unrolled)


@dataclass(frozen=True)
class Im2col(ImplicitGemm):
    algorithm = Algorithm.IM2COL
    unrolled = True

    def copies(self) -> Workspaces:
        return ((WINDOWS, windows(self.gathers or to_result(self.g))),)
