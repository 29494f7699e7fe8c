"""Work grows with the number of layers, and no faster: bytecodes are counted, not seconds."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from handmade import build, lowered, run_by_hand, small

from simgen.frontend import config, network
from simgen.ground.ir import Buffer, Pass, Role, Workload, from_json, to_json
from simgen.kernels import render
from simgen.layers.product import tile
from simgen.running import time_left
from simgen.targets import host, launch_rows, plan
from simgen.targets.base import Job, Progress
from simgen.targets.cuda import Cuda
from simgen.targets.null import Null
from simgen.workload import costs, lowering

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

LAYERS = 60
RESULTS = 10
MOST = 2.1  # times the work for twice the layers; the square of them would be 4 times
FORWARD = (Pass.FORWARD,)
TRAINING = (Pass.FORWARD, Pass.BACKWARD, Pass.UPDATE)


def chain(layers: int) -> str:
    """Fully connected layers and activations in turn."""
    kinds = ("[FullyConnected]\nnum_output=4\n", "[Activation]\n")
    sections = [
        f"{kinds[at % 2]}name=l{at}\n" + (f"previous_layer=l{at - 1}\n" if at else "n=2\nc=4\n")
        for at in range(layers)
    ]
    return "".join(sections)


def graph(layers: int) -> str:
    """Slices, whose two parts are joined again for the next one, and added too."""
    sections = ["[Input]\nname=l0\nshape=2x3x4\n"]
    for at in range(1, layers, 2):
        sections.append(f"[Slice]\nname=s{at}\nprevious_layer=l{at - 1}\naxis=-1\n")
        parts = f"s{at}.y0,s{at}.y1"
        sections.append(f"[Concat]\nname=l{at + 1}\nprevious_layer={parts}\naxis=2\n")
        sections.append(f"[Add]\nname=a{at}\nprevious_layer={parts}\n")
    return "".join(sections)


def trained_graph(layers: int) -> Workload:
    found = network.resolve(config.parse(graph(layers), "graph.dnnmark"))
    return lowering.lower(found, "graph", (Pass.FORWARD, Pass.BACKWARD), 0)


def resolved(layers: int) -> network.Network:
    return network.resolve(config.parse(chain(layers), "chain.dnnmark"))


def planned(layers: int) -> Workload:
    return lowering.lower(resolved(layers), "chain", FORWARD, 0)


def passing(layers: int) -> tuple[tuple[Buffer, ...], dict[str, tuple[int, int]]]:
    """Tensors of which each lives for two steps."""
    buffers = planned(layers).buffers
    lives = {buffer.name: (at, at + 1) for at, buffer in enumerate(buffers)}
    return tuple(replace(buffer, role=Role.SCRATCH) for buffer in buffers), lives


def bytecodes(call: Callable[[], object]) -> int:
    """How many are executed in a call, and in all that it calls."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


bytecodes(lambda: None)  # Python 3.12 traces no bytecode the first time


def table(made: Workload) -> str:
    return plan.sources(Job(made, {}, bytes(32), ""), (), {})[plan.HEADER].decode()


def look_up(made: Workload) -> None:
    """What every stage asks for at every step."""
    for step in made.steps:
        made.node(step.layer)
        for _, name in step.reads:
            made.buffer(name)
        for each in step.launches:
            made.kernel(each.kernel)
        assert made.left
        assert made.inputs
        assert made.outputs
        assert made.launches
        assert made.state_offset


# Stage -> what it is given, of so many layers, and what it does with it.
STAGES: dict[str, tuple[Callable[[int], Any], Callable[[Any], object]]] = {
    "resolve": (lambda layers: layers, resolved),
    "graph": (lambda layers: layers, trained_graph),
    "lower": (resolved, lambda net: lowering.lower(net, "chain", TRAINING, 0)),
    "places": (passing, lambda given: lowering.arena(*given)),
    "look up": (planned, look_up),
    "write": (planned, to_json),
    "read": (lambda layers: to_json(planned(layers)), lambda text: from_json(Workload, text)),
    "kernels": (planned, render.kernels),
    "table of launches": (planned, table),
    "guards": (planned, host._alone),
    "work": (planned, costs.costs_of),
    "progress": (planned, time_left.Meter),
}


