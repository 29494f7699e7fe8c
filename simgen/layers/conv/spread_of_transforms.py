"""The spread of honest errors of convolutions that transform tiles: Winograd's and Fourier's.

Both are linear maps around a sum of products for each place of a transformed tile, so an error's
proxy variance is the sum of those of the transformations of filters and pixels, of the sums of
products, and of the transformation back (simgen/ground/numerics/spread.py; first order in u). The
errors of sums at different places are independent.

Winograd. With U and V the transformed filters and pixels, and |U| and |V| what the matrices without
signs make of absolute values, an element of U or V goes through a few additions, each of which
rounds by u |U| at most. Of the result Y = A^T M A, four additions each round by u (|A|^T |M| |A|).

Fourier, in units of u. The error that one level of butterflies makes at a node is at most 4 |v|
(fft.py: 1 + 3), from four roundings: as independent, 4 |v|^2. After l levels the tile is in
parts of 2^l nodes; what a node contributes to an element of the correlation is |z|^2 <= 2^-l |w|^2
by Cauchy and Schwarz, and the nodes have sum |v|^2 = 2^l |x|^2. So a transform of a tile adds
depth |w|^2 |x|^2 in each channel, depth = 2 (4 log2(T) + 1), and the transform of the filter the
same. An element of the result is made of some nodes of each level of the transformation back, whose
energy is no more than that of the tile's result: depth |Y|^2 (Parseval). An error e(f) of the sum
at a frequency makes one of T^-2 2 Re(e(f) exp(i t)), 1 for 2 where f has no partner. That |e|^2
goes with all sums on the way of real and imaginary parts, sum |s|^2. Constants exp(i t) are rounded
once and count as roundings of their own, of no pattern. Schatzman, "Accuracy of the Discrete
Fourier Transform and the Fast Fourier Transform", SIAM J. Sci. Comput. 17(5), 1996: the root mean
square of the errors of a transform goes with sqrt(log T).

Equal tiles make equal errors, and with them what is said there of equal terms.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.numerics.spread import U, Walk, order, repeats
from simgen.layers.conv import fft, transform_tiles
from simgen.layers.conv import winograd as conv_winograd

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.conv.geometry import Gather, Geometry

    Spectra = NDArray[np.complex128]

CHANNELS = 32  # channels whose products are one block of a sum
TILES = 128  # the same, where sums go over tiles
HELD = 2**22  # elements of products that are held at a time

Matrix = tuple[tuple[float, ...], ...]
PIXELS: Matrix = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))  # B^T
FILTERS: Matrix = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))
RESULTS: Matrix = ((1, 1, 1, 0), (0, 1, -1, -1))
# F(3 x 3, 2 x 2): the gradient of the filters.
TWO: Matrix = ((1, 0), (0.5, 0.5), (0.5, -0.5), (0, 1))
THREE: Matrix = ((1, 1, 1, 0), (0, 1, -1, 0), (0, 1, 1, -1))
BACK = 4  # roundings of a result in the transformation back


def winograd(source: Array, filters: Array, each: Gather) -> tuple[Array, float]:
    """(sigma of each element of a gather, how many tiles are equal in a sum)."""
    ordered = transform_tiles.ordered(filters, each)
    left, left_size = _both(ordered, FILTERS, "ir,gmkrs,js->ijgmk")
    counts = (ceil(each.rows.count / 2), ceil(each.columns.count / 2))
    starts = (each.rows.start, each.columns.start)
    rounded = conv_winograd.TRANSFORMED - BACK
    together = max(1, HELD // (16 * each.groups * max(each.group_out, each.group_in)))
    made = []
    for image in source:
        tiles = transform_tiles.windows(image, starts, counts, (2, 2), (4, 4))
        parts = []
        for first in range(0, counts[0] * counts[1], together):
            some = tiles.reshape(each.groups, each.group_in, -1, 4, 4)[:, :, first:][
                :, :, :together
            ]
            right, right_size = _both(some, PIXELS, "ir,gktrs,js->ijgkt")
            walk = Walk((*left.shape[:-1], right.shape[-1]))
            for at in range(0, each.group_in, CHANNELS):
                part = slice(at, at + CHANNELS)
                walk.add(CHANNELS, left[..., part] @ right[..., part, :])
            walk.end()
            sums = walk.root(order(CHANNELS), np.square(left) @ np.square(right))
            own = np.square(left_size) @ np.square(right_size)
            parts.append(_back(np.square(sums) + rounded * own, walk.total, RESULTS))
        down, across = counts
        y = np.concatenate(parts, axis=2).reshape(-1, down, across, 2, 2)
        y = y.swapaxes(2, 3).reshape(-1, 2 * down, 2 * across)
        made.append(y[:, : each.rows.count, : each.columns.count])
    return np.stack(made), _equal(ordered, source)


def winograd_filters(image: Array, result: Array, g: Geometry) -> tuple[Array, float]:
    """The same of the gradient of the filters."""
    cut = conv_winograd.filter_products(g).cut
    counts = (ceil(g.result[0] / 2), ceil(g.result[1] / 2))
    shape = (4, 4, g.groups, g.group_filters, g.group_channels)
    walk, squares, own = Walk(shape), np.zeros(shape), np.zeros(shape)
    rounded = conv_winograd.TRANSFORMED_GRADIENT - BACK
    at = 0  # tiles before
    for x, dy in zip(image, result, strict=True):
        tiles = transform_tiles.windows(x, (-g.pad[0], -g.pad[1]), counts, (2, 2), (4, 4))
        pairs = transform_tiles.windows(dy, (0, 0), counts, (2, 2), (2, 2))
        tiles = tiles.reshape(g.groups, g.group_channels, -1, 4, 4)
        pairs = pairs.reshape(g.groups, g.group_filters, -1, 2, 2)
        first, count = 0, counts[0] * counts[1]
        while first < count:
            last = min(count, first + TILES, first + cut.chunk - (at + first) % cut.chunk)
            left, left_size = _both(pairs[:, :, first:last], TWO, "ir,gktrs,js->ijgkt")
            right, right_size = _both(tiles[:, :, first:last], PIXELS, "ir,gktrs,js->ijgtk")
            walk.add(last - first, left @ right)
            squares += np.square(left) @ np.square(right)
            own += np.square(left_size) @ np.square(right_size)
            first = last
            if (at + first) % cut.chunk == 0:
                walk.end()
        at += count
    if at % cut.chunk:
        walk.end()
    variance = np.square(walk.root(order(TILES), squares)) + rounded * own
    sigma = _back(variance, walk.total, THREE).reshape(g.filters, g.group_channels, 3, 3)
    return sigma[:, :, ::-1, ::-1] if g.flipped else sigma, _equal_over_tiles(image, result)


def _both(values: Array, matrix: Matrix, subscripts: str) -> tuple[Array, Array]:
    """Transformed, and the same of absolute values by the matrix without signs."""
    into = np.array(matrix, np.float64)
    size = np.abs(into)
    return (
        np.einsum(subscripts, into, values, into, optimize=True),
        np.einsum(subscripts, size, np.abs(values), size, optimize=True),
    )


def _back(variance: Array, products: Array, matrix: Matrix) -> Array:
    """Sigma of the results, from proxy variances of the products in units of u^2."""
    size = np.abs(np.array(matrix, np.float64))
    spread, total = (
        np.einsum("pi,ijgmt,qj->gmtpq", size, each, size, optimize=True)
        for each in (variance, np.abs(products))
    )
    sigma: Array = U * np.sqrt(spread + BACK * np.square(total))
    return sigma


def _equal(filters: Array, image: Array) -> float:
    """Fraction of equal values among a result's filters and an image's channels."""
    energy = np.square(filters).sum(axis=(-2, -1))
    return max(repeats(energy), repeats(np.square(image).sum(axis=(-2, -1))))


def _equal_over_tiles(image: Array, result: Array) -> float:
    """The same where sums go over the tiles of all samples: equal rows of pixels stand for them."""
    found = (np.square(t).sum(axis=-1).swapaxes(0, 1) for t in (image, result))
    return max(repeats(energy.reshape(len(energy), -1)) for energy in found)


def fourier(source: Array, filters: Array, each: Gather) -> tuple[Array, float]:
    """Spread of Fourier transforms, in the terms of `winograd`."""
    tiles = fft.tiles_of(each)
    size = tiles.size
    ordered = transform_tiles.ordered(filters, each)
    kernels = np.zeros((*ordered.shape[:-2], size, size))
    kernels[..., : each.rows.taps * each.rows.gap : each.rows.gap,
            : each.columns.taps * each.columns.gap : each.columns.gap] = ordered  # fmt: skip
    weights = np.square(ordered).sum(axis=(-2, -1))
    most = max(tiles.counts[0] * tiles.counts[1], each.group_in)
    together = max(1, HELD // (size * size * most * each.groups))
    made = []
    for image in source:
        seen = transform_tiles.windows(
            image, (each.rows.start, each.columns.start), tiles.counts, tiles.steps, (size, size)
        ).reshape(each.groups, each.group_in, -1, size, size)
        right = _spectra(seen)  # (frequencies, groups, channels, tiles)
        energies = np.square(seen).sum(axis=(-2, -1))
        parts = []
        for first in range(0, each.group_out, together):
            rows = slice(first, first + together)
            left = _spectra(kernels[:, rows]).conj()
            walk = Walk((*left.shape[:-1], right.shape[-1]), np.complex128)
            for at in range(0, each.group_in, CHANNELS):
                part = slice(at, at + CHANNELS)
                walk.add(2 * CHANNELS, left[..., part] @ right[..., part, :])
            walk.end()
            sums = walk.root(order(2 * CHANNELS), _energy(left) @ _energy(right))
            parts.append(_fourier_sigma(sums, walk.total, weights[:, rows] @ energies, size))
        whole = np.concatenate(parts, axis=1).reshape(-1, *tiles.counts)
        spread = whole.repeat(tiles.steps[0], axis=1).repeat(tiles.steps[1], axis=2)
        made.append(spread[:, : each.rows.count, : each.columns.count])
    return np.stack(made), _equal(ordered, source)


def fourier_filters(image: Array, result: Array, g: Geometry) -> tuple[Array, float]:
    """The same of the gradient of the filters: sums go over tiles of all samples."""
    tiles = fft.filter_tiles(g)
    size = tiles.size
    block = max(1, min(TILES, HELD // (size * size * g.channels)))
    together = max(1, HELD // (size * size * max(g.channels, g.groups * block)))
    made = []
    for first in range(0, g.group_filters, together):
        rows = slice(first, first + together)
        count = len(range(g.group_filters)[rows])
        shape = (size * (size // 2 + 1), g.groups, count, g.group_channels)
        walk, squares = Walk(shape, np.complex128), np.zeros(shape)
        energies = np.zeros(shape[1:])
        for x, dy in zip(image, result, strict=True):
            some = dy.reshape(g.groups, g.group_filters, *g.result)[:, rows].reshape(-1, *g.result)
            taken = transform_tiles.windows(some, (0, 0), tiles.counts, tiles.steps, tiles.steps)
            seen = transform_tiles.windows(
                x, (-g.pad[0], -g.pad[1]), tiles.counts, tiles.steps, (size, size)
            )
            taken = taken.reshape(g.groups, count, -1, *tiles.steps)
            seen = seen.reshape(g.groups, g.group_channels, -1, size, size)
            for at in range(0, seen.shape[2], block):
                pieces = taken[:, :, at : at + block], seen[:, :, at : at + block]
                left = _spectra(pieces[0], size).conj()
                right = _spectra(pieces[1]).swapaxes(-1, -2)
                walk.add(2 * left.shape[-1], left @ right)
                squares += _energy(left) @ _energy(right)
                lengths = [np.square(piece).sum(axis=(-2, -1)) for piece in pieces]
                energies += lengths[0] @ lengths[1].swapaxes(-1, -2)
        walk.end()
        sums = walk.root(order(2 * block), squares)
        made.append(_fourier_sigma(sums, walk.total, energies, size))
    sigma = np.concatenate(made, axis=1).reshape(g.filters, g.group_channels)
    return np.tile(sigma[:, :, None, None], g.kernel), _equal_over_tiles(image, result)


def _spectra(tiles: Array, size: int | None = None) -> Spectra:
    """Half of the spectrum of tiles, padded to `size`: (frequencies, groups, ..., tiles)."""
    shape = None if size is None else (size, size)
    found = np.fft.rfft2(tiles, s=shape, axes=(-2, -1))
    return np.moveaxis(found.reshape(*tiles.shape[:-2], -1), -1, 0)


def _energy(spectra: Spectra) -> Array:
    found: Array = np.square(spectra.real) + np.square(spectra.imag)
    return found


def _fourier_sigma(sums: Array, products: Spectra, energies: Array, size: int) -> Array:
    """Sigma of the results of tiles, from the roots and the values of sums at each frequency."""
    half = size // 2 + 1
    partners = np.full(half, 2.0)
    partners[[0, -1]] = 1
    weights = np.tile(partners, size).reshape(-1, *(1,) * (sums.ndim - 1))
    depth = 2 * (4 * (size.bit_length() - 1) + 1)
    own = np.square(weights * sums).sum(axis=0) / size**4
    norm = (weights * _energy(products)).sum(axis=0) / size**2
    sigma: Array = U * np.sqrt(own + 2 * depth * energies + depth * norm)
    return sigma
