"""Memory instructions that gem5 executes wrongly, in its own other ones: atomics that count to a
limit, scalar loads from buffers and with constants below zero or beside a register, bytes of LDS.

Source: AMD, Vega Instruction Set Architecture Reference Guide, chapters "Scalar Memory Operations"
(range checks of S_BUFFER_LOAD) and "Flat Memory Instructions" (ATOMIC_INC, ATOMIC_DEC).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simgen.isa.legalise.assembly import integer, registers
from simgen.isa.legalise.memory import further

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.isa.legalise.site import Site

SCALAR_LOAD = re.compile(r"s_load_dword(x\d+)?\Z")
BASE_HIGH = "0xffff"  # bits of a buffer's second word that belong to its address
STRIDE = "0xe0010"  # the stride in that word: 14 bits from bit 16 on


def upper_half(site: Site) -> None:
    """Stores from the upper half of a register, to memory and LDS."""
    address, data, *base = site.item.operands
    held = site.vgpr()
    site.put("v_lshrrev_b32_e32", held, "16", data)
    plain = site.item.mnemonic.removesuffix("_d16_hi")
    site.put(plain, address, held, *base, tail=site.item.tail)


def scalar_load(site: Site, *, signed: bool) -> None:
    """gem5 adds no register to a constant, and of gfx9's constants it reads no sign."""
    result, base, offset = site.item.operands
    number = integer(offset)
    constant = integer(site.item.modifier("offset") or "0")
    if number is not None and number < 0 and signed:
        base, offset = further(site, base, number), "0x0"
    elif number is None and constant and registers(offset):
        base = further(site, base, constant)
    else:
        site.out.append(site.item)
        return
    tail = tuple(word for word in site.item.tail if not word.startswith("offset:"))
    site.put(site.item.mnemonic, result, base, offset, tail=tail)


def buffer_load(site: Site) -> None:
    """s_buffer_load_dword and its wider kin: a scalar load where all lies in the buffer; else
    word by word, and what lies behind the buffer is 0."""
    result, buffer, offset = site.item.operands
    low, high, records, _ = registers(buffer)
    words = registers(result)
    tail = tuple(word for word in site.item.tail if not word.startswith("offset:"))
    whole, end = site.label("whole"), site.label("end")
    base, to_low, to_high = site.sgpr_pair()
    held, left = site.sgpr(), site.sgpr()
    with site.saving_scc():
        _room(site, high, records, left, held)
        constant = integer(site.item.modifier("offset") or "0") or 0
        site.put("s_add_u32", held, offset, hex(constant))
        site.put("s_and_b32", held, held, "-4")
        site.put("s_sub_u32", left, left, held)
        site.put("s_cselect_b32", left, "0", left)
        site.put("s_and_b32", to_high, high, BASE_HIGH)
        site.put("s_add_u32", to_low, low, held)
        site.put("s_addc_u32", to_high, to_high, "0")
        site.put("s_cmp_ge_u32", left, str(4 * len(words)))
        if len(words) > 1:
            site.put("s_cbranch_scc1", whole)
        for word in words:
            site.put("s_mov_b32", word, "0")
        if len(words) == 1:
            site.put("s_cbranch_scc0", end)
            site.put("s_load_dword", result, base, "0x0", tail=tail)
        else:
            for at, word in enumerate(words[:-1]):
                site.put("s_cmp_lt_u32", left, str(4 * at + 4))
                site.put("s_cbranch_scc1", end)
                site.put("s_load_dword", word, base, hex(4 * at), tail=tail)
            site.put("s_branch", end)
            site.put(f"{whole}:")
            name = site.item.mnemonic.replace("_buffer", "")
            site.put(name, result, base, "0x0", tail=tail)
        site.put(f"{end}:")


def _room(site: Site, high: str, records: str, room: str, held: str) -> None:
    """The bytes of a buffer, or the most that there may be: its elements, times their bytes."""
    site.put("s_bfe_u32", held, high, STRIDE)
    site.put("s_max_u32", held, held, "1")
    if site.gcn3:  # which has no s_mul_hi_u32
        upper = site.sgpr()
        site.put("s_lshr_b32", upper, records, "16")
        site.put("s_mul_i32", upper, upper, held)
        site.put("s_and_b32", room, records, "0xffff")
        site.put("s_mul_i32", room, room, held)
        site.put("s_lshr_b32", room, room, "16")
        site.put("s_add_u32", upper, upper, room)
        site.put("s_mul_i32", room, records, held)
        site.put("s_lshr_b32", held, upper, "16")
    else:
        site.put("s_mul_i32", room, records, held)
        site.put("s_mul_hi_u32", held, records, held)
    site.put("s_cmp_lg_u32", held, "0")
    site.put("s_cselect_b32", room, "-1", room)


