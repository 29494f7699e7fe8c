"""What AMD's manuals say that an instruction computes, in NumPy and Python integers.

Independent of the rules: nothing here is shared with them. A meaning gets the sources as arrays of
raw words (uint32, or uint64 for pairs; a lane mask as one bit for each lane) in the order of
assembly text, operands that are read and written among them, SCC last where it is read. It gives
the results in the order of the operands that are written, SCC last where it is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]

ALL = 0xFFFFFFFF


@dataclass(frozen=True)
class Meaning:
    """How an instruction's results follow from its sources."""

    of: Callable[..., Any]
    floats: bool = False  # its values are float32: a NaN has no bits
    ulps: int = 0  # by which hardware may differ from the exact result
    any_zero: bool = False  # the sign of a zero is free
    takes_floats: bool | None = None  # its sources may have neg and abs; default: like `floats`
    class_mask: bool = False  # its second source is no float

    @property
    def modifiers(self) -> bool:
        return self.floats if self.takes_floats is None else self.takes_floats


def i32(x: Array) -> Array:
    return np.asarray(x, np.uint32).view(np.int32).astype(np.int64)


def f32(x: Array) -> Array:
    return np.asarray(x, np.uint32).view(np.float32)


def bits(x: Array) -> Array:
    return np.asarray(x, np.float32).view(np.uint32)


def w(x: Any) -> Array:
    """The low word of a whole number."""
    return (np.asarray(x).astype(object) & ALL).astype(np.uint32)


def wide(x: Any) -> Array:
    """The low 64 bits of a whole number."""
    return (np.asarray(x).astype(object) & (2**64 - 1)).astype(np.uint64)


def n(x: Array) -> Array:
    """Words as Python integers."""
    return np.asarray(x).astype(object)


def s64(x: Array) -> Array:
    return np.asarray(x, np.uint64).view(np.int64)


def i16(x: Array) -> Array:
    return ((x & 0xFFFF).astype(np.int64) ^ 0x8000) - 0x8000


def u16(x: Array) -> Array:
    return (x & 0xFFFF).astype(np.int64)


def i24(x: Array) -> Array:
    return ((x & 0xFFFFFF).astype(np.int64) ^ 0x800000) - 0x800000


def u24(x: Array) -> Array:
    return (x & 0xFFFFFF).astype(np.int64)


def bit(x: Any) -> Array:
    return np.asarray(x).astype(np.uint32)


def each(of: Callable[..., int], *sources: Array) -> Array:
    """Apply a function of Python integers to every item."""
    return np.array([of(*map(int, row)) for row in zip(*map(np.atleast_1d, sources))], object)


def reversed_bits(x: int) -> int:
    return int(f"{x:032b}"[::-1], 2)


MEANINGS: dict[str, Meaning] = {}


def _add(names: str, of: Callable[..., Any], **more: Any) -> None:
    for name in names.split():
        assert name not in MEANINGS, name
        MEANINGS[name] = Meaning(of, **more)


ORDER: dict[str, Callable[[Array, Array], Array]] = {
    "lt": np.less, "le": np.less_equal, "eq": np.equal, "ge": np.greater_equal, "gt": np.greater,
}  # fmt: skip
EQUAL = {"lg": np.not_equal, "ne": np.not_equal}
LOGIC: dict[str, Callable[[Array, Array], Array]] = {
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "andn2": lambda a, b: a & ~b, "orn2": lambda a, b: a | ~b, "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b), "xnor": lambda a, b: ~(a ^ b),
}  # fmt: skip


# Scalar ----------------------------------------------------------------------------------------


def _with_zero(of: Callable[..., Array]) -> Callable[..., tuple[Array, Array]]:
    """The result, and whether it is not zero."""

    def both(*sources: Array) -> tuple[Array, Array]:
        result = of(*sources)
        return result, bit(result != 0)

    return both


