"""This machine's NVIDIA GPU: kernels compiled and launched as the `cuda` target's launcher does,
in one process, beside PyTorch's libraries.

Checked: inputs are whole numbers so small that no sum is rounded, whatever its order (`--values
exact`). So every right kernel gives one result to the bit, and it is the library's in float64,
rounded once to the type that is stored. A Fourier transform rounds in any case: what it gives must
lie nearest to the same whole number (within 1/4, and the rounding to the stored type). All elements
are compared, and nothing behind a tensor may have changed. Recurrent layers, whose sums are never
exact, are judged on random values as `simgen diff` judges them (judged.py).

Timed: on the random values that the problem has anyway, between two events around all launches,
behind a delay that outlasts the CPU's enqueuing; the median of some rounds. Several launches are
one CUDA graph. So is the library timed, as PyTorch calls it, on the same tensors: float32 without
TF32, 16-bit floats summed up in float32, cuDNN's measured choice of algorithm
(torch.backends.cudnn.benchmark), images NCHW. What PyTorch does not have: products of 8-bit
integers have no c there, and convolutions of them are not there at all; recurrent layers multiply
their inputs by weights, and so ours do here; their gradients of weights come after those of the
data, whose time is subtracted.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import time
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import judged
import native
import peers

from simgen.errors import SimgenError, UsageError
from simgen.frontend.network import make_layer
from simgen.ground import resources
from simgen.ground.ir import GUARD, Distribution, Role, to_json
from simgen.ground.storage.files import write_atomic
from simgen.kernels import render
from simgen.tensors import sparse_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from native import Made, Row, Task

    from simgen.ground.ir import Buffer, Fill, Workload

# Holds the GPU until the CPU has enqueued a round.
WAIT = """
extern "C" __global__ void hold(unsigned long long nanoseconds)
{
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - start < nanoseconds);
}
"""
SPARE, HELD_FOR = 100e-6, 1.0  # seconds that the GPU is held at least, and at most
WARM, LEAST, MOST = 2, 5, 25  # rounds before those that count; of these
ROUNDS_TAKE = 0.02  # seconds, if that is more than LEAST
CANARY = 0xFF  # of every byte: NaNs of all types
WHOLE_UP_TO = 2.0  # in place of exact values, where no sums are exact
KEPT = 60 * 2**30  # bytes that PyTorch may keep of what is free


def launcher() -> Any:
    """The module that bundles have as cuda/run.py."""
    path = resources.folder("templates") / "launchers" / "cuda_run.py"
    spec = importlib.util.spec_from_file_location("cuda_run", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    plain = module.compiled

    def compiled(source: str, name: str, code: str) -> bytes:
        """What CuPy does not compile is kept too, in its cache."""
        digest = hashlib.sha256(f"{code} {module.OPTIONS} {source}".encode()).hexdigest()
        kept = Path(os.environ["CUPY_CACHE_DIR"]) / f"{digest}.{code}"
        if not kept.exists():
            write_atomic(kept, plain(source, name, code))
        return kept.read_bytes()

    module.compiled = compiled
    return module


def prepare(
    task: Task, folder: Path, plan_for: str, algorithm: str | None = None
) -> tuple[Workload, Workload]:
    """The workload with random and with exact values. Its kernels are compiled: CuPy keeps them.

    Raises:
        SimgenError: it cannot be planned.
    """
    how = {"plan_for": plan_for, "algo": algorithm}
    made = native.planned(task, **how).workload
    try:
        exact = native.planned(task, **how, values="exact").workload
    except UsageError:
        exact = made
    source = folder / "src"
    source.mkdir(parents=True, exist_ok=True)
    (source / render.PRELUDE).write_text(render.prelude())
    for name, text in render.kernels(made).items():
        (source / f"{name}.hip").write_text(text)
    compiler = launcher()
    compiler.BUNDLE = folder
    compiler.functions_of(to_json(made))
    return made, exact


@dataclass(frozen=True)
class OnGpu:
    """The machine of `native.run`."""

    plan_for: str
    algorithm: str | None = None  # of layers that have a choice; None: as planned
    device: str = "cuda"

    @property
    def prepare(self) -> Callable[[Task, Path], tuple[Workload, Workload]]:
        """Without this object, which other processes cannot have."""
        return partial(prepare, plan_for=self.plan_for, algorithm=self.algorithm)

    @cached_property
    def torch(self) -> Any:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(1)
        return torch

    @cached_property
    def launcher(self) -> Any:
        return launcher()

    @cached_property
    def wait(self) -> Any:
        import cupy

        return cupy.RawModule(code=WAIT).get_function("hold")

    @cached_property
    def name(self) -> str:
        import cupy

        versions = f"CuPy {cupy.__version__}, PyTorch {self.torch.__version__}"
        cudnn = self.torch.backends.cudnn.version()
        gpu = f"{self.torch.cuda.get_device_name()}, planned for {self.plan_for}"
        return f"{gpu} ({versions}, cuDNN {cudnn})"

    def measure(self, made: Made, row: Row) -> None:
        """Fills the row; what goes wrong in one problem is said there.

        Raises:
            SystemExit: the GPU does nothing any more.
        """
        try:
            self._measure(made, row)
        except Exception as error:  # of three libraries, and the next problem may do
            row.result = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            try:
                self.torch.cuda.synchronize()
            except RuntimeError:
                raise SystemExit(f"{row.task.key}: the GPU failed ({row.result})") from None
        if self.torch.cuda.memory_reserved() > KEPT:
            self.torch.cuda.empty_cache()

    def _measure(self, made: Made, row: Row) -> None:
        workload, exact = made.values
        arena = self.torch.empty(workload.arena_nbytes, dtype=self.torch.uint8, device=self.device)
        self.launcher.BUNDLE = made.folder
        text = to_json(workload)
        launches = [launch for step in text["steps"] for launch in step["launches"]]
        functions = self.launcher.functions_of(text)
        calls, kept = self.launcher.calls_of(text, launches, functions, arena.data_ptr())
        row.launches, row.algorithm = len(calls), _algorithm(workload)

        def ours() -> None:
            for call in calls:
                self.launcher.start(call)

        tensors = self._tensors(workload, arena)
        peer = peers.of(self.torch, workload, tensors)
        arena.fill_(CANARY)
        by_bounds = peer is None or peer.truth is None
        self._fill(workload if by_bounds else exact, tensors, whole=not by_bounds)
        ours()
        row.result = self._verdict(workload, exact is not workload, arena, tensors, peer)
        if not by_bounds:
            self._fill(workload, tensors, whole=False)
        row.ours = self._seconds(self._graph(ours) if len(calls) > 1 else ours)
        if peer and peer.work:
            try:
                row.library = self._seconds(peer.work)
                if peer.less:
                    row.library -= self._seconds(peer.less)
                    if row.library <= 0:  # what is taken away is nearly all of it
                        row.library, row.told = None, "the library's time is lost in a difference"
            except RuntimeError as error:  # the library does not do it
                row.told = str(error).partition(chr(10))[0]
        del kept  # until here the kernels read it

    def _tensors(self, workload: Workload, arena: Any) -> dict[str, Any]:
        """Buffer -> its place in the arena, as PyTorch's tensor."""
        return {
            each.name: arena[each.offset : each.offset + each.spec.nbytes]
            .view(peers.dtype(self.torch, each.spec.dtype.name))
            .view(each.spec.shape)
            for each in workload.buffers
            if each.role is not Role.SCRATCH
        }

    def _fill(self, workload: Workload, tensors: dict[str, Any], *, whole: bool) -> None:
        for buffer in workload.inputs:
            assert buffer.fill is not None
            self._values(tensors[buffer.name], buffer, buffer.fill, whole=whole)

    def _values(self, tensor: Any, buffer: Buffer, fill: Fill, *, whole: bool) -> None:
        """Values of that distribution; of random real ones, `whole` makes whole ones."""
        torch = self.torch
        if fill.distribution in sparse_pattern.DISTRIBUTIONS:
            found = sparse_pattern.pattern(1, int(fill.a), int(fill.b), fill.nonzeros or 0)
            indices = found[fill.distribution is Distribution.COLUMNS]
            tensor.copy_(torch.from_numpy(indices))
            return
        if not buffer.spec.dtype.is_float:
            tensor.copy_(torch.randint(int(fill.a), int(fill.b), tensor.shape, device=self.device))
            return
        if whole and fill.distribution is not Distribution.WHOLE:
            values = torch.empty(tensor.shape, device=self.device).normal_().mul_(WHOLE_UP_TO / 2)
            tensor.copy_(values.round_().clamp_(-WHOLE_UP_TO, WHOLE_UP_TO))
        elif fill.distribution is Distribution.WHOLE:
            values = torch.randint(1, int(fill.a) + 1, tensor.shape, device=self.device)
            chance = torch.rand(tensor.shape, device=self.device)
            # The share that is not zero, half of it negative.
            signs = (chance < fill.b).float() - 2 * (chance < fill.b / 2).float()
            tensor.copy_(values * signs)
        elif fill.distribution is Distribution.NORMAL:
            made = torch.empty(tensor.shape, device=self.device).normal_(fill.a, fill.b)
            if fill.low is not None or fill.high is not None:
                made.clamp_(fill.low, fill.high)
            tensor.copy_(made)
        else:
            tensor.copy_(torch.empty(tensor.shape, device=self.device).uniform_(fill.a, fill.b))

    def _verdict(
        self,
        workload: Workload,
        exact: bool,
        arena: Any,
        tensors: dict[str, Any],
        peer: peers.Peer | None,
    ) -> str:
        for port, name in workload.steps[0].writes:
            spec = workload.buffer(name).spec
            end = workload.buffer(name).offset + spec.held
            if not bool((arena[end : end + GUARD] == CANARY).all()):
                return f"WRONG: written behind {port}"
        if peer is None or peer.truth is None:
            found = self._by_bounds(workload, tensors)
            return f"WRONG: {found}" if found else native.RIGHT
        truth = peer.truth()
        for port, name in workload.steps[0].writes:
            wrong = peers.different(self.torch, tensors[name], truth[port].round(), exact=exact)
            if wrong:
                return f"WRONG: {wrong} of {tensors[name].numel()} elements of {port}"
        return native.RIGHT

    def _by_bounds(self, workload: Workload, tensors: dict[str, Any]) -> str:
        import cupy

        self.torch.cuda.empty_cache()  # the judges take what they need from the same memory
        found = judged.fault(
            cupy, workload, {name: cupy.asarray(each) for name, each in tensors.items()}
        )
        cupy.get_default_memory_pool().free_all_blocks()
        return found

    def _graph(self, work: Callable[[], object]) -> Callable[[], object]:
        """Its launches as one CUDA graph."""
        import cupy

        with cupy.cuda.Stream(non_blocking=True) as stream:
            stream.begin_capture()
            work()
            graph = stream.end_capture()
        return lambda: graph.launch(cupy.cuda.Stream.null)

    def _seconds(self, work: Callable[[], object]) -> float:
        """The median of some rounds. The GPU is held for longer than the CPU has been seen to take
        for enqueuing one."""
        import numpy as np

        torch, times, enqueued, rounds = self.torch, [], [], LEAST
        for at in range(WARM + MOST):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            delay = min(HELD_FOR, SPARE + 1.5 * min(enqueued, default=0.0))
            self.wait((1,), (1,), (np.uint64(1e9 * delay),))
            before = time.perf_counter()
            start.record()
            work()
            end.record()
            enqueued.append(time.perf_counter() - before)
            end.synchronize()
            times.append(start.elapsed_time(end) / 1e3)
            if at == WARM:
                rounds = min(MOST, max(LEAST, int(ROUNDS_TAKE / (times[-1] + delay))))
            if at >= WARM + rounds - 1:
                break
        return float(median(times[WARM:]))


def _algorithm(workload: Workload) -> str:
    """What was chosen first for the layer, where it says so."""
    (step, *_) = workload.steps
    node = workload.node(step.layer)
    layer = make_layer(node, workload.machine)
    try:
        choices = layer.choices(node.inputs, step.direction)
    except SimgenError:
        return ""
    return next((each.chosen for each in choices if each.what == "algorithm"), "")
