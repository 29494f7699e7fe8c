"""Floats that gem5 computes wrongly, in its own other instructions: sines, halves, quotients.

Each is right by AMD's manuals in those that stand for it, but for v_div_fixup_f32, whose quotient
gem5 computes anew and rounds right: only what it makes of zeros and infinities is put right.
"""

from __future__ import annotations

import math
import re
import struct
from typing import TYPE_CHECKING

from simgen.isa.legalise.assembly import is_inline, registers, source_modifiers

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.isa.legalise.site import Site

TERMS = 6  # terms of the Taylor series: up to a quarter of a turn, the next one is below 2^-24
MAGNITUDE = "0x7fffffff"
LEAST_HALF = "0x38800000"  # 2^-14, the least normal half
BEYOND_HALVES = "0x47800000"  # 2^16
# Constants that rebias to a half's exponent, and half of its last place:
REBIASED = hex((0xFFF - (112 << 23)) & 0xFFFFFFFF)
ZERO_OR_INFINITE = "0x264"  # classes of v_cmp_class
# gem5 leaves a NaN that signals as it is.
_SIGNALS = re.compile(r"v_(trunc|ceil|floor|rndne|ldexp|cvt_f32_f16)")
FACTORS = {"mul:2": "2.0", "mul:4": "4.0", "div:2": "0.5"}


def sine(site: Site) -> None:
    """sin(2 pi x): x less its whole part, folded to a quarter of a turn; both are exact."""
    result, x = site.item.operands
    part, folded = _part(site, x), site.vgpr()
    site.put("v_sub_f32_e64", folded, "0.5", f"|{part}|")
    site.put("v_min_f32_e64", folded, folded, f"|{part}|")
    value = _series(site, folded)
    site.put("v_bfi_b32", result, site.in_sgpr(MAGNITUDE), value, part)


def cosine(site: Site) -> None:
    """cos(2 pi x) = sin(2 pi (1/4 - |x|)) for |x| <= 1/2."""
    result, x = site.item.operands
    part, turned = _part(site, x), site.vgpr()
    site.put("v_mov_b32_e32", turned, _bits(0.25))
    site.put("v_sub_f32_e64", turned, turned, f"|{part}|")
    site.put("v_mov_b32_e32", result, _series(site, turned))


def _part(site: Site, x: str) -> str:
    """x less the nearest whole number."""
    x, part = site.in_vgpr(x), site.vgpr()
    site.put("v_rndne_f32_e32", part, x)
    site.put("v_sub_f32_e32", part, x, part)
    return part


