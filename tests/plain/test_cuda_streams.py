"""The program of target cuda with several queues: its streams and events, in the place of a GPU."""

from __future__ import annotations

import importlib.util
import sys
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from test_queues import branches, conflicts, planned

import simgen as package
from simgen.ground import resources
from simgen.ground.ir import to_json

if TYPE_CHECKING:
    from pathlib import Path


class Gpu:
    """Streams that do what they are given in order; what has ended when something begins."""

    def __init__(self) -> None:
        self.current = Stream(self)
        self.before: list[set[int]] = []  # of each launch, in the order of their starts
        self.names: list[str] = []


@dataclass
class Stream:
    gpu: Gpu
    done: set[int] = field(default_factory=set)  # launches, once all given so far has ended
    previous: Any = None

    def __enter__(self) -> Stream:
        self.previous, self.gpu.current = self.gpu.current, self
        return self

    def __exit__(self, *_: object) -> None:
        self.gpu.current = self.previous

    def wait_event(self, event: Event) -> None:
        self.done |= event.done

    def launch(self, name: str) -> None:
        self.gpu.before.append({*self.done})
        self.gpu.names.append(name)
        self.done.add(len(self.gpu.names) - 1)


@dataclass
class Event:
    gpu: Gpu
    done: set[int] = field(default_factory=set)

    def record(self, stream: Stream | None = None) -> None:
        self.done = {*(stream or self.gpu.current).done}


class Device:
    attributes = {"L2CacheSize": 1, "ClockRate": 1}  # noqa: RUF012

    def synchronize(self) -> None: ...


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Gpu]:
    """run.py, and what it thinks to be a GPU."""
    gpu = Gpu()

    def stream(*, non_blocking: bool) -> Stream:
        assert non_blocking  # else it would wait for the null stream, and that for it
        return Stream(gpu)

    stream.null = gpu.current  # type: ignore[attr-defined]
    cuda = types.ModuleType("cupy.cuda")
    cupy = types.ModuleType("cupy")
    counted = types.SimpleNamespace(get=lambda: np.array([2.0, 1.0]))
    given: dict[Any, dict[str, Any]] = {
        cuda: {
            "Stream": stream,
            "Event": lambda **_: Event(gpu),
            "Device": Device,
            "get_elapsed_time": lambda a, b: 0.0,
            "nvrtc": types.ModuleType("cupy.cuda.nvrtc"),
            "runtime": types.SimpleNamespace(CUDARuntimeError=RuntimeError),
            "driver": types.SimpleNamespace(CUDADriverError=RuntimeError),
        },
        cupy: {
            "cuda": cuda,
            "zeros": lambda *_: counted,
            "empty": lambda *_: None,
            "ndarray": object,
            "RawKernel": object,
        },
    }
    for module, members in given.items():
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    path = resources.folder("templates") / "launchers" / "cuda_run.py"
    spec = importlib.util.spec_from_file_location("cuda_run_of_test", path)
    assert spec
    assert spec.loader
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # templates hold what was written
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, gpu


def started(run: Any, gpu: Gpu, workload: Any, todo: list[int]) -> list[tuple[float, float]]:
    """A round of these steps."""

    def function(name: str) -> Any:
        return lambda *_, **__: gpu.current.launch(name)

    calls = [
        [
            (types.SimpleNamespace(kernel=function(f"{at}")), *[None] * 3, 0, 1)
            for _ in workload.steps[at].launches
        ]
        for at in todo
    ]
    turns = run.turns_of(to_json(workload)["queues"], todo)
    wait = function("wait")
    spans, _ = run.run_round(calls, wait, turns=turns)
    return list(spans)


@pytest.mark.parametrize("count", [2, 3])
def test_launches_that_meet_in_memory_are_in_order(tmp_path: Path, loaded: Any, count: int):
    run, gpu = loaded
    workload = planned(tmp_path, 1, "fwd,bwd", count=count)
    spans = started(run, gpu, workload, [*range(len(workload.steps))])
    assert len(spans) == len(workload.launches)
    assert gpu.names[0] == gpu.names[-1] == "wait"
    assert all(0 in each for each in gpu.before[1:])  # nothing begins before all is enqueued
    assert len(gpu.before[-1]) == len(gpu.names) - 1  # and the round ends behind everything
    of_step = {
        at: {i for i, name in enumerate(gpu.names) if name == str(at)}
        for at in range(len(workload.steps))
    }
    for a, b in conflicts(workload):
        for launch in of_step[b]:
            assert of_step[a] <= gpu.before[launch]


def test_branches_do_not_wait_for_each_other(tmp_path: Path, loaded: Any):
    run, gpu = loaded
    workload = package.plan(str(branches(tmp_path)), queues=2).workload
    started(run, gpu, workload, [0, 1, 2, 3])
    left, right = gpu.names.index("1"), gpu.names.index("2")
    assert left not in gpu.before[right]
    assert right not in gpu.before[left]


def test_a_part_waits_for_what_it_runs_alone(tmp_path: Path, loaded: Any):
    """Steps that a state.bin has already are not run, and nobody waits for them."""
    run, gpu = loaded
    workload = package.plan(str(branches(tmp_path)), queues=2).workload
    started(run, gpu, workload, [2, 3])
    assert gpu.names == ["wait", "2", "3", "wait"]
    assert gpu.before[2] == {0, 1}


def test_elapsed_times_add_up_to_the_round(loaded: Any):
    """Of three rounds the one of median length, whatever overlaps in it."""
    run, _ = loaded
    spans = np.array(
        [
            [(0.0, 9.0), (1.0, 2.0), (9.0, 99.0)],
            [(1.0, 5.0), (2.0, 4.0), (4.0, 11.0)],
            [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)],
        ]
    )
    assert run.elapsed_of(spans).tolist() == [1.0, 3.0, 6.0]
