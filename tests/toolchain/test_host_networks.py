"""Whole networks on the host target, judged layer by layer."""

from __future__ import annotations

import pytest
from network_bundles import TRAINING, failures, run

import simgen
from simgen.bundle import results
from simgen.ground.ir import Pass
from simgen.targets.host import Host
from simgen.workload import reference

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

TIMEOUT = 300.0  # seconds; a run takes one
BLOCK = {"n": 2, "h": 64, "w": 64}  # of ResNet: at 64 x 64, stage 5 has 2 x 2 pixels


@pytest.mark.parametrize("name", ["lenet5", "cifar_quick"])
def test_a_training_step_is_right_in_every_layer(name, tmp_path):
    plan = simgen.plan(name, set={"n": 3}, passes=TRAINING)
    report = run(tmp_path / name, plan, Host(), TIMEOUT)
    assert failures(report) == []
    assert [v.tensor for v in report.verdicts] == [
        buffer for step in plan.workload.steps for _, buffer in step.writes
    ]
    assert {v.direction for v in report.verdicts} == set(Pass)


def test_a_slice_with_a_branch_is_right_forward_and_backward(tmp_path):
    """ResNet-18's first block that changes the shape: its input has two readers."""
    block = "res2b_relu..res3a_relu"
    plan = simgen.plan("resnet18", set=BLOCK, passes=TRAINING, layers=block)
    assert [b.name for b in plan.workload.inputs if b.name.startswith("bn2b")] == []
    report = run(tmp_path / "block", plan, Host(), TIMEOUT)
    assert failures(report) == []
    written = [v.tensor for v in report.verdicts]
    assert {"res3a_branch1.dx", "res3a_branch2a.dx", "res2b_relu.dy"} <= set(written)


def test_memory_that_is_used_again_holds_the_same_numbers(tmp_path):
    """The last layers of a run that reuses memory are those of one that does not, bit for bit."""
    settings = {**BLOCK, "pool5.kernel_size": 2}
    found = {}
    for reuse in (False, True):
        plan = simgen.plan("resnet18", set=settings, reuse_memory=reuse)
        planned = plan.workload
        assert reference.reuses_memory(planned) is reuse
        report = run(tmp_path / str(reuse), plan, Host(), TIMEOUT)
        assert failures(report) == []
        left = results.load(tmp_path / str(reuse) / "results/host" / results.FILE)
        found[reuse] = left.outputs["prob.y"].values.tobytes()
    assert found[True] == found[False]
