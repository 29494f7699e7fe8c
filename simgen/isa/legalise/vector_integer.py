"""Rules for integer arithmetic on vectors, 16, 32 and 64 bits wide."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simgen.isa.legalise import doubles
from simgen.isa.legalise.assembly import integer, is_inline, registers
from simgen.isa.legalise.table import GFX803, GFX942, rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site

LOW_16 = "0xffff"
LOW_24 = "0xffffff"


# 32 bits -------------------------------------------------------------------------------------


@rule("v_mad_u32_u24")
def multiply_add_24(site: Site) -> None:
    """MGPUSim multiplies all 32 bits of the factors."""
    result, a, b, c = site.item.operands
    held = site.vgpr()
    site.binary("mul_u32_u24", held, a, b)
    site.add(result, held, c)


@rule("v_mul_hi_u32")
def multiply_high(site: Site) -> None:
    result, a, b = site.item.operands
    site.put("v_mul_hi_u32", result, site.unsigned_source(a), site.unsigned_source(b))


@rule("v_mul_hi_u32_u24*")
def multiply_high_24(site: Site) -> None:
    """What lies above bit 31 in the product of two factors of 24 bits."""
    result, *factors = site.item.operands
    held = [site.vgpr() for _ in factors]
    for to, factor in zip(held, factors):
        site.binary("and_b32", to, LOW_24, site.in_vgpr(factor))
    site.put("v_mul_hi_u32", result, *held)


@rule("v_mul_hi_i32")
def multiply_high_signed(site: Site) -> None:
    """The unsigned product, less the other factor for each negative one."""
    result, a, b = site.item.operands
    a, b, held, correction = site.in_vgpr(a), site.in_vgpr(b), site.vgpr(), site.vgpr()
    site.put("v_mul_hi_u32", held, a, b)
    for one, other in ((a, b), (b, a)):
        site.put("v_ashrrev_i32_e32", correction, "31", one)
        site.put("v_and_b32_e32", correction, correction, other)
        site.subtract(held, held, correction)
    site.put("v_mov_b32_e32", result, held)


@rule("v_mad_u64_u32 v_mad_i64_i32")
def multiply_add_64(site: Site) -> None:
    """MGPUSim writes the lower half only, and adds no more of the summand; of signed numbers it has
    none."""
    result, carry, a, b, c = site.item.operands
    a, b = site.vop3_source(a), site.vop3_source(b)
    low, high = site.vgpr(), site.vgpr()
    site.put("v_mul_lo_u32", low, a, b)
    a, b = site.in_vgpr(a), site.in_vgpr(b)
    site.put("v_mul_hi_u32", high, a, b)
    if "i64" in site.item.mnemonic:  # unsigned, a negative factor is 2^32 too large
        correction = site.vgpr()
        for one, other in ((a, b), (b, a)):
            site.put("v_ashrrev_i32_e32", correction, "31", one)
            site.put("v_and_b32_e32", correction, correction, other)
            site.subtract(high, high, correction)
    c_low, c_high = (site.in_vgpr(half) for half in site.halves(c))
    add, add_carry = ("v_add_u32_e64", "v_addc_u32_e64") if site.gcn3 else (
        "v_add_co_u32_e64", "v_addc_co_u32_e64",
    )  # fmt: skip
    site.put(add, low, carry, low, c_low)
    result_low, result_high = registers(result)
    site.put(add_carry, result_high, carry, high, c_high, carry)
    site.put("v_mov_b32_e32", result_low, low)


@rule("v_add_co_u32* v_addc_co_u32* v_subb_co_u32_e32 v_subbrev_co_u32*", GFX942)
@rule("v_add_u32_e64 v_sub_u32_e64 v_subrev_u32_e64 v_subbrev_u32* v_subb_u32_e32", GFX803)
def with_carry(site: Site) -> None:
    """Native, but for negative constants."""
    result, carry, a, b, *carry_in = site.item.operands
    a, b = site.unsigned_source(a), site.unsigned_source(b)
    site.put(site.item.mnemonic, result, carry, a, b, *carry_in)


@rule("v_subb_co_u32_e64", GFX942)
@rule("v_subb_u32_e64", GFX803)
def subtract_with_borrow(site: Site) -> None:
    """The reversed one: MGPUSim has no borrow to read in v_subb's own."""
    result, borrow, a, b, borrow_in = site.item.operands
    name = "v_subbrev_u32_e64" if site.gcn3 else "v_subbrev_co_u32_e64"
    a, b = site.vop3_source(site.unsigned_source(a)), site.vop3_source(site.unsigned_source(b))
    site.put(name, result, borrow, b, a, borrow_in)


