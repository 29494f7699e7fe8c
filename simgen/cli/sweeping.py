"""What `simgen run --sweep` prints: each point, those that failed, and a table of the rest."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from simgen.cli import present
from simgen.cli.answers import answer
from simgen.cli.following import Printing, say_ran
from simgen.errors import SimgenError, one_line
from simgen.running import siblings
from simgen.running.sweeps import RanPoint, SweepListener, Swept

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from simgen.bundle.planning import Told
    from simgen.bundle.writing import Bundle
    from simgen.running.runs import Ended


class PrintingSweep(Printing, SweepListener):
    """Prints a line for each point, and how its run goes on."""

    def __init__(self, quiet: bool, verbose: bool) -> None:
        super().__init__(quiet)
        self.verbose = verbose

    def begins(self, points: int, done: int) -> None:
        self.tell(f"sweep: {present.many(points, 'point')}, {done} done before")

    @contextlib.contextmanager
    def building(self, path: Path) -> Iterator[Told | None]:
        self.tell(f"building {path}")
        with present.stages(self.quiet) as tell:
            yield tell

    def point(self, nth: int, count: int, name: str) -> None:
        self.tell(f"{nth} of {count}: {name}")

    def ended(self, bundle: Bundle, ended: Ended) -> None:
        if self.verbose and not self.quiet:
            say_ran(bundle, ended, self.verbose)

    def failed(self, name: str, error: SimgenError) -> None:
        print(f"failed: {name}: {one_line(str(error))}", file=sys.stderr, flush=True)

    def interrupted(self, left: int, points: int) -> None:
        print(f"{left} of {points} points left; the same command continues", file=sys.stderr)


def points(found: Sequence[tuple[str, bool]], as_json: bool = False) -> None:
    """What `--dry-run` prints: the names of points, and which have a result."""
    if as_json:
        answer("points", {"points": told(found)})
        return
    present.table(
        None, ("point", ""), [(name, "done" if done else "to run") for name, done in found]
    )
    left = sum(not done for _, done in found)
    print(f"{left} of {present.many(len(found), 'point')} to run")


def told(found: Sequence[tuple[str, bool]]) -> list[dict[str, Any]]:
    return [{"point": name, "done": done} for name, done in found]


def table(swept: Swept) -> None:
    """A line for each point: its settings, simulated time, and instructions; what the target does
    not count is left out.

    Points of one workload have a speed-up over the first of them. Where the workload itself is
    swept (its sizes, say), times of several tell nothing about each other: then operations in a
    second stand beside them, and a speed-up only between points of one workload.
    """
    if not swept.points:
        return
    given = [{**each.point.built, **each.point.options} for each in swept.points]
    workloads = [siblings.workload_of(each.bundle, each.point) for each in swept.points]
    measured = [_measured(each) for each in swept.points]
    firsts: dict[tuple[str, ...], float] = {}
    for workload, (_, sums) in zip(workloads, measured, strict=True):
        if sums.get("seconds"):
            firsts.setdefault(tuple(workload.values()), sums["seconds"])
    several = len({tuple(each.values()) for each in workloads}) > 1
    repeated = len(firsts) < len(swept.points)
    counted = any("instructions" in sums for _, sums in measured)
    heads = list(given[0])
    heads += ["time"] if firsts else []
    heads += ["operations/s"] if firsts and several else []
    heads += [_speed_up(workloads[0] if several else {})] if firsts and repeated else []
    heads += ["instructions"] if counted else []
    rows: list[list[object]] = []
    for settings, workload, (operations, sums) in zip(given, workloads, measured, strict=True):
        row: list[object] = list(settings.values())
        time = sums.get("seconds")
        if firsts:
            row.append(present.seconds(time) if time else "")
        if firsts and several:
            row.append(present.count(operations / time) if time else "")
        if firsts and repeated:
            row.append(f"{firsts[tuple(workload.values())] / time:.3g}" if time else "")
        if counted:
            row.append(present.count(sums.get("instructions", 0.0)))
        rows.append(row)
    present.table(None, heads, rows)


def _speed_up(varying: Mapping[str, str]) -> str:
    """The head of the column; `varying` are the settings that are another workload."""
    return f"speed-up at that {', '.join(varying)}" if varying else "speed-up"


def _measured(ran: RanPoint) -> tuple[int, dict[str, float]]:
    """The operations that the algorithm needs of what ran, and the sums of its metrics."""
    from simgen.reports.pages import page

    rows = page.rows(ran.bundle, [ran.result])
    names = dict.fromkeys(name for row in rows for name in row.metrics)
    sums = {name: sum(row.metrics.get(name, 0.0) for row in rows) for name in names}
    return sum(row.operations for row in rows), sums
