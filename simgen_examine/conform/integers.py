"""What instructions on integers and bits compute, as the vendor's manuals say it.

A function takes the sources as arrays of their types, and may take `carry`, the bits that the
instruction gets of VCC or of another pair of scalar registers. It returns the result, or the result
and bits for each lane. Arithmetic wraps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simgen_examine.conform.expected import TYPES, Expected

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen_examine.conform.expected import Values, Where

U32, I32, U64, I64 = np.uint32, np.int32, np.uint64, np.int64
FUNCTIONS: dict[str, Callable[..., Any]] = {}


def does(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give the description a function by its name."""
    FUNCTIONS[function.__name__.removesuffix("_")] = function
    return function


def _wide(values: Values) -> Values:
    return values.astype(I64 if values.dtype.kind == "i" else U64)


@does
def mov(a: Values) -> Values:
    return a


@does
def add(a: Values, b: Values) -> Values:
    return a + b


@does
def sub(a: Values, b: Values) -> Values:
    return a - b


@does
def subrev(a: Values, b: Values) -> Values:
    return b - a


@does
def add_clamped(a: Values, b: Values) -> Values:
    return _saturated(_wide(a).astype(I64) + _wide(b).astype(I64), a.dtype)


@does
def sub_clamped(a: Values, b: Values) -> Values:
    return _saturated(_wide(a).astype(I64) - _wide(b).astype(I64), a.dtype)


@does
def subrev_clamped(a: Values, b: Values) -> Values:
    return sub_clamped(b, a)


def _saturated(values: Values, dtype: Any) -> Values:
    of = np.iinfo(dtype)
    return np.clip(values, of.min, of.max).astype(dtype)


@does
def add_carry(a: Values, b: Values) -> tuple[Values, Where]:
    return a + b, _wide(a) + _wide(b) >> U64(32) != 0


@does
def sub_borrow(a: Values, b: Values) -> tuple[Values, Where]:
    return a - b, b > a


@does
def subrev_borrow(a: Values, b: Values) -> Any:
    return sub_borrow(b, a)


@does
def addc(a: Values, b: Values, carry: Where) -> tuple[Values, Where]:
    whole = _wide(a) + _wide(b) + carry.astype(U64)
    return whole.astype(U32), whole >> U64(32) != 0


@does
def subb(a: Values, b: Values, carry: Where) -> tuple[Values, Where]:
    return (a - b - carry.astype(U32)).astype(U32), _wide(b) + carry.astype(U64) > _wide(a)


@does
def subbrev(a: Values, b: Values, carry: Where) -> Any:
    return subb(b, a, carry)


@does
def cndmask(a: Values, b: Values, carry: Where) -> Values:
    return np.where(carry, b, a)


@does
def mul_lo(a: Values, b: Values) -> Values:
    return a * b


@does
def mul_hi(a: Values, b: Values) -> Values:
    return (_wide(a) * _wide(b) >> _wide(a).dtype.type(32)).astype(U64).astype(U32).view(a.dtype)


def _low24(a: Values) -> Values:
    """The low 24 bits, with the sign of bit 23 where the type has one."""
    if a.dtype.kind == "i":
        return (a << I32(8) >> I32(8)).astype(I64)
    return (a & U32(0xFFFFFF)).astype(U64)


@does
def mul_24(a: Values, b: Values) -> Values:
    return (_low24(a) * _low24(b)).astype(U64).astype(U32).view(a.dtype)


@does
def mul_hi_24(a: Values, b: Values) -> Values:
    product = _low24(a) * _low24(b)
    return (product >> product.dtype.type(32)).astype(U64).astype(U32).view(a.dtype)


@does
def mad_24(a: Values, b: Values, c: Values) -> Values:
    return mul_24(a, b) + c


@does
def mad_lo(a: Values, b: Values, c: Values) -> Values:
    return (a * b + c).astype(a.dtype)


