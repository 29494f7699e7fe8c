"""Rows made from the table of roles: each instruction in every form that its operands allow.

Sources are registers of either kind, inline constants (negative ones, too), literals, halves of VCC
and EXEC, and with modifiers; results lie apart, in a source, in VCC or a half of it; vector
instructions also run with half of their lanes. What they compute is in legalise_semantics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from legalise_rows import MASK, MASK_BITS, SCC, UNTOUCHED, VCC, VCC_BITS, Inputs, Row, clamp, first
from legalise_semantics import ALL, Meaning, meaning

from simgen.isa.legalise import bits, roles
from simgen.isa.legalise.assembly import integer, source_modifiers
from simgen.isa.legalise.simulators import native
from simgen.isa.legalise.table import RULES
from simgen.targets.mgpusim.target import model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Array = NDArray[Any]

# The encodings that have no long form beside them, or no short one.
SHORT = ("v_readfirstlane_b32", "v_swap_b32")
WITH_LITERAL = {"v_madak_f32": 2, "v_fmaak_f32": 2, "v_madmk_f32": 1, "v_fmamk_f32": 1}
LITERAL, FLOAT_LITERAL = "0x1234", "0xc0490fdb"
FLOAT_CONSTANTS = {"1.0": 1.0, "-0.5": -0.5, "2.0": 2.0, "4.0": 4.0}
# Sources that an instruction is confined to: what lies beyond has no meaning on hardware, or is
# refused (which is tested elsewhere).
CONFINED: dict[str, dict[int, tuple[str, ...]]] = {
    "v_bfe_i32": {1: ("4", "0", "28", "31"), 2: ("9", "1", "31")},
    **{name: {0: ("v2", "s8"), 1: ("v3", "s9")} for name in bits.PACKED if "mad" not in name},
    **{
        f"v_pk_mad_{kind}": {0: ("v2", "s8"), 1: ("v3", "s9"), 2: ("v4", "s10")}
        for kind in ("i16", "u16")
    },
    "v_lshl_add_u64": {1: ("3", "0", "4")},
    "s_bfe_u32": {1: ("0x70003", "0x100010", "0x1f0001", "0x200000", "0x40")},
    "s_bfe_i32": {1: ("0x70003", "0x100010", "0x1f0001", "0x200000", "0x40")},
}
CONFINED_GFX803: dict[str, dict[int, tuple[str, ...]]] = {"s_ashr_i64": {1: ("5", "37", "0", "63")}}
# What SCC holds behind these is refused where somebody reads it: MGPUSim gets it wrong.
SCC_REFUSED = {
    "gfx942": ("s_lshl1_add_u32", "s_lshl2_add_u32", "s_lshl3_add_u32", "s_lshl4_add_u32"),
    "gfx803": ("s_add_i32", "s_addk_i32", "s_addc_u32"),
}
CARRIES = ("_co_u32", "v_addc", "v_subb", "v_mad_u64", "v_mad_i64")


@dataclass(frozen=True)
class Form:
    """One way to write an instruction."""

    mnemonic: str
    operands: tuple[str, ...]
    values: tuple[str, ...]  # what the operands hold before: a text for each source
    before: tuple[str, ...] = ()  # instructions in front
    tail: str = ""
    partial: bool = False  # EXEC is the mask pattern


def mnemonics(arch: str) -> list[str]:
    """Everything that is legal, with the long forms that are made from short ones."""
    known = native(model(arch)) | RULES[arch].keys()
    found = set(known)
    for name in known:
        (form, *_) = roles.forms(name, arch)
        sources = [o for o in form.operands if o.is_read]
        plain = not any(o.lane_mask for o in form.operands)
        if name.endswith("_e32") and plain and len(sources) < 3:
            found.add(name.replace("_e32", "_e64"))
    return sorted(name for name in found if meaning(roles.base(name), arch))


def generated(arch: str) -> list[Row]:
    """All rows of an architecture that follow from the tables."""
    rows = []
    for mnemonic in mnemonics(arch):
        says = meaning(roles.base(mnemonic), arch)
        assert says
        (table, *_) = roles.forms(mnemonic, arch)
        for k, form in enumerate(_forms(mnemonic, table, says, arch)):
            rows.append(_row(f"{mnemonic}.{k}", form, table, says, arch))
    return rows


# Forms -----------------------------------------------------------------------------------------


def _forms(mnemonic: str, table: roles.Roles, says: Meaning, arch: str) -> Iterator[Form]:
    scalar = mnemonic.startswith("s_")
    first_form = _first(mnemonic, table)
    confined = CONFINED.get(roles.base(mnemonic), {})
    if arch == "gfx803":
        confined = {**CONFINED_GFX803.get(roles.base(mnemonic), {}), **confined}
    for at, texts in confined.items():
        first_form = _with(first_form, at, texts[0], table)
    yield first_form
    sources = _sources(table)
    for at, operand in enumerate(sources):
        if operand.role == "b":
            continue
        for text in confined.get(at) or _alternatives(mnemonic, table, says, at):
            if text != first_form.values[at]:
                yield _with(first_form, at, text, table)
    yield from _overlapping(first_form, table, scalar=scalar)
    if scalar:
        yield from _in_vcc(first_form, table)
        return
    if mnemonic != "v_readfirstlane_b32":
        yield replace(first_form, partial=True)
    if mnemonic.endswith("_e64") and says.floats and says.modifiers and "cndmask" not in mnemonic:
        yield replace(first_form, tail=" clamp")
        yield replace(first_form, tail=" mul:2")


def _sources(table: roles.Roles) -> list[roles.Operand]:
    return [o for o in table.operands if o.is_read or o.role == "i"]


def _first(mnemonic: str, table: roles.Roles) -> Form:
    """All operands in registers of their own."""
    scalar, short = mnemonic.startswith("s_"), _is_short(mnemonic)
    pairs = iter(("s[10:11]", "s[12:13]") if scalar else ("v[4:5]", "v[6:7]", "v[2:3]"))
    words = iter([f"s{8 + k}" for k in range(6)] if scalar else [f"v{2 + k}" for k in range(6)])
    results = iter(("v10", "v11"))
    operands, values, before = [], [], []
    for operand in table.operands:
        if operand.role == "i":
            text = "0x7"
        elif operand.lane_mask:
            text = "vcc" if short else "s[22:23]" if operand.role == "d" else "s[26:27]"
        elif operand.role == "d":
            if scalar or mnemonic == "v_readfirstlane_b32":
                text = "s20" if operand.width == 1 else "s[20:21]"
            else:
                text = "v10" if operand.width == 1 else "v[10:11]"
        else:
            text = next(words) if operand.width == 1 else next(pairs)
        if operand.role != "d":
            values.append(text)
        if operand.role == "b":
            held, text = text, "s20" if scalar else next(results)
            before.append(f"{'s_mov_b32' if scalar else 'v_mov_b32_e32'} {text}, {held}")
        operands.append(text)
    form = Form(mnemonic, tuple(operands), tuple(values), tuple(before))
    at = WITH_LITERAL.get(mnemonic)
    return form if at is None else _with(form, at, FLOAT_LITERAL, table)


def _is_short(mnemonic: str) -> bool:
    return mnemonic.endswith("_e32") or mnemonic in SHORT or mnemonic in WITH_LITERAL


def _with(form: Form, at: int, text: str, table: roles.Roles) -> Form:
    """The form with another source number `at`."""
    place = [k for k, o in enumerate(table.operands) if o.is_read or o.role == "i"][at]
    operands, values = list(form.operands), list(form.values)
    operands[place] = values[at] = text
    return replace(form, operands=tuple(operands), values=tuple(values))


def _alternatives(mnemonic: str, table: roles.Roles, says: Meaning, at: int) -> Iterator[str]:
    """Other texts for a source, as the encoding allows."""
    operand = _sources(table)[at]
    packed = mnemonic.startswith("v_pk_")
    if operand.role == "i":
        yield from ("0xfff0", "0x8001", "0x0")
    elif operand.lane_mask:
        yield from () if _is_short(mnemonic) else ("vcc", "s[22:23]")
    elif mnemonic.startswith("s_cmpk"):
        yield from ("vcc_lo", "vcc_hi", "exec_hi", "m0")
    elif mnemonic.startswith("s_bfe_") and at == 0:  # the field is a literal
        yield from ("7", "-3", "1.0", "vcc_lo", "vcc_hi", "exec_hi", "m0")
    elif mnemonic.startswith("s_"):
        yield from (
            ("7", "-3", "0x89abcdef", "1.0", "vcc_lo", "vcc_hi", "exec_hi", "m0", "s8")
            if operand.width == 1
            else ("5", "-1", "0x3e8", "vcc", "exec", "s[10:11]")
        )
    elif _is_short(mnemonic):
        if at == 0 and mnemonic != "v_swap_b32":
            yield from _short_sources(mnemonic, table, says, operand)
    else:
        yield from _long_sources(table, says, operand, at, packed=packed)


def _short_sources(
    mnemonic: str, table: roles.Roles, says: Meaning, operand: roles.Operand
) -> Iterator[str]:
    if operand.width == 2:
        yield from ("s[10:11]", "5", "-1", "vcc")
        return
    if mnemonic != "v_readfirstlane_b32":
        yield from ("7", "-3")
        yield from ("1.0", "-0.5") if says.modifiers else ()
    busy = mnemonic in WITH_LITERAL or any(o.lane_mask and o.is_read for o in table.operands)
    if not busy and mnemonic != "v_readfirstlane_b32":  # one scalar or literal in all
        yield from ("s8", LITERAL, "vcc_lo", "vcc_hi", "exec_hi")
        yield from (FLOAT_LITERAL,) if says.modifiers else ()


def _long_sources(
    table: roles.Roles, says: Meaning, operand: roles.Operand, at: int, *, packed: bool
) -> Iterator[str]:
    busy = any(o.lane_mask and o.is_read for o in table.operands)
    if operand.width == 2:
        yield from () if busy else ("s[10:11]",)
        yield from () if packed else ("-1", "5")
        return
    yield from ("7", "-3")
    if not busy:
        yield from (f"s{8 + at}", "vcc_lo", "vcc_hi", "exec_hi")
    if says.modifiers and not (says.class_mask and at == 1):
        register = f"v{2 + at}"
        yield from ("1.0", "-0.5", f"-{register}", f"|{register}|", f"-|{register}|")


def _overlapping(form: Form, table: roles.Roles, *, scalar: bool) -> Iterator[Form]:
    """A result in the register of each source."""
    result = next((o for o in table.operands if o.role == "d" and not o.lane_mask), None)
    if result is None or form.operands[0].startswith("s") != scalar:
        return
    low = 20 if scalar else 10
    kind, move = ("s", "s_mov_b32") if scalar else ("v", "v_mov_b32_e32")
    places = [k for k, o in enumerate(table.operands) if o.is_read]
    for place in places:
        operand, text = table.operands[place], form.operands[place]
        if operand.lane_mask or text[0] != kind or operand.role == "b":
            continue
        first_word = int(text.strip("sv[").split(":")[0])
        shifts = (0, 1) if operand.width < result.width else (0,)
        for shift in shifts:
            words = [f"{kind}{low + shift + k}" for k in range(operand.width)]
            before = [f"{move} {to}, {kind}{first_word + k}" for k, to in enumerate(words)]
            inside = words[0] if operand.width == 1 else f"{kind}[{low}:{low + 1}]"
            operands = list(form.operands)
            operands[place] = inside
            yield replace(form, operands=tuple(operands), before=(*form.before, *before))


def _in_vcc(form: Form, table: roles.Roles) -> Iterator[Form]:
    """Results in VCC and its halves, and sources that are written to there."""
    if not table.operands or not table.operands[0].is_written:
        return
    width, role = table.operands[0].width, table.operands[0].role
    for text in ("vcc_lo", "vcc_hi") if width == 1 else ("vcc",):
        if role == "b":
            values = (text, *form.values[1:])
            yield replace(form, operands=(text, *form.operands[1:]), values=values, before=())
        else:
            yield replace(form, operands=(text, *form.operands[1:]))


# Rows ------------------------------------------------------------------------------------------


def _row(name: str, form: Form, table: roles.Roles, says: Meaning, arch: str) -> Row:
    instruction = f"{form.mnemonic} {', '.join(form.operands)}{form.tail}"
    code = [*form.before, instruction]
    if form.partial:
        code = [*form.before, "s_mov_b64 exec, s[26:27]", instruction, "s_mov_b64 exec, -1"]
    dead = form.mnemonic in SCC_REFUSED[arch]
    if dead:
        code.append("s_cmp_eq_u32 s8, s8")
    scalar = form.mnemonic.startswith("s_")
    outputs = (4, 5) if scalar or form.mnemonic == "v_readfirstlane_b32" else (0, 1)
    partial_carry = form.partial and any(part in form.mnemonic for part in CARRIES)

    def expected(w: Inputs) -> dict[int, Array]:
        return _expected(form, table, says, w, dead_scc=dead)

    return Row(
        name, "; ".join(code), expected, (arch,), scalar, outputs=outputs, floats=says.floats,
        ulps=says.ulps, any_zero=says.any_zero or bool(form.tail),
        lanes=MASK_BITS if partial_carry else 2**64 - 1,
    )  # fmt: skip


def _expected(
    form: Form, table: roles.Roles, says: Meaning, w: Inputs, *, dead_scc: bool
) -> dict[int, Array]:
    sources = [
        _value(text, operand, w) for text, operand in zip(form.values, _sources(table), strict=True)
    ]
    if form.mnemonic == "v_readfirstlane_b32":
        sources = [sources[0][first(w)]]
    if "scc" in table.reads:
        sources.append(np.ones(w.items, np.uint32))
    results = says.of(*sources)
    results = results if isinstance(results, tuple) else (results,)
    active = w.bit(MASK_BITS if form.partial else 2**64 - 1) == 1
    found: dict[int, Array] = {}
    written = [o for o in zip(form.operands, table.operands) if o[1].is_written]
    for (text, operand), result in zip(written, results):
        if form.tail == " clamp":
            result = clamp(result.view(np.float32)).astype(np.float32).view(np.uint32)
        elif form.tail == " mul:2":
            result = (result.view(np.float32) * np.float32(2)).view(np.uint32)
        if operand.lane_mask:
            found[VCC if text == "vcc" else MASK] = np.where(active, result, 0)
        else:
            found |= _placed(form, text, result, active, w)
    for move in form.before:  # words of a wider source, beside the result
        register, source = move.split(maxsplit=1)[1].split(", ")
        number = int(register[1:]) - (10 if register[0] == "v" else 16)
        found.setdefault(number, _value(source, roles.Operand("s"), w))
    if "scc" in table.writes and not dead_scc:
        found[SCC] = results[len(written)]
    return found


def _placed(form: Form, text: str, result: Array, active: Array, w: Inputs) -> dict[int, Array]:
    """The outputs that a result in a register is seen in."""
    result = np.broadcast_to(result, (w.items,))
    if text in ("vcc", "vcc_lo", "vcc_hi"):
        return {VCC: _vcc_lanes(text, result, w)}
    kind, low = text[0], int(text.strip("sv[").split(":")[0])
    number = low - (10 if kind == "v" else 20) + (0 if kind == "v" else 4)
    wide = result.dtype == np.uint64
    words = [result & np.uint64(ALL), result >> np.uint64(32)] if wide else [result]
    found = {}
    for k, word in enumerate(words):
        before = np.full(w.items, UNTOUCHED + number + k, np.uint32)
        before = _moved_before(form, f"{kind}{low + k}", before, w)
        found[number + k] = np.where(active, word.astype(np.uint32), before)
    return found


def _moved_before(form: Form, register: str, otherwise: Array, w: Inputs) -> Array:
    for move in form.before:
        to, source = move.split(maxsplit=1)[1].split(", ")
        if to == register:
            return _value(source, roles.Operand("s"), w)
    return otherwise


def _vcc_lanes(text: str, result: Array, w: Inputs) -> Array:
    """The bit of each item in a VCC whose whole or half is a wavefront's result."""
    value = result.astype(object)
    low, high = VCC_BITS & ALL, VCC_BITS >> 32
    if text == "vcc_lo":
        value = value + (high << 32)
    elif text == "vcc_hi":
        value = (value * 2**32) + low
    return (value >> (np.arange(w.items) % 64).astype(object) & 1).astype(np.uint32)


