"""GPGPU-Sim 4.2, the performance model under Accel-Sim: kernels as PTX, functionally or timed.

Its user builds it (simgen has nothing of it); the program in the bundle is linked to the
libcudart.so that this makes, and run.sh finds it by GPGPUSIM_ROOT. clang makes the PTX;
simgen.compile.legalise.ptx replaces what GPGPU-Sim does not read or executes wrongly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen import machine
from simgen.compile import render, stages
from simgen.compile.legalise import ptx
from simgen.errors import RefusedError
from simgen.ir import GUARD
from simgen.targets import replaced
from simgen.targets.base import (
    File,
    Package,
    Reader,
    Requirements,
    RunOption,
    Target,
    Watcher,
    setting,
)
from simgen.targets.gpgpusim.needs import CURE, Built
from simgen.targets.launch_rows import RowsReader, RowsWatcher

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.compile.build import Builder
    from simgen.compile.legalise import Legalised
    from simgen.ir import Workload
    from simgen.machine import Machine
    from simgen.targets.base import Job

NAME = "gpgpusim"
VERSION = "4.2"  # of the table in data/ptx
MACHINES = {  # folder of a configuration -> the machine that it models
    each.gpgpusim.config: each.machine
    for each in machine.descriptions().values()
    if each.gpgpusim
}
MAIN = "gpgpusim.c"
FLAGS = ("-std=gnu23", "-O2", "-fno-strict-aliasing")
LIBRARIES = {
    "libc.so.6": ("__libc_start_main", "putenv", "fflush", "signal", "__cxa_atexit"),
    "libcudart.so": (
        "cudaMalloc", "cudaMemcpy", "cudaDeviceSynchronize", "cuLinkAddFile_v2", "cuLaunchKernel",
        "__cudaRegisterFunction", "_Z13GPGPU_Contextv",
        "_ZN13gpgpu_context33gpgpu_ptx_info_load_from_filenameEPKcj",
    ),
}  # fmt: skip
PTXAS = '#!/bin/sh\n# In place of NVIDIA\'s ptxas -v, which is not needed: what simgen knows of the kernels.\ncat kernels.ptxas >&2\n'
TIMED = "timed.txt"  # what functional mode computes wrongly, and why
COUNTED = {
    "host_seconds": "time of the simulator",
    "seconds": "gpu_sim_cycle / clock of the cores",
    "cycles": "gpu_sim_cycle",
    "instructions": "gpgpu_n_tot_w_icount, since the launch before",
    "thread_instructions": "gpu_sim_insn",
    "work_groups": "gpu_tot_issued_cta, since the launch before",
    **{f"{key}_hits": f"{name}_total_cache_accesses - misses - pending_hits, since the launch before"
       for key, name in (("l1", "L1D"), ("l2", "L2"))},
    **{f"{key}_misses": f"{name}_total_cache_misses, since the launch before"
       for key, name in (("l1", "L1D"), ("l2", "L2"))},
    **{f"{key}_mshr_hits": f"{name}_total_cache_pending_hits, since the launch before"
       for key, name in (("l1", "L1D"), ("l2", "L2"))},
    "dram_reads": "total dram reads, since the launch before",
    "dram_writes": "total dram writes, since the launch before",
    "dram_read_bytes": "the same * dram_buswidth * dram_burst_length * n_mem_per_ctrlr",
    "dram_written_bytes": "the same of writes",
}  # fmt: skip


@dataclass(frozen=True)
class GpgpuSim(Target):
    """Setting: the configuration, which is the simulated GPU."""

    name: ClassVar[str] = NAME
    summary: ClassVar[str] = "GPGPU-Sim 4.2, models of NVIDIA GPUs; its user builds it"
    simulates: ClassVar[bool] = True
    run_options: ClassVar[Mapping[str, RunOption]] = {
        "mode": RunOption(
            "SIMGEN_MODE",
            "functional: what the kernels compute; timing: how long they take, too [default: "
            "functional]",
            ("functional", "timing"),
        ),
    }

    config: str = setting("SM7_QV100", "GPGPU-Sim's configuration of the GPU", MACHINES)

    @property
    def simulated(self) -> Machine:
        return MACHINES[self.config]

    @property
    def machine(self) -> str:
        return self.simulated.name

    @property
    def needs(self) -> Requirements:
        return Built(self.config)

    @property
    def package(self) -> Package:
        return GpgpuSimPackage(self)

    @property
    def watcher(self) -> Watcher:
        return GpgpuSimWatcher()

    @property
    def reader(self) -> Reader:
        return GpgpuSimReader()

    def whole_only(self) -> str:
        return "its program runs all layers; take the host target to run some"


@dataclass(frozen=True)
class GpgpuSimPackage(Package):
    """`run.sh`, the program, all kernels in one PTX file, and what stands in for ptxas."""

    settings: GpgpuSim

    def stages(self) -> tuple[str, ...]:
        return stages.names(stages.ptx(self.settings.simulated.arch, VERSION))

    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        """The target's folder.

        Raises:
            RefusedError: a kernel has an instruction that GPGPU-Sim lacks and no rule replaces.
        """
        workload, arch = job.workload, self.settings.simulated.arch
        _check(workload)
        made = builder.products(stages.ptx(arch, VERSION), job.kernel_sources)
        kernels: dict[str, Legalised] = {
            name: products[stages.LEGALISED] for name, products in made.items()
        }
        takes = {name: ptx.needs(each.text) for name, each in kernels.items()}
        run = render.text(
            "targets/gpgpusim.run.sh.j2",
            name=workload.name,
            target=NAME,
            digest=job.digest,
            config=self.settings.config,
            cure=CURE,
        )
        sources = self._sources(job)
        program = builder.executable(sources, MAIN, FLAGS, LIBRARIES)
        timed = _timed_only(kernels)
        return {
            "run.sh": File(run.encode(), executable=True),
            "program": File(program, executable=True),
            "ptxas": File(PTXAS.encode(), executable=True),
            "kernels.ptx": File(ptx.joined({n: k.text for n, k in kernels.items()}).encode()),
            "kernels.ptxas": File(ptx.resource_lines(takes, arch).encode()),
            **({TIMED: File(timed)} if timed else {}),
            replaced.FILE: File(replaced.costs(kernels)),
            **{f"src/{name}": File(content) for name, content in sources.items()},
        }

    def _sources(self, job: Job) -> dict[str, bytes]:
        """Everything that the program is compiled from, by file name."""
        program = render.text(
            "launchers/gpgpusim.c.j2",
            workload=job.workload,
            sm=self.settings.simulated.arch.removeprefix("sm_"),
        )
        table = render.text(
            "launchers/table.h.j2", workload=job.workload, guard=GUARD, data_id=job.data_id
        )
        return {
            MAIN: program.encode(),
            "table.h": table.encode(),
            "system.h": render.text("launchers/system.h").encode(),
        }

    def notes(self, folder: Path, *, details: bool = False) -> list[str]:
        return replaced.notes(folder / replaced.FILE, NAME, details=details)


def _check(workload: Workload) -> None:
    """Refuse kernels that want what GPUs before sm_90 do not have.

    Raises:
        RefusedError: there is one.
    """
    for kernel in workload.kernels:
        if kernel.maps:
            raise RefusedError(
                f"{NAME}: kernel {kernel.name}: it is planned for another GPU; plan it for "
                "GPGPU-Sim's with --plan-for gpgpusim-sm7-qv100"
            )


def _timed_only(kernels: Mapping[str, Legalised]) -> bytes:
    """A line for each kernel that is right in timing mode only; `run.sh` says the first."""
    return "".join(
        f"kernel {name}: {opcode}: {why}\n"
        for name, made in sorted(kernels.items())
        for opcode, why in list(made.emulated.items())[:1]
    ).encode()


class GpgpuSimWatcher(RowsWatcher):
    """Its program names the kernel, and what the simulator said."""

    def diagnosis(self, log: str) -> str | None:
        lines = re.findall(r"simgen: error: (?:gpgpusim: )?(.*)$", log, re.MULTILINE)
        return lines[-1] if lines else None


class GpgpuSimReader(RowsReader):
    """`host_seconds`; of a timing run also cycles, instructions, caches and DRAM."""

    def counted(self) -> Mapping[str, str]:
        return COUNTED

    def machine(self, results: Path) -> Mapping[str, str]:
        return {"simulator": "GPGPU-Sim"}
