"""Numbers with a bound on the error that arithmetic in a float type may have made of them.

An expression evaluated with these gives a reference and what any kernel may be off that computes
it operation by operation, in any order of its sums: running error analysis (Higham, "Accuracy and
Stability of Numerical Algorithms", 2002, 3.3), with u the unit roundoff. Constants of functions are
those of what compilers for GPUs make of them without a library: a division is right to 2.5 units
in the last place (OpenCL 3.0 C, 7.4), exponentials and logarithms are one instruction of 1 unit and
the products around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]

DIVISION = 5.0  # in units of u: 2.5 units in the last place
FUNCTION = 16.0
PERIODIC = 64.0  # of sin and cos, whose argument is reduced with one product
TINY = 2.0**-126  # what is smaller may be flushed to zero


@dataclass(frozen=True)
class Inexact:
    """Values, and a bound on the error of each."""

    value: Array
    bound: Array
    u: float

    __array_priority__ = 100

    def rounded(self, units: float = 1.0) -> Inexact:
        """After an operation that is right to so many units of u."""
        flushed = TINY if self.u >= 2.0**-24 else 0.0
        more = units * self.u * (np.abs(self.value) + self.bound) + flushed
        return Inexact(self.value, self.bound + more, self.u)

    def moved(self, function: Callable[[Array], Array]) -> Inexact:
        """Elements chosen or put elsewhere."""
        return Inexact(function(self.value), function(self.bound), self.u)

    def increasing(self, function: Callable[[Array], Array], units: float = FUNCTION) -> Inexact:
        """A function that never decreases: its error is what the ends of the interval give."""
        middle = function(self.value)
        low, high = function(self.value - self.bound), function(self.value + self.bound)
        spread = np.fmax(np.abs(high - middle), np.abs(middle - low))
        return Inexact(middle, np.nan_to_num(spread, nan=0.0, posinf=np.inf), self.u).rounded(units)


@dataclass(frozen=True)
class Decision:
    """Truth values, and where errors might have made them others."""

    value: Array
    unsure: Array


def of(value: Any, u: float) -> Inexact:
    """A number or an array as values without errors; decisions count as 0 and 1."""
    if isinstance(value, Inexact):
        return value
    if isinstance(value, Decision):
        return Inexact(value.value.astype(float), value.unsure.astype(float), u)
    array = np.asarray(value, float)
    return Inexact(array, np.zeros_like(array), u)


def add(a: Inexact, b: Inexact) -> Inexact:
    return Inexact(a.value + b.value, a.bound + b.bound, a.u).rounded()


def subtract(a: Inexact, b: Inexact) -> Inexact:
    return Inexact(a.value - b.value, a.bound + b.bound, a.u).rounded()


def _product(a: Inexact, b: Inexact, times: Callable[[Array, Array], Array]) -> Array:
    """The error of a bilinear product."""
    left, right = np.abs(a.value), np.abs(b.value)
    error: Array = times(left, b.bound) + times(a.bound, right) + times(a.bound, b.bound)
    return error


def multiply(a: Inexact, b: Inexact) -> Inexact:
    return Inexact(a.value * b.value, _product(a, b, np.multiply), a.u).rounded()


def divide(a: Inexact, b: Inexact) -> Inexact:
    quotient = a.value / b.value
    left = np.abs(b.value) - b.bound
    error = (a.bound + np.abs(quotient) * b.bound) / np.where(left > 0, left, 0.0)
    exact = (a.bound == 0) & (b.bound == 0)
    return Inexact(quotient, np.where(exact, 0.0, error), a.u).rounded(DIVISION)


def power(a: Inexact, b: Inexact) -> Inexact:
    """a ** b; whole exponents up to 4 are products."""
    if b.value.ndim == 0 and b.value in (1, 2, 3, 4) and b.bound == 0:
        made = a
        for _ in range(int(b.value) - 1):
            made = multiply(made, a)
        return made
    logarithm = np.log(np.abs(a.value))
    value = a.value**b.value
    of_a = np.abs(b.value) * a.bound / np.abs(a.value)
    relative = of_a + np.abs(logarithm) * b.bound
    units = (4 * np.abs(b.value * logarithm) + FUNCTION) * a.u
    return Inexact(value, np.abs(value) * (np.expm1(relative) + units), a.u).rounded()


def bilinear(a: Inexact, b: Inexact, times: Callable[..., Array], terms: int) -> Inexact:
    """Sums of `terms` products each, in any order: matmul, convolve."""
    magnitude = times(np.abs(a.value) + a.bound, np.abs(b.value) + b.bound)
    error = _product(a, b, times) + (terms + 1) * a.u * magnitude + terms * _flush(a.u)
    return Inexact(times(a.value, b.value), error, a.u)


def summed(a: Inexact, function: Callable[[Array], Array], terms: int) -> Inexact:
    """Sums of `terms` elements each, in any order: sum, cumsum."""
    magnitude = function(np.abs(a.value) + a.bound)
    error = function(a.bound) + terms * a.u * magnitude
    return Inexact(function(a.value), error, a.u)


def extreme(a: Inexact, function: Callable[[Array], Array]) -> Inexact:
    """max, min or sort: no farther off than the worst element."""
    value = function(a.value)
    worst = np.max(a.bound, initial=0.0)
    return Inexact(value, np.full_like(value, worst, dtype=float), a.u)


def pairwise(a: Inexact, b: Inexact, function: Callable[[Array, Array], Array]) -> Inexact:
    """maximum or minimum."""
    bound = np.fmax(a.bound, b.bound) * np.ones_like(a.value + b.value)
    return Inexact(function(a.value, b.value), bound, a.u)


def exponential(a: Inexact) -> Inexact:
    """The argument times log2 e is rounded before the instruction."""
    moved = Inexact(a.value, a.bound + 2 * a.u * np.abs(a.value), a.u)
    return moved.increasing(np.exp)


def logarithm(a: Inexact, function: Callable[[Array], Array]) -> Inexact:
    """Right to units of the result, or of 1 where that is smaller."""
    made = a.increasing(function)
    return Inexact(made.value, made.bound + FUNCTION * a.u, a.u)


def periodic(a: Inexact, function: Callable[[Array], Array]) -> Inexact:
    error = a.bound + (4 * np.abs(a.value) + PERIODIC) * a.u
    return Inexact(function(a.value), error, a.u)


def stepped(a: Inexact, function: Callable[[Array], Array]) -> Inexact:
    """floor, ceil, rint, trunc, sign: right, or off by a step near its ends."""
    value = function(a.value)
    low, high = function(a.value - a.bound), function(a.value + a.bound)
    return Inexact(value, np.fmax(np.abs(high - value), np.abs(value - low)), a.u)


def compare(a: Inexact, b: Inexact, function: Callable[[Array, Array], Array]) -> Decision:
    error = a.bound + b.bound
    unsure = (np.abs(a.value - b.value) <= error) & (error > 0)
    return Decision(function(a.value, b.value), unsure)


def choose(condition: Any, a: Inexact, b: Inexact) -> Inexact:
    """where(condition, a, b): either of them, where the condition is not sure."""
    if not isinstance(condition, Decision):
        wanted = np.asarray(condition, bool)
        condition = Decision(wanted, np.zeros_like(wanted))
    chosen = np.where(condition.value, a.value, b.value)
    bound = np.where(condition.value, a.bound, b.bound)
    either = np.abs(a.value - b.value) + np.fmax(a.bound, b.bound)
    return Inexact(chosen, np.where(condition.unsure, either, bound), a.u)


def _flush(u: float) -> float:
    return TINY if u >= 2.0**-24 else 0.0
