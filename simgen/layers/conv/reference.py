"""The three questions of geometry.py in float64 NumPy: matrix products of unrolled windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.ground.arrays import np

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.conv.geometry import Geometry


def result(image: Array, filters: Array, g: Geometry) -> Array:
    """(N, K, P, Q), from an image (N, C, H, W) and filters (K, C / G, R, S)."""
    left = matrices(filters, g)
    made = [left @ columns(one, g) for one in image]
    return np.stack(made).reshape(len(image), g.filters, *g.result)


def image_gradient(result: Array, filters: Array, g: Geometry) -> Array:
    """(N, C, H, W), from the gradient of the result (N, K, P, Q)."""
    left = matrices(filters, g).transpose(0, 2, 1)
    made = [_fold(left @ one.reshape(g.groups, g.group_filters, g.pixels), g) for one in result]
    return np.stack(made)


def filter_gradient(image: Array, result: Array, g: Geometry) -> Array:
    """(K, C / G, R, S), summed over the batch."""
    total = np.zeros((g.groups, g.group_filters, g.group_channels * g.taps))
    for one, gradient in zip(image, result, strict=True):
        rows = gradient.reshape(g.groups, g.group_filters, g.pixels)
        total += rows @ columns(one, g).transpose(0, 2, 1)
    return turned(total.reshape(g.filters, g.group_channels, *g.kernel), g)


def turned(filters: Array, g: Geometry) -> Array:
    """Filters as the relation of `Geometry` counts their taps, or back."""
    return filters[:, :, ::-1, ::-1] if g.flipped else filters


def matrices(filters: Array, g: Geometry) -> Array:
    """(G, K / G, C / G R S)."""
    made: Array = turned(filters, g).reshape(g.groups, g.group_filters, g.group_channels * g.taps)
    return made


def columns(image: Array, g: Geometry) -> Array:
    """The window of each pixel of the result as a column: (G, C / G R S, P Q)."""
    (a, b), (u, v), (d, e), (r, s) = g.pad, g.stride, g.dilation, g.kernel
    padded = np.pad(image, ((0, 0), (a, a), (b, b)))
    extents = ((r - 1) * d + 1, (s - 1) * e + 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, extents, axis=(1, 2))
    chosen = windows[:, ::u, ::v, ::d, ::e]  # (C, P, Q, R, S)
    return chosen.transpose(0, 3, 4, 1, 2).reshape(g.groups, -1, g.pixels)


def _fold(windows: Array, g: Geometry) -> Array:
    """The transpose of `columns`: each pixel of the image (C, H, W) sums its places in windows."""
    (a, b), (u, v), (d, e) = g.pad, g.stride, g.dilation
    (h, w), (p, q) = g.image, g.result
    taps = windows.reshape(g.channels, *g.kernel, p, q)
    padded = np.zeros((g.channels, h + 2 * a, w + 2 * b))
    for r in range(g.kernel[0]):
        for s in range(g.kernel[1]):
            rows = slice(r * d, r * d + (p - 1) * u + 1, u)
            columns_ = slice(s * e, s * e + (q - 1) * v + 1, v)
            padded[:, rows, columns_] += taps[:, r, s]
    return padded[:, a : a + h, b : b + w]
