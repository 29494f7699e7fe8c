"""Native: the rendered kernels on an NVIDIA GPU through CuPy's RawModule.

The folder holds one Python file that needs CuPy and NumPy and nothing of simgen, so that a bundle
can be carried to the machine that has the GPU.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping  # noqa: TC003 - a schema's types are read when it is used
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from simgen.compile import render
from simgen.compile.legalise import cache_policy
from simgen.errors import DamagedError
from simgen.storage import schema
from simgen.storage.files import read_regular
from simgen.storage.schema import Sized
from simgen.targets import launch_rows
from simgen.targets.base import File, Lack, RunOption, Target, l1_setting

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.compile.build import Builder
    from simgen.ir import Workload
    from simgen.targets.base import Job

CUPY_WHEEL = "cupy-cuda13x"  # the extra `cuda` has its lowest version
MAX_NBYTES = 2**20  # of machine.json


@dataclass(frozen=True)
class CudaDevice:
    """What run.py writes into machine.json."""

    facts: Mapping[str, bool | int | float | Annotated[str, Sized(0, 1000)]]


@dataclass(frozen=True)
class Cuda(Target):
    """Settings: the cache policy."""

    name: ClassVar[str] = "cuda"
    summary: ClassVar[str] = "this machine's NVIDIA GPU, through CuPy, timed with CUDA events"
    run_options: ClassVar[Mapping[str, RunOption]] = launch_rows.ROUND_OPTIONS

    l1: str = l1_setting()

    def missing(self, bundle: Path | None = None) -> list[Lack]:
        if importlib.util.find_spec("cupy") is None:
            return [
                Lack("CuPy is not installed", f"install it: python -m pip install {CUPY_WHEEL}")
            ]
        import cupy

        try:
            cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            return [Lack(f"no usable NVIDIA GPU ({error})", "run it on a machine that has one")]
        return []

    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        run = render.text(
            "targets/cuda.run.sh.j2",
            name=job.workload.name,
            target=self.name,
            digest=job.digest,
            bypass=self.l1 == cache_policy.BYPASS,
        )
        return {
            "run.sh": File(run.encode(), executable=True),
            "run.py": File(render.text("launchers/cuda_run.py").encode()),
        }

    def metrics(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        """`seconds` is the median over the timed rounds, between CUDA events."""
        return launch_rows.read(results, workload, launch_rows.ROUND_COLUMNS)

    def machine(self, results: Path) -> Mapping[str, str]:
        path = results / "machine.json"
        try:
            told = schema.parse(read_regular(path, MAX_NBYTES))
            found = schema.from_json(CudaDevice, {"facts": told}).facts
        except (OSError, ValueError) as error:
            fact = getattr(error, "strerror", None) or error
            raise DamagedError(f"{path}: {fact}; run it again") from None
        return {name: str(value) for name, value in found.items()}

    def diagnosis(self, log: str) -> str | None:
        """What run.py says; where Python itself ended it, the last line of its traceback."""
        lines = [line for line in log.splitlines() if line.strip()]
        lines = [line for line in lines if ": the run ended with" not in line]
        told = [line for line in lines if line.startswith("simgen: error: ")] or lines
        return told[-1].removeprefix("simgen: error: ") if told else None
