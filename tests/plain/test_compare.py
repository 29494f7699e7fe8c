"""Two tensors side by side: what counts as equal, as far apart, and as not to be trusted."""

from __future__ import annotations

import numpy as np
import pytest
from census import census
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from simgen.ground.dtypes import F8E4M3FN, F8E4M3FNUZ, I64, U64, DType
from simgen.ground.numerics.spread import Spread
from simgen.tensors import pouring
from simgen.verdict.compare import (
    ULP_CLASSES,
    WORST,
    Comparison,
    _apart,
    proves_nothing,
    remarks,
    suspicions,
)
from simgen.verdict.verdict import ulp_classes

INF, NAN = np.inf, np.nan
SMALLEST = np.float32(2.0**-149)


def compare(a, b, bound=0.0, reference=None):
    """One comparison of float32 lists; the reference is b unless given."""
    a, b = np.array(a, np.float32), np.array(b, np.float32)
    wide = b.astype(np.float64) if reference is None else np.array(reference, np.float64)
    made = Comparison(a.shape)
    made.add(0, a, b, wide, np.broadcast_to(np.float64(bound), a.shape))
    return made


# ------------------------------------------------------------------ one element


@census(
    "a, b, bound, passed",
    [
        (1.0, 1.0, 0.0, True),
        (1.0, 1.5, 0.5, True),  # a bound is inclusive
        (1.0, 1.5, 0.49, False),
        (1.0, np.nextafter(np.float32(1), np.float32(2)), 0.0, False),
        (0.0, -0.0, 0.0, True),
        (INF, INF, 0.0, True),
        (-INF, -INF, 0.0, True),
        (INF, -INF, 1e30, False),
        (INF, 3.0e38, 1e30, False),
        (3.0e38, INF, 1e30, False),
        (NAN, NAN, 0.0, True),
        (NAN, 1.0, 1e30, False),
        (1.0, NAN, 1e30, False),
        (NAN, INF, 1e30, False),
        (NAN, NAN, NAN, True),
        (INF, INF, NAN, True),
        (1.0, 1.0, NAN, True),
        (1.0, 2.0, INF, True),
        (SMALLEST, 0.0, 0.0, False),
        (SMALLEST, 0.0, 2.0**-149, True),
    ],
)
def test_one_element_passes_or_not(a, b, bound, passed):
    made = compare([a], [b], bound)
    assert made.passed is passed
    assert made.outside == (not passed)
    assert len(made.worst) == (a != b and not (np.isnan(a) and np.isnan(b)))


@pytest.mark.parametrize(
    ("a", "b", "bound"), [(NAN, 1.0, INF), (INF, 1.0, INF), (1.0, 2.0, NAN), (NAN, 1.0, NAN)]
)
def test_what_has_no_bound_is_not_wrong_and_proves_nothing(a, b, bound):
    made = compare([a, 3.0], [b, 3.0], [bound, 1.0])
    assert made.passed
    assert (made.outside, made.free) == (0, 1)
    assert proves_nothing(made) == "rounding has no bound there, in 1 of 2 elements"
    wrong = compare([a, 5.0], [b, 3.0], [bound, 1.0])
    assert wrong.outside == 1, "the other element is judged"


@pytest.mark.parametrize(("a", "b"), [(NAN, 1.0), (1.0, NAN), (INF, 1.0), (INF, -INF), (NAN, INF)])
def test_nan_or_infinity_on_one_side_is_counted_and_infinitely_wrong(a, b):
    made = compare([a, 1.0], [b, 1.0], 1.0)
    assert made.special == 1
    assert made.max_error == made.max_ratio == INF
    assert made.ulps[-1] == 1
    assert made.max_ulps == 0
    assert made.worst[0].error == INF


LARGEST = float(np.finfo(np.float32).max)
ROUNDED_UP = 2.0**128 - 2.0**103  # halfway to 2^128: rounds to infinity


