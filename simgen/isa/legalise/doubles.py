"""Rules for 64-bit floats, and their use where 32 bits would round too early.

MGPUSim adds, multiplies, inverts and converts 64-bit floats as IEEE 754 asks for. A product of two
32-bit floats is exact in 64 bits.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from simgen.isa.legalise.assembly import integer, is_vgpr, registers, source_modifiers
from simgen.isa.legalise.table import rule

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


def _source(site: Site, operand: str) -> str:
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
    return put(site, "add", _source(site, operand), constant(site, -0.0 if negative else 0.0))


@rule("v_add_f64 v_mul_f64")
def arithmetic(site: Site) -> None:
    result, a, b = site.item.operands
    a, b = _source(site, a), _source(site, b)
    if not is_vgpr(a.strip("-|")) and not is_vgpr(b.strip("-|")):  # one scalar at most
        a = put(site, "mul", a, constant(site, 1.0))
    site.put(site.item.mnemonic, result, a, b)


@rule("v_rcp_f64_e32")
def inverted(site: Site) -> None:
    result, x = site.item.operands
    site.put("v_rcp_f64_e32", result, _source(site, x))


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
        x = put(site, "mul", _source(site, x), constant(site, 1.0))
    site.put("v_cvt_f32_f64_e32", result, x)
