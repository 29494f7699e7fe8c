"""A whole network on the simulators: LeNet-5 forward, backward and update, judged by layer."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from network_bundles import TRAINING, failures, run

import simgen
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.mgpusim.target import MGPUSim

if TYPE_CHECKING:
    from simgen.targets import Target

TIMEOUT = 900.0  # seconds; gem5 takes one to two minutes, MGPUSim seconds once it is built


def lacking(target: Target) -> pytest.MarkDecorator:
    lacks = target.needs.missing()
    return pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))


def check(path: Path, target: Target) -> None:
    plan = simgen.plan("lenet5", passes=TRAINING)
    report = run(path, plan, target, TIMEOUT)
    assert failures(report) == []
    assert len(report.verdicts) == len(plan.workload.outputs)


@lacking(MGPUSim())
@pytest.mark.parametrize("arch", ["gfx942", "gfx803"])
def test_lenet_on_mgpusim(tmp_path, arch):
    check(tmp_path / "lenet5", MGPUSim(arch=arch))


@pytest.mark.gem5
@lacking(Gem5Se())
def test_lenet_on_gem5():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as root:  # gem5 redirects /tmp
        if Gem5Se().needs.refusal(Path(root)):
            pytest.skip("/var/tmp is a link to a place that gem5 redirects")
        check(Path(root) / "lenet5", Gem5Se())
