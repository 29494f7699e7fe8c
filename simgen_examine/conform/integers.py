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
def sub_clamped(a: Values, b: Values) -> Values:
    return _saturated(_wide(a).astype(I64) - _wide(b).astype(I64), a.dtype)


def _saturated(values: Values, dtype: Any) -> Values:
    of = np.iinfo(dtype)
    return np.clip(values, of.min, of.max).astype(dtype)


@does
def sub_borrow(a: Values, b: Values) -> tuple[Values, Where]:
    return a - b, b > a


@does
def addc(a: Values, b: Values, carry: Where) -> tuple[Values, Where]:
    whole = _wide(a) + _wide(b) + carry.astype(U64)
    return whole.astype(U32), whole >> U64(32) != 0


@does
def subb(a: Values, b: Values, carry: Where) -> tuple[Values, Where]:
    return (a - b - carry.astype(U32)).astype(U32), _wide(b) + carry.astype(U64) > _wide(a)


def _low24(a: Values) -> Values:
    """The low 24 bits, with the sign of bit 23 where the type has one."""
    if a.dtype.kind == "i":
        return (a << I32(8) >> I32(8)).astype(I64)
    return (a & U32(0xFFFFFF)).astype(U64)


@does
def mul_24(a: Values, b: Values) -> Values:
    return (_low24(a) * _low24(b)).astype(U64).astype(U32).view(a.dtype)


def _upper(product: Values, dtype: Any) -> Values:
    return (product >> product.dtype.type(32)).astype(U64).astype(U32).view(dtype)


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


def _count(a: Values, width: int) -> Values:
    return (a & a.dtype.type(width - 1)).astype(a.dtype)


def _shift(value: Values, count: Values, left: bool) -> Values:
    width = value.dtype.itemsize * 8
    by = (count.astype(U64) & U64(width - 1)).astype(value.dtype)
    return value << by if left else value >> by


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
def highest_sign(a: Values) -> Values:
    """Bits from the top that equal the sign bit; all bits set where all do (FFBH_I32)."""
    top = a >> a.dtype.type(a.dtype.itemsize * 8 - 1) != 0
    return highest_zeros(np.where(top, ~a, a))


@does
def ones(a: Values) -> Values:
    return _bits_of(a).sum(0).astype(U32)


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
def sad_u8(a: Values, b: Values, c: Values) -> Values:
    found = c
    for at in range(4):
        x, y = (each >> U32(8 * at) & U32(0xFF) for each in (a, b))
        found = found + np.maximum(x, y) - np.minimum(x, y)
    return found


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
def absdiff(a: Values, b: Values) -> Values:
    difference = a - b
    return np.where(difference < 0, -difference, difference)


def _shifted_sum(a: Values, b: Values, by: int) -> tuple[Values, Where]:
    whole = (a.astype(U64) << U64(by)) + b.astype(U64)
    return whole.astype(U32), whole >> U64(32) != 0


@does
def bit_is_0(a: Values, b: Values) -> Where:
    return _shift(a, b, False) & a.dtype.type(1) == 0


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


FUNCTIONS |= {
    "mov": lambda a: a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "subrev": lambda a, b: b - a,
    "add_clamped": lambda a, b: _saturated(_wide(a).astype(I64) + _wide(b).astype(I64), a.dtype),
    "subrev_clamped": lambda a, b: sub_clamped(b, a),
    "add_carry": lambda a, b: (a + b, _wide(a) + _wide(b) >> U64(32) != 0),
    "subrev_borrow": lambda a, b: sub_borrow(b, a),
    "subbrev": lambda a, b, carry: subb(b, a, carry),
    "cndmask": lambda a, b, carry: np.where(carry, b, a),
    "mul_lo": lambda a, b: a * b,
    "mul_hi": lambda a, b: _upper(_wide(a) * _wide(b), a.dtype),
    "mul_hi_24": lambda a, b: _upper(_low24(a) * _low24(b), a.dtype),
    "mad_24": lambda a, b, c: mul_24(a, b) + c,
    "mad_lo": lambda a, b, c: (a * b + c).astype(a.dtype),
    "mad_halves": lambda a, b, c: a.astype(c.dtype) * b.astype(c.dtype) + c,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "minimum3": lambda a, b, c: np.minimum(np.minimum(a, b), c),
    "maximum3": lambda a, b, c: np.maximum(np.maximum(a, b), c),
    "median3": lambda a, b, c: np.sort(np.stack([a, b, c]), 0)[1],
    "lshlrev": lambda a, b: _shift(b, a, True),
    "lshrrev": lambda a, b: _shift(b, a, False),
    "lshl": lambda a, b: _shift(a, b, True),
    "lshr": lambda a, b: _shift(a, b, False),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "xnor": lambda a, b: ~(a ^ b),
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "not": lambda a: ~a,
    "lowest_zero": lambda a: lowest_one(~a),
    "bcnt": lambda a, b: (_bits_of(a).sum(0).astype(U32) + b).astype(U32),
    "zeros": lambda a: ones(~a),
    "bfi": lambda a, b, c: a & b | ~a & c,
    "lshl_add": lambda a, b, c: (a << (b.astype(a.dtype) & a.dtype.type(31)).astype(a.dtype)) + c,
    # shifts by more than 4 are left out: no source tells of them
    "lshl_add64": lambda a, b, c: Expected((a << (b.astype(U64) & U64(7))) + c, b > 4),
    "add_lshl": lambda a, b, c: (a + b) << (c & U32(31)),
    "add3": lambda a, b, c: a + b + c,
    "lshl_or": lambda a, b, c: a << (b & U32(31)) | c,
    "and_or": lambda a, b, c: a & b | c,
    "or3": lambda a, b, c: a | b | c,
    "xad": lambda a, b, c: (a ^ b) + c,
    "sad": lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c,
    "sad_hi_u8": lambda a, b, c: (sad_u8(a, b, np.zeros_like(a)) << U32(16)) + c,
    "pack_b16": lambda a, b: a.astype(U32) | b.astype(U32) << U32(16),
    "dot4": lambda a, b, c: _dot(a, b, c, 8),
    "dot8": lambda a, b, c: _dot(a, b, c, 4),
    "dot2": lambda a, b, c: _dot(a, b, c, 16),
    "cselect": lambda a, b, carry: np.where(carry, a, b),
    "absolute": lambda a: np.where(a < 0, -a, a),
    "sext_i8": lambda a: a.astype(np.int8).astype(I32),
    "sext_i16": lambda a: a.astype(np.int16).astype(I32),
    "shl1_add": lambda a, b: _shifted_sum(a, b, 1),
    "shl2_add": lambda a, b: _shifted_sum(a, b, 2),
    "shl3_add": lambda a, b: _shifted_sum(a, b, 3),
    "shl4_add": lambda a, b: _shifted_sum(a, b, 4),
    "pack_ll": lambda a, b: a & U32(0xFFFF) | b << U32(16),
    "pack_lh": lambda a, b: a & U32(0xFFFF) | b & U32(0xFFFF0000),
    "pack_hh": lambda a, b: a >> U32(16) | b & U32(0xFFFF0000),
    "bit_is_1": lambda a, b: ~bit_is_0(a, b),
}