def _carry(sign: int) -> Callable[..., tuple[Array, Array]]:
    def of(a: Array, b: Array, scc: Array | int = 0) -> tuple[Array, Array]:
        total = n(a) + sign * (n(b) + n(scc))
        return w(total), bit((total > ALL) | (total < 0))

    return of


def _overflow(sign: int) -> Callable[..., tuple[Array, Array]]:
    def of(a: Array, b: Array) -> tuple[Array, Array]:
        total = i32(a) + sign * i32(b)
        return w(total), bit((total >= 2**31) | (total < -(2**31)))

    return of


def _field(a: Array, packed: Array, *, signed: bool) -> Array:
    def one(x: int, field: int) -> int:
        offset, width = field & 31, field >> 16 & 127
        width = min(width, 32 - offset)
        got = x >> offset & ((1 << width) - 1)
        return got - (1 << width) if signed and width and got >> (width - 1) else got

    return w(each(one, a, packed))


def _short(x: Array) -> Array:
    return i16(x)


_add("s_mov_b32 s_mov_b64", lambda a: a)
_add("s_movk_i32", lambda k: w(_short(k)))
_add("s_cmovk_i32", lambda old, k, scc: np.where(scc, w(_short(k)), old))
_add("s_cmov_b32", lambda old, a, scc: np.where(scc, a, old))
_add("s_addk_i32", lambda old, k: _overflow(1)(old, w(_short(k))))
_add("s_mulk_i32", lambda old, k: w(i32(old) * _short(k)))
_add("s_bitset0_b32", lambda old, a: old & ~(np.uint32(1) << (a & 31)))
_add("s_bitset1_b32", lambda old, a: old | np.uint32(1) << (a & 31))
_add("s_brev_b32", lambda a: w(each(reversed_bits, a)))
_add("s_sext_i32_i8", lambda a: w(((a & 0xFF).astype(np.int64) ^ 0x80) - 0x80))
_add("s_sext_i32_i16", lambda a: w(i16(a)))
_add("s_abs_i32", _with_zero(lambda a: w(abs(i32(a)))))
_add("s_not_b32 s_not_b64", _with_zero(lambda a: ~a))
_add("s_add_u32 s_addc_u32", _carry(1))
_add("s_sub_u32 s_subb_u32", _carry(-1))
_add("s_add_i32", _overflow(1))
_add("s_sub_i32", _overflow(-1))
_add("s_min_i32", lambda a, b: (w(np.minimum(i32(a), i32(b))), bit(i32(a) < i32(b))))
_add("s_max_i32", lambda a, b: (w(np.maximum(i32(a), i32(b))), bit(i32(a) > i32(b))))
_add("s_min_u32", lambda a, b: (np.minimum(a, b), bit(a < b)))
_add("s_max_u32", lambda a, b: (np.maximum(a, b), bit(a > b)))
_add("s_mul_i32", lambda a, b: w(n(a) * n(b)))
_add("s_mul_hi_u32", lambda a, b: w(n(a) * n(b) >> 32))
_add("s_mul_hi_i32", lambda a, b: w(n(i32(a)) * n(i32(b)) >> 32))
_add("s_cselect_b32 s_cselect_b64", lambda a, b, scc: np.where(scc, a, b))
for _name, _logic in LOGIC.items():
    _add(f"s_{_name}_b32 s_{_name}_b64", _with_zero(_logic))
_add("s_lshl_b32", _with_zero(lambda a, b: w(n(a) << n(b & 31))))
_add("s_lshr_b32", _with_zero(lambda a, b: w(n(a) >> n(b & 31))))
_add("s_ashr_i32", _with_zero(lambda a, b: w(n(i32(a)) >> n(b & 31))))
_add("s_lshl_b64", _with_zero(lambda a, b: wide(n(a) << n(b & 63))))
_add("s_lshr_b64", _with_zero(lambda a, b: wide(n(a) >> n(b & 63))))
_add("s_ashr_i64", _with_zero(lambda a, b: wide(n(s64(a)) >> n(b & 63))))
_add("s_bfe_u32", _with_zero(lambda a, f: _field(a, f, signed=False)))
_add("s_bfe_i32", _with_zero(lambda a, f: _field(a, f, signed=True)))
_add("s_bfm_b32", lambda a, b: w(((1 << n(a & 31)) - 1) << n(b & 31)))
for _k in (1, 2, 3, 4):
    _add(f"s_lshl{_k}_add_u32",
         lambda a, b, k=_k: (w((n(a) << k) + n(b)), bit((n(a) << k) + n(b) > ALL)))  # fmt: skip
