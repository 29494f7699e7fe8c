"""Sums that float32 arithmetic computes without rounding, in whatever order.

Let all terms of a sum be whole multiples of one power of two, its grain. Then so is the sum of any
of them; and if the sum of their absolute values is no more than 2^24 grains, each of these is a
float32 number (24 bits of a significand). So nothing is rounded, whichever terms are added first,
and whether a product is fused with an addition or not: every right kernel gives the same bits.
Zeros may differ in their signs.

The grain of products is the product of their factors' grains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.dtypes import DType
from simgen.ground.numerics.rounding import TINY

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array

MAX_GRAINS = 1 / DType.F32.roundoff  # grains of a number of the type that kernels compute in
FIRST = 2**10  # elements that are looked at first: of random numbers they are enough
AT_ONCE = 2**20


def grain(*tensors: Array) -> float:
    """The grain of products of one element of each tensor; of one tensor, of its elements.

    That is infinite where there is nothing but zeros, and 0 where no sum of them would be exact: an
    element has more than 2^24 grains, or is not finite, or a grain might be flushed to zero.
    """
    found = [_grain(tensor) for tensor in tensors]
    if 0.0 in found:
        return 0.0
    made = float(np.prod(found))
    return made if made >= TINY else 0.0


def _grain(tensor: Array) -> float:
    flat = np.asarray(tensor, np.float64).reshape(-1)
    least, most = np.inf, 0.0
    start, end = 0, FIRST
    while start < flat.size:
        part = np.abs(flat[start:end])
        most = max(most, float(part.max()))
        if not np.isfinite(part).all():
            return 0.0
        significand, exponent = np.frexp(part[part > 0])
        digits = (significand * 2.0**53).astype(np.int64)
        lowest = np.ldexp((digits & -digits).astype(np.float64), exponent - 53)
        least = min(least, float(lowest.min(initial=np.inf)))
        if most > MAX_GRAINS * least:
            return 0.0
        start, end = end, end + AT_ONCE
    return least


def settled(values: Array, magnitudes: Array, of_terms: float) -> Array:
    """The values where their sums are exact, NaN elsewhere.

    `magnitudes` are the sums of the absolute values of their terms, whose grain is `of_terms`.
    """
    found: Array = np.where(magnitudes <= MAX_GRAINS * of_terms, values, np.nan)
    return found


def scaled(sums: Array, factor: Array | float) -> Array:
    """One float32 product of each sum and a float32 number, or that of its column; NaN where it may
    be flushed to zero."""
    product = sums * factor  # exact: both have 24 bits
    rounded: Array = product.astype(np.float32).astype(np.float64)
    return np.where((product == 0) | (np.abs(rounded) >= TINY), rounded, np.nan)


def filled(values: Array, known: Array) -> Array:
    """What `Layer.exact` knows, and `values` where it does not."""
    return np.where(np.isnan(known), values, known)


def cleared(bounds: Array, known: Array) -> Array:
    """0 where `Layer.exact` knows the value, else the bound."""
    return np.where(np.isnan(known), bounds, 0.0)
