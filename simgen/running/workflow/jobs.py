"""The jobs of a workflow: bundles to build, points to run, what each needs of a machine.

`workflow.json` beside the Snakefile holds them; the Snakefile makes rules of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from simgen.errors import SimgenError
from simgen.ground.storage.schema import Sized, Within
from simgen.running import estimates, pieces, probe

if TYPE_CHECKING:
    from simgen.ask.run import RunChoices
    from simgen.ground.ir import Workload
    from simgen.targets import Target

FILE = "workflow.json"
MIB = 1 << 20
SIMGEN_MIB = 1024  # memory of simgen itself besides a simulator: the reference, results
SLACK = 1.5  # requested memory relative to the predicted one
# Machine times are predicted within this factor at worst (benchmarks/costs/RESULTS.md).
LATE = 5.2
LEAST_MINUTES = 10  # start of Python, input data, the reference
UNKNOWN_MINUTES = 240  # minutes for targets without fitted costs
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")

Name = Annotated[str, Sized(1, 500)]
Words = Annotated[str, Sized(0, 100_000)]
Minutes = Annotated[int, Within(1, 10_000_000)]
Megabytes = Annotated[int, Within(1, 2**40)]


@dataclass(frozen=True)
class JobBundle:
    """A bundle that points run in."""

    path: Name
    digest: str  # digest of its workload.json
    build: Words  # words of `simgen build`, quoted for a shell; empty: the bundle exists
    memory_mb: Megabytes


@dataclass(frozen=True)
class JobPoint:
    """A result, and how it is made."""

    bundle: Name  # its key
    result: Name
    run: Words  # words of `simgen run BUNDLE`, quoted for a shell
    memory_mb: Megabytes
    minutes: Minutes
    pieces: tuple[Minutes, ...] = ()  # minutes of each piece; none: it runs whole


@dataclass(frozen=True)
class Workflow:
    """What is to be done, as the file has it."""

    simgen: Words  # the command, quoted for a shell
    version: str
    wanted: str  # RESULTS, or REPORT
    diff: bool
    container: Annotated[str, Sized(0, 1000)]  # an image; empty: none
    bundles: Mapping[str, JobBundle]
    points: Mapping[str, JobPoint]

    @property
    def jobs(self) -> int:
        """How many there are, about."""
        return sum(len(each.pieces) + 2 for each in self.points.values()) + len(self.bundles)


RESULTS, REPORT = "results", "report"  # what a workflow ends with


def key(name: str, taken: Mapping[str, object]) -> str:
    """A name for wildcards and files: letters, digits and ._- only, and not one that is taken."""
    plain = UNSAFE.sub("-", name).strip("-.") or "x"
    found, count = plain, 1
    while found in taken:
        count += 1
        found = f"{plain}-{count}"
    return found


def requested(point: JobPoint, workload: Workload, target: Target, asked: RunChoices) -> JobPoint:
    """The point with its pieces, memory and time, as predicted for the workload.

    Raises:
        UsageError: it cannot be cut so.
    """
    cost = _estimate(workload, target)
    memory = target.needs.memory_nbytes(workload)
    memory = max(memory, cost.memory if cost else 0)
    needed = math.ceil(SLACK * memory / MIB) + SIMGEN_MIB
    if asked.by_pieces is None:
        minutes = _minutes(cost.whole.host) if cost else UNKNOWN_MINUTES
        return replace(point, memory_mb=needed, minutes=minutes)
    _, cuts = pieces.plan(workload, asked)
    times = [
        _minutes(cost.of_piece(workload, piece)) if cost else UNKNOWN_MINUTES for piece in cuts
    ]
    return replace(point, memory_mb=needed, minutes=LEAST_MINUTES * 3, pieces=tuple(times))


def _estimate(workload: Workload, target: Target) -> estimates.Estimate | None:
    """None where nothing was fitted for the target."""
    if target.name not in estimates.table():
        return None
    found = probe.kept_probe(target)
    try:
        return estimates.estimate(workload, target, found.factor if found else 1.0)
    except SimgenError:
        return None


def _minutes(seconds: float) -> int:
    return LEAST_MINUTES + math.ceil(LATE * seconds / 60)