@does
def mad_wide(a: Values, b: Values, c: Values) -> tuple[Values, Any]:
    """64 bits of a product of 32 and a sum, and its carry."""
    product = _wide(a) * _wide(b)
    with np.errstate(all="ignore"):
        whole = product + c
    if a.dtype.kind == "u":
        return whole, whole < c
    none = np.zeros(a.shape, bool)
    return whole, Expected(none, ~none)  # the carry out of the signed sum is left out


@does
def minimum(a: Values, b: Values) -> Values:
    return np.minimum(a, b)


@does
def maximum(a: Values, b: Values) -> Values:
    return np.maximum(a, b)


@does
def minimum3(a: Values, b: Values, c: Values) -> Values:
    return np.minimum(np.minimum(a, b), c)


@does
def maximum3(a: Values, b: Values, c: Values) -> Values:
    return np.maximum(np.maximum(a, b), c)


@does
def median3(a: Values, b: Values, c: Values) -> Values:
    return np.sort(np.stack([a, b, c]), 0)[1]


def _count(a: Values, width: int) -> Values:
    return (a & a.dtype.type(width - 1)).astype(a.dtype)


def _shift(value: Values, count: Values, left: bool) -> Values:
    width = value.dtype.itemsize * 8
    by = (count.astype(U64) & U64(width - 1)).astype(value.dtype)
    return value << by if left else value >> by


@does
def lshlrev(a: Values, b: Values) -> Values:
    return _shift(b, a, True)


@does
def lshrrev(a: Values, b: Values) -> Values:
    return _shift(b, a, False)


@does
def lshl(a: Values, b: Values) -> Values:
    return _shift(a, b, True)


@does
def lshr(a: Values, b: Values) -> Values:
    return _shift(a, b, False)


@does
def and_(a: Values, b: Values) -> Values:
    return a & b


@does
def or_(a: Values, b: Values) -> Values:
    return a | b


@does
def xor(a: Values, b: Values) -> Values:
    return a ^ b


@does
def xnor(a: Values, b: Values) -> Values:
    return ~(a ^ b)


@does
def nand(a: Values, b: Values) -> Values:
    return ~(a & b)


@does
def nor(a: Values, b: Values) -> Values:
    return ~(a | b)


@does
def andn2(a: Values, b: Values) -> Values:
    return a & ~b


@does
def orn2(a: Values, b: Values) -> Values:
    return a | ~b


@does
def not_(a: Values) -> Values:
    return ~a


@does
def bfrev(a: Values) -> Values:
    width, found = a.dtype.itemsize * 8, np.zeros_like(a)
    for bit in range(width):
        found |= (a >> a.dtype.type(bit) & a.dtype.type(1)) << a.dtype.type(width - 1 - bit)
    return found


def _bits_of(a: Values) -> Values:
    """(bit, value), the lowest bit first."""
    width = a.dtype.itemsize * 8
    return np.stack([a >> a.dtype.type(bit) & a.dtype.type(1) for bit in range(width)]) != 0


@does
def highest_zeros(a: Values) -> Values:
    """Zeros above the highest 1; all bits set where there is none (FFBH, FLBIT)."""
    there = _bits_of(a)[::-1]
    return np.where(there.any(0), there.argmax(0), -1).astype(I32).view(U32)


@does
def lowest_one(a: Values) -> Values:
    """The place of the lowest 1; all bits set where there is none (FFBL, FF1)."""
    there = _bits_of(a)
    return np.where(there.any(0), there.argmax(0), -1).astype(I32).view(U32)


@does
def lowest_zero(a: Values) -> Values:
    return lowest_one(~a)


@does
def highest_sign(a: Values) -> Values:
    """Bits from the top that equal the sign bit; all bits set where all do (FFBH_I32)."""
    top = a >> a.dtype.type(a.dtype.itemsize * 8 - 1) != 0
    return highest_zeros(np.where(top, ~a, a))


@does
def bcnt(a: Values, b: Values) -> Values:
    return (_bits_of(a).sum(0).astype(U32) + b).astype(U32)


@does
def ones(a: Values) -> Values:
    return _bits_of(a).sum(0).astype(U32)


