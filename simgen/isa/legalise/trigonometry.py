"""Rules for v_sin_f32 and v_cos_f32, whose argument counts turns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from simgen.isa.legalise import doubles
from simgen.isa.legalise.table import rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site

# terms of the Taylor series: up to a quarter of a turn, the next is below 2^-37 of the sum
TERMS = 8


@rule("v_sin_f32*")
def sine(site: Site) -> None:
    """sin(2 pi x): x less its whole part, folded to a quarter of a turn; both are exact."""
    result, x = site.item.operands
    part, size = _part(site, x)
    folded, sign = site.vgpr(), site.vgpr()
    site.put("v_sub_f32_e32", folded, "0.5", size)
    site.put("v_min_f32_e32", folded, folded, size)
    value = site.vgpr()
    site.put("v_cvt_f32_f64_e32", value, _series(site, doubles.widened(site, folded)))
    site.put("v_and_b32_e32", sign, "0x80000000", part)
    site.put("v_xor_b32_e32", result, sign, value)


@rule("v_cos_f32*")
def cosine(site: Site) -> None:
    """cos(2 pi x) = sin(2 pi (1/4 - |x|)) for |x| <= 1/2."""
    result, x = site.item.operands
    _, size = _part(site, x)
    quarter = doubles.constant(site, 0.25)
    turned = doubles.put(site, "add", quarter, f"-{doubles.widened(site, size)}")
    site.put("v_cvt_f32_f64_e32", result, _series(site, turned))


def _part(site: Site, x: str) -> tuple[str, str]:
    """x less the nearest whole number, and the magnitude of that."""
    x, part, size = site.in_vgpr(x), site.vgpr(), site.vgpr()
    site.put("v_rndne_f32_e32", part, x)
    site.put("v_sub_f32_e32", part, x, part)
    site.put("v_and_b32_e32", size, "0x7fffffff", part)
    return part, size


def _series(site: Site, turns: str) -> str:
    """sin(2 pi t) in 64 bits for |t| <= 1/4."""
    square = doubles.put(site, "mul", turns, turns)
    factors = [
        (-1) ** k * (2 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(TERMS)
    ]
    total = doubles.constant(site, factors[-1])
    for factor in reversed(factors[:-1]):
        site.put("v_mul_f64", total, total, square)
        site.put("v_add_f64", total, total, doubles.constant(site, factor))
    site.put("v_mul_f64", total, total, turns)
    return total
