"""The judge of whole tensors: its constants, its risk, and honest sums that it must let pass."""

from __future__ import annotations

import json

import numpy as np
import pytest
from census import census
from handmade import build, lowered, run_by_hand

from simgen.bundle import results
from simgen.bundle import writing as bundles
from simgen.ground.numerics.spread import (
    RISK,
    Spread,
    U,
    Walk,
    both,
    correlated,
    order,
    peak_limit,
    repeats,
    stages,
    statistic_limit,
)
from simgen.layers.conv.spread_of_transforms import _equal_over_tiles
from simgen.layers.product.matrix_product import Product
from simgen.targets.cuda import Cuda
from simgen.tensors import data_file
from simgen.verdict import diff, verdict
from simgen.verdict.compare import Comparison

RNG = np.random.default_rng(5)


def compared(error, sigma, shared=1, bound=np.inf):
    """A comparison of errors with their spread."""
    error = np.asarray(error, np.float64)
    made = Comparison(error.shape)
    zero = np.zeros_like(error)
    spread = Spread(np.broadcast_to(np.float64(sigma), error.shape), shared)
    made.add(0, error, zero, zero, np.full(error.shape, bound), spread)
    return made


# ------------------------------------------------------------------ norms of sums


@pytest.mark.parametrize("terms", [1, 2, 3, 7, 40, 200])
def test_the_norm_of_a_sum_in_order(terms):
    assert order(terms) == pytest.approx(np.linalg.norm(np.tri(terms), 2), rel=1e-12)


@pytest.mark.parametrize("lengths", [(3, 4), (16, 2), (5, 1, 3), (2, 2, 2, 2), (4, 6, 5)])
def test_the_norm_of_a_sum_in_stages(lengths):
    """It holds for the matrix of all sums, and a sum in order of as many terms is no better."""
    rows, groups = [], np.eye(np.prod(lengths))
    for length in lengths:
        parts = groups.reshape(-1, length, groups.shape[1])
        if length > 1:
            rows.append(np.cumsum(parts, axis=1).reshape(-1, groups.shape[1]))
        groups = parts.sum(axis=1)
    assert np.linalg.norm(np.concatenate(rows), 2) <= stages(*lengths) * (1 + 1e-12)
    assert stages(*lengths) <= order(int(np.prod(lengths)))


@pytest.mark.parametrize("kind", ["random", "sorted", "positive", "one"])
@pytest.mark.parametrize("chunk", [100, 17])
def test_a_walk_covers_all_partial_sums(kind, chunk):
    terms = RNG.standard_normal(100)
    terms = {
        "random": terms, "sorted": np.sort(terms), "positive": np.abs(terms), "one": np.eye(100)[0],
    }[kind]  # fmt: skip
    walk, exact, parts = Walk((1,)), 0.0, []
    for first in range(0, 100, chunk):
        part = terms[first : first + chunk]
        exact += np.square(np.cumsum(part)).sum()
        parts.append(part.sum())
        for start in range(0, len(part), 8):
            walk.add(len(part[start : start + 8]), part[start : start + 8].sum(keepdims=True))
        walk.end()
    if len(parts) > 1:
        exact += np.square(np.cumsum(parts)).sum()
    squares = np.square(terms).sum(keepdims=True)
    assert walk.total == pytest.approx(terms.sum())
    assert np.sqrt(exact + squares) <= walk.root(order(8), squares)
    assert walk.root(order(8), squares) < 4 * np.sqrt(exact + squares)


def test_equal_tiles_of_either_side_count():
    """Of (channels, samples, tiles, pixels), with equal tiles and with others."""
    equal = np.ones((2, 3, 4, 5))
    other = np.random.default_rng(1).standard_normal(equal.shape)
    found = {_equal_over_tiles(*each) for each in ((equal, other), (other, equal), (equal, equal))}
    assert found == {_equal_over_tiles(equal, equal)}
    assert _equal_over_tiles(other, other) < found.pop()


def test_equal_terms_are_counted():
    assert repeats(RNG.standard_normal((4, 1000))) == 1
    assert repeats(np.full((3, 500), 0.1)) == 500
    assert repeats(np.array([[1.0, 1, 2, 0, 0, 0]])) == pytest.approx(5 / 3)
    assert repeats(np.array([[1.0, -1]])) == 2  # what a rounding loses of both is one number
    assert repeats(np.zeros((2, 3))) == 1
    assert repeats(np.repeat(RNG.standard_normal((2, 2**16)), 2, axis=1)) == 2


