"""A workload without layers: launches of one small kernel, each swapping neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.bundle.writing import DATA
from simgen.ground.ir import (
    Buffer,
    Distribution,
    Fill,
    Kernel,
    Launch,
    Node,
    Pass,
    Role,
    Step,
    TensorSpec,
    Workload,
)
from simgen.targets.base import Job
from simgen.tensors import data_file

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.kernels.build import Builder
    from simgen.targets.base import Target

SOURCE = """\
#include "prelude.h"
extern "C" __global__ void __launch_bounds__(64) {name}(const float* x, float* y)
{{
    __shared__ float row[64];
    row[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = row[threadIdx.x ^ 1];
}}
"""


def workload(launches: int = 2, elements: int = 1024) -> Workload:
    """`launches` layers, each swapping neighbours of the layer before it."""
    spec = TensorSpec((elements,))
    stride = -(-spec.nbytes // 4096) * 4096 + 4096
    fill = Fill(Distribution.UNIFORM, 0.0, 1.0)
    buffers = [Buffer("in.x", spec, Role.INPUT, 0, fill)]
    steps = []
    for i in range(launches):
        buffers.append(Buffer(f"swap{i}.y", spec, Role.OUTPUT, (i + 1) * stride))
        reads, writes = buffers[-2].name, buffers[-1].name
        launch = Launch("swap", (elements // 64, 1, 1), (reads, writes))
        steps.append(Step(f"swap{i}", Pass.FORWARD, (("x", reads),), (("y", writes),), (launch,)))
    kernels = (Kernel("swap", "swap.hip", 64),)
    total = (launches + 1) * stride
    # What they have to do is as much as a copy has.
    nodes = tuple(Node(step.layer, "bypass", (), (spec,)) for step in steps)
    return Workload("swaps", 0, nodes, tuple(buffers), kernels, tuple(steps), total, stride)


def job(work: Workload) -> Job:
    sources = {k.name: SOURCE.format(name=k.name) for k in work.kernels}
    return Job(work, sources, data_file.data_id(work), "0" * 64)


def write(root: Path, target: Target, builder: Builder, work: Workload | None = None) -> Path:
    """The target's folder in `root`, beside a data.h5."""
    work = work or workload()
    folder = root / target.name
    for name, file in target.package.folder(job(work), builder).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(file.content)
        if file.executable:
            (folder / name).chmod(0o755)
    data_file.write_data(root / DATA, work)
    return folder
