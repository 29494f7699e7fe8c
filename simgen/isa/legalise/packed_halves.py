"""Rules for pairs of 16-bit floats in a register, and their fused multiply-adds.

MGPUSim has none of these. Each half is computed in 32 bits, as single ones are. There, a product is
exact, and a sum of it and a third number is rounded to odd: its last place tells that something was
left out, so that rounding to 16 bits is right (Boldo and Melquiond, "Emulation of a FMA and
correctly rounded sums: proved algorithms using rounding to odd", 2008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.isa.legalise import half, vector_float
from simgen.isa.legalise.assembly import Instruction, registers
from simgen.isa.legalise.expression import Word, eq, fadd, fmul, fsub, lt, sar, where
from simgen.isa.legalise.replacements import put
from simgen.isa.legalise.table import GFX942, rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site


@rule("v_pk_add_f16 v_pk_mul_f16 v_pk_max_f16 v_pk_min_f16 v_pk_fma_f16", GFX942)
def packed(site: Site) -> None:
    result, *sources = site.item.operands
    name = site.item.mnemonic.split("_")[2]
    halves = []
    for chosen, default, negated in (("op_sel", "0", "neg_lo"), ("op_sel_hi", "1", "neg_hi")):
        uppers = digits(site.item, chosen, default)
        signs = digits(site.item, negated, "0")
        widened = [_source(site, *each) for each in zip(sources, uppers, signs, strict=True)]
        halves.append(_computed(site, name, widened))
    low, high = halves
    site.put("v_lshlrev_b32_e32", high, "16", high)
    site.put("v_or_b32_e32", result, low, high)


@rule("v_fma_f16")
def fused(site: Site) -> None:
    result, *sources = site.item.operands
    widened = [half.as_float(site, source) for source in sources]
    site.put("v_mov_b32_e32", result, _computed(site, "fma", widened))


@rule("v_pack_b32_f16", GFX942)
def pack(site: Site) -> None:
    """Bits as they are, but for signs."""
    result, a, b = site.item.operands
    low, high = site.vgpr(), site.vgpr()
    for to, source in ((low, a), (high, b)):
        half.as_half(site, to, half.as_float(site, source))
    site.put("v_lshlrev_b32_e32", high, "16", high)
    site.put("v_or_b32_e32", result, low, high)


def digits(item: Instruction, modifier: str, default: str) -> list[bool]:
    """What op_sel:[0,1] and the like say of each source."""
    count = len(item.operands) - 1
    said = item.modifier(modifier)
    return [each == "1" for each in (said.strip("[]").split(",") if said else [default] * count)]


def half_of(site: Site, operand: str, upper: bool) -> str:
    """A half of a source, in a lower half. Constants have that one alone."""
    if upper and registers(operand):
        held = site.vgpr()
        site.put("v_lshrrev_b32_e32", held, "16", site.in_vgpr(operand))
        return held
    if upper:
        raise site.refusal(
            "the upper half of a constant has no replacement", "write the kernel without it"
        )
    return operand


def _source(site: Site, operand: str, upper: bool, negated: bool) -> str:
    """A half of a source as a 32-bit float."""
    operand = half_of(site, operand, upper)
    return half.as_float(site, f"-{operand}" if negated else operand)


def _computed(site: Site, name: str, sources: list[str]) -> str:
    """A register with the half that an operation makes of 32-bit floats; above it, zeros."""
    held, made = site.vgpr(), site.vgpr()
    if name == "fma":
        _sum_to_odd(site, held, *sources)
    elif name == "max":
        vector_float.larger(site, held, *sources)
    elif name == "min":
        a, b = sources
        vector_float.larger(site, held, f"-{a}", f"-{b}")
        site.put("v_xor_b32_e32", held, "0x80000000", held)
    else:
        site.put(f"v_{name}_f32_e32", held, *sources)
    half.as_half(site, made, held)
    return made


def _sum_to_odd(site: Site, total: str, a: str, b: str, c: str) -> None:
    """a b + c: what the sum leaves out is known (Knuth's TwoSum); where that is something and the
    last place even, the neighbour on its side is odd."""

    def of(a: Word, b: Word, c: Word) -> Word:
        product = fmul(a, b)
        total = fadd(product, c)
        part = fsub(total, product)
        error = fadd(fsub(product, fsub(total, part)), fsub(c, part))
        step = sar(error ^ total, 31) | 1  # 1 where it is farther from 0, else -1
        inexact = lt((error & 0x7FFFFFFF) - 1, 0x7F800000)  # neither 0 nor NaN
        return where(eq(total & 1, 0), where(inexact, step, 0), 0) + total

    put(site, total, of, a, b, c)
