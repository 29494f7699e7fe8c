"""Several queues: whatever two steps have in common and one of them writes, they are in order."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

import simgen as package
from simgen.bundle import stored_workload
from simgen.errors import UsageError
from simgen.frontend import network, problem
from simgen.ground.ir import Pass, Workload, to_json
from simgen.ground.storage.schema import SchemaError
from simgen.workload import lowering, queues

if TYPE_CHECKING:
    from pathlib import Path


def graph(seed: int, layers: int = 12) -> str:
    """A config of activations, sums and products of two at random places of a network."""
    draw = random.Random(seed)
    text = ["[Activation]", "name=l0", "n=1", "c=4", "h=3", "w=3"]
    for at in range(1, layers):
        kind = draw.choice(("Activation", "Add", "Multiply", "Bypass"))
        readers = 2 if kind in ("Add", "Multiply") else 1
        before = [f"l{draw.randrange(at)}" for _ in range(readers)]
        if len(set(before)) < readers:
            kind, before = "Activation", before[:1]
        text += [f"[{kind}]", f"name=l{at}", f"previous_layer={','.join(before)}"]
    return "\n".join(text) + "\n"


def planned(tmp_path: Path, seed: int, passes: str, *, reuse: bool = False, count: int) -> Workload:
    path = tmp_path / "graph.dnnmark"
    path.write_text(graph(seed))
    found = problem.find(str(path), (), [Pass(each) for each in passes.split(",")])
    made = network.resolve(found.config, found.settings)
    return queues.scheduled(
        lowering.lower(made, "graph", found.passes, 0, reuse_memory=reuse), count
    )


def order(workload: Workload) -> list[set[int]]:
    """Of each step, all that have ended when it begins: by its queue, and by what it waits for."""
    before: list[set[int]] = []
    for at, turn in enumerate(workload.queues):
        of_queue = [i for i in range(at) if workload.queues[i].queue == turn.queue]
        found = {*of_queue, *turn.after}
        before.append(found.union(*(before[i] for i in found)))
    return before


def places(workload: Workload, names: set[str]) -> list[tuple[int, int]]:
    buffers = [workload.buffer(name) for name in names]
    return [(each.offset, each.offset + each.spec.held) for each in buffers]


def conflicts(workload: Workload) -> list[tuple[int, int]]:
    """All pairs of steps of which one writes a byte that the other touches, one by one."""
    ranges = []
    for step in workload.steps:
        read = {name for _, name in step.reads}
        used = {name for launch in step.launches for name in launch.args}
        ranges.append((places(workload, used | read), places(workload, used - read)))
    return [
        (a, b)
        for a, b in combinations(range(len(ranges)), 2)
        if any(
            x[0] < y[1] and y[0] < x[1]
            for one, other in ((ranges[a][1], ranges[b][0]), (ranges[a][0], ranges[b][1]))
            for x in one
            for y in other
        )
    ]


@pytest.mark.parametrize("seed", range(12))
def test_steps_that_meet_in_memory_are_in_order(tmp_path: Path, seed: int):
    """Of random networks, with memory that is used again in half of them."""
    reuse, count = seed % 2 == 0, 2 + seed % 3
    made = planned(tmp_path, seed, "fwd" if reuse else "fwd,bwd", reuse=reuse, count=count)
    before = order(made)
    found = conflicts(made)
    assert found
    for a, b in found:
        assert a in before[b], (a, b)
    assert queues.is_ordered(made)


def test_what_is_independent_runs_at_once(tmp_path: Path):
    """Two branches between a layer that both read and their sum."""
    made = package.plan(str(branches(tmp_path)), queues=2).workload
    names = [step.layer for step in made.steps]
    turns = dict(zip(names, made.queues, strict=True))
    assert turns["left"].queue != turns["right"].queue
    joined = turns["sum"]
    other = "left" if turns["left"].queue != joined.queue else "right"
    assert joined.after == (names.index(other),)


def test_no_step_waits_for_what_others_make_sure_of(tmp_path: Path):
    made = planned(tmp_path, 3, "fwd,bwd", count=3)
    for at, turn in enumerate(made.queues):
        for each in turn.after:
            rest = tuple(other for other in turn.after if other != each)
            fewer = [*made.queues]
            fewer[at] = replace(turn, after=rest)
            assert not queues.is_ordered(replace(made, queues=tuple(fewer)))


def test_a_stored_schedule_must_keep_the_order(tmp_path: Path):
    """One that was changed would make a GPU read what is not written yet."""
    made = package.plan(str(branches(tmp_path)), queues=2).workload
    assert stored_workload.workload(to_json(made)) == made
    at = next(i for i, turn in enumerate(made.queues) if turn.after)
    for turn, fact in (
        (replace(made.queues[at], after=()), "may run at once"),
        (replace(made.queues[at], after=(at,)), "does not come before"),
        (replace(made.queues[at], queue=8), "no such queue"),
    ):
        changed = [*made.queues]
        changed[at] = turn
        with pytest.raises(SchemaError, match=fact):
            stored_workload.workload(to_json(replace(made, queues=tuple(changed))))
    with pytest.raises(SchemaError, match="not one for each step"):
        stored_workload.workload(to_json(replace(made, queues=made.queues[:1])))


def test_so_many_queues_there_are_not():
    with pytest.raises(UsageError, match="queues '9': write a whole number, 1 to 8"):
        package.plan("lenet5", queues=9)


def test_one_queue_is_as_without():
    assert package.plan("lenet5", queues=1).workload == package.plan("lenet5").workload


def test_the_schedule_is_shown_of_workloads_and_of_bundles(tmp_path: Path, simgen: Any):
    words = f"{branches(tmp_path)} --queues 2 --target cuda"
    built = simgen(f"build {words} -o {tmp_path / 'b'}")
    assert built.code == 0, built.err
    for what in (words, str(tmp_path / "b")):
        shown = simgen(f"show {what}").out
        assert "waits for, of other queues" in shown
    told = simgen(f"build {words.replace('cuda', 'host')} -o {tmp_path / 'h'}").out
    assert "host: runs the queues' layers one after the other: all processors" in told


def branches(tmp_path: Path) -> Path:
    path = tmp_path / "branches.dnnmark"
    path.write_text(
        "[Activation]\nname=top\nn=1\nc=4\nh=8\nw=8\n"
        "[Activation]\nname=left\nprevious_layer=top\nactivation_mode=tanh\n"
        "[Activation]\nname=right\nprevious_layer=top\n"
        "[Add]\nname=sum\nprevious_layer=left,right\n"
    )
    return path
