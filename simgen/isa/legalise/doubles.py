"""Rules for 64-bit floats, and their use where 32 bits would round too early.

MGPUSim adds, multiplies, inverts and converts 64-bit floats as IEEE 754 asks for. A product of two
32-bit floats is exact in 64 bits.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from simgen.isa.legalise.assembly import integer, is_vgpr, registers, source_modifiers
from simgen.isa.legalise.table import GFX942, rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site

    Pair = tuple[str, str, str]  # a pair of vector registers, its low one, its high one

ONE_OVER_TWO_PI = 0x3FC45F306DC9C882  # what "0.15915494" stands for in 64 bits


def words(constant: str) -> tuple[str, str]:
    """The low and the high one of a 64-bit float that is written in decimals."""
    bits = int.from_bytes(struct.pack("<d", float(constant)), "little")
    bits = ONE_OVER_TWO_PI if constant == "0.15915494" else bits
    return hex(bits & 0xFFFFFFFF), hex(bits >> 32)


def constant(site: Site, value: str | float) -> str:
    """A pair of vector registers with a 64-bit float."""
    return _moved(site, *words(str(value)))


def _bits(site: Site, bits: int) -> str:
    return _moved(site, hex(bits & 0xFFFFFFFF), hex(bits >> 32))


def _moved(site: Site, *of_halves: str) -> str:
    pair, *halves = site.vgpr_pair()
    for register, word in zip(halves, of_halves, strict=True):
        site.put("v_mov_b32_e32", register, word)
    return pair


def widened(site: Site, operand: str) -> str:
    """A 32-bit float source as a 64-bit one."""
    pair, _, _ = site.vgpr_pair()
    site.put("v_cvt_f64_f32_e32", pair, site.in_vgpr(operand))
    return pair


def put(site: Site, name: str, a: str, b: str) -> str:
    """A new pair with the result of v_NAME_f64."""
    pair, _, _ = site.vgpr_pair()
    site.put(f"v_{name}_f64", pair, a, b)
    return pair


def error_of_sum(site: Site, a: str, b: str, total: str) -> str:
    """What rounding took from a + b = total, exactly (Knuth's TwoSum)."""
    b_part = put(site, "add", total, f"-{a}")
    a_part = put(site, "add", total, f"-{b_part}")
    a_error, b_error = put(site, "add", a, f"-{a_part}"), put(site, "add", b, f"-{b_part}")
    return put(site, "add", a_error, b_error)


def source(site: Site, operand: str) -> str:
    """A 64-bit float source that MGPUSim reads right: constants go to registers."""
    neg, absolute, body = source_modifiers(operand)
    if registers(body):
        return operand
    value = integer(body)
    if value is not None and not -16 <= value <= 64:
        body = _bits(site, value << 32 & 0xFFFFFFFF00000000)  # a literal is the upper half
    elif value is not None:
        body = _bits(site, value & 0xFFFFFFFFFFFFFFFF)
    else:
        body = constant(site, body)
    body = f"|{body}|" if absolute else body
    return f"-{body}" if neg else body


def plus_zero(site: Site, operand: str, *, negative: bool = False) -> str:
    """A source in a pair of vector registers, without modifiers: -0 as 0, or `negative`, as it
    is."""
    return put(site, "add", source(site, operand), constant(site, -0.0 if negative else 0.0))


@rule("v_add_f64 v_mul_f64")
def arithmetic(site: Site) -> None:
    result, a, b = site.item.operands
    a, b = source(site, a), source(site, b)
    if not is_vgpr(a.strip("-|")) and not is_vgpr(b.strip("-|")):  # one scalar at most
        a = put(site, "mul", a, constant(site, 1.0))
    site.put(site.item.mnemonic, result, a, b)


@rule("v_fma_f64")
@rule("v_fmac_f64_e32 v_fmac_f64_e64", GFX942)
def fused(site: Site) -> None:
    """A product and a sum, where a factor is a power of two, so that the product is exact; doubles
    become 64-bit integers so."""
    result, *sources = site.item.operands
    a, b, c = sources if len(sources) == 3 else (*sources, result)
    if not any(_is_power_of_two(site, each) for each in (a, b)):
        raise site.refusal(
            "rounds the product, and quotients, roots and functions of doubles become it",
            "compute those in float32, or run it on another target",
        )
    product, _, _ = site.vgpr_pair()
    site.become("v_mul_f64", product, a, b)
    arithmetic(site)
    site.become("v_add_f64", result, product, c)
    arithmetic(site)


def _is_power_of_two(site: Site, operand: str) -> bool:
    """Whether a constant is one, or the contrary number."""
    found = registers(operand)
    low, high = map(site.constant, found) if len(found) == 2 else (0, integer(operand))
    exact = low == 0 and high is not None and not high & 0xFFFFF
    return exact and 1023 <= (high or 0) >> 20 & 0x7FF < 0x7FF


@rule("v_rcp_f64_e32")
def inverted(site: Site) -> None:
    result, x = site.item.operands
    site.put("v_rcp_f64_e32", result, source(site, x))


@rule("v_cvt_f64_f32* v_cvt_f64_i32*")
def widen(site: Site) -> None:
    result, x = site.item.operands
    site.put(site.item.mnemonic.replace("_e64", "_e32"), result, site.in_vgpr(x))


@rule("v_cvt_f64_u32*")
def widen_unsigned(site: Site) -> None:
    """The last places of 2^52 and more, less that."""
    result, x = site.item.operands
    pair, low, high = site.vgpr_pair()
    site.put("v_mov_b32_e32", low, site.plain(x))
    site.put("v_mov_b32_e32", high, "0x43300000")
    site.put("v_add_f64", result, pair, constant(site, -(2.0**52)))


@rule("v_cvt_f32_f64*")
def narrow(site: Site) -> None:
    """Without modifiers or constants as it is, else through a product with one."""
    result, x = site.item.operands
    if not registers(x):
        x = put(site, "mul", source(site, x), constant(site, 1.0))
    site.put("v_cvt_f32_f64_e32", result, x)


@rule("v_rndne_f64* v_trunc_f64* v_floor_f64* v_ceil_f64*")
def whole(site: Site) -> None:
    """The magnitude and 2^52, whose last place is that of whole numbers, less 2^52. That is the
    nearest; where it lies beyond x, the one before it is wanted."""
    result, x = site.item.operands
    kind = site.item.mnemonic.split("_")[1]
    low, high = site.halves(plus_zero(site, x, negative=True))
    size, of_low, of_high = site.vgpr_pair()
    site.put("v_mov_b32_e32", of_low, low)
    site.put("v_and_b32_e32", of_high, "0x7fffffff", high)
    most = constant(site, 2.0**52)
    made = put(site, "add", put(site, "add", size, most), f"-{most}")
    beyond, small = site.sgpr_pair()[0], site.sgpr_pair()[0]
    if kind != "rndne":
        site.put("v_cmp_lt_u64_e64", beyond, size, made)
        made = _stepped(site, made, beyond, "0xbff00000")
    site.put("v_cmp_lt_u64_e64", small, size, most)
    for to, kept in zip(site.halves(made), (of_low, of_high), strict=True):
        site.select(to, kept, to, small)
    sign = site.vgpr()
    site.put("v_and_b32_e32", sign, "0x80000000", high)
    if kind in ("floor", "ceil"):
        site.put("v_cmp_lt_u64_e64", beyond, made, size)
        side = "v_cmp_gt_i32_e64" if kind == "floor" else "v_cmp_le_i32_e64"
        site.put(side, small, "0", high)
        with site.saving_scc():
            site.put("s_and_b64", beyond, beyond, small)
    site.put("v_or_b32_e32", site.halves(made)[1], sign, site.halves(made)[1])
    if kind in ("floor", "ceil"):
        made = _stepped(site, made, beyond, "0xbff00000" if kind == "floor" else "0x3ff00000")
    for to, word in zip(registers(result), site.halves(made), strict=True):
        site.put("v_mov_b32_e32", to, word)


def _stepped(site: Site, value: str, where: str, step: str) -> str:
    """A 64-bit float, and in the lanes of a mask a step more; -0 stays."""
    pair, low, high = site.vgpr_pair()
    site.put("v_mov_b32_e32", low, "0")
    site.select(high, site.held(0x80000000), site.held(int(step, 16)), where)
    return put(site, "add", value, pair)


@rule("v_cvt_i32_f64* v_cvt_u32_f64*")
def to_whole(site: Site) -> None:
    """Towards zero, and to the ends of the type: magnitudes that are not negative have the order of
    their bits. A sum with 2^52 has the nearest whole number in its lower half."""
    result, x = site.item.operands
    signed = "i32" in site.item.mnemonic
    x = site.plain(source(site, x))
    low, high = registers(x)
    size, of_low, of_high = site.vgpr_pair()
    site.put("v_mov_b32_e32", of_low, low)
    site.put("v_and_b32_e32", of_high, "0x7fffffff", site.in_vgpr(high))
    made = put(site, "add", size, constant(site, 2.0**52))
    back = put(site, "add", made, constant(site, -(2.0**52)))
    found, less = registers(made)[0], site.vgpr()
    mask, negative = site.sgpr_pair()[0], site.sgpr_pair()[0]
    site.put("v_cmp_lt_u64_e64", mask, size, back)
    site.put("v_cndmask_b32_e64", less, "0", "1", mask)
    site.subtract(found, found, less)
    site.put("v_cmp_gt_i32_e64", negative, "0", site.in_vgpr(high))
    zero, most = site.held(0), site.held(0x7FFFFFFF if signed else 0xFFFFFFFF)
    end = most
    if signed:
        opposite = site.vgpr()
        site.subtract(opposite, zero, found)
        end = site.vgpr()
        site.select(end, most, site.held(0x80000000), negative)
    else:
        opposite, end = zero, site.vgpr()
        site.select(end, most, zero, negative)
    site.select(found, found, opposite, negative)
    site.put("v_cmp_lt_u64_e64", mask, size, constant(site, 2.0 ** (31 if signed else 32)))
    site.select(found, end, found, mask)
    site.put("v_cmp_lt_u64_e64", mask, constant(site, math.inf), size)
    site.select(result, found, zero, mask)
