"""How well two targets agree: the measures against NumPy and by hand, and where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from simgen.reports.pages import correlation, page
from simgen.reports.pages.row import Row


def layers(**values):
    """Target -> (bundle, step) -> metrics, from target=[seconds of each layer]."""
    return {
        target.replace("_", "-"): {
            ("net", f"layer{at}"): {} if value is None else {"seconds": value}
            for at, value in enumerate(seconds)
        }
        for target, seconds in values.items()
    }


def test_the_measures_are_those_of_their_formulas():
    a, b = np.array([3.0, 1.0, 7.0, 2.5]), np.array([6.5, 1.0, 13.0, 6.0])
    found = correlation.correlate("seconds", "x", "y", list(zip(a, b)))
    assert found.layers == 4
    assert found.pearson == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert found.error == pytest.approx(100 * np.mean(np.abs(b - a) / a))
    (scale,) = np.linalg.lstsq(b[:, None], a, rcond=None)[0]
    assert found.scale == pytest.approx(scale)
    assert found.scaled_error == pytest.approx(100 * np.mean(np.abs(scale * b - a) / a))
    assert found.note == ""


def test_twice_as_long_throughout_is_perfect_but_for_the_factor():
    found = correlation.correlate("seconds", "x", "y", [(1.0, 2.0), (3.0, 6.0), (0.5, 1.0)])
    assert (found.pearson, found.error, found.scale) == (pytest.approx(1), 100, 0.5)
    assert found.scaled_error == pytest.approx(0)


@pytest.mark.parametrize(
    ("x", "y", "note"),
    [
        ([1.0], [1.0], "1 common layer, 3 are needed"),
        ([1.0, 2.0], [1.0, 2.0], "2 common layers, 3 are needed"),
        ([1.0] * 3, [None] * 3, "3 common layers, no quantity that both count in 3 of them"),
        ([1.0] * 3, [2.0, 1.0, None], "3 common layers, no quantity that both count in 3 of them"),
    ],
)
def test_too_few_layers_are_said(x, y, note):
    (found,) = correlation.correlations_of(layers(x=x, y=y))
    assert (found.note, found.quantity) == (note, "any")
    assert (found.pearson, found.error, found.scale, found.scaled_error) == (None,) * 4


def test_targets_of_different_bundles_have_no_common_layers():
    measured = layers(x=[1.0] * 3, y=[1.0] * 3)
    measured["y"] = {("other", step): at for (_, step), at in measured["y"].items()}
    (found,) = correlation.correlations_of(measured)
    assert found.note == "no common layers, 3 are needed"


def test_points_of_a_sweep_are_compared_with_the_same_point_of_other_targets_or_their_first():
    names = ["gem5-se", "gem5-se@tcp_size=16KiB", "cuda", "cuda@repeats=3", "mgpusim@repeats=3"]
    assert correlation.pairs(names) == [
        ("cuda", "gem5-se"),
        ("cuda", "gem5-se@tcp_size=16KiB"),
        ("cuda", "mgpusim@repeats=3"),
        ("cuda@repeats=3", "gem5-se"),
        ("cuda@repeats=3", "mgpusim@repeats=3"),
        ("gem5-se", "mgpusim@repeats=3"),
        ("gem5-se@tcp_size=16KiB", "mgpusim@repeats=3"),
    ]


def test_three_layers_are_enough():
    (found,) = correlation.correlations_of(layers(x=[1.0, 2.0, 3.0], y=[1.0, 2.0, 3.0]))
    assert (found.quantity, found.layers, found.error) == ("seconds", 3, 0)


def test_time_is_named_even_where_only_another_quantity_is_common():
    measured = layers(emulator=[None] * 3, timed=[1.0, 2.0, 3.0])
    for at in measured.values():
        for nth, metrics in enumerate(at.values()):
            metrics["instructions"] = float(nth + 1)
    notes = {each.quantity: each.note for each in correlation.correlations_of(measured)}
    assert notes == {"seconds": "no common layers with it, 3 are needed", "instructions": ""}


def test_without_spread_there_is_no_r():
    found = correlation.correlate("l2_hit_rate", "x", "y", [(0.5, 0.1), (0.5, 0.2), (0.5, 0.3)])
    assert found.pearson is None
    assert found.note == "the same in all layers on x; error in percentage points"


def test_rates_are_apart_by_percentage_points():
    found = correlation.correlate("l2_hit_rate", "x", "y", [(0.0, 0.1), (0.001, 0.2), (0.5, 0.3)])
    assert found.error == pytest.approx(100 * (0.1 + 0.199 + 0.2) / 3)
    assert (found.scale, found.scaled_error) == (None, None)
    assert found.note == "error in percentage points"


def test_what_the_reference_has_none_of_has_no_relative_error():
    found = correlation.correlate("l1_misses", "x", "y", [(0.0, 4.0), (2.0, 3.0), (4.0, 5.0)])
    assert found.error == pytest.approx(100 * (0.5 + 0.25) / 2)
    assert found.note == "errors without 1 of 3, where x has 0"


def test_nothing_on_either_side_has_no_measure():
    found = correlation.correlate("l2_misses", "x", "y", [(0.0, 0.0)] * 3)
    assert (found.pearson, found.error, found.scale) == (None, None, None)
    assert found.cells[4:8] == ("",) * 4


def test_every_two_targets_are_compared_and_hardware_is_the_reference():
    seconds = [1.0, 2.0, 3.0]
    found = correlation.correlations_of(layers(gem5_se=seconds, mgpusim=seconds, cuda=seconds))
    assert [(each.reference, each.target) for each in found] == [
        ("cuda", "gem5-se"),
        ("cuda", "mgpusim"),
        ("gem5-se", "mgpusim"),
    ]


def test_only_the_same_layer_of_the_same_bundle_is_common():
    a = {("one", "conv fwd"): {"seconds": 1.0}, ("one", "conv bwd"): {"seconds": 2.0}}
    b = {("two", "conv fwd"): {"seconds": 1.0}, ("one", "conv bwd"): {"seconds": 9.0}}
    assert correlation.common(a, b, "seconds") == {("one", "conv bwd"): (2.0, 9.0)}


def test_layers_that_differ_otherwise_than_most_are_named():
    """A factor throughout is none of them, and a relative difference counts, not a large value."""
    a = [1.0, 2.0, 30.0, 4.0, 5.0, 6.0]
    b = [3.1, 5.9, 91.0, 11.8, 15.2, 6.0]
    found = {each.quantity: each for each in correlation.correlations_of(layers(cuda=a, mgpusim=b))}
    assert found["seconds"].outliers == ("layer5",)
    assert found["seconds"].cells[-2] == "layer5"


@pytest.mark.parametrize("last", [3.0, 3.3])
def test_where_most_are_the_same_the_other_one_is_it(last):
    values = {("net", f"l{at}"): (1.0, 3.0) for at in range(9)} | {("net", "z"): (1.0, last)}
    assert correlation.outliers("seconds", values) == (("z",) if last > 3 else ())


def test_outliers_of_several_bundles_have_their_names():
    values = {(f"n{at % 2}", f"l{at}"): (0.5, 0.51 + at * 1e-3) for at in range(8)}
    values["n0", "far"] = (0.9, 0.1)
    assert correlation.outliers("l2_hit_rate", values) == ("n0 far",)


def test_what_has_no_ratio_is_no_outlier():
    values = {("net", f"l{at}"): (0.0, 1.0) for at in range(5)}
    assert correlation.outliers("l2_misses", values) == ()


SECONDS = [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("shortfall", "measures", "note"),
    [
        ("DRAM, bandwidth reaches 11% of what is configured", False, "refused: DRAM, bandwidth"),
        (None, True, "rates of its machine were not measured: simgen rates --on mgpusim"),
        ("", True, ""),
    ],
)
def test_times_of_a_machine_that_cannot_take_them_are_refused(shortfall, measures, note):
    measured = layers(mgpusim=SECONDS, cuda=SECONDS)
    found = {
        each.quantity: each
        for each in correlation.correlations_of(measured, {"mgpusim": shortfall})
    }
    seconds = found["seconds"]
    assert (seconds.pearson is not None) == measures
    assert seconds.note.startswith(note)
    assert bool(seconds.note) == bool(note)


def test_counts_are_compared_whatever_its_rates_are():
    points = {("n", f"l{at}"): {"instructions": value} for at, value in enumerate(SECONDS)}
    found = correlation.correlations_of({"mgpusim": points, "cuda": points}, {"mgpusim": "slow"})
    assert {each.quantity: each.pearson for each in found}["instructions"] == pytest.approx(1)


def test_two_simulators_are_compared_whatever_their_rates_are():
    measured = layers(mgpusim=SECONDS, gem5_se=SECONDS)
    found = correlation.correlations_of(measured, {"mgpusim": "slow", "gem5-se": None})
    assert {each.quantity: each.note for each in found}["seconds"] == ""


def test_of_two_machines_of_a_target_the_slow_one_decides():
    def row(bundle, target, at, shortfall):
        return Row(bundle, "net", "", f"l{at}", "fwd", "f32", target, 1, 1, {"seconds": at + 1.0},
                   shortfall=shortfall)  # fmt: skip

    for order in (("", "slow", None), ("slow", None, ""), (None, "", "slow")):
        rows = [
            row(f"b{nth}", target, at, told if target == "mgpusim" else "")
            for nth, told in enumerate(order)
            for target in ("mgpusim", "cuda")
            for at in range(3)
        ]
        (seconds,) = (each for each in page.correlations(rows) if each.quantity == "seconds")
        assert seconds.note.startswith("refused: slow")
