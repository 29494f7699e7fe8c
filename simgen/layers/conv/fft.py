"""Convolution by Fourier transforms of tiles: overlap-save.

    Y = F^-1( sum over channels of  conj(F(g)) * F(d) )               * element by element

    F  the discrete Fourier transform of T x T real numbers
    d  T x T pixels     g  R x S filter, in the corner of T x T zeros
    Y  T x T sums of the correlation, the first (T - R + 1) x (T - S + 1) of them without wrapping

for stride 1; with a dilation, R and S are the extents with the gaps. Tiles overlap by R - 1 and
S - 1 pixels. The gradient of the filters is the same with tiles of the result's gradient in place
of filters, (T - R + 1) x (T - S + 1) pixels each, and a sum over tiles in place of channels.

A real tile has T T / 2 different frequencies, so a tile costs 2 T T products for each pair of
channels where a direct convolution has (T - R + 1) (T - S + 1) R S of them:

    products of direct to one of fft        T = 8     T = 16    T = 32
                     filters of 3 x 3         2.5        3.4       4.0
                                5 x 5         3.1        7.0       9.6
                                7 x 7           -        9.6      16.2
                              11 x 11           -          -      28.6

Four kernels: two transformations into workspaces; T T / 2 + 2 complex matrix products, of which 4
are of real numbers; and the transformation back.

Sources: Mathieu, Henaff and LeCun, "Fast Training of Convolutional Networks through FFTs", ICLR
2014; Vasilache et al., "Fast Convolutional Nets With fbfft", ICLR 2015 (tiles, and their symmetry).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, Kernel, Launch, TensorSpec
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, accumulated
from simgen.layers.base import Lowering
from simgen.layers.conv import transform_tiles
from simgen.layers.conv.transform_tiles import Products
from simgen.layers.product import tile

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.conv.geometry import Gather, Geometry, Names

SIZES = {8: (16, 64), 16: (8, 32), 32: (4, 16)}  # T -> tiles of a work-group, at least and at most
SECTOR, MIN_PADDED_TILES = (
    8,
    32,
)  # elements of a sector; tiles of which less than a fourth is little more
MAX_REACH = 17  # pixels of a filter along an axis, its gaps too: with T = 32, tiles of 16 results
# columns that are multiplied at a time, or not at all
COLUMNS = min(each.columns for each in tile.TILES)
TAKES = f"stride 1 and {MAX_REACH} pixels at most"
LEFT, RIGHT, PRODUCTS = "fft_left", "fft_right", "fft_products"  # ports
# What the kernels read of a gather and of a geometry.
OF_FILTERS = (
    "groups", "group_out", "group_in", "kernel_w", "out_stride", "in_stride", "group_stride",
    "rows_taps", "rows_gap", "rows_filter_first", "rows_filter_step",
    "columns_taps", "columns_gap", "columns_filter_first", "columns_filter_step",
)  # fmt: skip
OF_GRADIENT = ("group_channels", "kernel_h", "kernel_w", "dilation_h", "dilation_w", "flipped")


@dataclass(frozen=True)
class Tiles:
    """How images are cut into tiles."""

    size: int  # T
    steps: tuple[int, int]  # rows and columns from one tile to the next: its results
    counts: tuple[int, int]  # tiles down and across an image
    batch: int

    @property
    def count(self) -> int:
        """Tiles of all images."""
        return self.batch * self.counts[0] * self.counts[1]

    @property
    def held(self) -> int:
        """Tiles that spectra have room for: many begin and end with sectors of a cache line."""
        return ceil(self.count / SECTOR) * SECTOR if self.count >= MIN_PADDED_TILES else self.count

    @property
    def places(self) -> int:
        """Frequencies that say what the others are: T T / 2 - 2, and 4 of real numbers."""
        return self.size * self.size // 2 + 2

    @property
    def constants(self) -> Constants:
        """What the kernels read of it."""
        pairs = (("down", "across"), self.counts), (("step_h", "step_w"), self.steps)
        each = (pair for names, values in pairs for pair in zip(names, values, strict=True))
        held = ("held", self.held)
        return (("size", self.size), ("batch", self.batch), held, *each)


def fits(each: Gather) -> bool:
    """Whether a gather has stride 1 and filters that leave most of a tile to results."""
    return all(
        (axis.stride, axis.divide) == (1, 1)
        and axis.whole
        and _reach(axis.taps, axis.gap) <= MAX_REACH
        for axis in (each.rows, each.columns)
    )


def fits_filters(g: Geometry) -> bool:
    """The same of the gradient of the filters."""
    return g.stride == (1, 1) and max(map(_reach, g.kernel, g.dilation)) <= MAX_REACH


def _reach(taps: int, gap: int) -> int:
    """Pixels from a filter's first tap to its last."""
    return (taps - 1) * gap + 1


