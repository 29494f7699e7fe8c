"""What is left of results that are stored in a narrower type than they were computed in.

Kernels compute in `DType.accumulation` and round once, to nearest even, as they store. So a
layer's bounds and spreads are those of its arithmetic, and this adds what storing may lose: of a
number v, half of the distance of its neighbours in the type (`half_step`). Where the arithmetic is
exact, what is stored is known to the bit: the nearest number of the type.

In the second judge (simgen/ground/numerics/spread.py), too, this rounding counts whole. Results of
few bits are rounded from few different values, whose errors are equal: they are no independent
draws.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simgen.ground.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simgen.ground.dtypes import DType
    from simgen.ground.numerics.spread import Spread

    Array = NDArray[np.float64]


def is_rounded(dtype: DType) -> bool:
    """Whether storing in the type rounds."""
    return dtype.is_float and dtype != dtype.accumulation


def nearest(values: Array, dtype: DType) -> Array:
    """The numbers of the type that are nearest to numbers of its accumulation type."""
    with np.errstate(all="ignore"):  # infinity, or NaN, where the type ends
        made: Array = values.astype(dtype.accumulation.array).astype(dtype.array).astype(np.float64)
    return made


def half_step(magnitude: Array, dtype: DType) -> Array:
    """The largest error of rounding numbers up to `magnitude` to the type, where it has them."""
    _, exponent = np.frexp(magnitude)  # significand from 1/2 to 1
    binade = np.where(magnitude > 0, exponent - 1, dtype.least_exponent)
    last = np.maximum(binade, dtype.least_exponent) - dtype.mantissa
    made: Array = np.where(np.isfinite(magnitude), np.ldexp(0.5, last), np.inf)
    return made


def rounding(values: Array, dtype: DType) -> Array:
    """The largest error of rounding these numbers to the type, or of flushing them to zero."""
    made: Array = np.abs(values) * dtype.roundoff + (dtype.vanishing if dtype.is_float else 0.5)
    return made


def stored(
    reference: Array, bound: Array, spread: Spread, dtype: DType
) -> tuple[Array, Array, Spread]:
    """Reference, bound and spread of what is stored, from those of what was computed."""
    if not is_rounded(dtype):
        return reference, bound, spread
    exact = bound == 0
    lost = half_step(np.abs(reference) + bound, dtype)
    reference = np.where(exact, nearest(reference, dtype), reference)
    bound = np.where(exact, 0.0, bound + lost)
    lost = np.where(exact, 0.0, lost)
    sigma = np.where(exact, 0.0, np.minimum(spread.sigma + lost, bound))
    return reference, bound, replace(spread, sigma=sigma, stored=np.minimum(lost, sigma))
