"""Is a result right? What is right passes; what is wrong fails, with the right words."""

from __future__ import annotations

import json

import numpy as np
import pytest
from handmade import BOTH, build, lowered, lowered_text, run_by_hand, small

from simgen.bundle import results, verdict_file
from simgen.bundle import writing as bundles
from simgen.errors import UsageError
from simgen.ground.ir import DType
from simgen.targets.cuda import Cuda
from simgen.tensors import data_file
from simgen.verdict import diff as diffs
from simgen.verdict import shares, verdict


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
    inputs = data_file.load(made.path / bundles.DATA, made.workload)
    return diffs.diff(made.workload, inputs, a, b)


def judged_all(made, found, pairs=()):
    inputs = data_file.load(made.path / bundles.DATA, made.workload)
    return diffs.judge(made.workload, inputs, found, pairs)


def told(reports):
    """As JSON; a sum of squares depends on the order of its terms."""
    found = verdict.to_json(reports)
    for pair in found["pairs"]:
        for tensor in pair["tensors"]:
            tensor["statistic"] = f"{tensor['statistic']:.9g}"
    return found


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
        words[start_of(made) + 38 : start_of(made) + 40] = DType.F32.canary
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
        words[:] = DType.F32.canary
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
    names = [pair[at].name for at in order]
    assert report.failure.startswith(f"{names[0]} and {names[1]} differ first in ")


def nans(tensors):
    for values in tensors.values():
        values[:] = np.nan


@pytest.mark.parametrize("change", [swapped_rows, nans])
def test_two_equally_wrong_results_do_not_pass(made, change):
    one, other = ran(made, change, name="one"), ran(made, change, name="other")
    report = judged(made, one, other)
    assert report.verdicts[0].comparison.outside == 0
    assert not report.passed
    assert report.verdicts[0].wrong == ("one", "other")
    assert report.failure == f"one and other are alike and wrong in {report.verdicts[0].place}"


def test_what_is_in_its_bound_but_not_what_rounding_explains_is_told(tmp_path):
    """A sum of 4096 products may be off by 4096 roundings, but not all elements by a hundred."""
    made = build(tmp_path / "b", lowered("gemm_fwd", ("m", "8"), ("n", "8"), ("k", "4096")))
    name = written(made)

    def moved(tensors):
        # Bounds are k u sum |a b|, and sum |a b| is about 60 times the result.
        values = tensors[name]
        values += np.float32(2e-5) * np.abs(values).max()

    report = judged(made, ran(made, moved))
    (found,) = report.verdicts
    assert found.comparison.outside == 0
    assert report.outcome == "different"
    assert "but the errors of the whole tensor are " in found.reasons[0]
    assert found.reasons[0] in report.failure
    assert judged(made, ran(made)).passed


def test_a_failure_names_all_results_that_are_wrong(made):
    found = [ran(made, name="good"), ran(made, scale, name="x"), ran(made, scale, name="y")]
    reports = judged_all(made, found, [(0, 1), (1, 2)])
    assert [report.outcome for report in reports] == ["same", *["different"] * 4]
    place = reports[1].verdicts[0].place
    assert verdict.failure(reports) == (
        f"x and reference differ first in {place}; y differs from it too"
    )
    assert reports[3].verdicts[0].reasons[-1] == "x is not what the reference says"


