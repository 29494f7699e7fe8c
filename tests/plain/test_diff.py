"""Is a result right? What is right passes; what is wrong fails, with the right words."""

from __future__ import annotations

import json

import numpy as np
import pytest
from handmade import BOTH, build, lowered, lowered_text, run_by_hand, small

from simgen import bundle as bundles
from simgen import data, results
from simgen import diff as diffs
from simgen.errors import UsageError
from simgen.ir import CANARY
from simgen.targets.cuda import Cuda


def ran(made, change=lambda tensors: None, spoil=lambda words: words, name="cuda"):
    """A result of a run made by hand."""
    folder = run_by_hand(made, change, spoil)
    found = results.collect(made, Cuda(), folder)
    outputs = {
        key: results.Output(np.array(o.values), o.untouched, o.guard_intact)
        for key, o in found.outputs.items()
    }
    return results.Result(name, outputs, found.launches, found.provenance)


def judged(made, a, b=None):
    inputs = data.load(made.path / bundles.DATA, made.workload)
    return diffs.diff(made.workload, inputs, a, b)


@pytest.fixture(name="made", params=["softmax_fwd", "softmax_bwd", "activation_fwd"])
def made_bundle(tmp_path, request):
    return build(tmp_path / request.param, small(request.param))


@pytest.fixture(name="network")
def network_bundle(tmp_path):
    return build(tmp_path / "classifier", lowered("classifier", ("n", "8")))


def written(made):
    return made.workload.outputs[-1].name


# ------------------------------------------------------------------ one layer


def test_a_right_result_passes(made):
    report = judged(made, ran(made))
    assert report.passed
    assert report.first_diverging is None
    assert (report.a, report.b) == ("cuda", "reference")
    (verdict,) = report.verdicts
    assert verdict.suspicions == ()
    assert verdict.comparison.elements == 40
    assert verdict.comparison.max_ratio <= 1


def scale(tensors):
    for values in tensors.values():
        values *= np.float32(1.00005)


def one_nan(tensors):
    for values in tensors.values():
        values[1, 2] = np.nan


def one_infinity(tensors):
    for values in tensors.values():
        values[3, 9] = -np.inf


def zeros(tensors):
    for values in tensors.values():
        values[:] = 0


def constant(tensors):
    for values in tensors.values():
        values[:] = 0.1


def swapped_rows(tensors):
    for values in tensors.values():
        values[[0, 1]] = values[[1, 0]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (scale, None),
        (one_nan, None),
        (one_infinity, None),
        (swapped_rows, None),
        (zeros, "cuda: 40 of 40 elements are zero"),
        (constant, "cuda: all elements are 0.1"),
    ],
)
def test_a_wrong_result_fails(made, change, words):
    report = judged(made, ran(made, change))
    assert not report.passed
    verdict = report.first_diverging
    assert verdict is not None
    assert verdict.tensor == written(made)
    assert verdict.comparison.outside > 0
    assert verdict.suspicions == ((words,) if words else ())
    assert verdict.comparison.worst[0].ratio > 1


def test_a_single_nan_is_the_worst_point(made):
    (verdict,) = judged(made, ran(made, one_nan)).verdicts
    assert (verdict.comparison.outside, verdict.comparison.special) == (1, 1)
    assert verdict.comparison.worst[0].index == (1, 2, 0, 0)
    assert np.isnan(verdict.comparison.worst[0].a)


def start_of(made):
    return (made.workload.outputs[-1].offset - made.workload.outputs_offset) // 4


def test_a_short_write_is_noticed_by_its_canary(made):
    def short(words):
        words[start_of(made) + 38 : start_of(made) + 40] = CANARY
        return words

    report = judged(made, ran(made, spoil=short))
    (verdict,) = report.verdicts
    assert not report.passed
    assert verdict.suspicions == ("cuda: 2 of 40 elements were never written",)
    assert verdict.comparison.outside == 2


def test_a_write_behind_the_end_is_noticed_though_every_value_is_right(made):
    def long(words):
        words[start_of(made) + 40] = 0
        return words

    report = judged(made, ran(made, spoil=long))
    (verdict,) = report.verdicts
    assert verdict.comparison.passed
    assert verdict.suspicions == ("cuda: something was written behind its end",)
    assert not report.passed


def test_nothing_ran(made):
    def nothing(words):
        words[:] = CANARY
        return words

    (verdict,) = judged(made, ran(made, spoil=nothing)).verdicts
    assert verdict.suspicions[0] == "cuda: 40 of 40 elements were never written"
    assert not verdict.passed


# ------------------------------------------------------------------ two results


def test_two_right_results_agree_and_the_pair_is_named(made):
    report = judged(made, ran(made, name="cuda"), ran(made, name="gem5-se"))
    assert report.passed
    assert (report.a, report.b) == ("cuda", "gem5-se")


def last_bits(tensors):
    for values in tensors.values():
        values[:] = np.nextafter(values, np.float32(10))


def test_results_that_differ_in_the_last_bit_agree_where_a_layer_rounds(tmp_path):
    made = build(tmp_path / "b", small("softmax_fwd"))
    report = judged(made, ran(made), ran(made, last_bits, name="gem5-se"))
    (verdict,) = report.verdicts
    assert report.passed
    assert verdict.comparison.max_ulps == 1


def test_relu_rounds_nothing_so_a_last_bit_is_wrong(tmp_path):
    made = build(tmp_path / "b", small("activation_fwd"))
    assert not judged(made, ran(made, last_bits)).passed


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_wrong_one_of_two_is_named(made, order):
    pair = [ran(made, name="good"), ran(made, zeros, name="bad")]
    report = judged(made, *(pair[at] for at in order))
    assert not report.passed
    assert report.verdicts[0].suspicions == ("bad: 40 of 40 elements are zero",)