@does
def zeros(a: Values) -> Values:
    return ones(~a)


@does
def bfe(a: Values, b: Values, c: Values) -> Values:
    """`c` bits of `a` from bit `b` on, with their sign where the type has one."""
    offset, width = b.astype(U32) & U32(31), c.astype(U32) & U32(31)
    return _field(a, offset, width)


@does
def sbfe(a: Values, b: Values) -> Expected:
    """The scalar one: bits 4:0 of `b` (5:0 of 64-bit values) are the offset, 22:16 the width.

    Fields that reach past the value are left out.
    """
    most = a.dtype.itemsize * 8
    b = b.astype(U32)
    offset, width = b & U32(most - 1), b >> U32(16) & U32(0x7F)
    value = _field(a, offset, np.minimum(width, U32(most)))
    return Expected(value, offset + width > most)


def _field(a: Values, offset: Values, width: Values) -> Values:
    most = a.dtype.itemsize * 8
    found = []
    for value, at, count in zip(a.tolist(), offset.tolist(), width.tolist(), strict=True):
        signed = a.dtype.kind == "i"
        field = (value >> at) & ((1 << count) - 1)
        # A field that reaches past the value has copies of its highest bit there, or zeros.
        if signed and count and field >> count - 1:
            field -= 1 << count
        found.append(field & ((1 << most) - 1))
    whole: Any = {4: U32, 8: U64}[a.dtype.itemsize]
    return np.array(found, whole).view(a.dtype)


@does
def bfi(a: Values, b: Values, c: Values) -> Values:
    return a & b | ~a & c


@does
def bfm(a: Values, b: Values) -> Values:
    width = U32(31)
    return ((U32(1) << (a & width)) - U32(1)) << (b & width)


@does
def bfm64(a: Values, b: Values) -> Values:
    width = U32(63)
    return ((U64(1) << (a & width).astype(U64)) - U64(1)) << (b & width).astype(U64)


@does
def alignbit(a: Values, b: Values, c: Values) -> Values:
    whole = a.astype(U64) << U64(32) | b.astype(U64)
    return (whole >> (c & U32(31)).astype(U64)).astype(U32)


@does
def alignbyte(a: Values, b: Values, c: Values) -> Values:
    whole = a.astype(U64) << U64(32) | b.astype(U64)
    return (whole >> ((c & U32(3)) * U32(8)).astype(U64)).astype(U32)


@does
def perm(a: Values, b: Values, c: Values) -> Values:
    """Bytes by the selectors of `c`: 0 to 3 of `b`, 4 to 7 of `a`, 8 to 11 the signs of the halves
    from the lowest on, 12 zeros, more ones."""
    whole = a.astype(U64) << U64(32) | b.astype(U64)
    found = np.zeros(a.shape, U32)
    for at in range(4):
        select = c >> U32(8 * at) & U32(0xFF)
        byte = whole >> (np.minimum(select, U32(7)) * U32(8)).astype(U64) & U64(0xFF)
        half = np.clip(select.astype(I64) - 8, 0, 3)
        sign = (whole >> (half * 16 + 15).astype(U64) & U64(1)) * U64(0xFF)
        byte = np.where(select >= 8, sign, byte)
        byte = np.where(select == 12, U64(0), byte)
        byte = np.where(select > 12, U64(0xFF), byte)
        found |= (byte << U64(8 * at)).astype(U32)
    return found


@does
def lshl_add(a: Values, b: Values, c: Values) -> Values:
    return (a << (b.astype(a.dtype) & a.dtype.type(31)).astype(a.dtype)) + c


@does
def lshl_add64(a: Values, b: Values, c: Values) -> Expected:
    """Shifts by more than 4 are left out: no source tells of them."""
    return Expected((a << (b.astype(U64) & U64(7))) + c, b > 4)


@does
def add_lshl(a: Values, b: Values, c: Values) -> Values:
    return (a + b) << (c & U32(31))


