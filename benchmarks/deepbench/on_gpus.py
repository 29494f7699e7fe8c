"""All-reduces over this machine's NVIDIA GPUs: simgen's ring and tree, beside NCCL in the same run.

One process has all GPUs, each with an arena of its own and access to its peers' memory. A stage is
a launch on some of them, which reads a neighbour's memory; its stream first waits for an event
behind the stage before on all GPUs. Stages and kernels are those of target cuda
(templates/launchers/cuda_gpus.py).

Checked: vectors of whole numbers, whose sums no type rounds: every element on every GPU, and what
lies behind. Timed: on one GPU, from an event that all wait for to one that waits for all; a kernel
holds all of them until the CPU has enqueued a round; the median of ROUNDS. NCCL, through PyTorch,
gets the same vectors. Its settings are the machine's.
"""

from __future__ import annotations

import os
import runpy
import sys
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import on_gpu

import simgen
from simgen.frontend import deepbench
from simgen.ground import resources
from simgen.ground.ir import GUARD, Launch, to_json
from simgen.kernels import render
from simgen.workload import sharding

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from simgen.ground.ir import Workload
    from simgen.workload.sharding import Sharding

ROUTES = (sharding.RING, sharding.TREE)
WARM, ROUNDS = 3, 15
HOLD = 3_000_000  # nanoseconds, in which the CPU enqueues a round
CANARY = 0xFF
WHOLE = 1000  # the largest element of a vector: sums of 8 are exact


