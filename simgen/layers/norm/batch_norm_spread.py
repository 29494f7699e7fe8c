"""The spread of honest errors of batch normalisation: its sums as in ground/numerics/spread.py.

Everything that is not a sum is a few roundings, and counted as in batch_norm_errors.py. One error
of a mean or a variance reaches all elements of its feature.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp, sqrt
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.numerics.rounding import U, float32
from simgen.ground.numerics.spread import repeats, stages
from simgen.layers import reduction
from simgen.layers.norm.batch_norm_errors import BatchNormErrors

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.reduction import Tiling


@dataclass(frozen=True)
class Spreads(BatchNormErrors):
    """Proxy standard deviations in place of bounds, no larger than these."""

    def moments(self, x: Array, var: Array) -> tuple[Array, Array]:
        hard = super().moments(x, var)
        mean = self._mean(x)
        m, chunks = self.tiling.elements, self.tiling.chunks
        # Each square: its difference, which counts twice, and its own product. Then 1 / M.
        var_error = self._total(np.square(x - mean), 3) / m + _scaled(1 / m) * var
        if chunks == 1:
            mean_error = self._total(x) / m + _scaled(1 / m) * np.abs(mean)
            var_error += mean_error**2
            return np.minimum(mean_error, hard[0]), np.minimum(var_error, hard[1])
        tile, last = self.tiling.tile, self.tiling.last
        size, between = self._chunk_means(x, mean)
        scales = max(_scaled(1 / n) + _scaled(n / m) for n in (tile, last))
        mean_error = self._total(x) / m + scales * size
        # Squares between chunks, as in batch_norm_errors: their roundings and those of the means.
        rms = np.sqrt(self._mean(np.square(x)))
        e = _inside(self.tiling) / sqrt(tile) * U * rms + 2 * U * size + mean_error
        var_error += 4 * U * between + 2 * np.sqrt(between) * e + e**2
        return np.minimum(mean_error, hard[0]), np.minimum(var_error, hard[1])

    def _chunk_means(self, x: Array, mean: Array) -> tuple[Array, Array]:
        """Root mean square of the means of chunks, and their mean square about that of all."""
        m, tile = self.tiling.elements, self.tiling.tile
        lengths = np.minimum(tile, m - np.arange(0, m, tile))
        means = self._chunks(self._rows(x)) / lengths
        apart = means - mean.reshape(-1, 1)
        found = (np.square(each) @ lengths / m for each in (means, apart))
        size, between = (each.reshape(mean.shape) for each in found)
        return np.sqrt(size), between

    def running(self, old: Array, new: Array, new_error: Array, keep: float, scale: float) -> Array:
        if scale == 1 and not keep:  # nothing is rounded
            return new_error
        first, second = np.abs(old * keep), np.abs(new * scale)
        roundings = np.sqrt(first**2 + second**2 + (first + second) ** 2)
        constants = _rounded(keep) * first + _rounded(scale) * second
        found = scale * new_error + constants + U * roundings
        made: Array = np.minimum(found, super().running(old, new, new_error, keep, scale))
        return made

    def sum_error(self, dy: Array) -> Array:
        found: Array = np.minimum(self._total(dy), super().sum_error(dy))
        return found

    def dot_error(self, dy: Array, d: Array, d_error: Array) -> Array:
        # The mean's error is the same in all elements; the difference rounds in each.
        shared = d_error.min(axis=self.axes, keepdims=True)
        found = shared * np.abs(self._sum(dy)) + self._total(dy * (np.abs(d) + shared), 2)
        made: Array = np.minimum(found, super().dot_error(dy, d, d_error))
        return made

    def _total(self, terms: Array, more: float = 0.0) -> Array:
        """Spread of a sum over each feature; each term has `more` roundings before the sum."""
        tiling = self.tiling
        rows = self._rows(terms)
        squares = np.square(rows).sum(axis=1)
        found = np.square(_inside(tiling) + more) * squares
        if tiling.chunks > 1:
            ends = stages(*_lengths(reduction.finishing(tiling.chunks)))
            found += ends**2 * np.square(self._chunks(rows)).sum(axis=1)
        sigma: Array = U * np.sqrt(repeats(rows) * found)
        return sigma.reshape([1 if at in self.axes else n for at, n in enumerate(terms.shape)])

    def _chunks(self, rows: Array) -> Array:
        """The sum of each chunk of (features, elements)."""
        starts = np.arange(0, self.tiling.elements, self.tiling.tile)
        sums: Array = np.add.reduceat(rows, starts, axis=1)
        return sums

    def _rows(self, values: Array) -> Array:
        """(features, elements), in the order of the kernels."""
        if self.axes == (0,):  # each activation by itself
            return values.reshape(len(values), -1).T
        return np.moveaxis(values, 1, 0).reshape(values.shape[1], -1)


def _rounded(constant: float) -> float:
    """Relative error of a constant of a kernel."""
    return abs(float32(constant) / constant - 1) if constant else 0.0


def _scaled(constant: float) -> float:
    """Relative error of a product with it."""
    return _rounded(constant) + (U if frexp(constant)[0] != 0.5 else 0.0)


def _lengths(tiling: Tiling) -> tuple[int, ...]:
    """Terms of a work-item, and of the two steps of a reduction."""
    finals = min(tiling.slices, reduction.FINALS)
    return tiling.held, tiling.slices // finals, finals


def _inside(tiling: Tiling) -> float:
    return stages(*_lengths(tiling))
