"""A network from a name to a comparison with the reference, as a user of the API has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.bundle import writing as bundles

if TYPE_CHECKING:
    from pathlib import Path

    from simgen import PlannedBuild
    from simgen.bundle.writing import Bundle
    from simgen.targets import Target
    from simgen.verdict.verdict import Diff

TRAINING = ("fwd", "bwd", "sgd")


def run(path: Path, plan: PlannedBuild, target: Target, timeout: float) -> Diff:
    """Build at `path`, run and compare with the reference."""
    made = plan.build(path, target)
    made.run(target.name, timeout=timeout)
    (report,) = made.diff(target.name).reports
    return report


def built(path: Path, plan: PlannedBuild, target: Target) -> Bundle:
    """The bundle, for tests that look behind the API."""
    return bundles.load(plan.build(path, target).path)


def failures(report: Diff) -> list[str]:
    """What is wrong, one line for each tensor."""
    return [
        f"{v.layer} {v.direction} {v.tensor}: {v.comparison.outside} outside, {v.suspicions}"
        for v in report.verdicts
        if not v.passed
    ]