def test_a_reference_is_computed_once_for_all_results_that_read_the_same(network, monkeypatch):
    """The second layer reads what the first one gave: other bits in one of four results."""
    calls = []
    expected = shares.expected
    monkeypatch.setattr(shares, "expected", lambda *args: calls.append(args) or expected(*args))
    found = [ran(network, name=name) for name in "abc"]
    found.append(ran(network, spoil_output("limit.y"), name="d"))
    reports = judged_all(network, found, [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
    assert len(reports) == 10
    assert len(calls) == 3


@pytest.mark.parametrize("size", [2**21, 7, 1])
def test_the_elements_compared_at_a_time_do_not_matter(tmp_path, monkeypatch, size):
    """Of a layer whose reference is computed as a whole."""
    made = build(tmp_path / "b", lowered("gemm_fwd", ("m", "5"), ("n", "4"), ("k", "3")))
    found = [ran(made), ran(made, spoil_output(written(made)), name="other")]
    whole = told(judged_all(made, found, [(0, 1)]))
    monkeypatch.setattr(diffs, "SLICE", size)
    assert told(judged_all(made, found, [(0, 1)])) == whole
    assert whole["verdict"] == "different"


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
        # Where a last bit is less than tanh may be wrong by.
        limit[:] = np.where(np.abs(limit) < 0.9, np.nextafter(limit, np.float32(0)), limit)
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
    whole = told([judged(network, result)])
    monkeypatch.setattr(diffs, "SLICE", 1)
    assert told([judged(network, result)]) == whole


# ------------------------------------------------------------------ what proves nothing


NOTHING = {
    "dropout of everything": "[Dropout]\nn=2\nc=8\ndropout_probability=1\n",
    "alpha=0": "[Gemm]\nm=4\nn=4\nk=4\nalpha=0\n",
    "one class": "[Softmax]\nn=8\nc=1\n",
}


@pytest.mark.parametrize(
    ("what", "value"), [("dropout of everything", 0), ("alpha=0", 0), ("one class", 1)]
)
def test_what_is_one_value_by_definition_passes_and_proves_nothing(tmp_path, what, value):
    made = build(tmp_path / "b", lowered_text(NOTHING[what]))
    report = judged(made, ran(made))
    assert report.passed
    assert report.outcome == "proved nothing"
    assert report.verdicts[0].reasons == (f"every element of the reference is {value}",)
    assert verdict.summary([report]).endswith(": all right, but none proves anything")
    assert verdict.unproven([report]).endswith(f"proved nothing: {report.verdicts[0].reasons[0]}")
    pair = judged(made, ran(made), ran(made, name="other"))
    assert pair.outcome == "proved nothing"


@pytest.mark.parametrize("what", NOTHING)
def test_what_proves_nothing_can_still_be_wrong(tmp_path, what):
    made = build(tmp_path / "b", lowered_text(NOTHING[what]))

    def one(tensors):
        for values in tensors.values():
            values[0] += np.float32(0.5)

    assert judged(made, ran(made, one)).outcome == "different"
    assert (
        judged(made, ran(made, spoil=lambda words: words * 0 + DType.F32.canary)).outcome
        == "different"
    )


def test_a_saturated_gradient_proves_nothing(tmp_path):
    """With y at its ends, y (1 - y) is 0 in every element."""
    made = build(
        tmp_path / "b",
        lowered("activation_bwd", ("n", "4"), ("c", "10"), ("h", "1"), ("w", "1"),
                ("activation_mode", "sigmoid")),
    )  # fmt: skip
    inputs = {
        name: np.sign(values) if name.endswith(".y") else values
        for name, values in data_file.load(made.path / bundles.DATA, made.workload).items()
    }
    result = ran(made, lambda tensors: [values.fill(0) for values in tensors.values()])
    report = diffs.diff(made.workload, inputs, result, None)
    assert report.outcome == "proved nothing"


def test_one_tensor_that_proves_something_is_enough_for_the_pair_but_is_counted(tmp_path):
    text = "[Activation]\nname=a\nn=4\nc=6\n[Dropout]\nname=d\nprevious_layer=a\n"
    made = build(tmp_path / "b", lowered_text(text + "dropout_probability=1\n"))
    report = judged(made, ran(made))
    assert [v.outcome for v in report.verdicts] == ["same", "proved nothing"]
    assert report.outcome == "same"
    assert verdict.summary([report]) == "1 result, 2 tensors: 1 right, 1 proves nothing"
    many = ["same", *["proved nothing"] * 21]
    assert verdict_file.counted(many) == "1 right, 21 prove nothing"
    wrong = judged(made, ran(made, spoil_output("a.y"), name="bad"))
    assert verdict.summary([report, wrong]) == (
        "2 results, 4 tensors: 1 differs, first in layer a, a.y; 2 prove nothing"
    )


def test_a_result_in_which_no_layer_ran_is_no_pass(made):
    found = ran(made)
    part = {**found.provenance, "part": {"layers": "none", "inputs": None, "steps": []}}
    with pytest.raises(UsageError, match="cuda: no layer ran, nothing to compare; run it again"):
        judged(made, results.Result(found.name, found.outputs, found.launches, part))
    empty = verdict.Diff("cuda", "reference", ())
    assert not empty.passed
    assert empty.outcome == "proved nothing"
    assert verdict.failure([empty]) == "cuda and reference have no tensor to compare"


# ------------------------------------------------------------------ float32 overflows


def huge(made):
    """Inputs whose sums are beyond float32 in the first row."""
    inputs = dict(data_file.load(made.path / bundles.DATA, made.workload))
    for name, values in inputs.items():
        inputs[name] = np.array(values)
        inputs[name][0] = np.float32(3e38)
    return inputs


def overflowing(tmp_path):
    text = "[Activation]\nname=a\nn=4\nc=6\n[Add]\nname=s\nprevious_layer=a,a\n"
    made = build(tmp_path / "b", lowered_text(text))

    def compute(tensors):
        tensors["a.y"][0] = 3e38
        with np.errstate(over="ignore"):
            tensors["s.y"][:] = tensors["a.y"] + tensors["a.y"]

    return made, compute


def test_an_overflow_that_any_machine_has_is_right_and_named(tmp_path):
    made, compute = overflowing(tmp_path)
    result = ran(made, compute)
    assert np.isposinf(result.outputs["s.y"].values[0]).all()
    report = diffs.diff(made.workload, huge(made), result, None)
    assert report.outcome == "same"
    assert report.verdicts[1].reasons == ("6 elements overflow float32, as they must",)
    told = verdict.to_json([report])["pairs"][0]["tensors"][1]
    assert (told["overflowed"], told["verdict"]) == (6, "same")
    assert diffs.diff(made.workload, huge(made), result, ran(made, compute, name="b")).passed


@pytest.mark.parametrize("value", [-np.inf, np.nan, 3.4e38, 0.0])
def test_only_the_infinity_of_its_sign_is_right_for_an_overflow(tmp_path, value):
    made, compute = overflowing(tmp_path)

    def spoil(tensors):
        compute(tensors)
        tensors["s.y"][0, 2] = value

    report = diffs.diff(made.workload, huge(made), ran(made, spoil), None)
    assert [v.outcome for v in report.verdicts] == ["same", "different"]
    assert report.verdicts[1].comparison.outside == 1


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


@pytest.mark.parametrize(
    ("ran_steps", "by_pieces", "lost", "refused"),
    [
        ((0,), True, "probability.y", False),  # of a step that did not run
        ((0, 1), True, "probability.y", True),  # of one that did
        ((0,), False, "probability.y", True),  # a run that is whole has all tensors
        ((0, 1), True, "", False),
    ],
)
def test_a_result_by_pieces_has_what_its_pieces_wrote(network, ran_steps, by_pieces, lost, refused):
    found = ran(network)
    outputs = {name: each for name, each in found.outputs.items() if name != lost}
    told = {"pieces": [{}] if by_pieces else [], "part": {"steps": list(ran_steps)}}
    part = results.Result("cuda@pieces", outputs, found.launches, found.provenance | told)
    if refused:
        with pytest.raises(UsageError, match="cuda@pieces: a result of another workload"):
            judged(network, part)
        return
    report = judged(network, part)
    assert report.passed
    steps = {f"{each.layer} {each.direction}" for each in network.workload.steps}
    assert len(steps) == 2
    assert len(report.verdicts) == len(ran_steps)
    # Nor has it others than the workload has.
    outputs["none.y"] = found.outputs["probability.y"]
    with pytest.raises(UsageError, match="a result of another workload"):
        judged(network, results.Result("x", outputs, part.launches, part.provenance))


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
    text = json.dumps(verdict.to_json([report]), allow_nan=False)
    whole = json.loads(text)
    (found,) = whole["pairs"]
    outcome = "same" if report.passed else "different"
    assert whole["verdict"] == found["verdict"] == found["tensors"][0]["verdict"] == outcome
    assert found["first_diverging_layer"] == (None if report.passed else report.verdicts[0].layer)
    (tensor,) = found["tensors"]
    assert tensor["tensor"] == written(made)
    assert sum(tensor["ulps"].values()) == tensor["elements"] == 40
    assert tensor["outside_tolerance"] == report.verdicts[0].comparison.outside
    assert all(set(p) == {"index", "a", "b", "error", "tolerance"} for p in tensor["worst"])


def test_progress_is_told_by_step(network):
    told = []
    inputs = data_file.load(network.path / bundles.DATA, network.workload)
    diffs.diff(network.workload, inputs, ran(network), None, lambda *at: told.append(at))
    assert told == [(0, 2), (1, 2)]
