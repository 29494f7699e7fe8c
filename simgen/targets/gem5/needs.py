"""What gem5-se needs of this machine: a checkout with a gem5 that was built, and room for a run."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.targets.base import Lack, Requirements

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
DUMP_NBYTES = 3 << 20  # of statistics, for each launch; 2.8 MB with four compute units


@dataclass(frozen=True)
class Gem5Checkout(Requirements):
    """A gem5 for what is simulated, and what a launcher needs beside it."""

    simulated: Simulated
    launcher: Launcher

    def missing(self, bundle: Path | None = None) -> list[Lack]:
        root = os.environ.get("GEM5", "")
        if not root:
            lacks = [Lack("GEM5 is not set", self.simulated.build_cure)]
            return lacks + self.launcher.missing()
        lacks = []
        if not root.startswith("/"):
            lacks.append(Lack(f"GEM5 is {root}", "write the whole path, from / on"))
        if not Path(root, APU_SE).is_file():
            lacks.append(Lack(f"{Path(root, APU_SE)} is missing", self.simulated.build_cure))
        gem5 = Path(os.environ.get("GEM5_BINARY") or Path(root, self.simulated.gem5_opt))
        if not (gem5.is_file() and os.access(gem5, os.X_OK)):
            lacks.append(Lack(f"{gem5} is missing", self.simulated.build_cure))
        if os.environ.get("SIMGEN_DOCKER") == "1" and shutil.which("docker") is None:
            cure = "install Docker, or unset SIMGEN_DOCKER"
            lacks.append(Lack("SIMGEN_DOCKER is 1 and there is no docker", cure))
        return lacks + self.launcher.missing()

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
        root = os.environ.get("GEM5", "")
        gem5 = Path(os.environ.get("GEM5_BINARY") or Path(root, self.simulated.gem5_opt))
        try:
            found = gem5.stat()
        except OSError:
            return ""
        return f"{gem5.resolve()} {found.st_size} {found.st_mtime_ns}"

    def memory_nbytes(self, workload: Workload) -> int:
        return GEM5_NBYTES + round(GEM5_FACTOR * workload.arena_nbytes)

    def statistics_nbytes(self, workload: Workload) -> int:
        return DUMP_NBYTES * len(workload.launches)
