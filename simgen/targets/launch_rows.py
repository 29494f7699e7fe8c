"""`launches.csv`, which a run leaves: a line for each launch that ended, its kernel and metrics.

Programs add the lines of a step before its mark in `state.bin`, so that those of a finished step
are whole however the run has ended.
"""

from __future__ import annotations

import csv
import itertools
import re
from typing import IO, TYPE_CHECKING

from simgen.errors import DamagedError, printable
from simgen.files import open_regular, read_regular
from simgen.targets.base import Progress, RunOption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from simgen.ir import Workload

FILE = "launches.csv"
COLUMN = re.compile(r"[a-z][a-z0-9_]{0,99}")
TAKEN = {"order", "layer", "pass"}  # by results.h5, for what is no metric
MOST_COLUMNS = 200
LONGEST_LINE = 2**14  # bytes
MAX_NBYTES = 2**28
MOST = 1e30  # of a metric: what is more counts nothing, and sums of it are not finite

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
        rows = _rows(path, len(wanted) + (0 if more else 1))
        if rows and columns and not {*columns} <= rows[0].keys():
            raise ValueError(f"not the columns {', '.join(columns)}")
        kernels = [row.pop("kernel", "") for row in rows]
        found = [
            {name: _metric(name, row[name]) for name in columns or row if columns or row[name]}
            for row in rows
        ]
    except (OSError, ValueError, csv.Error) as error:
        fact = getattr(error, "strerror", None) or error
        raise DamagedError(f"{path}: cannot be read ({fact}); run the bundle again") from None
    if kernels != wanted:
        count = f"{len(wanted)} or more" if len(kernels) > len(wanted) else str(len(kernels))
        fact = f"lists {count} launches that are not the workload's {len(wanted)}"
        raise DamagedError(f"{path}: {fact}; run the bundle again")
    return found


def _rows(path: Path, most: int) -> list[dict[str, str]]:
    """The first lines by column, at most so many."""
    found: list[dict[str, str]] = []
    with open_regular(path) as file:
        lines = csv.reader(_lines(file))
        head = next(lines, [])
        if len(head) > MOST_COLUMNS or len({*head}) < len(head):
            raise ValueError("more columns than there may be, or two of one name")
        odd = next((name for name in head if not COLUMN.fullmatch(name) or name in TAKEN), None)
        if odd is not None:
            raise ValueError(f"{printable(odd)} is no column")
        for row in itertools.islice(lines, most):
            if len(row) != len(head):
                raise ValueError(f"line {lines.line_num} has {len(row)} fields for {len(head)}")
            found.append(dict(zip(head, row)))
    return found


def _lines(file: IO[bytes]) -> Iterator[str]:
    """The lines of a table, each of them short."""
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise ValueError(f"a line of more than {LONGEST_LINE} bytes")
        yield line.decode()


def _metric(name: str, text: str) -> float:
    """A time or a count: a number that is finite and not below 0."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name} is {printable(text)}, which is no number") from None
    if not 0 <= value <= MOST:
        raise ValueError(f"{printable(text)} is neither a time nor a count")
    return value


def watch(results: Path) -> Callable[[], Progress]:
    """What tells how far a run has come, by the lines that are whole."""

    def look() -> Progress:
        try:
            text = read_regular(results / FILE, MAX_NBYTES).decode("ascii", "replace")
        except OSError:
            return Progress(0)
        whole = text[: text.rfind("\n") + 1].splitlines()
        try:
            rows = list(csv.DictReader(whole))
            return Progress(
                len(rows),
                _total(rows, "seconds") if "cycles" in (rows[0] if rows else ()) else None,
                _total(rows, "instructions"),
            )
        except (ValueError, TypeError, csv.Error):  # what it is will be told when the run has ended
            return Progress(0)

    return look


def _total(rows: Sequence[dict[str, str]], name: str) -> float | None:
    """A column's sum; None where there is no such column."""
    values = [row[name] for row in rows if row.get(name)]
    return sum(map(float, values)) if values else None