def tiles_of(each: Gather) -> Tiles:
    rows, columns = each.rows, each.columns
    reach = _reach(rows.taps, rows.gap), _reach(columns.taps, columns.gap)
    return _cut_tiles(each.batch, (rows.count, columns.count), reach, COLUMNS)


def filter_tiles(g: Geometry) -> Tiles:
    reach = _reach(g.kernel[0], g.dilation[0]), _reach(g.kernel[1], g.dilation[1])
    return _cut_tiles(g.batch, g.result, reach, 1)


def _cut_tiles(
    batch: int, results: tuple[int, int], reach: tuple[int, int], together: int
) -> Tiles:
    """The tiles with the fewest products, `together` at a time; of equal ones, the smallest."""
    found = []
    for size in SIZES:
        if max(reach) <= size // 2 + 1:
            steps = size - reach[0] + 1, size - reach[1] + 1
            counts = ceil(results[0] / steps[0]), ceil(results[1] / steps[1])
            found.append(Tiles(size, steps, counts, batch))
    return min(found, key=lambda tiles: tiles.size**2 * ceil(tiles.count / together) * together)


def workspaces(each: Gather) -> tuple[tuple[str, TensorSpec], ...]:
    """(port, tensor) of spectra."""
    tiles = tiles_of(each)
    channels, out = each.groups * each.group_in, each.groups * each.group_out
    return (
        (LEFT, TensorSpec((tiles.places, out, each.group_in, 2))),
        (RIGHT, TensorSpec((tiles.places, channels, 2, tiles.held))),
        (PRODUCTS, TensorSpec((tiles.places, out, 2, tiles.held))),
    )


def filter_workspaces(g: Geometry) -> tuple[tuple[str, TensorSpec], ...]:
    """(port, tensor) of spectra, where the gradient of the filters is computed."""
    tiles = filter_tiles(g)
    return (
        (LEFT, TensorSpec((tiles.places, g.filters, tiles.held, 2))),
        (RIGHT, TensorSpec((tiles.places, g.channels, tiles.held, 2))),
        (PRODUCTS, TensorSpec((tiles.places, g.filters, 2, g.group_channels))),
    )


def products(each: Gather) -> Products:
    """The products of a result or of an image."""
    tiles = tiles_of(each)
    return Products(
        2 * each.group_out, tiles.held, 2 * each.group_in, tiles.places, each.groups,
        each.machine, by_complex=True,
    )  # fmt: skip


def filter_products(g: Geometry) -> Products:
    """The products of the gradient of the filters."""
    tiles = filter_tiles(g)
    return Products(
        2 * g.group_filters, g.group_channels, 2 * tiles.held, tiles.places, g.groups,
        g.machine, right_along="k", by_complex=True,
    )  # fmt: skip


