"""Results of a kernel's operations in float32, each with a bound on its error.

What an operation rounds is added to what its operands are off. Products may be flushed to zero, and
are fused with sums or not (MGPUSim). Quotients are products with a reciprocal, which may be flushed
where the divisor is large; nothing is known of a divisor that may be flushed itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.numerics import rounding
from simgen.ground.numerics.rounding import RCP, TINY, U

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array


@dataclass(frozen=True)
class WithError:
    """Values, and how far off they may be."""

    value: Array
    error: Array | float = 0.0

    def _made(self, value: Array, error: Array | float, flushed: Array | float = 0.0) -> WithError:
        """A result, which is rounded once and may be flushed."""
        size = np.abs(value) + error
        return WithError(value, error + U * size + np.where(size > 0, flushed, 0.0))

    def __neg__(self) -> WithError:
        return WithError(-self.value, self.error)

    def __add__(self, other: WithError) -> WithError:
        """A sum below the least normal number is exact."""
        return self._made(self.value + other.value, self.error + other.error)

    def __sub__(self, other: WithError) -> WithError:
        return self._made(self.value - other.value, self.error + other.error)

    def __mul__(self, other: WithError | float) -> WithError:
        other = other if isinstance(other, WithError) else WithError(np.asarray(other))
        error = np.abs(self.value) * other.error + (np.abs(other.value) + other.error) * self.error
        return self._made(self.value * other.value, error, TINY)

    def __truediv__(self, other: WithError) -> WithError:
        """Both are exact."""
        value = self.value / other.value
        error = (RCP + U + RCP * U) * np.abs(value) + TINY * np.abs(self.value) + TINY
        return WithError(value, np.where(np.abs(other.value) < TINY, np.inf, error))

    def fused(self, factor: float, added: float) -> WithError:
        """A multiply-add, or a product where nothing is added."""
        product = self * factor
        if not added:
            return product
        return product._made(product.value + added, product.error, TINY)

    def between(self, low: float, high: float) -> WithError:
        """What is cut off may have been rounded across the ends; what is infinite was not."""
        value, error = rounding.between(low, self.value, high), np.zeros_like(self.value)
        off = np.where(np.isinf(self.value), 0.0, self.error)
        for end in (self.value - off, self.value + off):
            error = np.maximum(error, np.abs(rounding.between(low, end, high) - value))
        return WithError(value, error)

    def where_positive(self, other: WithError) -> WithError:
        """These, where they are above 0, which is known; others elsewhere."""
        above = self.value > 0
        value = np.where(above, self.value, other.value)
        return WithError(value, np.where(above, self.error, other.error))
