"""Linear units x Phi(x), Gaussian and sigmoid, their slopes, and the bounds of the kernels' errors.

    gelu       Phi(x) = (1 + erf(x / sqrt(2))) / 2
    gelu_tanh  Phi(x) = (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
    silu       Phi(x) = 1 / (1 + exp(-x))

Source: Hendrycks and Gimpel, "Gaussian Error Linear Units (GELUs)", 2016, section 2. All have
Phi(x) = 1 - Phi(-x), so that with a = |x|

    y = max(x, 0) - a Phi(-a)        slope at -a: Phi(-a) - a Phi'(a); at a: 1 less this

and nothing is needed but the tail Phi(-a), which keeps its relative error: e r with e = exp(-w),

    gelu       w = a^2 / 2                            r = Phi(-a) exp(a^2 / 2), a Mills ratio
    gelu_tanh  w = sqrt(8 / pi) (a + 0.044715 a^3)    r = 1 / (1 + e)
    silu       w = a                                  r = 1 / (1 + e)

The Mills ratio is t p(t), t = 1 / (1 + a / 4): Shepherd and Laframboise, "Chebyshev Approximation
of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity", Mathematics of Computation 36, 1981. In kernels p
has degree 9, the best for the relative error, which is below 0.6 U with coefficients in float32.
"""

from __future__ import annotations

from functools import cache
from math import erfc, exp, pi, sqrt
from typing import TYPE_CHECKING, NamedTuple

from simgen.ground.arrays import np
from simgen.ground.numerics import rounding
from simgen.ground.numerics.rounding import EXP2, RCP, TINY, U

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array

FURTHEST = 16.0  # from there on the tail is less than any float32
FURTHEST_SILU = 128.0  # the same of silu
SILU = "silu"
DENSITY = 1 / sqrt(2 * pi)  # phi(0)
LINEAR, CUBIC = sqrt(8 / pi), sqrt(8 / pi) * 0.044715  # factors of the powers of w inside tanh
TERMS = 32  # terms of the reference's Mills ratio: relative error below 1e-13
# Relative error of the kernels' Mills ratio. Each rounding counts U: t is off by 3 U with that of
# its reciprocal, and t p(t) by 3.2 times as much; Horner's rule without fused multiply-adds, 10.1 U
# (the sum of (2 k + 1) |c_k| t^k over p(t)); p itself 0.6 U; the product with t.
MILLS = (U + RCP) * 3.2 + 11.7 * U


class Tail(NamedTuple):
    """Functions of |x| that the kernels compute, with their relative errors."""

    a: Array
    e: Array
    rest: Array
    e_error: Array
    rest_error: Array


def forward(x: Array, unit: str) -> Array:
    a, e, rest, *_ = _tail(x, unit)
    y: Array = np.maximum(x, 0.0) - a * rest * e
    return y


def slope(x: Array, unit: str) -> Array:
    """dy/dx."""
    low = _low(_tail(x, unit), unit)
    return np.where(x > 0, 1 - low, low)


def forward_bound(x: Array, y: Array, unit: str) -> Array:
    """Error bound of (a r) e: two products, then a difference. The values that may be flushed are
    e, the result, a r, and the product of a r with e.
    """
    a, e, rest, e_error, rest_error = _tail(x, unit)
    bound: Array = a * rest * e * (e_error + rest_error + 2 * U) + U * np.abs(y)
    bound += (a * rest + 2) * TINY
    return bound


def slope_bound(x: Array, unit: str) -> Array:
    """Absolute: near x = -0.75 the slope is 0, a difference of others.

    Of e (r - a phi(0)): the constant and its product round by U; then the difference, and the
    product with e. Of e r (1 - a r w'): w' has four roundings, and two products follow; the others
    as before, and one more of e r. What may be flushed is e, and the results.
    """
    tail = _tail(x, unit)
    a, e, rest, e_error, rest_error = tail
    low = np.abs(_low(tail, unit))
    if unit != "gelu":
        moved = a * rest * _steep(a, unit)
        inner = moved * (6 * U + rest_error) + U * np.abs(1 - moved)
        bound = e * rest * inner + low * (e_error + rest_error + 2 * U)
        flushed = 1 + moved
    else:
        inner = rest * rest_error + 2 * U * DENSITY * a + U * np.abs(rest - DENSITY * a)
        bound = e * inner + low * (e_error + U)
        flushed = 1 + DENSITY * a
    last: Array = np.where(x > 0, U * (1 - _low(tail, unit)), 0.0)
    return bound + last + (flushed + 2) * TINY


def _low(tail: Tail, unit: str) -> Array:
    """The slope at -a."""
    a, e, rest = tail.a, tail.e, tail.rest
    if unit == "gelu":
        return e * (rest - DENSITY * a)
    return e * rest * (1 - a * rest * _steep(a, unit))


def _steep(a: Array, unit: str) -> Array:
    """dw/da, but for gelu."""
    return np.ones_like(a) if unit == SILU else LINEAR + 3 * CUBIC * a * a


def _tail(x: Array, unit: str) -> Tail:
    a = np.minimum(np.abs(x), FURTHEST_SILU if unit == SILU else FURTHEST)
    if unit == "gelu":
        w = a * a / 2
        e = np.exp(-w)
        # The square rounds too, and its constant and the product are those of rounding.exp.
        e_error = rounding.exp(w) + U * w
        return Tail(a, e, _mills(a), e_error, np.full_like(a, MILLS))
    # The square, its constant, two products and a sum round: 5 U of w. Of silu, 2 U.
    w = a if unit == SILU else a * (LINEAR + CUBIC * a * a)
    e = np.exp(-w)
    e_error = rounding.exp(w) if unit == SILU else 5 * U * w + EXP2
    return Tail(a, e, 1 / (1 + e), e_error, e / (1 + e) * e_error + U + RCP)


def _mills(a: Array) -> Array:
    """Phi(-a) exp(a^2 / 2), 0 <= a <= FURTHEST: a Chebyshev series of t, by Clenshaw's rule."""
    first = 1 / (1 + FURTHEST / 4)
    t = 1 / (1 + a / 4)
    twice = 2 * (2 * t - 1 - first) / (1 - first)
    last, before = np.zeros_like(a), np.zeros_like(a)
    *others, lowest = reversed(_series())
    for coefficient in others:
        last, before = coefficient + twice * last - before, last
    ratio: Array = t * (lowest + twice / 2 * last - before)
    return ratio


@cache
def _series() -> tuple[float, ...]:
    """Chebyshev coefficients of Phi(-a) exp(a^2 / 2) / t; erfc comes from the C library."""
    first = 1 / (1 + FURTHEST / 4)
    angles = (np.arange(TERMS) + 0.5) * (pi / TERMS)
    values = []
    for angle in angles:
        t = (1 + first + (1 - first) * float(np.cos(angle))) / 2
        a = 4 * (1 / t - 1)
        values.append(erfc(a / sqrt(2)) / 2 * exp(a * a / 2) / t)
    terms = [2 / TERMS * float(np.dot(values, np.cos(k * angles))) for k in range(TERMS)]
    return (terms[0] / 2, *terms[1:])
