"""Hand-written kernels as bundles for the host target."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from simgen.ground.ir import (
    GUARD,
    PAGE,
    Buffer,
    DType,
    Kernel,
    Launch,
    Pass,
    Role,
    Step,
    TensorSpec,
    Workload,
)
from simgen.targets.base import Job
from simgen.targets.host import Host
from simgen.tensors.header import DatasetEntry, Header

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.kernels.build import Builder

    Array = NDArray[Any]

DATA_ID = bytes(range(32))
DTYPES = {"f4": DType.F32, "i4": DType.I32}


@dataclass(frozen=True)
class HostBundle:
    """A bundle with only the host target; kernels must be named as in `launches`."""

    path: Path
    job: Job

    @property
    def workload(self) -> Workload:
        return self.job.workload

    @property
    def script(self) -> Path:
        return self.path / "host" / "run.sh"

    @property
    def program(self) -> Path:
        return self.path / "host" / self.workload.name

    @property
    def results(self) -> Path:
        return self.path / "results" / "host"

    def run(self, processes: int = 2) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", str(self.script)],
            env={"PATH": "/usr/bin:/bin", "SIMGEN_PROCESSES": str(processes)},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def outputs(self) -> dict[str, Array]:
        raw = (self.results / "outputs.bin").read_bytes()
        start = self.workload.outputs_offset
        return {
            b.name: np.frombuffer(raw, b.spec.dtype.array, b.spec.size, b.offset - start).reshape(
                b.spec.shape
            )
            for b in self.workload.outputs
        }

    def good(self, processes: int = 2) -> dict[str, Array]:
        """The outputs of a run that must succeed."""
        done = self.run(processes)
        assert (done.returncode, done.stderr) == (0, "")
        return self.outputs()

    def error(self) -> str:
        """The one line of a run that must fail because of a kernel, from the kernel's name on."""
        done = self.run()
        assert done.returncode == 5, done.stderr
        assert not self.results.exists()
        lines = done.stderr.splitlines()
        assert len(lines) == 1
        prefix = "simgen: error: kernel "
        assert lines[0].startswith(prefix)
        return lines[0].removeprefix(prefix)


class Arena:
    """Places buffers one after another, with guards."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.end = 0

    def add(self, name: str, shape: Sequence[int], dtype: DType, role: Role) -> None:
        spec = TensorSpec(tuple(shape), dtype)
        self.buffers.append(Buffer(name, spec, role, self.end))
        self.end += (spec.nbytes + GUARD + PAGE - 1) // PAGE * PAGE


def plan(
    inputs: Mapping[str, Array],
    scratch: Mapping[str, Sequence[int]],
    outputs: Mapping[str, Sequence[int]],
    blocks: Mapping[str, int],
    launches: Sequence[tuple[Any, ...]],  # what `Launch` takes
) -> Workload:
    arena = Arena()
    for name, array in inputs.items():
        arena.add(name, array.shape, DTYPES[array.dtype.str[1:]], Role.INPUT)
    for name, shape in scratch.items():
        arena.add(name, shape, DType.F32, Role.SCRATCH)
    start = arena.end
    for name, shape in outputs.items():
        arena.add(name, shape, DType.F32, Role.OUTPUT)
    step = Step("hand", Pass.FORWARD, (), (), tuple(Launch(*launch) for launch in launches))
    kernels = tuple(Kernel(name, "by-hand", block) for name, block in blocks.items())
    return Workload("hand", 0, (), tuple(arena.buffers), kernels, (step,), arena.end, start)


def write_data(path: Path, inputs: Mapping[str, Array], identity: bytes = DATA_ID) -> None:
    """What launchers read of a data.h5: the header and the tensors, without HDF5 between them."""
    offset, entries, blocks = PAGE, [], []
    canary = np.full(PAGE // 4, DType.F32.canary, "<u4")
    for array in (*inputs.values(), canary):
        entries.append(DatasetEntry(offset, array.nbytes))
        blocks.append(array.tobytes().ljust(-(-array.nbytes // PAGE) * PAGE, b"\0"))
        offset += len(blocks[-1])
    head = Header(identity, offset, tuple(entries)).pack()
    path.write_bytes(b"".join((head.ljust(PAGE, b"\0"), *blocks)))


def source(text: str) -> str:
    """A kernel as simgen renders it: KERNEL(block, name) stands for the usual signature."""
    signature = (
        r'extern "C" __global__ __launch_bounds__(\2) '
        r"void \3(const TYPE* __restrict__ x, float* __restrict__ y)"
    )
    for word, kind in (("INT_KERNEL", "int"), ("KERNEL", "float")):
        text = re.sub(
            rf"^({word})\((\w+), (\w+)\)", signature.replace("TYPE", kind), text, flags=re.M
        )
    return f'#include "prelude.h"\n{text}'


@pytest.fixture
def host_bundle(tmp_path: Path, builder: Builder) -> Callable[..., HostBundle]:
    """Makes a bundle from kernel texts; the prelude's include is put in front of each.

    kernels: name -> (work-items in a work-group, text); launches: (kernel, grid, buffers).
    """

    def make(
        kernels: Mapping[str, tuple[int, str]],
        launches: Sequence[tuple[Any, ...]],  # what `Launch` takes
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Sequence[int]],
        scratch: Mapping[str, Sequence[int]] | None = None,
        *,
        sanitize: bool = False,
        folder: str = "bundle",
    ) -> HostBundle:
        blocks = {name: block for name, (block, _) in kernels.items()}
        workload = plan(inputs, scratch or {}, outputs, blocks, launches)
        sources = {name: source(text) for name, (_, text) in kernels.items()}
        job = Job(workload, sources, DATA_ID, "0" * 64)
        path = tmp_path / folder
        for name, file in Host(sanitize=sanitize).package.folder(job, builder).items():
            target = path / "host" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.content)
            target.chmod(0o755 if file.executable else 0o644)
        write_data(path / "data.h5", inputs)
        return HostBundle(path, job)

    return make
