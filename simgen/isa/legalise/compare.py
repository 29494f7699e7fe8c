"""Rules for comparisons of vectors: the result is a mask in VCC or in a pair of scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.isa.legalise.assembly import is_constant, is_inline, is_number, is_vgpr
from simgen.isa.legalise.table import GFX803, GFX942, rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site

_MIRRORED = {"le": "ge", "eq": "eq", "ge": "le"}
_OPPOSITE = {"nle": "le", "neq": "eq", "nge": "ge"}


# Floats --------------------------------------------------------------------------------------


@rule("v_cmp_eq_f32_e64 v_cmp_le_f32_e64 v_cmp_ge_f32_e64")
def ordered(site: Site) -> None:
    result, a, b = site.item.operands
    ordered_in(site, _condition(site), result, a, b)


@rule("v_cmp_nge_f32* v_cmp_nle_f32* v_cmp_neq_f32*", GFX942)
@rule("v_cmp_nge_f32_e64 v_cmp_nle_f32_e64 v_cmp_neq_f32_e64", GFX803)
def unordered(site: Site) -> None:
    result, a, b = site.item.operands
    if site.gcn3:
        ordered_in(site, _condition(site), result, a, b)
        return
    ordered_in(site, _OPPOSITE[_condition(site)], result, a, b)
    _complement(site, result)


@rule("v_cmp_nlt_f32_e32 v_cmp_ngt_f32*", GFX942)
@rule("v_cmp_ngt_f32_e64", GFX803)
def not_less(site: Site) -> None:
    """The one comparison of this kind that there is: v_cmp_nlt_f32_e64."""
    result, a, b = site.item.operands
    if _condition(site) == "ngt":
        a, b = b, a
    site.put("v_cmp_nlt_f32_e64", result, *_sources(site, a, b))


@rule("v_cmp_lg_f32* v_cmp_nlg_f32*")
def less_or_greater(site: Site) -> None:
    """MGPUSim takes a NaN for less or greater."""
    result, a, b = site.item.operands
    a, b = site.vop3_source(a), site.vop3_source(b)
    mask, _, _ = site.sgpr_pair()
    name, join = ("v_cmp_lt_f32_e64", "s_or_b64")
    if _condition(site) == "nlg":
        name, join = ("v_cmp_nlt_f32_e64", "s_and_b64")
    site.put(name, mask, a, b)
    site.put(name, result, b, a)
    with site.saving_scc():
        site.put(join, result, result, mask)


@rule("v_cmp_o_f32* v_cmp_u_f32*")
def ordered_or_not(site: Site) -> None:
    """a == a and b == b; a NaN is equal to nothing."""
    result, a, b = site.item.operands
    if is_number(b) or a == b:
        ordered_in(site, "eq", result, a, a)
    elif is_number(a):
        ordered_in(site, "eq", result, b, b)
    else:
        mask, _, _ = site.sgpr_pair()
        ordered_in(site, "eq", mask, a, a)
        ordered_in(site, "eq", result, b, b)
        with site.saving_scc():
            site.put("s_and_b64", result, result, mask)
    if _condition(site) == "u":
        _complement(site, result)


@rule("v_cmp_class_f32_e32", GFX942)
def classify(site: Site) -> None:
    """The short form takes a signalling NaN for a quiet one."""
    result, a, mask = site.item.operands
    literal = is_constant(a) and not is_inline(a)
    site.put("v_cmp_class_f32_e64", result, site.in_vgpr(a) if literal else a, mask)


def ordered_in(site: Site, condition: str, result: str, a: str, b: str) -> None:
    """Through VCC: MGPUSim has most comparisons in their short form only."""
    a, b = site.plain(a), site.plain(b)
    if not is_vgpr(b) and is_vgpr(a) and condition in _MIRRORED:
        a, b, condition = b, a, _MIRRORED[condition]
    b = site.in_vgpr(b)
    saved = ""
    if result != "vcc" and site.vcc_live:
        saved, _, _ = site.sgpr_pair()
        site.put("s_mov_b64", saved, "vcc")
    site.put(f"v_cmp_{condition}_f32_e32", "vcc", a, b)
    if result != "vcc":
        site.put("s_mov_b64", result, "vcc")
    if saved:
        site.put("s_mov_b64", "vcc", saved)


def _complement(site: Site, mask: str) -> None:
    with site.saving_scc():
        site.put("s_andn2_b64", mask, "exec", mask)


def _sources(site: Site, a: str, b: str) -> tuple[str, str]:
    """Two sources of a VOP3 instruction: literals and a second scalar go to vector registers."""
    a = a if not is_constant(a) else site.vop3_source(a)
    b = b if not is_constant(b) and is_vgpr(a.strip("-|")) else site.vop3_source(b)
    return a, b


def _condition(site: Site) -> str:
    return site.item.mnemonic.split("_")[2]


# Integers ------------------------------------------------------------------------------------


@rule("v_cmp_eq_i32*")
@rule("v_cmp_ne_i32_e64")
def equal(site: Site) -> None:
    """The same bits as unsigned numbers."""
    result, a, b = site.item.operands
    name = site.item.mnemonic.replace("_i32", "_u32")
    if site.gcn3 and "_ne_" in name:
        a, b = site.unsigned_source(a), site.unsigned_source(b)
    site.put(name, result, a, b)


@rule("v_cmp_lt_u32* v_cmp_le_u32* v_cmp_gt_u32* v_cmp_ge_u32* v_cmp_ne_u32*", GFX803)
def unsigned(site: Site) -> None:
    """Native, but for negative constants."""
    result, a, b = site.item.operands
    site.put(site.item.mnemonic, result, site.unsigned_source(a), site.unsigned_source(b))
