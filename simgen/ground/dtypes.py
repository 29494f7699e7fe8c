"""Element types as values: one row of the table below for each, and nothing else to be written.

Tensors are stored in one type and computed in another: `accumulation`. What follows from a type
(bounds, ULPs, the pattern in memory that nobody has written, values in files, what kernels load and
store) is derived from its row.

    f64, f32, f16  binary64, binary32, binary16 of IEEE 754-2019, 3.6
    bf16           the upper half of a binary32 (Intel, "BFLOAT16: Hardware Numerics", 2018)
    f8e4m3fn       largest 448, no infinity, one NaN of each sign (OCP 8-bit Floating Point
                   Specification, 2023, table 1)
    f8e5m2         as IEEE 754 makes 8 bits (the same)
    f8...fnuz      a bias larger by 1, no infinity, one NaN, where -0 would be (LLVM, APFloat)
    i8 ... i64     integers, two's complement; those below of kernels of users only:
    u8 ... u64     integers without a sign

The first number in a name is the bits: programs without this table take it from there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import frexp, inf, nextafter
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.errors import LONGEST_WORD, did_you_mean
from simgen.ground.storage.schema import Registered

if TYPE_CHECKING:
    import numpy as np

WORD = 4  # bytes; kernels move nothing smaller
TOGETHER = 4  # narrow elements that kernels move at once, in one or two words
FLUSHED = 2.0**-126  # a result of float32 arithmetic below it may be flushed to zero


class Special(StrEnum):
    """What bit patterns beyond the numbers mean."""

    NONE = "none"  # whole numbers
    IEEE = "ieee"  # the largest exponent is infinity and NaNs
    FINITE = "finite"  # the largest exponent is of numbers too; all ones is NaN
    UNSIGNED_ZERO = "unsigned_zero"  # the same without this NaN: it has the place of -0


@dataclass(frozen=True)
class DType(Registered):
    """An element type. A file has its name."""

    table: ClassVar[dict[str, DType]] = {}
    F32: ClassVar[DType]  # what tensors have where nothing is said
    I32: ClassVar[DType]
    I8: ClassVar[DType]

    name: str
    nbytes: int
    numpy: str  # NumPy's name, or that of the package ml_dtypes
    canary: int  # 32 bits that results are not: NaNs, where the type has any
    exponent: int = 0  # bits; 0: whole numbers
    mantissa: int = 0  # bits that are stored
    bias: int = 0  # bias of the exponent
    special: Special = Special.NONE
    native: str = ""  # the type in C++, where that has one

    def __post_init__(self) -> None:
        if self.table.setdefault(self.name, self) != self:
            raise RuntimeError(f"element type {self.name!r} is registered twice")

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        return self.exponent > 0

    @property
    def is_signed(self) -> bool:
        """Whether it has numbers below zero."""
        return self.is_float or not self.numpy.startswith("uint")

    @property
    def is_long(self) -> bool:
        """Whether float64 does not hold all of its whole numbers."""
        return not self.is_float and self.nbytes > WORD

    @property
    def is_narrow(self) -> bool:
        """Whether several elements share a word."""
        return self.nbytes < WORD

    @cached_property
    def array(self) -> np.dtype[Any]:
        """The type of NumPy's arrays, little-endian."""
        import numpy as np

        if not hasattr(np, self.numpy):
            import ml_dtypes

            found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.numpy))
            return found
        return np.dtype(self.numpy).newbyteorder("<")

    @property
    def accumulation(self) -> DType:
        """The type that kernels compute in: sums, and all else between loading and storing."""
        if self.is_float and self.nbytes <= WORD:
            return DType.F32
        return self if self.is_float or self.is_long else DType.I32

    @property
    def product(self) -> DType:
        """The type of results of matrix products, unless something narrows integers."""
        return self if self.is_float else self.accumulation

    @property
    def roundoff(self) -> float:
        """Largest relative error of rounding to nearest, where nothing is subnormal."""
        if not self.is_float:
            return 0.0
        return 2.0 ** -(self.mantissa + 1)

    @property
    def least_exponent(self) -> int:
        """Smallest exponent of normal numbers; subnormal ones have the same spacing."""
        return 1 - self.bias

    @property
    def largest(self) -> float:
        """The largest finite number."""
        steps = 2**self.mantissa - 1  # steps from 1 to the largest significand
        top = 2**self.exponent - 1 - self.bias
        if self.special is Special.IEEE:
            top -= 1
        if self.special is Special.FINITE:
            steps -= 1
        return float((1 + steps * 2.0**-self.mantissa) * 2.0**top)

    @property
    def overflow(self) -> float:
        """From here on, numbers round to infinity, or to NaN where there is none.

        It is half a step above the largest number: a tie, which the one above wins, being even. Of
        FINITE, whose largest number is even, it is the first that ties no more. Integers have no
        such end: sums wrap around.
        """
        if not self.is_float:
            return inf
        return self.largest + 2.0 ** (frexp(self.largest)[1] - self.mantissa - 2)

    @property
    def vanishing(self) -> float:
        """What is smaller may be zero: it rounds to zero, or float32 arithmetic may flush it.

        Half of the least number is a tie, which zero wins.
        """
        half = nextafter(2.0 ** (self.least_exponent - self.mantissa - 1), 1.0)
        return max(half, FLUSHED) if self.accumulation == DType.F32 else half

    @property
    def c(self) -> str:
        """The type in kernels; narrow ones are in templates/kernels/elements.h."""
        special = f"Special::{self.special.upper()}"
        narrow = f"Narrow<{self.exponent}, {self.mantissa}, {self.bias}, {special}>"
        return self.native or narrow


