"""Integers as kernels compute with them: in 32 bits, two's complement, where sums wrap around.

Products of 8 bits and their sums below 2^53 are exact in float64, the type of references. So what a
kernel writes is known to the bit, whatever its order of summation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.ground.arrays import np

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array

HALF = 2.0**31


def wrapped(sums: Array) -> Array:
    """Sums modulo 2^32, from -2^31 on."""
    found: Array = np.mod(sums + HALF, 2 * HALF) - HALF
    return found