@rule("v_addc_u32*", GFX803)
def add_with_carry(site: Site) -> None:
    """The short form loses a carry where a source is 0xffffffff; the long one does not."""
    result, carry, a, b, carry_in = site.item.operands
    a, b = site.vop3_source(site.unsigned_source(a)), site.vop3_source(site.unsigned_source(b))
    a, b = (site.in_vgpr(o) if o.startswith("s") else o for o in (a, b))
    site.put("v_addc_u32_e64", result, carry, a, b, carry_in)


@rule("v_add_u32_e64 v_sub_u32_e64 v_subrev_u32_e64", GFX942)
def add_long(site: Site) -> None:
    result, a, b = site.item.operands
    if "subrev" in site.item.mnemonic:
        a, b = b, a
    if "add" in site.item.mnemonic:
        site.add(result, a, b)
    else:
        site.subtract(result, a, b)


@rule("v_bfi_b32")
def insert_bits(site: Site) -> None:
    """mask ? x : y, bit by bit: y ^ (mask & (x ^ y))."""
    result, mask, x, y = site.item.operands
    held = site.vgpr()
    site.binary("xor_b32", held, x, y)
    site.binary("and_b32", held, mask, held)
    site.binary("xor_b32", result, y, held)


@rule("v_bfe_i32")
def extract_signed(site: Site) -> None:
    """MGPUSim forgets the sign of a field that ends beyond bit 31; on gfx803 of one at 31 too."""
    result, x, offset, width = site.item.operands
    first, count = integer(offset), integer(width)
    if first is None or count is None:
        raise site.refusal("a variable field", "shift twice instead")
    first, count = first & 31, count & 31
    if first + count < 32 + (not site.gcn3):
        site.put("v_bfe_i32", *site.item.operands)
    else:
        site.put("v_ashrrev_i32_e32", result, str(first), site.in_vgpr(x))


@rule("v_alignbit_b32")
def align_bits(site: Site) -> None:
    """The lower half of {high, low} >> shift."""
    result, high, low, shift = site.item.operands
    upper, lower, count = site.vgpr(), site.vgpr(), integer(shift)
    if count is not None:
        count &= 31
        site.put("v_lshrrev_b32_e32", lower, str(count), site.in_vgpr(low))
        if count == 0:
            site.put("v_mov_b32_e32", result, lower)
            return
        site.put("v_lshlrev_b32_e32", upper, str(32 - count), site.in_vgpr(high))
    else:  # high << (32 - n) as (high << 1) << (31 - n)
        left = site.vgpr()
        site.binary("and_b32", left, "31", shift)
        site.put("v_lshrrev_b32_e32", lower, left, site.in_vgpr(low))
        site.put("v_xor_b32_e32", left, "31", left)
        site.put("v_lshlrev_b32_e32", upper, "1", site.in_vgpr(high))
        site.put("v_lshlrev_b32_e32", upper, left, upper)
    site.put("v_or_b32_e32", result, upper, lower)


@rule("v_and_or_b32", GFX942)
def and_or(site: Site) -> None:
    _two_steps(site, "and_b32", "or_b32")


@rule("v_or3_b32", GFX942)
def or_3(site: Site) -> None:
    _two_steps(site, "or_b32", "or_b32")


@rule("v_xad_u32", GFX942)
def xor_add(site: Site) -> None:
    _two_steps(site, "xor_b32", "add_u32")


def _two_steps(site: Site, first: str, second: str) -> None:
    result, a, b, c = site.item.operands
    held = site.vgpr()
    site.binary(first, held, a, b)
    site.binary(second, result, c, held)


@rule("v_xnor_b32*", GFX942)
def exclusive_nor(site: Site) -> None:
    result, a, b = site.item.operands
    site.binary("xor_b32", result, a, b)
    site.put("v_not_b32_e32", result, result)


@rule("v_med3_u32")
def median(site: Site) -> None:
    """max(min(a, b), min(max(a, b), c)): MGPUSim is wrong where two of them are equal."""
    result, a, b, c = site.item.operands
    less, more = site.vgpr(), site.vgpr()
    a, b = site.in_vgpr(a), site.in_vgpr(b)
    site.put("v_min_u32_e32", less, a, b)
    site.put("v_max_u32_e32", more, a, b)
    site.binary("min_u32", more, c, more)
    site.put("v_max_u32_e32", result, less, more)


@rule("v_swap_b32", GFX942)
def swap(site: Site) -> None:
    a, b = site.item.operands
    held = site.vgpr()
    for to, source in ((held, a), (a, b), (b, held)):
        site.put("v_mov_b32_e32", to, source)


# 64 bits -------------------------------------------------------------------------------------


@rule("v_mov_b64_e32", GFX942)
def move_64(site: Site) -> None:
    """MGPUSim copies one half."""
    result, source = site.item.operands
    low, high = registers(result)
    if is_inline(source) and integer(source) is None:  # a float of 64 bits
        from_low, from_high = doubles.words(source)
    else:
        from_low, from_high = site.halves(source)
    site.put("v_mov_b32_e32", low, from_low)
    site.put("v_mov_b32_e32", high, from_high)


