"""What gem5-se needs of this machine: a checkout with a gem5 that was built, and room for a run."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.ask.choice import spelled
from simgen.targets.base import Lack, Requirements, SetupStep
from simgen.targets.gem5 import apu_se

if TYPE_CHECKING:
    from simgen.ground.ir import Workload
    from simgen.targets.gem5.launcher import Launcher, Simulated

APU_SE = "configs/example/apu_se.py"

# apu_se.py sends what the program opens below these into its output folder. It compares the first
# letters only: /tmpfs/x is redirected too.
REDIRECTED = ("/tmp", "/proc", "/sys")  # noqa: S108

# Memory of this machine that gem5 takes: to start, and for each byte that the GPU touches, measured
# with tensors of 4 to 32 MiB (its model of the memory system keeps a record of each line).
GEM5_NBYTES = 256 << 20
GEM5_FACTOR = 12.5
DUMP_NBYTES = 3 << 20  # bytes of statistics for each launch; 2.8 MB with four compute units


# The tag of each version that is built: its last one.
TAGS = {
    "21.0": "v21.0.1.0", "21.1": "v21.1.0.2", "21.2": "v21.2.1.1", "22.0": "v22.0.0.2",
    "22.1": "v22.1.0.0", "23.0": "v23.0.1.0", "23.1": "v23.1.0.0", "24.0": "v24.0.0.1",
    "24.1": "v24.1.0.0", "25.0": "v25.0.0.0", "25.1": "v25.1.0.1",
}  # fmt: skip
# Debian and Ubuntu, as gem5's own Dockerfiles have them (util/dockerfiles at v24.0.0.1).
PACKAGES = (
    "build-essential", "git", "m4", "scons", "zlib1g-dev", "libprotobuf-dev", "protobuf-compiler",
    "libgoogle-perftools-dev", "libboost-all-dev", "libhdf5-serial-dev", "python3-dev",
    "libelf-dev", "pkg-config",
)  # fmt: skip
PROGRAMS = ("g++", "git", "m4", "scons", "protoc", "python3-config")  # programs in these packages
CORE_MINUTES = 190  # core minutes of a build of 24.0: 95 minutes on two free cores
OBJECT_NBYTES = 2 << 30  # memory that the compiler takes for the largest objects


def of_another(root: str, gem5: Path, wanted: str) -> list[Lack]:
    """What gem5-version.sh.j2 refuses: a gem5 of another version than the bundle's is to be."""
    said, version = version_of(root, gem5)
    if not version or version == wanted or wanted not in apu_se.KNOWN:
        return []
    told = "GEM5_BINARY to" if os.environ.get("GEM5_BINARY") else "GEM5 to the folder of"
    cure = f"set {told} a gem5 {wanted}"
    if version in apu_se.KNOWN:
        fact = f"{gem5} is version {said}, not {wanted}"
        return [Lack(fact, f"{cure}, or build with {spelled('gem5_version')} {version}")]
    if [*map(int, version.split("."))] > [*map(int, apu_se.KNOWN[-1].split("."))]:
        return []
    return [Lack(f"{gem5} is version {said}, older than any that simgen knows", cure)]


def version_of(root: str, gem5: Path) -> tuple[str, str]:
    """What a gem5 says its version is, or its sources do, and the first two numbers of that; empty,
    where nothing says it."""
    try:
        said = _said(str(gem5), gem5.stat().st_mtime_ns)
    except OSError:
        return "", ""
    sources = Path(root, "src/base/version.cc")
    if not said and gem5.is_relative_to(root) and sources.is_file():
        text = sources.read_text(errors="replace")
        said = next(iter(re.findall(r'gem5Version *= *"(.*)"', text)), "")
    found = re.match(r"\D*(\d+)\.(\d+)", said)
    return said, f"{found[1]}.{found[2]}" if found else ""