def test_of_constant_data_all_roundings_may_go_one_way():
    terms = np.full((1, 1000), 0.1)
    squares, magnitude = np.square(terms).sum(axis=1), terms.sum(axis=1)
    hard = 1000 * U * magnitude
    sigma = U * order(1000) * np.sqrt(squares)
    assert sigma < 0.1 * hard
    found = correlated(sigma, hard, 1000, squares, magnitude, 1000.0)
    assert U * np.cumsum(terms).sum() <= found <= hard


# ------------------------------------------------------------------ the risk


@pytest.mark.parametrize(("elements", "shared"), [(1, 1), (10, 1), (5000, 1), (5000, 1000)])
def test_errors_of_that_spread_pass(elements, shared):
    """The widest that there are: plus or minus sigma, and normal; `shared` of them equal."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        for error in (
            rng.choice([-1.0, 1.0], elements // shared),
            rng.standard_normal(elements // shared),
        ):
            assert compared(np.repeat(error, shared) * 0.5, 0.5, shared).passed


def test_the_limits_are_those_of_the_inequalities():
    t = np.log(2 / RISK)
    assert statistic_limit(50, 1) ** 2 == pytest.approx(1 + 2 * np.sqrt(t / 50) + 2 * t / 50)
    assert statistic_limit(50, 50) == statistic_limit(1, 1) == statistic_limit(1, 50)
    assert 2 * 50 * np.exp(-(peak_limit(50) ** 2) / 2) == pytest.approx(RISK / 2)
    assert 1 < statistic_limit(10**6, 1) < 1.01


def test_what_is_too_wide_fails_within_every_bound():
    error = RNG.choice([-1.0, 1.0], 10_000)
    assert compared(error * 1.02, 1.0).passed
    wide = compared(error * 1.1, 1.0)
    assert (wide.outside, wide.passed) == (0, False)
    assert wide.statistic > 1 > wide.peak
    # One element, in which all others hide.
    error[17] = 12
    one = compared(error * 0.1, 0.1)
    assert one.statistic < 1 < one.peak
    assert not one.passed
    # The same errors, where one rounding reaches all.
    assert compared(np.full(100, 5.0), 1.0, shared=100).passed
    assert not compared(np.full(100, 5.0), 1.0).passed


def test_what_has_no_spread_is_not_judged():
    made = Comparison((2,))
    values = np.ones(2)
    made.add(0, values, values, values, np.zeros(2))
    assert (made.statistic, made.peak, made.passed) == (None, None, True)
    exact = compared([0.0, 0.0], 0.0, bound=0.0)
    assert (exact.statistic, exact.peak, exact.passed) == (0, 0, True)
    assert not compared([0.0, 1e-9], 0.0, bound=0.0).passed


def test_parts_of_a_tensor_are_judged_together():
    error = RNG.standard_normal(1000)
    whole, parts = compared(error, 0.7), Comparison((1000,))
    for start in range(0, 1000, 300):
        some = error[start : start + 300]
        zero = np.zeros_like(some)
        parts.add(start, some, zero, zero, zero + np.inf, Spread(zero + 0.7))
    assert parts.statistic == pytest.approx(whole.statistic)
    assert parts.peak == whole.peak


def test_two_results_have_the_spread_of_both():
    spread = both(Spread(np.ones(3), 2), Spread(np.full(3, 2.0), 5))
    assert (spread.sigma == 3).all()
    assert spread.shared == 5


# ------------------------------------------------------------------ sums in float32

KINDS = {
    "normal": lambda shape: RNG.standard_normal(shape),
    "rectified": lambda shape: np.maximum(RNG.standard_normal(shape), 0),
    "positive": lambda shape: RNG.uniform(size=shape),
    "exponential": lambda shape: RNG.exponential(size=shape),
    "offset": lambda shape: 100 + RNG.standard_normal(shape),
    "sorted": lambda shape: np.sort(RNG.standard_normal(shape), axis=None).reshape(shape),
    "constant": lambda shape: np.full(shape, 0.1),
    "ramp": lambda shape: np.arange(np.prod(shape)).reshape(shape) % 1013 / 1013,
    "8 bits": lambda shape: np.round(255 * RNG.uniform(size=shape)) / 255,
    "wide": lambda shape: RNG.standard_normal(shape) * 10 ** RNG.uniform(-6, 3, shape),
}


def float32_product(a, b, chunk):
    """In order, products rounded before they are added, as on MGPUSim."""
    a, b = a.astype(np.float32), b.astype(np.float32)
    y = np.zeros((len(a), b.shape[1]), np.float32)
    for first in range(0, a.shape[1], chunk):
        here = slice(first, first + chunk)
        y += np.add.accumulate(a.T[here, :, None] * b[here, None])[-1]
    return y


@census("kind", KINDS)
@census("k", [27, 3000, 30_000])
def test_products_in_float32_pass_whatever_the_data(kind, k):
    product = Product(12, 16, k)
    chunk, _ = product.chunks
    a, b = (KINDS[kind](s).astype(np.float32).astype(np.float64) for s in ((12, k), (k, 16)))
    wanted = a @ b
    hard = product.bound(a, b, wanted)
    made = Comparison(wanted.shape)
    y = float32_product(a, b, chunk)
    made.add(0, y, wanted, wanted, hard, Spread(product.spread(a, b, wanted, hard)))
    assert made.passed
    assert made.statistic < 0.7


def test_a_long_product_of_rounded_inputs_passes_the_bound_and_not_the_judge():
    """TF32 inputs, and products that are left out: what the judge is for."""
    k = 300_000
    product = Product(12, 16, k)
    a, b = (KINDS["normal"](s).astype(np.float32).astype(np.float64) for s in ((12, k), (k, 16)))
    wanted = a @ b
    hard = product.bound(a, b, wanted)
    spread = Spread(product.spread(a, b, wanted, hard))
    assert (spread.sigma < 0.1 * hard).all()

    def tf32(values):
        fraction, exponent = np.frexp(values)
        return np.ldexp(np.round(fraction * 2**11) / 2**11, exponent)

    for wrong in (tf32(a) @ tf32(b), a[:, 1:] @ b[1:], a[:, :-8] @ b[:-8]):
        made = Comparison(wanted.shape)
        made.add(0, wrong, wanted, wanted, hard, spread)
        assert not made.passed
        assert made.statistic > 3


# ------------------------------------------------------------------ in a verdict


def moved(tensors):
    """By half of the bound of a long sum, in all elements: no element is outside."""
    (y,) = tensors.values()
    y += np.float32(3e-5) * np.resize([1, -1], y.shape).astype(np.float32)


def ran(made, change=lambda tensors: None, name="cuda"):
    found = results.collect(made, Cuda(), run_by_hand(made, change, lambda words: words))
    outputs = {
        key: results.Output(np.array(o.values), o.untouched, o.guard_intact)
        for key, o in found.outputs.items()
    }
    return results.Result(name, outputs, found.launches, found.provenance)


def test_a_result_within_its_bounds_may_differ(tmp_path):
    made = build(tmp_path / "g", lowered("gemm_fwd", ("m", "20"), ("n", "20"), ("k", "4000")))
    inputs = data_file.load(made.path / bundles.DATA, made.workload)
    right = ran(made)
    for sides in ((ran(made, moved), None), (ran(made, moved), right), (right, ran(made, moved))):
        report = diff.diff(made.workload, inputs, *sides)
        (found,) = report.verdicts
        assert found.comparison.outside == 0
        assert not report.passed
        (pair,) = json.loads(json.dumps(verdict.to_json([report])))["pairs"]
        (shown,) = pair["tensors"]
        assert shown["statistic"] > 1
        assert shown["peak"] > 0
        assert shown["verdict"] == "different"
    for pair in ((right, None), (right, right)):
        report = diff.diff(made.workload, inputs, *pair)
        assert report.passed
        assert report.verdicts[0].comparison.statistic < 0.5


def test_the_risk_is_one_in_a_thousand_million():
    """t = ln(2 / 1e-9) = 9 ln 10 + ln 2; for one number the limit is sqrt(1 + 2 sqrt(t) + 2 t)."""
    t = 9 * 2.302585093 + 0.693147181
    right = np.sqrt(1 + 2 * np.sqrt(t) + 2 * t)
    assert statistic_limit(1, 1) == pytest.approx(right, rel=1e-6)