for _name, _of in {**ORDER, "lg": np.not_equal}.items():
    _add(f"s_cmp_{_name}_u32 s_cmp_{_name}_u64", lambda a, b, of=_of: bit(of(a, b)))
    _add(f"s_cmp_{_name}_i32", lambda a, b, of=_of: bit(of(i32(a), i32(b))))
    _add(f"s_cmpk_{_name}_u32", lambda a, k, of=_of: bit(of(a, k & 0xFFFF)))
    _add(f"s_cmpk_{_name}_i32", lambda a, k, of=_of: bit(of(i32(a), _short(k))))
_add("s_bitcmp0_b32", lambda a, b: bit((a >> (b & 31) & 1) == 0))
_add("s_bitcmp1_b32", lambda a, b: bit((a >> (b & 31) & 1) == 1))


# Vector, floats --------------------------------------------------------------------------------


def _float(of: Callable[..., Array]) -> Callable[..., Array]:
    """A function of float32 arrays as one of words."""
    return lambda *sources: bits(of(*map(f32, sources)))


def _median(a: Array, b: Array, c: Array) -> Array:
    values = np.stack(np.broadcast_arrays(a, b, c))
    least = np.fmin(np.fmin(a, b), c)
    return np.where(np.isnan(values).any(axis=0), least, np.sort(values, axis=0)[1])


def _fraction(x: Array) -> Array:
    return np.where(np.isinf(x), np.float32(np.nan), np.minimum(x - np.floor(x), ALMOST_ONE))


def _to_int(low: int, high: int) -> Callable[[Array], Array]:
    def of(raw: Array) -> Array:
        x = f32(raw).astype(np.float64)
        return w(np.trunc(np.where(np.isnan(x), 0, np.clip(x, low, high))).astype(np.int64))

    return of


