"""Kernels that are given as code objects, run on MGPUSim in one process."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.bundle.writing import workload_text
from simgen.ground.ir import (
    GUARD,
    PAGE,
    Buffer,
    Distribution,
    DType,
    Fill,
    Kernel,
    Language,
    Launch,
    Node,
    OwnSource,
    Pass,
    Role,
    Step,
    TensorSpec,
    Workload,
)
from simgen.isa.legalise import Legalised
from simgen.kernels.stages import CODE_OBJECT, LEGALISED
from simgen.targets.base import Job
from simgen.targets.mgpusim.target import MGPUSim
from simgen.tensors import data_file
from simgen.tensors.header import read_header

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

BOTH = ("gfx942", "gfx803")
LANES = 64
ASKED_NBYTES = 0x400  # of LDS, which begin behind a kernel's own

FLOATS = np.array(
    [0, -0.0, 1, -1, 0.5, -0.5, 1.5, -2.5, 3.7, -3.7, 1e-45, -1e-45, 1.1754942e-38, 3.4e38, -3.4e38,
     np.inf, -np.inf, np.nan, 2147483648, -2147483648, 4e9, 16777217, -1e-3, 8388607.5],
    np.float32,
).view(np.uint32)  # fmt: skip


class _Assembled:
    """Stands for a Builder: the code objects are there already."""

    linted = False

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self.objects = objects

    def products(self, stages: Any, sources: Mapping[str, str]) -> dict[str, Any]:
        return {
            name: {CODE_OBJECT: self.objects[name], LEGALISED: Legalised("")} for name in sources
        }


def run(
    folder: Path,
    arch: str,
    kernels: Mapping[str, bytes],
    inputs: Mapping[str, Words],
    *,
    words_out: Mapping[str, int],
    block: int = LANES,
    mode: str = "emu",
    blocks: int | None = None,
    first: Mapping[str, str] | None = None,
    seconds: int = 600,
) -> subprocess.CompletedProcess[str]:
    """Run kernels (name -> code object) on inputs of shape (words, items) in one process.

    `blocks`: so many of the work-groups are enough. `first` names a kernel that is run on the
    buffers of another one before that.

    Raises:
        subprocess.TimeoutExpired: it took longer than `seconds`.
    """
    shapes = {name: inputs[name].shape for name in kernels if name in inputs}
    workload = _workload(shapes, words_out, block, blocks, first)
    digest = hashlib.sha256(workload_text(workload)).hexdigest()
    target = MGPUSim(arch=arch, legalise=False)  # which would refuse what is to be shown
    job = Job(workload, {name: name for name in kernels}, data_file.data_id(workload), digest)
    files = target.package.folder(job, _Assembled(kernels))  # type: ignore[arg-type]
    for name, file in files.items():
        to = folder / "mgpusim" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(file.content)
        to.chmod(0o755 if file.executable else 0o644)
    (folder / "workload.json").write_bytes(workload_text(workload))
    path = folder / "data.h5"
    data_file.write_data(path, workload)
    entries = read_header(path).entries
    for buffer, entry in zip(workload.inputs, entries, strict=False):
        shape = buffer.spec.shape
        name = buffer.name.removesuffix(".in")
        np.memmap(path, "<u4", "r+", entry.offset, shape)[:] = inputs[name].reshape(shape)
    digests = {
        f"mgpusim/{n}": hashlib.sha256(file.content).hexdigest() for n, file in files.items()
    }
    manifest = {
        "simgen": "test",
        "compiler": "test",
        "data": {"file": "data.h5", "id": job.data_id.hex()},
        "targets": {"mgpusim": target.settings()},
        "files": {"workload.json": digest, **digests},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return subprocess.run(
        ["sh", str(folder / "mgpusim" / "run.sh")],
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        env={**os.environ, "SIMGEN_MODE": mode, "SIMGEN_TIMEOUT": str(seconds)},
    )


def outputs(
    folder: Path,
    inputs: Mapping[str, Words],
    *,
    words_out: Mapping[str, int],
    block: int = LANES,
    blocks: int | None = None,
) -> dict[str, Words]:
    """What each kernel of a finished run wrote: words_out[name] words for each item."""
    shapes = {name: words.shape for name, words in inputs.items()}
    workload = _workload(shapes, words_out, block, blocks)
    raw = (folder / "results" / "mgpusim" / "outputs.bin").read_bytes()
    return {
        buffer.name.removesuffix(".out"): np.frombuffer(
            raw, "<u4", buffer.spec.size, buffer.offset - workload.outputs_offset
        ).reshape(buffer.spec.shape)
        for buffer in workload.outputs
    }


def _workload(
    shapes: Mapping[str, tuple[int, ...]],
    words_out: Mapping[str, int],
    block: int,
    blocks: int | None,
    first: Mapping[str, str] | None = None,
) -> Workload:
    at, buffers = 0, []
    specs = [
        (f"{name}.{end}", TensorSpec(shape, DType.I32), role)
        for end, role in (("in", Role.INPUT), ("out", Role.OUTPUT))
        for name, (count, items) in shapes.items()
        for shape in [(count if end == "in" else words_out[name], items)]
    ]
    outputs_offset = 0
    fill = Fill(Distribution.UNIFORM, 0, 1)
    for name, spec, role in specs:
        if role is Role.OUTPUT and not outputs_offset:
            outputs_offset = at
        buffers.append(Buffer(name, spec, role, at, fill if role is Role.INPUT else None))
        at += -(-(spec.nbytes + GUARD) // PAGE) * PAGE
    launches = tuple(
        Launch(kernel, (blocks or items // block, 1, 1), (f"{name}.in", f"{name}.out"))
        for name, (_, items) in shapes.items()
        for kernel in ((first or {}).get(name), name)
        if kernel
    )
    step = Step("probe", Pass.FORWARD, (), (), launches)
    names = dict.fromkeys([*(first or {}).values(), *shapes])
    source = OwnSource(Language.HIP, "", "")  # launches of users' kernels alone ask for LDS
    kernels = tuple(
        Kernel(name, "probe", block, lds_nbytes=ASKED_NBYTES, source=source) for name in names
    )
    node = Node("probe", "bypass", (), ())
    return Workload("probe", 0, (node,), tuple(buffers), kernels, (step,), at, outputs_offset)
