"""Rules for scalar instructions: values in s registers, and SCC."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from simgen.isa.legalise.assembly import integer, registers
from simgen.isa.legalise.table import ARCHS, GFX803, GFX942, rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site


def hex_32(value: int) -> str:
    return f"{value & 0xFFFFFFFF:#x}"


def _short(operand: str) -> int:
    """A 16-bit constant as the signed number that it is."""
    value = integer(operand)
    assert value is not None
    return (value & 0xFFFF) - (0x10000 if value & 0x8000 else 0)


# Constants -----------------------------------------------------------------------------------


@rule("s_movk_i32", GFX942)
def move_short(site: Site) -> None:
    """MGPUSim does not extend the sign."""
    result, value = site.item.operands
    if _short(value) >= 0:
        site.put("s_movk_i32", result, value)
    else:
        site.put("s_mov_b32", result, hex_32(_short(value)))


@rule("s_addk_i32")
def add_short(site: Site) -> None:
    result, value = site.item.operands
    _no_overflow_on_gcn3(site)
    site.put("s_add_i32", result, result, hex_32(_short(value)))


@rule("s_cmovk_i32")
def move_short_if(site: Site) -> None:
    result, value = site.item.operands
    site.put("s_cselect_b32", result, hex_32(_short(value)), result)


# Comparisons ---------------------------------------------------------------------------------

_CONDITIONS = ("eq", "lg", "gt", "ge", "lt", "le")


@rule(" ".join(f"s_cmpk_{c}_u32" for c in _CONDITIONS))
@rule(" ".join(f"s_cmpk_{c}_i32" for c in _CONDITIONS[2:]))
@rule("s_cmpk_eq_i32 s_cmpk_lg_i32", GFX803)
def compare_short(site: Site) -> None:
    a, value = site.item.operands
    number = integer(value)
    assert number is not None
    signed = site.item.mnemonic.endswith("i32")
    b = hex_32(_short(value)) if signed else hex_32(number & 0xFFFF)
    compare(site, site.item.mnemonic.replace("cmpk", "cmp"), a, b)


@rule("s_cmp_lt_u32 s_cmp_le_u32 s_cmp_gt_u32 s_cmp_ge_u32", GFX803)
def compare_unsigned(site: Site) -> None:
    compare(site, site.item.mnemonic, *site.item.operands)


def compare(site: Site, name: str, a: str, b: str) -> None:
    """s_cmp_ge_u32 and s_cmp_le_u32 are missing on gfx803: a >= b is max(a, b) == a."""
    if site.gcn3 and name in ("s_cmp_ge_u32", "s_cmp_le_u32"):
        held = site.sgpr()
        extreme = "s_max_u32" if "ge" in name else "s_min_u32"
        # Not a constant: MGPUSim compares those as 64 bits with their sign.
        sources = [site.in_sgpr(o) if integer(o) is not None else o for o in (a, b)]
        site.put(extreme, held, *sources)
        site.put("s_cmp_eq_u32", held, sources[0])
    else:
        site.put(name, a, b)


@rule("s_cmp_eq_u64 s_cmp_lg_u64")
def compare_64(site: Site) -> None:
    """An exclusive or is zero where both are equal, and says so in SCC."""
    a, b = site.item.operands
    held, _, _ = site.sgpr_pair()
    site.put("s_xor_b64", held, a, b)
    if "eq" in site.item.mnemonic:
        _invert_scc(site)


def _invert_scc(site: Site) -> None:
    held = site.sgpr()
    site.put("s_cselect_b32", held, "0", "1")
    site.test_scc(held)


@rule("s_bitcmp0_b32 s_bitcmp1_b32")
def test_bit(site: Site) -> None:
    a, bit = site.item.operands
    held, number = site.sgpr(), integer(bit)
    if number is not None:
        site.put("s_and_b32", held, a, hex_32(1 << (number & 31)))
    else:
        site.put("s_lshr_b32", held, a, bit)
        site.put("s_and_b32", held, held, "1")
    if "bitcmp0" in site.item.mnemonic:
        site.put("s_cmp_eq_u32", held, "0")


# Logic ---------------------------------------------------------------------------------------


@rule("s_not_b32")
def invert(site: Site) -> None:
    """MGPUSim's own always says in SCC that the result is not zero."""
    result, a = site.item.operands
    site.put("s_xor_b32", result, a, "-1")
    if site.gcn3 and site.scc_live:
        site.test_scc(result)


@rule("s_andn2_b32 s_orn2_b32", GFX803)
def with_inverse(site: Site) -> None:
    result, a, b = site.item.operands
    inverse = site.sgpr()
    site.put("s_xor_b32", inverse, b, "-1")
    if "andn2" in site.item.mnemonic:
        site.put("s_and_b32", result, a, inverse)
        return
    common = site.sgpr()
    site.put("s_and_b32", common, a, inverse)
    site.put("s_xor_b32", result, a, inverse)
    site.put("s_xor_b32", result, result, common)