@pytest.mark.parametrize(
    ("a", "reference", "bound", "passed"),
    [
        (INF, 1e39, 0.0, True),
        (-INF, -1e39, 0.0, True),
        (INF, ROUNDED_UP, 0.0, True),
        (INF, LARGEST, 0.0, False),
        (INF, LARGEST, 2.0**103, True),  # its bound lets it round up
        (LARGEST, ROUNDED_UP, 2.0**103, True),  # and the other way
        (LARGEST, 1e39, 1e30, False),
        (-INF, 1e39, 1e30, False),
        (NAN, 1e39, 1e30, False),
        (INF, INF, 0.0, True),
    ],
)
def test_what_overflows_float32_must_be_the_infinity_of_its_sign(a, reference, bound, passed):
    made = Comparison((1,))
    wide = np.array([reference])
    made.add(0, np.array([a], np.float32), wide, wide, np.array([bound]))
    assert made.passed is passed
    assert made.overflowed == (passed and abs(a) == INF)


@pytest.mark.parametrize(
    ("a", "reference", "bound", "passed"),
    [
        (NAN, 1408.0, 64.0, True),
        (NAN, -1408.0, 64.0, True),
        (NAN, INF, 0.0, True),
        (NAN, 448.0, 15.5, False),
        (NAN, 448.0, 32.0, True),
        (448.0, 465.0, 17.0, True),  # its bound lets it round down
        (448.0, 1408.0, 64.0, False),
        (NAN, 1.0, 0.5, False),
    ],
)
def test_what_overflows_a_type_without_infinity_must_be_nan(a, reference, bound, passed):
    made = Comparison((1,), F8E4M3FN)
    wide = np.array([reference])
    made.add(0, np.array([a], F8E4M3FN.array), wide, wide, np.array([bound]))
    assert made.passed is passed
    assert made.overflowed == (passed and a != a)


def test_zeros_beside_what_overflows_are_not_all_that_was_written():
    made = Comparison((16,), F8E4M3FN)
    reference = np.array([0.0] * 13 + [1408.0, 1e5, -1e4])
    found = np.where(reference == 0, 0.0, NAN)
    made.add(0, found, reference, reference, np.zeros(16))
    assert made.passed
    assert suspicions(made, 0, 0, guard_intact=True) == []


@pytest.mark.parametrize("dtype", [F8E4M3FN, F8E4M3FNUZ])
def test_what_overflows_may_look_like_what_nobody_wrote(dtype):
    """Of a type with one NaN of a sign: canaries where a number has to be are none of these."""
    reference = np.array([1e4, -1e4, 1e4, 1e4, 1.0, 0.5, 0.25, 2.0])
    for numbers, words in ((slice(4), []), (slice(8), ["8 of 8 elements were never written"])):
        found = reference.copy()
        found[numbers] = NAN
        made = Comparison((8,), dtype)
        made.add(0, found, reference, reference, np.zeros(8))
        untouched = int(np.isnan(found).sum())
        assert suspicions(made, 0, untouched, guard_intact=True) == words


@pytest.mark.parametrize(("b", "passed"), [(NAN, True), (448.0, True), (1.0, False)])
def test_two_results_may_overflow_a_type_without_infinity_on_one_side(b, passed):
    made = Comparison((1,), F8E4M3FN)
    made.add(0, np.array([NAN]), np.array([b]), np.array([1408.0]), np.array([64.0]))
    assert made.passed is passed
    assert made.overflowed == passed


@pytest.mark.parametrize(("b", "passed"), [(INF, True), (LARGEST, True), (1.0, False)])
def test_of_two_results_both_may_be_what_the_reference_rounds_to(b, passed):
    made = Comparison((1,))
    a, other = np.array([INF], np.float32), np.array([b], np.float32)
    made.add(0, a, other, np.array([ROUNDED_UP]), np.array([2.0**104]))
    assert made.passed is passed


# ------------------------------------------------------------------ distances in ULPs


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        (1.0, 1.0, 0),
        (1.0, 1.0 + 2.0**-23, 1),
        (2.0, 2.0 - 2.0**-23, 1),
        (0.0, -0.0, 0),
        (SMALLEST, 0.0, 1),
        (-SMALLEST, 0.0, 1),
        (-SMALLEST, -0.0, 1),
        (SMALLEST, -SMALLEST, 2),
        (2.0**-126, -(2.0**-126), 2 * 2**23),
        (-1.0, 1.0, 2 * 0x3F800000),
    ],
)
def test_ulps_count_float32_values_on_the_way(a, b, distance):
    made = compare([a], [b], INF)
    assert made.max_ulps == distance
    assert compare([b], [a], INF).max_ulps == distance


