"""What atomics leave and return, worked out one tuple at a time in Python's integers."""

from __future__ import annotations

import itertools
import math
import struct
from fractions import Fraction

import numpy as np
import pytest

from simgen_examine.conform import bundling, description, judging
from simgen_examine.conform.arithmetic import KEPT
from simgen_examine.conform.atomics import atomics
from simgen_examine.conform.judging import Found
from simgen_examine.conform.stores import SOME_LANES, WINDOW

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


def _number(type_: str, bits: int) -> float:
    return struct.unpack(f"<{type_}", bits.to_bytes(struct.calcsize(type_), "little"))[0]


def _float_right(word: str, type_: str, old: int, a: int, b: int) -> int | None:
    """The bits that are left; None: any."""
    x, y, z = (_number(type_, each) for each in (old, a, b))
    least = {"f": 2.0**-126, "d": 2.0**-1022, "e": 2.0**-14}[type_]
    if "cmpst" in word:
        left, result = (b, z) if x == y else (old, x)
    elif "add" in word:
        result = x + y
        try:
            left = int.from_bytes(struct.pack(f"<{type_}", result), "little")
        except OverflowError:
            largest = {"f": 0x7F800000, "e": 0x7C00}[type_]
            left = largest | (result < 0) << 8 * struct.calcsize(type_) - 1
    else:
        if math.isnan(x) or math.isnan(y) or x == y == 0:
            return None
        lesser = y < x if "min" in word else y > x
        left, result = (a, y) if lesser else (old, x)
    if any(0 < abs(each) < least for each in (x, y, result)):
        return None
    return left


@pytest.mark.parametrize("word", [
    "ds_add_f32", "ds_min_rtn_f32", "ds_cmpst_f32", "global_atomic_add_f64", "ds_cmpst_rtn_f64",
    "flat_atomic_max_f64", "global_atomic_pk_add_f16", "ds_pk_add_rtn_f16",
])  # fmt: skip
def test_what_floats_leave(word: str):
    kind = word[-3:]
    type_, bits = {"f32": ("f", 32), "f64": ("d", 64), "f16": ("e", 16)}[kind]
    forms = [each for each in FORMS if each.mnemonic == word]
    assert forms
    for form in forms:
        given = bundling.tried(form.signature, form.scalar)
        (left,) = (each for each in form.outcome(given) if each.type == kind)
        values = left.expected.value.reshape(-1, 1024)
        free = np.asarray(left.expected.free).reshape(-1, 1024)
        told = 0
        for part, lane in itertools.product(range(len(values)), range(1024)):
            whole = (int.from_bytes(given[n, :, lane].tobytes(), "little") for n in range(3))
            old, a, b = (each >> 16 * part & (1 << bits) - 1 for each in whole)
            right = _float_right(word, type_, old, a, b)
            if not form.lanes >> lane % 64 & 1:
                right = old
            assert free[part, lane] == (right is None), (form.text, lane)
            if right is None:
                continue
            told += 1
            got = int.from_bytes(values[part, lane].tobytes(), "little")
            both = math.isnan(_number(type_, got)) and math.isnan(_number(type_, right))
            assert got == right or both, (form.text, lane)
        assert told > 0.5 * values.size, form.text


def _brain(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def _brain_sum(old: int, a: int) -> int | None:
    """The bf16 nearest to an exact sum, even ones of two; None: any, or any NaN."""
    x, y = _brain(old), _brain(a)
    if not (math.isfinite(x) and math.isfinite(y)):
        total = x + y
        return None if math.isnan(total) else 0x7F80 | (total < 0) << 15
    exact = Fraction(x) + Fraction(y)
    if any(0 < abs(each) < Fraction(2) ** -126 for each in (Fraction(x), Fraction(y), exact)):
        return None
    if exact == 0:
        return 0x8000 if old == a == 0x8000 else 0
    # Of the numbers of its sign in their order, the nearest one: by halving.
    low, high = 0, 0x7F80
    size = [Fraction(_brain(n)) for n in (0x7F7F, 0x7F7E)]
    value = lambda n: Fraction(_brain(n)) if n < 0x7F80 else 2 * size[0] - size[1]  # noqa: E731
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if value(middle) <= abs(exact) else (low, middle)
    below, above = abs(exact) - value(low), value(high) - abs(exact)
    nearest = low if (below, low % 2) < (above, high % 2) else high
    return nearest | (exact < 0) << 15


@pytest.mark.parametrize(
    "word", ["global_atomic_pk_add_bf16", "flat_atomic_pk_add_bf16", "ds_pk_add_rtn_bf16"]
)
def test_sums_of_packed_bf16(word: str):
    forms = [each for each in FORMS if each.mnemonic == word]
    assert forms
    for form in forms:
        given = bundling.tried(form.signature, form.scalar)
        left = next(each for each in form.outcome(given) if each.expected.value.ndim == 2)
        told = 0
        for part, lane in itertools.product((0, 1), range(1024)):
            old, a = (int(given[n, 0, lane]) >> 16 * part & 0xFFFF for n in (0, 1))
            right = _brain_sum(old, a) if form.lanes >> lane % 64 & 1 else old
            got = int(left.expected.value[part, lane])
            if right is None:
                assert left.expected.free[part, lane] or math.isnan(_brain(got)), (lane, part)
                continue
            told += 1
            assert got == right, (form.text, lane, part)
        assert told > 1400
        # A NaN of other bits is right, a number in its place is not.
        words = np.stack([left.expected.value[0] | left.expected.value[1].astype(np.uint32) << 16])
        nan = np.flatnonzero((words[0] & 0x7FFF) > 0x7F80)[0]
        words[0, nan] ^= 0x41
        assert left.right(words).all()
        words[0, nan] ^= 0x4000
        assert np.flatnonzero(~left.right(words)).tolist() == [nan]


def test_some_lanes_are_tried():
    assert any(form.lanes == SOME_LANES for form in FORMS)
