"""Some launches of a workload, run by themselves on a target: from given tensors to memory."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from simgen.errors import MissingError, RunError
from simgen.ground.ir import (
    GUARD,
    PAGE,
    Buffer,
    DType,
    Fill,
    Kernel,
    Language,
    Launch,
    OwnSource,
    Role,
    Step,
    TensorSpec,
    Workload,
)
from simgen.isa.child import until_parent_ends
from simgen.isa.legalise import Legalised
from simgen.kernels import cache, stages
from simgen.kernels.build import Builder
from simgen.targets.base import Target, log_text
from simgen_examine.bisect.instrumented import SUFFIX
from simgen_examine.conform import bundling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.kernels.stages import Products, Stage
    from simgen_examine.builds import Build

    Memory = Mapping[str, NDArray[np.uint32]]  # words of each tensor, by its name

DUMP = "simgen.registers"  # the tensor that registers are stored to
LIMIT = 1800.0  # seconds of a run


@dataclass
class Side:
    """A target that takes part, and what its runs took."""

    name: str  # name of the target with its mode: "mgpusim", "mgpusim:timing"
    target: Target
    mode: str = ""
    build: Build | None = None  # None: that of GEM5, or simgen's MGPUSim
    runs: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Replay:
    """Launches in order, what their tensors hold before, and where registers may be stored."""

    of: Workload
    launches: tuple[Launch, ...]
    given: Memory  # tensors that no launch of it writes
    dump_nbytes: int = 0

    @property
    def workload(self) -> Workload:
        """One step of these launches. All tensors are words, and all that is written is kept."""
        names = dict.fromkeys(name for launch in self.launches for name in launch.args)
        inputs = [name for name in names if name in self.given]
        outputs = [name for name in names if name not in self.given]
        buffers, at = [], 0
        for name in inputs:
            digest = hashlib.sha256(np.ascontiguousarray(self.given[name]).view("u1").data)
            buffers.append(
                Buffer(name, TensorSpec((self.given[name].size,), DType.I32), Role.INPUT, at,
                       Fill.usual(DType.I32), digest.hexdigest())
            )  # fmt: skip
            at = _behind(at, self.given[name].nbytes)
        start = at
        sizes = {name: self.of.buffer(name).spec.held for name in outputs}
        for name, nbytes in {**sizes, DUMP: self.dump_nbytes}.items():
            if nbytes:
                spec = TensorSpec((-(-nbytes // 4),), DType.I32)
                buffers.append(Buffer(name, spec, Role.OUTPUT, at))
                at = _behind(at, nbytes)
        kernels = {
            launch.kernel: replace(
                self.of.kernel(launch.kernel.removesuffix(SUFFIX)), name=launch.kernel
            )
            for launch in self.launches
        }
        first = self.of.steps[0]
        step = Step(first.layer, first.direction, tuple((n, n) for n in inputs),
                    tuple((b.name, b.name) for b in buffers if b.role is Role.OUTPUT),
                    self.launches)  # fmt: skip
        return Workload(
            "bisect", self.of.seed, (), tuple(buffers),
            tuple(map(_given_as_code, kernels.values())), (step,), at, start,
            self.of.machine,
        )  # fmt: skip


def _behind(at: int, nbytes: int) -> int:
    return at + -(-(nbytes + GUARD) // PAGE) * PAGE


def _given_as_code(kernel: Kernel) -> Kernel:
    """The kernel, of which the builder has code: of a user's own, arguments lie as he says."""
    if kernel.source is None:
        return kernel
    return replace(kernel, source=OwnSource(Language.HIP, "", kernel.name))


def by_symbol(of: Workload) -> Workload:
    """The workload, whose kernels are called as in their code objects."""
    names = {kernel.name: kernel.symbol for kernel in of.kernels}
    steps = tuple(
        replace(
            step,
            launches=tuple(replace(each, kernel=names[each.kernel]) for each in step.launches),
        )
        for step in of.steps
    )
    kernels = tuple(replace(kernel, name=kernel.symbol) for kernel in of.kernels)
    return replace(of, steps=steps, kernels=kernels)


class _Objects(Builder):
    """Hands out code objects that are there; programs of the host are compiled."""

    linted: ClassVar[bool] = False  # what a simulator makes of it is what is asked

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        super().__init__(cache.default())
        self.objects = objects

    def products(self, _: Sequence[Stage], sources: Mapping[str, Any]) -> dict[str, Products]:
        return {
            name: {stages.CODE_OBJECT: self.objects[name], stages.LEGALISED: Legalised("")}
            for name in sources
        }


def run(replay: Replay, side: Side, objects: Mapping[str, bytes], folder: Path) -> Memory:
    """What a target leaves in every tensor that the launches write, in `folder`/bundle.

    Raises:
        MissingError: the target cannot run here.
        RunError: it ends early.
    """
    planned, path = replay.workload, folder / "bundle"
    shutil.rmtree(path, ignore_errors=True)
    bundling.write_bundle(
        path, planned, side.target, _Objects(objects),
        {name: np.ascontiguousarray(words).view(np.int32) for name, words in replay.given.items()
         if any(each.name == name for each in planned.inputs)},
    )  # fmt: skip
    if side.build:
        side.build.put(path, side.target.name)
    _start(path, side)
    words = np.fromfile(path / "results" / side.target.name / "outputs.bin", np.uint32)
    return {
        each.name: words[at : at + each.spec.size]
        for each in planned.outputs
        if (at := (each.offset - planned.outputs_offset) // 4) >= 0
    }


def _start(path: Path, side: Side) -> None:
    env = {**os.environ, "SIMGEN_PYTHON": sys.executable, "SIMGEN_TIMEOUT": f"{LIMIT:g}"}
    env.pop("SIMGEN_MODE", None)
    if side.mode:
        env["SIMGEN_MODE"] = side.mode
    env.update(side.build.variables if side.build else {})
    side.runs += 1
    start = time.monotonic()
    process = subprocess.Popen(
        [*until_parent_ends(signal.SIGTERM), "/bin/sh", str(path / side.target.name / "run.sh")],
        env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        _, said = process.communicate(timeout=LIMIT + 600)
    except BaseException:
        process.terminate()
        process.communicate()
        raise
    side.seconds += time.monotonic() - start
    if not process.returncode:
        return
    last = (said.strip().splitlines() or [""])[-1].removeprefix("simgen: error: ")
    if process.returncode in (2, 3, 4):
        last = side.build.said(last, path, side.target.name) if side.build else last
        raise MissingError(last or f"{side.name}: it cannot run here")
    log = log_text(path / "results" / f"failed-{side.target.name}")
    why = side.target.watcher.diagnosis(log) or last
    raise RunError(f"{side.name}: it ends while launches are replayed ({why}); try simgen lint")
