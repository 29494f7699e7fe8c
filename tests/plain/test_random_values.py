"""Values of input tensors: reproducible, independent of how they are cut, inside their range."""

from __future__ import annotations

import numpy as np
import pytest
from census import census
from hypothesis import example, given
from hypothesis import strategies as st

from simgen.errors import UsageError
from simgen.ground.ir import Distribution, DType, Fill, TensorSpec
from simgen.tensors.random_values import BLOCK, block_key, fill_block, generate

UNIT = Fill(Distribution.UNIFORM, 0.0, 1.0)
NORMAL = Fill(Distribution.NORMAL, 0.0, 1.0)
DIGITS = Fill(Distribution.UNIFORM, -5.0, 5.0)
WHOLE_NUMBERS = Fill(Distribution.WHOLE, 5.0, 0.25)
THREE_BLOCKS = TensorSpec((2 * BLOCK + 77,))
FILLS = {
    "unit": (UNIT, DType.F32),
    "scaled": (Fill(Distribution.UNIFORM, -3.0, 0.5), DType.F32),
    "normal": (Fill(Distribution.NORMAL, 1.0, 0.25, low=0.5), DType.F32),
    "digits": (DIGITS, DType.I32),
    "whole": (WHOLE_NUMBERS, DType.F32),
    "some larger": (Fill(Distribution.NORMAL, 0.0, 1.0, every=8, times=100.0), DType.F32),
}
WHOLE = {
    name: generate(name, TensorSpec(THREE_BLOCKS.shape, dtype), fill, seed=7)
    for name, (fill, dtype) in FILLS.items()
}


@pytest.mark.parametrize(
    ("fill", "dtype", "expected"),
    [
        (
            UNIT,
            DType.F32,
            [
                0.8514893651008606,
                0.26902908086776733,
                0.678800106048584,
                0.574812650680542,
                0.11104029417037964,
                0.8651076555252075,
                0.305958092212677,
                0.8018345236778259,
            ],
        ),
        (
            NORMAL,
            DType.F32,
            [
                -1.1187586784362793,
                -0.516416609287262,
                0.4080298840999603,
                1.5554049015045166,
                -0.24431578814983368,
                1.7524605989456177,
                -0.5924973487854004,
                -0.8299311399459839,
            ],
        ),
        (DIGITS, DType.I32, [3, -3, 1, 0, -4, 3, -2, 3]),
        (Fill(Distribution.WHOLE, 5.0, 1.0), DType.F32, [4, -3, 2, 1, -4, 4, -2, 4]),
    ],
)
def test_the_first_values_of_two_blocks_are_known(fill, dtype, expected):
    """When this fails, NumPy's streams or ours have changed: raise GENERATOR's number."""
    spec = TensorSpec(THREE_BLOCKS.shape, dtype)
    first, second = (generate("softmax.x", spec, fill, 1, start, 4) for start in (0, BLOCK))
    assert [v.item() for v in (*first, *second)] == expected


def test_unit_values_are_those_of_the_numpy_generator():
    ours = np.empty(1001, np.float32)
    fill_block(ours, 123, 2, UNIT)
    stream = np.random.Generator(np.random.Philox(key=123, counter=[0, 2, 0, 0]))
    assert np.array_equal(ours, stream.random(1001, dtype=np.float32))


@given(name=st.sampled_from(sorted(FILLS)), data=st.data())
def test_a_slice_equals_the_whole(name, data):
    fill, dtype = FILLS[name]
    size = THREE_BLOCKS.size
    start = data.draw(st.integers(0, size), "start")
    count = data.draw(st.integers(0, min(size - start, BLOCK + 9)), "count")
    spec = TensorSpec(THREE_BLOCKS.shape, dtype)
    part = generate(name, spec, fill, 7, start, count)
    assert part.dtype == dtype.numpy
    assert np.array_equal(part, WHOLE[name][start : start + count])


