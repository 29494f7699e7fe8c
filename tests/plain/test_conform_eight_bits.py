"""8-bit floats of gfx942: decoded and rounded one at a time, with exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from simgen_examine.conform import bundling, description, judging, values
from simgen_examine.conform.arithmetic import KEPT
from simgen_examine.conform.eight_bits import eight_bit_conversions, rounded
from simgen_examine.conform.judging import Found

KNOWN = description.words("gfx942")
FORMS = list(eight_bit_conversions("gfx942", KNOWN))
BIAS, MANTISSA = {"fp8": 8, "bf8": 16}, {"fp8": 3, "bf8": 2}
MOST = {"fp8": 240.0, "bf8": 57344.0}


def decoded(byte: int, kind: str) -> float:
    if byte == 0x80:
        return math.nan
    below = MANTISSA[kind]
    exponent, fraction = byte >> below & (1 << 7 - below) - 1, byte & (1 << below) - 1
    if exponent:
        size = (1 + fraction / 2**below) * 2.0 ** (exponent - BIAS[kind])
    else:
        size = fraction / 2**below * 2.0 ** (1 - BIAS[kind])
    return -size if byte >> 7 else size


def nearest(value: float, kind: str) -> int:
    """The byte next to a number that is not beyond the largest; of two, the even one."""
    every = [each for each in range(256) if each != 0x80]
    least = min(abs(Fraction(decoded(each, kind)) - Fraction(value)) for each in every)
    found = [
        each for each in every if abs(Fraction(decoded(each, kind)) - Fraction(value)) == least
    ]
    return next(each for each in found if len(found) == 1 or each % 2 == 0)


@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_all_bytes_are_what_they_are(kind: str):
    told = values.eight_bits(kind)
    for byte in range(256):
        right = decoded(byte, kind)
        assert told[byte] == right or (math.isnan(told[byte]) and math.isnan(right))
    assert told[0x7F] == MOST[kind]
    assert told.dtype == np.float64
    assert (told[~np.isnan(told)].astype(np.float32) == told[~np.isnan(told)]).all()


@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_numbers_are_rounded_to_the_nearest_byte(kind: str):
    words = values.tuples((f"f32_{kind}", f"f32_{kind}"))
    source = np.unique(words[:2, 0].view(np.float32))
    source = source[np.abs(source) <= MOST[kind]]
    assert len(source) > 500
    value, other = rounded(source, kind)
    ties = 0
    for at, number in enumerate(source.tolist()):
        right = nearest(number, kind)
        assert value[at] == other[at] == right, number
        ties += number != 0 and number in [
            (decoded(n, kind) + decoded(n + 1, kind)) / 2
            for n in (*range(0x7F), *range(0x81, 0xFF))
        ]
    assert ties >= 6, "or halfway cases are not tried"


@pytest.mark.parametrize(("kind", "number", "bytes_"), [
    ("fp8", 248.0, {0x7F, 0x80}), ("fp8", -1e30, {0xFF, 0x80}), ("fp8", math.inf, {0x7F, 0x80}),
    ("fp8", 247.9, {0x7F}), ("bf8", 61440.0, {0x7F, 0x80}), ("bf8", -61439.0, {0xFF}),
    ("fp8", math.nan, {0x80}), ("bf8", -0.0, {0x00}), ("fp8", -(2.0**-12), {0x00}),
])  # fmt: skip
def test_what_has_no_byte(kind: str, number: float, bytes_: set[int]):
    value, other = rounded(np.array([number], np.float32), kind)
    assert {int(value[0]), int(other[0])} == bytes_


@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_either_neighbour_is_right_at_random_and_an_exact_number_stays(kind: str):
    source = np.array([1.0, 1.01, -1.01, 2.0**-20, MOST[kind], math.nan], np.float32)
    value, other = rounded(source, kind, random=True)
    one = nearest(1.0, kind)
    assert value.tolist() == [one, one, one | 0x80, 0, 0x7F, 0x80]
    assert other.tolist() == [one, one + 1, one + 1 | 0x80, 1, 0x7F, 0x80]


def test_each_byte_of_a_register_is_tried_in_each_place():
    words = values.tuples(("4xu8",))
    assert words.shape == (values.SOURCES, 2, values.TUPLES)
    for shift in range(0, 32, 8):
        assert len(np.unique(words[0, 0] >> np.uint32(shift) & np.uint32(0xFF))) == 256


def outcome(name: str, what: str):
    (form,) = (
        each for each in FORMS if each.instruction.name == name and each.what == what
    )  # fmt: skip
    given = bundling.tried(form.signature, form.scalar)
    return form, given, form.outcome(given)


def test_parts_of_a_register_are_widened():
    _, given, (found,) = outcome("v_cvt_f32_bf8", "SDWA, a is BYTE_3")
    low, high = outcome("v_cvt_pk_f32_fp8", "SDWA, a is WORD_1")[2]
    for at in range(256):
        word = int(given[0, 0, at])
        for value, kind, shift in (
            (found, "bf8", 24), (low, "fp8", 16), (high, "fp8", 24)
        ):  # fmt: skip
            right = decoded(word >> shift & 0xFF, kind)
            got = float(value.expected.value[at])
            assert got == right or (math.isnan(got) and math.isnan(right))


def test_the_rest_of_a_register_stays():
    for name, what, kept in (
        ("v_cvt_pk_fp8_f32", "upper half", 0x0000FFFF),
        ("v_cvt_pk_bf8_f32", "lower half", 0xFFFF0000),
        ("v_cvt_sr_fp8_f32", "byte 2", 0xFF00FFFF), ("v_cvt_sr_bf8_f32", "byte 0", 0xFFFFFF00),
    ):  # fmt: skip
        form, _, (wanted,) = outcome(name, what)
        word = wanted.expected.value
        assert ((word ^ np.uint32(KEPT)) & np.uint32(kept) == 0).all()
        assert judging.judged(form, word[None]).found is Found.RIGHT
        assert judging.judged(form, wanted.expected.other[None]).found is Found.RIGHT
        changed = word ^ np.uint32(kept & -kept)
        assert judging.judged(form, changed[None]).wrong == 1024
        assert judging.judged(form, (word ^ np.uint32(0x01010101))[None]).wrong == 1024


def test_signs_are_changed_before_rounding():
    _, given, (wanted,) = outcome("v_cvt_pk_fp8_f32", "-|b|")
    b = given[1, 0].view(np.float32)
    value, _ = rounded(-np.abs(b), "fp8")
    assert ((wanted.expected.value >> np.uint32(8) & np.uint32(0xFF)) == value).all()


def test_only_gfx942_has_them_and_all_of_them_are_tried():
    names = {each.mnemonic for each in FORMS}
    known = {
        each for each in KNOWN if each.startswith("v_cvt") and ("fp8" in each or "bf8" in each)
    }
    assert names == known
    assert not list(eight_bit_conversions("gfx90a", description.words("gfx90a")))