@does
def add3(a: Values, b: Values, c: Values) -> Values:
    return a + b + c


@does
def lshl_or(a: Values, b: Values, c: Values) -> Values:
    return a << (b & U32(31)) | c


@does
def and_or(a: Values, b: Values, c: Values) -> Values:
    return a & b | c


@does
def or3(a: Values, b: Values, c: Values) -> Values:
    return a | b | c


@does
def xad(a: Values, b: Values, c: Values) -> Values:
    return (a ^ b) + c


@does
def sad(a: Values, b: Values, c: Values) -> Values:
    return np.maximum(a, b) - np.minimum(a, b) + c


@does
def sad_u8(a: Values, b: Values, c: Values) -> Values:
    found = c
    for at in range(4):
        x, y = (each >> U32(8 * at) & U32(0xFF) for each in (a, b))
        found = found + np.maximum(x, y) - np.minimum(x, y)
    return found


@does
def sad_hi_u8(a: Values, b: Values, c: Values) -> Values:
    return (sad_u8(a, b, np.zeros_like(a)) << U32(16)) + c


@does
def sad_u16(a: Values, b: Values, c: Values) -> Values:
    found = c
    for at in (0, 16):
        x, y = (each >> U32(at) & U32(0xFFFF) for each in (a, b))
        found = found + np.maximum(x, y) - np.minimum(x, y)
    return found


@does
def mbcnt_lo(a: Values, b: Values) -> Values:
    lane = np.arange(len(a)) % 64
    below = (1 << np.minimum(lane, 32)) - 1
    return (_bits_of(a & below.astype(U32)).sum(0).astype(U32) + b).astype(U32)


@does
def mbcnt_hi(a: Values, b: Values) -> Values:
    lane = np.arange(len(a)) % 64
    below = (1 << np.maximum(lane - 32, 0)) - 1
    return (_bits_of(a & below.astype(U32)).sum(0).astype(U32) + b).astype(U32)


@does
def pack_b16(a: Values, b: Values) -> Values:
    return a.astype(U32) | b.astype(U32) << U32(16)


@does
def pack_saturated(a: Values, b: Values) -> Values:
    """Two words as halves, saturated (CVT_PK_U16_U32, CVT_PK_I16_I32)."""
    half: Any = np.int16 if a.dtype.kind == "i" else np.uint16
    low, high = (_saturated(each, half).view(np.uint16).astype(U32) for each in (a, b))
    return low | high << U32(16)


