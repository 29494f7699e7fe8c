"""The spread of honest errors of batch normalisation: its sums as simgen/spread.py has them.

Everything that is not a sum is a few roundings, and counted as in batch_norm_errors.py. One error
of a mean or a variance reaches all elements of its feature.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from simgen.layers import features
from simgen.layers.batch_norm_errors import Errors
from simgen.layers.rounding import U
from simgen.spread import repeats, stages

if TYPE_CHECKING:
    import numpy as np

    from simgen.layers.features import Tiling
    from simgen.layers.rounding import Array
else:
    from simgen import arrays as np


@dataclass(frozen=True)
class Spreads(Errors):
    """Proxy standard deviations in place of bounds, no larger than these."""

    def moments(self, x: Array, var: Array) -> tuple[Array, Array]:
        hard = super().moments(x, var)
        mean = self._mean(x)
        d = x - mean
        m, chunks = self.tiling.elements, self.tiling.chunks
        rms = np.sqrt(self._mean(np.square(x)))
        # The division by M; with chunks the division by their length and the product with their
        # weight, in which no more than the root mean square of x goes one way.
        scales = self.inverse * np.abs(mean) if chunks == 1 else 4 * U * rms
        mean_error = np.minimum(self._total(x) / m + scales, hard[0])
        # Each square: its difference, which counts twice, and its own product.
        var_error = self._total(np.square(d), 3) / m + self.inverse * var + mean_error**2
        if chunks > 1:  # as in Errors: squares between chunks
            e = (_inside(self.tiling) / sqrt(self.tiling.tile) + 2) * U * rms + mean_error
            var_error += 5 * U * var + 2 * np.sqrt(var) * e + e**2
        return mean_error, np.minimum(var_error, hard[1])

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
        """Of a sum over each feature, each term of which has `more` roundings of its own."""
        tiling = self.tiling
        lengths: tuple[int, ...] = _lengths(tiling)
        if tiling.chunks > 1:
            lengths = (*lengths, *_lengths(features.finishing(tiling.chunks)))
        rows = np.moveaxis(terms, 1, 0).reshape(terms.shape[1], -1)
        if self.axes == (0,):  # each activation by itself
            rows = terms.reshape(len(terms), -1).T
        scale = U * (stages(*lengths) + more) * sqrt(repeats(rows))
        found: Array = scale * np.sqrt(self._sum(np.square(terms)))
        return found


def _lengths(tiling: Tiling) -> tuple[int, ...]:
    """Terms of a work-item, and of the two steps of a reduction."""
    finals = min(tiling.slices, features.FINALS)
    return tiling.held, tiling.slices // finals, finals


def _inside(tiling: Tiling) -> float:
    return stages(*_lengths(tiling))
