"""What the gpgpusim target needs of this machine: a GPGPU-Sim that its user has built."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.ask.choice import spelled
from simgen.targets.base import Lack, Requirements

if TYPE_CHECKING:
    from simgen.ground.ir import Workload

ROOT, BUILD = "GPGPUSIM_ROOT", "GPGPUSIM_CONFIG"  # as its setup_environment exports them
LIBRARY = "libcudart.so"
CONFIGS = "configs/tested-cfgs"
CURE = f"build GPGPU-Sim 4.2 as its README says, and set {ROOT} to its folder"
# Memory of this machine: to start, and for each byte of the arena, which it keeps in small blocks.
START_NBYTES = 512 << 20
FACTOR = 3


@dataclass(frozen=True)
class GpgpuSimBuild(Requirements):
    """A build, and in it the configuration of the simulated GPU."""

    config: str

    def missing(self, bundle: Path | None = None) -> list[Lack]:
        root = os.environ.get(ROOT, "")
        if not root:
            return [Lack(f"{ROOT} is not set", CURE)]
        if not Path(root).is_dir():
            return [Lack(f"{ROOT} is {root}, which is no folder", CURE)]
        lacks = []
        found = libraries(Path(root))
        if not found:
            which = os.environ.get(BUILD) or "*/*/*"
            lacks.append(Lack(f"{root} has no lib/{which}/{LIBRARY}", CURE))
        elif len(found) > 1:
            cure = f"set {BUILD} to one, as setup_environment does"
            lacks.append(Lack(f"{root}/lib has several builds", cure))
        if not Path(root, CONFIGS, self.config, "gpgpusim.config").is_file():
            fact = f"{root}/{CONFIGS}/{self.config} has no gpgpusim.config"
            lacks.append(
                Lack(fact, f"take a GPGPU-Sim 4.2, or build with another {spelled('config')}")
            )
        return lacks

    def identity(self) -> str:
        root = os.environ.get(ROOT, "")
        found = libraries(Path(root)) if root else []
        if len(found) != 1:
            return ""
        at = found[0].stat()
        return f"{found[0].resolve()} {at.st_size} {at.st_mtime_ns} {self.config}"

    def memory_nbytes(self, workload: Workload) -> int:
        return START_NBYTES + FACTOR * workload.arena_nbytes


def libraries(root: Path) -> list[Path]:
    """The builds in a checkout; the one that is named, if one is."""
    named = os.environ.get(BUILD)
    return sorted(root.glob(f"lib/{named or '*/*/*'}/{LIBRARY}"))
