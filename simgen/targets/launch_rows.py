"""`launches.csv`, which a run leaves: a line for each launch that ended, its kernel and metrics.

Programs add the lines of a step before its mark in `state.bin`, so that those of a finished step
are whole however the run has ended.
"""

from __future__ import annotations

import csv
import math
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

    def look() -> Progress:
        try:
            text = (results / FILE).read_text()
        except OSError:
            return Progress(0)
        whole = text[: text.rfind("\n") + 1].splitlines()
        rows = list(csv.DictReader(whole))
        return Progress(
            len(rows),
            _total(rows, "seconds") if "cycles" in (rows[0] if rows else ()) else None,
            _total(rows, "instructions"),
        )

    return look


def _total(rows: Sequence[dict[str, str]], name: str) -> float | None:
    """A column's sum; None where there is no such column."""
    values = [row[name] for row in rows if row.get(name)]
    return sum(map(float, values)) if values else None