@functools.cache
def _said(gem5: str, changed: int) -> str:
    """The version as gem5 tells it before it complains of a script; empty: it does not start.
    A file that `changed` is asked again."""
    words = [gem5, "-d", ".", "which-version"]
    try:
        done = subprocess.run(
            words, cwd=tempfile.gettempdir(), stdin=subprocess.DEVNULL, capture_output=True,
            timeout=60.0, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(rb"^gem5 version (.*)$", done.stdout, re.MULTILINE)
    return found[1].decode(errors="replace") if found else ""


def build_steps(version: str, gem5_opt: str, lacks: list[Lack]) -> list[SetupStep]:
    """Packages, sources, and the build with its time and memory."""
    tag = TAGS.get(version, version)
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    jobs = max(1, min(cores, memory // OBJECT_NBYTES))
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    clone = f"git clone --depth 1 --branch {tag} https://github.com/gem5/gem5 ~/gem5"
    minutes = round(CORE_MINUTES / jobs)
    found = f"no {', '.join(lacking)} in PATH" if lacking else f"{', '.join(PROGRAMS)} are here"
    root = os.environ.get("GEM5", "")
    return [
        SetupStep("packages", f"sudo apt-get install -y {' '.join(PACKAGES)}", found),
        SetupStep("sources", clone, f"GEM5 is {root}" if root else "GEM5 is not set"),
        SetupStep("build", f"cd ~/gem5 && scons {gem5_opt} -j {jobs}",
             " | ".join(lack.fact for lack in lacks) or "it is built"),
        SetupStep("time", f"about {minutes} minutes with -j {jobs}", f"{cores} cores"),
        SetupStep("memory", f"2 GB for each job: {2 * jobs} GB", f"{memory >> 30} GiB"),
    ]  # fmt: skip


@dataclass(frozen=True)
class Gem5Checkout(Requirements):
    """A gem5 for what is simulated, and what a launcher needs beside it."""

    simulated: Simulated
    launcher: Launcher
    root: str = ""  # empty: GEM5's

    def as_built(self, root: Path) -> dict[str, str]:
        """The setting of a target that says the version of another build."""
        _, version = version_of(str(root), root / self.simulated.gem5_opt)
        return {"gem5_version": version} if version in apu_se.KNOWN else {}

    def _place(self) -> tuple[str, Path]:
        """The checkout, and its gem5."""
        root = self.root or os.environ.get("GEM5", "")
        binary = "" if self.root else os.environ.get("GEM5_BINARY", "")
        return root, Path(binary or Path(root, self.simulated.gem5_opt))

    def missing(self, bundle: Path | None = None) -> list[Lack]:
        root, gem5 = self._place()
        if not root:
            lacks = [Lack("GEM5 is not set", self.simulated.build_cure)]
            return lacks + self.launcher.missing()
        lacks = []
        if not root.startswith("/"):
            lacks.append(Lack(f"GEM5 is {root}", "write the whole path, from / on"))
        if not Path(root, APU_SE).is_file():
            lacks.append(Lack(f"{Path(root, APU_SE)} is missing", self.simulated.build_cure))
        if not (gem5.is_file() and os.access(gem5, os.X_OK)):
            lacks.append(Lack(f"{gem5} is missing", self.simulated.build_cure))
        else:
            lacks += of_another(root, gem5, self.simulated.gem5_version)
        if os.environ.get("SIMGEN_DOCKER") == "1" and shutil.which("docker") is None:
            cure = "install Docker, or unset SIMGEN_DOCKER"
            lacks.append(Lack("SIMGEN_DOCKER is 1 and there is no docker", cure))
        return lacks + self.launcher.missing()

    def steps(self) -> list[SetupStep]:
        version, here = self.simulated.gem5_version, self.missing()
        return [
            *build_steps(version, self.simulated.gem5_opt, here),
            SetupStep("use", "export GEM5=~/gem5", "" if here else "ready"),
            *([SetupStep("python", "Python 3.10 or older, whose python3-config is first in PATH",
                    "pybind11 of gem5 before 23.0 knows no newer one")]
              if version < "23" else []),
        ]  # fmt: skip

    def refusal(self, bundle: Path) -> str | None:
        path = str(bundle.resolve())
        for prefix in REDIRECTED:
            if path.startswith(prefix):
                return (
                    f"the bundle lies under {prefix}, which gem5's apu_se.py redirects; "
                    "move the bundle elsewhere"
                )
        return None

    def identity(self) -> str:
        _, gem5 = self._place()
        try:
            found = gem5.stat()
        except OSError:
            return ""
        return f"{gem5.resolve()} {found.st_size} {found.st_mtime_ns}"

    def memory_nbytes(self, workload: Workload) -> int:
        return GEM5_NBYTES + round(GEM5_FACTOR * workload.arena_nbytes)

    def statistics_nbytes(self, workload: Workload) -> int:
        return DUMP_NBYTES * len(workload.launches)
