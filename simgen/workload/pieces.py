"""Which launches of a workload are alike, and the pieces in which those that differ are simulated.

Two launches are alike if the same kernel runs on the same grid, and on tensors that it cannot tell
apart: each argument comes from the data file or from a launch before, lies at the same place in its
page, is the same tensor as the same other arguments, and is in the machine's L2 cache or not, by
the bytes that launches have touched since it was last touched; and the kernel has run before, or
not, because its instructions are in no cache then. Constants are part of a kernel. Integers of the
data file, which may be indices, make a launch like no other one.

A step is measured if one of its launches is like none before it. A piece is measured steps that
follow each other, and begins with the tensors that the reference has there. It is a process of its
own, so its caches are cold: `Warm.PREVIOUS` first runs the step before it, and of kernels that have
run before in the network the last step that ran them, which are not counted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from simgen.ir import PAGE, Role
from simgen.workload import costs

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Sequence

    from simgen.ir import Launch, Workload

PARTS = 4  # pieces for each process that runs at a time, about: the last ones end together
LEAST = 2e8  # operations and words of a piece of a single process: minutes of a simulator


class Warm(StrEnum):
    PREVIOUS = "previous"  # the step before a piece runs first
    NONE = "none"  # caches are cold


@dataclass(frozen=True)
class Piece:
    """Steps that one process simulates, by their indices, in order."""

    warm: tuple[int, ...]  # not counted
    steps: tuple[int, ...]

    @property
    def all(self) -> tuple[int, ...]:
        return (*self.warm, *self.steps)


@dataclass(frozen=True)
class Survey:
    """What is measured of a workload, and what follows from it."""

    steps: tuple[int, ...]  # that are measured
    inferred: tuple[tuple[int, int], ...]  # (launch that is not, the launch that stands for it)


def everything(workload: Workload, wanted: Collection[int] | None = None) -> Survey:
    """All steps are measured, or those that are wanted."""
    return Survey(tuple(range(len(workload.steps)) if wanted is None else sorted(wanted)), ())


def representatives(workload: Workload, wanted: Collection[int] | None = None) -> Survey:
    """The first of all launches that are alike is measured, with the rest of its step; of all
    steps, or of those that are wanted."""
    keys = iter(_keys(workload))
    first: dict[Hashable, int] = {}
    steps, inferred, at = [], [], 0
    for index, step in enumerate(workload.steps):
        own = [next(keys) for _ in step.launches]
        if wanted is not None and index not in wanted:
            pass
        elif any(key not in first for key in own):
            steps.append(index)
            for i, key in enumerate(own):
                first.setdefault(key, at + i)
        else:
            inferred += [(at + i, first[key]) for i, key in enumerate(own)]
        at += len(own)
    return Survey(tuple(steps), tuple(inferred))


def cut(
    workload: Workload, steps: Sequence[int], warm: Warm, jobs: int, *, gaps: bool = False
) -> list[Piece]:
    """Pieces of these steps, for so many processes at a time.

    A piece ends where a step follows that is not measured, unless it may have `gaps`, and where it
    has a part of all that is to be done that is large enough to be worth a process.
    """
    weights = _weights(workload)
    whole = sum(weights[at] for at in steps)
    most = whole / (PARTS * jobs) if jobs > 1 else max(LEAST, whole / (2 * PARTS))
    runs: list[list[int]] = []
    held = 0.0
    for at in steps:
        if not runs or (runs[-1][-1] != at - 1 and not gaps) or held + weights[at] > most:
            runs.append([])
            held = 0.0
        runs[-1].append(at)
        held += weights[at]
    if warm is Warm.NONE:
        return [Piece((), tuple(run)) for run in runs]
    return [Piece(tuple(before), tuple(run)) for before, run in zip(_before(workload, runs), runs)]


def _before(workload: Workload, runs: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """What runs before each of the pieces: the step before it, and the last steps that ran the
    kernels of its own."""
    ran: dict[str, int] = {}  # kernel -> the last step that ran it
    done = 0
    for run in runs:
        for at in range(done, run[0]):
            ran |= {launch.kernel: at for launch in workload.steps[at].launches}
        done = run[0]
        own = {launch.kernel for at in run for launch in workload.steps[at].launches}
        yield sorted({ran[name] for name in own & ran.keys()} | ({run[0] - 1} if run[0] else set()))


def _weights(workload: Workload) -> list[float]:
    """What each step counts."""
    of_launches = iter(costs.weights(workload))
    return [sum(next(of_launches) for _ in step.launches) for step in workload.steps]


def _keys(workload: Workload) -> Iterator[Hashable]:
    """Of each launch, what is the same for all that are alike."""
    touched: dict[str, int] = {}  # buffer -> bytes that had been touched when it last was
    ran: set[str] = set()
    clock = 0
    for launch in workload.launches:
        names = dict.fromkeys(launch.args)
        near = {
            name: name in touched
            and clock - touched[name] + workload.buffer(name).spec.held
            <= workload.machine.l2_nbytes
            for name in names
        }
        known = launch.kernel in ran
        yield (launch.kernel, launch.grid, known, tuple(_arguments(workload, launch, near)))
        ran.add(launch.kernel)
        clock += sum(workload.buffer(name).spec.held for name in names)
        touched |= dict.fromkeys(names, clock)


def _arguments(
    workload: Workload, launch: Launch, near: dict[str, bool]
) -> Iterator[tuple[Hashable, ...]]:
    first: dict[str, int] = defaultdict(lambda: len(first))
    for name, offset in launch.places:
        buffer = workload.buffer(name)
        given = buffer.role is Role.INPUT
        indices = name if given and not buffer.spec.dtype.is_float else ""
        yield first[name], offset % PAGE, given, near[name], indices
