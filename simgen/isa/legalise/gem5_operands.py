"""Operands and forms that a version of gem5 reads wrongly or not at all, whatever the instruction
is: what it can read stands in their place.

* constants of 32 bits beside 64-bit operands (to 23.1), which it asserts are not there: a pair of
  registers
* constants of 16 bits below zero (s_movk_i32, s_cmovk_i32, s_cmpk_*_i32; gfx9, to 22.0), whose sign
  it does not extend: the same in 32 bits. s_addk_i32 and s_mulk_i32 were right
* vcc_hi (to 22.0): a copy of VCC
* constants as the scalar offset of a buffer (gfx8, to 21.0; gfx9, to 21.2): a register
* global_* with a scalar base (gfx9, to 21.2), whose upper half it leaves out, or a constant below
  zero: an address in vector registers. To 22.1 it reads two registers for the offset beside the
  base: the kernel gets one more, where it has no second
* v_mov_b32_dpp (to 22.1, and row_mirror in all versions): an exchange through LDS
* accesses of two words that may lie in two lines of a cache, of which it takes the wrong part
  twice (to 21.1, those of three and four too): accesses that lie in one
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from simgen.isa.legalise import halves, lanes, memory, roles
from simgen.isa.legalise.assembly import (
    VCC,
    Instruction,
    integer,
    is_constant,
    is_inline,
    registers,
    source_modifiers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.isa.legalise.facts import Table
    from simgen.isa.legalise.site import Site

WIDENED = re.compile(r"s_(?:movk|cmovk|cmpk_(?:eq|lg|gt|ge|lt|le))_i32\Z")  # constants of 16 bits
MOVED = "v_mov_b32_dpp"
MIRRORS = ("row_mirror", "row_half_mirror")
_ACCESS = re.compile(r"(flat|global)_(load|store)_dwordx([234])\Z")
_FLOAT = re.compile(r"_f64|_F64")


def replaced(site: Site, table: Table) -> bool:
    """Put what stands for the whole instruction into `site.out`, if its form has a rule."""
    item = site.item
    lost = table.ignores.get("negative", ())
    if WIDENED.match(item.mnemonic) and item.mnemonic in lost:
        return _in_32_bits(site)
    if item.mnemonic == MOVED:
        mirrored = any(word in MIRRORS for word in item.tail)
        if not table.moves or (mirrored and not table.mirror):
            lanes.move_across(site)
            return True
    if parts := _in_one_line(site, table):
        for part in parts:
            site.item = part
            if not part.mnemonic.startswith("global_") or not _addressed(site, table):
                site.out.append(part)
        return True
    if item.mnemonic.startswith("global_"):
        return _addressed(site, table)
    return False


def _in_one_line(site: Site, table: Table) -> list[Instruction]:
    """Accesses that each lie in one line of a cache, in place of one that may not; empty: it does,
    or the version takes the right parts of it."""
    item = site.item
    found = _ACCESS.match(item.mnemonic)
    if not found or not item.align or not (table.cuts if found[3] == "2" else table.cuts_words):
        return []
    load = found[2] == "load"
    data, address = item.operands[:2] if load else item.operands[1::-1]
    words, held, base = registers(data), registers(address), item.operands[2:]
    width = 2 if item.align >= 8 else 1
    places = list(range(0, len(words), width))
    pieces = [words[at : at + width] for at in places]
    if load and sum(bool({*piece} & {*held}) for piece in pieces) > 1:
        pair, *copies = site.vgpr_pair()
        for copy, original in zip(copies, held, strict=False):
            site.put("v_mov_b32_e32", copy, original)
        held = tuple(copies[: len(held)])
        address = pair if len(held) == 2 else held[0]
    offset = integer(item.modifier("offset") or "0") or 0
    most = 0 if site.gcn3 else memory.MOST_GLOBAL_OFFSET
    tail = tuple(word for word in item.tail if not word.startswith("offset:"))
    made = []
    for at, piece in zip(places, pieces, strict=True):
        where, more = address, offset + 4 * at
        if at and more > most:
            where, more = memory.beyond(site, held, 4 * at), offset
        operands = (_group(piece), where) if load else (where, _group(piece))
        name = f"{found[1]}_{found[2]}_dword{'x2' if len(piece) == 2 else ''}"
        told = (f"offset:{more}", *tail) if more else tail
        made.append(Instruction(name, (*operands, *base), told, item.source_line))
    # What a load overwrites of its own address, it loads last.
    return sorted(made, key=lambda part: load and bool({*registers(part.operands[0])} & {*held}))


def _group(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"v[{words[0][1:]}:{words[-1][1:]}]"


def readable(site: Site, table: Table) -> dict[str, str]:
    """Let the site's instruction have operands that the version reads. Returns the masks that have
    to be written back behind it (`halves.copied_back`)."""
    item = site.item
    back: dict[str, str] = {}
    form = roles.roles_of(item, site.arch)
    if not table.vcc_hi and form and any(_body(each) == VCC[1] for each in item.operands):
        back = halves.copied_out(site, form)
    if not table.literals and form:
        operands = list(site.item.operands)
        for at, (text, of) in enumerate(roles.pairs(site.item, form)):
            if of.is_read and of.width == 2 and is_constant(text) and not is_inline(text):
                operands[at] = _pair(site, text)
        site.item = replace(site.item, operands=tuple(operands))
    if not table.soffset and item.mnemonic.startswith("buffer_") and len(item.operands) > 1:
        *others, offset = site.item.operands
        if not registers(offset):
            site.item = replace(site.item, operands=(*others, site.in_sgpr(offset)))
    return back


def _body(operand: str) -> str:
    return source_modifiers(operand)[2]


def _pair(site: Site, literal: str) -> str:
    """A constant of 32 bits in a pair of scalars: of a float, its upper half, and else extended."""
    pair, low, high = site.sgpr_pair()
    value = integer(literal)
    words = ("0", literal)
    if not _FLOAT.search(site.item.mnemonic):
        signed = "_i64" in site.item.mnemonic
        below = value is not None and (value < 0 or (signed and value >> 31 & 1))
        words = (literal, "-1" if below else "0")
    site.put("s_mov_b32", low, words[0])
    site.put("s_mov_b32", high, words[1])
    return pair


def _in_32_bits(site: Site) -> bool:
    first, constant = site.item.operands
    value = (integer(constant) or 0) & 0xFFFF
    if not value >> 15:
        return False
    wide = value - 0x10000
    text = str(wide) if is_inline(str(wide)) else hex(wide & 0xFFFFFFFF)
    name = site.item.mnemonic.replace("k_", "_")
    site.put(name.replace("mov_i32", "mov_b32"), first, text)
    return True


def _addressed(site: Site, table: Table) -> bool:
    """global_*: a base whose upper half counts, and a constant with its sign."""
    item = site.item
    form = roles.roles_of(item, site.arch)
    if form is None:
        return False
    places = {of.role: at for at, (_, of) in enumerate(roles.pairs(item, form))}
    at, address, base = places["a"], item.operands[places["a"]], item.operands[places["o"]]
    if base != "off" and not table.offsets:
        site.own(vgprs=int(address[1:]) + 2)
    offset = integer(item.modifier("offset") or "0") or 0
    below = offset < 0 and item.mnemonic in table.ignores.get("negative", ())
    halved = base != "off" and item.mnemonic in table.ignores.get("base", ())
    if not below and not halved:
        return False
    pair, low, high = site.vgpr_pair()
    carry = site.sgpr_pair()[0]
    if base == "off":
        first, second = registers(address)
    else:
        first, second = low, high
        below_half, above = registers(base)
        site.put("v_mov_b32_e32", high, above)
        site.put("v_add_co_u32_e64", low, carry, below_half, address)
        site.put("v_addc_co_u32_e64", high, carry, "0", high, carry)
    if below:
        site.put("v_add_co_u32_e64", low, carry, site.vop3_source(str(offset)), first)
        site.put("v_addc_co_u32_e64", high, carry, "-1", second, carry)
    tail = tuple(word for word in item.tail if not (below and word.startswith("offset:")))
    operands = list(item.operands)
    operands[at], operands[places["o"]] = pair, "off"
    site.put(item.mnemonic, *operands, tail=tail)
    return True
