"""What scalar atomics leave and return, worked out one tuple at a time in Python's integers."""

from __future__ import annotations

import numpy as np
import pytest
from census import census

from simgen_examine.conform import bundling, description, judging
from simgen_examine.conform.arithmetic import KEPT
from simgen_examine.conform.judging import Found
from simgen_examine.conform.page import reproducer
from simgen_examine.conform.scalar_atomics import scalar_atomics
from simgen_examine.conform.scalar_memory import INTO, WINDOW

FORMS = list(scalar_atomics("gfx902", description.words("gfx902")))


def right(change: str, old: int, a: int, b: int, bits: int) -> int:
    def signed(value: int) -> int:
        return value - (value >> bits - 1 << bits)

    return {
        "swap": a, "cmpswap": a if old == b else old, "add": old + a, "sub": old - a,
        "smin": min(old, a, key=signed), "smax": max(old, a, key=signed), "umin": min(old, a),
        "umax": max(old, a), "and": old & a, "or": old | a, "xor": old ^ a,
        "inc": 0 if old >= a else old + 1, "dec": a if old == 0 or old > a else old - 1,
    }[change] % 2**bits  # fmt: skip


@census("form", FORMS)
def test_what_is_left_and_returned(form):
    wide = form.mnemonic.endswith("_x2")
    bits, words = (64, 2) if wide else (32, 1)
    change = form.mnemonic.removesuffix("_x2").rpartition("_")[2]
    given = bundling.tried(form.signature, form.scalar)
    found = np.stack([each.expected.value for each in form.outcome(given)])
    assert found.shape[0] == words + WINDOW
    equal = 0
    for t in range(1024):
        old, a = (
            int.from_bytes(given[at, :, t].tobytes()[: bits // 8], "little") for at in range(2)
        )
        b = a if wide else int(given[1, 1, t])
        b = old if t % 3 == 0 else b
        new = right(change, old, a, b, bits)
        equal += new != old
        returned = old if form.text.endswith(" glc") else a
        assert found[:words, t].tobytes() == returned.to_bytes(bits // 8, "little")
        window = bytearray(np.full(WINDOW, KEPT, np.uint32).tobytes())
        window[INTO : INTO + bits // 8] = new.to_bytes(bits // 8, "little")
        assert found[words:, t].tobytes() == window
    assert equal > 300


def test_a_register_that_does_not_stay_is_seen():
    form = next(each for each in FORMS if each.text.startswith("s_atomic_add s22, s[14:15], 0x8"))
    given = bundling.tried(form.signature, form.scalar)
    words = np.stack([each.expected.value for each in form.outcome(given)])
    assert judging.judged(form, words).found is Found.RIGHT
    words[0] = given[0, 0]  # what was there
    seen = judging.judged(form, words)
    assert seen.found is Found.WRONG
    lines = reproducer(seen)
    assert len(lines) <= 16
    assert form.text in lines
    assert any(line.startswith("global_store_dword ") for line in lines)


def test_what_is_compared_is_in_the_reproducer():
    form = next(each for each in FORMS if each.mnemonic == "s_atomic_cmpswap_x2")
    given = bundling.tried(form.signature, form.scalar)
    words = np.stack([each.expected.value for each in form.outcome(given)])
    words[-1, 3] ^= 1
    lines = reproducer(judging.judged(form, words))
    assert "s_mov_b32 s24, 1" in lines
    assert lines.index("s_mov_b32 s24, 1") < lines.index("s_cmp_lg_u32 s24, 0")


@pytest.mark.parametrize("arch", ["gfx803", "gfx902", "gfx90a", "gfx942"])
def test_all_that_an_architecture_has_are_tried(arch: str):
    known = description.words(arch)
    found = {each.mnemonic for each in scalar_atomics(arch, known)}
    assert found == {each for each in known if each.startswith(("s_atomic_", "s_buffer_atomic_"))}
    assert bool(found) == (arch != "gfx803")