@rule("v_lshlrev_b64 v_ashrrev_i64")
def shift_64(site: Site) -> None:
    """MGPUSim reads 64 bits of the shift count and does not cut it to six."""
    result, shift, x = site.item.operands
    site.put(site.item.mnemonic, result, _count_64(site, shift), x)


@rule("v_lshrrev_b64")
def shift_right_64(site: Site) -> None:
    """The arithmetic shift, with the bits cleared that it filled with the sign.

    Those are the bits of (0x8000000000000000 >> n, arithmetically) << 1.
    """
    result, shift, x = site.item.operands
    low, high = registers(result)
    filled, filled_low, filled_high = site.vgpr_pair()
    count = _count_64(site, shift)
    site.put("v_mov_b32_e32", filled_low, "0")
    site.put("v_mov_b32_e32", filled_high, "0x80000000")
    site.put("v_ashrrev_i64", filled, count, filled)
    site.put("v_lshlrev_b64", filled, "1", filled)
    site.put("v_ashrrev_i64", result, count, x)
    for half, mask in ((low, filled_low), (high, filled_high)):
        site.put("v_not_b32_e32", mask, mask)
        site.put("v_and_b32_e32", half, half, mask)


def _count_64(site: Site, shift: str) -> str:
    value = integer(shift)
    if value is not None:
        return str(value & 63)
    _, low, high = site.vgpr_pair()
    site.binary("and_b32", low, "63", shift)
    site.put("v_mov_b32_e32", high, "0")  # MGPUSim reads it too
    return low


# 16 bits: the upper half of the result is zero on gfx8 and gfx9 ------------------------------


def low_16(site: Site, operand: str) -> str:
    """The source without its upper half."""
    held = site.vgpr()
    site.binary("and_b32", held, LOW_16, site.in_vgpr(operand))
    return held


def signed_16(site: Site, operand: str) -> str:
    """The lower half of the source with its sign in all of the upper one."""
    held = site.vgpr()
    site.put("v_lshlrev_b32_e32", held, "16", site.in_vgpr(operand))
    site.put("v_ashrrev_i32_e32", held, "16", held)
    return held


@rule("v_add_u16_e64 v_sub_u16* v_subrev_u16* v_mul_lo_u16*", GFX942)
@rule("v_add_u16* v_sub_u16* v_subrev_u16* v_mul_lo_u16*", GFX803)
def arithmetic_16(site: Site) -> None:
    result, a, b = site.item.operands
    if site.item.mnemonic.startswith("v_subrev"):
        a, b = b, a
    a, b, held = site.in_vgpr(a), site.in_vgpr(b), site.vgpr()
    if "add" in site.item.mnemonic:
        site.add(held, a, b)
    elif "sub" in site.item.mnemonic:
        site.subtract(held, a, b)
    else:  # the lower 16 bits of a product depend on those of its factors only
        site.put("v_mul_u32_u24_e32", held, a, b)
    site.put("v_and_b32_e32", result, LOW_16, held)


@rule("v_mad_u16 v_mad_legacy_u16 v_mad_i16")
def multiply_add_16(site: Site) -> None:
    result, a, b, c = site.item.operands
    held = site.vgpr()
    site.binary("mul_u32_u24", held, a, b)
    site.add(held, held, site.in_vgpr(c))
    site.put("v_and_b32_e32", result, LOW_16, held)


@rule("v_lshlrev_b16_e64 v_lshrrev_b16* v_ashrrev_i16*")
def shift_16(site: Site) -> None:
    result, shift, x = site.item.operands
    count = site.vgpr()
    site.binary("and_b32", count, "15", site.in_vgpr(shift))
    if "lshl" in site.item.mnemonic:
        site.put("v_lshlrev_b16_e32", result, count, site.in_vgpr(x))
    elif "lshr" in site.item.mnemonic:
        site.put("v_lshrrev_b32_e32", result, count, low_16(site, x))
    else:
        held = signed_16(site, x)
        site.put("v_ashrrev_i32_e32", held, count, held)
        site.put("v_and_b32_e32", result, LOW_16, held)


@rule("v_min_u16* v_max_u16* v_min_i16* v_max_i16*")
def extreme_16(site: Site) -> None:
    result, a, b = site.item.operands
    m = re.match(r"v_(min|max)_([ui])16", site.item.mnemonic)
    assert m
    extend = low_16 if m[2] == "u" else signed_16
    held = extend(site, a)
    site.put(f"v_{m[1]}_{m[2]}32_e32", held, held, extend(site, b))
    site.put("v_and_b32_e32", result, LOW_16, held)
