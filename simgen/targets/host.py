"""This machine's CPU: the same rendered kernels, compiled as C++ and run by a work-group executor.

It needs no simulator and no GPU, so it is the functional test of every kernel. Multiply-adds are
fused where the kernels say so and nowhere else, as on every target; those of users' sources as
their compilers do it.

With `sanitize` each access of a kernel is checked (templates/launchers/host_sanitizer.h): bounds of
buffers and of LDS, writes to inputs, data races, values read before they are written.
"""

from __future__ import annotations

import platform
import re
import sys
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from simgen.ask.build import Destination
from simgen.errors import RefusedError
from simgen.ground.ir import GUARD, PAGE, Language
from simgen.isa import lacking, toolchain
from simgen.kernels import own, render, stages
from simgen.targets import plan
from simgen.targets.base import File, Lack, Package, Reader, Requirements, Target, Watcher, setting
from simgen.targets.launch_rows import RowsReader, RowsWatcher

if TYPE_CHECKING:
    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder
    from simgen.targets.base import Job

CPUINFO = Path("/proc/cpuinfo")
INSTRUCTIONS = ("avx2", "fma")  # what kernels are compiled for, as /proc/cpuinfo spells it
MAIN = "host.cpp"
# The launcher is the same for all workloads, and is compiled once.
LAUNCHER = (MAIN, "host_workers.h", "host_report.h", "host_parts.h", "system.h")
KERNELS = "host_kernels.cpp"
HEADERS = ("host_parts.h", "host_fibers.h")
SANITIZER_HEADERS = ("host_sanitizer.h", "host_lines.h")

WORKERS_NBYTES = 64 << 20  # beside the arena: stacks of the work-items, page tables

LANES = re.compile(
    r"'(__shfl|__ballot|__any|__all|__match|__reduce|__activemask|__lane|\w*tile|thread_group|coalesced"
    r"|__builtin_amdgcn)"
)
COMMON_FLAGS = (
    "-std=c++20",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-math-errno",
    "-fstack-clash-protection",  # a stack that overflows meets its guard page, however far it goes
)
FLAGS = (*COMMON_FLAGS, "-O3")
LAUNCHER_FLAGS = (*COMMON_FLAGS, "-O1")
# Why each flag of the checked program is there:
SANITIZER_FLAGS = (
    *COMMON_FLAGS,
    "-O1",
    "-fno-vectorize",  # accesses as the kernel has them
    "-fno-slp-vectorize",
    "-gdwarf-4",  # line tables, for the messages; host_lines.h reads version 4
    "-gline-tables-only",
    "-fdebug-compilation-dir=.",  # no path of this machine in the program
    "-fsanitize=array-bounds,signed-integer-overflow,integer-divide-by-zero",
    "-fsanitize=kernel-address",  # a call before each access, and no run-time library
    "-mllvm",
    "-asan-instrumentation-with-call-threshold=0",
    "-mllvm",
    "-asan-stack=0",  # no red zones: the launcher knows where things lie
    "-mllvm",
    "-asan-globals=0",
    "-mllvm",
    "-asan-opt-globals=0",  # check accesses to LDS also where they are in bounds: races
    "-mllvm",
    "-asan-opt-same-temp=0",
    "-mllvm",
    "-asan-kernel-mem-intrinsic-prefix=1",  # memcpy and memset too
)

# A second program, whose results differ where a kernel reads local memory that it has not set.
ZEROS_FLAG = "-ftrivial-auto-var-init=zero"


@dataclass(frozen=True)
class Host(Target):
    """The CPU of this machine."""

    name: ClassVar[str] = "host"
    one_queue: ClassVar[str] = "all processors share the work of each launch"
    summary: ClassVar[str] = "this CPU: kernels compiled for x86-64, for results and for checking"

    own_languages: ClassVar[tuple[Language, ...]] = (Language.HIP,)
    own_variables: ClassVar[bool] = True

    sanitize: bool = setting(False, "check every memory access and barrier of the kernels")

    @property
    def needs(self) -> Requirements:
        return HostCpu()

    @property
    def package(self) -> Package:
        return HostPackage(self.sanitize)

    @property
    def watcher(self) -> Watcher:
        return HostWatcher()

    @property
    def reader(self) -> Reader:
        return RowsReader(("seconds",))  # wall time, with waking the worker processes


class HostCpu(Requirements):
    """Linux on an x86-64 CPU with the instructions that kernels are compiled for."""

    def missing(self, bundle: Path | None = None) -> list[Lack]:
        if sys.platform != "linux" or platform.machine() != "x86_64":
            here = f"{sys.platform} on {platform.machine()}"
            return [Lack(f"this is {here}", "run it on Linux on an x86-64 CPU")]
        try:
            flags = re.findall(r"^flags\s*:(.*)$", CPUINFO.read_text(), re.MULTILINE)
        except OSError:
            return []  # no such file in some containers; the program looks for itself
        lacking = [name for name in INSTRUCTIONS if flags and name not in flags[0].split()]
        if lacking:
            fact = f"this CPU has no {' and no '.join(lacking)}"
            return [Lack(fact, "run it on an x86-64 CPU made since 2015")]
        return []

    def memory_nbytes(self, workload: Workload) -> int:
        return workload.arena_nbytes + WORKERS_NBYTES


