"""Numbers with what float32 arithmetic has lost of them so far: formulas that bound themselves.

A formula that is written with `Bounded` numbers gives its value in float64 and, beside it, a bound
on how far the same formula in float32 may be away: each operation passes on the errors of its
operands and rounds once. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section
3.3: running error analysis. Errors of operands may also be proxy standard deviations
(simgen/ground/numerics/spread.py): then so is the result's, the roundings of the formula counted
whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.numerics.rounding import TINY, U

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array


@dataclass(frozen=True)
class Bounded:
    """Values, and for each a bound on its error; None: errors are not followed."""

    value: Array
    error: Array | None = None

    def __add__(self, other: Bounded) -> Bounded:
        return _rounded(self.value + other.value, _sum(self.error, other.error))

    def __sub__(self, other: Bounded) -> Bounded:
        return _rounded(self.value - other.value, _sum(self.error, other.error))

    def __mul__(self, other: Bounded) -> Bounded:
        return _rounded(self.value * other.value, _product(self, other))

    def beside_one(self) -> tuple[Bounded, Bounded]:
        """1 - x and 1 + x."""
        return _rounded(1 - self.value, self.error), _rounded(1 + self.value, self.error)

    def where(self, chosen: NDArray[np.bool_]) -> Bounded:
        """The same where `chosen`, elsewhere an exact zero."""
        error = None if self.error is None else np.where(chosen, self.error, 0.0)
        return Bounded(np.where(chosen, self.value, 0.0), error)


def fused(a: Bounded, b: Bounded, c: Bounded) -> Bounded:
    """a b + c; machines without fused multiply-adds round the product too."""
    return a * b + c


def _sum(a: Array | None, b: Array | None) -> Array | None:
    return None if a is None or b is None else a + b


def _product(a: Bounded, b: Bounded) -> Array | None:
    if a.error is None or b.error is None:
        return None
    found: Array = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
    return found


def _rounded(value: Array, error: Array | None) -> Bounded:
    """What becomes of a result that is off by `error`: it is rounded, or flushed to zero."""
    if error is None:
        return Bounded(value)
    return Bounded(value, error + U * (np.abs(value) + error) + TINY)
