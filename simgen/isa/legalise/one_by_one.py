"""Rules for what a wavefront may not do for all of its lanes at once: atomics, and narrow stores.

MGPUSim has neither. Its emulation runs a wavefront up to a barrier before it runs another one, so
that a read, a change and a write with nothing in between are atomic. In its timing model wavefronts
take turns at every instruction, and compute units have caches that do not see each other's writes:
no sequence is right there, but for a work-group of one wavefront in its own LDS.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from simgen.ask.choice import option
from simgen.isa.legalise import memory, vector_float
from simgen.isa.legalise.assembly import integer, registers
from simgen.isa.legalise.expression import (
    Word,
    add_co,
    carry,
    eq,
    fadd,
    ne,
    smax,
    smin,
    sub_co,
    umax,
    umin,
    where,
)  # fmt: skip
from simgen.isa.legalise.replacements import Wide, differing, less_64, more_64, put
from simgen.isa.legalise.table import GFX803, GFX942, rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.isa.legalise.site import Site

EMULATED = f"{option('mode')} emu"
ATOMIC = (
    "MGPUSim has no atomics; what replaces them is right in emulation only, where wavefronts do "
    f"not interleave; run with {EMULATED}, or reduce in two stages"
)
NARROW = (
    "MGPUSim stores no bytes or shorts; what replaces them reads and writes the word around, which "
    f"is right in emulation only, where wavefronts do not interleave; run with {EMULATED}, or "
    "store words"
)
_OPERATIONS = "add sub smin umin smax umax and or xor"
_WIDTHS = [f"{o}{wide}" for o in [*_OPERATIONS.split(), "swap", "cmpswap"] for wide in ("", "_x2")]
_NAMES = " ".join(f"KIND_atomic_{o}" for o in [*_WIDTHS, "add_f32"])
_WIDE = ("_x2", "_f64")
FENCE = (
    "MGPUSim has no fences of the whole GPU; its emulator needs none, but compute units of its "
    f"timing model do not see each other's writes; run with {EMULATED}, or make two launches of it"
)


def _each_lane(site: Site, body: Callable[[], None]) -> None:
    """Do what `body` puts for one active lane after the other, from the first on."""
    again, end = site.label("again"), site.label("end")
    held, _, _ = site.sgpr_pair()
    left, _, _ = site.sgpr_pair()
    one, _, _ = site.sgpr_pair()
    number, lane = site.sgpr(), site.lane()
    with site.saving_scc():
        site.put("s_mov_b64", held, "exec")
        site.put("s_mov_b64", left, "exec")
        site.put("s_cbranch_execz", end)
        site.put(f"{again}:")
        site.put("v_readfirstlane_b32", number, lane)
        site.put("s_lshl_b64", one, "1", number)
        site.put("s_mov_b64", "exec", one)
        body()
        site.put("s_andn2_b64", left, left, one)
        site.put("s_mov_b64", "exec", left)
        site.put("s_cbranch_execnz", again)
        site.put(f"{end}:")
        site.put("s_mov_b64", "exec", held)


CHANGES: dict[str, Callable[..., Word]] = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "and": lambda old, value: old & value,
    "or": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "smin": smin, "umin": umin, "smax": smax, "umax": umax, "add_f32": fadd,
    "cmpst": lambda old, value, compared: where(eq(old, compared), value, old),
}  # fmt: skip


def _changed(site: Site, operation: str, old: str, values: list[str]) -> str:
    """A register with what an atomic operation leaves in memory."""
    if operation in ("swap", "wrxchg"):
        return values[0]
    new = site.vgpr()
    if operation in CHANGES:
        put(site, new, CHANGES[operation], old, *values)
        return new
    neg = "-" if operation == "min_f32" else ""
    vector_float.larger(site, new, neg + old, neg + values[0])
    if neg:
        site.put("v_xor_b32_e32", new, "0x80000000", new)
    return new


def _chosen_64(stays: Callable[[Wide, Wide], Word]) -> Callable[..., Wide]:
    """The old value in the lanes of a mask, else the new one."""

    def of(old: Wide, value: Wide, *compared: Wide) -> Wide:
        kept = stays(old, *(compared or (value,)))
        return Wide(*(where(kept, *halves) for halves in zip(old, value, strict=True)))

    return of


def _summed(old: Wide, value: Wide, total: Callable[..., Word]) -> Wide:
    low = total(old.low, value.low)
    return Wide(low, total(old.high, value.high, carry(low)))


def _each(name: str) -> Callable[[Wide, Wide], Wide]:
    return lambda old, value: Wide(*map(CHANGES[name], old, value))


CHANGES_64: dict[str, Callable[..., Wide]] = {
    **{name: _each(name) for name in ("and", "or", "xor")},
    "add": lambda old, value: _summed(old, value, add_co),
    "sub": lambda old, value: _summed(old, value, sub_co),
    "cmpst": _chosen_64(lambda old, compared: ne(differing(old, compared), 0)),
    **{
        f"{kind}{end}": _chosen_64(partial(less, signed=kind == "s"))
        for kind in "su"
        for end, less in (("min", less_64), ("max", more_64))
    },
}


def _changed_64(site: Site, operation: str, old: str, values: list[str]) -> str:
    """A pair of registers with what an atomic operation of 64 bits leaves in memory."""
    pairs = [f"v[{low[1:]}:{high[1:]}]" for low, high in zip(values[::2], values[1::2])]
    if operation in ("swap", "wrxchg"):
        return pairs[0]
    made = site.vgpr_pair()[0]
    if operation == "add_f64":
        site.put("v_add_f64", made, old, *pairs)
        return made
    put(site, made, CHANGES_64[operation], old, *pairs)
    return made


# Atomics -------------------------------------------------------------------------------------


@rule(_NAMES.replace("KIND", "global"), GFX942)
@rule("global_atomic_add_f64", GFX942)
@rule(_NAMES.replace("KIND", "flat"), GFX803)
def global_atomic(site: Site) -> None:
    """The old value is returned where there is one operand more."""
    kind, _, operation = site.item.mnemonic.split("_", 2)
    wide = operation.endswith(_WIDE)
    operation = operation.removesuffix("_x2").replace("cmpswap", "cmpst")
    operands = list(site.item.operands)
    base = [operands.pop()] if kind == "global" else []
    result = operands.pop(0) if len(operands) == 3 else ""
    address, data = operands
    # cmpswap has two: the value to write, and the one to compare with
    values = list(registers(data))
    words = "dwordx2" if wide else "dword"
    tail = tuple(w for w in site.item.tail if w.startswith("offset:"))
    site.only_emulated(ATOMIC)

    def body() -> None:
        old = site.vgpr_pair()[0] if wide else site.vgpr()
        site.put(f"{kind}_load_{words}", old, address, *base, tail=tail)
        site.put("s_waitcnt", "vmcnt(0) lgkmcnt(0)")
        new = (_changed_64 if wide else _changed)(site, operation, old, values)
        site.put(f"{kind}_store_{words}", address, new, *base, tail=tail)
        site.put("s_waitcnt", "vmcnt(0) lgkmcnt(0)")
        if result:
            for found, was in zip(registers(result), registers(old), strict=True):
                site.put("v_mov_b32_e32", found, was)

    _each_lane(site, body)


@rule("buffer_wbl2 buffer_inv", GFX942)
@rule("buffer_wbinvl1 buffer_wbinvl1_vol", GFX803)
def fence(site: Site) -> None:
    """The emulator has no caches, and a wavefront's accesses happen in order."""
    site.only_emulated(FENCE)
    site.put("s_nop", "0")