@pytest.mark.parametrize("stage", STAGES)
def test_twice_the_layers_are_twice_the_work(stage: str) -> None:
    prepare, do = STAGES[stage]
    do(prepare(4))  # makes what is made once: templates, patterns, hints of types
    given = [prepare(layers) for layers in (LAYERS, 2 * LAYERS)]
    few, many = (bytecodes(lambda one=one: do(one)) for one in given)
    assert few > 10 * LAYERS
    assert many <= MOST * few


def test_a_look_at_a_run_reads_what_is_new(tmp_path: Path) -> None:
    """However often one looks: what a launch has left is read once."""

    def follow(launches: int) -> None:
        path = tmp_path / str(launches) / launch_rows.FILE
        path.parent.mkdir()
        path.write_text("kernel,seconds,cycles,instructions\n")
        look = launch_rows.watch(path.parent)
        for at in range(launches):
            with path.open("a") as file:
                file.write("k,0.5,3,2\n")
            assert look() == Progress(at + 1, (at + 1) * 0.5, (at + 1) * 2.0)

    few, many = (bytecodes(lambda n=n: follow(n)) for n in (LAYERS, 2 * LAYERS))
    assert many <= MOST * few


def test_a_cut_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    cycles = tile.cycles
    monkeypatch.setattr(tile, "cycles", lambda *given: counted.append(given) or cycles(*given))
    tile.best_cut.cache_clear()
    made = lowered("resnet50")
    costs.costs_of(made)
    assert len(counted) == len(set(counted))
    assert len(counted) < 10000  # of 53 convolutions, most of them alike
    counted.clear()
    costs.costs_of(lowered("resnet50"))
    assert counted == []
    assert tile.best_cut.cache_info().maxsize


def test_what_was_looked_up_is_no_part_of_a_workload() -> None:
    made, other = planned(3), planned(3)
    look_up(made)
    assert made == other
    assert hash(made) == hash(other)
    assert repr(made) == repr(other)
    assert json.dumps(to_json(made)) == json.dumps(to_json(other))
    assert pickle.dumps(made) == pickle.dumps(other)
    assert pickle.loads(pickle.dumps(made)) == other


# ------------------------------------------------------------------ results of a sweep


def calls(call: Callable[[], object]) -> int:
    """How many functions are called in a call."""
    count = 0

    def tell(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.settrace(tell)
    try:
        call()
    finally:
        sys.settrace(None)
    return count


ONE, TWO = ("cuda",), ("cuda", "null")


@pytest.mark.parametrize(
    ("command", "targets"),
    [
        ("diff b", ONE),
        ("report b -o r", ONE),
        ("report b -o r", TWO),  # which compares every two targets
        ("export b --as csv -o c", ONE),
        ("status b", ONE),
    ],
)
def test_results_of_a_sweep(
    own_folder: None, simgen: Any, command: str, targets: tuple[str, ...]
) -> None:
    made = build(Path("b"), small(), Cuda(), Null())

    def work(results: int) -> int:
        for at in range(results):
            for target in targets:
                run_by_hand(made, target=f"{target}@repeats={at + 1}")
        shutil.rmtree("r", ignore_errors=True)
        Path("c").unlink(missing_ok=True)
        assert simgen(command).code == 0  # keeps what it has read, and loads what it needs
        shutil.rmtree("r", ignore_errors=True)
        Path("c").unlink(missing_ok=True)
        return calls(lambda: simgen(command))

    few, more, most = (work(RESULTS * times) for times in (1, 2, 4))
    assert most - more < MOST * (more - few)