@rule("s_xor_b32", GFX803)
def exclusive_or(site: Site) -> None:
    """XOR with a negative constant always sets SCC to 1 on MGPUSim."""
    result, a, b = site.item.operands
    site.put("s_xor_b32", result, a, b)
    if any((integer(o) or 0) < 0 for o in (a, b)) and site.scc_live:
        site.test_scc(result)


@rule("s_bitset0_b32 s_bitset1_b32")
def set_bit(site: Site) -> None:
    """The bit of the result that the low five bits of the operand name; SCC is kept."""
    result, place = site.item.operands
    ones = site.item.mnemonic == "s_bitset1_b32"
    constant = integer(place)
    with site.saving_scc():  # no s_or_b32: gfx803 lacks it
        if constant is not None:
            bit = hex_32(1 << (constant & 31))
            site.put("s_and_b32", result, result, hex_32(~(1 << (constant & 31))))
        else:
            bit, held = site.sgpr(), site.sgpr()
            site.put("s_lshl_b32", bit, "1", place)
            site.put("s_and_b32", held, result, bit)
            site.put("s_xor_b32", result, result, held)
        if ones:
            site.put("s_xor_b32", result, result, bit)


# Selection -----------------------------------------------------------------------------------


@rule("s_cselect_b64", GFX803)
def select_64(site: Site) -> None:
    result, a, b = site.item.operands
    (a_low, a_high), (b_low, b_high) = site.halves(a), site.halves(b)
    held, low, high = site.sgpr_pair()
    direct = registers(result)
    if result not in ("vcc", "exec") and not {a_high, b_high} & {direct[0]}:
        low, high = direct
    site.put("s_cselect_b32", low, a_low, b_low)
    site.put("s_cselect_b32", high, a_high, b_high)
    if (low, high) != direct:
        site.put("s_mov_b64", result, held)


# Arithmetic ----------------------------------------------------------------------------------


@rule("s_add_i32", GFX803)
def add_signed(site: Site) -> None:
    _no_overflow_on_gcn3(site)
    site.put("s_add_i32", *site.item.operands)


def _no_overflow_on_gcn3(site: Site) -> None:
    if site.gcn3 and site.scc_live:
        raise site.refusal(
            "MGPUSim puts the carry into SCC, not the overflow", "do not test the overflow"
        )


@rule("s_addc_u32", GFX803)
def add_carry(site: Site) -> None:
    if site.scc_live:
        raise site.refusal(
            "MGPUSim's carry is wrong for a sum of 0xffffffff", "do not add more than 64 bits"
        )
    result, a, b = site.item.operands
    site.put("s_addc_u32", result, a, b)


@rule("s_sub_u32 s_subb_u32", GFX803)
def subtract(site: Site) -> None:
    """s_sub_u32 of MGPUSim sets SCC, but never clears it: a comparison in front does."""
    result, a, b = site.item.operands
    a, b = site.unsigned_source(a), site.unsigned_source(b)
    if site.item.mnemonic == "s_sub_u32" and site.scc_live:
        site.put("s_cmp_lt_u32", a, b)
    site.put(site.item.mnemonic, result, a, b)


@rule("s_min_u32 s_max_u32")
@rule("s_min_i32 s_max_i32", GFX803)
def extreme(site: Site) -> None:
    """The same for SCC on gfx803; unsigned ones compare negative constants as 64 bits."""
    result, a, b = site.item.operands
    m = re.match(r"s_(min|max)_(.32)", site.item.mnemonic)
    assert m
    if m[2] == "u32":
        a, b = site.unsigned_source(a), site.unsigned_source(b)
    if site.gcn3 and site.scc_live:
        site.put(f"s_cmp_{'lt' if m[1] == 'min' else 'gt'}_{m[2]}", a, b)
    site.put(site.item.mnemonic, result, a, b)


@rule("s_abs_i32", GFX942)
def absolute(site: Site) -> None:
    result, a = site.item.operands
    site.put("s_abs_i32", result, a)
    if site.scc_live:
        site.test_scc(result)


@rule("s_mul_i32", GFX803)
def multiply(site: Site) -> None:
    """MGPUSim sets SCC where the product overflows."""
    with site.saving_scc():
        site.put("s_mul_i32", *site.item.operands)


@rule("s_mul_hi_u32", GFX942)
def multiply_high(site: Site) -> None:
    result, a, b = site.item.operands
    site.put("s_mul_hi_u32", result, site.unsigned_source(a), site.unsigned_source(b))


@rule("s_mul_hi_i32", GFX942)
def multiply_high_signed(site: Site) -> None:
    """The unsigned product, less the other factor for each negative one."""
    result, a, b = site.item.operands
    a, b = (site.in_sgpr(o) if integer(o) is not None else o for o in (a, b))
    held, correction = site.sgpr(), site.sgpr()
    with site.saving_scc():
        site.put("s_mul_hi_u32", held, a, b)
        for one, other in ((a, b), (b, a)):
            site.put("s_ashr_i32", correction, one, "31")
            site.put("s_and_b32", correction, correction, other)
            site.put("s_sub_u32", held, held, correction)
        site.put("s_mov_b32", result, held)


