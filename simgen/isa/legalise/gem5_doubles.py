"""64-bit floats that gem5 computes wrongly, in its own other instructions.

gem5's v_fma_f64, v_rcp_f64 (but for zeros), v_frexp_* and comparisons are right, and of
v_ldexp_f64 what is normal before; v_add_f64, v_mul_f64 and v_ldexp_f64 take subnormals for zeros.

A division is a sequence of v_div_scale_f64 (twice), v_rcp_f64, multiply-adds, v_div_fmas_f64 and
v_div_fixup_f64, which compilers write together. gem5's v_div_scale_f64 leaves 0 where it scales
nothing, which it does for numerators of 2^53 and more alone: their quotients are NaNs. The last
instruction has numerator and denominator as they were, so the quotient is made there, and the two
others scale nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.isa.legalise.assembly import integer, source_modifiers

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.isa.legalise.site import Site

    Pair = tuple[str, str, str]  # a pair of vector registers, its low one, its high one

MAGNITUDE = "0x7fffffff"
MIN_EXPONENT = -1022  # exponent of the least normal number, 2^-1022
DIGITS = 53  # bits of a number's significand, including the first one
# largest distance of exponents that matters: for numbers below 2, all from 54 on are alike
FARTHEST = 60
MOST_POWER = 0x1000  # more than between any two numbers: 2^12


def added(site: Site) -> None:
    """v_add_f64: a * 1 + b."""
    result, a, b = site.item.operands
    site.put("v_fma_f64", result, a, "1.0", b)


def multiplied(site: Site) -> None:
    """v_mul_f64: a * b - 0, where the zero leaves zeros of both signs as they are."""
    result, a, b = site.item.operands
    site.put("v_fma_f64", result, a, b, "neg(0)")


def scaled(site: Site) -> None:
    """v_ldexp_f64: the mantissa, which is normal, by both powers."""
    result, x, by = site.item.operands
    mantissa, power = site.vgpr_pair()[0], site.vgpr()
    number = integer(by)
    if number is not None and abs(number) < MOST_POWER:
        held = by
    else:
        held = site.vgpr()
        site.put("v_max_i32_e32", held, hex(-MOST_POWER & 0xFFFFFFFF), site.in_vgpr(by))
        site.put("v_min_i32_e32", held, hex(MOST_POWER), held)
    _frexp(site, "mant", mantissa, x)
    _frexp(site, "exp_i32", power, x)
    site.add(power, power, held)
    site.put("v_ldexp_f64", result, mantissa, power)


def unscaled(site: Site) -> None:
    """v_div_scale_f64 that scales nothing."""
    result, mask, x, *_ = site.item.operands
    site.put("v_max_f64", result, x, x)
    site.put("s_mov_b64", mask, "0")


def multiply_add(site: Site) -> None:
    """v_div_fmas_f64 where VCC is 0."""
    site.put("v_fma_f64", *site.item.operands)


def quotient(site: Site) -> None:
    """v_div_fixup_f64: n / d, rounded to nearest even, with the zeros, infinities and NaNs that it
    makes of special numbers itself.

    Of the mantissas, whose quotient q is next: y = 1 / d is rounded right, and n y, with errors of
    less than 2 units of the last place, is within one of them after a step q + y (n - q d), whose
    rest is exact; a second one is right then (Markstein, "Computation of elementary functions on
    the IBM RISC System/6000 processor", 1990, theorem 5).

    Where n / d = q 2^e is subnormal, |q| < P = 2^(-1022 - e), q is rounded to the last place of P,
    g = 2^-52 P, by adding P, and the rest n - q d, exact again, tells where q itself was rounded to
    the middle, from beyond it: it is more than d g / 2 then, and the right number is the next one.
    """
    result, _, d, n = site.item.operands
    upper, lower = site.vgpr_pair()[0], site.vgpr_pair()
    y, q, rest = site.vgpr_pair()[0], site.vgpr_pair(), site.vgpr_pair()
    power, place = site.vgpr(), site.vgpr()
    _frexp(site, "mant", upper, n)
    _frexp(site, "mant", lower[0], d)
    _frexp(site, "exp_i32", power, n)
    _frexp(site, "exp_i32", place, d)
    site.subtract(power, power, place)
    site.put("v_rcp_f64_e32", y, lower[0])
    site.put("v_mul_f64", q[0], upper, y)
    for _ in range(2):
        site.put("v_fma_f64", rest[0], f"-{lower[0]}", q[0], upper)
        site.put("v_fma_f64", q[0], rest[0], y, q[0])
    _rounded(site, (upper, lower, q, rest), power, place)
    site.put("v_ldexp_f64", q[0], q[0], power)
    site.put("v_div_fixup_f64", result, q[0], d, n)


def _rounded(site: Site, parts: tuple[str, Pair, Pair, Pair], power: str, place: str) -> None:
    """Round q, of q 2^power, to the place of the last digit that the result has."""
    upper, lower, q, rest = parts
    small, beyond = site.sgpr_pair()[0], site.sgpr_pair()[0]
    end, half, near = site.vgpr_pair(), site.vgpr_pair(), site.vgpr_pair()
    magnitude = site.in_sgpr(MAGNITUDE)
    site.subtract(place, site.held(MIN_EXPONENT & 0xFFFFFFFF), power)
    site.put("v_min_i32_e32", place, str(FARTHEST), place)
    site.put("v_ldexp_f64", end[0], "1.0", place)
    site.add(place, place, site.held(-DIGITS & 0xFFFFFFFF))
    site.put("v_ldexp_f64", half[0], "1.0", place)  # g / 2
    site.put("v_cmp_lt_f64_e64", small, f"|{q[0]}|", end[0])
    site.put("v_bfi_b32", end[2], magnitude, end[2], q[2])
    site.put("v_cndmask_b32_e64", end[2], "0", end[2], small)
    site.put("v_mov_b32_e32", end[1], "0")
    site.put("v_add_f64", near[0], q[0], end[0])
    site.put("v_add_f64", near[0], near[0], f"-{end[0]}")
    site.put("v_fma_f64", rest[0], f"-{lower[0]}", near[0], upper)
    site.put("v_mul_f64", end[0], lower[0], half[0])
    site.put("v_cmp_gt_f64_e64", beyond, f"|{rest[0]}|", f"|{end[0]}|")
    site.put("v_xor_b32_e32", rest[2], rest[2], lower[2])
    site.put("v_bfi_b32", half[2], magnitude, half[2], rest[2])
    for mask in (small, beyond):
        site.put("v_cndmask_b32_e64", half[2], "0", half[2], mask)
    site.put("v_mov_b32_e32", half[1], "0")
    site.put("v_fma_f64", near[0], half[0], "2.0", near[0])
    site.put("v_mov_b32_e32", q[1], near[1])
    site.put("v_bfi_b32", q[2], magnitude, near[2], q[2])


def _frexp(site: Site, part: str, result: str, x: str) -> None:
    """v_frexp_PART_f64; an exponent is that of the magnitude."""
    neg, absolute, body = source_modifiers(x)
    if part == "mant" and (neg or absolute):
        site.put("v_frexp_mant_f64_e64", result, x)
    else:
        site.put(f"v_frexp_{part}_f64_e32", result, body)


RULES: dict[str, Callable[[Site], None]] = {
    "v_add_f64": added,
    "v_mul_f64": multiplied,
    "v_ldexp_f64": scaled,
    "v_div_scale_f64": unscaled,
    "v_div_fmas_f64": multiply_add,
    "v_div_fixup_f64": quotient,
}
# What is replaced where others are, and not for what it does itself.
WITH = {"v_div_fmas_f64": "v_div_scale_f64", "v_div_fixup_f64": "v_div_scale_f64"}
