"""Binary floating-point numbers, exactly, in whole numbers, and how they are rounded once.

A number is (sign, whole, exponent) for (-1)^sign whole 2^exponent; NaNs and infinities are kept
apart. Nothing here uses the floats of the machine that simgen runs on.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

NEAREST, ZERO, DOWN, UP = "rn", "rz", "rm", "rp"  # ways to round, as PTX calls them


@dataclass(frozen=True)
class FloatFormat:
    """Layout of an IEEE type."""

    bits: int
    fraction: int  # bits below the leading one

    @property
    def most(self) -> int:
        """The exponent field of infinities and NaNs."""
        return (1 << self.bits - 1 - self.fraction) - 1

    @property
    def bias(self) -> int:
        return self.most >> 1

    @property
    def least(self) -> int:
        """The power of two of a subnormal's last bit."""
        return 1 - self.bias - self.fraction

    @property
    def sign(self) -> int:
        return 1 << self.bits - 1

    @property
    def infinity(self) -> int:
        return self.most << self.fraction

    @property
    def nan(self) -> int:
        return self.sign - 1

    @property
    def one(self) -> int:
        return self.bias << self.fraction

    @property
    def normal(self) -> int:
        """The bits of the least number that is not subnormal."""
        return 1 << self.fraction


FORMATS = {"f16": FloatFormat(16, 10), "bf16": FloatFormat(16, 7), "f32": FloatFormat(32, 23),
           "f64": FloatFormat(64, 52), "tf32": FloatFormat(32, 23)}  # fmt: skip


@dataclass(frozen=True)
class Number:
    """A value of any format."""

    sign: int
    whole: int = 0
    exponent: int = 0
    infinite: bool = False
    nan: bool = False

    @property
    def zero(self) -> bool:
        return not (self.whole or self.infinite or self.nan)

    def negated(self) -> Number:
        return Number(1 - self.sign, self.whole, self.exponent, self.infinite, self.nan)


NAN = Number(0, nan=True)


def decoded(bits: int, of: FloatFormat) -> Number:
    """What bits stand for."""
    sign, field = bits >> of.bits - 1 & 1, bits >> of.fraction & of.most
    fraction = bits & (1 << of.fraction) - 1
    if field == of.most:
        return NAN if fraction else Number(sign, infinite=True)
    if field == 0:
        return Number(sign, fraction, of.least)
    return Number(sign, fraction | of.normal, of.least + field - 1)


def encoded(number: Number, of: FloatFormat, how: str = NEAREST) -> int:
    """The bits of a number, rounded once."""
    if number.nan:
        return of.nan
    sign = of.sign if number.sign else 0
    if number.infinite:
        return sign | of.infinity
    if not number.whole:
        return sign
    whole, exponent = number.whole, number.exponent
    # The power of two that the last bit of the result stands for.
    last = max(exponent + whole.bit_length() - 1 - of.fraction, of.least)
    kept = rounded(whole, last - exponent, how, negative=bool(number.sign))
    # A carry out of the leading bit makes the field of the exponent right by itself.
    field = last - of.least
    found = (field << of.fraction) + kept
    if found >= of.infinity:
        away = how == NEAREST or how == (DOWN if sign else UP)
        found = of.infinity if away else of.infinity - 1
    return sign | found


def rounded(whole: int, shift: int, how: str, *, negative: bool) -> int:
    """whole / 2^shift as a whole number."""
    if shift <= 0:
        return whole << -shift
    kept, rest = whole >> shift, whole & (1 << shift) - 1
    if not rest:
        return kept
    if how == NEAREST:
        half = 1 << shift - 1
        return kept + (rest > half or (rest == half and kept & 1 == 1))
    return kept + (how == (DOWN if negative else UP))


def plus(a: Number, b: Number, how: str = NEAREST) -> Number:
    """a + b; `how` decides the sign of a zero."""
    if a.nan or b.nan or (a.infinite and b.infinite and a.sign != b.sign):
        return NAN
    if a.infinite or b.infinite:
        return a if a.infinite else b
    low = min(a.exponent, b.exponent)
    left, right = (each.whole << each.exponent - low for each in (a, b))
    total = (-left if a.sign else left) + (-right if b.sign else right)
    if total:
        return Number(int(total < 0), abs(total), low)
    if a.zero and b.zero and a.sign == b.sign:
        return Number(a.sign)
    return Number(int(how == DOWN))


def times(a: Number, b: Number) -> Number:
    """a b."""
    sign = a.sign ^ b.sign
    if a.nan or b.nan or (a.infinite and b.zero) or (b.infinite and a.zero):
        return NAN
    if a.infinite or b.infinite:
        return Number(sign, infinite=True)
    return Number(sign, a.whole * b.whole, a.exponent + b.exponent)


def over(a: Number, b: Number) -> Number:
    """a / b to more bits than any format has; the last one tells of a rest."""
    sign = a.sign ^ b.sign
    if a.nan or b.nan or (a.infinite and b.infinite) or (a.zero and b.zero):
        return NAN
    if a.infinite or b.zero:
        return Number(sign, infinite=True)
    if b.infinite or a.zero:
        return Number(sign)
    shift = max(0, 130 + b.whole.bit_length() - a.whole.bit_length())
    quotient, rest = divmod(a.whole << shift, b.whole)
    return Number(sign, quotient << 1 | (rest != 0), a.exponent - b.exponent - shift - 1)


def root(a: Number) -> Number:
    """The square root, as `over`."""
    if a.zero:
        return a
    if a.nan or a.sign:
        return NAN
    if a.infinite:
        return a
    shift = 260 + (a.exponent & 1)
    whole = a.whole << shift
    found = isqrt(whole)
    return Number(0, found << 1 | (found * found != whole), (a.exponent - shift) // 2 - 1)


def floored(number: Number, how: str) -> int:
    """A finite number as a whole one."""
    found = rounded(number.whole, -number.exponent, how, negative=bool(number.sign))
    return -found if number.sign else found


def order(a: Number, b: Number) -> int | None:
    """-1, 0 or 1 as a is below, like or above b; None: one is a NaN."""
    if a.nan or b.nan:
        return None
    if a.infinite or b.infinite:
        left, right = (0 if not each.infinite else 1 - 2 * each.sign for each in (a, b))
        return (left > right) - (left < right)
    low = min(a.exponent, b.exponent)
    left, right = (
        (-each.whole if each.sign else each.whole) << each.exponent - low for each in (a, b)
    )
    return (left > right) - (left < right)