def _value(text: str, operand: roles.Operand, w: Inputs) -> Array:
    """What a source holds: words, pairs as uint64, a lane mask as each item's bit."""
    neg, absolute, body = source_modifiers(text)
    held = _held(body, operand, w)
    held = np.broadcast_to(held, (w.items,))
    if absolute:
        held = held & np.uint32(0x7FFFFFFF)
    return held ^ np.uint32(0x80000000) if neg else held


def _held(body: str, operand: roles.Operand, w: Inputs) -> Array:
    masks = {"vcc": VCC_BITS, "exec": 2**64 - 1, "s[22:23]": MASK_BITS, "s[26:27]": MASK_BITS}
    if operand.lane_mask:
        return w.bit(masks[body])
    if operand.width == 2:
        if body in masks:
            return np.uint64(masks[body])
        number = integer(body)
        if number is not None:
            return np.uint64(number & (2**64 - 1))
        low = int(body[2:].split(":")[0])
        return w.u64(low - 2) if body[0] == "v" else w.u64(low - 8)[first(w)]
    half = {f"{m}_{h}": v >> s & ALL for m, v in masks.items() for h, s in (("lo", 0), ("hi", 32))}
    if body in half:
        return np.uint32(half[body])
    if body == "m0":
        return np.uint32(ALL)
    if body in FLOAT_CONSTANTS:
        return np.float32(FLOAT_CONSTANTS[body]).view(np.uint32)
    number = integer(body)
    if number is not None:
        return np.uint32(number & ALL)
    return w.u[int(body[1:]) - 2] if body[0] == "v" else w.u[int(body[1:]) - 8][first(w)]