@dataclass(frozen=True)
class HostPackage(Package):
    """A program of all kernels; `sanitize`: one that checks each access."""

    sanitize: bool

    def stages(self) -> tuple[str, ...]:
        return (stages.SOURCE, stages.PROGRAM)

    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        """`run.sh`, the program (called as the workload), and its main source and plan to read."""
        files = self.sources(job)
        beside = launcher(builder)
        flags = SANITIZER_FLAGS if self.sanitize else FLAGS
        others = {}
        if job.workload.is_own:
            flags = (*flags, "-w", *toolchain.ENCLOSED, *toolchain.MEANING_FLAGS)
        try:
            program = builder.executable(files, KERNELS, flags, beside=beside)
            if job.workload.is_own and self.sanitize:
                zero = (*flags[:-1], ZEROS_FLAG)
                zeros = builder.executable(files, KERNELS, zero, beside=beside)
                others = {f"{job.workload.name}.zeros": File(zeros, executable=True)}
        except toolchain.RejectedError as error:
            if not job.workload.is_own:
                raise
            raise _refusal(error.said, job.workload) from None
        script = render.text(
            "targets/host.run.sh.j2",
            **job.frame,
            target=Host.name,
            resumable="yes" if job.workload.left else "",
        )
        return {
            **others,
            "run.sh": File(script.encode(), executable=True),
            job.workload.name: File(program, executable=True),
            MAIN: File(_launcher_files()[MAIN]),
            plan.HEADER: File(files[plan.HEADER]),
        }

    def sources(self, job: Job) -> dict[str, bytes]:
        """Everything that the kernels' part is compiled from, by file name."""
        workload = job.workload
        arity = {la.kernel: len(la.args) + len(la.values) for la in workload.launches}
        # Structures that hold addresses: the argument, the word in it, and where the address is.
        held = {
            la.kernel: [(value.at, *each) for value in la.values for each in value.tensors]
            for la in workload.launches
        }
        texts = {
            **{f"{name}.hip": text for name, text in job.sources.items()},
            **_own_texts(workload),
            render.PRELUDE: render.prelude(),
            "kernels.h": render.text("launchers/kernels.h.j2", workload=workload),
            "calls.h": render.text(
                "launchers/calls.h.j2",
                workload=workload,
                arity=arity,
                held=held,
                place={buffer.name: at for at, buffer in enumerate(workload.buffers)},
                alone=_alone(workload),
            ),
        }
        files = (KERNELS, *HEADERS, *(SANITIZER_HEADERS if self.sanitize else ()))
        facts = {"SIMGEN_SANITIZE": f"{self.sanitize:d} /* is each access checked? */"}
        return {
            **plan.sources(job, files, facts),
            **{name: text.encode() for name, text in texts.items()},
        }


def launcher(builder: Builder) -> bytes:
    """The object that the kernels of each workload are linked with."""
    return builder.object(_launcher_files(), MAIN, LAUNCHER_FLAGS)


@cache
def _launcher_files() -> dict[str, bytes]:
    return {name: render.text(f"launchers/{name}").encode() for name in LAUNCHER}


class HostWatcher(RowsWatcher):
    """Its program says what goes wrong."""

    def diagnosis(self, log: str) -> str | None:
        lines = re.findall(r"^simgen: error: (.*)$", log, re.MULTILINE)
        return lines[-1] if lines else None


def _own_texts(workload: Workload) -> dict[str, str]:
    """The kernels that users bring, with names of their own for what they share with others."""
    sources = {each.name: each.source for each in workload.kernels if each.source}
    found = {f"{name}.hip": own.host_text(source, name) for name, source in sources.items()}
    return {**found, "own.h": own.host_header(workload.contract)} if sources else {}


def _refusal(said: str, workload: Workload) -> RefusedError:
    """What the compiler says of a user's source."""
    names = "|".join(re.escape(each.name) for each in workload.kernels if each.source)
    found = re.search(rf"^(?:\./)?(?:({names})\.hip|([^:\n]+)):(\d+):\d+: (?:fatal )?error: (.*)$",
                      said, re.MULTILINE)  # fmt: skip
    cure = (
        "lanes of wavefronts and instructions of GPUs are not on this CPU: build with "
        f"{Destination.targets} mgpusim or gem5-se"
    )
    if not found:
        return RefusedError(f"host: the kernels do not compile; {cure}")
    sources = "".join(each.source.text for each in workload.kernels if each.source)
    if assembly := re.match("invalid instruction mnemonic '(.*)'", found[4]):
        return RefusedError(
            f"host: kernel {names.replace('|', ', ')}: {assembly[1]} in its assembly: {cure}"
        )
    # What is of lanes, another target has.
    told = cure if LANES.search(found[4]) else ""
    said = f"{found[4]}; {told}" if told else lacking.message(found[4], sources)
    return RefusedError(f"host: kernel {found[1] or found[2]}, line {found[3]}: {said}")


def _alone(workload: Workload) -> set[str]:
    """Buffers in whose place, with the guard, no other tensor lies at any time."""
    order = sorted(workload.buffers, key=lambda buffer: buffer.offset)
    starts = [buffer.offset for buffer in order]
    # Where the tensors before each of them end, at most.
    reached = [0, *accumulate((b.offset + _pages(b.spec.held) for b in order), max)]
    found = set()
    for buffer in order:
        first = bisect_left(starts, buffer.offset)
        behind = bisect_left(starts, buffer.offset + _pages(buffer.spec.held + GUARD))
        if behind - first == 1 and reached[first] <= buffer.offset:
            found.add(buffer.name)
    return found


def _pages(nbytes: int) -> int:
    """Bytes of the pages that so many bytes take."""
    return -(-nbytes // PAGE) * PAGE
