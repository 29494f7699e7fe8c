"""Problems that are made smaller, and what of them is kept."""

from __future__ import annotations

import pytest
from command_line import fails

import simgen as api
from simgen.frontend import scaling
from simgen.ground.ir import Pass

MACHINE = "mgpusim-mi300a"
SCALED = [  # name, pass, operations at most
    ("deepbench/gemm/17", None, 2e7),
    ("deepbench/gemm/50", None, 3e7),
    ("deepbench/gemm/240", None, 1e7),
    ("deepbench/conv/1", None, 2e7),
    ("deepbench/conv/42", "bwd_data", 1e8),
    ("deepbench/conv/40", "bwd_weight", 1e8),
]


def figures(made, direction):
    placed = made.plan.network.layers[0]
    small = scaling.Smaller(placed, Pass(direction or "fwd"), {})
    return placed, small.cost()[0], small.figures(made.workload.machine)


@pytest.mark.parametrize(("name", "direction", "most"), SCALED)
def test_what_is_told_of_a_smaller_problem_is_so(name, direction, most):
    full, made = (
        api.plan(name, passes=direction, plan_for=MACHINE, scale_to=each) for each in (None, most)
    )
    placed, work, wanted = figures(full, direction)
    small, flops, found = figures(made, direction)
    assert flops <= most < work
    told = " ".join(made.notes)
    assert f"scaled down to {flops:.3g} operations of {work:.3g}" in told
    for key, step in placed.layer.tiles(placed.node.inputs, Pass(direction or "fwd")).items():
        before, after = (scaling._value(each, key) for each in (placed, small))
        assert 0 < after <= before
        assert (before - after) % step == 0
        assert (f"{key} {after} of {before}" in told) is (after != before)
    kept = next(note for note in made.notes if note.startswith("kept: "))
    assert "kernel" in kept
    assert ("operations per byte" in kept) is (abs(found.intensity / wanted.intensity - 1) <= 0.1)
    assert ("work-groups" in kept) is (abs(found.groups / wanted.groups - 1) <= 0.1)
    assert made.name == f"{full.name}_scaled"
    assert found.kernel == wanted.kernel  # these have a smaller problem with the same kernel


def test_a_smaller_problem_is_the_one_with_these_settings():
    made = api.plan("deepbench/gemm/17", plan_for=MACHINE, scale_to=2e7)
    options = dict(made.workload.machine.options)
    by_hand = api.plan(
        "deepbench/gemm/17",
        set=dict(made.plan.problem.settings),
        plan_for=f"{MACHINE},num_compute_units={options['num_compute_units']}",
    )
    assert by_hand.workload.kernels == made.workload.kernels
    assert by_hand.workload.steps == made.workload.steps


def test_what_is_small_enough_stays():
    made = api.plan("deepbench/gemm/244", scale_to=2e7)
    assert made.notes[-1].startswith("not scaled: 7.9")
    assert made.name == "deepbench_gemm_244"


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ("alexnet --scale-to 1e6", "one layer in one pass"),
        ("deepbench/conv/17 --pass bwd --scale-to 1e7", "2 of its passes; take one"),
        ("softmax_fwd --scale-to 1000", "[Softmax] has no rule"),
        ("deepbench/gemm/17 --scale-to 100", "the least problem like it has"),
        ("deepbench/gemm/17 --scale-to 0", "--scale-to"),
        ("deepbench/gemm/17 --scale-to nan", "--scale-to"),
    ],
)
def test_what_cannot_be_scaled_is_one_line(simgen, words, fact):
    fails(simgen(f"show {words}"), 2, fact)
