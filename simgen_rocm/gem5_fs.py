"""gem5's full system: Linux, AMD's driver and ROCm boot in it, and a HIP program runs there.

gem5's own scripts take one program and hand it to the guest: `configs/example/gpufs/mi200.py` and
`mi300.py` (24.0 and later), and `configs/example/gem5_library/x86-mi300x-gpu.py` of the standard
library (24.1 and later). So the program carries its data. It dumps the statistics of each launch
and writes its outputs out of the simulation with gem5's program m5, which lies in the disk image.

The CPUs are run by KVM. Disk image and kernel are those of gem5-resources' x86-ubuntu-gpu-ml.
Read in gem5's sources: the scripts, configs/example/gpufs/runfs.py, src/sim/pseudo_inst.cc, and
src/python/gem5/prebuilt/viper/board.py.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ask.choice import spelled
from simgen.errors import DamagedError, UsageError
from simgen.isa.legalise import Model
from simgen.kernels import render
from simgen.targets.base import (
    EVERYTHING,
    File,
    Job,
    Lack,
    Package,
    Progress,
    Reader,
    Requirements,
    SetupStep,
    Target,
    Watcher,
    l1_setting,
    log_text,
    setting,
)
from simgen.targets.gem5 import apu_se, stats
from simgen.targets.gem5.needs import build_steps, of_another
from simgen.targets.gem5.watcher import explained
from simgen_rocm.hip_program import HipPlace, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder

KVM = Path("/dev/kvm")
GEM5_OPT = "build/VEGA_X86/gem5.opt"
SERIAL = "pc.com_1.device"  # the end of the name of what the guest prints, in gem5's folder
FILES = {"GEM5_DISK_IMAGE": "disk image", "GEM5_KERNEL": "kernel (vmlinux)"}
BUILD_CURE = f"get gem5, run scons {GEM5_OPT} in it and set GEM5 to its folder"
IMAGE_CURE = (
    "build src/x86-ubuntu-gpu-ml of gem5-resources, and set GEM5_DISK_IMAGE and GEM5_KERNEL to "
    "its disk image and its kernel"
)
# As its BUILDING.md says: Ubuntu and ROCm, of 42 GB; the kernel belongs to the image.
RESOURCES = "https://github.com/gem5/gem5-resources"
IMAGE_FOLDER = "~/gem5-resources/src/x86-ubuntu-gpu-ml"
IMAGE_PROGRAMS = ("unzip", "qemu-system-x86_64")
BUILT_FILES = {
    "GEM5_DISK_IMAGE": f"{IMAGE_FOLDER}/disk-image/x86-ubuntu-gpu-ml",
    "GEM5_KERNEL": f"{IMAGE_FOLDER}/vmlinux-gpu-ml",
}
KVM_CURE = "run it where /dev/kvm can be used (group kvm; in a container, --device /dev/kvm)"

VERSIONS = apu_se.full_system()  # version of gem5 -> GPU -> its scripts; the first is taken
GPUS = ("gfx942", "gfx90a")
# Diagnoses of the guest, which come before those of the simulator.
GUEST_DIAGNOSES: tuple[tuple[str, str], ...] = (
    (
        r"(Missing DKMS package for kernel [\w.-]*\w)",
        "the disk image has no GPU driver for this kernel ({}); take the kernel that was built "
        "with the image",
    ),
    (
        r"Couldn't read magic bytes from object file()|Could not load kernel file()",
        "GEM5_KERNEL is not a Linux kernel for x86-64{}; " + IMAGE_CURE,
    ),
    (
        r"PerfKvmCounter::attach (failed)",
        "KVM's performance counters may not be used ({}); leave --kvm-perf out of GEM5_OPTIONS",
    ),
    (
        r"error: unrecognized arguments: (.+)",
        "gem5's script does not take the options ({}); build for your gem5 with --gem5-version",
    ),
)


@dataclass(frozen=True)
class Gem5Fs(Target):
    """Settings: the GPU, gem5's version, the cache policy."""

    name: ClassVar[str] = "gem5-fs"
    summary: ClassVar[str] = "gem5's GPU model, full system: Linux and ROCm in it, KVM"
    simulates: ClassVar[bool] = True

    arch: str = setting("gfx942", "GPU that kernels are compiled for", GPUS)
    gem5_version: str = setting("24.0", "the version of gem5 that will run it", VERSIONS)
    l1: str = l1_setting()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.arch not in VERSIONS[self.gem5_version]:
            raise UsageError(
                f"{self.name}: {spelled('arch')} {self.arch}: gem5 {self.gem5_version} has no "
                f"script for it; take {spelled('arch')} {' or '.join(VERSIONS[self.gem5_version])}"
            )

    @classmethod
    def implied(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        return apu_se.of_tag(settings)

    @property
    def machine(self) -> str:
        return f"gem5-{self.arch}"

    @classmethod
    def unseen(cls) -> str:
        return EVERYTHING

    @property
    def model(self) -> Model:
        return Model(apu_se.SIMULATOR, self.gem5_version, self.arch)

    @property
    def needs(self) -> Requirements:
        return Gem5WithDisk(self.model)

    @property
    def package(self) -> Package:
        return GuestPackage(self.model, self.l1)

    @property
    def watcher(self) -> Watcher:
        return GuestWatcher()

    @property
    def reader(self) -> Reader:
        return GuestReader(self.arch)

    def whole_only(self) -> str:
        return "the guest runs all layers; take the gem5-se target to run some"


def scripts(model: Model) -> tuple[str, ...]:
    """Scripts that can run the model, by their paths in a checkout; the first existing
    one is used."""
    return VERSIONS[model.version][model.arch]


@dataclass(frozen=True)
class Gem5WithDisk(Requirements):
    """A gem5, the guest's disk image and kernel, and KVM."""

    model: Model

    def missing(self, bundle: Path | None = None) -> list[Lack]:
        lacks = self._gem5()
        unset = [variable for variable in FILES if not os.environ.get(variable)]
        if unset:
            verb = "is" if len(unset) == 1 else "are"
            lacks.append(Lack(f"{' and '.join(unset)} {verb} not set", IMAGE_CURE))
        for variable, what in FILES.items():
            path = os.environ.get(variable, "")
            if path and not (path.startswith("/") and os.access(path, os.R_OK)):
                fact = f"{variable} is {path}, not the whole path of a {what} that can be read"
                lacks.append(Lack(fact, IMAGE_CURE))
        if not os.access(KVM, os.R_OK | os.W_OK):
            fact = f"{KVM} may not be used" if KVM.exists() else f"there is no {KVM}"
            lacks.append(Lack(fact, KVM_CURE))
        return lacks

    def steps(self) -> list[SetupStep]:
        """gem5, its disk image as gem5-resources' BUILDING.md makes it, and KVM."""
        gem5, lacks = self._gem5(), self.missing()
        room = shutil.disk_usage(Path.home()).free >> 30
        lacking = [name for name in IMAGE_PROGRAMS if shutil.which(name) is None]
        set_ = " ".join(f"{name}={path}" for name, path in BUILT_FILES.items())
        unset = [lack.fact for lack in lacks if "GEM5_" in lack.fact]
        return [
            *build_steps(self.model.version, GEM5_OPT, gem5),
            SetupStep("packages of the image", "sudo apt-get install -y unzip qemu-system-x86",
                      f"no {', '.join(lacking)} in PATH" if lacking else "they are here"),
            SetupStep("disk image", f"git clone {RESOURCES} ~/gem5-resources && cd {IMAGE_FOLDER} "
                      "&& ./build.sh", " | ".join(unset) or "it is there"),
            SetupStep("its time and room",
                      "about 30 minutes with KVM, 56 GB of disk and 8 GB of memory",
                      f"{room} GiB free in {Path.home()}"),
            SetupStep("KVM", KVM_CURE,
                      next((e.fact for e in lacks if str(KVM) in e.fact), "it can be used")),
            SetupStep("use", f"export GEM5=~/gem5 {set_}", "" if lacks else "ready"),
        ]  # fmt: skip

    def _gem5(self) -> list[Lack]:
        root = os.environ.get("GEM5", "")
        if not root.startswith("/"):
            fact = f"GEM5 is {root}, not a whole path" if root else "GEM5 is not set"
            return [Lack(fact, BUILD_CURE)]
        lacks = []
        if not any(Path(root, script).is_file() for script in scripts(self.model)):
            lacks.append(Lack(f"{Path(root, scripts(self.model)[-1])} is missing", BUILD_CURE))
        gem5 = Path(os.environ.get("GEM5_BINARY") or Path(root, GEM5_OPT))
        if not (gem5.is_file() and os.access(gem5, os.X_OK)):
            lacks.append(Lack(f"{gem5} is missing", BUILD_CURE))
        else:
            lacks += of_another(root, gem5, self.model.version)
        return lacks


@dataclass(frozen=True)
class GuestPackage(Package):
    """`run.sh` and the program; run.sh puts the data behind it."""

    model: Model
    l1: str

    @property
    def program(self) -> Program:
        return Program(self.model, HipPlace.GUEST, self.l1)

    def stages(self) -> tuple[str, ...]:
        return self.program.names()

    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        workload = job.workload
        run = render.text(
            "simgen_rocm:gem5-fs.run.sh.j2",
            name=workload.name,
            target=Gem5Fs.name,
            digest=job.digest,
            outputs_nbytes=workload.arena_nbytes - workload.outputs_offset,
            scripts=scripts(self.model),
            gem5_opt=GEM5_OPT,
            gem5_version=self.model.version,
            known=apu_se.KNOWN,
            serial=SERIAL,
            build_cure=BUILD_CURE,
            image_cure=IMAGE_CURE,
            kvm_cure=KVM_CURE,
            files=FILES,
        )
        return {"run.sh": File(run.encode(), executable=True), **self.program.build(job, builder)}


class GuestWatcher(Watcher):
    """How far the guest is, and what it says on its serial line."""

    def watch(self, results: Path, workload: Workload) -> Callable[[], Progress]:
        follower = stats.StatsFollower(results / stats.FILE)

        def look() -> Progress:
            follower.update()
            return Progress(min(follower.kernels, len(workload.launches)))

        return look

    def diagnosis(self, log: str) -> str | None:
        """The program's error, which the guest's serial line has in the log; else gem5's."""
        said: list[str] = [line.strip() for line in re.findall(r"simgen: error: (.+)", log)]
        own = f"{Gem5Fs.name}: "  # run.sh's lines; the others are the program's, which knows best
        for line in said:
            if not line.startswith(own):
                return line
        found = explained(log, GUEST_DIAGNOSES)
        return found or (said[0].removeprefix(own) if said else None)


@dataclass(frozen=True)
class GuestReader(Reader):
    """The simulator's statistics, and its own words about itself."""

    arch: str

    def metrics(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        """One dictionary for each launch, as gem5-se's (`gem5_stats.kernel_metrics`).

        The guest's CPUs are run by KVM: `simulated_seconds` says nothing of them.
        """
        found = stats.kernels(results / stats.FILE)
        launches = len(workload.launches)
        # One more is the copy of the outputs, where the runtime has a kernel do it.
        if len(found) not in (launches, launches + 1):
            raise DamagedError(
                f"{results / stats.FILE}: statistics of {len(found)} kernels for {launches} "
                "launches; run it again"
            )
        return found[:launches]

    def machine(self, results: Path) -> Mapping[str, str]:
        """The simulator's own words about itself, from the head of the log."""
        log = log_text(results)
        found = re.findall(r"^gem5 (version|compiled) (.+)$", log, re.MULTILINE)
        return {"simulator": "gem5, full system", "gpu": self.arch} | {
            f"gem5_{key}": value for key, value in found
        }
