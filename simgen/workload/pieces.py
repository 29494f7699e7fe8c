"""Which launches of a workload are alike, and the pieces in which those that differ are simulated.

Two launches are alike if the same kernel runs on the same grid, and on tensors that it cannot tell
apart: each argument comes from the data file or from a launch before, lies at the same place in its
page, is the same tensor as the same other arguments, and is in the machine's L2 cache or not, by
the bytes that launches have touched since it was last touched; and the kernel has run before, or
not, because its instructions are in no cache then. Of launches that take a simulator minutes the
latter makes no difference: fetching instructions takes a few microseconds. Constants are part of a
kernel. Integers of the data file, which may be indices, make a launch like no other one.

A step is measured if one of its launches is like none before it. A piece is measured steps; others
may be left out between them, because it begins with the tensors that the reference has there. It is
a process of its own, so its caches are cold: `Warm.PREVIOUS` also runs, without counting them, the
step before each of its own, the last ones that ran their kernels, and the last ones that touched
what they find in the L2 cache. A piece ends where a step would find more there than in the network,
because what had replaced it is left out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from simgen.ground.ir import PAGE, Launch, Role, Step, Workload
from simgen.workload import costs

# Operations that take a simulator as long as a word that is moved: of VGG-16 on MGPUSim, those of
# convolutions 20 (beside activations) to 40 (beside fc6).
OF_WORD = 20
MIN_OPERATIONS = 2e8  # operations of a piece of a single process: minutes of a simulator
PARTS = 8  # pieces of a single process, if they are larger than that
# Operations and words of a launch beside which it is nothing that instructions are in no cache: of
# VGG-16, 0.05 to 3 % of the products of a convolution, 0.2 % of the network (benchmarks/pieces).
LARGE_LAUNCH = 5e8
START = 5e6  # operations that take a simulator as long as its own start
# With several processes, the sizes of pieces to try, in process shares, and the fractions that may
# run uncounted. Small pieces end together; large ones repeat less.
SHARES = (1.0, 1.5, 2.0, 3.0, 4.0)
UNCOUNTED = (1 / 8, 1 / 16, math.inf)


class Warm(StrEnum):
    PREVIOUS = "previous"  # what left its traces in the caches runs first
    NONE = "none"  # nothing does: caches are cold


@dataclass(frozen=True)
class Piece:
    """Steps that one process simulates, by their indices, in order."""

    warm: tuple[int, ...]  # not counted; before the first of the others, and between them
    steps: tuple[int, ...]

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(sorted((*self.warm, *self.steps)))


@dataclass(frozen=True)
class Survey:
    """What is measured of a workload, and what follows from it."""

    steps: tuple[int, ...]  # steps that are measured
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


def cut_steps(workload: Workload, steps: Sequence[int], warm: Warm, jobs: int) -> list[Piece]:
    """Pieces of these steps, for so many processes at a time: of some ways to cut them, the one in
    which the last process ends first."""
    network = _network(workload, warm)
    whole = sum(network[at].weight for at in steps)
    if jobs == 1:
        return _cut_network(
            workload, network, steps, max(MIN_OPERATIONS, whole / PARTS), UNCOUNTED[0]
        )
    ways = (
        _cut_network(workload, network, steps, whole / jobs / share, uncounted)
        for share in SHARES
        for uncounted in UNCOUNTED
    )
    return min(ways, key=lambda pieces: _span(network, pieces, jobs))


def weights(workload: Workload, pieces: Sequence[Piece]) -> dict[Piece, float]:
    """How long a simulator takes for pieces, in operations."""
    of_step = [_weight(workload, step) for step in workload.steps]
    return {piece: sum(of_step[at] for at in piece.all) for piece in pieces}


def _weight(workload: Workload, step: Step) -> float:
    """How long a simulator takes for a step, in operations."""
    count = costs.of_step(workload, step).count
    moved = (count.read_bytes + count.written_bytes) / costs.WORD
    return count.flops + count.transcendentals + OF_WORD * moved


def _span(network: Sequence[_NetworkStep], pieces: Sequence[Piece], jobs: int) -> float:
    """What the process does that does most, if each takes the largest piece that is left when it
    has ended one."""
    busy = [0.0] * jobs
    whole = (START + sum(network[at].weight for at in piece.all) for piece in pieces)
    for weight in sorted(whole, reverse=True):
        busy[busy.index(min(busy))] += weight
    return max(busy)


def _cut_network(
    workload: Workload,
    network: Sequence[_NetworkStep],
    steps: Sequence[int],
    most: float,
    uncounted: float,
) -> list[Piece]:
    """Pieces of about `most`, which end where the next one has to run little, this part of it at
    most, again."""
    found: list[_Growing] = []
    for place, at in enumerate(steps):
        full = bool(found) and found[-1].weight_with(at) > most
        if full and _again(network, steps[place:], most) <= most * uncounted:
            found.append(_Growing(workload, network))
        if not found or not found[-1].takes(at):
            found.append(_Growing(workload, network))
            found[-1].takes(at)
    return [Piece(tuple(sorted(each.ran - {*each.steps})), tuple(each.steps)) for each in found]


def _again(network: Sequence[_NetworkStep], steps: Sequence[int], most: float) -> float:
    """The weight of what a piece that begins with these steps runs of those before it."""
    needed: set[int] = set()
    held = 0.0
    for at in steps:
        held += network[at].weight
        if held > most and at != steps[0]:
            break
        needed |= {other for other in network[at].needs if other < steps[0]}
    return sum(network[at].weight for at in needed)


@dataclass
class _Growing:
    """A piece that is being made."""

    workload: Workload
    network: Sequence[_NetworkStep]
    steps: list[int] = field(default_factory=list)
    ran: set[int] = field(default_factory=set)  # steps that ran, uncounted ones included
    weight: float = 0.0
    caches: _Caches | None = None  # after the steps that ran

    def _new(self, at: int) -> list[int]:
        return sorted({*self.network[at].needs, at} - self.ran)

    def weight_with(self, at: int) -> float:
        return self.weight + sum(self.network[other].weight for other in self._new(at))

    def takes(self, at: int) -> bool:
        """Take the next step, and what has to run before it; False: it finds more in the L2 cache
        than it does in the network, so it has to be in another piece."""
        new = self._new(at)
        if self.caches is None or new[0] < max(self.ran):
            self.caches = _Caches(self.workload)
            todo = sorted({*self.ran, *new})
        else:
            todo = new
        for other in todo:  # the last one is the step itself
            near = self.caches.run(self.workload.steps[other])
        if self.steps and not near <= self.network[at].near:
            return False
        self.weight = self.weight_with(at)
        self.ran |= {*new}
        self.steps.append(at)
        return True


@dataclass(frozen=True)
class _NetworkStep:
    """A step, as it is in the whole network."""

    weight: float
    needs: frozenset[int]  # the steps that leave in the caches what it finds there
    near: frozenset[tuple[int, str]]  # what its launches, by their turn, may find in the L2 cache


def _network(workload: Workload, warm: Warm) -> list[_NetworkStep]:
    """All steps of a workload."""
    caches = _Caches(workload)
    kernels: dict[str, int] = {}  # kernel -> the last step that ran it
    buffers: dict[str, int] = {}  # buffer -> the last step that touched it
    found = []
    for at, step in enumerate(workload.steps):
        near = caches.run(step)
        launches = step.launches
        weight = _weight(workload, step)
        needs = {kernels[launch.kernel] for launch in launches if launch.kernel in kernels}
        needs |= {buffers[name] for _, name in near if name in buffers}
        needs |= {at - 1} if at else set()
        if warm is Warm.NONE:
            needs = set()
            near = {(turn, name) for turn, launch in enumerate(launches) for name in launch.args}
        found.append(_NetworkStep(weight, frozenset(needs), frozenset(near)))
        kernels |= {launch.kernel: at for launch in launches}
        buffers |= {name: at for launch in launches for name in launch.args}
    return found


class _Caches:
    """What has been touched and run when launches run one after another."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.touched: dict[str, int] = {}  # buffer -> bytes that had been touched when it last was
        self.ran: set[str] = set()  # kernels
        self.clock = 0

    def near(self, launch: Launch) -> set[str]:
        """Its tensors that are in the L2 cache."""
        room = self.workload.machine.l2_nbytes
        return {
            name
            for name in launch.args
            if name in self.touched and self.clock - self.touched[name] + self._size(name) <= room
        }

    def launch(self, launch: Launch) -> None:
        """Run it."""
        names = dict.fromkeys(launch.args)
        self.clock += sum(self._size(name) for name in names)
        self.touched |= dict.fromkeys(names, self.clock)
        self.ran.add(launch.kernel)

    def run(self, step: Step) -> set[tuple[int, str]]:
        """Run a step; what its launches find in the L2 cache, by their turn."""
        found = set()
        for turn, launch in enumerate(step.launches):
            found |= {(turn, name) for name in self.near(launch)}
            self.launch(launch)
        return found

    def _size(self, name: str) -> int:
        return self.workload.buffer(name).spec.held


def _keys(workload: Workload) -> Iterator[Hashable]:
    """For each launch, a key that all similar launches share."""
    caches = _Caches(workload)
    for launch, weight in zip(workload.launches, costs.weights(workload)):
        known = launch.kernel in caches.ran or weight >= LARGE_LAUNCH
        near = caches.near(launch)
        yield (launch.kernel, launch.grid, known, tuple(_arguments(workload, launch, near)))
        caches.launch(launch)


def _arguments(
    workload: Workload, launch: Launch, near: set[str]
) -> Iterator[tuple[Hashable, ...]]:
    first: dict[str, int] = defaultdict(lambda: len(first))
    for name, offset in launch.places:
        buffer = workload.buffer(name)
        given = buffer.role is Role.INPUT
        indices = name if given and not buffer.spec.dtype.is_float else ""
        yield first[name], offset % PAGE, given, name in near, indices
