"""The most of a workload that can be simulated in a given time, and what has to be given up for it.

In this order: nothing; equal launches, which are simulated once; as many processes at a time as the
machine has processors and memory for; smaller and smaller samples of large launches, where the
target takes them; smaller and smaller parts of the machine; then the batch; then, of a network,
height and width by halves as long as all its layers fit, where windows that had the whole image
still have it; of one layer, its extents by whole tiles (simgen.frontend.scaling).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import TYPE_CHECKING

from simgen.bundle import sampled
from simgen.bundle.planning import Plan
from simgen.errors import ConfigError, RefusedError, UnsupportedError, UsageError
from simgen.frontend import whole_images
from simgen.running import capacity, estimates, sampling
from simgen.workload import costs, pieces, samples

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from simgen.ir import Workload
    from simgen.running.estimates import Estimate
    from simgen.targets import Target

    Settings = tuple[tuple[str, str], ...]

HALVES = 8  # of height and width, at most
LEAST = 1e3  # operations that a layer is made smaller to, at the least
STEP = 2.0  # each try has so much fewer operations
RATES = (0.25, 0.1, 0.05, 0.02, 0.01)  # of samples, each about half of the one before
PARTS = (2, 4, 8)  # of the machine


@dataclass(frozen=True)
class Chosen:
    """A way to stay within a budget.

    Attributes:
        settings: of the build, that are not those asked for.
        scale_to: operations that the layer is made smaller to.
        representatives, jobs: of the run.
        sample: the part of the work-groups of large launches; 0: all.
        scale_model: 8 for an eighth of the machine; 0: all of it.
        seconds: of this machine, that it will take.
        given_up: what is not simulated as asked for, in words with numbers.
    """

    settings: Settings
    scale_to: float | None
    representatives: bool
    jobs: int
    sample: float
    scale_model: int
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
            return Chosen(settings, scale_to, False, 1, 0.0, 0, found.whole.host, shrunk)
        once = _once(workload)
        for jobs, rate, part, cost, told in _ways(workload, target, found):
            took = cost.by_pieces(workload, jobs, filled=part > 0)
            if took <= seconds:
                given_up = (*once, *told, *shrunk)
                return Chosen(settings, scale_to, True, jobs, rate, part, took, given_up)
            least = took if least is None else min(least, took)
    raise UsageError(
        f"--budget: the smallest that can be planned takes about {least or 0.0:.0f} s on "
        f"{target.name}; give it more, or take a part with --layers"
    )


def _ways(
    workload: Workload, target: Target, found: Estimate
) -> Iterator[tuple[int, float, int, Estimate, tuple[str, ...]]]:
    """Ways to run representatives, from that which gives up least: processes, the rate of samples,
    the part of the machine, what launches take then, and what is left out of them."""
    processes = tuple(dict.fromkeys((1, _processes(found))))
    for jobs in processes:
        yield jobs, 0.0, 0, found, ()
    for rate in RATES:
        shares = _shares(workload, target, rate)
        cost, told = found.sampled(shares), _left_out(workload, shares)
        for jobs in processes if shares else ():
            yield jobs, rate, 0, cost, told
    for part in PARTS:
        shares = _shares_of_part(workload, target, part)
        cost = found.sampled(shares)
        words = f"1/{part} of each launch runs, on as much of the machine"
        for jobs in processes if shares else ():
            yield jobs, 0.0, part, cost, (words,)


def _shares(workload: Workload, target: Target, rate: float) -> dict[int, float]:
    """Of launches that have a sample, the part of the work-groups that runs.

    How many work-groups a compute unit holds at once depends on registers and LDS, which only
    compiled code tells. Here they are as many as it has places for wavefronts, so a launch with few
    waves may have a sample that is not counted on. Empty where a run could be refused.
    """
    if target.unsampled(_timed(target)):
        return {}
    machine = workload.machine
    found = {}
    measured = pieces.representatives(workload).steps
    for at, launch in sampling.candidates(workload, measured):
        kernel, groups = workload.kernel(launch.kernel), prod(launch.grid)
        if not sampled.is_declared(kernel):
            if samples.ranges(groups, machine.units, rate) is not None:
                return {}
            continue
        slots = machine.simds * machine.wavefronts
        held = max(slots // ceil(kernel.block / machine.wavefront), 1) * machine.units
        ranges = samples.ranges(groups, held, rate)
        if ranges is not None:
            found[at] = sum(count for _, count in ranges) / groups
    return found


def _shares_of_part(workload: Workload, target: Target, part: int) -> dict[int, float]:
    """Of all launches, the part of the work-groups that runs on a part of the machine; empty where
    a run is refused."""
    measured = pieces.representatives(workload).steps
    cuts = [pieces.Piece((), measured)]
    try:
        if target.unsampled(_timed(target)):
            return {}
        found = sampling.of_part(workload, target, {}, part, cuts)
    except (RefusedError, UsageError):
        return {}
    groups = [prod(launch.grid) for launch in workload.launches]
    return {each.launch: each.groups / groups[each.launch] for each in found}


def _timed(target: Target) -> dict[str, str]:
    """The run options that make it tell times."""
    return {"mode": "timing"} if "mode" in target.run_options else {}


def _left_out(workload: Workload, shares: Mapping[int, float]) -> tuple[str, ...]:
    groups = {at: prod(workload.launches[at].grid) for at in shares}
    ran = sum(share * groups[at] for at, share in shares.items())
    of = "1 launch" if len(shares) == 1 else f"{len(shares)} launches"
    return (f"of {of}, about {ran:.0f} of {sum(groups.values())} work-groups run",)


def _processes(found: Estimate) -> int:
    """How many there is room for."""
    cpus = len(os.sched_getaffinity(0))
    free = capacity.available_memory()
    room = free // found.memory if free is not None and found.memory else cpus
    return max(1, min(cpus, room))


def _sizes(plan: Plan) -> Iterator[tuple[Settings, float | None, Plan]]:
    """Smaller and smaller workloads: settings, --scale-to, the plan."""
    yield (), None, plan
    inputs = plan.network.layers[0].node.inputs
    shape = inputs[0].shape if inputs else ()  # [Gemm] alone has its sizes from keys
    known = set(plan.settable)
    one = (("n", "1"),) if "n" in known and shape and shape[0] > 1 else ()
    if one:
        yield from _planned(plan, one)
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
        made = list(_covered(plan, one + own))
        if not made:
            return
        yield from made


def _covered(plan: Plan, settings: Settings) -> Iterator[tuple[Settings, None, Plan]]:
    """The plan of smaller images, if it can be made.

    What was one window over the whole image is one here: a mean of all elements stays that. How
    many there are only a plan with smaller windows tells.
    """
    names = whole_images.poolings(plan.network)
    for _, _, fitting in _planned(plan, (*settings, *whole_images.least(names))):
        own = whole_images.covering(fitting.network, names)
        if own is not None:
            yield from _planned(plan, (*settings, *own))


def _planned(plan: Plan, settings: Settings) -> Iterator[tuple[Settings, None, Plan]]:
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
