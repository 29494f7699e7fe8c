"""What float32 arithmetic may lose: the constants from which layers derive their tolerances.

Each bound covers every machine that kernels run on. Sources: AMD's "Vega" and "CDNA3" instruction
set guides (V_EXP_F32, V_LOG_F32, V_RCP_F32: 1 ULP) and NVIDIA's PTX ISA, "Floating-Point
Instructions" (ex2.approx: 2 ULP; lg2.approx: 2^-22 absolute in (1/2, 2), relative elsewhere;
rcp.approx: 1 ULP; sqrt.approx: 2^-23 relative).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.dtypes import FLUSHED, DType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

U = DType.F32.roundoff  # roundoff of the kernels' compute type: one rounding to nearest, relative
EXP2 = 2.0**-22  # relative, of fast_exp2
RCP = 2.0**-23  # relative, of fast_rcp
SQRT = 2.0**-23  # relative, of fast_sqrt
TINY = FLUSHED  # absolute
SECOND_ORDER = 1 + 2.0**-10  # products of errors, which the first-order bounds leave out


def between(low: float, x: Array, high: float) -> Array:
    """min(max(x, low), high) as all machines have it: of a NaN and a number, that is the number."""
    made: Array = np.fmin(np.fmax(x, low), high)
    return made


def lifted(exponent: Array) -> Array:
    """The same with a finite number in place of -infinity: what bounds of an exponential multiply,
    which is 0 there."""
    made: Array = np.maximum(exponent, -DType.F32.largest)
    return made


def log2(argument: Array) -> Array:
    """Absolute error of fast_log2, in units of the result."""
    value: Array = np.log2(argument)
    return 2.0**-22 * np.maximum(1.0, np.abs(value))


def exp(argument: Array) -> Array:
    """Relative error of exp(t) computed as fast_exp2(t * log2(e)), t itself being exact.

    Rounding the product and the constant changes the exponent by 2 U |t|.
    """
    error: Array = 2 * U * np.abs(argument) + EXP2
    return error


def accumulated(depth: int) -> float:
    """Relative error of a sum of products whose terms go through `depth` roundings at most.

    Of the sum of the absolute values of its terms: Higham, "Accuracy and Stability of Numerical
    Algorithms", 2002, equation 3.5.
    """
    return depth * U / (1 - depth * U)


def float32(value: float) -> float:
    """A parameter as the kernel has it."""
    return float(np.float32(value))


def identifier(value: float) -> str:
    """A number as part of a C identifier, different for different float32 values."""
    return float32(value).hex().replace(".", "_").replace("+", "").replace("-", "m")