@rule("s_lshl1_add_u32 s_lshl2_add_u32 s_lshl3_add_u32 s_lshl4_add_u32", GFX942)
def shift_add(site: Site) -> None:
    result, a, b = site.item.operands
    if site.scc_live:
        raise site.refusal("its carry has no replacement", "do not add more than 32 bits")
    held = site.sgpr()
    site.put("s_lshl_b32", held, a, site.item.mnemonic.removeprefix("s_lshl")[0])
    site.put("s_add_u32", result, held, b)


# Shifts and fields ---------------------------------------------------------------------------


@rule("s_ashr_i32", GFX803)
def shift_signed(site: Site) -> None:
    """MGPUSim does not cut the count to five bits."""
    result, a, count = site.item.operands
    number = integer(count)
    if number is None:
        held = site.sgpr()
        site.put("s_and_b32", held, count, "31")
        count = held
    site.put("s_ashr_i32", result, a, count if number is None else str(number & 31))


@rule("s_lshr_b32", GFX803)
def shift_right(site: Site) -> None:
    result, a, count = site.item.operands
    site.put("s_lshr_b32", result, site.unsigned_source(a), count)


@rule("s_ashr_i64", GFX803)
def shift_signed_64(site: Site) -> None:
    result, a, count = site.item.operands
    number = integer(count)
    if number is None:
        raise site.refusal("a variable shift of 64 bits has no replacement", "use 32-bit integers")
    number &= 63
    held, low, high = site.sgpr_pair()
    _, a_high = site.halves(a)
    if number < 32:
        site.put("s_lshr_b64", held, a, str(number))
        site.put("s_ashr_i32", high, a_high, str(number))
    else:
        site.put("s_ashr_i32", low, a_high, str(number - 32))
        site.put("s_ashr_i32", high, a_high, "31")
    if site.scc_live:
        site.put("s_or_b64", result, held, held)
    else:
        site.put("s_mov_b64", result, held)


@rule("s_bfe_u32 s_bfe_i32", GFX803)
def extract(site: Site) -> None:
    result, a, field = site.item.operands
    packed = integer(field)
    if packed is None:
        raise site.refusal("a variable field has no replacement", "shift twice instead")
    offset, width = packed & 31, min(packed >> 16 & 127, 32 - (packed & 31))
    if width == 0:
        site.put("s_and_b32", result, a, "0")
        return
    site.put("s_lshl_b32", result, a, str(32 - offset - width))
    shift = "s_lshr_b32" if site.item.mnemonic == "s_bfe_u32" else "s_ashr_i32"
    site.put(shift, result, result, str(32 - width))


@rule("s_sext_i32_i8 s_sext_i32_i16")
def extend_sign(site: Site) -> None:
    result, a = site.item.operands
    shift = "24" if site.item.mnemonic.endswith("i8") else "16"
    with site.saving_scc():
        site.put("s_lshl_b32", result, a, shift)
        site.put("s_ashr_i32", result, result, shift)


# Without a choice ----------------------------------------------------------------------------


def _as_written(lines: tuple[str, ...], site: Site) -> None:
    """Lines with operands by their numbers; {one} and {two} are free registers."""
    text = "".join(lines)
    held = {"one": site.sgpr() if "{one}" in text else "",
            "two": site.sgpr_pair()[0] if "{two}" in text else ""}  # fmt: skip
    for line in lines:
        mnemonic, _, operands = line.format(*site.item.operands, **held).partition(" ")
        site.put(mnemonic, *operands.split(", "))


for _names, _archs, *_lines in (
    ("s_cmov_b32", ARCHS, "s_cselect_b32 {0}, {1}, {0}"),
    ("s_not_b64", ARCHS, "s_xor_b64 {0}, {1}, -1"),
    ("s_nand_b64", ARCHS, "s_and_b64 {0}, {1}, {2}", "s_xor_b64 {0}, {0}, -1"),
    ("s_nor_b64", ARCHS, "s_or_b64 {0}, {1}, {2}", "s_xor_b64 {0}, {0}, -1"),
    ("s_xnor_b64", ARCHS, "s_xor_b64 {0}, {1}, {2}", "s_xor_b64 {0}, {0}, -1"),
    ("s_or_b32", (GFX803,), "s_and_b32 {one}, {1}, {2}", "s_xor_b32 {0}, {1}, {2}",
     "s_xor_b32 {0}, {0}, {one}"),
    ("s_orn2_b64", (GFX803,), "s_xor_b64 {two}, {2}, -1", "s_or_b64 {0}, {1}, {two}"),
    ("s_andn1_saveexec_b64", (GFX942,), "s_mov_b64 {two}, {1}", "s_mov_b64 {0}, exec",
     "s_andn2_b64 exec, exec, {two}"),
    # Scheduling hints do nothing in an emulator and are no instruction of the timing model.
    ("s_setprio s_sleep", ARCHS, "s_nop 0"),
):  # fmt: skip
    rule(_names, *_archs)(partial(_as_written, tuple(_lines)))
