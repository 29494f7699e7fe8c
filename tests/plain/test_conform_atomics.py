"""What atomics leave and return, worked out one tuple at a time in Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from simgen.conform import bundling, description, judging
from simgen.conform.arithmetic import KEPT
from simgen.conform.atomics import atomics
from simgen.conform.judging import Found
from simgen.conform.stores import SOME, WINDOW

FORMS = list(atomics("gfx942", description.words("gfx942")))


def _right(word: str, old: int, a: int, b: int, bits: int) -> int:
    def signed(value: int) -> int:
        return value - (value >> bits - 1 << bits)

    told = {
        "global_atomic_add": old + a, "global_atomic_sub_x2": old - a,
        "global_atomic_smin": min(old, a, key=signed), "ds_max_rtn_i64": max(old, a, key=signed),
        "global_atomic_inc": 0 if old >= a else old + 1,
        "ds_dec_rtn_u32": a if old == 0 or old > a else old - 1,
        "global_atomic_cmpswap": a if old == b else old,
        "ds_cmpst_rtn_b64": b if old == a else old, "ds_mskor_b32": old & ~a | b,
    }  # fmt: skip
    return told[word] % 2**bits


@pytest.mark.parametrize("word", [
    "global_atomic_add", "global_atomic_sub_x2", "global_atomic_smin", "ds_max_rtn_i64",
    "global_atomic_inc", "ds_dec_rtn_u32", "global_atomic_cmpswap", "ds_cmpst_rtn_b64",
    "ds_mskor_b32",
])  # fmt: skip
def test_what_is_left_and_returned(word: str):
    bits = 64 if word.endswith(("x2", "64")) else 32
    for form in (each for each in FORMS if each.mnemonic == word):
        given = bundling.tried(form.signature, form.scalar)
        words = np.stack([each.expected.value for each in form.outcome(given)])
        returned = words.shape[0] - WINDOW
        assert returned in (0, bits // 32)
        for lane in range(1024):
            old, a, b = (int.from_bytes(given[n, : bits // 32, lane].tobytes(), "little")
                         for n in range(3))  # fmt: skip
            on = form.lanes >> lane % 64 & 1
            left = _right(word, old, a, b, bits) if on else old
            held = left.to_bytes(bits // 8, "little")
            rest = np.full(WINDOW - bits // 32, KEPT, np.uint32).tobytes()
            assert words[returned:, lane].tobytes() == held + rest
            if returned:
                back = words[:returned, lane]
                kept = np.full(returned, KEPT, np.uint32).tobytes()
                assert back.tobytes() == (old.to_bytes(bits // 8, "little") if on else kept)
        assert judging.judged(form, words).found is Found.RIGHT
        words[-1, 5] ^= 1
        assert judging.judged(form, words).wrong == 1


def test_some_lanes_are_tried():
    assert any(form.lanes == SOME for form in FORMS)
