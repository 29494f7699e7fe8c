"""Rules for integer arithmetic on vectors, 16, 32 and 64 bits wide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.isa.legalise import doubles
from simgen.isa.legalise.assembly import integer, is_inline, registers
from simgen.isa.legalise.table import GFX803, GFX942, rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site

# 32 bits -------------------------------------------------------------------------------------


@rule("v_mul_hi_u32")
def multiply_high(site: Site) -> None:
    result, a, b = site.item.operands
    site.put("v_mul_hi_u32", result, site.unsigned_source(a), site.unsigned_source(b))


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


# 64 bits -------------------------------------------------------------------------------------


@rule("v_mov_b64_e32", GFX942)
def move_64(site: Site) -> None:
    """MGPUSim copies one half. A literal, of 32 bits, has zeros above them (LLVM's SIInstrInfo)."""
    result, source = site.item.operands
    low, high = registers(result)
    if 2**31 <= (integer(source) or 0) < 2**32:
        from_low, from_high = source, "0"
    elif is_inline(source) and integer(source) is None:  # a float of 64 bits
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
