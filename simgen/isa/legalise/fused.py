"""Rules for fused multiply-adds: MGPUSim rounds their products.

The compiler takes square roots, logarithms and exponentials by sequences in which that is all the
difference. There, they are computed in 64 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.isa.legalise import doubles
from simgen.isa.legalise.assembly import Instruction, registers, source_modifiers
from simgen.isa.legalise.table import GFX803, GFX942, rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site

_MULTIPLY = ("v_mul_f32_e32", "v_mul_f32_e64")
_FUSED = ("v_fma_f32", "v_mad_f32")


@rule("v_fma_f32")
def fused_multiply_add(site: Site) -> None:
    """Rounded once where the product meets its own rounded value or a number just like it.

    Those are the steps of square roots, logarithms and exponentials: rounded twice they are zero,
    and the root is wrong in its last place. All others are left to the tolerance of kernels.
    """
    if _cancels(site):
        result, a, b, c = site.item.operands
        _exactly(site, result, a, b, c)
    else:
        site.put("v_mad_f32" if site.gcn3 else "v_fma_f32", *site.item.operands)


@rule("v_fmac_f32_e64", GFX942)
def accumulate(site: Site) -> None:
    result, a, b = site.item.operands
    site.become("v_fma_f32", result, a, b, result)
    fused_multiply_add(site)


@rule("v_mac_f32_e64", GFX803)
def accumulate_unfused(site: Site) -> None:
    result, a, b = site.item.operands
    site.put("v_mad_f32", result, a, b, result)


def _cancels(site: Site) -> bool:
    """Whether the summand is about as large as the product, and of the other sign.

    Where a source's own products and sums may have become one instruction, these look alike: steps
    of the compiler's sequences are told by what is around them.
    """
    _, *sources = site.item.operands
    (neg_a, _, a), (neg_b, _, b), (neg_c, _, c) = (source_modifiers(s) for s in sources)
    if neg_c and neg_a == neg_b:  # a * b - round(a * b), of exp and log
        made = site.recent(c)
        return made is not None and _is_product(made, a, b, site.is_contracted)
    if neg_a != neg_b and not neg_c and a == b:  # x - root^2
        return not site.is_contracted or _is_refined(site.recent(a))
    if neg_a != neg_b and not neg_c and _beside(site, a, b):
        return True
    # The step of Newton's iteration that takes such a remainder.
    return any(made is not None and _is_remainder(site, made) for made in map(site.recent, (a, b)))


def _is_product(item: Instruction, a: str, b: str, surely: bool) -> bool:
    """`surely`: of both, or of one and a constant, which is in a register by now."""
    factors = set(item.operands[1:])
    if surely and all(map(registers, factors)) and factors != {a, b}:
        return False
    return item.mnemonic in _MULTIPLY and bool({a, b} & factors)


def _is_refined(item: Instruction | None) -> bool:
    """Whether it makes s + s e of s."""
    if item is None or item.mnemonic not in (*_FUSED, "v_fmac_f32_e32"):
        return False
    *factors, summand = item.operands[1:] if item.mnemonic in _FUSED else (
        *item.operands[1:], item.operands[0],
    )  # fmt: skip
    return summand in factors


def _beside(site: Site, a: str, b: str) -> bool:
    """Whether one is the float behind or before the other."""
    for one, other in ((a, b), (b, a)):
        made = site.recent(one)
        if made and made.mnemonic.startswith("v_add_u32") and other in made.operands[1:]:
            return bool({"-1", "1"} & set(made.operands))
    return False


def _is_remainder(site: Site, item: Instruction) -> bool:
    if item.mnemonic not in _FUSED:
        return False
    (neg_a, _, a), (neg_b, _, b), (neg_c, _, _) = map(source_modifiers, item.operands[1:])
    alike = a == b and neg_a != neg_b and not neg_c
    return alike and (not site.is_contracted or _is_refined(site.recent(a)))


def _exactly(site: Site, result: str, a: str, b: str, c: str) -> None:
    """a * b + c, rounded once.

    The product is exact in 64 bits; the sum there is rounded to odd (if it is not exact, to the
    neighbour whose last bit is 1), which a second rounding to no more than 51 bits cannot tell from
    the exact sum (Boldo & Melquiond, "Emulation of a FMA and Correctly Rounded Sums", 2008).
    """
    product = doubles.put(site, "mul", doubles.widened(site, a), doubles.widened(site, b))
    summand = doubles.widened(site, c)
    total = doubles.put(site, "add", product, summand)
    error = doubles.error_of_sum(site, product, summand, total)
    (low, high), (_, error_high) = registers(total), registers(error)
    step, even, limit = site.vgpr(), site.vgpr(), site.vgpr()
    inexact, _, _ = site.sgpr_pair()
    # +1 or -1 in the last place, away from zero or towards it:
    site.put("v_xor_b32_e32", step, error_high, high)
    site.put("v_ashrrev_i32_e32", step, "31", step)
    site.put("v_or_b32_e32", step, "1", step)
    # only where the last bit is 0,
    site.put("v_and_b32_e32", even, "1", low)
    site.subtract(even, even, site.held(1))
    site.put("v_and_b32_e32", step, step, even)
    # The error must be neither zero nor, with an infinite sum or a NaN, a NaN.
    site.put("v_and_b32_e32", even, "0x7fffffff", error_high)
    site.subtract(even, even, site.held(1))
    site.put("v_mov_b32_e32", limit, "0x7fefffff")
    site.put("v_cmp_lt_u32_e64", inexact, even, limit)
    site.select(step, "0", step, inexact)
    carry, _, _ = site.sgpr_pair()
    add, add_carry = ("v_add_u32_e64", "v_addc_u32_e64") if site.gcn3 else (
        "v_add_co_u32_e64", "v_addc_co_u32_e64",
    )  # fmt: skip
    site.put(add, low, carry, low, step)
    site.put("v_ashrrev_i32_e32", step, "31", step)
    site.put(add_carry, high, carry, high, step, carry)
    site.put("v_cvt_f32_f64_e32", result, total)
