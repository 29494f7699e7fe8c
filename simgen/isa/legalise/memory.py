"""Rules for loads and stores of LDS, global memory and constants.

A split access makes an `s_waitcnt` behind it wait for no less than before: counts need no repair.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simgen.isa.legalise.assembly import integer, registers
from simgen.isa.legalise.table import GFX803, GFX942, rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site

MOST_GLOBAL_OFFSET = 4095  # bytes, of gfx9
MOST_LDS_OFFSET = 0xFFFF  # bytes, of an access with one offset
MOST_PAIR_OFFSET = 255  # elements, of an access with two


# LDS -----------------------------------------------------------------------------------------


def _offset(site: Site, name: str = "offset") -> int:
    return integer(site.item.modifier(name) or "0") or 0


def _tail(**offsets: int) -> tuple[str, ...]:
    return tuple(f"{name}:{value}" for name, value in offsets.items() if value)


def _pair_tail(first: int) -> tuple[str, ...]:
    return _tail(offset0=first, offset1=first + 1)


def _moved(site: Site, address: str, offset: int) -> str:
    """A register with address + offset."""
    held = site.vgpr()
    site.add(held, str(offset), address)
    return held


@rule("ds_read_b64")
def lds_read_64(site: Site) -> None:
    """MGPUSim ignores the offset."""
    result, address = site.item.operands
    read_64(site, result, address, _offset(site))


def read_64(site: Site, result: str, address: str, offset: int) -> None:
    if offset == 0:
        site.put("ds_read_b64", result, address)
    elif offset % 4 == 0 and offset // 4 < MOST_PAIR_OFFSET:
        site.put("ds_read2_b32", result, address, tail=_pair_tail(offset // 4))
    else:
        site.put("ds_read_b64", result, _moved(site, address, offset))


@rule("ds_write_b64")
def lds_write_64(site: Site) -> None:
    address, value = site.item.operands
    write_64(site, address, value, _offset(site))


def write_64(site: Site, address: str, value: str, offset: int) -> None:
    if offset % 4 or offset // 4 >= MOST_PAIR_OFFSET:
        address, offset = _moved(site, address, offset), 0
    site.put("ds_write2_b32", address, *registers(value), tail=_pair_tail(offset // 4))


@rule("ds_read2st64_b32 ds_read2st64_b64")
def lds_read_strided(site: Site) -> None:
    """Two reads; the one that overwrites the address comes last."""
    result, address = site.item.operands
    width = 1 if site.item.mnemonic.endswith("b32") else 2
    stride = 64 * 4 * width
    parts = registers(result)
    reads = [
        (_group(parts[at : at + width]), _offset(site, name) * stride)
        for at, name in ((0, "offset0"), (width, "offset1"))
    ]
    if address in registers(reads[0][0]):
        reads.reverse()
    for target, offset in reads:
        if width == 1:
            site.put("ds_read_b32", target, address, tail=_tail(offset=offset))
        else:
            read_64(site, target, address, offset)


@rule("ds_write2st64_b32 ds_write2st64_b64")
def lds_write_strided(site: Site) -> None:
    address, *values = site.item.operands
    width = 1 if site.item.mnemonic.endswith("b32") else 2
    stride = 64 * 4 * width
    for value, name in zip(values, ("offset0", "offset1"), strict=True):
        offset = _offset(site, name) * stride
        if width == 1:
            site.put("ds_write_b32", address, value, tail=_tail(offset=offset))
        else:
            write_64(site, address, value, offset)


@rule("ds_read_b128", GFX803)
def lds_read_128(site: Site) -> None:
    result, address = site.item.operands
    address, first = _eights(site, address)
    site.put("ds_read2_b64", result, address, tail=_pair_tail(first))


@rule("ds_write_b128", GFX803)
def lds_write_128(site: Site) -> None:
    address, value = site.item.operands
    parts = registers(value)
    address, first = _eights(site, address)
    site.put("ds_write2_b64", address, _group(parts[:2]), _group(parts[2:]), tail=_pair_tail(first))


def _eights(site: Site, address: str) -> tuple[str, int]:
    """The address, and the offset in units of 8 bytes."""
    offset = _offset(site)
    if offset % 8 == 0 and offset // 8 < MOST_PAIR_OFFSET:
        return address, offset // 8
    return _moved(site, address, offset), 0


@rule("ds_read_b96")
def lds_read_96(site: Site) -> None:
    result, address = site.item.operands
    parts, offset = registers(result), _offset(site)
    if address in parts:
        held = site.vgpr()
        site.put("v_mov_b32_e32", held, address)
        address = held
    read_64(site, _group(parts[:2]), address, offset)
    if offset + 8 > MOST_LDS_OFFSET:
        address, offset = _moved(site, address, offset), 0
    site.put("ds_read_b32", parts[2], address, tail=_tail(offset=offset + 8))


@rule("ds_write_b96")
def lds_write_96(site: Site) -> None:
    address, value = site.item.operands
    parts, offset = registers(value), _offset(site)
    if offset + 8 > MOST_LDS_OFFSET:
        address, offset = _moved(site, address, offset), 0
    write_64(site, address, _group(parts[:2]), offset)
    site.put("ds_write_b32", address, parts[2], tail=_tail(offset=offset + 8))


def _group(parts: tuple[str, ...]) -> str:
    kind = parts[0][0]
    return parts[0] if len(parts) == 1 else f"{kind}[{parts[0][1:]}:{parts[-1][1:]}]"


# Global memory -------------------------------------------------------------------------------


@rule("global_load_dwordx3", GFX942)
@rule("flat_load_dwordx3", GFX803)
def load_3(site: Site) -> None:
    """One double word behind two; the address is copied where the first load overwrites it."""
    result, address, *base = site.item.operands
    kind = site.item.mnemonic.split("_")[0]
    parts, held = registers(result), registers(address)
    if set(parts[:2]) & set(held):
        pair, *copies = site.vgpr_pair()
        for copy, original in zip(copies, held, strict=False):
            site.put("v_mov_b32_e32", copy, original)
        address = pair if len(held) == 2 else copies[0]
        held = tuple(copies[: len(held)])
    site.put(f"{kind}_load_dwordx2", _group(parts[:2]), address, *base, tail=site.item.tail)
    others = tuple(w for w in site.item.tail if not w.startswith("offset:"))
    if site.gcn3:  # no offset in the instruction
        site.put("flat_load_dword", parts[2], beyond(site, held, 8), tail=others)
        return
    offset = _offset(site) + 8
    if offset > MOST_GLOBAL_OFFSET:
        offset -= 8
        address = beyond(site, held, 8)
    site.put("global_load_dword", parts[2], address, *base, tail=(f"offset:{offset}", *others))


def beyond(site: Site, held: tuple[str, ...], by: int) -> str:
    """Registers with an address, in one register or two, and a constant more."""
    if len(held) == 1:
        return _moved(site, held[0], by)
    pair, low, high = site.vgpr_pair()
    site.add_64((low, high), (held[0], held[1]), str(by))
    return pair


@rule("global_load_sbyte global_load_ushort global_load_sshort", GFX942)
@rule("flat_load_sbyte flat_load_ushort flat_load_sshort", GFX803)
def load_narrow(site: Site) -> None:
    """Byte by byte: of loads below a word, MGPUSim's timing model has the unsigned byte only.

    It drops the upper byte of a short, and dies of a signed byte at the end of a cache line.
    """
    result, address, *base = site.item.operands
    kind, _, what = site.item.mnemonic.split("_")
    load = f"{kind}_load_ubyte"
    low = site.vgpr()
    site.put(load, low, address, *base, tail=site.item.tail)
    if what == "sbyte":
        site.put("s_waitcnt", "vmcnt(0) lgkmcnt(0)")
        _extend_sign(site, result, low, 8)
        return
    high = site.vgpr()
    others = tuple(w for w in site.item.tail if not w.startswith("offset:"))
    if site.gcn3:  # no offset in the instruction
        pair, next_low, next_high = site.vgpr_pair()
        first, second = registers(address)
        site.add_64((next_low, next_high), (first, second), "1")
        site.put(load, high, pair, tail=others)
    else:
        offset = _offset(site) + 1
        if offset > MOST_GLOBAL_OFFSET:
            raise site.refusal(
                f"offset {offset - 1} leaves no room for the next byte",
                "address nearer to the access",
            )
        site.put(load, high, address, *base, tail=(*_tail(offset=offset), *others))
    site.put("s_waitcnt", "vmcnt(0) lgkmcnt(0)")
    site.put("v_lshlrev_b32_e32", high, "8", high)
    if what == "ushort":
        site.put("v_or_b32_e32", result, low, high)
    else:
        site.put("v_or_b32_e32", low, low, high)
        _extend_sign(site, result, low, 16)


def _extend_sign(site: Site, result: str, value: str, bits: int) -> None:
    site.put("v_lshlrev_b32_e32", value, str(32 - bits), value)
    site.put("v_ashrrev_i32_e32", result, str(32 - bits), value)


# Constants -----------------------------------------------------------------------------------


@rule("s_load_dword s_load_dwordx2 s_load_dwordx4 s_load_dwordx8 s_load_dwordx16")
def load_scalars(site: Site) -> None:
    """MGPUSim reads no sign of the constant, and no register that is added to one: constants below
    zero are added to the base. Its timing model cannot load 16 at once, nor into VCC."""
    result, base, offset = site.item.operands
    if result == "vcc":
        pair, _, _ = site.sgpr_pair()
        site.item = replace(site.item, operands=(pair, base, offset))
        load_scalars(site)
        site.put("s_waitcnt", "lgkmcnt(0)")
        site.put("s_mov_b64", "vcc", pair)
        return
    number = integer(offset)
    constant = integer(site.item.modifier("offset") or "0")
    if constant is None:
        raise site.refusal("its constant is no number", "write it as one")
    if number is not None and number < 0:
        base, offset, number = further(site, base, number), "0x0", 0
    if constant < 0:
        base, constant = further(site, base, constant), 0
    if number is None and site.item.mnemonic.endswith("x16"):
        base, offset, number = further(site, base, offset), hex(constant), constant
        constant = 0
    site.item = replace(site.item, operands=(result, base, offset))
    tail = tuple(word for word in site.item.tail if not word.startswith("offset:"))
    site.item = replace(site.item, tail=tail)
    if constant:
        total = site.sgpr()
        with site.saving_scc():
            site.put("s_add_u32", total, offset, hex(constant))
        offset = total
    if not site.item.mnemonic.endswith("x16"):
        site.put(site.item.mnemonic, result, base, offset, tail=site.item.tail)
        return
    assert number is not None
    parts = registers(result)
    halves = [(_group(parts[:8]), number), (_group(parts[8:]), number + 32)]
    if set(registers(base)) & set(parts[:8]):
        halves.reverse()
    for target, at in halves:
        site.put("s_load_dwordx8", target, base, hex(at), tail=site.item.tail)


def further(site: Site, base: str, by: int | str) -> str:
    """A pair of registers with a base + a constant, or + a register, which has no sign."""
    pair, low, high = site.sgpr_pair()
    first, second = registers(base)
    below = isinstance(by, int) and by < 0
    with site.saving_scc():
        site.put("s_add_u32", low, first, hex(by & 0xFFFFFFFF) if isinstance(by, int) else by)
        site.put("s_addc_u32", high, second, "-1" if below else "0")
    return pair
