"""The HIP host program (simgen_rocm/templates/hip.c): what it is made from, and for whom.

The same program runs under gem5's syscall emulation, as the guest of a full-system simulation, and
on an AMD GPU. It is compiled without ROCm and opens libamdhip64 when it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from simgen.ground.ir import PAGE
from simgen.isa.legalise import Model, cache_policy
from simgen.kernels import render, stages
from simgen.targets import fit, kernargs, own_sources, plan
from simgen.targets.base import File, Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.kernels.build import Builder
    from simgen.kernels.stages import Stage

SOURCE = "hip.c"
FLAGS = ("-std=gnu23", "-O2", "-fno-strict-aliasing")
# Libraries of glibc. Before its version 2.34, libdl was a library of its own; the name still
# exists.
LIBRARIES = {"libc.so.6": ("__libc_start_main",), "libdl.so.2": ("dlopen", "dlsym", "dlerror")}
# Names of the HIP runtime, with ROCm's major version; hip_api.h opens the same.
LIBRARY_NAMES = (*(f"libamdhip64.so.{version}" for version in (7, 6, 5, 4)), "libamdhip64.so")


class HipPlace(StrEnum):
    """Where the program runs."""

    GPU = "gpu"  # this machine: launches are timed
    SYSCALLS = "syscalls"  # gem5's apu_se.py
    GUEST = "guest"  # gem5's full system: the data file is a part of the program


@dataclass(frozen=True)
class Program:
    """What the launcher depends on, beside the workload."""

    model: Model  # what its kernels are for
    place: HipPlace
    l1: str = cache_policy.CACHED
    dump: bool = False  # the program has gem5 dump statistics, by an instruction
    apu: bool = False  # the GPU of gem5's apu_se.py shares the memory of the CPU

    def stages(self) -> tuple[Stage, ...]:
        """Stages of its kernels; the runtimes that load them want an older code object."""
        return stages.amdgcn(self.model, l1=self.l1, version=4)

    def names(self) -> tuple[str, ...]:
        """The stages of all of it, by name."""
        return (*stages.names(self.stages()), stages.PROGRAM)

    def code_objects(self, job: Job, builder: Builder) -> list[bytes]:
        """An ELF code object for each kernel of the workload, in order."""
        own = job.workload.is_own  # for the runtimes of today, which leave what version 5 asks for
        chain = stages.amdgcn(self.model, l1=self.l1, edges=True) if own else self.stages()
        made = own_sources.products(builder, chain, self.model, job.workload, job.kernel_sources)
        objects = {name: products[stages.CODE_OBJECT] for name, products in made.items()}
        fit.check_all("hip", self.model.arch, job.workload, objects)
        return list(objects.values())

    def build(self, job: Job, builder: Builder) -> dict[str, File]:
        """`binary`, and all that it was compiled from, in `src/`."""
        files = self.sources(job, self.code_objects(job, builder))
        binary = builder.executable(files, SOURCE, FLAGS, LIBRARIES)
        return {
            "binary": File(binary, executable=True),
            **{f"src/{name}": File(content) for name, content in files.items()},
        }

    def sources(self, job: Job, objects: Sequence[bytes]) -> dict[str, bytes]:
        """Everything the program is compiled from, by file name."""
        image = b""
        table: list[plan.Row] = []
        for kernel, elf in zip(job.workload.kernels, objects, strict=True):
            table.append(plan.row(kernel, kernel.symbol, len(image)))
            image += elf + bytes(-len(elf) % PAGE)
        facts = {
            "ARCH": render.c_string(self.model.arch),
            "HOST_MEMORY": f"{self.place is HipPlace.SYSCALLS:d} /* has the GPU the CPU's? */",
            "TIMED": f"{self.place is HipPlace.GPU:d}",
            "GUEST": f"{self.place is HipPlace.GUEST:d} /* of a full-system simulation */",
            "DUMPS": f"{self.dump:d} /* does the program dump statistics? */",
            "APU": f"{self.apu:d}",
        }
        by_name = dict(zip((each.name for each in job.workload.kernels), objects, strict=True))
        areas = kernargs.areas(job.workload, by_name) if job.workload.is_own else ()
        names = (SOURCE, "hip_api.h", *(("hip_times.h",) if self.place is HipPlace.GPU else ()))
        files = [f"simgen_rocm:{name}" for name in names]
        return {**plan.sources(job, files, facts, table, areas), "code.img": image}