def test_two_equally_wrong_results_agree_only_with_each_other(made):
    one, other = ran(made, swapped_rows, name="one"), ran(made, swapped_rows, name="other")
    assert judged(made, one, other).passed
    assert not judged(made, one).passed


# ------------------------------------------------------------------ networks


def spoil_output(name):
    def change(tensors):
        tensors[name][0] += np.float32(0.01)

    return change


def test_a_right_network_passes(network):
    report = judged(network, ran(network))
    assert report.passed
    assert [(v.layer, v.direction, v.tensor) for v in report.verdicts] == [
        ("limit", "fwd", "limit.y"), ("probability", "fwd", "probability.y"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["limit.y", "probability.y"])
def test_the_first_diverging_layer_is_the_one_that_is_wrong(network, name):
    """`probability` is judged by what `limit` gave it in this result."""
    report = judged(network, ran(network, spoil_output(name)))
    assert report.first_diverging is not None
    assert report.first_diverging.tensor == name


def wrong_input_right_layer(tensors):
    limit = tensors["limit.y"]
    limit *= np.float32(0.5)
    e = np.exp(limit.astype(np.float64))
    tensors["probability.y"][:] = e / e.sum(axis=1, keepdims=True)


def test_a_wrong_layer_does_not_make_the_next_one_wrong(network):
    report = judged(network, ran(network, wrong_input_right_layer))
    assert [v.passed for v in report.verdicts] == [False, True]


def test_two_results_disagree_only_in_the_layer_that_is_wrong(network):
    pair = ran(network), ran(network, wrong_input_right_layer, name="gem5-se")
    for report in (judged(network, *pair), judged(network, *pair[::-1])):
        assert [v.passed for v in report.verdicts] == [False, True]


def test_two_results_agree_in_a_layer_that_had_unlike_inputs(network):
    """A last bit of difference in `limit` must not be blamed on `probability`."""

    def nudge(tensors):
        limit = tensors["limit.y"]
        limit[:] = np.nextafter(limit, np.float32(0))
        e = np.exp(limit.astype(np.float64))
        tensors["probability.y"][:] = e / e.sum(axis=1, keepdims=True)

    assert judged(network, ran(network), ran(network, nudge, name="gem5-se")).passed


def test_nan_in_one_layer_is_followed_to_where_it_began(tmp_path):
    text = "[Activation]\nname=a\nn=2\nc=5\n[Softmax]\nname=s\nprevious_layer=a\n"
    made = build(tmp_path / "net", lowered_text(text, BOTH))

    def spread(tensors):
        tensors["a.y"][0] = np.nan
        tensors["s.y"][0] = np.nan

    report = judged(made, ran(made, spread))
    assert report.first_diverging is not None
    assert report.first_diverging.tensor == "a.y"
    assert [v.tensor for v in report.verdicts] == ["a.y", "s.y", "a.dy", "a.dx"]


def test_slices_of_samples_give_what_the_whole_gives(network, monkeypatch):
    result = ran(network, spoil_output("probability.y"))
    whole = diffs.to_json(judged(network, result))
    monkeypatch.setattr(diffs, "SLICE", 1)
    assert diffs.to_json(judged(network, result)) == whole


# ------------------------------------------------------------------ results that do not belong


def test_a_result_of_other_shapes_is_refused(made, tmp_path):
    other = build(tmp_path / "other", lowered("softmax_fwd", ("n", "3"), ("c", "10")))
    with pytest.raises(UsageError, match="cuda: a result of another workload; run this bundle"):
        judged(made, ran(other))


def test_a_result_of_other_tensors_is_refused(tmp_path):
    made = build(tmp_path / "made", small("softmax_fwd"))
    other = build(tmp_path / "other", small("activation_fwd"))
    with pytest.raises(UsageError, match="a result of another workload"):
        judged(made, ran(made), ran(other))


def test_a_result_from_other_data_is_refused(tmp_path):
    made = build(tmp_path / "made", small("softmax_fwd"))
    other = build(tmp_path / "other", small("softmax_fwd", seed=1))
    with pytest.raises(UsageError, match="cuda: a result from other input data"):
        judged(made, ran(other))


def test_a_result_with_other_launches_is_refused(made):
    found = ran(made)
    fewer = results.Result(found.name, found.outputs, (), found.provenance)
    with pytest.raises(UsageError, match="a result of another workload"):
        judged(made, fewer)


# ------------------------------------------------------------------ JSON


@pytest.mark.parametrize("change", [lambda tensors: None, one_nan, one_infinity, zeros])
def test_a_report_is_strict_json(made, change):
    report = judged(made, ran(made, change))
    text = json.dumps(diffs.to_json(report), allow_nan=False)
    found = json.loads(text)
    assert found["passed"] is report.passed
    assert found["first_diverging_layer"] == (None if report.passed else report.verdicts[0].layer)
    (tensor,) = found["tensors"]
    assert tensor["tensor"] == written(made)
    assert sum(tensor["ulps"].values()) == tensor["elements"] == 40
    assert tensor["outside_tolerance"] == report.verdicts[0].comparison.outside
    assert all(set(p) == {"index", "a", "b", "error", "tolerance"} for p in tensor["worst"])


def test_progress_is_told_by_step(network):
    told = []
    inputs = data.load(network.path / bundles.DATA, network.workload)
    diffs.diff(network.workload, inputs, ran(network), None, lambda *at: told.append(at))
    assert told == [(0, 2), (1, 2)]