@census("count", [1, 2, 255, BLOCK])
@census("name", FILLS)
def test_a_smaller_tensor_begins_like_a_larger_one(name, count):
    fill, dtype = FILLS[name]
    assert np.array_equal(generate(name, TensorSpec((count,), dtype), fill, 7), WHOLE[name][:count])


def test_names_and_seeds_give_different_values():
    def values(name, seed):
        return generate(name, TensorSpec((8,)), UNIT, seed).tobytes()

    assert len({values(n, s) for n in ("a.x", "a.y", "a.x1") for s in (0, 1, 11)}) == 9
    assert block_key("1", 1) != block_key("", 11)


def test_blocks_of_a_tensor_differ():
    blocks = WHOLE["unit"][: 2 * BLOCK].reshape(2, BLOCK)
    assert np.mean(blocks[0] == blocks[1]) < 1e-3


FLOATS = st.floats(-(2.0**126), 2.0**126, width=32)


@given(a=FLOATS, b=FLOATS)
@example(a=1.0, b=1.0 + 2**-23)
@example(a=1.0, b=1.0 + 3 * 2**-23)
@example(a=-1.0, b=2.0**-149)
def test_uniform_values_stay_in_their_half_open_interval(a, b):
    if a == b:
        return
    a, b = min(a, b), max(a, b)
    values = generate("t.x", TensorSpec((4096,)), Fill(Distribution.UNIFORM, a, b), 3)
    assert values.min() >= a
    assert values.max() < b


def test_uniform_values_fill_their_interval_evenly():
    counts, _ = np.histogram(WHOLE["scaled"], bins=50, range=(-3.0, 0.5))
    expected = THREE_BLOCKS.size / 50
    chi_square = np.sum((counts - expected) ** 2 / expected)
    assert chi_square < 49 + 5 * np.sqrt(2 * 49)  # five standard deviations above its mean


def test_normal_values_have_the_asked_moments():
    fill = Fill(Distribution.NORMAL, 2.0, 0.5)
    values = generate("w", TensorSpec((2**20,)), fill, 5).astype(np.float64)
    error = 0.5 / np.sqrt(values.size)  # standard error of the mean
    scaled = (values - 2.0) / 0.5
    assert abs(values.mean() - 2.0) < 5 * error
    assert abs(values.std() - 0.5) < 5 * error
    assert abs(np.mean(scaled**3)) < 5 * np.sqrt(15 / values.size)
    assert abs(np.mean(scaled**4) - 3) < 5 * np.sqrt(96 / values.size)


def test_clips_hold_and_move_only_what_is_outside():
    clipped = Fill(Distribution.NORMAL, 0.0, 1.0, low=-0.5, high=1.0)
    free = generate("t", TensorSpec((5000,)), NORMAL, 1)
    assert np.array_equal(generate("t", TensorSpec((5000,)), clipped, 1), np.clip(free, -0.5, 1.0))


def test_whole_numbers_are_all_there_and_none_is_outside():
    assert sorted(set(WHOLE["digits"].tolist())) == list(range(-5, 5))
    widest = Fill(Distribution.UNIFORM, -(2.0**31), 2.0**31)
    values = generate("t", TensorSpec((5000,), DType.I32), widest, 1)
    assert values.min() < -(2**30)
    assert values.max() > 2**30


@pytest.mark.parametrize("largest", [1.0, 3.0, 2.0**22])
@pytest.mark.parametrize("share", [1.0, 0.25, 2.0**-10])
def test_so_many_whole_numbers_are_not_zero(largest: float, share: float) -> None:
    fill = Fill(Distribution.WHOLE, largest, share)
    values = generate("t", TensorSpec((2**18,)), fill, 1).astype(np.float64)
    assert np.array_equal(values, np.rint(values))
    assert np.abs(values).max() <= largest
    if largest < 4:
        assert set(np.unique(np.abs(values))) >= set(range(1, int(largest) + 1))
    count = np.count_nonzero(values)
    assert abs(count - share * values.size) <= 5 * np.sqrt(values.size * share * (1 - share))
    assert abs(np.count_nonzero(values > 0) - count / 2) <= 5 * np.sqrt(count) / 2


