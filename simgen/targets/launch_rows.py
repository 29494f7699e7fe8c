"""`launches.csv`, which a run leaves: a line for each launch that ended, its kernel and metrics.

Programs add the lines of a step before its mark in `state.bin`, so that those of a finished step
are whole however the run has ended.
"""

from __future__ import annotations

import csv
import math
import os
from typing import TYPE_CHECKING

from simgen.errors import DamagedError
from simgen.targets.base import Progress, RunOption

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from simgen.ir import Workload

FILE = "launches.csv"

# Of targets that time rounds of all launches: how many, and what they list of each launch.
ROUND_OPTIONS = {
    "warmup": RunOption("SIMGEN_WARMUP", "rounds before the timed ones"),
    "repeats": RunOption("SIMGEN_REPEATS", "timed rounds; the median is kept", least=1),
}
ROUND_COLUMNS = ("seconds", "seconds_min", "seconds_max", "rounds")


def read(
    results: Path, workload: Workload, columns: Sequence[str] | None = None, *, more: bool = False
) -> list[dict[str, float]]:
    """The metrics of each launch: `columns`, or all but the kernel that have a value.

    With `more`, lines of launches after those of `workload` may follow, and are left out.

    Raises:
        DamagedError: the lines are not those of the workload's launches.
    """
    path = results / FILE
    wanted = [launch.kernel for launch in workload.launches]
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        rows = rows[: len(wanted)] if more else rows
        kernels = [row.pop("kernel") for row in rows]
        if columns:
            found = [{name: float(row[name]) for name in columns} for row in rows]
        else:
            found = [{name: float(v) for name, v in row.items() if v != ""} for row in rows]
        odd = next((v for row in found for v in row.values() if not 0 <= v < math.inf), None)
        if odd is not None:
            raise ValueError(f"{odd} is neither a time nor a count")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path}: cannot be read ({error}); run the bundle again") from None
    if kernels != wanted:
        fact = f"lists {len(kernels)} launches that are not the workload's {len(wanted)}"
        raise DamagedError(f"{path}: {fact}; run the bundle again")
    return found


def watch(results: Path) -> Callable[[], Progress]:
    """What tells how far a run has come, by the lines that are whole."""
    return _Follower(results / FILE).look


class _Follower:
    """Reads what a program has added since the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin()

    def _begin(self) -> None:
        self.read = 0  # bytes
        self.names: list[str] = []
        self.launches = 0
        self.totals: dict[str, float] = {}

    def look(self) -> Progress:
        try:
            with self.path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self.read:
                    self._begin()
                file.seek(self.read)
                new = file.read()
        except OSError:
            return Progress(0)
        whole = new[: new.rfind(b"\n") + 1]
        self.read += len(whole)
        for line in csv.reader(whole.decode(errors="replace").splitlines()):
            if line:
                self._add(line)
        timed = "cycles" in self.names  # seconds of others are of this machine's clock
        seconds = self.totals.get("seconds") if timed else None
        return Progress(self.launches, seconds, self.totals.get("instructions"))

    def _add(self, line: list[str]) -> None:
        if not self.names:
            self.names = line
            return
        self.launches += 1
        for name, value in zip(self.names, line):
            if value and name in ("seconds", "instructions"):
                self.totals[name] = self.totals.get(name, 0.0) + float(value)
