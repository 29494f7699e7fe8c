"""What `simgen run --sweep` prints: each point, those that failed, and a table of the rest."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from simgen.cli import present
from simgen.cli.following import Printing, say_ran
from simgen.errors import one_line
from simgen.running.sweeps import SweepListener

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from simgen.bundle.planning import Told
    from simgen.bundle.writing import Bundle
    from simgen.errors import SimgenError
    from simgen.running.runs import Ended
    from simgen.running.sweeps import Swept


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


def table(swept: Swept) -> None:
    """A line for each point: its settings, simulated time, that of the first divided by it, and the
    instructions; what the target does not count is left out."""
    if not swept.points:
        return
    sums = [_sums(each.result.launches) for each in swept.points]
    given = [{**each.point.built, **each.point.options} for each in swept.points]
    heads = list(given[0])
    rows: list[list[object]] = [list(settings.values()) for settings in given]
    first = sums[0].get("seconds")
    for row, each in zip(rows, sums, strict=True):
        if first:
            time = each.get("seconds")
            row += [present.seconds(time), f"{first / time:.3g}"] if time else ["", ""]
        if "instructions" in sums[0]:
            row.append(present.count(each.get("instructions", 0.0)))
    heads += ["time", "speed-up"] if first else []
    heads += ["instructions"] if "instructions" in sums[0] else []
    present.table(None, heads, rows)


def _sums(launches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for each in launches for name in each)
    return {name: sum(each.get(name, 0.0) for each in launches) for name in names}
