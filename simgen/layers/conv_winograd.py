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

Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, section 4.1.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from simgen.ir import Kernel, Launch, TensorSpec
from simgen.layers import tile
from simgen.layers.base import Lowering
from simgen.layers.conv_gemm import tile_constants

if TYPE_CHECKING:
    import numpy as np

    from simgen.layers.conv_geometry import Gather, Names
    from simgen.layers.epilogue import Constants
    from simgen.layers.rounding import Array
else:
    from simgen import arrays as np

BLOCK = 256  # work-items of a transformation
PLACES = 16  # of a tile
FILTERS, PIXELS, PRODUCTS = "winograd_filters", "winograd_pixels", "winograd_products"  # ports
# Roundings of an element in the transformations: two additions along each axis of filters and of
# results, one of pixels. Halves are exact.
TRANSFORMED = 4 + 4 + 2

TRANSFORMATIONS = {
    "filters": "conv_winograd_filters.hip.j2",
    "source": "conv_winograd_source.hip.j2",
    "target": "conv_winograd_target.hip.j2",
}


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
    steps = (
        _transformation("filters", out * each.group_in, (names.filters, FILTERS), each, names),
        _transformation("source", channels * _tiles(each), (names.source, PIXELS), each, names),
        _products(each, names),
        _transformation(
            "target", out * _tiles(each),
            (PRODUCTS, *names.gather_args[2:]), each, names,
        ),
    )  # fmt: skip
    return Lowering(tuple(kernel for kernel, _ in steps), tuple(launch for _, launch in steps))


def _tiles(each: Gather) -> int:
    """Tiles of 2 x 2 results, of all samples."""
    return each.batch * ceil(each.rows.count / 2) * ceil(each.columns.count / 2)


def _transformation(
    what: str, items: int, args: tuple[str, ...], each: Gather, names: Names
) -> tuple[Kernel, Launch]:
    name = names.kernel(f"winograd_{what}")
    constants: Constants = (*names.constants, *each.constants)
    kernel = Kernel(name, TRANSFORMATIONS[what], BLOCK, constants)
    return kernel, Launch(name, (ceil(items / BLOCK), 1, 1), args)


def _products(each: Gather, names: Names) -> tuple[Kernel, Launch]:
    m, n, k = each.group_out, _tiles(each), each.group_in
    batch = PLACES * each.groups
    found = tile.cut(m, n, k, batch, splits=1)
    constants: Constants = (
        ("groups", each.groups),
        ("m", m),
        ("n", n),
        ("k", k),
        ("left_along", "k"),
        ("left_width", tile.width(k)),
        ("right_along", "n"),
        ("right_width", tile.width(n)),
        ("store_width", tile.width(n)),
        *tile_constants(found.tile),
    )
    name = names.kernel("winograd_products")
    kernel = Kernel(name, "conv_winograd_products.hip.j2", found.tile.block, constants)
    across, down = found.tile.grid(m, n)
    return kernel, Launch(name, (across, down, batch), (FILTERS, PIXELS, PRODUCTS))


def magnitude(source: Array, filters: Array, each: Gather) -> Array:
    """The algorithm on absolute values, its matrices' too: what errors of each element go with.

    `source` is (N, C, H, W) and `filters` as stored, both without signs.
    """
    into = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 0, 1]])
    halves = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, 0.5, 0.5], [0, 0, 1]])
    back = np.array([[1, 1, 1, 0], [0, 1, 1, 1]])
    transformed = np.einsum("ir,gmkrs,js->ijgmk", halves, _ordered(filters, each), halves)
    made = []
    for image in source:
        tiles = _pixels(image, each)  # (C, tiles down, tiles across, 4, 4)
        pixels = np.einsum("ir,cdars,js->ijcda", into, tiles, into)
        split = pixels.reshape(4, 4, each.groups, each.group_in, -1)
        sums = np.einsum("pi,ijgmt,qj->gmtpq", back, transformed @ split, back)
        down, across = tiles.shape[1:3]
        y = sums.reshape(-1, down, across, 2, 2).swapaxes(2, 3).reshape(-1, 2 * down, 2 * across)
        made.append(y[:, : each.rows.count, : each.columns.count])
    return np.stack(made)


def _ordered(filters: Array, each: Gather) -> Array:
    """(G, output channels, input channels, 3, 3), with taps in the order of the sum."""
    places = [
        np.arange(count) * stride
        for count, stride in (
            (each.groups, each.group_stride),
            (each.group_out, each.out_stride),
            (each.group_in, each.in_stride),
        )
    ]
    for axis, stride in ((each.rows, each.kernel[1]), (each.columns, 1)):
        places.append((axis.filter_first + axis.filter_step * np.arange(3)) * stride)
    ordered: Array = filters.reshape(-1)[sum(np.ix_(*places), start=np.zeros((), np.int64))]
    return ordered


def _pixels(image: Array, each: Gather) -> Array:
    """The 4 x 4 pixels of each tile: (C, tiles down, tiles across, 4, 4)."""
    found = image
    for at, axis in enumerate((each.rows, each.columns), 1):
        places = axis.start + np.arange(2 * ceil(axis.count / 2) + 2)
        inside = (places >= 0) & (places < axis.source)
        taken = np.take(found, np.where(inside, places, 0), axis=at)
        found = taken * inside.reshape([-1 if at == each_axis else 1 for each_axis in range(3)])
    windows = np.lib.stride_tricks.sliding_window_view(found, (4, 4), axis=(1, 2))
    tiles: Array = windows[:, ::2, ::2]
    return tiles
