"""Rules for LDS below a word: MGPUSim writes bytes there and reads none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.isa.legalise.assembly import integer
from simgen.isa.legalise.table import GFX942, rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site

MOST_OFFSET = 0xFFFF


def _placed(site: Site, address: str) -> str:
    """A register with the address and the instruction's offset."""
    held, offset = site.vgpr(), integer(site.item.modifier("offset") or "0") or 0
    site.add(held, address, site.held(offset))
    return held


@rule("ds_read_u8 ds_read_i8 ds_read_u16 ds_read_i16")
def read(site: Site) -> None:
    """The word around it, shifted."""
    result, address = site.item.operands
    kind = site.item.mnemonic.rsplit("_", 1)[1]
    bits = int(kind[1:])
    word = _read_word(site, address, bits)
    site.put("v_lshlrev_b32_e32", word, str(32 - bits), word)
    name = "v_ashrrev_i32_e32" if kind[0] == "i" else "v_lshrrev_b32_e32"
    site.put(name, result, str(32 - bits), word)


def _read_word(site: Site, address: str, bits: int) -> str:
    """A register whose lower bits are what lies at the address. A short that crosses the end of a
    word ends what is read."""
    at, word = _placed(site, address), site.vgpr()
    first, place = site.vgpr(), site.vgpr()
    site.put("v_and_b32_e32", place, "3", at)
    if bits == 16:
        site.put("v_min_u32_e32", place, "2", place)
    site.subtract(first, at, place)
    site.put("ds_read_b32", word, first)
    site.put("v_lshlrev_b32_e32", place, "3", place)
    site.put("s_waitcnt", "lgkmcnt(0)")
    site.put("v_lshrrev_b32_e32", word, place, word)
    return word


@rule("ds_read_u8_d16 ds_read_u16_d16 ds_read_u8_d16_hi ds_read_u16_d16_hi", GFX942)
def read_half(site: Site) -> None:
    """One half of the register; the other one stays."""
    result, address = site.item.operands
    narrow, upper = "_u8_" in site.item.mnemonic, site.item.mnemonic.endswith("_hi")
    word = _read_word(site, address, 8 if narrow else 16)
    site.put("v_and_b32_e32", word, "0xff" if narrow else "0xffff", word)
    if upper:
        site.put("v_lshlrev_b32_e32", word, "16", word)
    site.put("v_and_b32_e32", result, "0xffff" if upper else "0xffff0000", result)
    site.put("v_or_b32_e32", result, result, word)


@rule("ds_write_b16")
@rule("ds_write_b16_d16_hi ds_write_b8_d16_hi", GFX942)
def write(site: Site) -> None:
    """Byte by byte."""
    address, value = site.item.operands
    offset = integer(site.item.modifier("offset") or "0") or 0
    if offset + 1 > MOST_OFFSET:
        address, offset = _placed(site, address), 0
    shifts = [16, 24] if site.item.mnemonic.endswith("_hi") else [0, 8]
    if "_b8_" in site.item.mnemonic:
        shifts = shifts[:1]
    for at, shift in enumerate(shifts):
        part = value
        if shift:
            part = site.vgpr()
            site.put("v_lshrrev_b32_e32", part, str(shift), value)
        tail = (f"offset:{offset + at}",) if offset + at else ()
        site.put("ds_write_b8", address, part, tail=tail)
