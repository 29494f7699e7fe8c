"""Twenty training steps of a small LeNet-5, on samples that come with simgen: it learns, and every
tensor of every step is right by what its step began with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import simgen
from simgen.targets.host import Host

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)
SMALL = {"n": 4, "conv1.num_output": 4, "conv2.num_output": 8, "ip1.num_output": 32}
STEPS = 20


@pytest.mark.parametrize("given", [{}, {"type": "f16", "loss_scale": 128.0}], ids=["f32", "f16"])
def test_it_learns_and_no_step_is_wrong(tmp_path: Path, given: dict[str, Any]) -> None:
    plan = simgen.plan(
        "lenet5", inference=False, steps=STEPS, set=SMALL, optimizer="adam", rate=0.005,
        data="digits-images-idx3-ubyte.gz", **given,
    )  # fmt: skip
    bundle = plan.build(tmp_path / "net", "host")
    bundle.run(timeout=300.0)
    judged = bundle.diff()
    assert judged, judged.failure
    assert [each.step for each in judged.losses] == list(range(1, STEPS + 1))
    losses = [each.results["host"] for each in judged.losses]
    assert sum(losses[-5:]) < sum(losses[:5]) / 2