def test_two_nans_are_zero_ulps_apart_whatever_their_bits():
    a = np.array([0x7FC00000, 0xFFC12345], np.uint32).view(np.float32)
    b = np.array([0xFFC00000, 0x7FC54321], np.uint32).view(np.float32)
    made = compare(a, b)
    assert made.passed
    assert made.max_ulps == 0
    assert made.ulps[0] == 2


@given(st.floats(-(2.0**127), 2.0**127, width=32))
def test_the_next_float32_is_one_ulp_away(value):
    after = np.nextafter(np.float32(value), np.float32(INF))
    assert compare([value], [after], INF).max_ulps == 1


def test_the_histogram_counts_every_element_once():
    steps = np.array([0, 1, 2, 3, 4, 5, 16, 17, 256, 257, 65536, 65537, 2**29])
    a = np.full(steps.size, 1.0, np.float32)
    b = (a.view(np.int32) + steps.astype(np.int32)).view(np.float32)
    made = compare(a, b, INF)
    assert made.ulps == [1, 1, 1, 2, 2, 2, 2, 2, 0]
    assert len(made.ulps) == len(ulp_classes()) == len(ULP_CLASSES) + 1
    assert ulp_classes() == [
        "0", "1", "2", "3..4", "5..16", "17..256", "257..65536", "> 65536", "NaN or inf",
    ]  # fmt: skip


# ------------------------------------------------------------------ the worst points


def test_the_worst_points_are_the_worst_by_their_bounds():
    reference = np.zeros(20)
    a = np.arange(20, dtype=np.float32)
    bound = np.where(np.arange(20) == 3, 0.1, 100.0)  # element 3 is 30 bounds away
    made = Comparison((4, 5))
    made.add(0, a, reference, reference, bound)
    assert [point.index for point in made.worst] == [(0, 3), (3, 4), (3, 3), (3, 2), (3, 1)]
    assert made.worst[0].ratio == pytest.approx(30)
    assert made.max_ratio == made.worst[0].ratio
    assert made.max_error == 19
    assert (made.worst[1].a, made.worst[1].b, made.worst[1].bound) == (19, 0, 100)


def test_what_no_bound_allows_comes_first():
    made = compare([1e9, 1.0, NAN, 5.0], [0.0, 1.0, 1.0, 5.0], [1.0, 0.0, 1.0, 0.0])
    assert [point.index for point in made.worst] == [(2,), (0,)]
    made = compare([1e9, 1.0 + 2**-20], [0.0, 1.0], [1.0, 0.0])
    assert [point.index for point in made.worst] == [(1,), (0,)]
    assert made.max_ratio == INF


def test_equal_tensors_have_no_worst_points():
    assert compare(np.ones(100), np.ones(100)).worst == []


def test_an_empty_slice_is_nothing():
    made = Comparison((0,))
    empty = np.zeros(0)
    made.add(0, empty.astype(np.float32), empty, empty, empty)
    assert made.passed
    assert made.elements == 0


# ------------------------------------------------------------------ slices

VALUES = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1.0, NAN, INF, -INF])
PAIRS = arrays.arrays(np.float32, st.tuples(st.just(3), st.integers(1, 40)), elements=VALUES)


@given(PAIRS, st.integers(0, 40), st.sampled_from([0.0, 1e-6, 1.0, INF]))
def test_slices_give_what_the_whole_gives(tensors, cut, width):
    a, b, reference = tensors[0], tensors[1], tensors[2].astype(np.float64)
    bound = np.full(a.size, width)
    whole, parts = Comparison(a.shape), Comparison(a.shape)
    whole.add(0, a, b, reference, bound)
    for part in (slice(0, min(cut, a.size)), slice(min(cut, a.size), a.size)):
        parts.add(part.start, a[part], b[part], reference[part], bound[part])
    ours, theirs = vars(parts).copy(), vars(whole).copy()
    ratios = [[point.ratio for point in found.pop("worst")] for found in (ours, theirs)]
    assert ratios[0] == ratios[1]
    assert ours == theirs


