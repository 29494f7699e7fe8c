"""What limits each layer and pass: which bound of its machine takes most of its time.

compute     operations that the algorithm needs / float32 operations of the machine in a second
bandwidth   bytes that the algorithm must move, or that DRAM counted if those are more / the
            machine's DRAM rate
launch      launches x the cycles that one costs in any case / clock
occupancy   none of these is a quarter of the time, and of all slots for wavefronts of all compute
            units less than a quarter are taken: too few to do something else while one waits
latency     none of these is half of the time: the layer waits for something else
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.ground import metrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.reports.pages.row import Row

TIME, LATENCY, HALF = "seconds", "latency", 0.5
OCCUPANCY, FEW = "occupancy", 0.25
LEAST = 0.005  # share that is printed as a number


@dataclass(frozen=True)
class Limit:
    """What limits a layer; `parts` are the shares of its time that each bound takes, and its
    occupancy where that limits it."""

    name: str
    parts: Mapping[str, float]

    def __str__(self) -> str:
        """ "launch 70%", or "latency (launch 37%)" with the largest bound."""
        nearest = (
            OCCUPANCY if self.name == OCCUPANCY else max(self.parts, key=self.parts.__getitem__)
        )
        share = min(self.parts[nearest], 1.0)
        said = f"{nearest} {share:.0%}" if share >= LEAST else f"{nearest} below 1%"
        return said if self.name == nearest else f"{self.name} ({said})"


def limit_of(row: Row) -> Limit | None:
    """What limits a row; None where it has no time, or its machine is not known."""
    time = row.metrics.get(TIME)
    if not time or row.roof is None:
        return None
    operations, rate = row.roof
    moved = max(row.bytes, row.metrics.get("dram_bytes", 0.0))
    parts = {
        "compute": row.operations / operations / time,
        "bandwidth": moved / rate / time,
        "launch": row.launch_seconds / time,
    }
    nearest = max(parts, key=parts.__getitem__)
    if parts[nearest] >= HALF:
        return Limit(nearest, parts)
    found = metrics.derived({**row.metrics, **row.peaks})
    taken = found.get(OCCUPANCY, 1.0) * found.get("cu_utilization", 1.0)
    few = taken < FEW and parts[nearest] < FEW
    return Limit(OCCUPANCY, {**parts, OCCUPANCY: taken}) if few else Limit(LATENCY, parts)


def shares(rows: Sequence[Row]) -> dict[str, float]:
    """Limit -> share of the time of all rows that have one, the largest first."""
    found: dict[str, float] = {}
    for row in rows:
        if limit := limit_of(row):
            found[limit.name] = found.get(limit.name, 0.0) + row.metrics[TIME]
    total = sum(found.values())
    return {name: found[name] / total for name in sorted(found, key=lambda name: -found[name])}