def gather(each: Gather, names: Names) -> Lowering:
    """The four kernels of a result or of an image."""
    tiles = tiles_of(each)
    channels, out = each.groups * each.group_in, each.groups * each.group_out
    rows, columns = each.rows, each.columns
    filters: Constants = (
        ("size", tiles.size),
        *each.some(*OF_FILTERS),
    )
    target: Constants = (
        ("channels", out),
        ("rows_count", rows.count),
        ("columns_count", columns.count),
        ("store_width", _width(tiles.steps[1], columns.count)),
        *tiles.constants,
        *names.constants,
    )
    return _lowering(
        _transformation("filters", names, out * each.group_in, (names.filters, LEFT), filters),
        _transformation(
            "source", names, channels * tiles.held, (names.source, RIGHT),
            _source(channels, (rows.source, columns.source),
                    (rows.start, columns.start), tiles),
        ),
        products(each).lower(names.kernel("fft_products"), (LEFT, RIGHT, PRODUCTS)),
        _transformation(
            "target", names, out * tiles.count, (PRODUCTS, *names.gather_args[2:]), target
        ),
    )  # fmt: skip


def filters(g: Geometry, names: Names) -> Lowering:
    """The four kernels of the gradient of the filters."""
    tiles = filter_tiles(g)
    gradient: Constants = (
        ("filters", g.filters),
        ("size", tiles.size),
        *((name, value) for name, value in g.constants if name in OF_GRADIENT),
    )
    return _lowering(
        _transformation(
            "source", names, g.filters * tiles.held, (names.filters, LEFT),
            _source(g.filters, g.result, (0, 0), tiles, taken=tiles.steps, pairs=True),
            "result",
        ),
        _transformation(
            "source", names, g.channels * tiles.held, (names.source, RIGHT),
            _source(g.channels, g.image, (-g.pad[0], -g.pad[1]), tiles, pairs=True),
            "image",
        ),
        filter_products(g).lower(names.kernel("fft_products"), (LEFT, RIGHT, PRODUCTS)),
        _transformation("gradient", names, g.filters * g.group_channels,
                        (PRODUCTS, names.target), gradient),
    )  # fmt: skip


def _lowering(*steps: tuple[Kernel, Launch]) -> Lowering:
    return Lowering(tuple(kernel for kernel, _ in steps), tuple(launch for _, launch in steps))


def _source(
    channels: int,
    extents: tuple[int, int],
    starts: tuple[int, int],
    tiles: Tiles,
    taken: tuple[int, int] | None = None,
    *,
    pairs: bool = False,
) -> Constants:
    """Constants of the transformation of images; with `taken`, to the factors of others.

    Real and imaginary parts lie side by side as `pairs`, where sums go over tiles.
    """
    all_of_it = tiles.size, tiles.size
    extents_of = {"start": starts, "taken": taken or all_of_it}
    return (
        ("channels", channels),
        ("height", extents[0]),
        ("width", extents[1]),
        *((f"{name}_{side}", pair[at]) for name, pair in extents_of.items()
          for at, side in enumerate("hw")),
        ("factors", int(taken is not None)),
        ("pairs", int(pairs)),
        *tiles.constants,
    )  # fmt: skip


