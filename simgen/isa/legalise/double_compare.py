"""Rules for comparisons of 64-bit floats, of which MGPUSim has none, and for powers of two.

A number in order of size is a whole number: bits below zero turned round, others above them. For
a comparison, -0 becomes 0 first, by a sum. MGPUSim has the one comparison of 64 bits that it
takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.isa.legalise import compare, doubles
from simgen.isa.legalise.assembly import integer, registers
from simgen.isa.legalise.table import rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site

_OPPOSITE = {"nlt": "lt", "nle": "le", "neq": "eq", "nlg": "lg", "ngt": "gt", "nge": "ge", "u": "o"}
_MIN_EXPONENT, _MAX_EXPONENT = -1022, 1023  # exponents of normal numbers
_FARTHEST = 2100  # from the least number to infinity, and from the largest to 0


@rule("v_cmp_lt_f64* v_cmp_le_f64* v_cmp_eq_f64* v_cmp_lg_f64* v_cmp_gt_f64* v_cmp_ge_f64*")
@rule("v_cmp_o_f64*")
@rule(" ".join(f"v_cmp_{c}_f64*" for c in _OPPOSITE))
def compared(site: Site) -> None:
    result, a, b = site.item.operands
    site.put("s_mov_b64", result, _where(site, site.item.mnemonic.split("_")[2], a, b))


def _where(site: Site, condition: str, a: str, b: str) -> str:
    """A mask of the lanes where a comparison holds."""
    return _of_pairs(site, condition, doubles.plus_zero(site, a), doubles.plus_zero(site, b))


def _of_pairs(site: Site, condition: str, first: str, second: str) -> str:
    """The same of pairs of vector registers as they are: -0 is below 0."""
    mask, _, _ = site.sgpr_pair()
    other, _, _ = site.sgpr_pair()
    _numbers(site, mask, first, second)
    wanted = _OPPOSITE.get(condition, condition)
    with site.saving_scc():
        if wanted != "o":
            left, right = _key(site, first), _key(site, second)
            if wanted in ("gt", "le"):
                left, right = right, left
            site.put("v_cmp_lt_u64_e64", other, left, right)
            if wanted in ("eq", "lg"):
                apart, _, _ = site.sgpr_pair()
                site.put("v_cmp_lt_u64_e64", apart, right, left)
                site.put("s_or_b64", other, other, apart)
            kept = wanted in ("lt", "gt", "lg")
            site.put("s_and_b64" if kept else "s_andn2_b64", mask, mask, other)
        if condition in _OPPOSITE:
            site.put("s_andn2_b64", mask, "exec", mask)
    return mask


@rule("v_max_f64 v_min_f64")
def larger(site: Site) -> None:
    """The second one where the first is not as far, or no number, and the second is a number. Of
    two zeros, -0 is the lesser, as on hardware."""
    result, *sources = site.item.operands
    a, b = (doubles.plus_zero(site, each, negative=True) for each in sources)
    second = _of_pairs(site, "nge" if "max" in site.item.mnemonic else "nle", a, b)
    number = _of_pairs(site, "o", b, b)
    with site.saving_scc():
        site.put("s_and_b64", second, second, number)
    for to, one, other in zip(registers(result), registers(a), registers(b), strict=True):
        site.select(to, one, other, second)


def _numbers(site: Site, mask: str, first: str, second: str) -> None:
    """Where neither is NaN: as floats of 32 bits, which NaNs stay, both are equal to themselves."""
    narrow = site.vgpr()
    other, _, _ = site.sgpr_pair()
    for to, wide in ((mask, first), (other, second)):
        site.put("v_cvt_f32_f64_e32", narrow, wide)
        compare.ordered_in(site, "eq", to, narrow, narrow)
    with site.saving_scc():
        site.put("s_and_b64", mask, mask, other)


def _key(site: Site, wide: str) -> str:
    pair, low, high = site.vgpr_pair()
    from_low, from_high = site.halves(wide)
    sign = site.vgpr()
    site.put("v_ashrrev_i32_e32", sign, "31", from_high)
    site.put("v_xor_b32_e32", low, sign, from_low)
    site.put("v_or_b32_e32", sign, "0x80000000", sign)
    site.put("v_xor_b32_e32", high, sign, from_high)
    return pair


@rule("v_ldexp_f64")
def scaled(site: Site) -> None:
    """x * 2^n by products with powers of two. The last one has the largest part of n, so that a
    product before it that is rounded, being subnormal, leaves it nothing but 0."""
    result, x, n = site.item.operands
    value = doubles.plus_zero(site, x, negative=True)
    known = integer(n)
    if known is not None and _MIN_EXPONENT <= known <= _MAX_EXPONENT:
        power = doubles.constant(site, 2.0**known)
        site.put("v_mul_f64", result, value, power)
        return
    rest = site.vgpr()
    site.put("v_max_i32_e32", rest, hex(-_FARTHEST & 0xFFFFFFFF), site.in_vgpr(n))
    site.put("v_min_i32_e32", rest, hex(_FARTHEST), rest)
    parts = []
    for _ in range(3):
        part = site.vgpr()
        site.put("v_max_i32_e32", part, hex(_MIN_EXPONENT & 0xFFFFFFFF), rest)
        site.put("v_min_i32_e32", part, hex(_MAX_EXPONENT), part)
        site.subtract(rest, rest, part)
        parts.append(part)
    for at, part in enumerate(reversed(parts)):
        power, low, high = site.vgpr_pair()
        site.put("v_mov_b32_e32", low, "0")
        site.add(high, part, site.held(1023))
        site.put("v_lshlrev_b32_e32", high, "20", high)
        if at == len(parts) - 1:
            site.put("v_mul_f64", result, value, power)
        else:
            value = doubles.put(site, "mul", value, power)
