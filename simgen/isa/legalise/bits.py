"""Rules that count, find and pick bits and bytes of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.isa.legalise.assembly import registers
from simgen.isa.legalise.table import GFX803, GFX942, rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site


# Counting ------------------------------------------------------------------------------------


def count(site: Site, result: str, x: str) -> None:
    """The number of bits that are 1, in pairs, fours, eights, and all of them.

    Source: Warren, "Hacker's Delight", chapter 5.
    """
    sums, part = site.vgpr(), site.vgpr()
    site.put("v_lshrrev_b32_e32", part, "1", x)
    site.put("v_and_b32_e32", part, "0x55555555", part)
    site.subtract(sums, x, part)
    site.put("v_lshrrev_b32_e32", part, "2", sums)
    site.put("v_and_b32_e32", part, "0x33333333", part)
    site.put("v_and_b32_e32", sums, "0x33333333", sums)
    site.add(sums, sums, part)
    site.put("v_lshrrev_b32_e32", part, "4", sums)
    site.add(sums, sums, part)
    site.put("v_and_b32_e32", sums, "0xf0f0f0f", sums)
    for shift in ("8", "16"):
        site.put("v_lshrrev_b32_e32", part, shift, sums)
        site.add(sums, sums, part)
    site.put("v_and_b32_e32", result, "63", sums)


@rule("v_bcnt_u32_b32")
def count_bits(site: Site) -> None:
    result, x, more = site.item.operands
    held, more = site.vgpr(), site.in_vgpr(more)
    count(site, held, site.in_vgpr(x))
    site.add(result, held, more)


@rule("v_mbcnt_lo_u32_b32 v_mbcnt_hi_u32_b32")
def count_below(site: Site) -> None:
    """The bits of a mask that belong to lanes below the own one: of lanes 0 to 31, or the others.

    With n = lane - first, those are the lower n bits: (1 << n) - 1 for n in 0 to 31.
    """
    result, mask, more = site.item.operands
    upper = "_hi_" in site.item.mnemonic
    lane, below, limit = site.lane(), site.vgpr(), site.vgpr()
    beyond, _, _ = site.sgpr_pair()
    mask, more = site.in_vgpr(mask), site.in_vgpr(more)
    site.put("v_mov_b32_e32", limit, "1")
    site.put("v_lshlrev_b32_e32", below, lane, limit)  # by the lower five bits of the lane
    site.subtract(below, below, limit)
    site.put("v_mov_b32_e32", limit, "0" if upper else "-1")
    site.put(f"v_cmp_{'gt' if upper else 'le'}_u32_e64", beyond, "32", lane)
    site.select(below, below, limit, beyond)
    site.put("v_and_b32_e32", below, mask, below)
    count(site, below, below)
    site.add(result, below, more)


# Finding -------------------------------------------------------------------------------------


@rule("v_ffbl_b32*")
def first_from_below(site: Site) -> None:
    """The place of the lowest 1: the zeros below it are the bits of (x - 1) & ~x. -1 if none."""
    result, x = site.item.operands
    _lowest(site, result, site.in_vgpr(x))


@rule("v_ffbh_u32*", GFX803)
@rule("v_ffbh_u32_e64", GFX942)
def first_from_above(site: Site) -> None:
    result, x = site.item.operands
    turned = site.vgpr()
    site.put("v_bfrev_b32_e32", turned, site.in_vgpr(x))
    _lowest(site, result, turned)


def _lowest(site: Site, result: str, x: str) -> None:
    less, one, none = site.vgpr(), site.vgpr(), site.vgpr()
    mask, _, _ = site.sgpr_pair()
    site.put("v_mov_b32_e32", one, "1")
    site.subtract(less, x, one)
    site.put("v_not_b32_e32", one, x)
    site.put("v_and_b32_e32", less, less, one)
    site.put("v_cmp_eq_u32_e64", mask, "0", x)
    count(site, less, less)
    site.put("v_mov_b32_e32", none, "-1")
    site.select(result, less, none, mask)


# Picking -------------------------------------------------------------------------------------


@rule("v_perm_b32")
def permute_bytes(site: Site) -> None:
    """Each byte of the selector picks one of eight: 0 to 3 of the second source, 4 to 7 of the
    first. 8 to 11 are the signs of the four upper bytes of 16 bits, 12 is 0, the others are 255.
    """
    result, high, low, selector = site.item.operands
    known = site.constant(selector)
    total = site.vgpr()
    high, low = site.in_vgpr(high), site.in_vgpr(low)
    for place in range(4):
        part = total if place == 0 else site.vgpr()
        if known is None:
            _picked(site, part, high, low, site.in_vgpr(selector), place)
        else:
            _picked_known(site, part, high, low, known >> 8 * place & 255)
        if place:
            site.put("v_lshlrev_b32_e32", part, str(8 * place), part)
            site.put("v_or_b32_e32", total, total, part)
    site.put("v_mov_b32_e32", result, total)


def _picked_known(site: Site, result: str, high: str, low: str, pick: int) -> None:
    if pick >= 12:
        site.put("v_mov_b32_e32", result, "0" if pick == 12 else "0xff")
    elif pick >= 8:
        source, upper = (low, high)[pick >= 10], pick & 1
        site.put("v_lshlrev_b32_e32", result, "0" if upper else "16", source)
        site.put("v_ashrrev_i32_e32", result, "31", result)
        site.put("v_and_b32_e32", result, "0xff", result)
    else:
        site.put("v_lshrrev_b32_e32", result, str(8 * (pick & 3)), (low, high)[pick >= 4])
        site.put("v_and_b32_e32", result, "0xff", result)


def _picked(site: Site, result: str, high: str, low: str, selector: str, place: int) -> None:
    pick, value, shift = site.vgpr(), site.vgpr(), site.vgpr()
    mask, _, _ = site.sgpr_pair()
    site.put("v_lshrrev_b32_e32", pick, str(8 * place), selector)
    site.put("v_and_b32_e32", pick, "0xff", pick)
    site.put("v_cmp_lt_u32_e64", mask, "3", pick)
    site.select(value, low, high, mask)
    site.put("v_lshlrev_b32_e32", shift, "3", pick)  # its lower five bits count
    site.put("v_lshrrev_b32_e32", result, shift, value)
    # 8 and 9: of the second source, 10 and 11: of the first; bit 15 or 31.
    site.put("v_cmp_lt_u32_e64", mask, "9", pick)
    site.select(value, low, high, mask)
    site.put("v_not_b32_e32", shift, pick)
    site.put("v_and_b32_e32", shift, "1", shift)
    site.put("v_lshlrev_b32_e32", shift, "4", shift)
    site.put("v_lshlrev_b32_e32", value, shift, value)
    site.put("v_ashrrev_i32_e32", value, "31", value)
    site.put("v_cmp_lt_u32_e64", mask, "7", pick)
    site.select(result, result, value, mask)
    site.put("v_mov_b32_e32", value, "0")
    site.put("v_cmp_eq_u32_e64", mask, "12", pick)
    site.select(result, result, value, mask)
    site.put("v_mov_b32_e32", value, "-1")
    site.put("v_cmp_lt_u32_e64", mask, "12", pick)
    site.select(result, result, value, mask)
    site.put("v_and_b32_e32", result, "0xff", result)


@rule("v_alignbyte_b32")
def align_bytes(site: Site) -> None:
    """The lower half of {high, low} >> 8 n: high << (32 - 8 n) as (high << 1) << (31 - 8 n)."""
    result, high, low, n = site.item.operands
    shift, upper, lower = site.vgpr(), site.vgpr(), site.vgpr()
    site.put("v_and_b32_e32", shift, "3", site.in_vgpr(n))
    site.put("v_lshlrev_b32_e32", shift, "3", shift)
    site.put("v_lshrrev_b32_e32", lower, shift, site.in_vgpr(low))
    site.put("v_xor_b32_e32", shift, "31", shift)
    site.put("v_lshlrev_b32_e32", upper, "1", site.in_vgpr(high))
    site.put("v_lshlrev_b32_e32", upper, shift, upper)
    site.put("v_or_b32_e32", result, upper, lower)


@rule("v_sad_u32")
def absolute_difference(site: Site) -> None:
    result, a, b, more = site.item.operands
    a, b, more = site.in_vgpr(a), site.in_vgpr(b), site.in_vgpr(more)
    less, held = site.vgpr(), site.vgpr()
    site.put("v_min_u32_e32", less, a, b)
    site.put("v_max_u32_e32", held, a, b)
    site.subtract(held, held, less)
    site.add(result, held, more)


@rule("v_dot4c_i32_i8_e32", GFX942)
def dot_of_bytes(site: Site) -> None:
    result, *sources = site.item.operands
    a, b = (site.in_vgpr(source) for source in sources)
    parts = [site.vgpr(), site.vgpr()]
    total = site.vgpr()
    site.put("v_mov_b32_e32", total, result)
    for place in range(4):
        for part, source in zip(parts, (a, b), strict=True):
            site.put("v_lshlrev_b32_e32", part, str(24 - 8 * place), source)
            site.put("v_ashrrev_i32_e32", part, "24", part)
        site.put("v_mul_i32_i24_e32", parts[0], parts[0], parts[1])
        site.add(total, total, parts[0])
    site.put("v_mov_b32_e32", result, total)


@rule("v_pk_mul_lo_u16", GFX942)
def packed_product(site: Site) -> None:
    """Two products of 16 bits; op_sel and op_sel_hi say which half each source gives."""
    result, *sources = site.item.operands
    total, part = site.vgpr(), site.vgpr()
    for upper, name, default in ((False, "op_sel", "0"), (True, "op_sel_hi", "1")):
        text = site.item.modifier(name)
        picks = text.strip("[]").split(",") if text else [default, default]
        factors = []
        for source, pick in zip(sources, picks, strict=True):
            if not registers(source):
                raise site.refusal(
                    "a constant there has no replacement", "keep the constant in a register"
                )
            factor = site.vgpr()
            site.put(
                "v_lshrrev_b32_e32", factor, "16" if pick == "1" else "0", site.in_vgpr(source)
            )
            site.put("v_and_b32_e32", factor, "0xffff", factor)
            factors.append(factor)
        site.put("v_mul_u32_u24_e32", part if upper else total, *factors)
    site.put("v_and_b32_e32", total, "0xffff", total)
    site.put("v_lshlrev_b32_e32", part, "16", part)
    site.put("v_or_b32_e32", result, total, part)


# Saturating sums -----------------------------------------------------------------------------


def saturating_unsigned(site: Site) -> None:
    """The sum, or the largest number where that has a carry; the difference, or 0."""
    result, *carry, a, b = site.item.operands
    a, b = site.in_vgpr(a), site.in_vgpr(b)
    mask = carry[0] if carry else site.sgpr_pair()[0]
    total, adds = site.vgpr(), "add" in site.item.mnemonic
    if "subrev" in site.item.mnemonic:
        a, b = b, a
    (site.add if adds else site.subtract)(total, a, b)
    site.put("v_cmp_lt_u32_e64", mask, total if adds else a, a if adds else b)
    site.select(result, total, site.held(0xFFFFFFFF if adds else 0), mask)


@rule("v_add_i32 v_sub_i32", GFX942)
def saturating(site: Site) -> None:
    """Saturated sum: with clamp, the sum if it fits, else the limit on the side of the first
    source."""
    result, a, b = site.item.operands
    a, b, total = site.in_vgpr(a), site.in_vgpr(b), site.vgpr()
    adds = "add" in site.item.mnemonic
    (site.add if adds else site.subtract)(total, a, b)
    if "clamp" not in site.item.tail:
        site.put("v_mov_b32_e32", result, total)
        return
    changed, other, limit = site.vgpr(), site.vgpr(), site.vgpr()
    mask, _, _ = site.sgpr_pair()
    site.put("v_xor_b32_e32", changed, a, total)
    site.put("v_xor_b32_e32", other, b if adds else a, total if adds else b)
    site.put("v_and_b32_e32", changed, changed, other)  # negative: it does not fit
    site.put("v_ashrrev_i32_e32", limit, "31", a)
    site.put("v_xor_b32_e32", limit, "0x7fffffff", limit)
    site.put("v_cmp_gt_i32_e64", mask, "0", changed)
    site.select(result, total, limit, mask)


@rule("v_add_i16 v_sub_i16", GFX942)
def saturating_16(site: Site) -> None:
    result, a, b = site.item.operands
    signed, held = "_i16" in site.item.mnemonic, []
    for source in (b, a) if "subrev" in site.item.mnemonic else (a, b):
        held.append(site.vgpr())
        site.put("v_lshlrev_b32_e32", held[-1], "16", site.in_vgpr(source))
        shift = "v_ashrrev_i32_e32" if signed else "v_lshrrev_b32_e32"
        site.put(shift, held[-1], "16", held[-1])
    total = site.vgpr()
    (site.add if "add" in site.item.mnemonic else site.subtract)(total, *held)
    if "clamp" in site.item.tail:
        site.put("v_max_i32_e32", total, "0xffff8000" if signed else "0", total)
        site.put("v_min_i32_e32", total, "0x7fff" if signed else "0xffff", total)
    site.put("v_and_b32_e32", result, "0xffff", total)


# Instructions of which "clamp" means this.
SATURATE = {
    **{f"v_{name}_u32_e64": saturating_unsigned for name in ("add", "sub", "subrev")},
    **{f"v_{name}_u16_e64": saturating_16 for name in ("add", "sub", "subrev")},
    "v_add_i32": saturating,
    "v_sub_i32": saturating,
    "v_add_i16": saturating_16,
    "v_sub_i16": saturating_16,
}

# Classes of floats ---------------------------------------------------------------------------


@rule("v_cmp_class_f32*", GFX803)
def classify(site: Site) -> None:
    """The bit of the mask that the class of a float has; classes in the order of the numbers.

    0, 1: NaN, signalling or quiet; 2 to 9: -inf, normal, subnormal, -0, +0, subnormal, normal, inf.
    """
    result, x, classes = site.item.operands
    x, classes = site.in_vgpr(x), site.in_vgpr(classes)
    size, kind, step, limit, other = (site.vgpr() for _ in range(5))
    mask, _, _ = site.sgpr_pair()
    site.put("v_and_b32_e32", size, "0x7fffffff", x)
    site.put("v_mov_b32_e32", kind, "0")
    for least in ("1", "0x800000", "0x7f800000"):
        site.put("v_mov_b32_e32", limit, least)
        site.put("v_cmp_ge_u32_e64", mask, size, limit)
        site.put("v_cndmask_b32_e64", step, "0", "1", mask)
        site.add(kind, kind, step)
    site.put("v_mov_b32_e32", other, "5")
    site.subtract(other, other, kind)
    site.put("v_mov_b32_e32", step, "6")
    site.add(kind, kind, step)
    site.put("v_cmp_gt_i32_e64", mask, "0", x)
    site.select(kind, kind, other, mask)
    site.put("v_lshrrev_b32_e32", other, "22", size)
    site.put("v_and_b32_e32", other, "1", other)
    site.put("v_mov_b32_e32", limit, "0x7f800000")
    site.put("v_cmp_gt_u32_e64", mask, size, limit)
    site.select(kind, kind, other, mask)
    site.put("v_lshrrev_b32_e32", kind, kind, classes)
    site.put("v_and_b32_e32", kind, "1", kind)
    site.put("v_cmp_ne_u32_e64", result, "0", kind)