def _transformation(
    template: str,
    names: Names,
    total: int,
    args: tuple[str, ...],
    constants: Constants,
    what: str = "",
) -> tuple[Kernel, Launch]:
    """The kernel that transforms `total` tiles; `what` tells two of a template apart."""
    size = int(dict(constants)["size"])
    least, lines = SIZES[size]
    while lines > least and lines // 2 >= total:
        lines //= 2
    name = names.kernel(f"fft_{what or template}")
    constants = (*constants, ("lines", lines))
    kernel = Kernel(name, f"conv_fft_{template}.hip", lines * size // 2, constants)
    return kernel, Launch(name, (ceil(total / lines), 1, 1), args)


def _width(step: int, columns: int) -> int:
    """Elements of a store."""
    return next(width for width in (4, 2, 1) if step % width == columns % width == 0)


# ---- Bounds ----
#
# Errors of a transform go with the 2-norm of the tile (Higham, "Accuracy and Stability of Numerical
# Algorithms", 2002, section 24.1). In units of U and of that norm, to first order, a level of
# butterflies adds 1 for its sums and 3 for its factors exp(i t): 2 for a product and a fused
# multiply-add, or a sum and a product, and 1 for the rounded constants. A transform along one axis
# has log2(T) levels, and 1 more addition separates the spectra of the two rows that it takes at a
# time. So one of a tile has e = 2 (4 log2(T) + 1), and the one back as well.
#
# With w and x a filter and a tile in one channel, |F(x)| = T |x|, and so by Cauchy and Schwarz the
# errors of both transforms change each element of their correlation by no more than 2 e |w| |x|. A
# complex product, whose parts are sums of `terms` real products, is off by sqrt(2) terms of what it
# would be without signs: again no more than |w| |x|. The transformation back adds e times the norm
# of the correlation, no more than |w|_1 |x| (Young). All of it is summed over the channels. The
# factor 1 / T^2 is a power of two.
#
# What is flushed to zero in the spectra is more than covered by FLUSHED in what the norms are
# multiplied with and in those of x; in products and results, by 4 T^2 (terms + 16) TINY.
FLUSHED = 2.0**-96


def _relative(size: int, terms: int) -> tuple[float, float]:
    """What errors go with: of |w| |x|, and of |w|_1 |x|."""
    depth = 2 * (4 * (size.bit_length() - 1) + 1)
    both = accumulated(2 * depth) + sqrt(2) * accumulated(terms)
    return both * SECOND_ORDER, accumulated(depth) * SECOND_ORDER


def bound(source: Array, filters: Array, each: Gather) -> Array:
    """Bound on the error of each element of a gather, from absolute values (N, C, H, W)."""
    tiles = tiles_of(each)
    rows, columns = each.rows, each.columns
    scales = _relative(tiles.size, 2 * each.group_in)
    weights = _weights(transform_tiles.ordered(filters, each), scales)
    made = []
    for image in source:
        norms = _tile_norms(image, (rows.start, columns.start), tiles)
        sums = weights @ norms.reshape(each.groups, each.group_in, -1)
        whole = sums.reshape(-1, *tiles.counts)
        spread = whole.repeat(tiles.steps[0], axis=1).repeat(tiles.steps[1], axis=2)
        made.append(spread[:, : rows.count, : columns.count])
    return np.stack(made) + _flushed(tiles.size, 2 * each.group_in)


def filter_bound(image: Array, result: Array, g: Geometry) -> Array:
    """The same of the gradient of the filters: tiles of the result's gradient are the filters."""
    tiles = filter_tiles(g)
    scales = _relative(tiles.size, 2 * tiles.count)
    total = np.full((g.filters, g.group_channels), _flushed(tiles.size, 2 * tiles.count))
    for x, dy in zip(image, result, strict=True):
        taken = transform_tiles.windows(dy, (0, 0), tiles.counts, tiles.steps, tiles.steps)
        weights = _weights(taken, scales).reshape(g.groups, g.group_filters, -1)
        norms = _tile_norms(x, (-g.pad[0], -g.pad[1]), tiles)
        sums = weights @ norms.reshape(g.groups, g.group_channels, -1).transpose(0, 2, 1)
        total += sums.reshape(total.shape)
    return np.tile(total[:, :, None, None], g.kernel)


def _weights(filters: Array, scales: tuple[float, float]) -> Array:
    """What the norms of tiles are multiplied with, for filters over the last two axes."""
    axes = (-2, -1)
    norms = np.sqrt(np.square(filters).sum(axis=axes))
    found: Array = scales[0] * norms + scales[1] * filters.sum(axis=axes) + FLUSHED
    return found


def _tile_norms(image: Array, starts: tuple[int, int], tiles: Tiles) -> Array:
    """2-norms of an image's tiles: (C, tiles down, tiles across)."""
    sizes = tiles.size, tiles.size
    seen = transform_tiles.windows(np.square(image), starts, tiles.counts, tiles.steps, sizes)
    found: Array = np.sqrt(seen.sum(axis=(-2, -1))) + FLUSHED
    return found


def _flushed(size: int, terms: int) -> float:
    return 4 * size * size * (terms + 16) * TINY
