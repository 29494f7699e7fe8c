"""Small networks that cost what others do, and the score of what ran them."""

from __future__ import annotations

from math import prod

import pytest
from command_line import fails
from handmade import lowered_text

from simgen.ask.build import BuildChoices
from simgen.bundle.planning import Plan
from simgen.ground.ir import Pass
from simgen.reports.pages.row import Row
from simgen.reports.pages.score import of_machines, scores
from simgen.workload import costs, synthesis
from simgen.workload.synthesis import Distance, Imitated, KindCost

FORWARD = (Pass.FORWARD,)


def sources(*names: str, training: bool = False) -> list[Imitated]:
    plans = [Plan(name, BuildChoices(inference=False if training else None)) for name in names]
    return [
        Imitated(p.problem.name, p.workload, tuple(q.node.name for q in p.network.layers))
        for p in plans
    ]


def test_a_profile_is_what_the_kinds_cost_for_one_operation():
    (source,) = sources("attention")
    found = synthesis.profile(source.workload)
    works = costs.costs_of(source.workload)
    whole = sum(work.count.flops + work.count.transcendentals for work in works)
    of_products = sum(work.count.flops for work in works if work.kind == "gemm")
    assert found.keys() == {"gemm", "softmax"}
    assert found["gemm"].operations == pytest.approx(of_products / whole)
    assert sum(each.operations for each in found.values()) == pytest.approx(1)


def test_training_steps_have_the_mix_of_the_networks():
    """With updates, which follow from parameters, and so does their share."""
    passes = (Pass.FORWARD, Pass.BACKWARD, Pass.UPDATE)
    found = sources("language_model", training=True)
    made = synthesis.synthesise(found, passes, 2e6)
    planned = lowered_text(made.text, passes)
    work = costs.total(costs.costs_of(planned))
    assert work == made.work
    assert 1e6 < work.flops + work.transcendentals < 4e6
    assert synthesis.profile(planned) == made.made
    assert made.made.keys() - {"add"} == made.wanted.keys() - {"add"}
    assert synthesis.distance(made.made, made.wanted) == made.distance
    assert 0 < made.distance.largest < 0.1


def test_the_distance_is_as_it_is_defined():
    wanted = {"a": KindCost(0.75, 1.0, 0.5), "b": KindCost(0.25, 1.0, 0.0)}
    made = {
        "a": KindCost(0.5, 1.0, 0.0),
        "b": KindCost(0.5, 2.0, 0.0),
        "c": KindCost(0.0, 1.0, 0.0),
    }
    found = synthesis.distance(made, wanted)
    assert found.operations == pytest.approx(0.25)
    assert found.traffic == pytest.approx((0.25 + 0.0 + 0.25) / 2)
    # a has two thirds of its intensity; b has its own.
    assert found.intensity == pytest.approx(1 - (2 / 3) ** 0.5)
    assert found.parameters == pytest.approx(0.25)
    assert synthesis.distance(wanted, wanted) == Distance(0, 0, 0, 0)


def test_the_config_is_written_once_or_not_at_all(simgen, tmp_path):
    words = "new network softmax_fwd pool_fwd --operations 1e5 -o mix.dnnmark"
    assert not simgen(words).code
    assert (tmp_path / "mix.dnnmark").read_text().startswith("# simgen new network softmax_fwd")
    assert not simgen("show mix.dnnmark").code
    fails(simgen(words), 2, "mix.dnnmark: it is there already")
    fails(simgen("new network alexnet -o mix"), 2, "a config ends in .dnnmark")
    fails(simgen("new network bypass_fwd -o b.dnnmark"), 2, "only moves data")
    fails(simgen("new network softmax_fwd softmax_bwd -o b.dnnmark"), 2, "different passes")
    assert "[default: 2e7]" in simgen("new network --help").out
    words = "new network deepbench/gemm/17 --operations 1e4 --within 0.1 -o b.dnnmark"
    fails(simgen(words), 4, "the largest distance is")
    assert not (tmp_path / "b.dnnmark").exists()


def test_a_score_is_operations_by_time_and_a_machines_their_geometric_mean():
    steps = {"a": 2, "d": 2}  # the last one ran in part

    def row(bundle: str, operations: int, seconds: float | None, verdict: str = "same") -> Row:
        metrics = {} if seconds is None else {"seconds": seconds}
        return Row(
            bundle,
            bundle,
            "m",
            "l",
            "fwd",
            "f32",
            "t",
            operations,
            4,
            metrics,
            verdict=verdict,
            steps=steps.get(bundle, 0),
        )

    rows = [
        row("a", 100, 1.0), row("a", 0, 1.0), row("b", 800, 1.0, "not checked"),
        row("c", 100, 1.0), row("c", 100, None), row("d", 100, 1.0), row("e", 0, 1.0),
        row("f", 9, 1.0, "different"),
    ]  # fmt: skip
    found = scores(rows)
    assert [(each.bundle, each.rate, each.doubt) for each in found] == [
        ("a", 50, ""),
        ("b", 800, "not checked"),
        ("e", None, ""),
        ("f", None, "different"),
    ]
    assert of_machines(found) == {"t": pytest.approx(prod((50, 800)) ** 0.5)}
