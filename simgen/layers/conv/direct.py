"""Direct convolution: no matrix is made, in memory or in thought.

A gather (conv_direct.hip): each work-item holds `filters` x `sets` x `wide` results, `wide` of
them side by side in a row, so that a pixel that is loaded serves several taps and all filters.
The filters lie in LDS, for `chunk` channels at a time.

The gradient of the filters (conv_direct_filters.hip): a work-item holds, of `filters` filters,
the `span` taps of one run: one channel, one r, neighbouring s. A work-group has `octets` x `runs`
such items and `slices` of each, which share the pixels of the lines that lie in LDS; at the end the
slices are added up. Lines are shared out to `splits` work-groups, whose sums a second kernel adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from simgen.ground.ir import Constants, Kernel, Launch
from simgen.layers.base import CHUNKS, Choice, Lowering
from simgen.layers.conv.geometry import Gather, Geometry, Names, Split
from simgen.layers.conv.job import Algorithm, ConvJob

if TYPE_CHECKING:
    from simgen.ground.machine import Machine

LARGE, SMALL = 256, 64  # work-items of a work-group
FILTERS = 8  # filters of a work-item, at most
LDS = 4096  # floats of filters in LDS, unless one channel of 4 filters has more
MAX_LDS_FLOATS = 8192  # floats of filters in LDS at most
SEGMENT = 32  # pixels of a row that a work-item holds at most, for results side by side
UNROLLED = 512  # multiply-adds of a channel up to which the rows of taps are unrolled,
HELD = 48  # if their pixels are no more than so many: all may be in registers at once
MASKS = 16  # pixels with a test of their own, two scalar registers each, that fit beside the rest


@dataclass(frozen=True)
class DirectMapping:
    """How results lie over work-items."""

    block: int
    filters: int  # filters that a work-item computes
    sets: int  # sets of neighbouring results, a work-group's items apart
    wide: int  # results in a set
    vector: int  # elements in a load from the source
    chunk: int  # channels whose filters are in LDS at a time


def maps_gathers(gathers: tuple[Gather, ...]) -> bool:
    """Whether the taps of a filter are so few that four filters fit into LDS."""
    return all(4 * each.rows.taps * each.columns.taps <= _most(each.machine) for each in gathers)


def _most(machine: Machine) -> int:
    """Floats of filters in LDS at most."""
    return min(MAX_LDS_FLOATS, machine.group_lds_nbytes // 4)


def gather(gathers: tuple[Gather, ...], names: Names) -> Lowering:
    """One kernel and one launch for each gather."""
    several = len(gathers) > 1
    made = [_gather(each, names, at if several else None) for at, each in enumerate(gathers)]
    return Lowering(tuple(kernel for kernel, _ in made), tuple(launch for _, launch in made))


def groups(each: Gather) -> int:
    """Work-groups of a gather."""
    return prod(_grid(each, _map(each)))


def _grid(each: Gather, mapped: DirectMapping) -> tuple[int, int, int]:
    strips = each.batch * each.rows.count * ceil(each.columns.count / mapped.wide)
    blocks = each.groups * ceil(each.group_out / mapped.filters)
    return ceil(strips / (mapped.block * mapped.sets)), blocks, 1


def _gather(each: Gather, names: Names, phase: int | None) -> tuple[Kernel, Launch]:
    mapped = _map(each)
    name = names.kernel("direct", phase)
    constants: Constants = (
        *names.constants,
        *each.constants,
        ("filters", mapped.filters),
        ("sets", mapped.sets),
        ("wide", mapped.wide),
        ("vector", mapped.vector),
        ("chunk", mapped.chunk),
        ("unrolled", int(_unrolled(each, mapped))),
        *names.elements("source", "filter"),
        *names.added,
        *names.result,
    )
    kernel = Kernel(name, "conv_direct.hip", mapped.block, constants)
    return kernel, Launch(name, _grid(each, mapped), names.gather_args)


def stores(each: Gather) -> bool:
    """Whether results are stored by fours, as narrow ones must be."""
    return _map(each).wide == 4 and each.columns.count % 4 == 0 and each.columns.whole


def _unrolled(each: Gather, mapped: DirectMapping) -> bool:
    """Whether the rows of taps are unrolled, and not only the taps of a row."""
    results = mapped.filters * mapped.sets * mapped.wide
    products = each.rows.taps * each.columns.taps * results
    if mapped.wide == 1:  # each tap has its own tests, which are as many instructions
        return 8 * products <= UNROLLED
    held = each.rows.taps * mapped.sets * _segment(each, mapped.wide)
    return products <= UNROLLED and held <= HELD


def _segment(each: Gather, wide: int) -> int:
    """Pixels of a row that `wide` neighbouring results meet."""
    columns = each.columns
    return (wide - 1) * columns.stride + (columns.taps - 1) * columns.gap + 1


def _map(each: Gather) -> DirectMapping:
    """Large register tiles where they leave work for all units, else small ones."""
    columns = each.columns
    most = FILTERS if FILTERS * each.rows.taps * columns.taps <= _most(each.machine) else 4
    blocks = ceil(each.group_out / most)
    filters = ceil(each.group_out / blocks)
    wide = {1: 1, 2: 2}.get(columns.count, 4)
    if columns.divide > 1 or _segment(each, wide) > SEGMENT:
        wide = 1
    strips = each.batch * each.rows.count * ceil(columns.count / wide) * blocks * each.groups
    sets, most_sets = 1, min(4, 64 // (wide * filters))
    if wide == 1:
        most_sets = min(most_sets, MASKS // columns.taps)
    full = LARGE * each.machine.units  # work-items that leave no unit idle
    while 2 * sets <= most_sets and strips >= 4 * sets * full:
        sets *= 2
    vector = 4 if wide == 4 and columns.source % 4 == 0 else 1
    padded = ceil(filters / 4) * 4
    taps = each.rows.taps * columns.taps * padded
    chunk = max(1, min(each.group_in, min(LDS, _most(each.machine)) // taps))
    block = LARGE if strips >= full else SMALL
    return DirectMapping(block, filters, sets, wide, vector, chunk)


RUN = 8  # taps of a run at most; a longer row of a filter is cut into runs of 4
LINE = 128  # pixels of a line at most
FILTER_LDS = 8192  # floats of both tiles together, if a line of one filter and one channel allows
MAX_FILTER_LDS_FLOATS = 12288  # floats at most: 48 KiB, what CUDA gives without asking
GROUPS_OF_UNIT = 6  # work-groups for each compute unit, if there are lines enough
MIN_VECTORS = 16  # float4s of pixels of a work-item at least


@dataclass(frozen=True)
class FilterMap:
    """How the gradient of the filters lies over work-items, in the terms of the module."""

    block: int
    filters: int
    octets: int
    span: int
    spans: int  # runs of one row of a filter
    pairs: int  # (channel, r) in a work-group
    slices: int
    sparse: bool  # pixels of one tap are loaded by themselves: neighbours lie too far apart
    width: int  # pixels of a line, a multiple of 4
    segments: int  # lines of a row
    lines: int  # in LDS at a time
    lead: int  # pixels that are loaded before the first one, so that loads of 4 are aligned
    held: int  # pixels that a work-item holds
    image_width: int  # pixels that a line meets
    image_pitch: int  # floats from pair to pair in LDS
    result_pitch: int  # floats from filter to filter

    @property
    def floats(self) -> int:
        """Floats in LDS."""
        return self.filters * self.octets * self.result_pitch + self.pairs * self.image_pitch


def maps_filters(g: Geometry) -> bool:
    """Whether the filters' gradient can be computed directly: a row of a filter has few runs."""
    most = min(MAX_FILTER_LDS_FLOATS, g.machine.group_lds_nbytes // 4)
    return _run(g)[1] <= SMALL // 2 and _filter_map(g).floats <= most


def _run(g: Geometry) -> tuple[int, int, bool]:
    """(span, spans, sparse)."""
    taps = g.kernel[1]
    span = taps if taps <= RUN else 4
    sparse = 3 * g.stride[1] + (span - 1) * g.dilation[1] + 1 > SEGMENT
    span = 1 if sparse else span
    return span, ceil(taps / span), sparse


def _filter_map(g: Geometry) -> FilterMap:
    """Fewer lines, and then fewer filters and channels, until the tiles fit into LDS."""
    segments = ceil(g.result[1] / LINE)
    width = ceil(g.result[1] / segments / 4) * 4
    work = g.batch * g.pixels * g.taps * g.group_channels * g.filters
    block = LARGE if work > g.machine.units * LARGE * 256 else SMALL
    spans = _run(g)[1]
    octets = min(ceil(g.group_filters / FILTERS), 4)
    pairs = max(1, min(g.group_channels * g.kernel[0], block // octets // spans))
    lines = max(1, min(LINE // width, g.batch * g.result[0] * segments))
    most = min(FILTER_LDS, g.machine.group_lds_nbytes // 4)
    while True:
        made = _with_extents(g, block, octets, pairs, segments, width, lines)
        if made.floats <= most or (lines, octets, pairs) == (1, 1, 1):
            return made
        if lines > 1:
            lines //= 2
        elif pairs > 8 or octets == 1:
            pairs = max(1, pairs // 2)
        else:
            octets //= 2


def _with_extents(
    g: Geometry, block: int, octets: int, pairs: int, segments: int, width: int, lines: int
) -> FilterMap:
    span, spans, sparse = _run(g)
    lead = -g.pad[1] % 4 if g.image[1] % 4 == 0 else 0
    reach = (span - 1) * g.dilation[1] + 1  # pixels that one run meets
    held = 4 if sparse else ceil((lead + 3 * g.stride[1] + reach) / 4) * 4
    last = lead + 3 * g.stride[1] + reach if sparse else held
    image_width = (width - 4) * g.stride[1] + last + (spans - 1) * span * g.dilation[1]
    image_width = ceil(image_width / 4) * 4
    return FilterMap(
        block=block,
        filters=ceil(g.group_filters / ceil(g.group_filters / FILTERS)),
        octets=octets,
        span=span,
        spans=spans,
        pairs=pairs,
        slices=max(1, block // (octets * pairs * spans)),
        sparse=sparse,
        width=width,
        segments=segments,
        lines=lines,
        lead=lead,
        held=held,
        image_width=image_width,
        image_pitch=_pitch(image_width * lines),
        result_pitch=_pitch(width * lines),
    )


def _pitch(floats: int) -> int:
    """The next odd multiple of 4: float4s of neighbouring rows lie in different banks."""
    return floats if floats // 4 % 2 else floats + 4


def filter_split(g: Geometry) -> Split:
    """How lines are shared out, and the longest way of a product into the sum."""
    mapped = _filter_map(g)
    lines = g.batch * g.result[0] * mapped.segments
    tiles = _filter_tiles(g, mapped) * g.groups
    fours = lines * mapped.width // 4 // mapped.slices
    wanted = min(GROUPS_OF_UNIT * g.machine.units // tiles, fours // MIN_VECTORS)
    splits = max(1, min(ceil(lines / mapped.lines), wanted))
    chunk = ceil(lines / splits / mapped.lines) * mapped.lines
    each = ceil(mapped.lines * mapped.width // 4 / mapped.slices) * 4
    return Split(chunk, ceil(lines / chunk), chunk // mapped.lines * each + mapped.slices)


def filter_chunks(g: Geometry) -> tuple[list[int], tuple[int, int]]:
    """Ends of the work-groups' shares of all samples' pixels, and the stages of their sums."""
    mapped, split = _filter_map(g), filter_split(g)
    lines = g.batch * g.result[0] * mapped.segments
    ends = [min(lines, split.chunk * (at + 1)) for at in range(split.splits)]
    width = g.result[1]
    places = [
        end // mapped.segments * width + min(width, end % mapped.segments * mapped.width)
        for end in ends
    ]
    return places, (split.depth - mapped.slices, mapped.slices)


def _filter_tiles(g: Geometry, mapped: FilterMap) -> int:
    pairs = ceil(g.group_channels * g.kernel[0] / mapped.pairs)
    return pairs * ceil(g.group_filters / (mapped.filters * mapped.octets))


def filters(g: Geometry, names: Names) -> Lowering:
    """The gradient of the filters, or its partial sums."""
    mapped, split = _filter_map(g), filter_split(g)
    fields = {k: int(v) for k, v in vars(mapped).items() if k != "block"}
    constants: Constants = (
        *g.constants,
        *fields.items(),
        ("vector", 4 if g.image[1] % 4 == 0 else 1),
        ("result_vector", 4 if g.result[1] % 4 == 0 else 1),
        ("chunk", split.chunk),
        ("splits", split.splits),
        *names.elements("source", "result"),
    )
    name = names.kernel("direct")
    kernel = Kernel(name, "conv_direct_filters.hip", mapped.block, constants)
    grid = (split.splits, _filter_tiles(g, mapped), g.groups)
    written = names.partial if split.splits > 1 else names.target
    return Lowering((kernel,), (Launch(name, grid, (names.source, names.filters, written)),))


@dataclass(frozen=True)
class Direct(ConvJob):
    algorithm = Algorithm.DIRECT

    @property
    def fits(self) -> bool:
        return maps_filters(self.g) if self.of_filters else maps_gathers(self.gathers)

    @property
    def fault(self) -> str:
        machine = self.g.machine
        room = f"{machine.group_lds_nbytes} bytes of LDS of {machine.label}"
        fact = f" are too large for algorithm direct and the {room}; choose implicit_gemm"
        return "" if self.fits else fact

    @property
    def split(self) -> Split:
        if self.of_filters:
            return filter_split(self.g)
        return Split(self.gathers[0].depth, 1, max(each.met for each in self.gathers))

    @property
    def by_fours(self) -> bool:
        return not self.of_filters and all(stores(each) for each in self.gathers)

    def planned(self) -> tuple[Choice, ...]:
        why = f"{self.g.machine.units} units share the pixels"
        return (Choice(CHUNKS, str(self.splits), why),) if self.of_filters else ()

    def products(self) -> Lowering:
        return filters(self.g, self.typed) if self.of_filters else gather(self.gathers, self.typed)

    def filter_chunks(self) -> tuple[list[int], tuple[int, ...]]:
        return filter_chunks(self.g)
