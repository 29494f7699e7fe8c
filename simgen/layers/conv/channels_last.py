"""Convolution as a matrix product of tensors with channels last, on NVIDIA's matrix cores.

Factors of 16 bits go to LDS in whole runs of 16 bytes, several steps ahead of what is multiplied
(templates/kernels/staged.h, warpgroups.h). Channels before pixels, a tap would shift such runs by
elements; so one launch first makes copies with channels last, filled up to a multiple of 8 with
zeros, and filters become (taps, filters, channels). A sum goes over the taps, and of each over the
channels. What comes out has channels before pixels again.

The gradient of the filters is (filters, taps, channels) as long as it is partial sums.

Where a stride of the gradient of an image leaves pixels that no tap meets, the phase that is met
writes zeros beside its own pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, prod
from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices
from simgen.ground.dtypes import TOGETHER
from simgen.ground.ir import Kernel, Launch, TensorMap, TensorSpec, Windows
from simgen.layers.base import CHUNKS, Choice, Lowering
from simgen.layers.conv import channels_last_copies as copies
from simgen.layers.conv.channels_last_copies import BLOCK, RUN, WIDEST, filled, has_planes
from simgen.layers.conv.channels_last_cut import TWINS, Circumstances, Sides, TapCut, best
from simgen.layers.conv.geometry import PHASES, Gather, GatherAxis, Split, phase_axis, phase_taps
from simgen.layers.conv.job import Algorithm, ConvJob, Unknown, Workspaces
from simgen.layers.conv.spread_of_sums import in_any_order
from simgen.layers.product import fragment, tile
from simgen.layers.product.elements import constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.ground.ir import Constants
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.conv.geometry import Geometry, Names

CORNER, OFFSET, STRIDE = 128, 256, 8  # what the tensor memory accelerator counts up to
SLICES = 8  # work-items that share a sum of partial gradients
NARROW_GAIN = 1.4  # measured, of gradients of 1 x 1 filters
FILLED = 4096  # work-groups from which on they need not


@dataclass(frozen=True)
class GatherPart:
    """What one launch computes: a gather, or a phase of it."""

    gather: Gather
    fill: tuple[int, int] = (1, 1)  # rows and columns that it writes for each of its own
    twins: bool = False  # whether it writes two phases of columns, side by side
    twin: GatherAxis | None = None  # the second one, where any tap meets it

    @property
    def taps(self) -> int:
        rows, columns = self.gather.rows, self.gather.columns
        return rows.taps * (columns.taps + (self.twin.taps if self.twin else 0))

    @property
    def whole(self) -> bool:
        """Whether this is all: no phase."""
        return self.fill == (1, 1) and not self.twins

    @property
    def written(self) -> int:
        """Places that it writes for each result: that, and zeros."""
        lone = self.twins and not (self.twin and self.twin.taps)
        return prod(self.fill) * (2 if lone else 1)


def fits(g: Geometry, of_filters: bool, gathers: Sequence[Gather]) -> bool:
    """Whether there are kernels for this; without gathers, of the gradient of the filters."""
    return multiplies(g, of_filters) and (of_filters or bool(_parts(g, gathers)))


def multiplies(g: Geometry, of_filters: bool) -> bool:
    """Whether there are tiles for its type, groups and machine: what is left to fit are strides."""
    narrow = g.dtype.nbytes == 2 and g.dtype.is_float
    return g.groups == 1 and narrow and not g.shifted and bool(_staged(g, of_filters, False))


def tile_of(g: Geometry, gathers: Sequence[Gather]) -> tile.Tile:
    """Tile of the product, or of the first of several."""
    return (_tap_cut(g, gathers) if gathers else _filter_cut(g)).tile


def split(g: Geometry, gathers: Sequence[Gather]) -> Split:
    """How sums are shared out."""
    found = _tap_cut(g, tuple(gathers)) if gathers else _filter_cut(g)
    terms = max((each.met for each in gathers), default=g.batch * g.pixels)
    most = min(found.cut.chunk, terms) if found.cut.splits > 1 else terms
    return Split(found.cut.chunk, found.cut.splits, found.tile.roundings(most))


def choices(g: Geometry, gathers: Sequence[Gather]) -> tuple[Choice, ...]:
    """What is planned, of the first of several gathers."""
    found = _tap_cut(g, tuple(gathers)) if gathers else _filter_cut(g)
    groups = prod(_grid(g, gathers, found))
    why = f"{groups} work-groups on {g.machine.units} units"
    chunks = f"{found.cut.splits} of {found.cut.chunk}" if found.cut.splits > 1 else "1"
    how = fragment.explain_matrix(g.machine, g.dtype.name, found.tile)
    return (*how, Choice("tile", str(found.tile), why), Choice(CHUNKS, chunks, why))


def workspaces(
    g: Geometry, gathers: Sequence[Gather], names: Names
) -> list[tuple[str, TensorSpec]]:
    """(port, tensor) of the copies."""
    turned = copies.needed(copies.copied_ports(g, gathers, names))
    return [(copies.last(port), TensorSpec((each.size,), g.dtype)) for port, each in turned.items()]


def gather(g: Geometry, gathers: Sequence[Gather], names: Names) -> Lowering:
    """The copies, and one product for each phase; partial sums where `split` says so."""
    turned = copies.copied_ports(g, gathers, names)
    parts = _parts(g, gathers)
    made = [
        copies.lower(turned),
        *(
            _gather(g, gathers, each, at if len(parts) > 1 else None, names)
            for at, each in enumerate(parts)
        ),
    ]
    return _joined(made)


def filters(g: Geometry, names: Names) -> Lowering:
    """The copies, the gradient of the filters or its partial sums, and the sum of these, which
    makes the order of the result too."""
    found = _filter_cut(g)
    made = [copies.lower(copies.copied_ports(g, (), names)), _filters(g, found, names)]
    if _partial(g, found):
        made.append(_sum(g, found.cut.splits, names))
    return _joined(made)


def partial(g: Geometry) -> TensorSpec | None:
    """Partial sums of the gradient of the filters, where there are some."""
    found = _filter_cut(g)
    return TensorSpec((found.cut.splits, g.size)) if _partial(g, found) else None


def _partial(g: Geometry, found: TapCut) -> bool:
    return found.cut.splits > 1 or g.taps > 1


def _joined(made: Sequence[Lowering]) -> Lowering:
    kernels = dict.fromkeys(kernel for each in made for kernel in each.kernels)
    return Lowering(tuple(kernels), tuple(launch for each in made for launch in each.launches))


# ---- How products are cut ----


def _parts(g: Geometry, gathers: Sequence[Gather]) -> tuple[GatherPart, ...]:
    """The gathers, of which none divides; nothing where there are none such."""
    undivided = all(each.rows.divide == each.columns.divide == 1 for each in gathers)
    if undivided and gathers[0].columns.step == 1:
        return tuple(GatherPart(each) for each in gathers)
    if prod(g.stride) > PHASES:
        return ()
    rows, columns = (_axes(g, at) for at in (0, 1))
    twins = bool(columns) and g.stride[1] == TWINS and g.image[1] % TWINS == 0
    made = []
    for row, down in rows:
        if twins:
            one = replace(gathers[0], rows=row, columns=columns[0][0])
            second = columns[1][0] if len(columns) > 1 else None
            made.append(GatherPart(one, (down, 1), True, second))
            continue
        for column, across in columns:
            made.append(GatherPart(replace(gathers[0], rows=row, columns=column), (down, across)))
    return tuple(made)


def _axes(g: Geometry, at: int) -> list[tuple[GatherAxis, int]]:
    """Phases, and how many places each writes for one of its own."""
    met = [bool(phase_taps(g, at, phase)) for phase in range(min(g.stride[at], g.image[at]))]
    if all(met):
        return [(phase_axis(g, at, phase), 1) for phase in range(len(met))]
    if met[0] and not any(met[1:]) and g.image[at] % g.stride[at] == 0:
        return [(phase_axis(g, at, 0), g.stride[at])]
    return []


def _grid(g: Geometry, gathers: Sequence[Gather], found: TapCut) -> tuple[int, int, int]:
    """Grid of the product, or of the first of several."""
    if not gathers:
        return (*found.tile.grid(g.filters, g.taps * found.of_tap), found.cut.splits)
    one = _parts(g, gathers)[0].gather
    return _grid_of(g, one, found)


def _grid_of(g: Geometry, one: Gather, found: TapCut) -> tuple[int, int, int]:
    across, down = _tiles_of(g, one, found)
    return (found.streams, 1, 1) if found.streams else (across, down, found.cut.splits)


def _tiles_of(g: Geometry, one: Gather, found: TapCut) -> tuple[int, int]:
    """Tiles of the target: across, of all samples, and down."""
    n, batch = (one.count // one.batch, one.batch) if has_planes(g, False) else (one.count, 1)
    across, down = found.tile.grid(one.group_out, n)
    return batch * across, down


def _staged(g: Geometry, of_filters: bool, along_m: bool) -> tuple[tile.Tile, ...]:
    """Tiles of products whose factors are stored with channels or pixels adjacent. Adjacent
    channels may be k or not."""
    left = filled(g.filters if of_filters else g.channels, RUN), not (of_filters or along_m)
    right = RUN, not of_filters
    if has_planes(g, of_filters):
        left, right = (left if not of_filters else (RUN, True)), (RUN, of_filters)
    found = fragment.staged(g.machine, g.dtype.name, left, right)
    return tuple(each for each in found if not each.paired)


def _options(
    g: Geometry, tiles: tuple[tile.Tile, ...], channels: int, mapped: bool
) -> list[tuple[tuple[tile.Tile, ...], int]]:
    """Tiles by what they have for each tap: warpgroups whole panels, others whole runs."""
    whole = tuple(each for each in tiles if each.by_warpgroups and mapped)
    others = tuple(each for each in tiles if not each.by_warpgroups)
    found = (whole, filled(channels, WIDEST)), (others, filled(channels, RUN))
    return [each for each in found if each[0]]


def _windows(one: Gather) -> Windows | None:
    """What a map says of a gather; None: more than it can."""
    axes = one.rows, one.columns
    beyond = [a.start + (a.count - 1) * a.stride - (a.source - 1) for a in axes]
    corners = all(-CORNER <= each < CORNER for each in (*(a.start for a in axes), *beyond))
    steps = all(a.stride <= STRIDE and (a.taps - 1) * a.gap < OFFSET for a in axes)
    if not corners or not steps:
        return None
    rows, columns = axes
    return Windows(
        (rows.source, columns.source),
        (rows.start, columns.start),
        (beyond[0], beyond[1]),
        (rows.stride, columns.stride),
    )


@lru_cache(maxsize=256)  # a layer's ports, kernels and bounds all ask for it
def _tap_cut(g: Geometry, gathers: tuple[Gather, ...]) -> TapCut:
    """Best cut for all phases, which write one tensor together. Several phases cut no sum."""
    parts = _parts(g, gathers)
    one, planes = parts[0].gather, has_planes(g, False)
    tiles = _staged(g, False, one.out_stride < one.in_stride)
    mapped = planes or all(_windows(each) for part in parts for each in _gathers_of_part(part))
    taps = max(each.taps for each in parts)
    alone = len(parts) == 1 and parts[0].whole
    n, batch = (one.count // one.batch, one.batch) if planes else (one.count, 1)

    def sides(of_tap: int) -> Sides:
        return one.group_out, n, taps * of_tap, batch

    options = _options(g, tiles, one.group_in, mapped)
    most, twins = tile.SPLITS if alone else 1, parts[0].twins
    kind = Circumstances(filled=max(each.written for each in parts))
    return best(g.machine, options, sides, most, kind=kind, twins=twins, streams=True)


@lru_cache(maxsize=256)
def _filter_cut(g: Geometry) -> TapCut:
    """A cut into as many chunks as fill a GPU: the sum is by far the longest side."""
    planes = has_planes(g, True)
    of_sample = filled(g.pixels, WIDEST) if planes else g.pixels

    def sides(of_tap: int) -> Sides:
        return g.filters, g.taps * of_tap, g.batch * of_sample, 1

    mapped = planes or _image_windows(g) is not None
    options = _options(g, _staged(g, True, True), g.channels, mapped)
    most = g.batch * g.pixels
    moved = 2 * g.batch * (g.channels * prod(g.image) + g.filters * g.pixels)
    narrow = NARROW_GAIN if g.taps == 1 else 1.0
    crowded = g.channels < WIDEST
    streaming = not crowded and any(each.by_warpgroups for tiles, _ in options for each in tiles)
    kind = Circumstances(crowded=crowded, moved=moved, streaming=streaming, narrow=narrow)
    return best(g.machine, options, sides, most, kind=kind)


def _gathers_of_part(part: GatherPart) -> tuple[Gather, ...]:
    """The gathers that it is."""
    second = (replace(part.gather, columns=part.twin),) if part.twin else ()
    return (part.gather, *second)


def _image_windows(g: Geometry) -> Windows | None:
    """Windows of the image that the first tap meets."""
    pairs = list(zip(g.result, g.stride, g.pad, g.image, g.kernel, g.dilation, strict=True))
    beyond = [(p - 1) * u - a - (h - 1) for p, u, a, h, _, _ in pairs]
    corners = all(-CORNER <= each < CORNER for each in (*(-a for a in g.pad), *beyond))
    steps = all(u <= STRIDE and (r - 1) * d < OFFSET for _, u, _, _, r, d in pairs)
    first = -g.pad[0], -g.pad[1]
    return Windows(g.image, first, (beyond[0], beyond[1]), g.stride) if corners and steps else None


# ---- Products ----


def _gather(
    g: Geometry, gathers: Sequence[Gather], part: GatherPart, phase: int | None, names: Names
) -> Lowering:
    each, found = part.gather, _tap_cut(g, tuple(gathers))
    planes, along_m = has_planes(g, False), each.out_stride < each.in_stride
    turned = copies.copied_ports(g, gathers, names)
    source, bank = turned[names.source], turned[names.filters]
    writes = names if found.cut.splits == 1 else names.summing
    depth = each.rows.taps * each.columns.taps * found.of_tap
    held = each.group_in if planes else source.held
    constants: Constants = (
        *writes.constants,
        *each.constants,
        ("stages", found.tile.stages),
        ("tensor_maps", int(found.tile.by_warpgroups)),
        ("streams", found.streams),
        ("source_held", held),
        ("filter_rows", bank.batch),
        ("filter_columns", bank.held),
        ("of_tap", found.of_tap),
        ("rows_fill", part.fill[0]),
        ("columns_fill", part.fill[1]),
        ("planes", int(planes)),
        ("twins", int(part.twins)),
        ("twin_taps", part.twin.taps if part.twin else 0),
        ("twin_start", part.twin.start if part.twin else 0),
        ("twin_filter_first", part.twin.filter_first if part.twin else 0),
        ("splits", found.cut.splits),
        ("chunk", found.cut.chunk if found.cut.splits > 1 else depth),
        *_lying("m" if along_m else "k", "n" if planes else "k"),
        *found.tile.constants,
        *names.elements("filter", "source"),
        *names.added,
        *writes.result,
    )
    maps: tuple[TensorMap, ...] = ()
    if found.tile.by_warpgroups:
        rows = found.tile.depth if along_m else found.tile.rows
        left = TensorMap(1, 2, (g.taps, bank.batch, bank.held), (rows, WIDEST))
        shape = source.batch, source.pixels, source.held
        box = found.tile.columns, WIDEST
        right = tuple(TensorMap(0, 2, shape, box, _windows(one)) for one in _gathers_of_part(part))
        if planes:
            shape, box = (source.batch, held, source.pixels), (found.tile.depth, WIDEST)
            right = (TensorMap(0, 2, shape, box),)
        maps = left, *right
    name = names.kernel("last", phase)
    tiles = prod(_tiles_of(g, each, found)) if found.streams else 0
    kernel = replace(_kernel(name, "conv_last.hip", found, constants, maps), tiles=tiles)
    written = names.partial if found.cut.splits > 1 else names.target
    args = (*copies.ports_read(turned), *writes.gather_args[2:-1], written)
    return Lowering((kernel,), (Launch(name, _grid_of(g, each, found), args),))


def _filters(g: Geometry, found: TapCut, names: Names) -> Lowering:
    turned, several = copies.copied_ports(g, (), names), _partial(g, found)
    planes = has_planes(g, True)
    image, result = turned[names.source], turned[names.filters]
    constants: Constants = (
        *g.constants,
        ("stages", found.tile.stages),
        ("tensor_maps", int(found.tile.by_warpgroups)),
        ("source_held", image.held),
        ("result_held", result.held),
        ("of_tap", found.of_tap),
        ("planes", int(planes)),
        ("splits", found.cut.splits),
        ("chunk", found.cut.chunk),
        *(_lying("k", "k") if planes else _lying("m", "n")),
        *found.tile.constants,
        *names.elements("result", "source"),
        *(names.summing if several else names).result,
    )
    maps: tuple[TensorMap, ...] = ()
    if found.tile.by_warpgroups:
        box = found.tile.depth, WIDEST
        left = TensorMap(1, 2, (1, g.batch * g.pixels, result.held), box)
        shape = image.batch, image.pixels, image.held
        maps = left, TensorMap(0, 2, shape, box, _image_windows(g))
        if planes:
            of = tuple((each.batch, each.channels, each.pixels) for each in (result, image))
            left = TensorMap(1, 2, of[0], (found.tile.rows, WIDEST))
            maps = left, TensorMap(0, 2, of[1], (found.tile.columns, WIDEST))
    name = names.kernel("last")
    kernel = _kernel(name, "conv_last_filters.hip", found, constants, maps)
    grid = _grid(g, (), found)
    args = (*copies.ports_read(turned), names.partial if several else names.target)
    return Lowering((kernel,), (Launch(name, grid, args),))


def _lying(left: str, right: str) -> Constants:
    """How elements lie side by side, in runs of what is moved at once."""
    return (
        ("left_along", left), ("left_width", RUN), ("right_along", right), ("right_width", RUN),
        ("store_width", 1),
    )  # fmt: skip


def _kernel(
    name: str, template: str, of: TapCut, constants: Constants, maps: tuple[TensorMap, ...]
) -> Kernel:
    block, movers = of.tile.block, of.tile.movers
    return Kernel(name, template, block, constants, of.lds_nbytes, maps, movers)


def _sum(g: Geometry, terms: int, names: Names) -> Lowering:
    """A launch that adds the partial gradients of the filters."""
    quads = ceil(g.size / TOGETHER)
    slices = SLICES if terms > SLICES and ceil(quads / BLOCK) < FILLED else 1
    constants: Constants = (
        ("terms", terms),
        ("filters", g.filters),
        ("channels", g.channels),
        ("taps", g.taps),
        ("flipped", int(g.flipped)),
        ("slices", slices),
        *constant("element", names.stored),
    )
    name = f"{names.kernel('last')}_sum{terms}"
    kernel = Kernel(name, "conv_last_sum.hip", BLOCK, constants)
    grid = (ceil(quads * slices / BLOCK), 1, 1)
    return Lowering((kernel,), (Launch(name, grid, (names.partial, names.target)),))


@dataclass(frozen=True)
class ChannelsLast(ConvJob):
    algorithm = Algorithm.CHANNELS_LAST

    @property
    def fits(self) -> bool:
        return fits(self.g, self.of_filters, self.gathers)

    @property
    def fault(self) -> str:
        if self.fits:
            return ""
        if not multiplies(self.g, self.of_filters):
            return (
                ": algorithm channels_last takes one group of f16 or bf16, planned for an "
                f"NVIDIA GPU with {BuildChoices.matrix}; choose implicit_gemm"
            )
        # What strides make of the pixels of an image, and the key that changes this pass alone.
        phases, target = prod(self.g.stride), self.names.target
        many = f"pixels have {phases} phases, more than {PHASES}"
        strided = many if phases > PHASES else "some pixels meet no tap"
        instead = "algod=implicit_gemm" if target == "dx" else "implicit_gemm"
        fact = f": algorithm channels_last cannot compute {target}, of which {strided}"
        return f"{fact}; choose {instead}"

    @property
    def split(self) -> Split:
        return split(self.g, self.gathers)

    @property
    def by_fours(self) -> bool:
        return True  # one by one, where they do not lie by fours

    @property
    def sums_follow(self) -> bool:
        return not self.of_filters and super().sums_follow

    @property
    def tile(self) -> tile.Tile:
        return tile_of(self.g, self.gathers)

    def planned(self) -> tuple[Choice, ...]:
        return choices(self.g, self.gathers)

    def copies(self) -> Workspaces:
        made = tuple(workspaces(self.g, self.gathers, self.names))
        sums = partial(self.g) if self.of_filters else None
        return (*made, (self.names.partial, sums)) if sums else made

    def native(self) -> frozenset[str]:
        return frozenset({self.names.source, self.names.filters} if self.g.last else ())

    def products(self) -> Lowering:
        if self.of_filters:
            return filters(self.g, self.typed)
        return gather(self.g, self.gathers, self.typed)

    def walked(self, source: Array, filters: Array) -> tuple[Array, Array]:
        if self.of_filters:
            return super().walked(source, filters)
        of_result = self.unknown is Unknown.RESULT  # taps before channels
        return in_any_order(source, filters, self.g, self.split, of_result)
