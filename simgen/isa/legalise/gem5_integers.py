"""Whole numbers that gem5 computes wrongly, in its own other instructions.

* s_sext_i32_i8 and _i16 take the bit below the sign for it (`numeric_limits::digits`, which leaves
  the sign out): of 64 they make -64
* s_absdiff_i32 reads neither source, and gives 0
* s_bfe_u64 and _i64 have masks of 32 bits
* v_bfe_i32, s_bfe_i32 and s_bfe_i64 (gfx8; gfx9, to 22.1) do not extend the sign
* v_perm_b32 (to 23.0) moves its bytes by bits
* v_or3_b32 (to 23.0) leaves its third source out
* s_cmp_lt_u32 (gfx8, to 21.0) is true of equal numbers
* v_subbrev_co_u32_e64 has the borrow of the contrary difference
* v_cmpx_ge_u16_e64, gt and le compare with signs
* v_sad_u32 takes its sources for numbers with signs; v_sad_hi_u8 adds differences, not their
  magnitudes
* v_dot4_i32_i8, v_dot2_i32_i16, v_dot8_i32_i4 cut each product to the bits of a factor; v_dot4c
  and the like are not there
* v_add_u32, v_sub_u32 and v_subrev_u32 ignore clamp
* v_mul_i32_i24_e64 takes the number of its second source for that of a vector register
* v_alignbyte_b32 shifts by more than three bytes
* v_xad_u32 (to 22.0), packed ones of 16 bits (to 23.1) and others of 16 bits are not there
* v_med3_f32 of a NaN and two numbers gives the greater one
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.isa.legalise import replacements
from simgen.isa.legalise.assembly import is_inline, registers

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.isa.legalise.site import Site

FIELD = {"s_sext_i32_i8": 8 << 16, "s_sext_i32_i16": 16 << 16}  # operands of s_bfe_i32


def extended(site: Site) -> None:
    """s_sext_i32, which leaves SCC as it is."""
    result, x = site.item.operands
    if not registers(x) and not is_inline(x):  # beside another literal
        site.put("s_mov_b32", result, x)
        x = result
    with site.saving_scc():
        if "s_bfe_i32" in site.lost:
            shift = str(32 - (FIELD[site.item.mnemonic] >> 16))
            site.put("s_lshl_b32", result, x, shift)
            site.put("s_ashr_i32", result, result, shift)
        else:
            site.put("s_bfe_i32", result, x, hex(FIELD[site.item.mnemonic]))


def difference(site: Site) -> None:
    """s_absdiff_i32; both set SCC where the result is not 0."""
    result, a, b = site.item.operands
    site.put("s_sub_i32", result, a, b)
    site.put("s_abs_i32", result, result)


def field(site: Site) -> None:
    """s_bfe_u64, s_bfe_i64 of a field that is known: up to the top, and down."""
    result, x, where = site.item.operands
    told = site.constant(where)
    width = (told or 0) >> 16 & 0x7F
    if told is None or (width < 32 and (not width or site.item.mnemonic not in site.lost)):
        site.out.append(site.item)
        return
    shift = "ashr_i64" if site.item.mnemonic.endswith("i64") else "lshr_b64"
    first = min(told & 63, 64)
    width = min(width, 64 - first)
    site.put("s_lshl_b64", result, x, str(64 - first - width))
    site.put(f"s_{shift}", result, result, str(64 - width))


def signed_field(site: Site) -> None:
    """s_bfe_i32, which sets SCC where the result is not 0."""
    result, x, where = site.item.operands
    told = site.constant(where)
    if told is not None:
        first, width = told & 31, min(told >> 16 & 0x7F, 32)
        if not width:
            site.put("s_and_b32", result, x, "0")
        elif first + width >= 32:
            site.put("s_ashr_i32", result, x, str(first))
        else:
            site.put("s_lshl_b32", result, x, str(32 - first - width))
            site.put("s_ashr_i32", result, result, str(32 - width))
        return
    moved, left = site.sgpr(), site.sgpr()
    site.put("s_ashr_i32", moved, x, where)
    site.put("s_bfe_u32", left, where, hex(7 << 16 | 16))
    site.put("s_min_u32", left, left, "32")
    site.put("s_sub_u32", left, "32", left)
    site.put("s_lshl_b32", moved, moved, left)
    site.put("s_ashr_i32", moved, moved, left)
    site.put("s_cmp_lt_u32", left, "32")
    site.put("s_cselect_b32", result, moved, "0")
    site.test_scc(result)


def high_product(site: Site) -> None:
    """s_mul_hi_u32 and _i32 (gfx9, to 21.2 the one ends there): of 16 bits by 16."""
    result, a, b = site.item.operands
    total, low, high, cross, other = (site.sgpr() for _ in range(5))
    a, b = site.in_sgpr(a), site.in_sgpr(b)
    with site.saving_scc():
        site.put("s_and_b32", low, a, "0xffff")
        site.put("s_lshr_b32", high, a, "16")
        site.put("s_and_b32", other, b, "0xffff")
        site.put("s_mul_i32", cross, low, other)
        site.put("s_lshr_b32", cross, cross, "16")
        site.put("s_mul_i32", other, high, other)
        site.put("s_add_u32", cross, cross, other)
        site.put("s_lshr_b32", other, b, "16")
        site.put("s_mul_i32", low, low, other)
        site.put("s_mul_i32", total, high, other)
        site.put("s_and_b32", high, cross, "0xffff")
        site.put("s_add_u32", low, low, high)
        for part in (cross, low):
            site.put("s_lshr_b32", part, part, "16")
            site.put("s_add_u32", total, total, part)
        for sign, of in ((a, b), (b, a)) if site.item.mnemonic.endswith("i32") else ():
            site.put("s_ashr_i32", low, sign, "31")
            site.put("s_and_b32", low, low, of)
            site.put("s_sub_u32", total, total, low)
    site.put("s_mov_b32", result, total)


def less(site: Site) -> None:
    """s_cmp_lt_u32."""
    a, b = site.item.operands
    site.put("s_cmp_gt_u32", b, a)


def borrow(site: Site) -> None:
    """v_subbrev_co_u32_e64: the same, with the sources in their places."""
    result, out, a, b, into = site.item.operands
    name = "v_subb_u32_e64" if site.gcn3 else "v_subb_co_u32_e64"
    site.put(name, result, out, b, a, into)


def compare(site: Site) -> None:
    """v_cmpx of 16 bits: of 32."""
    result, *sources = site.item.operands
    held = []
    for source in sources:
        held.append(site.vgpr())
        site.put("v_and_b32_e32", held[-1], "0xffff", site.in_vgpr(source))
    site.put(site.item.mnemonic.replace("u16", "u32"), result, *held)


def median(site: Site) -> None:
    """v_med3_f32: with a NaN, the least of all."""
    result, *sources = site.item.operands
    a, b, c = (site.in_vgpr(each) for each in sources)
    held, least, nan = site.vgpr(), site.vgpr(), site.sgpr_pair()[0]
    site.put("v_med3_f32", held, a, b, c)
    site.put("v_min3_f32", least, a, b, c)
    site.put("v_cmp_u_f32_e64", nan, a, b)
    site.select(held, held, least, nan)
    site.put("v_cmp_u_f32_e64", nan, c, c)
    site.select(result, held, least, nan)


def two_words(site: Site) -> None:
    """v_alignbyte_b32: two bits of the third source count."""
    result, high, low, by = site.item.operands
    told = site.constant(by)
    if told is None:
        held = site.vgpr()
        site.put("v_and_b32_e32", held, "3", site.in_vgpr(by))
    else:
        held = str(told & 3)
    site.put("v_alignbyte_b32", result, high, low, held)


def product(site: Site) -> None:
    """v_mul_i32_i24_e64: the short encoding, whose second source is a vector register."""
    result, a, b = site.item.operands
    if site.item.tail:
        site.out.append(site.item)
    else:
        site.put("v_mul_i32_i24_e32", result, a, site.in_vgpr(b))


def pair(site: Site) -> None:
    """s_pack, of the lower (l) or upper (h) halves of two words; it leaves SCC as it is."""
    result, *sources = site.item.operands
    first, second = tuple(site.item.mnemonic.split("_")[2])
    low, high = site.sgpr(), site.sgpr()
    a, b = (x if registers(x) or is_inline(x) else site.in_sgpr(x) for x in sources)
    with site.saving_scc():
        site.put(*(("s_and_b32", low, a, "0xffff") if first == "l" else
                   ("s_lshr_b32", low, a, "16")))  # fmt: skip
        site.put(*(("s_lshl_b32", high, b, "16") if second == "l" else
                   ("s_and_b32", high, b, "0xffff0000")))  # fmt: skip
        site.put("s_or_b32", low, low, high)
    site.put("s_mov_b32", result, low)


def nothing(site: Site) -> None:
    """s_setprio; s_setreg of MODE, which gem5 does not read."""
    if "hwreg" in str(site.item) and "MODE" not in str(site.item):
        site.out.append(site.item)
    else:
        site.put("s_nop", "0")


def short(site: Site) -> None:
    """The long encoding of v_add_u32, v_sub_u32, v_subrev_u32 (gfx9, to 22.0 it ends there)."""
    result, a, b = site.item.operands
    name = site.item.mnemonic.removeprefix("v_").removesuffix("_e64")
    if name == "add_u32":
        site.add(result, a, b)
    else:
        site.subtract(result, *((a, b) if name == "sub_u32" else (b, a)))


EXPRESSED = (
    "v_bfe_i32", "v_perm_b32", "v_or3_b32", "v_sad_u32", "v_sad_hi_u8", "v_dot4_i32_i8",
    "v_dot2_i32_i16", "v_dot8_i32_i4", "v_dot4c_i32_i8_e32", "v_dot2c_i32_i16_e32",
    "v_dot8c_i32_i4_e32", "v_xad_u32", "v_xnor_b32_e32", "v_xnor_b32_e64",
    "v_swap_b32", "v_add_i32", "v_sub_i32", "v_add_i16", "v_sub_i16", "v_mad_u32_u16",
    "v_mad_i32_i16", "v_cvt_pk_u16_u32", "v_cvt_pk_i16_i32",
    *(f"v_{verb}3_{kind}16" for verb in ("min", "max", "med") for kind in "ui"),
    *(name for name in replacements.TABLE if name.startswith("v_pk_")),
)  # fmt: skip
SATURATING = tuple(f"v_{each}_u32_e64" for each in ("add", "sub", "subrev"))
RULES: dict[str, Callable[[Site], None]] = {
    **dict.fromkeys(FIELD, extended),
    "s_absdiff_i32": difference,
    **dict.fromkeys(EXPRESSED, replacements.replace_if_plain),
    **dict.fromkeys(("s_bfe_u64", "s_bfe_i64"), field),
    **dict.fromkeys(("v_subbrev_co_u32_e64", "v_subbrev_u32_e64"), borrow),
    **dict.fromkeys((f"v_cmpx_{each}_u16_e64" for each in ("ge", "gt", "le")), compare),
    "s_bfe_i32": signed_field,
    "s_cmp_lt_u32": less,
    **dict.fromkeys(("s_mul_hi_u32", "s_mul_hi_i32"), high_product),
    "v_med3_f32": median,
    "v_alignbyte_b32": two_words,
    "v_mul_i32_i24_e64": product,
    **dict.fromkeys((f"s_pack_{each}_b32_b16" for each in ("ll", "lh", "hh")), pair),
    **dict.fromkeys(("s_setprio", "s_setreg_b32", "s_setreg_imm32_b32"), nothing),
}
