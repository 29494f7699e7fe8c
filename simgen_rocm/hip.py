"""Native: the rendered kernels on an AMD GPU, through a HIP host program.

The program (simgen_rocm/templates/hip.c) carries its code objects and opens libamdhip64 when it
runs, so that a bundle can be made without ROCm and carried to the machine that has the GPU.
"""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from simgen.ground import machine
from simgen.ground.ir import FOR_AMD, Language, Workload
from simgen.isa import toolchain
from simgen.isa.legalise import Model
from simgen.kernels import render
from simgen.targets import launch_rows
from simgen.targets.base import (
    EVERYTHING,
    File,
    Job,
    Lack,
    Package,
    Reader,
    Requirements,
    RunOption,
    Target,
    Watcher,
    l1_setting,
    log_text,
    setting,
)
from simgen_rocm import rocprof
from simgen_rocm.hip_program import LIBRARY_NAMES, HipPlace, Program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.kernels.build import Builder

DRIVER = Path("/dev/kfd")


@dataclass(frozen=True)
class Hip(Target):
    """Settings: the GPU, the cache policy."""

    name: ClassVar[str] = "hip"
    summary: ClassVar[str] = "this machine's AMD GPU, through ROCm's HIP, timed with HIP events"
    run_options: ClassVar[Mapping[str, RunOption]] = launch_rows.ROUND_OPTIONS | {
        "counters": RunOption(
            "SIMGEN_COUNTERS",
            "hardware counters of rocprofv3, from one more run of all launches per group of "
            "counters",
            choices=("yes", "no"),
            default="no",
        ),
    }

    own_languages: ClassVar[tuple[Language, ...]] = FOR_AMD

    arch: str = setting("gfx90a", "GPU that kernels are compiled for", toolchain.AMD_ARCHS)
    l1: str = l1_setting()

    @property
    def machine(self) -> str | None:
        return machine.real(self.arch)

    @classmethod
    def unseen(cls) -> str:
        return EVERYTHING

    @property
    def needs(self) -> Requirements:
        return AmdGpu()

    @property
    def package(self) -> Package:
        return HipPackage(Program(Model.gpu(self.arch), HipPlace.GPU, self.l1))

    @property
    def watcher(self) -> Watcher:
        return HipWatcher()

    @property
    def reader(self) -> Reader:
        return HipReader(self.arch)

    def whole_only(self) -> str:
        return "the HIP program runs all layers; take the host target to run some"


class AmdGpu(Requirements):
    """A GPU with its driver, and ROCm."""

    def missing(self, bundle: Path | None = None) -> list[Lack]:
        if not DRIVER.exists():
            cure = "run it on a machine with an AMD GPU, its driver (amdgpu) and ROCm"
            return [Lack(f"there is no {DRIVER}", cure)]
        lacks = []
        if not os.access(DRIVER, os.R_OK | os.W_OK):
            lacks.append(Lack(f"{DRIVER} may not be used", "join the groups render and video"))
        if not any(_loads(name) for name in LIBRARY_NAMES):
            cure = "install ROCm, or name the library's folder in LD_LIBRARY_PATH"
            lacks.append(Lack("there is no libamdhip64", cure))
        return lacks


@dataclass(frozen=True)
class HipPackage(Package):
    """`run.sh` and the program."""

    program: Program

    def stages(self) -> tuple[str, ...]:
        return self.program.names()

    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        run = render.text(
            "simgen_rocm:hip.run.sh.j2",
            **job.frame,
            target=Hip.name,
            options=Hip.variables_of_options(),
            arch=self.program.model.arch,
            groups=rocprof.GROUPS if self.program.model.arch in rocprof.ARCHS else (),
            counted=rocprof.ARCHS,
        )
        return {"run.sh": File(run.encode(), executable=True), **self.program.build(job, builder)}


class HipWatcher(Watcher):
    """What the program says."""

    def diagnosis(self, log: str) -> str | None:
        lines = re.findall(r"simgen: error: (.*)$", log, re.MULTILINE)
        return lines[0].removeprefix(f"{Hip.name}: ") if lines else None


@dataclass(frozen=True)
class HipReader(Reader):
    """Times of rounds, and what the program says of the GPU."""

    arch: str

    def metrics(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        """`seconds` is the median over the timed rounds, between HIP events. What a profiler
        counted stands beside it, with `counted_seconds`, the time that a launch took under it."""
        timed = launch_rows.read_rows(results, workload, launch_rows.ROUND_COLUMNS)
        counted = rocprof.read_metrics(results, [launch.kernel for launch in workload.launches])
        return [{**counts, **times} for counts, times in zip(counted, timed, strict=True)]

    def counted(self) -> Mapping[str, str]:
        return {"seconds": "between HIP events, median of rounds", **rocprof.named()}

    def machine(self, results: Path) -> Mapping[str, str]:
        """What the program says in its log: the GPU's name and the version of HIP."""
        log = log_text(results)
        found = re.findall(r"^simgen: (gpu|hip_runtime): (.+)$", log, re.MULTILINE)
        return {"arch": self.arch, **dict(found)}


def _loads(library: str) -> bool:
    """Whether the dynamic linker finds a library and all that it needs."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
