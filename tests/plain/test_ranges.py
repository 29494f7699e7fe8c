"""What a right float32 kernel cannot compute, though its result is in range: nothing is proved."""

from __future__ import annotations

import numpy as np
import pytest

from simgen.ground.dtypes import DType
from simgen.ground.ir import Pass
from simgen.ground.numerics import ranged
from simgen.layers.norm.lrn import LRN
from simgen.layers.softmax import Softmax, SoftmaxAlgo
from simgen.verdict.compare import Beyond, Comparison, proves_nothing, suspicions
from simgen.verdict.verdict import Outcome, Verdict

FAST = Softmax(algo=SoftmaxAlgo.FAST)
X = {"x": np.array([[100.0, -100.0, 90.0, 0.0], [1.0, 2.0, 3.0, 4.0]]).reshape(2, 4, 1, 1)}


def computed(layer, tensors):
    """What the layer's formula leaves in float32's range, and why."""
    log = {}
    with np.errstate(all="ignore"):
        found = layer.as_computed(
            {name: ranged.ranged(values, log) for name, values in tensors.items()}, Pass.FORWARD
        )
    return np.asarray(found["y"]), ranged.cause(log)


def test_formulas_overflow_where_numpy_in_float32_does():
    """NumPy's own float32 is the judge."""
    found, cause = computed(FAST, X)
    with np.errstate(all="ignore"):
        e = np.exp(X["x"].astype(np.float32))
        right = e / e.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, right, rtol=1e-6, atol=2.0**-126)
    assert np.isnan(found[0, 0, 0, 0])
    assert cause == "exp(100) overflows float32 in this algorithm"


def test_squares_overflow_in_windows():
    x = np.array([1e20, 1.0, 2e19, 3.0], np.float32).reshape(1, 4, 1, 1)
    found, cause = computed(LRN(local_size=3, alpha=1.0, k=1.0), {"x": x.astype(np.float64)})
    assert not found.any()
    assert cause == "1e+20 * 1e+20 overflows float32 in this algorithm"


@pytest.mark.parametrize(
    ("terms", "left"),
    [((3e38, 3e38), np.inf), ((-3e38, -3e38), -np.inf), ((3e38, 3e38, -3e38), np.nan), ((1, 2), 3)],
)
def test_sums_overflow_in_some_order(terms, left):
    found = ranged.ranged(np.array(terms, float), {}).sum()
    np.testing.assert_equal(float(found), left)


def verdict(found, mask, values, reference=(1.0, 2.0, 3.0, 4.0)):
    reference = np.array(reference)
    made = Comparison((4,))
    beyond = Beyond(np.array(mask), "exp(100) overflows float32", np.array(values))
    made.add(0, np.array(found, np.float32), reference, reference, np.full(4, 1e-3),
             beyond=lambda: beyond)  # fmt: skip
    return Verdict("s", "fwd", "s.y", made, ())


FIRST = [True, False, False, False]


def test_only_elements_out_of_range_are_excused():
    excused = verdict([np.nan, 2, 3, 4], FIRST, [np.nan, 2, 3, 4])
    assert excused.outcome is Outcome.NOTHING
    assert excused.reasons == ("exp(100) overflows float32, in 1 of 4 elements",)
    assert verdict([np.nan, 2, np.nan, 4], FIRST, [np.nan, 2, 3, 4]).outcome is Outcome.DIFFERENT
    assert verdict([np.nan, 2, 3.5, 4], FIRST, [np.nan, 2, 3, 4]).outcome is Outcome.DIFFERENT


def test_what_no_overflow_leaves_is_wrong():
    assert verdict([0, 2, 3, 4], FIRST, [np.inf, 2, 3, 4]).outcome is Outcome.NOTHING
    assert verdict([7, 2, 3, 4], FIRST, [0.0, 2, 3, 4]).outcome is Outcome.DIFFERENT


def test_a_result_in_range_is_the_same():
    made = verdict([1, 2, 3, 4], FIRST, [np.nan, 2, 3, 4])
    assert made.outcome is Outcome.SAME
    assert not proves_nothing(made.comparison)


@pytest.mark.parametrize(("name", "left"), [("bf16", 1.00390625), ("f8e4m3fn", 1.0625)])
def test_what_an_overflow_leaves_is_rounded_as_it_is_stored(name, left):
    """Halfway between two numbers of the type, and stored as the lower one; not as another."""
    dtype = DType.table[name]
    step = 2.0 ** (1 - dtype.mantissa)
    for found, outcome in ((1.0, Outcome.NOTHING), (1.0 - 2 * step, Outcome.DIFFERENT)):
        assert float(dtype.array.type(left)) == 1.0
        made = Comparison((4,), dtype)
        reference = np.array([1.5, 2.0, 3.0, 4.0])
        given = np.array([found, 2.0, 3.0, 4.0]).astype(dtype.array)
        beyond = Beyond(np.array(FIRST), "a sum overflows", np.array([left, 2.0, 3.0, 4.0]))
        bound = np.full(4, 1e-3)
        made.add(0, given, reference, reference, bound, beyond=lambda beyond=beyond: beyond)
        assert Verdict("s", "fwd", "s.y", made, ()).outcome is outcome


def test_the_canary_says_nothing_where_nothing_is_known():
    """Eight-bit floats have one NaN: what overflows leave is the canary too, unless it is wrong."""
    dtype = DType.table["f8e4m3fn"]
    for mask, words in ((FIRST, []), ([False] * 4, ["1 of 4 elements were never written"])):
        made = Comparison((4,), dtype)
        reference = np.array([1.0, 2.0, 3.0, 4.0])
        given = np.array([np.nan, 2.0, 3.0, 4.0]).astype(dtype.array)
        beyond = Beyond(np.array(mask), "a sum overflows", np.array([np.nan, 2.0, 3.0, 4.0]))
        bound = np.full(4, 1e-3)
        made.add(0, given, reference, reference, bound, beyond=lambda beyond=beyond: beyond)
        assert suspicions(made, 0, 1, guard_intact=True) == words