_LDS = [
    *(f"ds_{o}_u{n}" for o in ("add", "sub", "min", "max") for n in (32, 64)),
    *(f"ds_{o}_i{n}" for o in ("min", "max") for n in (32, 64)),
    *(f"ds_{o}_b{n}" for o in ("and", "or", "xor", "cmpst") for n in (32, 64)),
    *(f"ds_{o}_f32" for o in ("add", "min", "max")),
]
_RETURNING = [re.sub(r"_(\w\d\d)$", r"_rtn_\1", name) for name in _LDS]


@rule(" ".join([*_LDS, *_RETURNING, "ds_wrxchg_rtn_b32", "ds_wrxchg_rtn_b64"]))
@rule("ds_add_f64 ds_add_rtn_f64", GFX942)
def local_atomic(site: Site) -> None:
    operands = list(site.item.operands)
    _, operation, *_, kind = site.item.mnemonic.split("_")
    result = operands.pop(0) if "_rtn_" in site.item.mnemonic else ""
    address, *data = operands
    if operation == "cmpst":  # what to compare with comes first
        data.reverse()
    values = [each for value in data for each in registers(value)]
    if kind[0] == "f":
        operation += f"_{kind}"
    elif operation in ("min", "max"):
        operation = ("s" if kind[0] == "i" else "u") + operation
    if not site.one_wavefront:
        site.only_emulated(ATOMIC)
    wide = kind.endswith("64")

    offset = integer(site.item.modifier("offset") or "0") or 0

    def body() -> None:
        old = site.vgpr_pair()[0] if wide else site.vgpr()
        if wide:
            memory.read_64(site, old, address, offset)
        else:
            site.put("ds_read_b32", old, address, tail=site.item.tail)
        site.put("s_waitcnt", "lgkmcnt(0)")
        new = (_changed_64 if wide else _changed)(site, operation, old, values)
        if wide:
            memory.write_64(site, address, new, offset)
        else:
            site.put("ds_write_b32", address, new, tail=site.item.tail)
        for found, was in zip(registers(result) if result else (), registers(old), strict=False):
            site.put("v_mov_b32_e32", found, was)

    _each_lane(site, body)