def _exact(of: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: of(x.astype(np.float64)).astype(np.float32)


ALMOST_ONE = np.float32(0.99999994)
_add("v_add_f32", _float(lambda a, b: a + b), floats=True)
_add("v_sub_f32", _float(lambda a, b: a - b), floats=True)
_add("v_subrev_f32", _float(lambda a, b: b - a), floats=True)
_add("v_mul_f32", _float(lambda a, b: a * b), floats=True)
_add("v_max_f32", _float(np.fmax), floats=True, any_zero=True)
_add("v_min_f32", _float(np.fmin), floats=True, any_zero=True)
_add("v_max3_f32", _float(lambda a, b, c: np.fmax(np.fmax(a, b), c)), floats=True, any_zero=True)
_add("v_min3_f32", _float(lambda a, b, c: np.fmin(np.fmin(a, b), c)), floats=True, any_zero=True)
_add("v_med3_f32", _float(_median), floats=True, any_zero=True)
# Fused on hardware; rounded twice here, as ARCHITECTURE.md says.
_add("v_fma_f32 v_mad_f32 v_madak_f32 v_fmaak_f32", _float(lambda a, b, c: a * b + c), floats=True)
_add("v_madmk_f32 v_fmamk_f32", _float(lambda a, k, b: a * k + b), floats=True)
_add("v_mac_f32 v_fmac_f32", _float(lambda old, a, b: a * b + old), floats=True)
_add("v_rcp_f32 v_rcp_iflag_f32", _float(lambda x: np.float32(1) / x), floats=True, ulps=1)
_add("v_rsq_f32", _float(_exact(lambda x: 1 / np.sqrt(x))), floats=True, ulps=1)
_add("v_sqrt_f32", _float(np.sqrt), floats=True, ulps=1)
_add("v_exp_f32", _float(_exact(np.exp2)), floats=True, ulps=1)
_add("v_log_f32", _float(_exact(np.log2)), floats=True, ulps=1)
_add("v_trunc_f32", _float(np.trunc), floats=True)
_add("v_rndne_f32", _float(np.rint), floats=True)
_add("v_floor_f32", _float(np.floor), floats=True)
_add("v_ceil_f32", _float(np.ceil), floats=True)
_add("v_fract_f32", _float(_fraction), floats=True, any_zero=True)
_add("v_cvt_f32_i32", lambda a: bits(i32(a).astype(np.float32)), floats=True, takes_floats=False)
_add("v_cvt_f32_u32", lambda a: bits(a.astype(np.float32)), floats=True, takes_floats=False)
for _k in range(4):
    _add(f"v_cvt_f32_ubyte{_k}", lambda a, k=_k: bits((a >> 8 * k & 255).astype(np.float32)),
         floats=True, takes_floats=False)  # fmt: skip
_add("v_cvt_i32_f32", _to_int(-(2**31), 2**31 - 1), takes_floats=True)
_add("v_cvt_u32_f32", _to_int(0, 2**32 - 1), takes_floats=True)


def _halves(of: Callable[..., Array]) -> Callable[..., Array]:
    """A function of float32 arrays on each half of the pairs."""

    def both(*sources: Array) -> Array:
        low = bits(of(*(f32((x & ALL).astype(np.uint32)) for x in sources)))
        high = bits(of(*(f32((x >> np.uint64(32)).astype(np.uint32)) for x in sources)))
        return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)

    return both


_add("v_pk_add_f32", _halves(lambda a, b: a + b), floats=True, takes_floats=False)
_add("v_pk_mul_f32", _halves(lambda a, b: a * b), floats=True, takes_floats=False)
_add("v_pk_fma_f32", _halves(lambda a, b, c: a * b + c), floats=True, takes_floats=False)
_add("v_pk_mov_b32", lambda a, b: a & np.uint64(ALL) | b << np.uint64(32))


