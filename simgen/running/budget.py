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

from simgen.ask.run import RunChoices
from simgen.bundle import sampled
from simgen.bundle.planning import Plan
from simgen.errors import ConfigError, RefusedError, UnsupportedError, UsageError
from simgen.frontend import whole_images
from simgen.running import capacity, estimates, pieces, sampling
from simgen.workload import costs, samples
from simgen.workload.pieces import Piece, Survey, representatives

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from simgen.ground.ir import Workload
    from simgen.running.estimates import Estimate
    from simgen.targets import Target

    Settings = tuple[tuple[str, str], ...]

HALVES = 8  # halvings of height and width, at most
MIN_OPERATIONS = 1e3  # operations that a layer is made smaller to, at the least
STEP = 2.0  # each try has so much fewer operations
RATES = (0.25, 0.1, 0.05, 0.02, 0.01)  # rates of samples, each about half of the one before
PARTS = (2, 4, 8)  # parts of the machine


@dataclass(frozen=True)
class Chosen:
    """A way to stay within a budget.

    Attributes:
        settings: of the build, that are not those asked for.
        scale_to: operations that the layer is made smaller to.
        run: how it is run.
        seconds: of this machine, that it will take.
        given_up: what is not simulated as asked for, in words with numbers.
        untaken: ways that would have given up less, and why none of them goes.
    """

    settings: Settings
    scale_to: float | None
    run: RunChoices
    seconds: float
    given_up: tuple[str, ...]
    untaken: tuple[str, ...]


@dataclass(frozen=True)
class _Way:
    """A way to run representatives, what that takes, and what it leaves out of them."""

    asked: RunChoices
    seconds: float
    left_out: tuple[str, ...]


def choose(plan: Plan, target: Target, factor: float, seconds: float) -> Chosen:
    """The way that gives up least.

    Raises:
        UsageError: nothing that can be planned is small enough.
    """
    least = None
    untaken: list[str] = []  # unused requests; smaller problems need not repeat them
    for settings, scale_to, smaller in _sizes(plan):
        workload = smaller.workload
        found = estimates.estimate(workload, target, factor)
        shrunk = _shrunk(plan.workload, workload)
        if found.whole.host <= seconds:
            told = tuple(dict.fromkeys(untaken))
            asked = _timed_choices(target)
            return Chosen(settings, scale_to, asked, found.whole.host, shrunk, told)
        once = _once(workload)
        for way in _ways(workload, target, found):
            if isinstance(way, str):
                untaken += [way] if smaller is plan else []
                continue
            if way.seconds <= seconds:
                given_up, told = (*once, *way.left_out, *shrunk), tuple(dict.fromkeys(untaken))
                return Chosen(settings, scale_to, way.asked, way.seconds, given_up, told)
            least = way.seconds if least is None else min(least, way.seconds)
        least = found.whole.host if least is None else min(least, found.whole.host)
    raise UsageError(
        f"--budget: the smallest that can be planned takes about {least or 0.0:.0f} s on "
        f"{target.name}; give it more, or take a part with {RunChoices.layers}"
    )


def _ways(workload: Workload, target: Target, found: Estimate) -> Iterator[_Way | str]:
    """Ways to run representatives, from that which gives up least; in words, those that do not go
    and why, where the first of them would be."""
    processes = tuple(dict.fromkeys((1, _processes(found))))
    try:
        wholes = [
            _planned_pieces(workload, target, _timed_choices(target, jobs)) for jobs in processes
        ]
    except UsageError as error:
        yield str(error)
        return
    for jobs, (_, cuts) in zip(processes, wholes):
        yield _Way(_timed_choices(target, jobs), found.by_pieces(workload, cuts, jobs), ())
    try:
        for rate in RATES:
            for jobs, (survey, cuts) in zip(processes, wholes):
                asked = replace(_timed_choices(target, jobs), sample=rate)
                pieces.check(target, asked)
                shares = _shares(workload, rate, {at for piece in cuts for at in piece.all})
                took = found.sampled(shares).by_pieces(workload, cuts, jobs)
                yield _Way(asked, took, _left_out(workload, shares, survey.steps))
    except (RefusedError, UsageError) as error:
        yield str(error)
    refused = []
    for part in PARTS:
        for jobs in processes:
            asked = replace(_timed_choices(target, jobs), scale_model=part)
            try:
                _, cuts = _planned_pieces(workload, target, asked)
                shares = _shares_of_part(workload, target, part, cuts)
            except (RefusedError, UsageError) as error:
                refused.append(str(error))
                continue
            took = found.sampled(shares).by_pieces(workload, cuts, jobs)
            yield _Way(asked, took, (f"1/{part} of each launch runs, on as much of the machine",))
    yield from refused[:1]


