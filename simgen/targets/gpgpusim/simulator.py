"""GPGPU-Sim 4.2, the performance model under Accel-Sim: kernels as PTX, functionally or timed.

Its user builds it (simgen has nothing of it); the program in the bundle is linked to the
libcudart.so that this makes, and run.sh finds it by GPGPUSIM_ROOT. clang makes the PTX;
simgen.isa.legalise.ptx replaces what GPGPU-Sim does not read or executes wrongly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ask.build import BuildChoices
from simgen.errors import RefusedError
from simgen.ground import machine
from simgen.kernels import ptx_modules, render, stages
from simgen.targets import machine_file, plan, replaced
from simgen.targets.base import (
    File,
    Job,
    Package,
    Reader,
    Requirements,
    RunOption,
    Target,
    Watcher,
    setting,
)
from simgen.targets.gpgpusim.needs import CURE, GpgpuSimBuild
from simgen.targets.launch_rows import RowsReader, RowsWatcher

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.ground.ir import Workload
    from simgen.ground.machine import Machine
    from simgen.isa.legalise import Legalised
    from simgen.kernels.build import Builder

NAME = "gpgpusim"
VERSION = "4.2"  # version of the table in data/ptx
MACHINES = {  # folder of a configuration -> the machine that it models
    each.gpgpusim.config: each.machine for each in machine.descriptions().values() if each.gpgpusim
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
PTXAS = """#!/bin/sh
# In place of NVIDIA's ptxas -v, which is not needed: what simgen knows of the kernels. GPGPU-Sim
# has the errors of this written to kernels.ptxas.
cat resources.txt >&2
"""
ASSERTED = "ended itself (a failed assertion, or abort)"  # as the program says it
TIMED = "timed.txt"  # what functional mode computes wrongly, and why
_SINCE = "since the launch before"  # for counters that GPGPU-Sim never resets
_CACHES = (("l1", "L1D_total_cache"), ("l2", "L2_total_cache"))
COUNTED = {
    "host_seconds": "time of the simulator",
    "seconds": "gpu_sim_cycle / clock of the cores",
    "cycles": "gpu_sim_cycle",
    "instructions": f"gpgpu_n_tot_w_icount, {_SINCE}",
    "thread_instructions": "gpu_sim_insn",
    "work_groups": f"gpu_tot_issued_cta, {_SINCE}",
    **{f"{key}_hits": f"{name}_accesses - misses - pending_hits, {_SINCE}"
       for key, name in _CACHES},
    **{f"{key}_misses": f"{name}_misses, {_SINCE}" for key, name in _CACHES},
    **{f"{key}_mshr_hits": f"{name}_pending_hits, {_SINCE}" for key, name in _CACHES},
    "dram_reads": f"total dram reads, {_SINCE}",
    "dram_writes": f"total dram writes, {_SINCE}",
    "dram_read_bytes": "dram_reads * dram_buswidth * dram_burst_length * n_mem_per_ctrlr",
    "dram_written_bytes": "dram_writes * dram_buswidth * dram_burst_length * n_mem_per_ctrlr",
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
            "functional: results only; timing: results and times",
            ("functional", "timing"),
            default="functional",
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
        return GpgpuSimBuild(self.config)

    @property
    def package(self) -> Package:
        return GpgpuSimPackage(self)

    @property
    def watcher(self) -> Watcher:
        return GpgpuSimWatcher()

    @property
    def reader(self) -> Reader:
        return GpgpuSimReader()


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
        takes = {name: ptx_modules.needs(each.text) for name, each in kernels.items()}
        run = render.text(
            "targets/gpgpusim.run.sh.j2",
            **job.frame,
            target=NAME,
            options=GpgpuSim.variables_of_options(),
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
            "kernels.ptx": File(
                ptx_modules.joined({n: k.text for n, k in kernels.items()}).encode()
            ),
            "resources.txt": File(ptx_modules.resource_lines(takes, arch).encode()),
            **({TIMED: File(timed)} if timed else {}),
            replaced.FILE: File(replaced.costs(kernels)),
            **{f"src/{name}": File(content) for name, content in sources.items()},
        }

    def _sources(self, job: Job) -> dict[str, bytes]:
        """Everything that the program is compiled from, by file name."""
        facts = {
            "CONFIG": render.c_string(self.settings.config),
            "SM": self.settings.simulated.arch.removeprefix("sm_"),
        }
        rows = [plan.row(k, k.name, lds_nbytes=k.lds_nbytes) for k in job.workload.kernels]
        return plan.sources(job, (MAIN,), facts, rows)

    def notes(self, folder: Path, *, details: bool = False) -> list[str]:
        return replaced.notes(folder / replaced.FILE, NAME, details=details)


# Loads and stores cut addresses to 32 bits (ld_exec and st_impl of cuda-sim/instructions.cc). What
# is allocated, tables of kernels first, begins at GLOBAL_HEAP_START (abstract_hardware_model.h).
ROOM = 2**32 - 0xC0000000 - 2**20


def _check(workload: Workload) -> None:
    """Refuse kernels that want what GPUs before sm_90 do not have, and tensors beyond its reach.

    Raises:
        RefusedError: there is one, or there are so many.
    """
    if workload.arena_nbytes > ROOM:
        raise RefusedError(
            f"{NAME}: the tensors take {workload.arena_nbytes} bytes, and GPGPU-Sim, which cuts "
            f"addresses to 32 bits, reaches {ROOM}; choose a smaller batch"
        )
    for kernel in workload.kernels:
        if kernel.maps:
            raise RefusedError(
                f"{NAME}: kernel {kernel.name}: it is planned for another GPU; plan it for "
                f"GPGPU-Sim's with {BuildChoices.plan_for} gpgpusim-sm7-qv100"
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
        lines: list[str] = re.findall(r"simgen: error: (?:gpgpusim: )?(.*)$", log, re.MULTILINE)
        failed = re.search(r"([\w.]+:\d+): .*Assertion (`.*') failed", log)
        if lines and failed:
            why = f"an assertion of its sources failed ({failed[1]}: {failed[2]})"
            return lines[-1].replace(ASSERTED, why)
        return lines[-1] if lines else None


class GpgpuSimReader(RowsReader):
    """`host_seconds`; of a timing run also cycles, instructions, caches and DRAM."""

    def counted(self) -> Mapping[str, str]:
        return COUNTED

    def machine(self, results: Path) -> Mapping[str, str]:
        facts = machine_file.texts(machine_file.read_facts(results))
        return {"simulator": "GPGPU-Sim", **facts}
