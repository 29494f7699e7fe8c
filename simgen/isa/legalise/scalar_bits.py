"""Rules that count and find bits of scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.isa.legalise.table import rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site


def _count(site: Site, x: str) -> str:
    """A register with the number of bits that are 1 (as `bits.count`). Writes SCC."""
    sums, part = site.sgpr(), site.sgpr()
    site.put("s_lshr_b32", part, x, "1")
    site.put("s_and_b32", part, part, "0x55555555")
    site.put("s_sub_u32", sums, x, part)
    site.put("s_lshr_b32", part, sums, "2")
    site.put("s_and_b32", part, part, "0x33333333")
    site.put("s_and_b32", sums, sums, "0x33333333")
    site.put("s_add_u32", sums, sums, part)
    site.put("s_lshr_b32", part, sums, "4")
    site.put("s_add_u32", sums, sums, part)
    site.put("s_and_b32", sums, sums, "0xf0f0f0f")
    site.put("s_mul_i32", sums, sums, "0x1010101")
    site.put("s_lshr_b32", sums, sums, "24")
    return sums


def _halves(site: Site, operand: str) -> tuple[str, str, str]:
    """A pair that holds the source, extended with zeros, and its halves."""
    pair, low, high = site.sgpr_pair()
    if site.item.mnemonic.endswith("_b64"):
        site.put("s_mov_b64", pair, operand)
    else:
        site.put("s_mov_b32", low, operand)
        site.put("s_mov_b32", high, "0")
    return pair, low, high


@rule("s_bcnt1_i32_b32 s_bcnt1_i32_b64")
def count_bits(site: Site) -> None:
    """SCC = the count is not zero."""
    result, x = site.item.operands
    _, low, high = _halves(site, x)
    site.put("s_add_u32", result, _count(site, low), _count(site, high))
    site.put("s_cmp_lg_u32", result, "0")


@rule("s_ff1_i32_b32 s_ff1_i32_b64")
def first_from_below(site: Site) -> None:
    """The place of the lowest 1, -1 if there is none."""
    result, x = site.item.operands
    with site.saving_scc():
        _first(site, result, *_halves(site, x))


@rule("s_flbit_i32_b32 s_flbit_i32_b64")
def first_from_above(site: Site) -> None:
    result, x = site.item.operands
    wide = site.item.mnemonic.endswith("_b64")
    with site.saving_scc():
        _, low, high = _halves(site, x)
        turned, turned_low, turned_high = site.sgpr_pair()
        site.put("s_brev_b32", turned_low, high if wide else low)
        site.put("s_brev_b32", turned_high, low if wide else high)
        _first(site, result, turned, turned_low, turned_high)


def _first(site: Site, result: str, pair: str, low: str, high: str) -> None:
    """Lowest bit of the lower half if that is not zero, else 32 more than that of the
    upper half."""
    any_, _, _ = site.sgpr_pair()
    in_low, in_high = _zeros_below(site, low), _zeros_below(site, high)
    site.put("s_add_u32", in_high, in_high, "32")
    site.put("s_cmp_lg_u32", low, "0")
    site.put("s_cselect_b32", in_low, in_low, in_high)
    site.put("s_or_b64", any_, pair, pair)
    site.put("s_cselect_b32", result, in_low, "-1")


def _zeros_below(site: Site, x: str) -> str:
    """How many: x ^ (x - 1) has one bit more."""
    less = site.sgpr()
    site.put("s_sub_u32", less, x, "1")
    site.put("s_xor_b32", less, x, less)
    total = _count(site, less)
    site.put("s_sub_u32", total, total, "1")
    return total