# Narrow stores -------------------------------------------------------------------------------


@rule("global_store_byte global_store_short", GFX942)
@rule("global_store_byte_d16_hi global_store_short_d16_hi", GFX942)
@rule("flat_store_byte flat_store_short", GFX803)
def store_narrow(site: Site) -> None:
    """Into the word around, for the lanes that have the same place in their words at once.

    Two such lanes have different words, or mean the same byte. Shorts at odd addresses, as of
    packed structures, are rare, so a wavefront without them goes past what they need.
    """
    address, value, *base = site.item.operands
    kind, _, what, *half = site.item.mnemonic.split("_")
    bits = 8 if what == "byte" else 16
    pair, low = _whole_address(site, address, base)
    place, old, keep, new = (site.vgpr() for _ in range(4))
    mask, _, _ = site.sgpr_pair()
    held, _, _ = site.sgpr_pair()
    site.only_emulated(NARROW)
    site.put("v_and_b32_e32", place, "3", low)
    site.put("v_and_b32_e32", low, "-4", low)
    site.put("v_lshlrev_b32_e32", place, "3", place)
    if half:
        site.put("v_lshrrev_b32_e32", new, "16", value)
    site.put("v_and_b32_e32", new, hex((1 << bits) - 1), new if half else value)
    site.put("v_lshlrev_b32_e32", new, place, new)
    site.put("v_lshlrev_b32_e32", keep, place, site.held((1 << bits) - 1))
    site.put("v_not_b32_e32", keep, keep)
    site.put("s_mov_b64", held, "exec")
    base = ["off"] if kind == "global" else []

    def into_words(shift: int) -> None:
        site.put("v_cmp_eq_u32_e64", mask, str(shift), place)
        site.put("s_and_b64", "exec", held, mask)
        into_these()

    def into_these() -> None:
        site.put(f"{kind}_load_dword", old, pair, *base)
        site.put("s_waitcnt", "vmcnt(0) lgkmcnt(0)")
        site.put("v_and_b32_e32", old, keep, old)
        site.put("v_or_b32_e32", old, new, old)
        site.put(f"{kind}_store_dword", pair, old, *base)
        site.put("s_waitcnt", "vmcnt(0) lgkmcnt(0)")

    with site.saving_scc():
        for shift in range(0, 32, bits):
            into_words(shift)
            site.put("s_mov_b64", "exec", held)
        if bits == 16:
            even, odd = site.label("even"), site.vgpr()
            site.put("v_and_b32_e32", odd, "8", place)
            site.put("v_cmp_ne_u32_e64", mask, "0", odd)
            site.put("s_and_b64", "exec", held, mask)
            site.put("s_cbranch_execz", even)
            into_words(8)
            site.put("s_mov_b64", "exec", held)
            into_words(24)  # the lower byte; the upper one begins the next word
            site.add_64(site.halves(pair), site.halves(pair), "4")
            site.put("v_mov_b32_e32", keep, "0xffffff00")
            site.put("v_lshrrev_b32_e32", new, "24" if half else "8", value)
            site.put("v_and_b32_e32", new, "0xff", new)
            into_these()
            site.put(f"{even}:")
            site.put("s_mov_b64", "exec", held)


def _whole_address(site: Site, address: str, base: list[str]) -> tuple[str, str]:
    """A pair of registers with base, register and offset added up, and its lower half."""
    pair, low, high = site.vgpr_pair()
    parts = registers(address)
    offset = integer(site.item.modifier("offset") or "0") or 0
    if base and base[0] != "off":
        for register, source in zip((low, high), registers(base[0]), strict=True):
            site.put("v_mov_b32_e32", register, source)
        site.add_64((low, high), (low, high), address)
    else:
        for register, source in zip((low, high), parts, strict=True):
            site.put("v_mov_b32_e32", register, source)
    if offset:
        carry, _, _ = site.sgpr_pair()
        add, add_carry = ("v_add_u32_e64", "v_addc_u32_e64") if site.gcn3 else (
            "v_add_co_u32_e64", "v_addc_co_u32_e64",
        )  # fmt: skip
        upper = site.held(0xFFFFFFFF if offset < 0 else 0)
        site.put(add, low, carry, low, site.held(offset & 0xFFFFFFFF))
        site.put(add_carry, high, carry, high, upper, carry)
    return pair, low
