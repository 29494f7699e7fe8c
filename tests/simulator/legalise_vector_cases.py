"""Vector instructions that are tested on MGPUSim: arithmetic, conversions, comparisons."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from legalise_rows import (
    BOTH,
    CDNA3,
    LOW,
    MASK,
    MASK_BITS,
    VCC,
    Inputs,
    Row,
    clamp,
    f32,
    first,
    saturated,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]


def rows() -> list[Row]:
    """All tests of vector instructions without memory."""
    packed = [replace(row, floats=True, any_zero=True) for row in _packed()]
    return [*_values(), *_integers(), *_wide(), *packed, *_comparisons()]


def _values() -> list[Row]:
    """Float arithmetic with one result in v10."""

    def largest(a: Array, b: Array) -> Array:
        return np.fmax(a, b)

    table: list[tuple[str, Callable[[Inputs], Array], tuple[str, ...]]] = [
        ("v_max_f32_e32 v10, v2, v3", lambda w: largest(w.f[0], w.f[1]), BOTH),
        ("v_max_f32_e32 v10, s8, v3", lambda w: largest(w.f[0][first(w)], w.f[1]), BOTH),
        ("v_max_f32_e32 v10, 0, v2", lambda w: largest(f32(0), w.f[0]), BOTH),
        ("v_max_f32_e32 v10, 0xc0800000, v2", lambda w: largest(f32(-4), w.f[0]), BOTH),
        ("v_max_f32_e64 v10, -v2, |v3|", lambda w: largest(-w.f[0], abs(w.f[1])), BOTH),
        ("v_max_f32_e64 v10, v2, v2", lambda w: w.f[0], BOTH),
        ("v_min_f32_e32 v10, v2, v3", lambda w: np.fmin(w.f[0], w.f[1]), BOTH),
        ("v_min_f32_e32 v10, 1.0, v2", lambda w: np.fmin(f32(1), w.f[0]), BOTH),
        ("v_min_f32_e32 v10, 0x40c00000, v2", lambda w: np.fmin(f32(6), w.f[0]), BOTH),
        ("v_min_f32_e64 v10, -|v2|, v3", lambda w: np.fmin(-abs(w.f[0]), w.f[1]), BOTH),
        ("v_max3_f32 v10, v2, v3, -v4",
         lambda w: largest(largest(w.f[0], w.f[1]), -w.f[2]), BOTH),
        ("v_min3_f32 v10, v2, |v3|, v4",
         lambda w: np.fmin(np.fmin(w.f[0], abs(w.f[1])), w.f[2]), BOTH),
        ("v_add_f32_e32 v10, v2, v3", lambda w: w.f[0] + w.f[1], BOTH),
        ("v_add_f32_e64 v10, -v2, |v3|", lambda w: -w.f[0] + abs(w.f[1]), BOTH),
        ("v_add_f32_e64 v10, v2, 1.0", lambda w: w.f[0] + f32(1), BOTH),
        ("v_add_f32_e64 v10, v2, s9", lambda w: w.f[0] + w.f[1][first(w)], BOTH),
        ("v_add_f32_e64 v10, v2, v3 clamp", lambda w: clamp(w.f[0] + w.f[1]), BOTH),
        ("v_mul_f32_e64 v10, v2, v3 mul:2", lambda w: w.f[0] * w.f[1] * f32(2), BOTH),
        ("v_mul_f32_e64 v10, v2, v3 div:2", lambda w: w.f[0] * w.f[1] * f32(0.5), BOTH),
        ("v_add_f32_e64 v10, v2, -v3 clamp mul:4",
         lambda w: clamp((w.f[0] - w.f[1]) * f32(4)), BOTH),
        ("v_sub_f32_e64 v10, |v2|, -v3", lambda w: abs(w.f[0]) + w.f[1], BOTH),
        ("v_subrev_f32_e64 v10, |v2|, -v3", lambda w: -w.f[1] - abs(w.f[0]), BOTH),
        ("v_mul_f32_e64 v10, -v2, |v3|", lambda w: -w.f[0] * abs(w.f[1]), BOTH),
        ("v_rcp_f32_e64 v10, -v2", lambda w: f32(-1) / w.f[0], BOTH),
        ("v_sqrt_f32_e64 v10, |v2|", lambda w: np.sqrt(abs(w.f[0])), BOTH),
        ("v_trunc_f32_e32 v10, v2", lambda w: np.trunc(w.f[0]), BOTH),
        ("v_rndne_f32_e64 v10, -v2", lambda w: np.rint(-w.f[0]), BOTH),
        ("v_floor_f32_e32 v10, v2", lambda w: np.floor(w.f[0]), BOTH),
        ("v_floor_f32_e64 v10, -|v2|", lambda w: np.floor(-abs(w.f[0])), BOTH),
        ("v_ceil_f32_e32 v10, v2", lambda w: np.ceil(w.f[0]), BOTH),
        ("v_fract_f32_e32 v10, v2",
         lambda w: np.minimum(w.f[0] - np.floor(w.f[0]), f32(0.99999994)), BOTH),
        ("v_cvt_f32_i32_e32 v10, v2", lambda w: f32(w.i[0]), BOTH),
        ("v_cvt_f32_u32_e64 v10, s8", lambda w: f32(w.u[0][first(w)]), BOTH),
        ("v_cvt_f32_ubyte0_e32 v10, v2", lambda w: f32(w.u[0] & 255), BOTH),
        ("v_cvt_f32_ubyte1_e32 v10, v2", lambda w: f32(w.u[0] >> 8 & 255), BOTH),
        ("v_cvt_f32_ubyte2_e32 v10, v2", lambda w: f32(w.u[0] >> 16 & 255), BOTH),
        ("v_cvt_f32_ubyte3_e32 v10, v2", lambda w: f32(w.u[0] >> 24), BOTH),
        ("v_cndmask_b32_e64 v10, -v2, |v3|, s[22:23]",
         lambda w: np.where(w.bit(MASK_BITS) == 1, abs(w.f[1]), -w.f[0]), BOTH),
        ("v_med3_f32 v10, v2, 0, 1.0", lambda w: clamp(w.f[0]), BOTH),
    ]  # fmt: skip
    return [
        Row(
            f"k{k}_{code.split()[0]}",
            code,
            lambda w, of=of: {0: f32(of(w)).view(np.uint32)},
            archs,
            floats=True,
            any_zero=True,
        )
        for k, (code, of, archs) in enumerate(table)
    ]


def _integers() -> list[Row]:
    """Integer arithmetic with one result in v10."""

    def u(x: Any) -> Array:
        return (np.asarray(x).astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)

    def mulhi(a: Array, b: Array) -> Array:
        return (a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(32)

    def field(w: Inputs, offset: int, width: int) -> Array:
        return (w.u[0].astype(np.int64) << (64 - offset - width)) >> (64 - width)

    def i16(x: Array) -> Array:
        return x.astype(np.uint16).view(np.int16).astype(np.int64)

    def high_24(a: Array, b: Array) -> Array:
        return (a & 0xFFFFFF).astype(np.int64) * (b & 0xFFFFFF) >> 32

    def u16(x: Array) -> Array:
        return (x & 0xFFFF).astype(np.int64)

    table: list[tuple[str, Callable[[Inputs], Array], tuple[str, ...]]] = [
        ("v_cvt_i32_f32_e32 v10, v2", lambda w: saturated(w.f[0], -(2**31), 2**31 - 1), BOTH),
        ("v_cvt_i32_f32_e64 v10, -v2", lambda w: saturated(-w.f[0], -(2**31), 2**31 - 1), BOTH),
        ("v_cvt_u32_f32_e32 v10, v2", lambda w: saturated(w.f[0], 0, 2**32 - 1), BOTH),
        ("v_mad_u32_u24 v10, v2, v3, v4",
         lambda w: (w.u[0] & 0xFFFFFF).astype(np.int64) * (w.u[1] & 0xFFFFFF) + w.u[2], BOTH),
        ("v_mad_u32_u24 v10, v2, 5, -3",
         lambda w: (w.u[0] & 0xFFFFFF).astype(np.int64) * 5 - 3, BOTH),
        ("v_mad_i32_i24 v10, v2, v3, v4", lambda w: i24(w.u[0]) * i24(w.u[1]) + w.i[2], BOTH),
        ("v_mul_lo_u32 v10, v2, -5", lambda w: w.u[0].astype(np.int64) * -5, BOTH),
        ("v_mul_hi_u32 v10, v2, v3", lambda w: mulhi(w.u[0], w.u[1]), BOTH),
        ("v_mul_hi_u32 v10, v2, -3", lambda w: mulhi(w.u[0], np.uint32([0xFFFFFFFD])), BOTH),
        ("v_mul_hi_u32_u24_e32 v10, v2, v3", lambda w: high_24(w.u[0], w.u[1]), BOTH),
        ("v_mul_hi_u32_u24_e64 v10, v2, s8",
         lambda w: high_24(w.u[0], w.u[0][first(w)]), BOTH),
        ("v_mul_hi_i32 v10, v2, v3", lambda w: w.i[0].astype(np.int64) * w.i[1] >> 32, BOTH),
        ("v_bfi_b32 v10, v2, v3, v4", lambda w: w.u[0] & w.u[1] | ~w.u[0] & w.u[2], BOTH),
        ("v_bfi_b32 v10, s8, v3, v4",
         lambda w: w.u[0][first(w)] & w.u[1] | ~w.u[0][first(w)] & w.u[2], BOTH),
        ("v_bfe_u32 v10, v2, 8, 24", lambda w: w.u[0] >> 8, BOTH),
        ("v_bfe_u32 v10, v2, 3, 7", lambda w: w.u[0] >> 3 & 127, BOTH),
        ("v_bfe_i32 v10, v2, 16, 16", lambda w: field(w, 16, 16), BOTH),
        ("v_bfe_i32 v10, v2, 4, 9", lambda w: field(w, 4, 9), BOTH),
        ("v_bfe_i32 v10, v2, 28, 9", lambda w: field(w, 28, 4), BOTH),
        ("v_alignbit_b32 v10, v2, v3, 7",
         lambda w: (w.u[1] >> 7) | (w.u[0] << np.uint32(25)), BOTH),
        ("v_alignbit_b32 v10, v2, v3, v4",
         lambda w: ((w.u[0].astype(np.uint64) << np.uint64(32) | w.u[1])
                    >> (w.u[2] & 31).astype(np.uint64)) & LOW, BOTH),
        ("v_and_or_b32 v10, v2, v3, v4", lambda w: w.u[0] & w.u[1] | w.u[2], CDNA3),
        ("v_or3_b32 v10, v2, v3, v4", lambda w: w.u[0] | w.u[1] | w.u[2], CDNA3),
        ("v_xad_u32 v10, v2, v3, v4", lambda w: (w.u[0] ^ w.u[1]) + w.u[2], CDNA3),
        ("v_xnor_b32_e32 v10, v2, v3", lambda w: ~(w.u[0] ^ w.u[1]), CDNA3),
        ("v_lshl_add_u32 v10, v2, v3, v4", lambda w: (w.u[0] << (w.u[1] & 31)) + w.u[2], CDNA3),
        ("v_add_lshl_u32 v10, v2, v3, v4", lambda w: (w.u[0] + w.u[1]) << (w.u[2] & 31), CDNA3),
        ("v_lshl_or_b32 v10, v2, v3, v4", lambda w: w.u[0] << (w.u[1] & 31) | w.u[2], CDNA3),
        ("v_add3_u32 v10, v2, v3, -7", lambda w: w.u[0] + w.u[1] - np.uint32(7), CDNA3),
        ("v_add_u32_e64 v10, v2, s9", lambda w: w.u[0] + w.u[1][first(w)], CDNA3),
        ("v_sub_u32_e64 v10, s8, v3", lambda w: w.u[0][first(w)] - w.u[1], CDNA3),
        ("v_and_b32_e64 v10, v2, s9", lambda w: w.u[0] & w.u[1][first(w)], BOTH),
        ("v_lshlrev_b32_e64 v10, v2, s9", lambda w: w.u[1][first(w)] << (w.u[0] & 31), BOTH),
        ("v_lshrrev_b32_e64 v10, s8, v3", lambda w: w.u[1] >> (w.u[0][first(w)] & 31), BOTH),
        ("v_ashrrev_i32_e64 v10, v2, s9", lambda w: w.i[1][first(w)] >> (w.i[0] & 31), BOTH),
        ("v_ashrrev_i32_e32 v10, v2, v3", lambda w: w.i[1] >> (w.i[0] & 31), BOTH),
        ("v_max_i32_e64 v10, v2, s9", lambda w: np.maximum(w.i[0], w.i[1][first(w)]), BOTH),
        ("v_min_u32_e32 v10, -2, v3", lambda w: np.minimum(np.uint32(0xFFFFFFFE), w.u[1]), BOTH),
        ("v_med3_u32 v10, v2, v3, v4", lambda w: np.median(w.u[:3].astype(float), axis=0), BOTH),
        ("v_med3_u32 v10, v2, v3, v3", lambda w: w.u[1], BOTH),
        ("v_med3_i32 v10, v2, v3, v4", lambda w: np.median(w.i[:3].astype(float), axis=0), BOTH),
        ("v_min3_u32 v10, v2, v3, v4", lambda w: w.u[:3].min(axis=0), BOTH),
        ("v_max3_i32 v10, v2, v3, v4", lambda w: w.i[:3].max(axis=0), BOTH),
        ("v_mul_u32_u24_e64 v10, v2, s9",
         lambda w: (w.u[0] & 0xFFFFFF).astype(np.int64) * (w.u[1][first(w)] & 0xFFFFFF), BOTH),
        ("v_not_b32_e32 v10, v2", lambda w: ~w.u[0], BOTH),
        ("v_bfrev_b32_e32 v10, v2",
         lambda w: [int(f"{x:032b}"[::-1], 2) for x in w.u[0]], BOTH),
        ("v_ffbh_u32_e32 v10, v2",
         lambda w: [32 - int(x).bit_length() if x else 0xFFFFFFFF for x in w.u[0]], CDNA3),
        ("v_add_u16_e32 v10, v2, v3", lambda w: u16(w.u[0] + w.u[1]), BOTH),
        ("v_sub_u16_e32 v10, v2, v3", lambda w: u16(w.u[0] - w.u[1]), BOTH),
        ("v_subrev_u16_e32 v10, v2, v3", lambda w: u16(w.u[1] - w.u[0]), BOTH),
        ("v_mul_lo_u16_e32 v10, v2, v3", lambda w: u16(w.u[0] * w.u[1]), BOTH),
        ("v_lshlrev_b16_e32 v10, v2, v3", lambda w: u16(u16(w.u[1]) << (w.u[0] & 15)), BOTH),
        ("v_lshrrev_b16_e32 v10, v2, v3", lambda w: u16(w.u[1]) >> (w.u[0] & 15), BOTH),
        ("v_lshrrev_b16_e64 v10, 4, v3", lambda w: u16(w.u[1]) >> 4, BOTH),
        ("v_ashrrev_i16_e32 v10, v2, v3",
         lambda w: (i16(w.u[1]) >> (w.i[0] & 15)) & 0xFFFF, BOTH),
        ("v_min_u16_e32 v10, v2, v3", lambda w: np.minimum(u16(w.u[0]), u16(w.u[1])), BOTH),
        ("v_max_i16_e32 v10, v2, v3",
         lambda w: np.maximum(i16(w.u[0]), i16(w.u[1])) & 0xFFFF, BOTH),
        ("s_nop 0; v_mov_b32_e64 v10, s9", lambda w: w.u[1][first(w)], BOTH),
    ]  # fmt: skip
    return [
        Row(f"i{k}_{code.split()[0]}", code, lambda w, of=of: {0: u(of(w))}, archs)
        for k, (code, of, archs) in enumerate(table)
    ]


def i24(x: Array) -> Array:
    return ((x & 0xFFFFFF).astype(np.int64) ^ 0x800000) - 0x800000


def _wide() -> list[Row]:
    """64-bit values in pairs, and carries."""

    def pair(x: Array, at: int = 0) -> dict[int, Array]:
        x = x.view(np.uint64) if x.dtype == np.int64 else x.astype(np.uint64)
        return {at: (x & LOW).astype(np.uint32), at + 1: (x >> np.uint64(32)).astype(np.uint32)}

    def count(w: Inputs) -> Array:
        return (w.u[0] & 63).astype(np.uint64)

    def product(w: Inputs) -> Array:
        return w.u[0].astype(np.uint64) * w.u[1].astype(np.uint64)

    def carry(a: Array, b: Array, c: Array) -> dict[int, Array]:
        total = a.astype(np.uint64) + b.astype(np.uint64) + c.astype(np.uint64)
        return {0: (total & LOW).astype(np.uint32), VCC: (total >> np.uint64(32)).astype(np.uint32)}

    def borrow(a: Array, b: Array, c: Array) -> dict[int, Array]:
        total = a.astype(np.int64) - b.astype(np.int64) - c.astype(np.int64)
        return {0: (total & 0xFFFFFFFF).astype(np.uint32), VCC: (total < 0).astype(np.uint32)}

    def mad(w: Inputs, c: Array, of: Array | None = None) -> dict[int, Array]:
        of = product(w) if of is None else of
        total = of + c
        return {**pair(total), MASK: (total < of).astype(np.uint32)}

    vcc = 0x00FF33550F0F0FF0
    add = {"gfx942": "v_add_co_u32", "gfx803": "v_add_u32"}
    rows = [
        Row("w_mov64", "v_mov_b64_e32 v[10:11], v[4:5]", lambda w: pair(w.u64(2)), CDNA3),
        Row("w_mov64_1", "v_mov_b64_e32 v[10:11], -1", lambda w: pair(-np.ones(w.items, np.int64)),
            CDNA3),
        Row("w_mov64_2", "v_mov_b32_e32 v11, 7; v_mov_b64_e32 v[10:11], 0x3e8",
            lambda w: pair(np.full(w.items, 0x3E8, np.int64)), CDNA3),
        Row("w_mov64_3", "v_mov_b64_e32 v[10:11], -4.0",
            lambda w: pair(np.full(w.items, -4.0).view(np.int64)), CDNA3),
        Row("w_shl", "v_lshlrev_b64 v[10:11], 7, v[4:5]",
            lambda w: pair(w.u64(2) << np.uint64(7))),
        Row("w_shl_var", "v_lshlrev_b64 v[10:11], v2, v[4:5]",
            lambda w: pair(w.u64(2) << count(w))),
        Row("w_ashr_var", "v_ashrrev_i64 v[10:11], v2, v[4:5]",
            lambda w: pair(w.i64(2) >> count(w).astype(np.int64))),
        Row("w_lshr", "v_lshrrev_b64 v[10:11], 9, v[4:5]",
            lambda w: pair(w.u64(2) >> np.uint64(9))),
        Row("w_lshr_var", "v_lshrrev_b64 v[10:11], v2, v[4:5]",
            lambda w: pair(w.u64(2) >> count(w))),
        Row("w_lshl_add", "v_lshl_add_u64 v[10:11], v[4:5], 3, v[6:7]",
            lambda w: pair((w.u64(2) << np.uint64(3)) + w.u64(4)), CDNA3),
        Row("w_mad64", "v_mad_u64_u32 v[10:11], s[22:23], v2, v3, v[4:5]",
            lambda w: mad(w, w.u64(2))),
        Row("w_mad64_0", "v_mad_u64_u32 v[10:11], s[22:23], v2, v3, 0",
            lambda w: mad(w, np.zeros(w.items, np.uint64))),
        Row("w_mad64_signed", "v_mad_i64_i32 v[10:11], s[22:23], v2, v3, v[4:5]",
            lambda w: mad(w, w.u64(2), (w.i[0].astype(np.int64) * w.i[1]).view(np.uint64))),
        Row("w_mad64_in_place",
            "v_mov_b32_e32 v10, v4; v_mov_b32_e32 v11, v5; "
            "v_mad_u64_u32 v[10:11], s[22:23], v2, v3, v[10:11]", lambda w: mad(w, w.u64(2))),
    ]  # fmt: skip
    for arch, name in add.items():
        sub, subrev = name.replace("add", "sub"), name.replace("add", "subrev")
        addc = name.replace("add", "addc")
        subb, subbrev = addc.replace("addc", "subb"), addc.replace("addc", "subbrev")
        rows += [
            Row("c_add", f"{name}_e32 v10, vcc, v2, v3",
                lambda w: carry(w.u[0], w.u[1], np.uint32(0)), (arch,)),
            Row("c_add_1", f"{name}_e32 v10, vcc, -1, v3",
                lambda w: carry(w.u[1], np.uint32([0xFFFFFFFF]), np.uint32(0)), (arch,)),
            Row("c_addc", f"{addc}_e32 v10, vcc, v2, v3, vcc",
                lambda w: carry(w.u[0], w.u[1], w.bit(vcc)), (arch,)),
            Row("c_addc_1", f"{addc}_e32 v10, vcc, -1, v3, vcc",
                lambda w: carry(w.u[1], np.uint32([0xFFFFFFFF]), w.bit(vcc)), (arch,)),
            Row("c_addc_s", f"v_mov_b32_e32 v3, s8; {addc}_e64 v10, vcc, v2, v3, vcc",
                lambda w: carry(w.u[0], w.u[0][first(w)], w.bit(vcc)), (arch,)),
            Row("c_sub", f"{sub}_e32 v10, vcc, v2, v3",
                lambda w: borrow(w.u[0], w.u[1], np.uint32(0)), (arch,)),
            Row("c_subrev", f"{subrev}_e32 v10, vcc, v2, v3",
                lambda w: borrow(w.u[1], w.u[0], np.uint32(0)), (arch,)),
            Row("c_subb", f"{subb}_e32 v10, vcc, v2, v3, vcc",
                lambda w: borrow(w.u[0], w.u[1], w.bit(vcc)), (arch,)),
            Row("c_subb_long", f"{subb}_e64 v10, vcc, v2, v3, vcc",
                lambda w: borrow(w.u[0], w.u[1], w.bit(vcc)), (arch,)),
            Row("c_subbrev_1", f"{subbrev}_e32 v10, vcc, -1, v3, vcc",
                lambda w: borrow(w.u[1], np.uint32([0xFFFFFFFF]), w.bit(vcc)), (arch,)),
        ]  # fmt: skip
    return rows


def _packed() -> list[Row]:
    """Two floats at once, gfx942 only."""

    def out(low: Array, high: Array) -> dict[int, Array]:
        return {0: f32(low).view(np.uint32), 1: f32(high).view(np.uint32)}

    both = "v_pk_add_f32 v[10:11], v[2:3], v[4:5]"
    return [
        Row("p_add", both, lambda w: out(w.f[0] + w.f[2], w.f[1] + w.f[3]), CDNA3),
        Row("p_add_neg", f"{both} neg_lo:[0,1] neg_hi:[0,1]",
            lambda w: out(w.f[0] - w.f[2], w.f[1] - w.f[3]), CDNA3),
        Row("p_add_half", f"{both} neg_lo:[0,1]",
            lambda w: out(w.f[0] - w.f[2], w.f[1] + w.f[3]), CDNA3),
        Row("p_add_sel", f"{both} op_sel:[1,0] op_sel_hi:[0,1]",
            lambda w: out(w.f[1] + w.f[2], w.f[0] + w.f[3]), CDNA3),
        Row("p_mul_const", "v_pk_mul_f32 v[10:11], v[2:3], 2.0 op_sel_hi:[1,0]",
            lambda w: out(w.f[0] * 2, w.f[1] * 2), CDNA3),
        Row("p_mul_half", "v_pk_mul_f32 v[10:11], v[2:3], v[4:5] neg_hi:[1,0]",
            lambda w: out(w.f[0] * w.f[2], -w.f[1] * w.f[3]), CDNA3),
        Row("p_clamp", f"{both} clamp",
            lambda w: out(clamp(w.f[0] + w.f[2]), clamp(w.f[1] + w.f[3])), CDNA3),
        Row("p_mov", "v_pk_mov_b32 v[10:11], v[2:3], v[4:5] op_sel:[1,0]",
            lambda w: {0: w.u[1], 1: w.u[2]}, CDNA3),
        Row("p_mov_swap", "v_mov_b32_e32 v10, v2; v_mov_b32_e32 v11, v3; "
            "v_pk_mov_b32 v[10:11], v[10:11], v[10:11] op_sel:[1,0]",
            lambda w: {0: w.u[1], 1: w.u[0]}, CDNA3),
        Row("p_swap", "v_mov_b32_e32 v10, v2; v_mov_b32_e32 v11, v3; v_swap_b32 v10, v11",
            lambda w: {0: w.u[1], 1: w.u[0]}, CDNA3),
    ]  # fmt: skip


def _comparisons() -> list[Row]:
    ordered = {
        "lt": np.less, "le": np.less_equal, "eq": np.equal, "ge": np.greater_equal,
        "gt": np.greater,
    }  # fmt: skip

    def bits(x: Array) -> Array:
        return np.asarray(x).astype(np.uint32)

    def nan(a: Array, b: Array) -> Array:
        return np.isnan(a) | np.isnan(b)

    floats: dict[str, Callable[[Array, Array], Array]] = {
        **ordered,
        "lg": lambda a, b: (a != b) & ~nan(a, b),
        "o": lambda a, b: ~nan(a, b),
        "u": nan,
        **{f"n{c}": (lambda a, b, of=of: ~of(a, b)) for c, of in ordered.items()},
        "nlg": lambda a, b: ~((a != b) & ~nan(a, b)),
    }
    rows = []
    for c, of in floats.items():
        rows += [
            Row(f"f_{c}_short", f"v_cmp_{c}_f32_e32 vcc, v2, v3",
                lambda w, of=of: {VCC: bits(of(w.f[0], w.f[1]))}),
            Row(f"f_{c}_long", f"v_cmp_{c}_f32_e64 s[22:23], -v2, |v3|",
                lambda w, of=of: {MASK: bits(of(-w.f[0], abs(w.f[1])))}),
            Row(f"f_{c}_scalar", f"v_cmp_{c}_f32_e64 s[22:23], v2, s9",
                lambda w, of=of: {MASK: bits(of(w.f[0], w.f[1][first(w)]))}),
        ]  # fmt: skip
    integers = {**ordered, "ne": np.not_equal}
    for c, of in integers.items():
        for kind in "ui":
            rows += [
                Row(f"i_{c}_{kind}32", f"v_cmp_{c}_{kind}32_e32 vcc, v2, v3",
                    lambda w, of=of, k=kind: {VCC: bits(of(*_as(w, k)))}),
                Row(f"i_{c}_{kind}32_1", f"v_cmp_{c}_{kind}32_e32 vcc, -2, v3",
                    lambda w, of=of, k=kind: {
                        VCC: bits(of(np.int32(-2) if k == "i" else np.uint32(0xFFFFFFFE),
                                     _as(w, k)[1]))}),
                Row(f"i_{c}_{kind}32_long", f"v_cmp_{c}_{kind}32_e64 s[22:23], v2, v3",
                    lambda w, of=of, k=kind: {MASK: bits(of(*_as(w, k)))}),
                Row(f"i_{c}_{kind}16", f"v_cmp_{c}_{kind}16_e32 vcc, v2, v3",
                    lambda w, of=of, k=kind: {VCC: bits(of(*_as16(w, k)))}),
                Row(f"i_{c}_{kind}16_long", f"v_cmp_{c}_{kind}16_e64 s[22:23], v2, v3",
                    lambda w, of=of, k=kind: {MASK: bits(of(*_as16(w, k)))}),
                Row(f"i_{c}_{kind}64", f"v_cmp_{c}_{kind}64_e32 vcc, v[4:5], v[6:7]",
                    lambda w, of=of, k=kind: {VCC: bits(of(*_as64(w, k)))}),
                Row(f"i_{c}_{kind}64_long", f"v_cmp_{c}_{kind}64_e64 s[22:23], v[4:5], 5",
                    lambda w, of=of, k=kind: {
                        MASK: bits(of(_as64(w, k)[0], np.int64(5) if k == "i" else np.uint64(5)))}),
            ]  # fmt: skip
    rows += [
        Row("class_inf", "v_cmp_class_f32_e64 s[22:23], -v2, 4",
            lambda w: {MASK: bits(w.f[0] == np.inf)}, CDNA3),
        Row("class_short", "v_mov_b32_e32 v3, 0x207; v_cmp_class_f32_e32 vcc, v2, v3",
            lambda w: {VCC: bits(np.isnan(w.f[0]) | np.isinf(w.f[0]))}, CDNA3),
    ]  # fmt: skip
    return rows


def _as(w: Inputs, kind: str) -> tuple[Array, Array]:
    words = w.i if kind == "i" else w.u
    return words[0], words[1]


def _as16(w: Inputs, kind: str) -> tuple[Array, Array]:
    halves = [(x & 0xFFFF).astype(np.uint16) for x in w.u[:2]]
    a, b = (h.view(np.int16) for h in halves) if kind == "i" else halves
    return a, b


def _as64(w: Inputs, kind: str) -> tuple[Array, Array]:
    return (w.i64(2), w.i64(4)) if kind == "i" else (w.u64(2), w.u64(4))