def _series(site: Site, turns: str) -> str:
    """sin(2 pi t) for |t| <= 1/4."""
    square, total = site.vgpr(), site.vgpr()
    factors = [
        (-1) ** k * (2 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(TERMS)
    ]
    site.put("v_mul_f32_e32", square, turns, turns)
    site.put("v_mov_b32_e32", total, _bits(factors[-1]))
    held = site.sgpr()
    for factor in reversed(factors[:-1]):
        site.put("s_mov_b32", held, _bits(factor))
        site.put("v_fma_f32", total, total, square, held)
    site.put("v_mul_f32_e32", total, total, turns)
    return total


def _bits(value: float) -> str:
    return hex(int.from_bytes(struct.pack("<f", value), "little"))


def half(site: Site) -> None:
    """v_cvt_f16_f32."""
    result, x = site.item.operands
    narrowed(site, result, _modified(site, site.in_vgpr(x)))


def narrowed(site: Site, result: str, x: str) -> None:
    """A float in a vector register as a half, to nearest even.

    Normal ones by adding half of the last place to the bits, where a carry may give infinity;
    subnormal ones by adding 0.5, whose last place is theirs. A NaN keeps what it carries.
    """
    bits, normal, small = site.vgpr(), site.vgpr(), site.vgpr()
    mask, _, _ = site.sgpr_pair()
    held = site.sgpr()
    site.put("v_and_b32_e32", bits, MAGNITUDE, x)
    site.put("v_add_f32_e32", small, "0.5", bits)
    if site.gcn3:
        site.subtract(small, small, "0.5")  # its bits, as a whole number
    else:
        site.put("v_subrev_u32_e32", small, "0.5", small)
    site.put("v_min_u32_e32", bits, BEYOND_HALVES, bits)
    site.put("v_bfe_u32", normal, bits, "13", "1")
    site.put("s_mov_b32", held, REBIASED)
    if site.gcn3:
        site.add(normal, bits, normal)
        site.add(normal, normal, held)
    else:
        site.put("v_add3_u32", normal, bits, normal, held)
    site.put("v_lshrrev_b32_e32", normal, "13", normal)
    site.put("s_mov_b32", held, LEAST_HALF)
    site.put("v_cmp_lt_u32_e64", mask, bits, held)
    site.select(normal, normal, small, mask)
    site.put("v_bfe_u32", small, x, "13", "10")
    site.put("v_or_b32_e32", small, "0x7e00", small)
    site.put("v_cmp_u_f32_e64", mask, x, x)
    site.select(normal, normal, small, mask)
    site.put("v_lshrrev_b32_e32", small, "16", x)
    site.put("v_and_b32_e32", small, "0x8000", small)
    site.put("v_or_b32_e32", result, normal, small)


def _modified(site: Site, x: str) -> str:
    """What output modifiers make of a value before it is rounded."""
    factor = next((FACTORS[word] for word in site.item.tail if word in FACTORS), "")
    clamped = "clamp" in site.item.tail
    if not factor and not clamped:
        return x
    held = site.vgpr()
    site.put("v_mul_f32_e32", held, factor or "1.0", x)
    if clamped:
        clamp(site, held)
    return held


def rounded_twice(site: Site) -> None:
    """v_mad, v_mac, v_madmk, v_madak of f32: the product, and the sum."""
    result, *sources = site.item.operands
    a, b, c = (*sources, result)[:3]
    product = site.vgpr()
    for name, to, first, second in (("mul", product, a, b), ("add", result, product, c)):
        first, second = (site.in_vgpr(each) if _is_literal(each) else each
                         for each in (first, second))  # fmt: skip
        site.put(f"v_{name}_f32_e64", to, first, second)


def legacy(site: Site) -> None:
    """v_mul_legacy_f32, v_mad_legacy_f32: 0 times anything is 0. What the sign of a factor is does
    not matter to that."""
    result, *sources = site.item.operands
    a, b = (site.in_vgpr(each) if _is_literal(each) else each for each in sources[:2])
    product, zero = site.vgpr(), site.sgpr_pair()[0]
    site.put("v_fma_f32", product, a, b, "neg(0)")  # subnormal, too
    for factor in (a, b):
        site.put("v_cmp_eq_f32_e64", zero, "0", source_modifiers(factor)[2])
        last = factor is b and len(sources) == 2
        site.put("v_cndmask_b32_e64", result if last else product, product, "0", zero)
    if len(sources) > 2:
        site.put("v_add_f32_e64", result, product, sources[2])


def _is_literal(operand: str) -> bool:
    body = source_modifiers(operand)[2]
    return not registers(body) and not is_inline(body)


def long_form(site: Site) -> None:
    """v_cmpx_neq_f32_e32 (gfx8), which leaves EXEC as it was."""
    result, a, b = site.item.operands
    a = site.in_vgpr(a) if _is_literal(a) else a
    site.put(f"{site.item.mnemonic.removesuffix('_e32')}_e64", result, a, b)


def multiply_add(site: Site) -> None:
    """v_div_fmas_f32 where VCC is 0, as gem5's v_div_scale_f32 always leaves it: what is to be
    scaled, its v_div_fixup_f32 computes without."""
    site.put("v_fma_f32", *site.item.operands)


def quotient(site: Site) -> None:
    """v_div_fixup_f32, and the quotient by a zero or an infinity as a product with its inverse."""
    result, estimate, denominator, numerator = site.item.operands
    below, above = site.in_vgpr(denominator), site.plain(numerator)
    special, mask = site.vgpr(), site.sgpr_pair()[0]
    site.put("v_cmp_class_f32_e64", mask, below, site.in_sgpr(ZERO_OR_INFINITE))
    site.put("v_rcp_f32_e32", special, below)
    site.put("v_fma_f32", special, site.vop3_source(above), special, "neg(0)")  # subnormal, too
    site.put("v_div_fixup_f32", result, estimate, denominator, numerator)
    site.select(result, result, special, mask)


def unequal(site: Site) -> None:
    """v_cmp_lg_f32_e64, which gem5 says of NaNs too."""
    result, a, b = site.item.operands
    apart(site, "v_cmp_lg", result, a, b)


def apart(site: Site, word: str, result: str, a: str, b: str) -> None:
    """v_cmp_lg or v_cmpx_lg of two floats: whether their difference is above or below 0."""
    held = site.vgpr()
    site.put("v_sub_f32_e64", held, a, b)
    site.put("v_and_b32_e32", held, MAGNITUDE, held)
    site.put(f"{word[:-2]}lt_f32_e64", result, "0", held)


def clamp(site: Site, result: str) -> None:
    """result = min(max(result, 0), 1), a NaN becomes 0; of one register or a pair.

    A maximum makes a quiet NaN of one that signals, and 0 of a quiet one.
    """
    ending = "f32_e32" if len(registers(result)) == 1 else "f64"
    if _SIGNALS.match(site.item.mnemonic):
        site.put(f"v_max_{ending}", result, "0", result)
    site.put(f"v_max_{ending}", result, "0", result)
    site.put(f"v_min_{ending}", result, "1.0", result)


def scale(site: Site, result: str, factor: str) -> None:
    """The output modifier mul:2, mul:4 or div:2."""
    ending = "f32_e32" if len(registers(result)) == 1 else "f64"
    site.put(f"v_mul_{ending}", result, FACTORS[factor], result)


RULES: dict[str, Callable[[Site], None]] = {
    **dict.fromkeys(("v_sin_f32_e32", "v_sin_f32_e64"), sine),
    **dict.fromkeys(("v_cos_f32_e32", "v_cos_f32_e64"), cosine),
    **dict.fromkeys(("v_cvt_f16_f32_e32", "v_cvt_f16_f32_e64"), half),
    "v_cmp_lg_f32_e64": unequal,
    "v_cmpx_neq_f32_e32": long_form,
    **dict.fromkeys(
        ("v_mad_f32", "v_mac_f32_e32", "v_mac_f32_e64", "v_madmk_f32", "v_madak_f32"),
        rounded_twice,
    ),
    **dict.fromkeys(("v_mul_legacy_f32_e32", "v_mul_legacy_f32_e64", "v_mad_legacy_f32"), legacy),
    "v_div_fmas_f32": multiply_add,
    "v_div_fixup_f32": quotient,
}
