"""gem5's GPU model in syscall-emulation mode: a static program under `configs/example/apu_se.py`.

The program talks to gem5's emulated /dev/kfd itself (templates/launchers/gem5_se.c.j2): no ROCm,
one simulated CPU. gem5 is a checkout in which it was built, run directly or in the image that its
own documentation names. simgen.targets.apu_se has what differs between its versions.
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
from simgen.errors import DamagedError, SimgenError, UsageError
from simgen.ir import GUARD, PAGE
from simgen.legalise import cache_policy, gem5
from simgen.targets import apu_se
from simgen.targets.base import File, Lack, Target, l1_setting, setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.build import Builder
    from simgen.ir import Workload
    from simgen.targets.base import Job, RunOption

APU_SE = "configs/example/apu_se.py"

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
        r"unimplemented (?:VEGA|GCN3) instruction: (\S+)",
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
        "this gem5's driver lacks a request of the launcher{}; use gem5 21.0 or later",
    ),
    (
        r"unrecognized arguments: (.+)|argument --gfx-version: (.+)|Incorrect (gfx version.*)",
        "apu_se.py does not take the options ({}); build for your gem5 with --gem5-version",
    ),
    (
        r"([Pp]ossible [Dd]eadlock detected)",
        "gem5's memory system hangs ({}); this is a bug of the simulator or of a change to it",
    ),
    (
        r"instruction '(.+)' unimplemented",
        "gem5's CPU lacks an instruction of the launcher ({}); use a newer gem5",
    ),
)


@dataclass(frozen=True)
class Gem5Se(Target):
    """Settings: the GPU, pseudo-instructions around each layer, gem5's version, cache policy."""

    name: ClassVar[str] = "gem5-se"
    summary: ClassVar[str] = "gem5's GPU model, syscall emulation, without ROCm"
    run_options: ClassVar[Mapping[str, RunOption]] = apu_se.HARDWARE

    arch: str = setting("gfx902", "GPU to compile kernels for", apu_se.GPUS)
    m5ops: bool = setting(False, "m5_work_begin and m5_work_end around each layer and pass")
    gem5_version: str = setting("24.0", "version of gem5", apu_se.VERSIONS)
    l1: str = l1_setting()

    def __post_init__(self) -> None:
        apu_se.check(self.gem5_version, self.arch)
        super().__post_init__()
        if self.m5ops and not self.version.dumps:
            raise UsageError(
                f"{self.name}: --m5ops: apu_se.py of gem5 {self.gem5_version} takes no notice of "
                "them; leave it out"
            )

    @property
    def gpu(self) -> apu_se.Gpu:
        return apu_se.GPUS[self.arch]

    @property
    def version(self) -> apu_se.Version:
        return apu_se.VERSIONS[self.gem5_version]

    @property
    def gem5_opt(self) -> str:
        """The simulator's path in the checkout."""
        return f"build/{self.gpu.build}/gem5.opt"

    @property
    def build_cure(self) -> str:
        return f"get gem5, run scons {self.gem5_opt} in it and set GEM5 to its folder"

    def missing(self, bundle: Path | None = None) -> list[Lack]:
        root = os.environ.get("GEM5", "")
        if not root:
            return [Lack("GEM5 is not set", self.build_cure)]
        lacks = []
        if not root.startswith("/"):
            lacks.append(Lack(f"GEM5 is {root}", "write the whole path, from / on"))
        if not Path(root, APU_SE).is_file():
            lacks.append(Lack(f"{Path(root, APU_SE)} is missing", self.build_cure))
        gem5 = Path(os.environ.get("GEM5_BINARY") or Path(root, self.gem5_opt))
        if not (gem5.is_file() and os.access(gem5, os.X_OK)):
            lacks.append(Lack(f"{gem5} is missing", self.build_cure))
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
        kernels = job.workload.kernels
        linked = self._linked(job, builder)
        sources = self._sources(job, linked)
        binary = builder.executable(sources, LAUNCHER, FLAGS)
        run = render.text(
            "targets/gem5-se.run.sh.j2",
            name=job.workload.name,
            target=self.name,
            digest=job.digest,
            launches=len(job.workload.launches),
            outputs_nbytes=job.workload.arena_nbytes - job.workload.outputs_offset,
            memory=memory_text(memory_nbytes(job.workload)),
            options=apu_se.options(self.gem5_version, self.arch),
            hardware=apu_se.hardware(
                (kernel.block, info) for kernel, (_, info) in zip(kernels, linked, strict=True)
            ),
            redirected=REDIRECTED,
            gem5_opt=self.gem5_opt,
            apu_se=APU_SE,
            gem5_version=self.gem5_version,
            image=self.version.image,
            build_cure=self.build_cure,
        )
        texts = {f"src/{k}": File(v) for k, v in sources.items() if not k.endswith(".img")}
        return {
            "binary": File(binary, executable=True),
            "run.sh": File(run.encode(), executable=True),
            **texts,
        }

    def _linked(self, job: Job, builder: Builder) -> list[tuple[bytes, code_object.KernelInfo]]:
        """The code object and the resources of each kernel of the workload."""
        kernels = job.workload.kernels
        texts = [job.sources[k.name] for k in kernels]
        objects = builder.code_objects(texts, self.arch, self._rewritten)
        return [
            (elf, kernel_info(elf, kernel.name, self.arch))
            for kernel, elf in zip(kernels, objects, strict=True)
        ]

    def _sources(
        self, job: Job, linked: Sequence[tuple[bytes, code_object.KernelInfo]]
    ) -> dict[str, bytes]:
        """Everything the launcher is compiled from, by file name."""
        workload = job.workload
        code, table, kernarg = b"", [], 0
        for kernel, (elf, info) in zip(workload.kernels, linked, strict=True):
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
            gpu=self.gpu,
            m5ops=self.m5ops,
            dump=not self.version.dumps,
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

    def _rewritten(self, assembly: str) -> str:
        b128 = self.arch not in self.version.without_b128
        return cache_policy.apply(gem5.rewrite(assembly, b128=b128), self.arch, self.l1)

    def commands(self, bundle: Path, workload: Workload) -> Mapping[str, str]:
        """`direct` and `docker`: lines for a shell; $GEM5 stands for itself where it is not set.

        They run what run.sh runs, with the same simulated timing, in the folder `results/m5out`.
        """
        home = bundle.resolve()
        here = shlex.quote(str(home / "results" / "m5out"))
        root = os.environ.get("GEM5")
        gem5 = shlex.quote(root) if root else '"$GEM5"'
        options = [
            "-n1", f"--mem-size={memory_text(memory_nbytes(workload))}",
            *apu_se.options(self.gem5_version, self.arch),
            "--env=/dev/null", "-c", f"../../{self.name}/binary",
            "--options=../../data.h5 outputs.bin",
        ]  # fmt: skip
        run = f"{gem5}/{self.gem5_opt} -d . {gem5}/{APU_SE} {shlex.join(options)}"
        mount = shlex.quote(f"{home}:{home}")
        docker = (
            f"docker run --rm -u {os.getuid()}:{os.getgid()} -v {gem5}:{gem5} -v {mount} "
            f"-w {here} {self.version.image}"
        )
        start = f"mkdir -p {here} && cd {here} &&"
        return {"direct": f"{start} {run}", "docker": f"{start} {docker} {run}"}

    def metrics(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        """One dictionary for each launch.

        `seconds` is the simulated time in which the GPU was active (`shader_active_ticks` of 1 ps),
        `simulated_seconds` all since the launch before it ended, the CPU's part included. The rest
        are counts (`gem5_stats.kernel_metrics`).
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
        """The simulator's own words about itself, from the head of the log, and its options."""
        try:
            log = (results / "log.txt").read_text(errors="replace")
        except OSError:
            return {}
        found = re.findall(r"^gem5 (version|compiled) (.+)$", log, re.MULTILINE)
        options = re.findall(r"^simgen: option: (.+)$", log, re.MULTILINE)
        return (
            {"simulator": "gem5", "gpu": self.arch}
            | {f"gem5_{k}": v for k, v in found}
            | ({"gem5_options": " ".join(options)} if options else {})
        )

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
