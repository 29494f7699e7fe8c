"""All that is tested on MGPUSim; here, scalar instructions and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import legalise_forms
import legalise_lane_cases
import legalise_memory_cases
import legalise_narrow_cases
import legalise_vector_cases
import numpy as np
from legalise_rows import (
    BOTH,
    CDNA3,
    GCN3,
    LOW,
    MASK_BITS,
    SCC,
    VCC,
    Inputs,
    Row,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Array = NDArray[Any]

TURNS = 12  # one of so many forms of an instruction runs in the timing model, beside the first


def _scalars() -> list[Row]:
    """Results in s20 (and s21), with SCC where it means something."""

    def u(x: Any) -> Array:
        return (np.asarray(x).astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)

    def nonzero(x: Any) -> dict[int, Array]:
        return {4: u(x), SCC: (u(x) != 0).astype(np.uint32)}

    def keeps(x: Any) -> dict[int, Array]:  # SCC was 1
        return {4: u(x), SCC: np.ones(np.shape(x), np.uint32)}

    def test(x: Array) -> dict[int, Array]:
        return {SCC: np.asarray(x).astype(np.uint32)}

    def wide(x: Array) -> dict[int, Array]:
        x = x.view(np.uint64)
        return {4: u(x & LOW), 5: u(x >> np.uint64(32)), SCC: (x != 0).astype(np.uint32)}

    def field(w: Inputs, offset: int, width: int) -> Array:
        return (w.u[0].astype(np.int64) << (64 - offset - width)) >> (64 - width)

    table: list[tuple[str, Callable[[Inputs], Mapping[int, Array]], tuple[str, ...]]] = [
        ("s_movk_i32 s20, 0x8001", lambda w: keeps(np.full(w.items, -32767)), BOTH),
        ("s_movk_i32 s20, 0x7fff", lambda w: keeps(np.full(w.items, 32767)), BOTH),
        ("s_mov_b32 s20, s8; s_cmovk_i32 s20, 0xfffe", lambda w: keeps(np.full(w.items, -2)), BOTH),
        ("s_mov_b32 s20, s8; s_cmov_b32 s20, s9", lambda w: keeps(w.u[1]), BOTH),
        ("s_mov_b32 s20, s8; s_bitset1_b32 s20, 7", lambda w: keeps(w.u[0] | 128), BOTH),
        ("s_mov_b32 s20, s8; s_bitset0_b32 s20, 31",
         lambda w: keeps(w.u[0] & np.uint32(0x7FFFFFFF)), BOTH),
        ("s_mov_b32 s20, s8; s_bitset1_b32 s20, s9",
         lambda w: keeps(w.u[0] | np.uint32(1) << (w.u[1] & np.uint32(31))), BOTH),
        ("s_mov_b32 s20, s8; s_bitset0_b32 s20, s9",
         lambda w: keeps(w.u[0] & ~(np.uint32(1) << (w.u[1] & np.uint32(31)))), BOTH),
        ("s_mov_b32 s20, s8; s_addk_i32 s20, 0xfff0; s_cmp_eq_u32 s8, s8",
         lambda w: keeps(w.u[0] - np.uint32(16)), BOTH),
        ("s_mov_b32 s20, s8; s_mulk_i32 s20, 0xfff0",
         lambda w: keeps(w.u[0].astype(np.int64) * -16), BOTH),
        ("s_cmp_lg_u32 s8, s8; s_mul_i32 s20, s8, s9",
         lambda w: {4: u(w.i[0].astype(np.int64) * w.i[1]), SCC: 0 * one(w)}, BOTH),
        ("s_mul_hi_u32 s20, s8, -3",
         lambda w: keeps(w.u[0].astype(np.uint64) * np.uint64(0xFFFFFFFD) >> np.uint64(32)), CDNA3),
        ("s_mul_hi_i32 s20, s8, s9",
         lambda w: keeps(w.i[0].astype(np.int64) * w.i[1] >> 32), CDNA3),
        ("s_add_u32 s20, s8, s9",
         lambda w: {4: w.u[0] + w.u[1], SCC: (w.u[0] + w.u[1] < w.u[0]).astype(np.uint32)}, BOTH),
        ("s_sub_u32 s20, s8, s9",
         lambda w: {4: w.u[0] - w.u[1], SCC: (w.u[0] < w.u[1]).astype(np.uint32)}, BOTH),
        ("s_sub_u32 s20, s8, -2",
         lambda w: {4: w.u[0] + np.uint32(2), SCC: (w.u[0] < 0xFFFFFFFE).astype(np.uint32)}, BOTH),
        ("s_sub_i32 s20, s8, s9; s_cmp_eq_u32 s8, s8", lambda w: keeps(w.u[0] - w.u[1]), BOTH),
        ("s_min_u32 s20, s8, s9",
         lambda w: {4: np.minimum(w.u[0], w.u[1]), SCC: (w.u[0] < w.u[1]).astype(np.uint32)}, BOTH),
        ("s_max_u32 s20, s8, -2",
         lambda w: {4: np.maximum(w.u[0], np.uint32(0xFFFFFFFE)),
                    SCC: (w.u[0] > 0xFFFFFFFE).astype(np.uint32)}, BOTH),
        ("s_max_i32 s20, s8, s9",
         lambda w: {4: u(np.maximum(w.i[0], w.i[1])), SCC: (w.i[0] > w.i[1]).astype(np.uint32)},
         BOTH),
        ("s_abs_i32 s20, s8", lambda w: nonzero(abs(w.i[0].astype(np.int64))), BOTH),
        ("s_not_b32 s20, s8", lambda w: nonzero(~w.u[0]), BOTH),
        ("s_not_b64 s[20:21], s[10:11]", lambda w: wide(~w.u64(2)), BOTH),
        ("s_and_b32 s20, s8, s9", lambda w: nonzero(w.u[0] & w.u[1]), BOTH),
        ("s_and_b32 s20, s8, -8", lambda w: nonzero(w.u[0] & 0xFFFFFFF8), BOTH),
        ("s_or_b32 s20, s8, s9", lambda w: nonzero(w.u[0] | w.u[1]), BOTH),
        ("s_xor_b32 s20, s8, s9", lambda w: nonzero(w.u[0] ^ w.u[1]), BOTH),
        ("s_xor_b32 s20, s8, -1", lambda w: nonzero(~w.u[0]), BOTH),
        ("s_andn2_b32 s20, s8, s9", lambda w: nonzero(w.u[0] & ~w.u[1]), BOTH),
        ("s_orn2_b32 s20, s8, s9", lambda w: nonzero(w.u[0] | ~w.u[1]), BOTH),
        ("s_orn2_b64 s[20:21], s[10:11], s[12:13]",
         lambda w: wide(w.u64(2) | ~w.u64(4)), BOTH),
        ("s_nand_b64 s[20:21], s[10:11], s[12:13]",
         lambda w: wide(~(w.u64(2) & w.u64(4))), BOTH),
        ("s_nor_b64 s[20:21], s[10:11], s[12:13]",
         lambda w: wide(~(w.u64(2) | w.u64(4))), BOTH),
        ("s_xnor_b64 s[20:21], s[10:11], s[12:13]",
         lambda w: wide(~(w.u64(2) ^ w.u64(4))), BOTH),
        ("s_lshl_b32 s20, s8, s9", lambda w: nonzero(w.u[0] << (w.u[1] & 31)), BOTH),
        ("s_lshr_b32 s20, s8, s9", lambda w: nonzero(w.u[0] >> (w.u[1] & 31)), BOTH),
        ("s_lshr_b32 s20, -3, s9",
         lambda w: nonzero(np.uint32(0xFFFFFFFD) >> (w.u[1] & 31)), BOTH),
        ("s_ashr_i32 s20, s8, s9", lambda w: nonzero(w.i[0] >> (w.i[1] & 31)), BOTH),
        ("s_ashr_i64 s[20:21], s[10:11], 5", lambda w: wide(w.i64(2) >> 5), BOTH),
        ("s_ashr_i64 s[20:21], s[10:11], 37", lambda w: wide(w.i64(2) >> 37), BOTH),
        ("s_lshl_b64 s[20:21], s[10:11], s8",
         lambda w: wide(w.u64(2) << (w.u[0] & 63).astype(np.uint64)), BOTH),
        ("s_bfe_u32 s20, s8, 0x70003", lambda w: nonzero(w.u[0] >> 3 & 127), BOTH),
        ("s_bfe_i32 s20, s8, 0x100010", lambda w: nonzero(field(w, 16, 16)), BOTH),
        ("s_bfm_b32 s20, s8, 4",
         lambda w: keeps(((np.int64(1) << (w.u[0] & 31).astype(np.int64)) - 1) << 4), BOTH),
        ("s_brev_b32 s20, s8",
         lambda w: keeps([int(f"{x:032b}"[::-1], 2) for x in w.u[0]]), BOTH),
        ("s_sext_i32_i8 s20, s8", lambda w: keeps(field(w, 0, 8)), BOTH),
        ("s_sext_i32_i16 s20, s8", lambda w: keeps(field(w, 0, 16)), BOTH),
        ("s_lshl2_add_u32 s20, s8, s9; s_cmp_eq_u32 s8, s8",
         lambda w: keeps((w.u[0] << 2) + w.u[1]), CDNA3),
        ("s_cmp_eq_u64 s[10:11], s[12:13]", lambda w: test(w.u64(2) == w.u64(4)), BOTH),
        ("s_cmp_lg_u64 s[10:11], s[12:13]", lambda w: test(w.u64(2) != w.u64(4)), BOTH),
        ("s_bitcmp1_b32 s8, 5", lambda w: test(w.u[0] >> 5 & 1), BOTH),
        ("s_bitcmp0_b32 s8, s9", lambda w: test(~(w.u[0] >> (w.u[1] & 31)) & 1), BOTH),
        ("s_cselect_b64 s[20:21], s[10:11], -1", lambda w: {**wide(w.u64(2)), SCC: one(w)}, BOTH),
        ("s_cselect_b64 vcc, s[22:23], 0",
         lambda w: {VCC: w.bit(MASK_BITS), SCC: one(w)}, BOTH),
        ("s_mov_b32 s20, vcc_hi; s_mov_b32 s21, vcc_lo",
         lambda w: {4: np.full(w.items, 0x00FF3355, np.uint32),
                    5: np.full(w.items, 0x0F0F0FF0, np.uint32)}, BOTH),
        ("s_setprio 1; s_mov_b32 s20, s8", lambda w: keeps(w.u[0]), BOTH),
    ]  # fmt: skip
    conditions = {"eq": np.equal, "lg": np.not_equal, "gt": np.greater, "ge": np.greater_equal,
                  "lt": np.less, "le": np.less_equal}  # fmt: skip
    for c, of in conditions.items():
        table += [
            (f"s_cmp_{c}_u32 s8, s9", lambda w, of=of: test(of(w.u[0], w.u[1])), BOTH),
            (f"s_cmp_{c}_u32 s8, -2",
             lambda w, of=of: test(of(w.u[0], np.uint32(0xFFFFFFFE))), BOTH),
            (f"s_cmp_{c}_i32 s8, s9", lambda w, of=of: test(of(w.i[0], w.i[1])), BOTH),
            (f"s_cmpk_{c}_u32 s8, 0xffff",
             lambda w, of=of: test(of(w.u[0], np.uint32(0xFFFF))), BOTH),
            (f"s_cmpk_{c}_i32 s8, 0xffff", lambda w, of=of: test(of(w.i[0], np.int32(-1))), BOTH),
        ]  # fmt: skip
    return [
        Row(f"s{k}_{code.split()[0]}", code, of, archs, scalar=True)
        for k, (code, of, archs) in enumerate(table)
    ]


def one(w: Inputs) -> Array:
    return np.ones(w.items, np.uint32)


def _memory() -> list[Row]:
    """LDS: each item owns 64 bytes; v19 is its address, words 0 to 3 lie at 0, 8, 264 and 512."""
    own = "v_and_b32_e32 v19, 63, v0; v_lshlrev_b32_e32 v19, 2, v19"
    done = "s_waitcnt lgkmcnt(0)"
    at = "ds_write_b32 v19, v2 offset:{}; ds_write_b32 v19, v3 offset:{}"
    four = "; ".join(f"ds_write_b32 v20, v{2 + k} offset:{512 + 4 * k}" for k in range(4))
    by_16 = "v_and_b32_e32 v20, 63, v0; v_lshlrev_b32_e32 v20, 4, v20"

    def first_two(w: Inputs) -> dict[int, Array]:
        return {0: w.u[0], 1: w.u[1]}

    def first_four(w: Inputs) -> dict[int, Array]:
        return {k: w.u[k] for k in range(4)}

    apart = at.format(256, 1280)
    pair = "v_lshlrev_b32_e32 v20, 1, v19"
    near = "ds_write_b32 v20, v2 offset:{}; ds_write_b32 v20, v3 offset:{}"
    return [
        Row("m_read64", f"{own}; {pair}; {near.format(520, 524)}; {done}; "
            f"ds_read_b64 v[10:11], v20 offset:520; {done}", first_two),
        Row("m_read64_far", f"{own}; {pair}; {near.format(4096, 4100)}; {done}; "
            f"ds_read_b64 v[10:11], v20 offset:4096; {done}", first_two),
        Row("m_write64", f"{own}; {pair}; ds_write_b64 v20, v[2:3] offset:16; {done}; "
            f"ds_read_b32 v10, v20 offset:16; ds_read_b32 v11, v20 offset:20; {done}", first_two),
        Row("m_write64_far", f"{own}; {pair}; ds_write_b64 v20, v[2:3] offset:8192; {done}; "
            f"ds_read_b32 v10, v20 offset:8192; ds_read_b32 v11, v20 offset:8196; {done}",
            first_two),
        Row("m_read_st64", f"{own}; {apart}; {done}; "
            f"ds_read2st64_b32 v[10:11], v19 offset0:1 offset1:5; {done}", first_two),
        Row("m_read_st64_alias", f"{own}; {apart}; {done}; v_mov_b32_e32 v10, v19; "
            f"ds_read2st64_b32 v[10:11], v10 offset0:1 offset1:5; {done}", first_two),
        Row("m_write_st64", f"{own}; ds_write2st64_b32 v19, v2, v3 offset0:1 offset1:5; {done}; "
            f"ds_read_b32 v10, v19 offset:256; ds_read_b32 v11, v19 offset:1280; {done}",
            first_two),
        Row("m_read128", f"{by_16}; {four}; {done}; "
            f"ds_read_b128 v[10:13], v20 offset:512; {done}", first_four),
        Row("m_write128", f"{by_16}; ds_write_b128 v20, v[2:5] offset:512; {done}; "
            "ds_read2_b32 v[10:11], v20 offset0:128 offset1:129; "
            f"ds_read2_b32 v[12:13], v20 offset0:130 offset1:131; {done}", first_four),
        Row("m_read96", f"{by_16}; {four}; {done}; "
            f"ds_read_b96 v[10:12], v20 offset:512; {done}",
            lambda w: {k: w.u[k] for k in range(3)}, CDNA3),
    ]  # fmt: skip


def _global() -> list[Row]:
    """s[4:5] points to the input, whose words lie one behind another for each k."""

    def three(w: Inputs) -> dict[int, Array]:
        at = (np.arange(w.items) % 64) * 3
        return {k: w.u[0][at + k] for k in range(3)}

    index = "v_and_b32_e32 v20, 63, v0; v_mul_u32_u24_e32 v20, 12, v20"
    flat = (
        "v_mov_b32_e32 v21, s5; v_add_u32_e32 v20, vcc, s4, v20; "
        "v_addc_u32_e64 v21, vcc, 0, v21, vcc; s_mov_b64 vcc, s[24:25]"
    )
    wait = "s_waitcnt vmcnt(0)"
    load = "global_load_dwordx3"
    scalars = "s_load_dwordx16 s[36:51], s[4:5], 0x40; s_waitcnt lgkmcnt(0)"
    return [
        Row("g_load3", f"{index}; {load} v[10:12], v20, s[4:5]; {wait}", three, CDNA3),
        Row("g_load3_alias", f"{index}; v_mov_b32_e32 v11, v20; "
            f"{load} v[10:12], v11, s[4:5]; {wait}", three, CDNA3),
        Row("g_load3_flat", f"{index}; {flat}; flat_load_dwordx3 v[10:12], v[20:21]; {wait}",
            three, GCN3),
        Row("g_load16", f"{scalars}; s_mov_b32 s20, s36; s_mov_b32 s21, s51",
            lambda w: {4: np.full(w.items, w.u[0][16]), 5: np.full(w.items, w.u[0][31])}),
    ]  # fmt: skip


def examples(arch: str) -> list[Row]:
    """One row or a few of what MGPUSim lacks or gets wrong."""
    everything = [*legalise_vector_cases.rows(), *_scalars(), *_memory(), *_global()]
    return [row for row in everything if arch in row.archs]


def written_out(arch: str) -> list[Row]:
    """The rows that are written one by one: sequences, modifiers, memory, control."""
    everything = [
        *legalise_memory_cases.rows(),
        *legalise_lane_cases.rows(),
        *legalise_narrow_cases.rows(),
    ]
    return [*examples(arch), *(row for row in everything if arch in row.archs)]


def rows(arch: str) -> list[Row]:
    """All tests for an architecture."""
    return [*written_out(arch), *legalise_forms.generated(arch)]


def timed(arch: str) -> list[Row]:
    """Those that run in the timing model, too: every instruction, its forms by turns.

    What the two modes have apart is where operands lie and how memory is reached, not arithmetic.
    """
    apart = [
        *_scalars(),
        *_memory(),
        *_global(),
        *legalise_memory_cases.rows(),
        *legalise_lane_cases.rows(),
        *legalise_narrow_cases.rows(),
    ]
    chosen = [row for row in apart if arch in row.archs and row.timed]
    turn, last = 0, ""
    for row in legalise_forms.generated(arch):
        mnemonic, number = row.name.rsplit(".", 1)
        turn += mnemonic != last
        last = mnemonic
        if int(number) in (0, 1 + turn % TURNS) or int(number) % TURNS == turn % TURNS:
            chosen.append(row)
    return chosen