@given(PAIRS, st.sampled_from([0.0, 1e-6, 1.0]))
def test_nothing_is_lost_and_sides_can_be_swapped(tensors, width):
    a, b, _ = tensors
    one, other = compare(a, b, width), compare(b, a, width)
    assert sum(one.ulps) == one.elements == a.size
    assert (one.outside, one.max_error, one.max_ulps, one.ulps, one.special) == (
        other.outside, other.max_error, other.max_ulps, other.ulps, other.special,
    )  # fmt: skip
    assert len(one.worst) <= WORST
    assert (one.outside == 0) == one.passed
    assert one.passed == (one.max_ratio <= 1)
    keys = [point.ratio for point in one.worst]
    assert keys == sorted(keys, reverse=True)
    assert keys[:1] == ([one.max_ratio] if one.max_error else [])


# ------------------------------------------------------------------ what must not be trusted


def suspected(values, reference, untouched=0, guard_intact=True, bound=INF):
    made = compare(values, reference, bound)
    return suspicions(made, 0, untouched, guard_intact)


RAMP = np.linspace(0.1, 1.0, 100)


def test_a_right_result_is_trusted():
    assert suspected(RAMP, RAMP) == []


@pytest.mark.parametrize("kind", ["i64", "u64"])
def test_whole_numbers_of_64_bits_are_compared_as_such(kind):
    """Neighbours that float64 takes for the same."""
    dtype = DType.table[kind]
    right = np.array([2**62 + 1, 2**53 + 1, 7], dtype.array)
    given = right - np.array([1, 1, 0], dtype.array)
    compared = Comparison((3,), dtype)
    compared.add(0, given, right, right, np.zeros(3))
    assert (compared.outside, compared.max_error, compared.max_ulps) == (2, 1.0, 1)
    assert {(p.a, p.b) for p in compared.worst} == {(2**62, 2**62 + 1), (2**53, 2**53 + 1)}
    ends = np.array([np.iinfo(dtype.array).min, np.iinfo(dtype.array).max], dtype.array)
    far = Comparison((2,), dtype)
    far.add(0, ends, ends[::-1].copy(), ends, np.zeros(2))
    assert (far.outside, far.max_error) == (2, 2.0**64)
    same = Comparison((2,), dtype)
    same.add(0, ends, ends, ends, np.zeros(2))
    assert same.passed


def test_short_whole_numbers_look_like_the_canary_by_chance():
    """So only whole words of it tell that nobody has written them."""
    halves = np.array([DType.table["u16"].canary], "<u4").view("<u2")
    values = np.array([halves[0], 5, halves[0], halves[1], halves[0]], "<u2")
    assert pouring.untouched(values, DType.table["u16"].canary) == 2


def test_untouched_elements_are_counted():
    assert suspected(RAMP, RAMP, untouched=7) == ["7 of 100 elements were never written"]


def test_an_overwritten_guard_is_told():
    assert suspected(RAMP, RAMP, guard_intact=False) == ["something was written behind its end"]


def test_zeros_are_distrusted_even_within_tolerance():
    assert suspected(np.zeros(100), RAMP) == ["100 of 100 elements are zero"]
    mostly = np.where(np.arange(100) < 95, 0.0, RAMP)
    assert suspected(mostly, RAMP) == ["95 of 100 elements are zero"]


def test_zeros_that_rounding_explains_prove_nothing():
    """log(1 + 1e-9) is 0 in float32; a dead kernel leaves that too."""
    reference = np.where(np.arange(100) < 95, 1e-9, RAMP)
    found = np.where(np.arange(100) < 95, 0.0, RAMP)
    made = compare(found, reference, 1e-7, reference)
    assert suspicions(made, 0, 0, True) == []
    assert proves_nothing(made) == "95 of 100 elements are zero, and their bounds allow it"


def test_zeros_that_belong_there_are_trusted():
    sparse = np.where(np.arange(100) < 95, 0.0, RAMP)
    assert suspected(sparse, sparse) == []


def test_a_reference_of_zeros_is_not_suspicious():
    assert suspected(np.zeros(100), np.zeros(100)) == []


def test_what_may_be_flushed_to_zero_is_not_suspicious():
    assert suspected(np.zeros(100), np.full(100, 1e-39)) == []


def test_what_rounds_to_one_value_is_not_suspicious():
    """A saturated sigmoid, in float64 not quite 1."""
    assert suspected(np.ones(100), 1 - 1e-9 * RAMP) == []


