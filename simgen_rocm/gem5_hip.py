"""The launcher with ROCm: a HIP host program, for those who study what the runtime costs.

The simulated CPUs run all of the HIP runtime. It is the one of the machine or the container in
which gem5 runs: ROCm 4.0 in gem5's own image, because newer C libraries and drivers ask for more
than gem5 emulates.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, ClassVar

from simgen.ask.choice import spelled
from simgen.errors import UsageError
from simgen.targets.base import Job, Lack
from simgen.targets.gem5.launcher import (
    MIB,
    Built,
    Command,
    Launcher,
    Simulated,
    kernel_info,
    memory_for,
    memory_text,
)
from simgen_rocm.hip_program import HipPlace, Program

if TYPE_CHECKING:
    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder

RUNTIME_NBYTES = 448 * MIB  # libraries, threads' stacks, and what the runtime allocates
IMAGE_CURE = "install Docker, or set SIMGEN_DOCKER=0 to have gem5 run the libamdhip64 that is here"
IMAGE = "run it in gem5's image, which has ROCm 4.0 (SIMGEN_DOCKER=1)"


def _program(simulated: Simulated) -> Program:
    return Program(
        simulated.made_for,
        HipPlace.SYSCALLS,
        simulated.l1,
        dump=not simulated.version.dumps,
        apu=not simulated.gpu.dgpu,
    )


class HipLauncher(Launcher):
    name: ClassVar[str] = "hip"
    seen_running: ClassVar[bool] = False
    diagnoses: ClassVar[tuple[tuple[str, str], ...]] = (
        # apu_se.py gives the CPU a vendor that newer C libraries do not know, so that they take it
        # to have no features.
        (
            r"CPU ISA level is lower than required()",
            f"the C library of this machine does not start on gem5's CPU{{}}; {IMAGE}",
        ),
        (r"syscall (\w+) \(#\d+\) unimplemented", f"gem5 has no system call {{}}; {IMAGE}"),
        (
            r"(bad ioctl|GPU cache info missing)",
            f"this ROCm is too new for gem5's driver ({{}}); {IMAGE}",
        ),
    )

    def check(self, simulated: Simulated) -> None:
        if simulated.m5ops:
            raise UsageError(
                f"gem5-se: {spelled('m5ops')}: the HIP program has no such instructions; leave it "
                f"out, or take {spelled('launcher')} kfd"
            )

    def missing(self) -> list[Lack]:
        if os.environ.get("SIMGEN_DOCKER", "1") == "1" and shutil.which("docker") is None:
            return [Lack("there is no docker, and gem5's image has the HIP runtime", IMAGE_CURE)]
        return []

    def command(self, simulated: Simulated, workload: Workload) -> Command:
        """Three CPUs: the runtime's threads need one each. The environment is apu_se.py's own."""
        memory = memory_text(memory_for(workload.arena_nbytes + RUNTIME_NBYTES))
        return Command(
            before=("-n3", f"--mem-size={memory}", *simulated.options),
            after=("-c", "../../gem5-se/binary", "--options='../../data.h5 outputs.bin'"),
            launches=len(workload.launches),
            outputs_nbytes=workload.arena_nbytes - workload.outputs_offset,
            in_image=True,
        )

    def build(self, simulated: Simulated, job: Job, builder: Builder) -> Built:
        """`binary`, and what it was compiled from."""
        program = _program(simulated)
        objects = program.code_objects(job, builder)
        kernels = tuple(
            (kernel.block, kernel_info(elf, kernel.name, simulated.arch))
            for kernel, elf in zip(job.workload.kernels, objects, strict=True)
        )
        return Built(program.build(job, builder), kernels)

    def stages(self, simulated: Simulated) -> tuple[str, ...]:
        return _program(simulated).names()

    def whole_only(self) -> str:
        return (
            f"the HIP program runs all layers; build it with {spelled('launcher')} kfd to run some"
        )
