"""gem5's GPU model in syscall-emulation mode: a program under `configs/example/apu_se.py`.

What the program is, the launcher decides (gem5_launcher.py): by default one that needs no ROCm and
one simulated CPU. gem5 is a checkout in which it was built, run directly or in the image that its
own documentation names. simgen.targets.gem5.apu_se has what differs between its versions.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.compile import render
from simgen.errors import DamagedError, UsageError
from simgen.targets.base import (
    File,
    Lack,
    Progress,
    RunOption,
    Target,
    l1_setting,
    log_text,
    setting,
)
from simgen.targets.gem5 import apu_se, stats
from simgen.targets.gem5 import launcher as gem5_launcher
from simgen.targets.gem5.launcher import LAUNCHERS
from simgen.tensors import state_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simgen.compile.build import Builder
    from simgen.ir import Workload
    from simgen.targets.base import Job

APU_SE = "configs/example/apu_se.py"

# apu_se.py sends what the program opens below these into its output folder. It compares the first
# letters only: /tmpfs/x is redirected too.
REDIRECTED = ("/tmp", "/proc", "/sys")  # noqa: S108

QUOTE = "'"  # ends the program's files, the last of its command
HANGS = r"launch \d+ \("  # begins the program's error about a kernel that does not finish
HANGS_CURE = "find out whether it is the kernel with: simgen build --target host --sanitize"

# Memory of this machine that gem5 takes: to start, and for each byte that the GPU touches, measured
# with tensors of 4 to 32 MiB (its model of the memory system keeps a record of each line).
GEM5_NBYTES = 256 << 20
GEM5_FACTOR = 12.5
DUMP_NBYTES = 3 << 20  # of statistics, for each launch; 2.8 MB with four compute units

# What a log holds -> fact and cure. The first that is found counts.
DIAGNOSES: tuple[tuple[str, str], ...] = (
    (
        r"(Cannot connect to the Docker daemon)",
        "Docker does not run here ({}); start it, or set SIMGEN_DOCKER=0",
    ),
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
    """Settings: GPU, pseudo-instructions around layers, gem5's version, cache policy, launcher."""

    name: ClassVar[str] = "gem5-se"
    summary: ClassVar[str] = "gem5's GPU model, syscall emulation, without ROCm"
    run_options: ClassVar[Mapping[str, RunOption]] = apu_se.HARDWARE | {
        "keep": RunOption(
            "SIMGEN_KEEP",
            "keep what finished layers leave, for --resume; takes some simulated CPU instructions "
            "[default: yes in long runs]",
            ("yes", "no"),
        )
    }
    variables: ClassVar[tuple[str, ...]] = ("GEM5_OPTIONS", "GEM5_BINARY")

    arch: str = setting(
        "gfx902",
        "the GPU to compile kernels for; the first of --gem5-version, if that has no gfx902",
        apu_se.GPUS,
    )
    m5ops: bool = setting(False, "mark each layer and pass with m5_work_begin and m5_work_end")
    gem5_version: str = setting("24.0", "the version of gem5 that will run it", apu_se.VERSIONS)
    l1: str = l1_setting()
    launcher: str = setting("kfd", "the program that starts the kernels", LAUNCHERS)

    def __post_init__(self) -> None:
        apu_se.check(self.gem5_version, self.arch)
        super().__post_init__()
        if self.m5ops and not self.simulated.version.dumps:
            raise UsageError(
                f"{self.name}: --m5ops: apu_se.py of gem5 {self.gem5_version} ignores "
                "them; leave it out"
            )
        LAUNCHERS[self.launcher].check(self.simulated)

    @classmethod
    def implied(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        version = apu_se.VERSIONS.get(settings.get("gem5_version", ""))
        return {**({"arch": version.gpus[0]} if version else {}), **settings}

    @property
    def gem5_opt(self) -> str:
        """The simulator's path in the checkout."""
        return f"build/{self.simulated.gpu.build}/gem5.opt"

    @property
    def build_cure(self) -> str:
        return f"get gem5, run scons {self.gem5_opt} in it and set GEM5 to its folder"

    def missing(self, bundle: Path | None = None) -> list[Lack]:
        root = os.environ.get("GEM5", "")
        if not root:
            lacks = [Lack("GEM5 is not set", self.build_cure)]
            return lacks + LAUNCHERS[self.launcher].missing()
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
        return lacks + LAUNCHERS[self.launcher].missing()

    def refusal(self, bundle: Path) -> str | None:
        path = str(bundle.resolve())
        for prefix in REDIRECTED:
            if path.startswith(prefix):
                return (
                    f"the bundle lies under {prefix}, which gem5's apu_se.py redirects; "
                    "move the bundle elsewhere"
                )
        return None

    @property
    def simulated(self) -> gem5_launcher.Simulated:
        """What launchers need to know of the settings."""
        return gem5_launcher.Simulated(self.arch, self.gem5_version, self.m5ops, self.l1)

    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        """`run.sh` and the files of the launcher."""
        launcher = LAUNCHERS[self.launcher]
        built = launcher.build(self.simulated, job, builder)
        run = render.text(
            launcher.template,
            name=job.workload.name,
            target=self.name,
            digest=job.digest,
            command=launcher.command(self.simulated, job.workload),
            hardware=apu_se.hardware(built.kernels),
            redirected=REDIRECTED,
            gem5_opt=self.gem5_opt,
            apu_se=APU_SE,
            gem5_version=self.gem5_version,
            image=self.simulated.version.image,
            build_cure=self.build_cure,
            **built.variables,
        )
        return {"run.sh": File(run.encode(), executable=True), **built.files}

    def commands(self, bundle: Path, workload: Workload) -> Mapping[str, str]:
        """`direct` and `docker`: lines for a shell; $GEM5 stands for itself where it is not set.

        They run what run.sh runs, with the same simulated timing, in the folder `results/m5out`.
        """
        home = bundle.resolve()
        here = shlex.quote(str(home / "results" / "m5out"))
        root = os.environ.get("GEM5")
        gem5 = shlex.quote(root) if root else '"$GEM5"'
        command = LAUNCHERS[self.launcher].command(self.simulated, workload)
        words = " ".join((*command.before, *command.after))
        start = f"mkdir -p {here} && cd {here} &&"
        if command.keeps:
            words = f"{words.removesuffix(QUOTE)} {state_file.FILE}{QUOTE}"
            # Or the layers that an earlier run has finished would not run.
            start += f" rm -f {state_file.FILE} &&"
        run = f"{gem5}/{self.gem5_opt} -d . {gem5}/{APU_SE} {words}"
        volumes = (f"{gem5}:{gem5}", shlex.quote(f"{home}:{home}"), *command.mounts)
        user = "" if command.root else f"-u {os.getuid()}:{os.getgid()} "
        docker = (
            f"docker run --rm {user}{' '.join(f'-v {volume}' for volume in volumes)} "
            f"-w {here} {self.simulated.version.image}"
        )
        return {"direct": f"{start} {run}", "docker": f"{start} {docker} {run}"}

    def metrics(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        """One dictionary for each launch.

        `seconds` is the simulated time in which the GPU was active (`shader_active_ticks` of 1 ps),
        `simulated_seconds` all since the launch before it ended, the CPU's part included. The rest
        are counts (`gem5_stats.kernel_metrics`).
        """
        path = results / stats.FILE
        found = stats.kernels(path)
        if self.ran(workload, len(found)) is None and len(found) != len(workload.launches):
            raise DamagedError(
                f"{path}: statistics of {len(found)} kernels for {len(workload.launches)} "
                "launches; run it again"
            )
        return found

    def ran(self, workload: Workload, launches: int) -> tuple[tuple[int, str], ...] | None:
        return LAUNCHERS[self.launcher].ran(workload, launches)

    def whole_only(self) -> str | None:
        return LAUNCHERS[self.launcher].whole_only()

    def mapped_nbytes(self, workload: Workload) -> int:
        return LAUNCHERS[self.launcher].mapped_nbytes(workload)

    def notes(self, folder: Path, *, details: bool = False) -> list[str]:
        return LAUNCHERS[self.launcher].notes(folder)

    def salvaged(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        return stats.kernels(results / stats.FILE)[: len(workload.launches)]

    def watch(self, results: Path, workload: Workload) -> Callable[[], Progress] | None:
        if LAUNCHERS[self.launcher].own_kernels:
            return None  # what ends is no launch of the workload
        follower = stats.StatsFollower(results / stats.FILE)

        def look() -> Progress:
            follower.update()
            return Progress(follower.kernels, follower.seconds, follower.instructions)

        return look

    def memory_nbytes(self, workload: Workload) -> int:
        return GEM5_NBYTES + round(GEM5_FACTOR * workload.arena_nbytes)

    def statistics_nbytes(self, workload: Workload) -> int:
        return DUMP_NBYTES * len(workload.launches)

    def launches_done(self, log: str) -> int | None:
        """gem5 enters its event queue once, and again after each kernel."""
        if not self.simulated.version.dumps or self.m5ops or LAUNCHERS[self.launcher].own_kernels:
            return None
        entered = log.count("Entering event queue @")
        own = re.search(rf"simgen: error: (?!{self.name}: |{HANGS})", log)  # before the kernels
        # Nobody knows whether a runtime failed in the first kernel or before.
        first = 2 if LAUNCHERS[self.launcher].runtime else 1
        return entered - 1 if entered >= first and not own else None

    def machine(self, results: Path) -> Mapping[str, str]:
        """The simulator's own words about itself, from the head of the log, and its options."""
        log = log_text(results)
        found = re.findall(r"^gem5 (version|compiled) (.+)$", log, re.MULTILINE)
        options = re.findall(r"^simgen: option: (.+)$", log, re.MULTILINE)
        images = re.findall(r"^simgen: image: (.+)$", log, re.MULTILINE)
        return (
            {"simulator": "gem5", "gpu": self.arch}
            | {f"gem5_{k}": v for k, v in found}
            | ({"gem5_options": " ".join(options)} if options else {})
            | ({"image": images[-1]} if images else {})
        )

    def diagnosis(self, log: str) -> str | None:
        said = re.findall(r"simgen: error: (.+)", log)
        own = f"{self.name}: "  # run.sh's lines; the others are the program's, which knows best
        for line in said:
            if not line.startswith(own):
                hangs = re.fullmatch(rf"{HANGS}.+?\): (.+)", line)
                return f"{hangs[1]}; {HANGS_CURE}" if hangs else str(line)
        found = explained(log, LAUNCHERS[self.launcher].diagnoses)
        return found or (str(said[0]).removeprefix(own) if said else None)


def explained(log: str, first: tuple[tuple[str, str], ...]) -> str | None:
    """What a log of gem5 tells ("fact; cure"), by `first` and then DIAGNOSES; None: nothing."""
    for pattern, message in first + DIAGNOSES:
        match = re.search(pattern, log)
        if match:
            return message.format(next((g for g in match.groups() if g), "")).strip()
    return None
