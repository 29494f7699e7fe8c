"""gem5's GPU model in syscall-emulation mode: a static program under `configs/example/apu_se.py`.

The program talks to gem5's emulated /dev/kfd itself (templates/launchers/gem5_se.c.j2): no ROCm,
one simulated CPU. gem5 is a checkout with build/VEGA_X86/gem5.opt, run directly or in the image
that its own documentation names.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from simgen import code_object, gem5_stats, render
from simgen.errors import DamagedError, SimgenError
from simgen.ir import GUARD, PAGE
from simgen.legalise import gem5
from simgen.targets.base import File, Lack, Target, setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.build import Builder
    from simgen.ir import Workload
    from simgen.targets.base import Job

# apu_se.py of v24.0 and later knows these two; earlier versions write no statistics per kernel.
ARCHS = {
    "gfx902": ("--gfx-version=gfx902",),  # an APU: the GPU shares the CPU's memory
    "gfx900": ("--gfx-version=gfx900", "--dgpu"),  # a discrete GPU
}
IMAGES = {
    "24.0": "ghcr.io/gem5/gcn-gpu:v24-0",
    "24.1": "ghcr.io/gem5/gcn-gpu:v24-1",
    "25.0": "ghcr.io/gem5/gcn-gpu:v25-0",
}
GEM5_OPT = "build/VEGA_X86/gem5.opt"
APU_SE = "configs/example/apu_se.py"
BUILD_CURE = "get gem5, run scons build/VEGA_X86/gem5.opt in it and set GEM5 to its folder"

# apu_se.py sends what the program opens below these into its output folder. It compares the first
# letters only: /tmpfs/x is redirected too.
REDIRECTED = ("/tmp", "/proc", "/sys")  # noqa: S108

MIB = 1 << 20
LEAST_MEMORY = 512 * MIB  # what gem5 simulates by default
# Page tables, the stack, the program: gem5 gives a page of simulated memory to each page touched.
SLACK = 64 * MIB
KERNARG_NBYTES = 256  # no kernel has more than 32 arguments

LAUNCHER = "gem5_se.c"
FLAGS = ("-std=gnu23", "-O2", "-fno-strict-aliasing")

# What a log holds -> fact and cure. The first that is found counts.
DIAGNOSES = (
    (
        r"unimplemented VEGA instruction: (\S+)",
        "gem5 does not implement the instruction {}; use another algorithm or a newer gem5",
    ),
    (
        r"Invalid opcode encountered: (\S+)|decode instruction without a class()",
        "gem5 cannot decode an instruction {}; use another algorithm or a newer gem5",
    ),
    (
        r"`new_entry' failed()|Page fault detected()|`vma != gpuVmas.end\(\)' failed()",
        "a kernel touched an address that is not mapped{}; run the bundle on the host target to "
        "find out which",
    ),
    (
        r"Out of memory, please increase()",
        "the simulated memory is too small{}; set GEM5_OPTIONS=--mem-size=16GiB, say",
    ),
    (
        r"bad ioctl()",
        "this gem5's driver lacks a request of the launcher{}; use gem5 24.0 or later",
    ),
    (
        r"unrecognized arguments: (.+)|argument --gfx-version: (.+)|Incorrect (gfx version.*)",
        "apu_se.py does not take the options ({}); use gem5 24.0 or later",
    ),
    (
        r"([Pp]ossible [Dd]eadlock detected)",
        "gem5's memory system hangs ({}); this is a bug of the simulator or of a change to it",
    ),
    (
        r"instruction '(.+)' unimplemented",
        "gem5's CPU lacks an instruction of the launcher ({}); use gem5 24.0 or later",
    ),
)


@dataclass(frozen=True)
class Gem5Se(Target):
    """Settings: the GPU, pseudo-instructions around each layer, the version of gem5's image."""

    name: ClassVar[str] = "gem5-se"
    summary: ClassVar[str] = "gem5's GPU model, syscall emulation, without ROCm"

    arch: str = setting("gfx902", "GPU to compile kernels for", ARCHS)
    m5ops: bool = setting(False, "m5_work_begin and m5_work_end around each layer and pass")
    gem5_version: str = setting("24.0", "version of gem5, for its Docker image", IMAGES)

    def missing(self, bundle: Path | None = None) -> list[Lack]:
        root = os.environ.get("GEM5", "")
        if not root:
            return [Lack("GEM5 is not set", BUILD_CURE)]
        lacks = []
        if not root.startswith("/"):
            lacks.append(Lack(f"GEM5 is {root}", "write the whole path, from / on"))
        if not Path(root, APU_SE).is_file():
            lacks.append(Lack(f"{Path(root, APU_SE)} is missing", BUILD_CURE))
        gem5 = Path(os.environ.get("GEM5_BINARY") or Path(root, GEM5_OPT))
        if not (gem5.is_file() and os.access(gem5, os.X_OK)):
            lacks.append(Lack(f"{gem5} is missing", BUILD_CURE))
        if os.environ.get("SIMGEN_DOCKER") == "1" and shutil.which("docker") is None:
            cure = "install Docker, or unset SIMGEN_DOCKER"
            lacks.append(Lack("SIMGEN_DOCKER is 1 and there is no docker", cure))
        return lacks

    def refusal(self, bundle: Path) -> str | None:
        path = str(bundle.resolve())
        for prefix in REDIRECTED:
            if path.startswith(prefix):
                return (
                    f"the bundle lies under {prefix}, which gem5's apu_se.py redirects; "
                    "move the bundle elsewhere"
                )
        return None

    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        sources = self._sources(job, builder)
        binary = builder.executable(sources, LAUNCHER, FLAGS)
        run = render.text(
            "targets/gem5-se.run.sh.j2",
            name=job.workload.name,
            target=self.name,
            digest=job.digest,
            launches=len(job.workload.launches),
            outputs_nbytes=job.workload.arena_nbytes - job.workload.outputs_offset,
            memory=memory_text(memory_nbytes(job.workload)),
            options=ARCHS[self.arch],
            redirected=REDIRECTED,
            gem5_opt=GEM5_OPT,
            apu_se=APU_SE,
            image=IMAGES[self.gem5_version],
            build_cure=BUILD_CURE,
        )
        texts = {f"src/{k}": File(v) for k, v in sources.items() if not k.endswith(".img")}
        return {
            "binary": File(binary, executable=True),
            "run.sh": File(run.encode(), executable=True),
            **texts,
        }

    def _sources(self, job: Job, builder: Builder) -> dict[str, bytes]:
        """Everything the launcher is compiled from, by file name."""
        workload = job.workload
        kernels = [job.sources[k.name] for k in workload.kernels]
        objects = builder.code_objects(kernels, self.arch, gem5.rewrite)
        code, table, kernarg = b"", [], 0
        for kernel, elf in zip(workload.kernels, objects, strict=True):
            info = kernel_info(elf, kernel.name, self.arch)
            kernarg = max(kernarg, info.kernarg_nbytes)
            table.append(
                {
                    "name": kernel.name,
                    "descriptor": len(code) + info.descriptor_offset,
                    "lds_nbytes": info.lds_nbytes,
                }
            )
            image = code_object.memory_image(elf)
            # Each on its own pages: where a kernel lies in caches and TLBs, and so its timing,
            # must not depend on the kernels before it.
            code += image + bytes(-len(image) % PAGE)
        launcher = render.text(
            "launchers/gem5_se.c.j2",
            workload=workload,
            arch=self.arch,
            dgpu="--dgpu" in ARCHS[self.arch],
            m5ops=self.m5ops,
            kernels=table,
            kernarg_nbytes=max(64, -(-kernarg // 64) * 64),
        )
        return {
            LAUNCHER: launcher.encode(),
            "table.h": render.text(
                "launchers/table.h.j2", workload=workload, guard=GUARD, data_id=job.data_id
            ).encode(),
            "system.h": render.text("launchers/system.h").encode(),
            "code.img": code,
        }

    def commands(self, bundle: Path, workload: Workload) -> Mapping[str, str]:
        """`direct` and `docker`: lines for a shell; $GEM5 stands for itself where it is not set.

        They run what run.sh runs, with the same simulated timing, in the folder `results/m5out`.
        """
        home = bundle.resolve()
        here = shlex.quote(str(home / "results" / "m5out"))
        root = os.environ.get("GEM5")
        gem5 = shlex.quote(root) if root else '"$GEM5"'
        options = [
            "-n1", f"--mem-size={memory_text(memory_nbytes(workload))}", *ARCHS[self.arch],
            "--env=/dev/null", "-c", f"../../{self.name}/binary",
            "--options=../../data.h5 outputs.bin",
        ]  # fmt: skip
        run = f"{gem5}/{GEM5_OPT} -d . {gem5}/{APU_SE} {shlex.join(options)}"
        mount = shlex.quote(f"{home}:{home}")
        docker = (
            f"docker run --rm -u {os.getuid()}:{os.getgid()} -v {gem5}:{gem5} -v {mount} "
            f"-w {here} {IMAGES[self.gem5_version]}"
        )
        start = f"mkdir -p {here} && cd {here} &&"
        return {"direct": f"{start} {run}", "docker": f"{start} {docker} {run}"}

    def metrics(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        """One dictionary for each launch.

        `seconds` is simulated time since the launch before it ended, the CPU's part included;
        `shader_active_ticks` (of 1 ps) is the GPU's part. The rest are counts.
        """
        path = results / gem5_stats.FILE
        found = gem5_stats.kernels(path)
        if len(found) != len(workload.launches):
            raise DamagedError(
                f"{path}: statistics of {len(found)} kernels for {len(workload.launches)} "
                "launches; run it again"
            )
        return found

    def machine(self, results: Path) -> Mapping[str, str]:
        """The simulator's own words about itself, from the head of the log."""
        try:
            log = (results / "log.txt").read_text(errors="replace")
        except OSError:
            return {}
        found = re.findall(r"^gem5 (version|compiled) (.+)$", log, re.MULTILINE)
        return {"simulator": "gem5", "gpu": self.arch} | {f"gem5_{k}": v for k, v in found}

    def diagnosis(self, log: str) -> str | None:
        said = re.findall(r"simgen: error: (.+)", log)
        own = f"{self.name}: "  # run.sh's lines; the others are the program's, which knows best
        for line in said:
            if not line.startswith(own):
                return str(line)
        for pattern, message in DIAGNOSES:
            match = re.search(pattern, log)
            if match:
                return message.format(next((g for g in match.groups() if g), "")).strip()
        return str(said[0]).removeprefix(own) if said else None


def kernel_info(elf: bytes, name: str, arch: str) -> code_object.KernelInfo:
    """Resources of kernel `name` of a code object that must be for `arch`."""
    found = code_object.kernels(elf)
    if code_object.machine(elf) != arch or name not in found:
        raise SimgenError(
            f"gem5-se: the code object holds {', '.join(found)} for {code_object.machine(elf)}, "
            f"not {name} for {arch}; clear the cache"
        )
    return found[name]


def memory_nbytes(workload: Workload) -> int:
    """The simulated memory that a run needs, in bytes: a power of two."""
    size = LEAST_MEMORY
    while size < workload.arena_nbytes + KERNARG_NBYTES * len(workload.launches) + SLACK:
        size *= 2
    return size


def memory_text(nbytes: int) -> str:
    """As gem5 spells it: 512MiB, 4GiB."""
    return f"{nbytes // MIB}MiB" if nbytes < 1024 * MIB else f"{nbytes // MIB // 1024}GiB"