def counting(site: Site) -> None:
    """ATOMIC_INC and ATOMIC_DEC: compare and swap, over and over, for the lanes whose word was
    another one in the meantime. The first comparison is with a guess, 0."""
    kind, _, verb, *wide = site.item.mnemonic.split("_")
    operands = list(site.item.operands)
    base = [operands.pop()] if kind == "global" else []
    result = operands.pop(0) if len(operands) == 3 else ""
    address, data = operands
    count = 2 if wide else 1
    quad, new, known = _consecutive(site, count)
    old = site.vgpr_pair() if wide else ("", site.vgpr(), "")
    returning = {"sc0", "glc"} & set(site.item.tail)
    tail = site.item.tail if returning else (*site.item.tail, _returns(site))
    again = site.label("again")
    held, mask = site.sgpr_pair()[0], site.sgpr_pair()[0]
    with site.saving_scc():
        site.put("s_mov_b64", held, "exec")
        for word in known:
            site.put("v_mov_b32_e32", word, "0")
        site.put(f"{again}:")
        _counted(site, verb, new, known, registers(data), mask)
        name = f"{kind}_atomic_cmpswap{'_x2' if wide else ''}"
        read = old[0] if wide else old[1]
        site.put(name, read, address, quad, *base, tail=tail)
        site.put("s_waitcnt", "vmcnt(0) lgkmcnt(0)")
        bits = "u64" if wide else "u32"
        site.put(f"v_cmp_ne_{bits}_e64", mask, read, _together(known))
        for word, seen in zip(known, old[1:], strict=False):
            site.put("v_mov_b32_e32", word, seen)
        site.put("s_and_b64", "exec", "exec", mask)
        site.put("s_cbranch_execnz", again)
        site.put("s_or_b64", "exec", "exec", held)
    for word, seen in zip(registers(result), known, strict=False):
        site.put("v_mov_b32_e32", word, seen)


def _consecutive(site: Site, count: int) -> tuple[str, list[str], list[str]]:
    """Registers for a compare and swap: all, what is to be written, what is compared."""
    words = [word for _ in range(count) for word in site.vgpr_pair()[1:]]
    return _together(words), words[:count], words[count:]


def _together(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"v[{words[0][1:]}:{words[-1][1:]}]"


def _returns(site: Site) -> str:
    """The word that lets an atomic return what was there."""
    return "sc0" if site.arch in ("gfx942", "gfx950") else "glc"


def _counted(
    site: Site, verb: str, new: list[str], known: list[str], limit: tuple[str, ...], mask: str
) -> None:
    """inc: 0 from the limit on, else one more. dec: one less, or the limit of 0 and beyond it."""
    add, addc = ("v_add_u32_e64", "v_addc_u32_e64") if site.gcn3 else (
        "v_add_co_u32_e64", "v_addc_co_u32_e64",
    )  # fmt: skip
    step = "1" if verb == "inc" else "-1"
    if len(new) == 1:
        site.put(add, new[0], mask, step, known[0])
    else:
        site.put(add, new[0], mask, step, known[0])
        site.put(addc, new[1], mask, "0" if verb == "inc" else "-1", known[1], mask)
    bits = "u64" if len(new) == 2 else "u32"
    limits = _together(list(limit))
    compared = known if verb == "inc" else new
    site.put(f"v_cmp_lt_{bits}_e64", mask, _together(compared), limits)
    for word, most in zip(new, limit, strict=True):
        site.select(word, "0" if verb == "inc" else most, word, mask)


_COUNTING = tuple(
    (kind, verb, wide)
    for kind in ("flat", "global")
    for verb in ("inc", "dec")
    for wide in ("", "_x2")
)
RULES: dict[str, Callable[[Site], None]] = {
    **{f"ds_write_b{bits}_d16_hi": upper_half for bits in (8, 16)},
    **{
        f"{kind}_store_{size}_d16_hi": upper_half
        for kind in ("flat", "global")
        for size in ("byte", "short")
    },
    **{f"s_buffer_load_dword{n}": buffer_load for n in ("", "x2", "x4", "x8", "x16")},
    **{f"{kind}_atomic_{verb}{wide}": counting for kind, verb, wide in _COUNTING},
}
# What a rule makes of an instruction, and a version may have wrong:
NEED = {
    f"{kind}_atomic_{verb}{wide}": f"{kind}_atomic_cmpswap{wide}" for kind, verb, wide in _COUNTING
}
