"""A network from a name to a comparison with the reference, by simgen's own stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.bundle import results
from simgen.bundle import writing as bundles
from simgen.check import diff
from simgen.frontend import network, problem
from simgen.ir import Pass
from simgen.running import process
from simgen.tensors import data_file
from simgen.workload import lowering

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from simgen.bundle.writing import Bundle
    from simgen.compile.build import Builder
    from simgen.ir import Workload
    from simgen.targets import Target

PROVENANCE = {"simgen": "test", "config": {}}
TRAINING = (Pass.FORWARD, Pass.BACKWARD, Pass.UPDATE)


def lowered(
    name: str,
    settings: Sequence[tuple[str, str]] = (),
    passes: Sequence[Pass] = TRAINING,
    layers: str | None = None,
    *,
    reuse_memory: bool = False,
) -> Workload:
    """What `simgen build NAME --set ... --pass ... --layers ...` makes."""
    found = problem.find(name, settings, passes)
    net = network.resolve(found.config, found.settings, layers=layers)
    return lowering.lower(net, found.name, found.passes, 0, reuse_memory=reuse_memory)


def judged(made: Bundle, target: Target, timeout: float) -> diff.Diff:
    """The bundle run on a target, against the reference."""
    folder = process.run(made, target.name, timeout=timeout)
    result = results.collect(made, target, folder)
    inputs = data_file.load(made.path / bundles.DATA, made.workload)
    return diff.diff(made.workload, inputs, result, None)


def run(
    path: Path, planned: Workload, target: Target, builder: Builder, timeout: float
) -> diff.Diff:
    """Build at `path`, run and compare."""
    made = bundles.write(path, planned, (target,), builder, PROVENANCE)
    return judged(made, target, timeout)


def failures(report: diff.Diff) -> list[str]:
    """What is wrong, one line for each tensor."""
    return [
        f"{v.layer} {v.direction} {v.tensor}: {v.comparison.outside} outside, {v.suspicions}"
        for v in report.verdicts
        if not v.passed
    ]
