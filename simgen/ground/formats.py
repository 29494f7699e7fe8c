"""Formats of numbers that share scales: rows of two tables.

An element has few bits, and a group of neighbours along a row has a scale: a number is the product
of both. Elements of 4 and 6 bits lie one behind the other in bytes, the first one lowest.

    f6e2m3, f6e3m2, f4e2m1  a sign, exponent and mantissa as IEEE 754 has them, without infinity and
                            NaN: all bit patterns are numbers
    i4                      whole numbers, two's complement
    e8m0                    a scale 2^(E - 127); 255 is NaN. As a tensor it is the byte E

Source: OCP Microscaling Formats (MX) Specification 1.0, 2023, sections 5 and 6; for nvfp4, NVIDIA,
"Pretraining Large Language Models with NVFP4", 2025, section 2; for fp8, DeepSeek-AI, "DeepSeek-V3
Technical Report", 2024, section 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import frexp
from typing import TYPE_CHECKING, Any

from simgen.ground.arrays import np
from simgen.ground.dtypes import F8E4M3FN, F8E5M2, F16, U8, DType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

BYTE = 8  # bits
WORD = 4  # bytes
EACH = 16  # elements that begin and end with a word in every format
E8M0_BIAS = 127
# Kernels round quotients to 21 bits before they choose a number: half a step, and the errors of a
# reciprocal and a product; relative.
SETTLED = 6 * 2.0**-23


@dataclass(frozen=True)
class Element:
    """A type of elements, of `bits` each. Of a whole byte it is `dtype`."""

    name: str
    bits: int
    dtype: DType  # type of the tensor that holds them
    exponent: int = 0  # bits; 0: whole numbers
    mantissa: int = 0
    bias: int = 0
    numpy: str = ""  # the name of the package ml_dtypes

    @property
    def is_packed(self) -> bool:
        return self.bits < BYTE

    @property
    def levels(self) -> Array:
        """The numbers from 0 on, in the order of their bit patterns; of i4 without a sign."""
        codes = np.arange(1 << (self.bits - 1))
        if not self.exponent:
            return codes.astype(np.float64)
        e, m = codes >> self.mantissa, codes & (1 << self.mantissa) - 1
        lead = (e > 0) * 2.0**self.mantissa
        made: Array = np.ldexp(lead + m, np.maximum(e, 1) - self.bias - self.mantissa)
        return made

    @property
    def largest(self) -> float:
        return self.dtype.largest if not self.is_packed else float(self.levels[-1])

    @property
    def top(self) -> int:
        """The exponent of the largest number."""
        return frexp(self.largest)[1] - 1

    @property
    def c(self) -> str:
        """The type in kernels (templates/kernels/scales.h)."""
        return self.name.upper() if self.is_packed else self.dtype.c

    def extent(self, elements: int) -> int:
        """Elements of its tensor that hold so many in a row."""
        return elements * self.bits // BYTE

    def count(self, extent: int) -> int:
        """The inverse."""
        return extent * BYTE // self.bits

    def decoded(self, stored: NDArray[Any]) -> Array:
        """The numbers of rows as they are stored, (..., extent); of bytes, their values."""
        if not self.is_packed:
            return stored.astype(np.float64)
        stream = np.unpackbits(
            np.mod(stored.astype(np.int64), 256).astype(np.uint8), axis=-1, bitorder="little"
        )
        bits = stream.reshape(*stored.shape[:-1], -1, self.bits)
        codes = (bits << np.arange(self.bits, dtype=np.uint8)).sum(axis=-1)
        half = 1 << (self.bits - 1)
        levels = self.levels
        below = -levels if self.exponent else levels - half
        made: Array = np.concatenate([levels, below])[codes]
        return made

    def encoded(self, numbers: Array) -> NDArray[Any]:
        """Rows as they are stored, of numbers each of which is rounded to the nearest, of two to
        the even one; what is too large becomes the largest number."""
        size, levels = np.abs(numbers), self.levels
        middles = (levels[1:] + levels[:-1]) / 2
        found = np.searchsorted(middles, size)
        tie = (found < middles.size) & (middles[np.minimum(found, middles.size - 1)] == size)
        found = found + (tie & (found % 2 == 1))
        below, whole = np.signbit(numbers), 1 << self.bits
        codes = found + below * (whole // 2) if self.exponent else np.where(below, -found, found)
        bits = (codes % whole)[..., np.newaxis] >> np.arange(self.bits) & 1
        stream = bits.astype(np.uint8).reshape(*numbers.shape[:-1], -1)
        packed = np.packbits(stream, axis=-1, bitorder="little")
        return packed if self.dtype == U8 else packed.view(np.int8)

    def doubtful(self, numbers: Array, relative: float) -> NDArray[np.bool_]:
        """Whether an error of so much may choose another number: not of what is a tie itself."""
        size, levels = np.abs(numbers), self.levels
        middles = (levels[1:] + levels[:-1]) / 2
        near = np.clip(np.searchsorted(middles, size), 1, middles.size - 1)
        apart = [np.abs(middles[each] - size) for each in (near - 1, near)]
        found: NDArray[np.bool_] = np.zeros(numbers.shape, bool)
        for each in apart:
            found |= (each > 0) & (each <= relative * size)
        return found


def _of(dtype: DType) -> Element:
    return Element(dtype.name, BYTE, dtype, dtype.exponent, dtype.mantissa, dtype.bias, dtype.numpy)


F4E2M1 = Element("f4e2m1", 4, U8, 2, 1, 1, "float4_e2m1fn")
F6E2M3 = Element("f6e2m3", 6, U8, 2, 3, 1, "float6_e2m3fn")
F6E3M2 = Element("f6e3m2", 6, U8, 3, 2, 3, "float6_e3m2fn")
I4 = Element("i4", 4, DType.I8, numpy="int4")
ELEMENTS = (F4E2M1, F6E2M3, F6E3M2, I4, _of(F8E4M3FN), _of(F8E5M2))


class NumberFormat(StrEnum):
    """What a user may ask for."""

    FP8_TOKEN = "fp8_token"
    FP8_GROUP = "fp8_group"
    MXFP8 = "mxfp8"
    MXFP8_E5M2 = "mxfp8_e5m2"
    MXFP6 = "mxfp6"
    MXFP6_E3M2 = "mxfp6_e3m2"
    MXFP4 = "mxfp4"
    NVFP4 = "nvfp4"
    INT4 = "int4"


@dataclass(frozen=True)
class Groups:
    """A row of the table: elements, how many share a scale (0: those of a row), and its type."""

    element: Element
    group: int
    scale: DType
    is_fixed: bool = False  # whether groups are part of the format

    @property
    def is_power(self) -> bool:
        """Whether scales are e8m0."""
        return self.scale == U8

    @property
    def c(self) -> str:
        """The type of scales in kernels."""
        return "Power" if self.is_power else self.scale.c

    def of(self, row: int, asked: int = 0) -> int:
        """Elements of a group in a row of so many, where a user `asked` for some.

        Raises:
            ValueError: rows are no whole groups, or groups have other elements in this format.
        """
        if asked and self.is_fixed:
            fact = f"group_size is {asked}, and the format has groups of {self.group}"
            raise ValueError(f"{fact}; leave it out")
        group = asked or self.group or row
        if row % group:
            fact = f"rows have {row} elements, which is not a multiple of a group's {group}"
            cure = "make them longer" if self.is_fixed else f"let group_size be {EACH}"
            raise ValueError(f"{fact}; {cure}, for example")
        if group % EACH:
            raise ValueError(f"groups have {group} elements; let them be a multiple of {EACH}")
        return group

    def scales(self, stored: NDArray[Any]) -> Array:
        """What scales are as numbers."""
        if not self.is_power:
            return stored.astype(np.float64)
        made: Array = np.where(stored == 255, np.nan, np.ldexp(1.0, stored.astype(int) - E8M0_BIAS))
        return made


FORMATS = {
    NumberFormat.FP8_TOKEN: Groups(_of(F8E4M3FN), 0, DType.F32),
    NumberFormat.FP8_GROUP: Groups(_of(F8E4M3FN), 128, DType.F32),
    NumberFormat.MXFP8: Groups(_of(F8E4M3FN), 32, U8, True),
    NumberFormat.MXFP8_E5M2: Groups(_of(F8E5M2), 32, U8, True),
    NumberFormat.MXFP6: Groups(F6E2M3, 32, U8, True),
    NumberFormat.MXFP6_E3M2: Groups(F6E3M2, 32, U8, True),
    NumberFormat.MXFP4: Groups(F4E2M1, 32, U8, True),
    NumberFormat.NVFP4: Groups(F4E2M1, 16, F8E4M3FN, True),
    NumberFormat.INT4: Groups(I4, 128, F16),
}
