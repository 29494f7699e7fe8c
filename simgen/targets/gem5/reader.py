"""What gem5 leaves: its statistics file, and its own words about itself in the log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.errors import DamagedError
from simgen.targets.base import Reader, log_text
from simgen.targets.gem5 import queue_times, stats

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.ground.ir import Workload
    from simgen.targets.gem5.launcher import Launcher, Simulated


@dataclass(frozen=True)
class Gem5Reader(Reader):
    """Reader for a run by a launcher."""

    simulated: Simulated
    launcher: Launcher

    def metrics(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        """One dictionary for each launch.

        `seconds` is the simulated time in which the GPU was active (`shader_active_ticks` of 1 ps),
        `simulated_seconds` all since the launch before it ended, the CPU's part included. The rest
        are counts (`gem5_stats.kernel_metrics`). Of launches that ran at once there are times alone
        (queue_times.py).
        """
        path = results / stats.FILE
        times = results / queue_times.FILE
        if times.exists():
            return queue_times.metrics(times, stats.active(path), len(workload.launches))
        found = stats.kernels(path)
        if self.ran(workload, len(found)) is None and len(found) != len(workload.launches):
            raise DamagedError(
                f"{path}: statistics of {len(found)} kernels for {len(workload.launches)} "
                "launches; run it again"
            )
        return found

    def counted(self) -> Mapping[str, str]:
        return stats.named() | queue_times.NAMED

    def salvaged(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        return stats.kernels(results / stats.FILE)[: len(workload.launches)]

    def ran(self, workload: Workload, launches: int) -> tuple[tuple[int, str], ...] | None:
        return self.launcher.ran(workload, launches)

    def machine(self, results: Path) -> Mapping[str, str]:
        """The simulator's own words about itself, from the head of the log, and its options."""
        log = log_text(results)
        found = re.findall(r"^gem5 (version|compiled) (.+)$", log, re.MULTILINE)
        options = re.findall(r"^simgen: option: (.+)$", log, re.MULTILINE)
        images = re.findall(r"^simgen: image: (.+)$", log, re.MULTILINE)
        return (
            {"simulator": "gem5", "gpu": self.simulated.arch}
            | {f"gem5_{k}": v for k, v in found}
            | ({"gem5_options": " ".join(options)} if options else {})
            | ({"image": images[-1]} if images else {})
        )
