"""Rules for 16-bit floats. The upper half of a result is zero, as on gfx8 and gfx9.

Sums, differences and products of 16-bit floats that are rounded to 32 bits and then to 16 are
rounded right: 24 >= 2 * 11 + 2 (Figueroa, "When is double rounding innocuous?", 1995).
"""

from __future__ import annotations

import re
import struct
from functools import partial
from typing import TYPE_CHECKING

from simgen.isa.legalise import vector_float
from simgen.isa.legalise.assembly import integer, is_constant, source_modifiers
from simgen.isa.legalise.expression import Word, fadd, fmul, ge, gt, lt, where
from simgen.isa.legalise.replacements import put
from simgen.isa.legalise.table import GFX942, RULES, rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.isa.legalise.site import Site

TWO_TO_112 = 0x77800000  # the difference of the exponents' biases
HALF = 0x3F000000
SIGN_16, INFINITE = 0x8000, 0x7C00  # bits of 16-bit floats


@rule("v_cvt_f32_f16*")
def widen(site: Site) -> None:
    result, x = site.item.operands
    site.put("v_mov_b32_e32", result, as_float(site, x))


def as_float(site: Site, operand: str) -> str:
    """A 16-bit float source as a 32-bit one, in a vector register."""
    return widened(site, operand, widen_bits)


def widened(site: Site, operand: str, convert: Callable[[Site, str, str], None]) -> str:
    """A 16-bit float source as a 32-bit one, in a vector register and with its modifiers; `convert`
    puts what widens one register into another."""
    neg, absolute, body = source_modifiers(operand)
    held = site.vgpr()
    value = integer(body)
    if value is not None:
        (number,) = struct.unpack("<e", (value & 0xFFFF).to_bytes(2, "little"))
        site.put("v_mov_b32_e32", held, hex(int.from_bytes(struct.pack("<f", number), "little")))
    elif is_constant(body):
        site.put("v_mov_b32_e32", held, body)
    else:
        convert(site, held, site.in_vgpr(body))
    if absolute:
        site.put("v_and_b32_e32", held, "0x7fffffff", held)
    if neg:
        site.put("v_xor_b32_e32", held, "0x80000000", held)
    return held


def widen_bits(site: Site, result: str, x: str, *, scaled: bool = True) -> None:
    """The bits in their new place, times 2^112: exact, and subnormals become normal, unless they
    are not `scaled`.

    Infinity and NaNs get the largest exponent.
    """

    def of(x: Word) -> Word:
        size = x & 0x7FFF
        moved = size << 13
        finite = fmul(TWO_TO_112, moved) if scaled else moved
        return (x & SIGN_16) << 16 | where(ge(size, INFINITE), moved | 0x7F800000, finite)

    put(site, result, of, x)


@rule("v_cvt_f16_f32*")
def narrow(site: Site) -> None:
    """Rounds to nearest even; MGPUSim's instruction truncates and has no subnormals."""
    result, x = site.item.operands
    as_half(site, result, site.in_vgpr(x))


def as_half(site: Site, result: str, x: str) -> None:
    """Normal results by adding half of the last place to the bits; a carry may give infinity.

    Subnormal ones by adding 0.5, whose last place is theirs: the hardware's addition rounds.
    """

    def of(x: Word) -> Word:
        size = x & 0x7FFFFFFF
        made = (size >> 13 & 1) + size + (0xFFF - (112 << 23)) >> 13
        made = where(lt(size, 0x38800000), fadd(HALF, size) - HALF, made)  # below 2^-14
        made = where(ge(size, 0x47800000), INFINITE, made)  # 65536 and more
        made = where(gt(size, 0x7F800000), size >> 13 & 0x3FF | 0x7E00, made)  # NaNs
        return made | x >> 16 & SIGN_16

    put(site, result, of, x)


@rule("v_add_f16* v_sub_f16* v_subrev_f16* v_mul_f16*")
def arithmetic(site: Site) -> None:
    result, a, b = site.item.operands
    name = site.item.mnemonic.split("_")[1]
    a, b, held = as_float(site, a), as_float(site, b), site.vgpr()
    site.put(f"v_{name}_f32_e32", held, a, b)
    as_half(site, result, held)


@rule("v_ceil_f16* v_floor_f16* v_trunc_f16* v_rndne_f16* v_rcp_f16* v_sqrt_f16* v_rsq_f16*")
@rule("v_div_fixup_f16")
def by_float(site: Site) -> None:
    """Computes in 32-bit floats: whole numbers are the same, and others are rounded once more."""
    result, *sources = site.item.operands
    held = site.vgpr()
    short = "" if "fixup" in site.item.mnemonic else "_e32"
    name = re.sub(r"_f16.*", f"_f32{short}", site.item.mnemonic)
    site.become(name, held, *(as_float(site, x) for x in sources))
    if name in RULES[site.arch]:
        RULES[site.arch][name](site)
    else:
        site.out.append(site.item)
    as_half(site, result, held)


@rule("v_cvt_f16_i16* v_cvt_f16_u16*")
def of_whole(site: Site) -> None:
    """Converts by a 32-bit float, which has all 16-bit numbers."""
    result, x = site.item.operands
    held, letter = site.vgpr(), "i" if "_i16" in site.item.mnemonic else "u"
    site.put(f"v_bfe_{letter}32", held, site.in_vgpr(x), "0", "16")
    site.put(f"v_cvt_f32_{letter}32_e32", held, held)
    as_half(site, result, held)


@rule("v_max_f16* v_min_f16*")
def extreme(site: Site) -> None:
    """A NaN loses against a number. What comes out was a 16-bit float before."""
    result, *sources = site.item.operands
    a, b = (as_float(site, source) for source in sources)
    held = site.vgpr()
    if "max" in site.item.mnemonic:
        vector_float.larger(site, held, a, b)
    else:
        vector_float.larger(site, held, f"-{a}", f"-{b}")
        site.put("v_xor_b32_e32", held, "0x80000000", held)
    as_half(site, result, held)


_ORDERED = ("lt", "eq", "le", "gt", "lg", "ge", "o")
_NOT = ("nlt", "neq", "nle", "ngt", "nlg", "nge", "u")


@rule(" ".join(f"v_cmp_{c}_f16*" for c in (*_ORDERED, *_NOT)))
def compare(site: Site) -> None:
    """Compares as 32-bit floats, which keep the order."""
    result, *sources = site.item.operands
    a, b = (as_float(site, source) for source in sources)
    name = re.sub(r"_f16_e..$", "_f32_e64", site.item.mnemonic)
    site.become(name, result, a, b)
    if name in RULES[site.arch]:
        RULES[site.arch][name](site)
    else:
        site.out.append(site.item)


@rule("v_cmp_class_f16*", GFX942)
def classify(site: Site) -> None:
    """A 32-bit float of the same class."""
    result, x, mask = site.item.operands
    held = widened(site, x, partial(widen_bits, scaled=False))
    site.put("v_cmp_class_f32_e64", result, held, mask)
