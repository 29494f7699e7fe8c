"""A workload with inputs of awkward sizes, and simgen's own functions in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from simgen.ground.ir import Buffer, Distribution, DType, Fill, Role, TensorSpec, Workload

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
NORMAL = Fill(Distribution.NORMAL, 0.0, 0.5, high=1.0)
LABELS = Fill(Distribution.UNIFORM, 0.0, 10.0)
INPUTS = (  # one of more than a block, with a tail; one far smaller than a page
    Buffer("conv1.x", TensorSpec((3, 5, 137, 129)), Role.INPUT, 0, NORMAL),
    Buffer("conv1.b", TensorSpec((7, 1, 1, 1)), Role.INPUT, 2**22, NORMAL),
    Buffer("loss.labels", TensorSpec((100,), DType.I32), Role.INPUT, 2**23, LABELS),
)
OUTPUT = Buffer("conv1.y", TensorSpec((1, 3, 33, 33)), Role.OUTPUT, 2**24)


def workload(inputs=INPUTS, outputs=(OUTPUT,), seed=11):
    return Workload("conv1", seed, (), (*inputs, *outputs), (), (), 2**25, 2**24)


def in_subprocess(code, *arguments, **options):
    """Run `code` with this checkout's simgen."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=ENVIRONMENT, text=True, **options)


def leftovers(folder):
    return sorted(p.name for p in folder.iterdir())
