"""The table of a target: what it executes right as it is, and the rule for everything else.

Rules register themselves by architecture and mnemonic. A rule gets a `Site` and puts there what
stands in place of the instruction, made of native ones. A mnemonic with neither is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.compile.legalise.site import Site

    Rule = Callable[[Site], None]

GFX942 = "gfx942"
GFX803 = "gfx803"
ARCHS = (GFX942, GFX803)

RULES: dict[str, dict[str, Rule]] = {arch: {} for arch in ARCHS}

# What MGPUSim 4.2.0 executes right. An entry "v_x" stands for v_x_e32.
_BOTH = """
    s_add_i32 s_add_u32 s_and_b32 s_and_b64 s_andn2_b64 s_ashr_i32 s_bfm_b32 s_brev_b32
    s_cmp_eq_i32 s_cmp_eq_u32 s_cmp_ge_i32 s_cmp_gt_i32 s_cmp_gt_u32 s_cmp_le_i32 s_cmp_lg_i32
    s_cmp_lg_u32 s_cmp_lt_i32 s_cmp_lt_u32 s_cselect_b32 s_lshl_b32 s_lshl_b64 s_lshr_b32
    s_lshr_b64 s_max_i32 s_max_u32 s_min_i32 s_min_u32 s_mov_b32 s_mov_b64 s_mul_i32 s_mulk_i32
    s_or_b64 s_sub_i32 s_sub_u32 s_subb_u32 s_addc_u32 s_xor_b32 s_xor_b64
    s_and_saveexec_b64 s_andn2_saveexec_b64 s_nand_saveexec_b64 s_nor_saveexec_b64
    s_or_saveexec_b64 s_orn2_saveexec_b64 s_xnor_saveexec_b64 s_xor_saveexec_b64
    s_load_dword s_load_dwordx2 s_load_dwordx4 s_load_dwordx8
    s_barrier s_branch s_cbranch_execnz s_cbranch_execz s_cbranch_scc0 s_cbranch_scc1
    s_cbranch_vccnz s_cbranch_vccz s_endpgm s_nop s_waitcnt
    v_bfrev_b32 v_cvt_f32_i32 v_cvt_f32_u32 v_cvt_f32_ubyte0 v_cvt_u32_f32 v_exp_f32 v_log_f32
    v_mov_b32 v_not_b32 v_rcp_f32 v_rcp_iflag_f32 v_readfirstlane_b32. v_rndne_f32 v_rsq_f32
    v_sqrt_f32 v_trunc_f32
    v_add_f32 v_and_b32 v_ashrrev_i32 v_cndmask_b32 v_lshlrev_b16 v_lshlrev_b32 v_lshrrev_b32
    v_max_i32 v_max_u32 v_min_i32 v_min_u32 v_mul_f32 v_mul_i32_i24 v_mul_u32_u24 v_or_b32
    v_sub_f32 v_subrev_f32 v_xor_b32
    v_cmp_eq_f32 v_cmp_ge_f32 v_cmp_gt_f32 v_cmp_le_f32 v_cmp_lt_f32
    v_cmp_ge_i32 v_cmp_gt_i32 v_cmp_le_i32 v_cmp_lt_i32 v_cmp_ne_i32
    v_cmp_eq_u32 v_cmp_ge_u32 v_cmp_gt_u32 v_cmp_le_u32 v_cmp_lt_u32 v_cmp_ne_u32
    v_cmp_gt_f32_e64 v_cmp_lt_f32_e64 v_cmp_nlt_f32_e64
    v_cmp_ge_i32_e64 v_cmp_gt_i32_e64 v_cmp_le_i32_e64 v_cmp_lt_i32_e64
    v_cmp_eq_u32_e64 v_cmp_ge_u32_e64 v_cmp_gt_u32_e64 v_cmp_le_u32_e64 v_cmp_lt_u32_e64
    v_cmp_ne_u32_e64 v_cmp_lt_u64_e64
    v_add_f64. v_cvt_f32_f64 v_cvt_f64_f32 v_cvt_f64_i32 v_mul_f64. v_rcp_f64
    v_ashrrev_i64. v_bfe_i32. v_bfe_u32. v_cndmask_b32_e64 v_lshlrev_b64. v_mad_i32_i24. v_max3_f32.
    v_max3_i32. v_max3_u32. v_med3_f32. v_med3_i32. v_min3_f32. v_min3_i32. v_min3_u32.
    v_mul_hi_u32. v_mul_lo_u32. v_sub_f32_e64
    ds_read2_b32 ds_read2_b64 ds_read_b32 ds_read_b64 ds_write2_b32 ds_write2_b64 ds_write_b32
    ds_write_b8