def _float(
    name: str,
    numpy: str,
    exponent: int,
    mantissa: int,
    canary: int,
    special: Special,
    *,
    more: int = 0,
    native: str = "",
) -> DType:
    """A row of a type of 1 + exponent + mantissa bits; `more` is what its bias has above IEEE's."""
    nbytes, bias = (1 + exponent + mantissa) // 8, 2 ** (exponent - 1) - 1 + more
    return DType(name, nbytes, numpy, canary, exponent, mantissa, bias, special, native)


# Canaries: quiet NaNs as f32; in halves of a word too; in its bytes too, as OCP's, and as f64.
NAN, NANS, FOUR_NANS = 0xFFC0DE5A, 0xFFDAFFDA, 0xFFFF7FFF
IEEE, FINITE, UNSIGNED_ZERO = Special.IEEE, Special.FINITE, Special.UNSIGNED_ZERO
DType.F32 = _float("f32", "float32", 8, 23, NAN, IEEE, native="float")
F64 = _float("f64", "float64", 11, 52, FOUR_NANS, IEEE, native="double")  # for checks
F16 = _float("f16", "float16", 5, 10, NANS, IEEE)
BF16 = _float("bf16", "bfloat16", 8, 7, NANS, IEEE)
F8E4M3FN = _float("f8e4m3fn", "float8_e4m3fn", 4, 3, FOUR_NANS, FINITE)
F8E5M2 = _float("f8e5m2", "float8_e5m2", 5, 2, FOUR_NANS, IEEE)
F8E4M3FNUZ = _float("f8e4m3fnuz", "float8_e4m3fnuz", 4, 3, 0x80808080, UNSIGNED_ZERO, more=1)
F8E5M2FNUZ = _float("f8e5m2fnuz", "float8_e5m2fnuz", 5, 2, 0x80808080, UNSIGNED_ZERO, more=1)
# A sum is hardly ever so low.
DType.I32 = DType("i32", 4, "int32", 0x80C0DE5A, native="int")
DType.I8 = DType("i8", 1, "int8", NAN, native="Whole<0>")
U8 = DType("u8", 1, "uint8", NAN, native="unsigned char")
# Types of users' kernels. All bit patterns are numbers: whole words reveal unwritten elements.
I16 = DType("i16", 2, "int16", NAN, native="short")
U16 = DType("u16", 2, "uint16", NAN, native="unsigned short")
U32 = DType("u32", 4, "uint32", DType.I32.canary, native="unsigned int")
I64 = DType("i64", 8, "int64", DType.I32.canary, native="long long")
U64 = DType("u64", 8, "uint64", DType.I32.canary, native="unsigned long long")

# What is no element type of a tensor, and how it is had.
ELSEWHERE = {
    "i4": "weights alone have 4 bits: w_type=i4 of [FullyConnected], b_type=i4 of [Gemm]",
    "tf32": "tensors have f32, of which --matrix tf32 makes factors of TF32",
}
WORDS = {"half": "f16", "float": "f32", "double": "f64", "char": "i8", "short": "i16", "int": "i32"}
_OTHERS = re.compile(r"(fp|float|bfloat|int|uint)(\d.*)")  # as others spell what begins f, bf, i, u


def cure(word: str) -> str:
    """What to write in place of a word that is the name of no type."""
    lower = word.lower() if len(word) <= LONGEST_WORD else word
    names = {each.numpy: each.name for each in DType.table.values()} | WORDS
    other = _OTHERS.fullmatch(lower)
    short = other[1].replace("int", "i").replace("float", "f").replace("fp", "f") if other else ""
    spelt = names.get(lower) or (short + other[2] if other else lower)
    if spelt in ELSEWHERE:
        return ELSEWHERE[spelt]
    if spelt in DType.table:
        return f"did you mean {spelt!r}?"
    same = [each for each in DType.table if each.startswith(spelt)]
    return did_you_mean(word, same if len(same) > 1 and other else DType.table)
