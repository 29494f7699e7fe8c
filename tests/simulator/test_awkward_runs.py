"""Layers of training, texts, masks and time steps on MGPUSim, in shapes that fit nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narrow
import pytest
from awkward import FORWARD, KEPT_ON_SIMULATORS, MORE, PROBLEMS
from layer_bundles import plan

from simgen.bundle import results
from simgen.bundle import writing as bundles
from simgen.ground.ir import Pass
from simgen.ground.machine import named
from simgen.running import process
from simgen.targets.mgpusim.target import GPUS, MGPUSim

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from layer_bundles import Problem

    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder

lacks = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))

PASSES = (Pass.FORWARD, Pass.BACKWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT)


def turn(problems: Mapping[str, Problem], arch: str) -> dict[str, Problem]:
    """Those of an architecture: what a kind of layer has takes turns with them, as its text and
    its sizes are the same. (That each instruction is right on each is in test_legalise_runs.py.)"""
    order = sorted(problems, key=lambda name: problems[name].variant.kind)
    wanted = set(order[list(GPUS.values()).index(arch) :: len(GPUS)])
    return {name: problem for name, problem in problems.items() if name in wanted}


@pytest.mark.parametrize("arch", GPUS.values())
def test_every_pass_is_right(tmp_path: Path, builder: Builder, arch: str) -> None:
    target = MGPUSim(arch=arch)
    check(tmp_path / "b", builder, target, plan(turn(PROBLEMS | MORE, arch), *PASSES))
    check(tmp_path / "f", builder, target, plan(FORWARD, Pass.FORWARD))


@pytest.mark.parametrize("arch", GPUS.values())
def test_steps_that_keep_their_weights_are_right(
    tmp_path: Path, builder: Builder, arch: str
) -> None:
    """Planned for what runs them, whose local memory and units say what a work-group has."""
    target = MGPUSim(arch=arch)
    work = plan(turn(KEPT_ON_SIMULATORS, arch), *PASSES, machine=named(target.machine))
    for step in work.steps:
        chained = [work.kernel(launch.kernel).chained for launch in step.launches]
        assert any(chained) == (step.direction is not Pass.BACKWARD_WEIGHT)
    check(tmp_path / "b", builder, target, work)


def check(path: Path, builder: Builder, target: MGPUSim, work: Workload) -> None:
    bundle = bundles.write(path, work, [target], builder, narrow.PROVENANCE)
    folder = process.run(bundle, "mgpusim", environment={"SIMGEN_MODE": "emu"}, timeout=600)
    assert narrow.wrong(bundle, results.collect(bundle, target, folder)) == []