"""
_GFX942 = """
    s_andn2_b32 s_ashr_i64 s_bfe_i32 s_bfe_u32 s_cmp_ge_u32 s_cmp_le_u32 s_cmpk_eq_i32
    s_cmpk_lg_i32 s_cselect_b64 s_mul_hi_u32 s_or_b32 s_orn2_b32 s_orn2_b64
    v_add_co_u32 v_add_u16 v_add_u32 v_addc_co_u32 v_ffbh_u32 v_fmac_f32 v_fmaak_f32. v_fmamk_f32.
    v_sub_co_u32 v_sub_u32 v_subb_co_u32 v_subbrev_co_u32 v_subrev_co_u32 v_subrev_u32
    v_cmp_gt_i16 v_cmp_class_f32_e64
    v_add3_u32. v_add_lshl_u32. v_fma_f32. v_lshl_add_u32. v_lshl_add_u64. v_lshl_or_b32.
    v_mul_f32_e64 v_pk_add_f32. v_pk_fma_f32. v_pk_mul_f32.
    v_add_co_u32_e64 v_addc_co_u32_e64 v_sub_co_u32_e64 v_subbrev_co_u32_e64 v_subrev_co_u32_e64
    ds_read_b128 ds_write_b128
    global_load_dword global_load_dwordx2 global_load_dwordx4 global_load_sbyte global_load_ubyte
    global_load_ushort global_store_dword global_store_dwordx2 global_store_dwordx3
    global_store_dwordx4
"""
_GFX803 = """
    s_abs_i32 s_movk_i32
    v_add_u32 v_addc_u32_e64 v_mac_f32 v_madak_f32. v_sub_u32 v_subb_u32 v_subbrev_u32
    v_subrev_u32
    v_cmp_neq_f32 v_cmp_nge_f32 v_cmp_ngt_f32 v_cmp_nle_f32 v_cmp_nlt_f32
    v_mad_f32.
    v_add_u32_e64 v_sub_u32_e64 v_subbrev_u32_e64 v_subrev_u32_e64
    flat_load_dword flat_load_dwordx2 flat_load_dwordx4 flat_load_sbyte flat_load_ubyte
    flat_load_ushort flat_store_dword flat_store_dwordx2 flat_store_dwordx3 flat_store_dwordx4
"""


def _names(text: str) -> frozenset[str]:
    return frozenset(
        name.rstrip(".")
        if name.endswith((".", "_e32", "_e64")) or not name.startswith("v_")
        else f"{name}_e32"
        for name in text.split()
    )


NATIVE: dict[str, frozenset[str]] = {
    GFX942: _names(_BOTH + _GFX942),
    GFX803: _names(_BOTH + _GFX803),
}


def rule(names: str, *archs: str) -> Callable[[Rule], Rule]:
    """Register a rule for mnemonics. "v_x*" stands for v_x_e32 and v_x_e64."""

    def register(function: Rule) -> Rule:
        for arch in archs or ARCHS:
            for name in names.split():
                forms = (f"{name[:-1]}_e32", f"{name[:-1]}_e64") if name.endswith("*") else (name,)
                for form in forms:
                    if form in RULES[arch]:
                        raise RuntimeError(f"two rules for {form} on {arch}")
                    RULES[arch][form] = function
        return function

    return register
