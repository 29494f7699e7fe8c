"""`launches.csv`, which a run leaves: a line for each launch that ended, its kernel and metrics.

Programs add the lines of a step before its mark in `state.bin`, so that those of a finished step
are whole however the run has ended.
"""

from __future__ import annotations

import csv
import itertools
import os
import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from simgen.errors import DamagedError, printable
from simgen.ground.storage.files import open_regular
from simgen.targets.base import Progress, Reader, RunOption, Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from simgen.ground.ir import Workload

FILE = "launches.csv"
COLUMN = re.compile(r"[a-z][a-z0-9_]{0,99}")
TAKEN = {"order", "layer", "pass"}  # by results.h5, for what is no metric
MOST_COLUMNS = 200
LONGEST_LINE = 2**14  # bytes
MAX_NBYTES = 2**28
# Range of a metric: larger values make sums infinite, smaller ones make ratios infinite.
MIN_VALUE, MAX_VALUE = 1e-30, 1e30

# Options of targets that time rounds of all launches: how many rounds, and what they list.
ROUND_OPTIONS = {
    "warmup": RunOption("SIMGEN_WARMUP", "untimed rounds before the timed ones", default="0"),
    "repeats": RunOption(
        "SIMGEN_REPEATS", "timed rounds; the median is reported", least=1, default="1"
    ),
}
ROUND_COLUMNS = ("seconds", "seconds_min", "seconds_max", "rounds")


def read_rows(
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


def by_launch(path: Path, most: int) -> dict[int, list[dict[str, float]]]:
    """The lines of a table of numbers by their column `launch`, which is left out.

    Raises:
        DamagedError: it is none.
    """
    found: dict[int, list[dict[str, float]]] = {}
    try:
        for row in _rows(path, most):
            values = {name: _metric(name, text) for name, text in row.items()}
            found.setdefault(int(values.pop("launch")), []).append(values)
    except (OSError, ValueError, KeyError, csv.Error) as error:
        fact = getattr(error, "strerror", None) or error
        raise DamagedError(f"{path}: cannot be read ({fact}); run the bundle again") from None
    return found


@dataclass(frozen=True)
class RowsReader(Reader):
    """Reads `columns` of them, or all."""

    columns: tuple[str, ...] | None = None

    def counted(self) -> Mapping[str, str]:
        return {name: f"{FILE}: {name}" for name in self.columns or ()}

    def metrics(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        return read_rows(results, workload, self.columns)

    def salvaged(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        return read_rows(results, workload, self.columns, more=True)


class RowsWatcher(Watcher):
    """Counts the lines that are whole."""

    def watch(self, results: Path, workload: Workload) -> Callable[[], Progress]:
        return watch(results)


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
            raise ValueError(f"{printable(odd)} is not a column")
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
        raise ValueError(f"{name} is {printable(text)}, which is not a number") from None
    if value and not MIN_VALUE <= value <= MAX_VALUE:
        raise ValueError(f"{printable(text)} is neither a time nor a count")
    return value


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
            with open_regular(self.path) as file:
                if file.seek(0, os.SEEK_END) < self.read:
                    self._begin()
                file.seek(self.read)
                new = file.read(MAX_NBYTES)
        except OSError:
            return Progress(0)
        whole = new[: new.rfind(b"\n") + 1]
        self.read += len(whole)
        try:
            for line in csv.reader(whole.decode("ascii", "replace").splitlines()):
                if line:
                    self._add(line)
        except (ValueError, csv.Error):  # what it is will be told when the run has ended
            return Progress(0)
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
