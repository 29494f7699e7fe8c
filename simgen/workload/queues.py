"""Several queues: which steps may run at once, and in which queue each of them runs.

Two steps are in conflict if one of them writes memory that the other reads or writes: then the
later one waits for the earlier one (read after write, write after read, write after write). What a
step touches are the places of its launches' arguments in the arena, so that tensors which share
memory one after the other are in conflict, too. All arguments that a step does not read from others
count as written. The launches of a step stay in their order, in one queue.

Steps get their queues in the order of the workload, each where it can start first if it takes as
long as its operations and the words that it moves (list scheduling: R. L. Graham, "Bounds on
multiprocessing timing anomalies", SIAM J. Appl. Math. 17(2), 1969); of several such queues, the one
of the step that it waits for last. A queue begins a step when it has finished the one before it and
when the steps of other queues in `after` have ended; what follows from these is left out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from simgen.ask.build import QUEUES
from simgen.ground.ir import Buffer, Queued, Step, Workload
from simgen.workload import costs

MAX_QUEUES = QUEUES


def scheduled(workload: Workload, queues: int) -> Workload:
    """The workload with its steps in so many queues; one: as it is, one after the other."""
    if queues == 1:
        return replace(workload, queues=())
    return replace(workload, queues=_placed(workload, dependencies(workload), queues))


def is_ordered(workload: Workload) -> bool:
    """Whether all conflicts are in order, by the queues that steps have and what they wait for."""
    last: dict[int, int] = {}  # last step of each queue
    ended: list[dict[int, int]] = []  # once a step has ended, the last step of each queue that has
    for at, (turn, needed) in enumerate(zip(workload.queues, dependencies(workload), strict=True)):
        known: dict[int, int] = {}
        for before in (*turn.after, *([last[turn.queue]] if turn.queue in last else [])):
            for queue, step in ended[before].items():
                known[queue] = max(known.get(queue, -1), step)
        if any(known.get(workload.queues[each].queue, -1) < each for each in needed):
            return False
        last[turn.queue] = known[turn.queue] = at
        ended.append(known)
    return True


def dependencies(workload: Workload) -> list[set[int]]:
    """For each step, the earlier steps that it is in conflict with. All conflicts follow from
    these."""
    near = _sharing(workload.buffers)
    writer: dict[str, int] = {}  # buffer -> the step that wrote it last
    readers: dict[str, set[int]] = {}  # buffer -> steps that have read it since
    found = []
    for at, step in enumerate(workload.steps):
        read, written = touched(step)
        own: set[int] = set()
        for name in read:
            own |= {writer[each] for each in near[name] if each in writer}
        for name in written:
            for each in near[name]:
                own |= readers.get(each, set())
                own |= {writer[each]} if each in writer else set()
        for name in read:
            readers.setdefault(name, set()).add(at)
        for name in written:
            writer[name] = at
            readers[name] = set()
        found.append(own - {at})
    return found


def touched(step: Step) -> tuple[set[str], set[str]]:
    """Names of the buffers that a step reads, and of those that it may write."""
    read = {name for _, name in step.reads}
    used = {name for launch in step.launches for name in launch.args}
    return read, (used - read) | {name for _, name in step.writes}


def _sharing(buffers: Iterable[Buffer]) -> dict[str, list[str]]:
    """Buffer -> those with a byte of the arena in common, itself among them."""
    found: dict[str, list[str]] = {}
    before: list[Buffer] = []
    for buffer in sorted(buffers, key=lambda each: each.offset):
        before = [each for each in before if each.offset + each.spec.held > buffer.offset]
        found[buffer.name] = [buffer.name, *(each.name for each in before)]
        for each in before:
            found[each.name].append(buffer.name)
        before.append(buffer)
    return found


def _placed(workload: Workload, needed: Sequence[set[int]], queues: int) -> tuple[Queued, ...]:
    weights = iter(costs.weights(workload))
    free = [0.0] * queues  # when each queue has ended what it has
    ends: list[float] = []
    # for each step, the last step of each queue that ends before it does
    seen: list[list[int]] = []
    last = [-1] * queues
    made: list[Queued] = []
    for at, step in enumerate(workload.steps):
        ready = max((ends[each] for each in needed[at]), default=0.0)
        latest = max(needed[at], key=lambda each: (ends[each], each), default=None)
        liked = 0 if latest is None else made[latest].queue
        queue = min(range(queues), key=lambda q: (max(free[q], ready), q != liked, q))
        known = list(seen[last[queue]]) if last[queue] >= 0 else [-1] * queues
        after = []
        for each in sorted(needed[at], reverse=True):
            if each > known[made[each].queue]:
                known = [max(pair) for pair in zip(known, seen[each])]
                if made[each].queue != queue:
                    after.append(each)
        weight = sum(next(weights) for _ in step.launches)
        free[queue] = max(free[queue], ready) + weight
        ends.append(free[queue])
        known[queue] = last[queue] = at
        seen.append(known)
        made.append(Queued(queue, tuple(sorted(after))))
    return tuple(made)
