"""Samples of a run's launches: which launches have one, and what the other groups would write.

A layer that reads what a sampled one leaves finds the reference's values where work-groups did not
run: they are in memory before it runs. Where they do, there is the canary, as ever.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.ask.run import RunChoices
from simgen.bundle import sampled
from simgen.errors import RefusedError
from simgen.frontend.network import make_layer
from simgen.ground.ir import Launch, Role, Workload
from simgen.workload import cached, samples
from simgen.workload.samples import Sample

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from simgen.bundle.run_record import Run
    from simgen.bundle.writing import Bundle
    from simgen.targets import Target
    from simgen.workload.pieces import Piece


def choose(
    bundle: Bundle,
    target: Target,
    options: Mapping[str, str],
    rate: float | None,
    cuts: Sequence[Piece],
) -> tuple[Sample, ...]:
    """For all launches of these pieces that are large enough, a sample of about this rate.

    Raises:
        RefusedError: nothing says what the work-groups of such a launch write.
    """
    if not rate:
        return ()
    workload = bundle.workload
    found = []
    for at, launch in candidates(workload, {step for piece in cuts for step in piece.all}):
        kernel = workload.kernel(launch.kernel)
        held = target.held(bundle.path / target.name, kernel, options)
        ranges = samples.ranges(prod(launch.grid), held, rate)
        if ranges is None:
            continue
        if not sampled.is_declared(kernel):
            raise RefusedError(
                f"{RunChoices.sample}: kernel {kernel.name}: nothing says which elements its "
                "work-groups write, and that they do not wait for each other; run it whole"
            )
        found.append(Sample(at, held, ranges))
    return tuple(found)


def of_part(
    workload: Workload,
    target: Target,
    options: Mapping[str, str],
    part: int,
    cuts: Sequence[Piece],
) -> tuple[Sample, ...]:
    """For each launch of these pieces, what a part of the machine runs; 8 is an eighth of it.

    Raises:
        RefusedError: of a launch, there is no part.
        UsageError: the machine has no such part.
    """
    caches = target.caches_of_part(workload, options, part)
    steps = sorted({step for piece in cuts for step in piece.all})
    wanted = {place for step in steps for place in _places(workload, step)}
    able = dict(candidates(workload, steps))
    warm, pages = (list(cached.cached_places(workload, nbytes)) for nbytes in caches)
    found, ran = [], set[str]()
    for at, launch in enumerate(workload.launches):
        if at in wanted:
            kernel = workload.kernel(launch.kernel)
            if at not in able or not sampled.is_declared(kernel):
                raise RefusedError(
                    f"{RunChoices.scale_model}: kernel {kernel.name}: its work-groups may need "
                    "what others of them write; run it whole, or leave its layer out with "
                    f"{RunChoices.layers}"
                )
            ranges, count = samples.of_part(launch.grid, part)
            code = launch.kernel in ran
            found.append(Sample(at, count, ranges, part, warm[at], pages[at], code))
        ran.add(launch.kernel)
    return tuple(found)


def candidates(workload: Workload, steps: Collection[int]) -> Iterator[tuple[int, Launch]]:
    """Launches of these steps that may be sampled, by their indices.

    What later launches of its step take for indices must be whole, and so must what a step carries
    from launch to launch.
    """
    for at in sorted(steps):
        step = workload.steps[at]
        layer = make_layer(workload.node(step.layer), workload.machine)
        if layer.carried(step.direction):
            continue
        for turn, launch in enumerate(step.launches):
            if not any(_is_index(workload, name) for name in launch.args):
                yield workload.first_launches[at] + turn, launch


def _is_index(workload: Workload, name: str) -> bool:
    """Whether a kernel may have made indices that a later launch follows."""
    buffer = workload.buffer(name)
    return buffer.role is not Role.INPUT and not buffer.spec.dtype.is_float


def of_piece(workload: Workload, run: Run, piece: Piece) -> tuple[Sample, ...]:
    """The samples of the launches of a piece."""
    places = {place for at in piece.all for place in _places(workload, at)}
    return tuple(each for each in run.samples if each.launch in places)


def _places(workload: Workload, step: int) -> range:
    first = workload.first_launches[step]
    return range(first, first + len(workload.steps[step].launches))


def filled(workload: Workload, run: Run, piece: Piece) -> list[int]:
    """The steps of a piece that do not write all that later ones of it read."""
    taken = {each.launch for each in run.samples}
    found = []
    for at in piece.all:
        wrote = {name for _, name in workload.steps[at].writes}
        later = (workload.steps[other] for other in piece.all if other > at)
        read = {name for step in later for _, name in step.reads}
        if wrote & read and taken & set(_places(workload, at)):
            found.append(at)
    return found


def left_out(
    workload: Workload,
    taken: Sequence[Sample],
    steps: Sequence[int],
    tensors: Mapping[str, NDArray[Any]],
) -> dict[str, NDArray[Any]]:
    """The reference's tensors that these steps do not write; canaries elsewhere."""
    known = {each.launch: each for each in taken}
    found = {}
    for step in steps:
        for name, mask in sampled.computed(workload, step, known).items():
            values = tensors[name].reshape(-1).copy()
            word = f"<u{values.itemsize}"
            canary = np.array([workload.canary], "<u4").view(word)
            values.view(word)[mask] = np.resize(canary, values.size)[mask]
            found[name] = values.reshape(tensors[name].shape)
    return found


def sampling_line(workload: Workload, run: Run) -> str:
    """How many launches are sampled, in words."""
    launches = workload.launches
    ran = {place for at in run.steps for place in _places(workload, at)}
    taken = [each for each in run.samples if each.launch in ran]
    if not taken:
        return "none has enough work-groups for a sample"
    groups = sum(each.groups for each in taken)
    whole = sum(prod(launches[each.launch].grid) for each in taken)
    if taken[0].part > 1:
        return f"{groups} of {whole} work-groups run, on 1/{taken[0].part} of the machine"
    of = "1 launch" if len(taken) == 1 else f"{len(taken)} launches"
    return f"of {of}, {groups} of {whole} work-groups run"