def _dot(a: Values, b: Values, c: Values, width: int) -> Values:
    signed = c.dtype.kind == "i"
    total = c.astype(I64)
    for at in range(32 // width):
        x, y = ((each >> U32(at * width) & U32((1 << width) - 1)).astype(I64) for each in (a, b))
        if signed:
            x, y = (each - (each >> I64(width - 1) << I64(width)) for each in (x, y))
        total = total + x * y
    return total.astype(U64).astype(U32).view(c.dtype)


@does
def dot4(a: Values, b: Values, c: Values) -> Values:
    return _dot(a, b, c, 8)


@does
def dot8(a: Values, b: Values, c: Values) -> Values:
    return _dot(a, b, c, 4)


@does
def dot2(a: Values, b: Values, c: Values) -> Values:
    return _dot(a, b, c, 16)


_COMPARE: dict[str, Callable[[Values, Values], Where]] = {
    "f": lambda a, b: np.zeros(a.shape, bool),
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ne": lambda a, b: a != b,
    "ge": lambda a, b: a >= b,
    "t": lambda a, b: np.ones(a.shape, bool),
}
FUNCTIONS |= {f"cmp_{name}": function for name, function in _COMPARE.items()}


# Scalar instructions return the result (None: there is none) and SCC (None: it is unchanged).
def scalar(function: str, scc: str) -> Callable[..., Any]:
    """A scalar instruction that computes `function` and sets SCC by the rule `scc`."""
    computed = FUNCTIONS[function]

    def made(*sources: Values, carry: Where) -> tuple[Any, Any]:
        result = computed(*sources, carry) if function in _CARRIED else computed(*sources)
        bits = None
        if isinstance(result, tuple):
            result, bits = result
        if scc == "keeps":
            return result, None
        if scc == "nonzero":
            if isinstance(result, Expected):
                return result, Expected(result.value != 0, result.free)
            return result, result != 0
        if scc == "carry":
            return result, bits
        if scc == "overflow":
            return result, _overflow(function, *sources)
        if scc == "first":  # whether the first source was chosen
            return result, _chosen(function, *sources)
        assert scc == "compares", scc
        return None, result

    return made


_CARRIED = ("addc", "subb", "cndmask", "cselect", "cmov")


@does
def cselect(a: Values, b: Values, carry: Where) -> Values:
    return np.where(carry, a, b)


@does
def absolute(a: Values) -> Values:
    return np.where(a < 0, -a, a)


@does
def absdiff(a: Values, b: Values) -> Values:
    difference = a - b
    return np.where(difference < 0, -difference, difference)


@does
def sext_i8(a: Values) -> Values:
    return a.astype(np.int8).astype(I32)


@does
def sext_i16(a: Values) -> Values:
    return a.astype(np.int16).astype(I32)


@does
def shl1_add(a: Values, b: Values) -> tuple[Values, Where]:
    return _shifted_sum(a, b, 1)


@does
def shl2_add(a: Values, b: Values) -> tuple[Values, Where]:
    return _shifted_sum(a, b, 2)


@does
def shl3_add(a: Values, b: Values) -> tuple[Values, Where]:
    return _shifted_sum(a, b, 3)


@does
def shl4_add(a: Values, b: Values) -> tuple[Values, Where]:
    return _shifted_sum(a, b, 4)


def _shifted_sum(a: Values, b: Values, by: int) -> tuple[Values, Where]:
    whole = (a.astype(U64) << U64(by)) + b.astype(U64)
    return whole.astype(U32), whole >> U64(32) != 0


@does
def pack_ll(a: Values, b: Values) -> Values:
    return a & U32(0xFFFF) | b << U32(16)


@does
def pack_lh(a: Values, b: Values) -> Values:
    return a & U32(0xFFFF) | b & U32(0xFFFF0000)


@does
def pack_hh(a: Values, b: Values) -> Values:
    return a >> U32(16) | b & U32(0xFFFF0000)


@does
def bit_is_0(a: Values, b: Values) -> Where:
    return _shift(a, b, False) & a.dtype.type(1) == 0


@does
def bit_is_1(a: Values, b: Values) -> Where:
    return ~bit_is_0(a, b)


def _overflow(function: str, a: Values, b: Values) -> Where:
    exact = a.astype(I64) + b if function == "add" else a.astype(I64) - b
    return exact != exact.astype(I32)


def _chosen(function: str, a: Values, b: Values) -> Where:
    """SCC of minima and maxima: whether the first source is less, or more; of equal ones, either
    value is the same and the manuals differ about SCC (`judging` leaves those out)."""
    return a < b if function == "minimum" else a > b


def typed(words: Values, type_: str) -> Values:
    """Sources of a type from their words: (word, tuple)."""
    if type_ in ("b32", "u32", "i32", "f32"):
        return words[0].copy().view(TYPES[type_])
    if TYPES[type_]().itemsize == 8:
        whole = words[0].astype(U64) | words[1].astype(U64) << U64(32)
        return whole.view(TYPES[type_])
    return (words[0] & U32(0xFFFF)).astype(np.uint16).view(TYPES[type_])


def as_words(values: Values) -> Values:
    """The words of a result: (word, tuple); of 16 bits, with zeros above."""
    nbytes = values.dtype.itemsize
    if nbytes == 8:
        whole = values.view(U64)
        return np.stack([(whole & U64(0xFFFFFFFF)).astype(U32), (whole >> U64(32)).astype(U32)])
    return values.view({2: np.uint16, 4: U32}[nbytes]).astype(U32)[None]