def test_one_constant_is_distrusted():
    assert suspected(np.full(100, 0.25), RAMP) == ["all elements are 0.25"]


def test_a_constant_that_belongs_there_is_trusted():
    assert suspected(np.full(100, 0.25), np.full(100, 0.25)) == []


def test_a_single_element_is_no_constant():
    assert suspected([0.25], [0.5]) == []


def test_each_side_is_judged_by_itself():
    made = compare(RAMP, np.zeros(100), INF, reference=RAMP)
    assert suspicions(made, 0, 0, True) == []
    assert suspicions(made, 1, 0, True) == ["100 of 100 elements are zero"]


# ------------------------------------------------------------------ what proves nothing


@pytest.mark.parametrize(
    ("reference", "bound", "words"),
    [
        (RAMP, 0.01, ""),
        (np.where(np.arange(100) < 99, 0.0, 1.0), 0.01, ""),
        (np.zeros(100), 0.0, "every element of the reference is 0"),
        (
            np.full(100, 1e-40),
            0.0,
            "every element of the reference, up to 1e-40 in size, underflows float32",
        ),
        (np.full(100, 0.25), 0.0, "every element of the reference is 0.25"),
        (RAMP, 1.0, "0 in every element would pass too"),
        (RAMP, 0.5, "0.55 in every element would pass too"),
        (np.full(100, NAN), 0.0, "every element of the reference overflows float32 or is NaN"),
        (
            np.full(100, 1e39),
            0.0,
            "every element of the reference, up to 1e+39 in size, overflows float32 or is NaN",
        ),
        (np.where(np.arange(100) < 50, NAN, RAMP), 0.0, ""),
        ([0.5], 0.1, ""),
        ([0.5], 0.5, "0 in every element would pass too"),
        ([0.0], 0.0, "every element of the reference is 0"),
    ],
)
def test_a_tensor_that_one_value_could_stand_for_proves_nothing(reference, bound, words):
    with np.errstate(over="ignore"):
        made = compare(reference, reference, bound, reference)
    assert proves_nothing(made) == words


def test_the_remarks_count_what_is_right_and_yet_no_number():
    made = compare([INF, INF, NAN, 1.0], [INF, INF, NAN, 1.0])
    assert made.passed
    assert remarks(made) == [
        "2 elements overflow float32, as they must", "1 element is NaN, on both sides",
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [I64, U64])
def test_whole_numbers_of_64_bits_are_as_far_apart_as_they_are(dtype):
    ends = np.iinfo(dtype.array)
    pairs = [(ends.min, ends.max), (ends.max, ends.min), (5, 3), (3, 5), (7, 7)]
    a, b = (np.array([pair[side] for pair in pairs], dtype.array) for side in (0, 1))
    wanted = [float(abs(x - y)) for x, y in pairs]
    assert _apart(a, b, dtype).tolist() == wanted


# ------------------------------------------------------------------ parts of a tensor


@pytest.mark.parametrize("place", [np.s_[7], np.s_[:, 7]], ids=["row", "column"])
def test_errors_of_one_row_or_column_are_not_averaged_over_all(place):
    """Three standard deviations in 64 of 4096 elements, by halves, as they come."""
    error = np.random.default_rng(1).normal(0, 0.3, (64, 64))
    for shift, right in ((0.0, True), (3.0, False)):
        shifted = error.copy()
        shifted[place] += shift
        made = Comparison((64, 64))
        ones = np.ones(2048)
        for at in (0, 2048):
            found = shifted.reshape(-1)[at : at + 2048]
            made.add(at, found, 0 * ones, 0 * ones, 100 * ones, Spread(ones))
        assert made.outside == 0
        assert made.passed is right


def test_what_storing_hides_is_not_excused_twice():
    """Off by the half step that storing may lose, and by 20 deviations more of what it was before:
    with sigma and the half step together that would be two of them."""
    half, sigma = np.full(100, 10.0), np.ones(100)
    for more, right in ((2.0, True), (20.0, False)):
        made = Comparison((100,))
        found = np.full(100, 10.0 + more)
        made.add(0, found, 0 * half, 0 * half, 100 * half, Spread(sigma + half, 100, half))
        assert made.passed is right
