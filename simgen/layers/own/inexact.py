"""Numbers with a bound on the error that arithmetic in a float type may have made of them.

An expression evaluated with these gives a reference and what any kernel may be off that computes
it operation by operation, in any order of its sums: running error analysis (Higham, "Accuracy and
Stability of Numerical Algorithms", 2002, 3.3), with u the unit roundoff. Constants of functions are
those of what compilers for GPUs make of them without a library: a division is right to 2.5 units
in the last place (OpenCL 3.0 C, 7.4), exponentials and logarithms are one instruction of 1 unit and
the products around it.

The type of storage is not the type of arithmetic: 16-bit numbers are computed with in float32, and
results may be rounded to 16 bits on the way where a kernel does so (`Arithmetic.narrow`). What
overflows on the way has an infinite bound.

Evaluated with `Arithmetic.likely`, the same rules give the proxy standard deviation of the error
(simgen/ground/numerics/spread.py). Roundings in sums count as independent, and so do errors of
terms, but for what terms have in `common`: an operand that was broadcast, say. Within an element,
all errors add up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.ground.dtypes import DType
from simgen.ground.numerics.spread import SAMPLE, any_order, correlated, repeats, sum_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

DIVISION = 5.0  # in units of u: 2.5 units in the last place
FUNCTION = 16.0
PERIODIC = 64.0  # error factor of sin and cos, whose argument is reduced with one product
NARROW = 4.0  # units of a narrow type at most: its functions are right to 2 in the last place
TINY = 2.0**-126  # what is smaller may be flushed to zero
NEARLY_ZERO = 2.0**-100  # what many flushed numbers add up to
FAR = 8.0  # standard deviations that nothing exceeds
MANY = 1024  # terms whose roundings are counted one by one
VARIED = 32  # terms among which one is another number, on average


@dataclass(frozen=True)
class Arithmetic:
    """What kernels compute in.

    Attributes:
        u: unit roundoff of operations.
        sums: unit roundoff of additions in sums.
        narrow: unit roundoff of the type that results are rounded to on the way; 0: none.
        least: half of the distance of the smallest numbers of that type.
        overflow: a result from here on is infinite.
        sum_overflow: a sum from here on is infinite.
        likely: errors are proxy standard deviations, not bounds.
        far: so many standard deviations will be allowed. What is a bound counts by this part, until
            a sum of many makes a standard deviation of it.
    """

    u: float = DType.F32.roundoff
    sums: float = DType.F32.roundoff
    narrow: float = 0.0
    least: float = 0.0
    overflow: float = DType.F32.overflow
    sum_overflow: float = DType.F32.overflow
    likely: bool = False
    far: float = 1.0

    @property
    def flushed(self) -> float:
        """What may be lost of a result that is nearly 0."""
        flushed = TINY if self.u * self.far >= DType.F32.roundoff else 0.0
        return self.least + flushed / self.far

    def allowing(self, far: float) -> Arithmetic:
        """The likely errors of which so many standard deviations are allowed."""
        parts = {name: getattr(self, name) / far for name in ("u", "narrow", "least")}
        return replace(self, likely=True, far=far, **parts)


FLOAT32 = Arithmetic()


@dataclass(frozen=True)
class Inexact:
    """Values, and a bound on the error of each.

    `common` is the share of it that elements have in common, where errors are likely ones.
    """

    value: Array
    bound: Array
    u: Arithmetic = FLOAT32
    common: Array | float = 0.0

    __array_priority__ = 100

    def rounded(self, units: float = 1.0, *operands: Inexact) -> Inexact:
        """After an operation that is right to so many units in the last place of the arithmetic;
        of infinite operands that are exact, an infinite result is so too."""
        most = np.abs(self.value) + self.bound
        relative = units * self.u.u + min(units, NARROW) * self.u.narrow
        bound = self.bound + relative * most + self.u.flushed
        bound = np.where(most < self.u.overflow, bound, inf)
        for each in operands:
            exact = np.isinf(each.value) & (each.bound == 0) & np.isinf(self.value)
            bound = np.where(exact, 0.0, bound)
        if not self.u.likely:
            return Inexact(self.value, bound, self.u)
        return Inexact(self.value, bound, self.u, _share(self.common * self.bound, bound))

    def moved(self, function: Callable[[Array], Array]) -> Inexact:
        """Elements chosen or put elsewhere."""
        value, common = function(self.value), self.common
        if self.u.likely:
            is_more = np.size(value) > np.size(self.value)
            common = 1.0 if is_more else function(np.broadcast_to(common, np.shape(self.value)))
        return Inexact(value, function(self.bound), self.u, common)

    def increasing(self, function: Callable[[Array], Array], units: float = FUNCTION) -> Inexact:
        """A function that never decreases: its error is what the ends of the interval give. Where
        only a part of the interval has values, rounding decides whether there is one."""
        far = FAR if self.u.likely else 1.0
        middle = function(self.value)
        low = function(self.value - far * self.bound)
        high = function(self.value + far * self.bound)
        spread = np.fmax(np.abs(high - middle), np.abs(middle - low)) / far
        known = np.isfinite(self.bound) & (np.isnan(low) == np.isnan(high))
        spread = np.where(known, np.nan_to_num(spread, nan=0.0, posinf=inf), inf)
        return Inexact(middle, spread, self.u, self.common).rounded(units, self)


@dataclass(frozen=True)
class Decision:
    """Truth values, and where errors might have made them others."""

    value: Array
    unsure: Array


def inexact_of(value: Any, u: Arithmetic = FLOAT32) -> Inexact:
    """A number or an array as values without errors; decisions count as 0 and 1."""
    if isinstance(value, Inexact):
        return value
    if isinstance(value, Decision):
        return Inexact(value.value.astype(float), value.unsure.astype(float), u)
    array = np.asarray(value, float)
    return Inexact(array, np.zeros_like(array), u)


def add(a: Inexact, b: Inexact) -> Inexact:
    return _combined(a.value + b.value, (a, b), (a.bound, b.bound)).rounded(1.0, a, b)


def subtract(a: Inexact, b: Inexact) -> Inexact:
    return _combined(a.value - b.value, (a, b), (a.bound, b.bound)).rounded(1.0, a, b)


def _combined(
    value: Array, operands: tuple[Inexact, Inexact], parts: tuple[Array, Array]
) -> Inexact:
    """A value with the `parts` of its error that are each operand's; an operand that is broadcast
    has all of it in common."""
    bound, u = parts[0] + parts[1], operands[0].u
    if not u.likely:
        return Inexact(value, bound, u)
    shared = [
        part * (1.0 if np.size(each.value) < np.size(value) else each.common)
        for each, part in zip(operands, parts, strict=True)
    ]
    return Inexact(value, bound, u, _share(shared[0] + shared[1], bound))


def _product(a: Inexact, b: Inexact, times: Callable[[Array, Array], Array]) -> Array:
    """The error of a bilinear product."""
    left, right = np.abs(a.value), np.abs(b.value)
    error: Array = times(left, b.bound) + times(a.bound, right) + times(a.bound, b.bound)
    return error


def multiply(a: Inexact, b: Inexact) -> Inexact:
    parts = a.bound * (np.abs(b.value) + b.bound), np.abs(a.value) * b.bound
    return _combined(a.value * b.value, (a, b), parts).rounded(1.0, a, b)


def divide(a: Inexact, b: Inexact) -> Inexact:
    quotient = a.value / b.value
    left = np.abs(b.value) - (FAR if a.u.likely else 1.0) * b.bound
    left = np.where(left > 0, left, 0.0)
    exact = (a.bound == 0) & (b.bound == 0)
    parts = (
        np.where(exact, 0.0, a.bound / left),
        np.where(exact, 0.0, np.abs(quotient) * b.bound / left),
    )
    made = _combined(quotient, (a, b), parts).rounded(DIVISION, a, b)
    of_zero = exact & (b.value == 0) & np.isinf(quotient)
    return replace(made, bound=np.where(of_zero, 0.0, made.bound))


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
    units = (4 * np.abs(b.value * logarithm) + FUNCTION) * a.u.u
    bound = np.abs(value) * (np.expm1(relative) + units)
    negative = (a.bound > np.abs(a.value)) & (a.bound > NEARLY_ZERO)
    bound = np.where(negative & (b.value != np.floor(b.value)), inf, bound)
    common = _combined(value, (a, b), (of_a, relative - of_a)).common
    return Inexact(value, bound, a.u, common).rounded(1.0, a, b)


def bilinear(a: Inexact, b: Inexact, times: Callable[..., Array], terms: int) -> Inexact:
    """Sums of `terms` products each, in any order: matmul, convolve."""
    of_terms = times(np.abs(a.value) + a.bound, np.abs(b.value) + b.bound)
    error, products = _product(a, b, times), a.u.u * of_terms
    value = times(a.value, b.value)
    if not a.u.likely:
        return _summed(value, error + products + terms * a.u.flushed, of_terms, terms, a.u)
    left, right = np.square(a.value), np.square(b.value)
    equal = min(_repeats(a.value), _repeats(b.value))
    if np.any(error):
        own = [np.square(each.bound * (1 - each.common)) for each in (a, b)]
        apart = a.u.far * np.sqrt(equal * (times(left, own[1]) + times(own[0], right)))
        shared = [each.bound * each.common for each in (a, b)]
        whole = times(np.abs(a.value), shared[1]) + times(shared[0], np.abs(b.value))
        error = np.fmin(error, whole + times(a.bound, b.bound) + apart)
    squares = times(left, right)
    products = np.fmin(products, a.u.far * a.u.u * np.sqrt(equal * squares))
    error = error + products + terms * a.u.flushed
    made = _summed(value, error, of_terms, terms, a.u, squares, equal)
    x, y = a.value, b.value
    shape = (*x.shape[:-1], *y.shape[1:]) if max(x.ndim, y.ndim) <= 2 and x.ndim else None
    if np.shape(value) == shape and np.size(value) * terms <= SAMPLE:
        rows = (x.reshape(-1, 1, terms) * y.reshape(terms, -1).T).reshape(-1, terms)
        made = _counted(made, error, rows, equal)
    return replace(made, common=_share(error, made.bound))


def summed(
    a: Inexact, function: Callable[[Array], Array], terms: int, axes: Sequence[int] = ()
) -> Inexact:
    """Sums of `terms` elements each, in any order: sum, along `axes`; cumsum."""
    of_terms, value = function(np.abs(a.value) + a.bound), function(a.value)
    error = function(a.bound)
    if not a.u.likely:
        return _summed(value, error, of_terms, terms, a.u)
    equal, whole = _repeats(a.value), function(a.bound * a.common)
    apart = a.u.far * np.sqrt(equal * function(np.square(a.bound * (1 - a.common))))
    error = np.fmin(error, whole + apart)
    running = np.shape(value) == np.shape(a.value)  # each sum has those before it in it
    made = _summed(value, error, of_terms, terms, a.u, function(np.square(a.value)), equal)
    if not running:
        rows = np.moveaxis(a.value, axes, range(-len(axes), 0)).reshape(-1, terms)
        made = _counted(made, error, rows, equal)
    return replace(made, common=1.0 if running else _share(whole, made.bound))


def _counted(made: Inexact, error: Array, rows: Array, equal: float) -> Inexact:
    """Sums of many terms, whose roundings are counted one by one: `rows` are the terms of each,
    which are off by `error` together. Allowed are as many deviations as of normal numbers."""
    u, terms = made.u, rows.shape[-1]
    if u.sums != DType.F32.roundoff or u.narrow or terms < MANY or equal * VARIED > terms:
        return made
    far = sum_limit(np.size(made.value))
    mean, sigma = (each.reshape(np.shape(made.value)) for each in any_order(rows, far))
    sigma = sigma * min(1.0, far / u.far)
    counted = np.fmin(made.bound, error + mean / u.far + sigma)
    return replace(made, bound=np.where(np.isfinite(made.bound), counted, inf))


def _summed(
    value: Array, error: Array, magnitude: Array, terms: int, u: Arithmetic,
    squares: Array | None = None, equal: float = 1.0,
) -> Inexact:  # fmt: skip
    """Sums whose terms are off by `error` together, with the roundings of `terms` additions.

    Jeannerod and Rump, "Improved error bounds for inner products in floating-point arithmetic",
    SIAM J. Matrix Anal. Appl. 34(2), 2013: n u of the sum of absolute values, for every n. The
    likely partial sums are those of terms in a random order, whose squares add up to
    n / 6 of the terms' squares and n / 3 of the square of the sum on average; both count thrice.
    """
    lost = terms * u.sums * magnitude
    if squares is not None:
        sigma = u.sums * np.sqrt(terms * (squares / 2 + np.square(value)))
        lost = correlated(sigma, lost / u.far, terms, squares, magnitude, equal)
    made = Inexact(value, np.where(magnitude < u.sum_overflow, error + lost, inf), u)
    return made.rounded() if u.narrow else made


def _share(part: Array, whole: Array) -> Array:
    """Share of a part in a whole: at most 1; 1 if the whole is infinite."""
    made: Array = np.where(whole > 0, np.nan_to_num(part / whole, nan=1.0), 0.0)
    return made


def _repeats(values: Array) -> float:
    """How often a value is there, among those of its row or column."""
    if values.ndim < 2:
        return repeats(values)
    return max(repeats(values), repeats(np.moveaxis(values, -2, -1)))


def extreme(a: Inexact, function: Callable[[Array], Array]) -> Inexact:
    """max, min or sort: no farther off than the worst element."""
    value = function(a.value)
    worst = np.max(a.bound, initial=0.0)
    return Inexact(value, np.full_like(value, worst, dtype=float), a.u, 1.0)


def by_element(maximum: Inexact, x: Inexact) -> Inexact:
    """The maximum of each row of x, beside x, from which it is subtracted: what it is off leaves
    the quotients of exponentials as they are, so that no error is common to their sums."""
    bound = np.fmin(maximum.bound, x.bound)
    return Inexact(np.broadcast_to(maximum.value, x.value.shape), bound, x.u)


def pairwise(a: Inexact, b: Inexact, function: Callable[[Array, Array], Array]) -> Inexact:
    """maximum or minimum."""
    bound = np.fmax(a.bound, b.bound) * np.ones_like(a.value + b.value)
    return Inexact(function(a.value, b.value), bound, a.u, 1.0)


def exponential(a: Inexact) -> Inexact:
    """The argument times log2 e is rounded before the instruction."""
    lost = np.where(np.isinf(a.value) & (a.bound == 0), 0.0, 2 * a.u.u * np.abs(a.value))
    moved = Inexact(a.value, a.bound + lost, a.u, _share(a.common * a.bound, a.bound + lost))
    return moved.increasing(np.exp)


def logarithm(a: Inexact, function: Callable[[Array], Array]) -> Inexact:
    """Right to units of the result, or of 1 where that is smaller."""
    made = a.increasing(function)
    pole = np.isinf(made.value) & (a.bound == 0)
    return replace(made, bound=np.where(pole, 0.0, made.bound + FUNCTION * a.u.u))


def root(a: Inexact) -> Inexact:
    """A square root, 0 of what rounding may have made of a 0; a - b, rounded otherwise than the
    kernel does it (a fused multiply-add), may be less."""
    above = replace(a, value=np.maximum(a.value, 0 * a.value))
    return above.increasing(
        lambda v: np.sqrt(np.where(v < -NEARLY_ZERO, v, np.maximum(v, 0))), DIVISION
    )


def periodic(a: Inexact, function: Callable[[Array], Array]) -> Inexact:
    error = a.bound + (4 * np.abs(a.value) + PERIODIC) * a.u.u
    return Inexact(function(a.value), error, a.u, a.common)


def stepped(a: Inexact, function: Callable[[Array], Array]) -> Inexact:
    """floor, ceil, rint, trunc, sign: right, or off by a step near its ends."""
    value, off = function(a.value), a.bound * (FAR if a.u.likely else 1.0)
    low, high = function(a.value - off), function(a.value + off)
    return Inexact(value, np.fmax(np.abs(high - value), np.abs(value - low)), a.u, 1.0)


def compare(a: Inexact, b: Inexact, function: Callable[[Array, Array], Array]) -> Decision:
    error = (a.bound + b.bound) * (FAR if a.u.likely else 1.0)
    unsure = (np.abs(a.value - b.value) <= error) & (error > 0)
    return Decision(function(a.value, b.value), unsure)


def choose(condition: Any, a: Inexact, b: Inexact) -> Inexact:
    """where(condition, a, b); bounds cover both if the condition is uncertain."""
    if not isinstance(condition, Decision):
        wanted = np.asarray(condition, bool)
        condition = Decision(wanted, np.zeros_like(wanted))
    chosen = np.where(condition.value, a.value, b.value)
    bound = np.where(condition.value, a.bound, b.bound)
    either = np.abs(a.value - b.value) + np.fmax(a.bound, b.bound)
    return Inexact(chosen, np.where(condition.unsure, either, bound), a.u, 1.0)
