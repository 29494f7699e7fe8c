"""What loads leave, worked out byte by byte from what lies in memory and LDS."""

from __future__ import annotations

import re

import numpy as np
import pytest

from simgen_examine.conform import bundling, description, judging
from simgen_examine.conform.arithmetic import KEPT
from simgen_examine.conform.forms import forms
from simgen_examine.conform.judging import Found
from simgen_examine.conform.movements import ECC, SOME_LANES, movements

BYTES = {"dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16, "ubyte": 1, "sbyte": 1,
         "ushort": 2, "sshort": 2, "short": 2, "b32": 4, "b64": 8, "u8": 1, "i8": 1, "u16": 2,
         "i16": 2}  # fmt: skip
SIGNED = ("sbyte", "sshort", "i8", "i16")


def _loads(arch: str):
    found = re.compile(r"(flat|global)_load_(\w+?)(_d16|_d16_hi)?|ds_read_([ui]\d+|b\d+)(_d16\w*)?")
    for form in movements(arch, description.words(arch)):
        if (named := found.fullmatch(form.mnemonic)) and (named[2] or named[4]) in BYTES:
            yield form, named[2] or named[4], named[3] or named[5] or ""


def _begin(form) -> int:
    """The byte from a lane's own place on at which a load begins."""
    if by := re.search(r"address \+ (\d)", form.what):
        return int(by[1])
    told = int(form.text.partition("offset:")[2] or 0)
    # The far ones have it in the address, too, with the contrary sign.
    return told if form.mnemonic.startswith("ds_") or told == 64 else 0


def _held(form, lane: int, given) -> bytes:
    """What lies from a lane's own place on."""
    if not form.mnemonic.startswith("ds_"):
        return given.reshape(-1).tobytes()[4 * lane :]
    rows = [[given[n, 0, at].tobytes() for n in (0, 1, 2, 0)] for at in range(lane, lane // 64 * 64
            + 64)]  # fmt: skip
    return b"".join(b"".join(row) for row in rows)


@pytest.mark.parametrize("arch", ["gfx803", "gfx902", "gfx942"])
def test_bytes_that_are_loaded(arch: str):
    seen = set()
    for form, kind, half in _loads(arch):
        seen.add((kind, half, form.what))
        given = bundling.tried(form.signature, form.scalar)
        outcomes = form.outcome(given)
        count = BYTES[kind]
        for lane in (0, 5, 63, 64, 401, 702):
            loaded = _held(form, lane, given)[_begin(form) :][:count]
            if len(loaded) < count:
                continue  # behind what was written
            whole = int.from_bytes(loaded, "little", signed=kind in SIGNED)
            words = [whole >> 32 * n & 0xFFFFFFFF for n in range(max(1, count // 4))]
            part = {"": 0xFFFFFFFF, "_d16": 0xFFFF, "_d16_hi": 0xFFFF0000}[half]
            if half:
                words[0] = words[0] << 16 * (half == "_d16_hi") & part | KEPT & ~part
            if not form.lanes >> lane % 64 & 1:
                words = [KEPT] * len(words)
            left = np.repeat(np.array(words, np.uint32)[:, None], 1024, 1)
            at = 0
            for each in outcomes:
                assert each.right(left[at : at + each.words])[lane], (form.text, form.what, lane)
                at += each.words
            # Another bit in what is loaded is wrong; in the other half, where that is told.
            on = form.lanes >> lane % 64 & 1
            for bit, told in ((0, half != "_d16_hi"), (31, half != "_d16")):
                changed = left ^ np.uint32(1 << bit)
                wrong = not outcomes[0].right(changed[: outcomes[0].words])[lane]
                assert wrong == (bool(told) or arch not in ECC or not on), (form.text, bit)
    assert ("dwordx3", "", "address + 3") in seen
    assert ("sbyte", "_d16_hi", "address + 3") in seen or arch == "gfx803"


def test_lanes_without_a_bit_in_exec_load_nothing():
    form = next(each for each, *_ in _loads("gfx902") if each.lanes == SOME_LANES)
    words = np.full((1, 1024), KEPT, np.uint32)
    seen = judging.judged(form, words)
    assert seen.found is Found.WRONG
    off = [lane for lane in range(1024) if not SOME_LANES >> lane % 64 & 1]
    assert seen.wrong == 1024 - len(off)


# Lane -> the lane of its row that it reads, - for none: AMD's "Vega" ISA, table of DPP_CTRL.
ROWS = {
    "quad_perm:[1,0,3,2]": "1 0 3 2 5 4 7 6 9 8 11 10 13 12 15 14",
    "row_shl:1": "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 -",
    "row_shr:3": "- - - 0 1 2 3 4 5 6 7 8 9 10 11 12",
    "row_ror:5": "11 12 13 14 15 0 1 2 3 4 5 6 7 8 9 10",
    "row_mirror": "15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0",
    "row_half_mirror": "7 6 5 4 3 2 1 0 15 14 13 12 11 10 9 8",
}
# Row -> the lane of the wavefront that all of its lanes read.
BROADCAST = {"row_bcast:15": (None, 15, 31, 47), "row_bcast:31": (None, None, 31, 31)}


@pytest.mark.parametrize("name", ["v_mov_b32", "v_xor_b32"])
def test_lanes_that_dpp_reads(name: str):
    seen = set()
    for form in forms("gfx902"):
        if form.mnemonic != f"{name}_dpp":
            continue
        control = form.text.split(" row_mask")[0].split()[-1]
        seen.add(form.what)
        given = bundling.tried(form.signature, form.scalar)
        (outcome,) = form.outcome(given)
        masks = [int(re.search(rf"{of}_mask:(\w+)", form.text)[1], 16) for of in ("row", "bank")]
        for lane in range(128):
            row, at = lane // 16 % 4, lane % 16
            if control in ROWS:
                told = ROWS[control].split()[at]
                source = None if told == "-" else lane - at + int(told)
            else:
                found = BROADCAST[control][row]
                source = None if found is None else lane // 64 * 64 + found
            written = masks[0] >> row & 1 and masks[1] >> at // 4 & 1
            if source is None and "bound_ctrl" not in form.text:
                written = False  # such a lane is off
            first = 0 if source is None else int(given[0, 0, source])
            value = first ^ int(given[1, 0, lane]) if name == "v_xor_b32" else first
            words = np.full((1, given.shape[2]), value if written else KEPT, np.uint32)
            assert outcome.right(words)[lane], f"{form.text}, lane {lane}"
            assert not outcome.right(words ^ 1)[lane], f"{form.text}, lane {lane}"
    assert len(seen) == (11 if name == "v_mov_b32" else 1)