def _is_nan(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


_FLOAT_ORDER: dict[str, Callable[[Array, Array], Array]] = {
    **ORDER,
    "lg": lambda a, b: (a < b) | (a > b),
    "o": lambda a, b: ~_is_nan(a, b),
    "u": _is_nan,
    "neq": lambda a, b: ~(a == b), "nlt": lambda a, b: ~(a < b), "nle": lambda a, b: ~(a <= b),
    "ngt": lambda a, b: ~(a > b), "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
}  # fmt: skip
for _name, _of in _FLOAT_ORDER.items():
    _add(f"v_cmp_{_name}_f32", lambda a, b, of=_of: bit(of(f32(a), f32(b))), takes_floats=True)


def _class(x: int, mask: int) -> int:
    sign, exponent, fraction = x >> 31, x >> 23 & 255, x & 0x7FFFFF
    if exponent == 255:
        kind = (1 if fraction >> 22 else 0) if fraction else (2 if sign else 9)
    elif exponent:
        kind = 3 if sign else 8
    elif fraction:
        kind = 4 if sign else 7
    else:
        kind = 5 if sign else 6
    return mask >> kind & 1


_add("v_cmp_class_f32", lambda a, m: bit(each(_class, a, m)), takes_floats=True, class_mask=True)


# Vector, integers ------------------------------------------------------------------------------

for _name, _of in {**ORDER, "ne": np.not_equal}.items():
    _add(f"v_cmp_{_name}_u32 v_cmp_{_name}_u64", lambda a, b, of=_of: bit(of(a, b)))
    _add(f"v_cmp_{_name}_i32", lambda a, b, of=_of: bit(of(i32(a), i32(b))))
    _add(f"v_cmp_{_name}_i64", lambda a, b, of=_of: bit(of(s64(a), s64(b))))
    _add(f"v_cmp_{_name}_u16", lambda a, b, of=_of: bit(of(u16(a), u16(b))))
    _add(f"v_cmp_{_name}_i16", lambda a, b, of=_of: bit(of(i16(a), i16(b))))
_add("v_mov_b32 v_mov_b64 v_readfirstlane_b32", lambda a: a)
_add("v_swap_b32", lambda a, b: (b, a))
_add("v_not_b32", lambda a: ~a)
_add("v_bfrev_b32", lambda a: w(each(reversed_bits, a)))
_add("v_ffbh_u32", lambda a: w(each(lambda x: 32 - x.bit_length() if x else -1, a)))
for _name in ("and", "or", "xor", "xnor"):
    _add(f"v_{_name}_b32", LOGIC[_name])
_add("v_cndmask_b32", lambda a, b, mask: np.where(mask, b, a), takes_floats=True)
_add("v_lshlrev_b32", lambda k, a: w(n(a) << n(k & 31)))
_add("v_lshrrev_b32", lambda k, a: w(n(a) >> n(k & 31)))
_add("v_ashrrev_i32", lambda k, a: w(n(i32(a)) >> n(k & 31)))
_add("v_lshlrev_b64", lambda k, a: wide(n(a) << n(k & 63)))
_add("v_lshrrev_b64", lambda k, a: wide(n(a) >> n(k & 63)))
_add("v_ashrrev_i64", lambda k, a: wide(n(s64(a)) >> n(k & 63)))
_add("v_lshlrev_b16", lambda k, a: w(u16(u16(a) << (k & 15))))
_add("v_lshrrev_b16", lambda k, a: w(u16(a) >> (k & 15)))
_add("v_ashrrev_i16", lambda k, a: w(u16(i16(a) >> (k & 15))))
for _name, _of in {"min": np.minimum, "max": np.maximum}.items():
    _add(f"v_{_name}_u32", lambda a, b, of=_of: of(a, b))
    _add(f"v_{_name}_i32", lambda a, b, of=_of: w(of(i32(a), i32(b))))
    _add(f"v_{_name}_u16", lambda a, b, of=_of: w(of(u16(a), u16(b))))
    _add(f"v_{_name}_i16", lambda a, b, of=_of: w(u16(of(i16(a), i16(b)))))
    _add(f"v_{_name}3_u32", lambda a, b, c, of=_of: of(of(a, b), c))
    _add(f"v_{_name}3_i32", lambda a, b, c, of=_of: w(of(of(i32(a), i32(b)), i32(c))))
_add("v_med3_u32", lambda a, b, c: w(each(lambda *x: sorted(x)[1], a, b, c)))
_add("v_med3_i32", lambda a, b, c: w(each(lambda *x: sorted(x)[1], i32(a), i32(b), i32(c))))
_add("v_mul_lo_u32", lambda a, b: w(n(a) * n(b)))
_add("v_mul_hi_u32", lambda a, b: w(n(a) * n(b) >> 32))
_add("v_mul_hi_i32", lambda a, b: w(n(i32(a)) * n(i32(b)) >> 32))
_add("v_mul_u32_u24", lambda a, b: w(u24(a) * u24(b)))
_add("v_mul_i32_i24", lambda a, b: w(i24(a) * i24(b)))
_add("v_mul_hi_u32_u24", lambda a, b: w(u24(a) * u24(b) >> 32))
_add("v_mad_u32_u24", lambda a, b, c: w(u24(a) * u24(b) + c))
_add("v_mad_i32_i24", lambda a, b, c: w(i24(a) * i24(b) + c))
_add("v_mad_u16 v_mad_legacy_u16", lambda a, b, c: w(u16(u16(a) * u16(b) + u16(c))))
_add("v_mad_i16", lambda a, b, c: w(u16(i16(a) * i16(b) + i16(c))))
_add("v_add_u16", lambda a, b: w(u16(u16(a) + u16(b))))
_add("v_sub_u16", lambda a, b: w(u16(u16(a) - u16(b))))
_add("v_subrev_u16", lambda a, b: w(u16(u16(b) - u16(a))))
_add("v_mul_lo_u16", lambda a, b: w(u16(u16(a) * u16(b))))
_add("v_bfi_b32", lambda m, a, b: m & a | ~m & b)
_add(
    "v_bfe_u32",
    lambda a, k, m: w(each(lambda x, o, c: x >> (o & 31) & ((1 << (c & 31)) - 1), a, k, m)),
)


def _signed_field(x: int, offset: int, width: int) -> int:
    offset, width = offset & 31, width & 31
    if not width:
        return 0
    signed = x - (1 << 32) if x >> 31 else x
    return ((signed >> offset & ((1 << width) - 1)) ^ 1 << (width - 1)) - (1 << (width - 1))


_add("v_bfe_i32", lambda a, k, m: w(each(_signed_field, a, k, m)))
_add("v_alignbit_b32", lambda a, b, k: w((n(a) << 32 | n(b)) >> n(k & 31)))
_add("v_and_or_b32", lambda a, b, c: a & b | c)
_add("v_or3_b32", lambda a, b, c: a | b | c)
_add("v_xad_u32", lambda a, b, c: (a ^ b) + c)
_add("v_add3_u32", lambda a, b, c: a + b + c)
_add("v_lshl_add_u32", lambda a, k, c: w((n(a) << n(k & 31)) + n(c)))
_add("v_add_lshl_u32", lambda a, b, k: w((n(a) + n(b) & ALL) << n(k & 31)))
_add("v_lshl_or_b32", lambda a, k, c: w(n(a) << n(k & 31) | n(c)))
_add("v_lshl_add_u64", lambda a, k, c: wide((n(a) << n(k & 7)) + n(c)))


def _mad_64(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    total = n(a) * n(b) + n(c)
    return wide(total), bit(total >> 64 != 0)


def _mad_signed_64(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """The carry is that of the unsigned sum; nothing reads it behind a signed product."""
    product, summand = n(i32(a)) * n(i32(b)) & 2**64 - 1, n(c)
    return wide(product + summand), bit(product + summand >> 64 != 0)


_add("v_mad_u64_u32", _mad_64)
_add("v_mad_i64_i32", _mad_signed_64)
# gfx803's names for sums with a carry are gfx942's for sums without one.
CARRIES = {"v_add": _carry(1), "v_sub": _carry(-1), "v_subrev": lambda a, b: _carry(-1)(b, a)}
for _name, _of in CARRIES.items():
    _add(f"{_name}_co_u32", _of)
    _add(f"{_name}_u32", lambda a, b, of=_of: of(a, b)[0])
_add("v_addc_u32 v_addc_co_u32", _carry(1))
_add("v_subb_u32 v_subb_co_u32", _carry(-1))
_add("v_subbrev_u32 v_subbrev_co_u32", lambda a, b, c: _carry(-1)(b, a, c))


# Bits and bytes, saturation, 16-bit floats: what MGPUSim lacks ----------------------------------


def _lowest(x: int) -> int:
    return (x & -x).bit_length() - 1


def _permuted(high: int, low: int, selector: int) -> int:
    both, found = high << 32 | low, 0
    for k in range(4):
        pick = selector >> 8 * k & 255
        if pick < 8:
            byte = both >> 8 * pick & 255
        elif pick < 12:
            byte = 255 * (both >> 16 * (pick - 8) + 15 & 1)
        else:
            byte = 0 if pick == 12 else 255
        found |= byte << 8 * k
    return found


def _signed_bytes(x: int) -> list[int]:
    return [((x >> 8 * k & 255) ^ 128) - 128 for k in range(4)]


def _dot_of_bytes(a: int, b: int) -> int:
    return sum(x * y for x, y in zip(_signed_bytes(a), _signed_bytes(b)))


def f16(x: Array) -> Array:
    return (x & 0xFFFF).astype(np.uint16).view(np.float16)


def _scaled(x: Array, n_: Array) -> Array:
    power = np.clip(i32(n_), -400, 400).astype(int)
    return np.ldexp(x.astype(np.float64), power).astype(np.float32)


def _sine(turns: Array) -> Array:
    """sin(2 pi t): exact where that is, which a sine of a rounded multiple of pi is not."""
    part = turns - np.rint(turns)
    folded = np.minimum(abs(part), 0.5 - abs(part))
    return np.copysign(np.sin(2 * np.pi * folded), part)


def _cosine(turns: Array) -> Array:
    return np.sin(2 * np.pi * (0.25 - abs(turns - np.rint(turns))))


_add("v_sin_f32", _float(_exact(_sine)), floats=True, ulps=1, any_zero=True)
_add("v_cos_f32", _float(_exact(_cosine)), floats=True, ulps=1, any_zero=True)
_add("v_bcnt_u32_b32", lambda a, b: w(each(int.bit_count, a) + n(b)))
_add("v_ffbl_b32", lambda a: w(each(_lowest, a)))
_add("v_perm_b32", lambda a, b, c: w(each(_permuted, a, b, c)))
_add("v_alignbyte_b32", lambda a, b, k: w((n(a) << 32 | n(b)) >> 8 * n(k & 3)))
_add("v_sad_u32", lambda a, b, c: w(abs(n(a) - n(b)) + n(c)))
_add("v_dot4c_i32_i8", lambda old, a, b: w(n(old) + each(_dot_of_bytes, a, b)))
_add(
    "v_pk_mul_lo_u16",
    lambda a, b: w(u16(a) * u16(b) & 0xFFFF | (u16(a >> 16) * u16(b >> 16) & 0xFFFF) << 16),
)
_add("v_add_i32", lambda a, b: w(i32(a) + i32(b)))
_add("v_sub_i32", lambda a, b: w(i32(a) - i32(b)))
_add("v_add_i16", lambda a, b: w(u16(i16(a) + i16(b))))
_add("v_sub_i16", lambda a, b: w(u16(i16(a) - i16(b))))
_add("v_ldexp_f32", lambda a, k: bits(_scaled(f32(a), k)), floats=True, class_mask=True)
_add("v_frexp_mant_f32", _float(lambda x: np.frexp(x)[0]), floats=True)
_add("v_frexp_exp_i32_f32", lambda a: w(np.where(np.isfinite(f32(a)), np.frexp(f32(a))[1], 0)),
     takes_floats=True)  # fmt: skip
_add("v_cvt_f32_f16", lambda a: bits(f16(a).astype(np.float32)), floats=True, takes_floats=False)
_add("v_cvt_f16_f32", lambda a: f32(a).astype(np.float16).view(np.uint16).astype(np.uint32),
     takes_floats=True)  # fmt: skip
_add("s_bcnt1_i32_b32 s_bcnt1_i32_b64", _with_zero(lambda a: w(each(int.bit_count, a))))
_add("s_ff1_i32_b32 s_ff1_i32_b64", lambda a: w(each(_lowest, a)))
_add("s_flbit_i32_b32", lambda a: w(each(lambda x: 32 - x.bit_length() if x else -1, a)))
_add("s_flbit_i32_b64", lambda a: w(each(lambda x: 64 - x.bit_length() if x else -1, a)))


def meaning(base: str, arch: str) -> Meaning | None:
    """The meaning of an instruction (without _e32 and _e64); None: not stated here."""
    if arch == "gfx803" and base in {f"{name}_u32" for name in CARRIES}:
        return Meaning(CARRIES[base.removesuffix("_u32")])
    return MEANINGS.get(base)