@dataclass
class OnGpus:
    """All of this machine's GPUs, or the first `count` of them."""

    count: int
    streams: list[Any] = field(default_factory=list)
    waits: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        import cupy
        import torch

        runtime = cupy.cuda.runtime
        self.cupy, self.torch, self.launcher = cupy, torch, on_gpu.launcher()
        sys.modules["run"] = self.launcher  # as a bundle has it
        path = resources.folder("templates") / "launchers" / "cuda_gpus.py"
        self.of_gpus = runpy.run_path(str(path))
        for gpu in range(self.count):
            with cupy.cuda.Device(gpu):
                for peer in range(self.count):
                    if peer != gpu:
                        if not runtime.deviceCanAccessPeer(gpu, peer):
                            raise SystemExit(f"GPU {gpu} has no access to the memory of {peer}")
                        runtime.deviceEnablePeerAccess(peer)
                self.streams.append(cupy.cuda.Stream(non_blocking=True))
                self.waits.append(cupy.RawModule(code=on_gpu.WAIT).get_function("hold"))

    @property
    def name(self) -> str:
        device = self.torch.cuda.get_device_name()
        nccl = ".".join(map(str, self.torch.cuda.nccl.version()))
        settings = {k: v for k, v in os.environ.items() if k.startswith("NCCL_")}
        told = ", ".join(f"{k}={v}" for k, v in sorted(settings.items()))
        return f"{self.count} x {device}, NCCL {nccl}{' with ' + told if told else ''}"

    def run(self, folder: Path, plan_for: str) -> list[str]:
        """A table of all problems."""
        heads = ["problem", "elements", "route", "ms", "GB/s of the bus", "NCCL ms", "NCCL GB/s"]
        heads += ["NCCL / ours", "result"]
        lines = [self.name, "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
        for each in deepbench.problems("allreduce"):
            elements = each.operation.elements
            for route in ROUTES:
                word = f"allreduce:elements={elements},ranks={self.count},route={route}"
                workload = simgen.plan(word, plan_for=plan_for).workload
                ours, theirs, result = self._measure(workload, folder)
                bus = 2 * (self.count - 1) / self.count * 4 * elements / 1e9
                cells = [each.name, elements, route, f"{ours * 1e3:.4g}", f"{bus / ours:.4g}"]
                cells += [f"{theirs * 1e3:.4g}", f"{bus / theirs:.4g}", f"{theirs / ours:.2f}"]
                lines.append(f"| {' | '.join(map(str, [*cells, result]))} |")
        return lines

    def _measure(self, workload: Workload, folder: Path) -> tuple[float, float, str]:
        """(our seconds, NCCL's, what is found of our sums)."""
        cupy, torch = self.cupy, self.torch
        shared = sharding.split(workload, self.count)
        (found,) = shared.reductions[0]
        arenas, functions, xs = [], [], []
        self._write(shared.workload, folder)
        for gpu in range(self.count):
            with cupy.cuda.Device(gpu):
                nbytes = shared.workload.arena_nbytes
                arenas.append(torch.full((nbytes,), CANARY, dtype=torch.uint8, device=gpu))
                functions.append(self.launcher.functions_of(to_json(shared.workload)))
                xs.append(self._tensor(shared, arenas[gpu], shared.workload.inputs[0].name))
                xs[gpu].copy_(torch.randint(-WHOLE, WHOLE + 1, xs[gpu].shape, device=gpu))
        for gpu in range(self.count):  # what the layer does first: each adds up its own
            self._start(shared, gpu, arenas, functions, shared.workload.launches)
        self._synchronize()

        def ours() -> None:
            for moves in self.of_gpus["stages"](self.count, to_json(found)):
                self._meet()
                for move in moves:
                    self._move(shared, arenas, functions, move)

        seconds = self._seconds(ours)
        total = sum(x.double().to(0) for x in xs).view(-1)
        wrong = 0
        for arena in arenas:
            y = self._tensor(shared, arena, found.result)
            wrong += int((y.view(-1).double().to(0) != total).sum())
            end = shared.workload.buffer(found.result).offset + y.numel() * 4
            wrong += int((arena[end : end + GUARD] != CANARY).sum())
        vectors = [x.view(-1).clone() for x in xs]
        sums = [torch.empty_like(x) for x in vectors]
        torch_streams = [
            torch.cuda.ExternalStream(stream.ptr, device=gpu)
            for gpu, stream in enumerate(self.streams)
        ]
        self._synchronize()

        def theirs() -> None:
            torch.cuda.nccl.all_reduce(vectors, sums, streams=torch_streams)

        of_nccl = self._seconds(theirs)
        for each in sums:
            wrong += int((each.double().to(0) != total).sum())
        return seconds, of_nccl, f"WRONG: {wrong} elements" if wrong else "right"

    def _write(self, workload: Workload, folder: Path) -> None:
        source = folder / "src"
        source.mkdir(parents=True, exist_ok=True)
        (source / render.PRELUDE).write_text(render.prelude())
        for name, text in render.kernels(workload).items():
            (source / f"{name}.hip").write_text(text)
        self.launcher.BUNDLE = folder

    def _tensor(self, shared: Sharding, arena: Any, name: str) -> Any:
        buffer = shared.workload.buffer(name)
        part = arena[buffer.offset : buffer.offset + buffer.spec.nbytes]
        return part.view(self.torch.float32).view(buffer.spec.shape)

    def _start(
        self, shared: Sharding, gpu: int, arenas: list[Any], functions: list[Any],
        launches: tuple[Launch, ...],
    ) -> None:  # fmt: skip
        text = [to_json(each) for each in launches]
        with self.cupy.cuda.Device(gpu), self.streams[gpu]:
            calls, _ = self.launcher.calls_of(
                to_json(shared.workload), text, functions[gpu], arenas[gpu].data_ptr()
            )
            for call in calls:
                self.launcher.start(call)

    def _move(self, shared: Sharding, arenas: list[Any], functions: list[Any], move: Any) -> None:
        import numpy as np

        places = [
            arenas[gpu].data_ptr() + shared.workload.buffer(name).offset + 4 * move.chunk["start"]
            for gpu, name in move.args
        ]
        block = shared.workload.kernel(move.kernel).block
        with self.cupy.cuda.Device(move.gpu), self.streams[move.gpu]:
            args = tuple(np.uint64(place) for place in places)
            functions[move.gpu][move.kernel]((move.chunk["groups"],), (block,), args)

    def _meet(self) -> None:
        """Nothing that comes now begins before all that came is done, on all GPUs."""
        events = []
        for gpu, stream in enumerate(self.streams):
            with self.cupy.cuda.Device(gpu):
                events.append(stream.record(self.cupy.cuda.Event(disable_timing=True)))
        for gpu, stream in enumerate(self.streams):
            with self.cupy.cuda.Device(gpu):
                for other, event in enumerate(events):
                    if other != gpu:
                        stream.wait_event(event)

    def _synchronize(self) -> None:
        for gpu in range(self.count):
            with self.cupy.cuda.Device(gpu):
                self.cupy.cuda.Device(gpu).synchronize()

    def _seconds(self, work: Callable[[], object]) -> float:
        import numpy as np

        times = []
        for _ in range(WARM + ROUNDS):
            self._synchronize()
            for gpu, (stream, wait) in enumerate(zip(self.streams, self.waits, strict=True)):
                with self.cupy.cuda.Device(gpu), stream:
                    wait((1,), (1,), (np.uint64(HOLD),))
            self._meet()
            with self.cupy.cuda.Device(0):
                start, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
                start.record(self.streams[0])
            work()
            self._meet()
            with self.cupy.cuda.Device(0):
                end.record(self.streams[0])
                end.synchronize()
            times.append(self.cupy.cuda.get_elapsed_time(start, end) / 1e3)
        return float(median(times[WARM:]))