def test_factors_multiply_some_elements_and_no_others() -> None:
    plain = generate("t", TensorSpec((BLOCK + 20,)), NORMAL, 1)
    some = Fill(Distribution.NORMAL, 0.0, 1.0, every=4, times=0.5)
    values = generate("t", TensorSpec((BLOCK + 20,)), some, 1)
    assert np.array_equal(values[::4], plain[::4] / 2)
    plain[::4] = values[::4]
    assert np.array_equal(values, plain)


@census(
    "fill, dtype, fact",
    [
        (Fill(Distribution.WHOLE, 0.0, 1.0), DType.F32, "whole numbers up to 0.0"),
        (Fill(Distribution.WHOLE, 1.5, 1.0), DType.F32, "whole numbers up to 1.5"),
        (Fill(Distribution.WHOLE, 2.0**23, 1.0), DType.F32, "none of 1 to 4194304"),
        (Fill(Distribution.WHOLE, 1.0, 0.0), DType.F32, "a share of 0.0"),
        (Fill(Distribution.WHOLE, 1.0, 1.5), DType.F32, "a share of 1.5"),
        (Fill(Distribution.WHOLE, 1.0, 1.0), DType.I32, "not a distribution of whole numbers"),
        (Fill(Distribution.NORMAL, 0.0, 1.0, every=3, times=2.0), DType.F32, "not a power of two"),
        (Fill(Distribution.NORMAL, 0.0, 1.0, every=4), DType.F32, "without a factor"),
        (Fill(Distribution.NORMAL, 0.0, 1.0, every=4, times=np.inf), DType.F32, "not finite"),
        (Fill(Distribution.UNIFORM, 0.0, 9.0, every=4, times=2.0), DType.I32, "real numbers"),
        (Fill(Distribution.UNIFORM, 1.0, 1.0), DType.F32, "no float32 value in [1.0, 1.0)"),
        (Fill(Distribution.UNIFORM, 1.0, 1.0 + 2**-40), DType.F32, "no float32 value"),
        (Fill(Distribution.UNIFORM, -3e38, 3e38), DType.F32, "overflows"),
        (Fill(Distribution.UNIFORM, 0.0, 1e39), DType.F32, "overflows"),
        (Fill(Distribution.NORMAL, 0.0, -1.0), DType.F32, "negative standard deviation"),
        (Fill(Distribution.NORMAL, float("nan"), 1.0), DType.F32, "not finite"),
        (Fill(Distribution.NORMAL, 0.0, 1.0, low=1.0, high=0.0), DType.F32, "above"),
        (Fill(Distribution.UNIFORM, 0.0, 0.0), DType.I32, "no whole number"),
        (Fill(Distribution.UNIFORM, 0.5, 3.0), DType.I32, "0.5 is not a whole number"),
        (Fill(Distribution.UNIFORM, 0.0, 2.0**33), DType.I32, "32 bits"),
        (Fill(Distribution.NORMAL, 0.0, 1.0), DType.I32, "not a distribution of whole numbers"),
    ],
)
def test_a_fill_without_values_is_refused(fill, dtype, fact):
    with pytest.raises(UsageError) as refusal:
        generate("softmax.x", TensorSpec((4,), dtype), fill, 1)
    assert str(refusal.value).startswith("softmax.x: ")
    assert fact in str(refusal.value)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(UsageError, match=r"seed: .* out of range"):
        generate("softmax.x", TensorSpec((4,)), UNIT, seed)


@pytest.mark.parametrize(("start", "count"), [(-1, 2), (3, 2), (5, 0), (0, -1)])
def test_a_slice_outside_the_tensor_is_an_error(start, count):
    with pytest.raises(ValueError, match="not inside a tensor of 4 elements"):
        generate("softmax.x", TensorSpec((4,)), UNIT, 1, start, count)
