"""Twenty training steps of a small LeNet-5 on MGPUSim's emulator: it learns as the host does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simgen
from simgen.targets.host import Host
from simgen.targets.mgpusim.target import MGPUSim

if TYPE_CHECKING:
    from pathlib import Path

lacks = [*MGPUSim().needs.missing(), *Host().needs.missing()]
pytestmark = pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))

SMALL = {"n": 4, "conv1.num_output": 2, "conv2.num_output": 4, "ip1.num_output": 16}
STEPS = 20


def test_it_learns_as_the_host_does(tmp_path: Path) -> None:
    """Both are judged against the reference, and against each other, step by step."""
    plan = simgen.plan(
        "lenet5", inference=False, steps=STEPS, set=SMALL, optimizer="adam", rate=0.01,
        data="digits-images-idx3-ubyte.gz",
    )  # fmt: skip
    bundle = plan.build(tmp_path / "net", ("mgpusim", "host"))
    for target in ("host", "mgpusim"):
        bundle.run(target, timeout=600.0)
    judged = bundle.diff()
    assert judged, judged.failure
    assert {(each.a, each.b) for each in judged.reports} == {
        ("host", "reference"), ("mgpusim", "reference"), ("mgpusim", "host"),
    }  # fmt: skip
    for target in ("host", "mgpusim"):
        losses = [each.results[target] for each in judged.losses]
        assert len(losses) == STEPS
        assert sum(losses[-5:]) < sum(losses[:5]) / 2
