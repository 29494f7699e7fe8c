"""Rules for division and for scaling by powers of two, each rounded once, through 64-bit floats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.isa.legalise import doubles
from simgen.isa.legalise.assembly import registers
from simgen.isa.legalise.table import rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site

FARTHEST = 300  # a float times 2^300 or more is infinite, or zero


@rule("v_div_scale_f32")
def scale(site: Site) -> None:
    """No scaling: v_div_fixup_f32 takes nothing from what follows."""
    result, mask, x, *_ = site.item.operands
    site.put("v_mov_b32_e32", result, site.plain(x))
    site.put("s_mov_b64", mask, "0")


@rule("v_div_fmas_f32")
def unscaled(site: Site) -> None:
    """The same here; VCC would say where to scale."""
    site.put("v_mad_f32" if site.gcn3 else "v_fma_f32", *site.item.operands)


@rule("v_div_fixup_f32")
def divide(site: Site) -> None:
    """The last instruction of a division, which has its operands: a / b, rounded to nearest even.

    q = a * (1/b) in 64 bits is wrong by less than 2^-52 of it. A quotient of two 24-bit numbers
    that is not a number of 25 bits itself lies farther than 2^-49 from each of those, so rounding q
    gives the right float. If it is one, cutting off two bits, to nearest, gives it exactly: also
    where floats are subnormal and it is a tie.
    """
    result, _, denominator, numerator = site.item.operands
    a, b = doubles.widened(site, numerator), doubles.widened(site, denominator)
    inverse, _, _ = site.vgpr_pair()
    site.put("v_rcp_f64_e32", inverse, b)
    quotient = doubles.put(site, "mul", a, inverse)
    low, high = registers(quotient)
    site.add_64((low, high), (low, high), "2")
    site.put("v_and_b32_e32", low, "-4", low)
    site.put("v_cvt_f32_f64_e32", result, quotient)


@rule("s_setreg_imm32_b32")
def set_mode(site: Site) -> None:
    """The treatment of subnormals around a division: MGPUSim never flushes them."""
    if site.item.operands[0].replace(" ", "") != "hwreg(HW_REG_MODE,4,2)":
        raise site.refusal(
            f"a write of {site.item.operands[0]} has no replacement", "leave the mode as it is"
        )
    site.put("s_nop", "0")


@rule("v_frexp_mant_f32* v_frexp_exp_i32_f32*")
def part_of_float(site: Site) -> None:
    """x = mantissa * 2^exponent, the mantissa from 1/2 to 1. Zeros, infinity and NaN are their own
    mantissas, and have the exponent 0. OpenCL C's quotients are made with these."""
    result, x = site.item.operands
    x = site.in_vgpr(x)
    size, large, power = site.vgpr(), site.vgpr(), site.vgpr()
    mask, _, _ = site.sgpr_pair()
    site.put("v_and_b32_e32", size, "0x7fffffff", x)
    site.put("v_mul_f32_e32", large, "0x5f800000", x)  # 2^64: no number of those is subnormal
    site.put("v_cmp_gt_u32_e64", mask, site.held(0x00800000), size)
    site.select(large, x, large, mask)
    if "_mant_" in site.item.mnemonic:
        site.put("v_and_b32_e32", large, "0x807fffff", large)
        site.put("v_or_b32_e32", large, "0x3f000000", large)
    else:
        site.put("v_bfe_u32", large, large, "23", "8")
        site.put("v_mov_b32_e32", power, "126")
        other = site.held(126 + 64)
        site.select(power, power, other, mask)
        site.subtract(large, large, power)
        x = site.held(0)
    # The others: size - 1, unsigned, is less than infinity's.
    site.add(size, size, site.held(0xFFFFFFFF))
    site.put("v_cmp_gt_u32_e64", mask, site.held(0x7F7FFFFF), size)
    site.select(result, x, large, mask)


@rule("v_ldexp_f32")
def scale_by_power(site: Site) -> None:
    """x * 2^n in 64 bits, where it is exact for any |n| <= 300; one rounding at the end."""
    result, x, n = site.item.operands
    wide = doubles.widened(site, x)
    power, low, high = site.vgpr_pair()
    site.put("v_max_i32_e32", high, hex(-FARTHEST & 0xFFFFFFFF), site.in_vgpr(n))
    site.put("v_min_i32_e32", high, hex(FARTHEST), high)
    site.add(high, high, site.held(1023))
    site.put("v_lshlrev_b32_e32", high, "20", high)
    site.put("v_mov_b32_e32", low, "0")
    site.put("v_cvt_f32_f64_e32", result, doubles.put(site, "mul", wide, power))
