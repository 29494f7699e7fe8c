"""The launcher without a runtime: a static program that speaks to the emulated /dev/kfd itself.

The program is templates/launchers/gem5_se.c. It needs no ROCm, no C library and one simulated
CPU, and runs wherever gem5 runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from simgen.ground.ir import PAGE, Workload
from simgen.ground.machine import architectures
from simgen.isa import code_object
from simgen.kernels import stages
from simgen.targets import kernargs, plan, replaced
from simgen.targets.base import File, Job
from simgen.targets.gem5 import apu_se
from simgen.targets.gem5.launcher import (
    MIB,
    Built,
    Command,
    Launcher,
    Simulated,
    memory_for,
    memory_text,
)
from simgen.workload import costs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.isa.legalise import Legalised
    from simgen.kernels.build import Builder
    from simgen.kernels.stages import Products

# Page tables, the stack, the program: gem5 gives a page of simulated memory to each page touched.
SLACK = 64 * MIB
KERNARG_NBYTES = 256  # no kernel has more than 32 arguments
OWN_KERNARG_NBYTES = 1024  # for users' kernels: 64 arguments, and what runtimes add

# Operations and words moved that take gem5 some ten seconds. From here on a run keeps what layers
# leave, which costs the simulated CPU 40 instructions per layer and 60 more.
LONG = 2e6

# The first version that takes half of a queue's size on gfx8, as ROCr maps both halves to one place
# there (HSAQueueDescriptor::ptr, gem5's commit 96a86780ee).
HALVED = "21.2"

SOURCE = "gem5_se.c"
FLAGS = ("-std=gnu23", "-O2", "-fno-strict-aliasing")


class Kfd(Launcher):
    name: ClassVar[str] = "kfd"
    runtime: ClassVar[bool] = False
    takes_own: ClassVar[bool] = True

    def command(self, simulated: Simulated, workload: Workload) -> Command:
        """One CPU, and nothing of the caller's environment.

        The program's arguments and environment lie on its stack, and their length moves the
        simulated timing, seen by 2 %. So they are the same for everybody.
        """
        memory = memory_text(memory_nbytes(workload))
        more = workload.left and sum(costs.weights(workload)) >= LONG
        return Command(
            before=("-n1", f"--mem-size={memory}", *simulated.options, "--env=/dev/null"),
            after=("-c", "../../gem5-se/binary", "--options='../../data.h5 outputs.bin'"),
            launches=len(workload.launches),
            outputs_nbytes=workload.arena_nbytes - workload.outputs_offset,
            keeps=bool(more) and not queues_of(simulated, workload) if workload.left else None,
            queues=queues_of(simulated, workload),
        )

    def build(self, simulated: Simulated, job: Job, builder: Builder) -> Built:
        """`binary`, what it was compiled from, to read, and what was replaced in kernels."""
        made = simulated.products(job, builder)
        linked = simulated.linked(job, builder, made)
        files = sources(simulated, job, linked)
        binary = builder.executable(files, SOURCE, FLAGS)
        texts = {f"src/{k}": File(v) for k, v in files.items() if not k.endswith(".img")}
        blocks = (kernel.block for kernel in job.workload.kernels)
        return Built(
            {
                "binary": File(binary, executable=True),
                replaced.FILE: File(replaced.costs(_legalised(simulated, made))),
                **texts,
            },
            tuple((block, info) for block, (_, info) in zip(blocks, linked, strict=True)),
            atomics=any(_may_have_atomics(each[stages.LEGALISED]) for each in made.values()),
        )


def _may_have_atomics(made: Legalised | None) -> bool:
    return made is None or "_atomic_" in made.text  # None: machine code, of which nothing is known


def _legalised(simulated: Simulated, made: Mapping[str, Products]) -> dict[str, Legalised]:
    """What was replaced in each kernel; empty if nothing was to be replaced."""
    of = {name: products[stages.LEGALISED] for name, products in made.items()}
    return {name: each for name, each in of.items() if each} if simulated.legalise else {}


def sources(
    simulated: Simulated, job: Job, linked: Sequence[tuple[bytes, code_object.KernelInfo]]
) -> dict[str, bytes]:
    """Everything the program is compiled from, by file name."""
    workload = job.workload
    code, kernarg = b"", 0
    table: list[plan.Row] = []
    relocated: list[int] = []
    for kernel, (elf, info) in zip(workload.kernels, linked, strict=True):
        kernarg = max(kernarg, info.kernarg_nbytes)
        table.append(
            plan.row(
                kernel,
                kernel.name,
                len(code) + info.descriptor_offset,
                info.lds_nbytes + (kernel.lds_nbytes if kernel.source else 0),
            )
        )
        image = code_object.memory_image(elf)
        if simulated.gpu.told:
            told = architectures()[simulated.gpu.told]
            image = code_object.for_granule(image, info, told.register_granule)
        relocated += (len(code) + at for at in code_object.relocated(elf))
        # Each on its own pages: where a kernel lies in caches and TLBs, and so its timing,
        # must not depend on the kernels before it.
        code += image + bytes(-len(image) % PAGE)
    areas: tuple[kernargs.Area, ...] = ()
    private: dict[str, kernargs.Private] = {}
    if workload.is_own:
        objects = {k.name: elf for k, (elf, _) in zip(workload.kernels, linked, strict=True)}
        private = kernargs.privates(workload, objects)
        areas = kernargs.areas(workload, objects, private)
        kernarg = max(len(each.content) for each in areas)
    queues = queues_of(simulated, workload)
    halved = simulated.gpu.build != apu_se.VEGA and simulated.gem5_version >= HALVED
    facts = {
        "GPU_ID": f"{simulated.gpu.gpu_id} /* under which gem5 knows the {simulated.arch} */",
        "DISCRETE": f"{simulated.gpu.dgpu:d} /* has the GPU page tables of its own? */",
        "DOORBELL_NBYTES": simulated.gpu.doorbell_nbytes,
        "RING_HALVES": f"{1 + halved} /* gem5 uses one; ROCr maps both to one place on gfx8 */",
        "MARKS_STEPS": f"{simulated.m5ops:d} /* do m5 operations mark steps? */",
        "DUMPS": f"{not simulated.version.dumps:d} /* does the program dump statistics? */",
        "QUEUES": queues or 1,
        "KERNARG_NBYTES": f"{max(64, -(-kernarg // 64) * 64)}ul /* of a launch */",
        "PRIVATE_NBYTES": f"{_pages(workload, private)}ul /* of a launch, behind the arena */",
        "RELOCATED": len(relocated),
    }
    files = (SOURCE, *(("gem5_queues.h",) if queues else ()))
    return {**plan.sources(job, files, facts, table, areas, relocated), "code.img": code}


def _pages(workload: Workload, private: Mapping[str, kernargs.Private]) -> int:
    """The bytes of private memory that the launch with the most of it needs, in whole pages."""
    most = max(
        (
            private[launch.kernel].nbytes(workload.kernel(launch.kernel), launch)
            for launch in workload.launches
            if launch.kernel in private
        ),
        default=0,
    )
    return -(-most // PAGE) * PAGE


def queues_of(simulated: Simulated, workload: Workload) -> int:
    """How many queues run steps at once; 0: all run in order."""
    if not workload.queues or simulated.in_order:
        return 0
    return 1 + max(turn.queue for turn in workload.queues)


def memory_nbytes(workload: Workload) -> int:
    """The simulated memory that a run needs, in bytes: a power of two."""
    each = OWN_KERNARG_NBYTES if workload.is_own else KERNARG_NBYTES
    private = kernargs.MOST_PRIVATE if workload.is_own else 0
    arguments = each * len(workload.launches)
    return memory_for(workload.arena_nbytes + private + arguments + SLACK)
