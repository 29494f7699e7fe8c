"""The most of a workload that can be simulated in a given time, and what has to be given up for it.

In this order: nothing; equal launches, which are simulated once; as many processes at a time as the
machine has processors and memory for; then the batch; then, of a network, height and width by
halves as long as all its layers fit; of one layer, its extents by whole tiles
(simgen.frontend.scaling).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from simgen.bundle.planning import Plan
from simgen.errors import ConfigError, UnsupportedError, UsageError
from simgen.frontend.network import settable
from simgen.running import capacity, estimates
from simgen.workload import costs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.ir import Workload
    from simgen.running.estimates import Estimate
    from simgen.targets import Target

HALVES = 8  # of height and width, at most
LEAST = 1e3  # operations that a layer is made smaller to, at the least
STEP = 2.0  # each try has so much fewer operations


@dataclass(frozen=True)
class Chosen:
    """A way to stay within a budget.

    Attributes:
        settings: of the build, that are not those asked for.
        scale_to: operations that the layer is made smaller to.
        representatives, jobs: of the run.
        seconds: of this machine, that it will take.
        given_up: what is not simulated as asked for, in words with numbers.
    """

    settings: tuple[tuple[str, str], ...]
    scale_to: float | None
    representatives: bool
    jobs: int
    seconds: float
    given_up: tuple[str, ...]


def choose(plan: Plan, target: Target, factor: float, seconds: float) -> Chosen:
    """The way that gives up least.

    Raises:
        UsageError: nothing that can be planned is small enough.
    """
    least = None
    for settings, scale_to, smaller in _sizes(plan):
        workload = smaller.workload
        found = estimates.estimate(workload, target, factor)
        shrunk = _shrunk(plan.workload, workload)
        if found.whole.host <= seconds:
            return Chosen(settings, scale_to, False, 1, found.whole.host, shrunk)
        for jobs in dict.fromkeys((1, _processes(found))):
            took = found.by_pieces(workload, jobs)
            if took <= seconds:
                once = _once(workload)
                return Chosen(settings, scale_to, True, jobs, took, (*once, *shrunk))
            least = took if least is None else min(least, took)
    raise UsageError(
        f"--budget: the smallest that can be planned takes about {least or 0.0:.0f} s on "
        f"{target.name}; give it more, or take a part with --layers"
    )


def _processes(found: Estimate) -> int:
    """How many there is room for."""
    cpus = len(os.sched_getaffinity(0))
    free = capacity.available_memory()
    room = free // found.memory if free is not None and found.memory else cpus
    return max(1, min(cpus, room))


def _sizes(plan: Plan) -> Iterator[tuple[tuple[tuple[str, str], ...], float | None, Plan]]:
    """Smaller and smaller workloads: settings, --scale-to, the plan."""
    yield (), None, plan
    shape = plan.network.layers[0].node.inputs[0].shape
    known = {*settable(plan.network), *plan.problem.config.variables}
    if "n" in known and shape[0] > 1:
        yield from _planned(plan, (("n", "1"),))
    if len(plan.network.layers) == 1:
        yield from _scaled(plan)
        return
    if not {"h", "w"} <= known or len(shape) != 4:
        return
    for at in range(1, HALVES):
        height, width = shape[2] >> at, shape[3] >> at
        if min(height, width) < 1:
            return
        own = (("h", str(height)), ("w", str(width)))
        made = list(_planned(plan, ((("n", "1"),) if "n" in known else ()) + own))
        if not made:
            return
        yield from made


def _planned(
    plan: Plan, settings: tuple[tuple[str, str], ...]
) -> Iterator[tuple[tuple[tuple[str, str], ...], None, Plan]]:
    """The plan with other settings, if it can be made."""
    choices = replace(plan.choices, settings=(*plan.choices.settings, *settings))
    try:
        made = Plan(plan.source, choices, planned_for=plan.planned_for)
        _ = made.workload
    except (ConfigError, UsageError, UnsupportedError):
        return
    yield settings, None, made


def _scaled(plan: Plan) -> Iterator[tuple[tuple[()], float, Plan]]:
    count = costs.total(costs.of(plan.workload))
    most = (count.flops + count.transcendentals) / STEP
    while most >= LEAST:
        choices = replace(plan.choices, scale_to=most)
        try:
            made = Plan(plan.source, choices, planned_for=plan.planned_for)
            _ = made.workload
        except (ConfigError, UsageError, UnsupportedError):
            return
        yield (), most, made
        most /= STEP


def _once(workload: Workload) -> tuple[str, ...]:
    from simgen.workload import pieces

    inferred = len(pieces.representatives(workload).inferred)
    count = len(workload.launches)
    return (f"{inferred} of {count} launches are inferred from like ones",) if inferred else ()


def _shrunk(asked: Workload, made: Workload) -> tuple[str, ...]:
    """How a smaller workload differs, by what its kernels meet."""
    if made == asked:
        return ()
    rows = [
        ("operations", "{:.3g}", _operations),
        ("operations per byte", "{:.3g}", _intensity),
        ("work-groups per compute unit of the largest launch", "{:.3g}", _groups),
    ]
    return tuple(
        f"{name} {form.format(of(asked))} -> {form.format(of(made))}" for name, form, of in rows
    )


def _operations(workload: Workload) -> float:
    count = costs.total(costs.of(workload))
    return float(count.flops + count.transcendentals)


def _intensity(workload: Workload) -> float:
    count = costs.total(costs.of(workload))
    moved = count.read_bytes + count.written_bytes
    return _operations(workload) / moved if moved else 0.0


def _groups(workload: Workload) -> float:
    return max(prod(launch.grid) for launch in workload.launches) / workload.machine.units
