"""Rounding modes and flushed subnormals, against vectors worked out by hand and exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from simgen_examine.conform import description, floats, lint_table, values
from simgen_examine.conform.catalogue import catalogue
from simgen_examine.conform.expected import Expected
from simgen_examine.conform.float_mode import (
    DOWN,
    FLUSHING,
    NEAREST,
    UP,
    USUAL,
    ZERO,
    FloatMode,
    computed,
)
from simgen_examine.conform.integers import typed
from simgen_examine.conform.judging import Found, Seen
from simgen_examine.conform.modes import InMode, modes
from simgen_examine.conform.page import Told, reproducer

F, D, H = np.float32, np.float64, np.float16
ARCHITECTURES = ("gfx803", "gfx902", "gfx90a", "gfx942")
MOST, TINY, LEAST = (float(np.finfo(F).max), float(np.finfo(F).tiny), 2.0**-149)
THIRD = 0x3EAAAAAB


def mode(rounds: int = NEAREST, keeps: int = 3) -> FloatMode:
    return FloatMode(rounds, rounds, keeps, keeps)


# (function, type, sources, results: to nearest, towards +inf, -inf and 0)
ROUNDED = [
    ("fadd", F, [1.0, 2.0**-30], [1.0, 1 + 2.0**-23, 1.0, 1.0]),
    ("fadd", F, [-1.0, -(2.0**-30)], [-1.0, -1.0, -1 - 2.0**-23, -1.0]),
    ("fadd", F, [MOST, MOST], [np.inf, np.inf, MOST, MOST]),
    ("fsub", F, [-MOST, MOST], [-np.inf, -MOST, -np.inf, -MOST]),
    ("fmul", F, [LEAST, 0.25], [0.0, LEAST, 0.0, 0.0]),
    ("fmul", F, [-LEAST, 0.25], [-0.0, -0.0, -LEAST, -0.0]),
    ("fma", F, [1 + 2.0**-23, 1 + 2.0**-23, -1.0], [2.0**-22, 2.0**-22 * (1 + 2.0**-23)] +
     [2.0**-22] * 2),
    ("fadd", D, [1.0, 2.0**-60], [1.0, 1 + 2.0**-52, 1.0, 1.0]),
    ("fmul", D, [1 + 2.0**-52, 1 + 2.0**-52], [1 + 2.0**-51] + [1 + 3 * 2.0**-52] +
     [1 + 2.0**-51] * 2),
    ("fadd", H, [1.0, 2.0**-14], [1.0, 1 + 2.0**-10, 1.0, 1.0]),
    ("mad", F, [1 + 2.0**-23, 1 + 2.0**-23, -1.0], [2.0**-22, 3 * 2.0**-23, 2.0**-22, 2.0**-22]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "type_", "sources", "results"), ROUNDED)
def test_results_are_rounded_as_the_mode_says(name: str, type_, sources, results):
    given = [np.array([each], type_) for each in sources]
    for rounds, result in enumerate(results):
        found = computed(name, mode(rounds), *given)
        right = np.array([result], type_)
        assert found.right(right).all(), (rounds, found.value)
        for other in set(results) - {result}:
            if other == 0 or result == 0:  # which zero is looked at by itself
                continue
            assert not found.right(np.array([other], type_)).any(), (rounds, other)


def test_conversions_are_rounded_too():
    tenth, big = np.array([0.1, -0.1]), np.array([65519.0, 1e30], F)
    up, down = (computed("cvt_f32", mode(each), tenth).value for each in (UP, DOWN))
    assert up.tolist() == [float(F(0.1)), -float(np.nextafter(F(0.1), F(0)))]
    assert down.tolist() == [float(np.nextafter(F(0.1), F(0))), -float(F(0.1))]
    assert computed("cvt_f16", mode(ZERO), big).value.tolist() == [65504.0, 65504.0]
    assert computed("cvt_f16", mode(UP), big).value.tolist() == [np.inf, np.inf]


def test_integers_are_rounded_by_the_mode_or_to_nearest():
    given = np.array([0x7FFFFFFF], np.int32)
    found = computed("cvt_f32", mode(ZERO), given)
    below, nearest = F(2.0**31 - 128), F(2.0**31)
    assert found.right(np.array([below])).all()
    assert found.right(np.array([nearest])).all()
    assert not found.right(np.array([F(2.0**31 + 256)])).any()


@pytest.mark.parametrize(("keeps", "found"), [(0, 0.0), (1, TINY), (2, 0.0), (3, TINY)])
def test_subnormal_sources_are_flushed(keeps: int, found: float):
    half = np.array([TINY / 2], F)
    assert computed("fadd", mode(keeps=keeps), half, half).value.tolist() == [found]


@pytest.mark.parametrize(("keeps", "found"), [(0, -0.0), (1, -0.0), (2, -TINY / 2), (3, -TINY / 2)])
def test_subnormal_results_are_flushed(keeps: int, found: float):
    tiny, half = np.array([-TINY], F), np.array([0.5], F)
    value = computed("fmul", mode(keeps=keeps), tiny, half).value
    assert value.view(np.uint32).tolist() == np.array([found], F).view(np.uint32).tolist()


def test_a_result_that_rounds_to_the_least_normal_number_may_be_flushed():
    a, b = np.array([TINY], F), np.array([1 - 2.0**-24], F)
    found = computed("fmul", mode(keeps=0), a, b)
    assert found.right(np.array([TINY], F)).all()
    assert found.right(np.array([0.0], F)).all()
    assert not computed("fmul", mode(), a, b).right(np.array([0.0], F)).any()


def test_a_sum_that_vanishes_is_either_zero_towards_minus_infinity_only():
    one = np.array([1.0], F)
    zero = np.array([0.0], F)
    for rounds in range(4):
        found = computed("fsub", mode(rounds), one, one)
        assert found.right(zero).all()
        assert found.right(-zero).all() == (rounds == DOWN)


@pytest.mark.parametrize("type_", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", ["fadd", "fmul", "fma"])
def test_directed_results_enclose_the_exact_one(name: str, type_: str):
    count = 3 if name == "fma" else 2
    words = values.tuples((type_,) * count)
    given = [typed(words[at], type_) for at in range(count)]
    down, up, zero = (computed(name, mode(each), *given).value for each in (DOWN, UP, ZERO))
    looked = 0
    for at in np.flatnonzero(np.logical_and.reduce([np.isfinite(each) for each in given])):
        a, b, *c = (Fraction(float(each[at])) for each in given)
        exact = a + b if name == "fadd" else a * b + sum(c)
        low, high = float(down[at]), float(up[at])
        assert np.isinf(low) or Fraction(low) <= exact
        assert np.isinf(high) or exact <= Fraction(high)
        with np.errstate(over="ignore"):
            step = float(np.nextafter(down[at], down.dtype.type(np.inf)))
        assert low == high or step == high or low == 0 == high
        assert abs(float(zero[at])) == min(abs(low), abs(high))
        looked += low != high
    assert looked > 150


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_instruction_that_rounds_is_tried_in_each_mode(arch: str):
    found: dict[str, set[FloatMode]] = {}
    for form in modes(arch, description.words(arch)):
        if isinstance(form.plan, InMode):
            found.setdefault(form.instruction.name, set()).add(form.mode)
    names = {"v_add_f32", "v_mul_f32", "v_add_f16", "v_mul_f16", "v_add_f64", "v_fma_f64"}
    for name in {*names, "v_fma_f32"}:
        assert {each.round_32 for each in found[name]} == set(range(4))
        assert {each.denorm_16_64 for each in found[name]} == set(range(4))
    assert {each.round_32 for each in found["v_cvt_f32_f64"]} == {UP, DOWN, ZERO}
    assert not {"v_cvt_f64_f32", "v_cvt_f32_f16", "v_min_f32"} & set(found)


def test_a_form_in_a_mode_knows_when_a_simulator_ignores_it():
    (form,) = (
        each for each in modes("gfx942", description.words("gfx942"))
        if each.text.startswith("v_add_f32_e32") and each.mode == mode(UP)
    )  # fmt: skip
    words = values.tuples(form.signature)
    (wanted,) = form.outcome(words)
    with np.errstate(all="ignore"):
        ignored = typed(words[0], "f32") + typed(words[1], "f32")
    assert 200 < (~wanted.right(ignored.view(np.uint32)[None])).sum() < 500
    assert wanted.right(wanted.expected.value.view(np.uint32)[None]).all()


def test_what_is_wrong_in_a_mode_is_not_wrong_in_lint_but_told_with_its_descriptor():
    seen = []
    for form in catalogue("gfx942"):
        if form.mnemonic in ("v_add_f32_e32", "s_setreg_b32"):
            bad = form.mode not in (USUAL, FLUSHING) or form.mnemonic == "s_setreg_b32"
            seen.append(Seen(form, Found.WRONG if bad else Found.RIGHT, "", 500 * bad, 1024))
    told = Told("a simulator", "gfx942", tuple(seen), 1.0)
    (table,) = lint_table.rows(told, "mgpusim", "1")["tables"]
    assert set(table["wrong"]) == {"s_setreg_b32"}
    first = next(each for each in seen if each.form.mode == FloatMode(UP, UP))
    assert reproducer(first)[0] == (
        "; .amdhsa_float_round_mode_32 1 .amdhsa_float_round_mode_16_64 1"
    )


def test_usual_mode_gives_what_the_functions_give():
    words = values.tuples(("f32", "f32"))
    a, b = (typed(words[at], "f32") for at in range(2))
    for name in ("fadd", "fsub", "fsubrev", "fmul"):
        assert computed(name, USUAL, a, b).right(floats.FUNCTIONS[name](a, b)).all()
        assert Expected(floats.FUNCTIONS[name](a, b)).right(computed(name, USUAL, a, b).value).all()


def test_a_mode_is_told_in_words():
    assert FloatMode(UP, UP).text == "rounding up"
    assert FloatMode(denorm_32=0, denorm_16_64=0).text == "flushing subnormals"
    assert FloatMode(ZERO).text == "rounding to 0 of f32"
    assert FloatMode(DOWN, UP, 2, 1).text == (
        "rounding down and flushing subnormal sources of f32, "
        "rounding up and flushing subnormal results of f16 and f64"
    )
    for arch in ARCHITECTURES:
        forms = [(each.text, each.what) for each in modes(arch, description.words(arch))]
        assert len(set(forms)) == len(forms)
