"""Winograd's minimal filtering F(2 x 2, 3 x 3): 16 products for 2 x 2 results in place of 36.

    Y = A^T [ sum over channels of  (G g G^T) * (B^T d B) ] A         * element by element

    d  4 x 4 pixels     g  3 x 3 filter     Y  2 x 2 results

        | 1  0 -1  0 |        |  1    0    0  |
    B^T | 0  1  1  0 |    G   | 1/2  1/2  1/2 |    A^T | 1  1  1  0 |
        | 0 -1  1  0 |        | 1/2 -1/2  1/2 |        | 0  1 -1 -1 |
        | 0  1  0 -1 |        |  0    0    1  |

for filters of 3 x 3 neighbouring taps and stride 1. Four kernels: filters and pixels are
transformed into workspaces, 16 matrix products (M = output channels, N = tiles, K = input channels)
are computed, and the results transformed back.

The gradient of the filters is F(3 x 3, 2 x 2): g are 2 x 2 gradients of results and Y is 3 x 3, the
sum goes over tiles of all samples (M = output channels, N = input channels, K = tiles), and

        |  1    0  |          | 1  1  1  0 |
    G   | 1/2  1/2 |      A^T | 0  1 -1  0 |
        | 1/2 -1/2 |          | 0  1  1 -1 |
        |  0    1  |

Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, section 4.1.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, Kernel, Launch, TensorSpec
from simgen.ground.numerics.rounding import TINY, accumulated
from simgen.layers.base import Lowering
from simgen.layers.conv import transform_tiles
from simgen.layers.conv.geometry import Gather, Geometry, Names, to_result
from simgen.layers.conv.transform_tiles import Products
from simgen.layers.product import tile

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array

TAKES = "3 x 3, stride 1 and dilation 1"
BLOCK = 256  # work-items of a transformation
PLACES = 16  # elements of a transformed tile
FILTERS, PIXELS, PRODUCTS = "winograd_filters", "winograd_pixels", "winograd_products"  # ports
RESULT = "winograd_result"  # in place of FILTERS, where their gradient is computed
# Roundings of an element in the transformations: two additions along each axis of filters and of
# results, one of pixels. Halves are exact. In the gradient of the filters, one of gradients of
# results, two of filters, one of pixels.
TRANSFORMED = 4 + 4 + 2
TRANSFORMED_GRADIENT = 2 + 4 + 2
# Halves along both axes: products of whole numbers are multiples of 1/4. And in such grains, what
# is added up on the way is at most so many times the direct sum of absolute values: 8^2 products of
# the largest numbers for 3^2 with filters, 6^2 for 2^2 with their gradient, see `magnitude`.
GRAIN = 0.25
GROWTH = 36

# What the kernels read of a gather.
OF_FILTERS = (
    "groups", "group_out", "group_in", "kernel_w", "out_stride", "in_stride", "group_stride",
    "rows_filter_first", "rows_filter_step", "columns_filter_first", "columns_filter_step",
)  # fmt: skip
OF_SOURCE = (
    "batch", "groups", "group_in", "rows_count", "columns_count", "rows_source", "columns_source",
    "rows_start", "columns_start",
)  # fmt: skip
OF_TARGET = ("batch", "groups", "group_out", "rows_count", "columns_count")


def fits(each: Gather) -> bool:
    """Whether a gather is one of 3 x 3 neighbouring taps, of stride 1."""
    return all(
        (axis.taps, axis.stride, axis.gap, axis.divide) == (3, 1, 1, 1) and axis.whole
        for axis in (each.rows, each.columns)
    )


def workspaces(each: Gather) -> tuple[tuple[str, TensorSpec], ...]:
    """(port, tensor) of what is transformed."""
    channels, out = each.groups * each.group_in, each.groups * each.group_out
    return (
        (FILTERS, TensorSpec((PLACES, out, each.group_in))),
        (PIXELS, TensorSpec((PLACES, channels, _tiles(each)))),
        (PRODUCTS, TensorSpec((PLACES, out, _tiles(each)))),
    )


def gather(each: Gather, names: Names) -> Lowering:
    """The four kernels."""
    channels, out = each.groups * each.group_in, each.groups * each.group_out
    of_target = (
        *names.constants,
        *each.some(*OF_TARGET),
    )
    steps = (
        _transformation(
            "filters", names, out * each.group_in, (names.filters, FILTERS),
            each.some(*OF_FILTERS),
        ),
        _transformation(
            "source", names, channels * _tiles(each), (names.source, PIXELS),
            each.some(*OF_SOURCE),
        ),
        products(each).lower(
            names.kernel("winograd_products"), (FILTERS, PIXELS, PRODUCTS)
        ),
        _transformation(
            "target", names, out * _tiles(each), (PRODUCTS, *names.gather_args[2:]), of_target,
        ),
    )  # fmt: skip
    return Lowering(tuple(kernel for kernel, _ in steps), tuple(launch for _, launch in steps))


def products(each: Gather) -> Products:
    """The products of a result or of an image."""
    return Products(each.group_out, _tiles(each), each.group_in, PLACES, each.groups, each.machine)


def _tiles(each: Gather) -> int:
    """Tiles of 2 x 2 results, of all samples."""
    return each.batch * ceil(each.rows.count / 2) * ceil(each.columns.count / 2)


def _transformation(
    what: str, names: Names, items: int, args: tuple[str, ...], constants: Constants
) -> tuple[Kernel, Launch]:
    name = names.kernel(f"winograd_{what}")
    kernel = Kernel(name, f"conv_winograd_{what}.hip", BLOCK, constants)
    return kernel, Launch(name, (ceil(items / BLOCK), 1, 1), args)


def fits_filters(g: Geometry) -> bool:
    """The same of the gradient of the filters."""
    return fits(to_result(g)[0])


def filter_workspaces(g: Geometry) -> tuple[tuple[str, TensorSpec], ...]:
    """(port, tensor) of what is transformed, where the gradient of the filters is computed."""
    tiles, splits = _tiles(to_result(g)[0]), filter_products(g).cut.splits
    return (
        (RESULT, TensorSpec((PLACES, g.filters, tiles))),
        (PIXELS, TensorSpec((PLACES, g.channels, tiles))),
        (PRODUCTS, TensorSpec((splits, PLACES, g.filters, g.group_channels))),
    )


def filter_products(g: Geometry) -> Products:
    """The products of the gradient of the filters: few results, and long sums."""
    (each,) = to_result(g)
    return Products(
        g.group_filters,
        g.group_channels,
        _tiles(each),
        PLACES,
        g.groups,
        g.machine,
        right_along="k",
        most=tile.SPLITS,
    )


def filters(g: Geometry, names: Names) -> Lowering:
    """The four kernels of the gradient of the filters."""
    (each,) = to_result(g)
    products = filter_products(g)
    of_result: Constants = (
        ("channels", g.filters),
        *each.some("batch", "rows_count", "columns_count"),
    )
    total = g.filters * g.group_channels
    of_gradient: Constants = (
        ("total", total),
        ("splits", products.cut.splits),
        ("flipped", int(g.flipped)),
    )
    steps = (
        _transformation(
            "result", names, g.filters * _tiles(each), (names.filters, RESULT), of_result
        ),
        _transformation(
            "source", names, g.channels * _tiles(each), (names.source, PIXELS),
            each.some(*OF_SOURCE),
        ),
        products.lower(
            names.kernel("winograd_products"), (RESULT, PIXELS, PRODUCTS)
        ),
        _transformation("gradient", names, total, (PRODUCTS, names.target), of_gradient),
    )  # fmt: skip
    return Lowering(tuple(kernel for kernel, _ in steps), tuple(launch for _, launch in steps))


def bound(source: Array, filters: Array, each: Gather) -> Array:
    """Bound on the error of each element of a gather, from absolute values (N, C, H, W)."""
    return _bound(magnitude(source, filters, each), each.group_in + TRANSFORMED)


def filter_bound(image: Array, result: Array, g: Geometry) -> Array:
    """The same of the gradient of the filters, from absolute values."""
    found = filter_products(g).cut
    products = min(found.chunk, _tiles(to_result(g)[0])) + found.splits
    return _bound(filter_magnitude(image, result, g), products + TRANSFORMED_GRADIENT)


def _bound(sums: Array, depth: int) -> Array:
    made: Array = sums * accumulated(depth) + 16 * (depth + 1) * TINY
    return made


INTO = ((1, 0, 1, 0), (0, 1, 1, 0), (0, 1, 1, 0), (0, 1, 0, 1))  # B^T without signs


def magnitude(source: Array, filters: Array, each: Gather) -> Array:
    """The algorithm on absolute values, its matrices' too: what errors of each element go with.

    `source` is (N, C, H, W) and `filters` as stored, both without signs.
    """
    into = np.array(INTO)
    halves = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, 0.5, 0.5], [0, 0, 1]])
    back = np.array([[1, 1, 1, 0], [0, 1, 1, 1]])
    transformed = np.einsum(
        "ir,gmkrs,js->ijgmk", halves, transform_tiles.ordered(filters, each), halves
    )
    starts = (each.rows.start, each.columns.start)
    counts = (ceil(each.rows.count / 2), ceil(each.columns.count / 2))
    made = []
    for image in source:
        tiles = transform_tiles.windows(image, starts, counts, (2, 2), (4, 4))
        pixels = np.einsum("ir,cdars,js->ijcda", into, tiles, into)
        split = pixels.reshape(4, 4, each.groups, each.group_in, -1)
        sums = np.einsum("pi,ijgmt,qj->gmtpq", back, transformed @ split, back)
        down, across = counts
        y = sums.reshape(-1, down, across, 2, 2).swapaxes(2, 3).reshape(-1, 2 * down, 2 * across)
        made.append(y[:, : each.rows.count, : each.columns.count])
    return np.stack(made)


def filter_magnitude(image: Array, result: Array, g: Geometry) -> Array:
    """The same of the gradient of the filters, of (N, C, H, W) and (N, K, P, Q) without signs."""
    into = np.array(INTO)
    halves = np.array([[1, 0], [0.5, 0.5], [0.5, 0.5], [0, 1]])
    back = np.array([[1, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 1]])
    starts, counts = (-g.pad[0], -g.pad[1]), (ceil(g.result[0] / 2), ceil(g.result[1] / 2))
    total = np.zeros((4, 4, g.groups, g.group_filters, g.group_channels))
    for x, dy in zip(image, result, strict=True):
        tiles = transform_tiles.windows(x, starts, counts, (2, 2), (4, 4))
        pixels = np.einsum("ir,cdars,js->ijcda", into, tiles, into)
        pairs = transform_tiles.windows(dy, (0, 0), counts, (2, 2), (2, 2))
        left = np.einsum("ir,kdars,js->ijkda", halves, pairs, halves)
        right = pixels.reshape(4, 4, g.groups, g.group_channels, -1).swapaxes(-1, -2)
        total += left.reshape(4, 4, g.groups, g.group_filters, -1) @ right
    made = np.einsum("ri,ijgmc,sj->gmcrs", back, total, back)
    whole: Array = made.reshape(g.filters, g.group_channels, 3, 3)
    return whole[:, :, ::-1, ::-1] if g.flipped else whole