def _planned_pieces(
    workload: Workload, target: Target, asked: RunChoices
) -> tuple[Survey, list[Piece]]:
    """What a run would be cut into.

    Raises:
        UsageError: it would be refused.
    """
    pieces.check(target, asked)
    return pieces.plan(workload, asked)


def _shares(workload: Workload, rate: float, steps: Collection[int]) -> dict[int, float]:
    """For launches of these steps that have a sample: the part of the work-groups that runs.

    How many work-groups a compute unit holds at once depends on registers and LDS, which only
    compiled code tells. Here they are as many as it has places for wavefronts, so a launch with few
    waves may have a sample that is not counted on.

    Raises:
        RefusedError: there is none, or a run could be refused.
    """
    machine = workload.machine
    found, most = {}, 0.0
    for at, launch in sampling.candidates(workload, steps):
        kernel, groups = workload.kernel(launch.kernel), prod(launch.grid)
        if not sampled.is_declared(kernel):
            if samples.ranges(groups, machine.units, rate) is not None:
                raise RefusedError(
                    f"{RunChoices.sample}: kernel {kernel.name}: nothing says which elements its "
                    "work-groups write"
                )
            continue
        slots = machine.simds * machine.wavefronts
        held = max(slots // ceil(kernel.block / machine.wavefront), 1) * machine.units
        most = max(most, groups / held)
        ranges = samples.ranges(groups, held, rate)
        if ranges is not None:
            found[at] = sum(count for _, count in ranges) / groups
    if not found:
        raise RefusedError(
            f"{RunChoices.sample}: no launch has enough work-groups: the largest would fill the "
            f"machine {most:.2g} times, and a sample is taken from more than {samples.MIN_WAVES}"
        )
    return found


def _shares_of_part(
    workload: Workload, target: Target, part: int, cuts: Sequence[Piece]
) -> dict[int, float]:
    """For all launches of these pieces: the part of the work-groups that runs on a part of the
    machine.

    Raises:
        RefusedError, UsageError: there is no such part.
    """
    found = sampling.of_part(workload, target, {}, part, cuts)
    groups = [prod(launch.grid) for launch in workload.launches]
    return {each.launch: each.groups / groups[each.launch] for each in found}


def _timed_choices(target: Target, jobs: int | None = None) -> RunChoices:
    """A run that tells times; with `jobs`, of representatives, so many at a time."""
    options = {"mode": "timing"} if "mode" in target.run_options else {}
    return RunChoices(
        target.name,
        options=options,
        representatives=jobs is not None,
        jobs=jobs if jobs != 1 else None,
    )


def _left_out(
    workload: Workload, shares: Mapping[int, float], steps: Collection[int]
) -> tuple[str, ...]:
    """What is not measured of the launches of these steps."""
    firsts = workload.first_launches
    measured = {
        firsts[at] + turn for at in steps for turn in range(len(workload.steps[at].launches))
    }
    groups = {at: prod(workload.launches[at].grid) for at in shares if at in measured}
    ran = sum(shares[at] * count for at, count in groups.items())
    of = "1 launch" if len(groups) == 1 else f"{len(groups)} launches"
    return (f"of {of}, about {ran:.0f} of {sum(groups.values())} work-groups run",)


def _processes(found: Estimate) -> int:
    """How many there is room for."""
    cpus = len(os.sched_getaffinity(0))
    free = capacity.available_memory()
    room = free // found.memory if free is not None and found.memory else cpus
    return max(1, min(cpus, room))


def _sizes(plan: Plan) -> Iterator[tuple[Settings, float | None, Plan]]:
    """Smaller and smaller workloads: settings, operations at most, the plan."""
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
    choices = replace(plan.choices, set=(*plan.choices.set, *settings))
    try:
        made = Plan(plan.source, choices, planned_for=plan.planned_for)
        _ = made.workload
    except (ConfigError, UsageError, UnsupportedError):
        return
    yield settings, None, made


def _scaled(plan: Plan) -> Iterator[tuple[tuple[()], float, Plan]]:
    count = costs.total(costs.costs_of(plan.workload))
    most = (count.flops + count.transcendentals) / STEP
    while most >= MIN_OPERATIONS:
        choices = replace(plan.choices, scale_to=most)
        try:
            made = Plan(plan.source, choices, planned_for=plan.planned_for)
            _ = made.workload
        except (ConfigError, UsageError, UnsupportedError):
            return
        yield (), most, made
        most /= STEP


def _once(workload: Workload) -> tuple[str, ...]:
    inferred = len(representatives(workload).inferred)
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
    count = costs.total(costs.costs_of(workload))
    return float(count.flops + count.transcendentals)


def _intensity(workload: Workload) -> float:
    count = costs.total(costs.costs_of(workload))
    moved = count.read_bytes + count.written_bytes
    return _operations(workload) / moved if moved else 0.0


def _groups(workload: Workload) -> float:
    return max(prod(launch.grid) for launch in workload.launches) / workload.machine.units
