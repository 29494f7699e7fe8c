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
