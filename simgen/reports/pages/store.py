"""The store of a sweep, `store.sqlite3`: the trace database of all of its points, read back.

It is what simgen.reports.pages.trace writes, with a table of the points that the sweep has, those
that have not run among them; the trace database of a report can be read in the same way.
"""

from __future__ import annotations

import itertools
import math
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simgen.bundle import folder, result_names, verdict_file
from simgen.errors import DamagedError, UsageError
from simgen.ground import metrics
from simgen.ground.storage.files import open_regular
from simgen.reports.pages import trace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = "store.sqlite3"
BUNDLES = "bundles"  # beside it, in the folder of a sweep
MAGIC = b"SQLite format 3\0"
MOST_ROWS = 2_000_000  # maximum rows of a table that is read whole
# Steps of SQLite, at least and for each byte of the file: a view of somebody's may never end.
LOOK, MIN_STEPS, STEPS_PER_BYTE = 10**6, 10**7, 50
LONGEST = 2**20  # characters of a text


@dataclass(frozen=True)
class StoredPoint:
    """A result, with the sums over its launches."""

    bundle: str
    workload: str
    planned_for: str
    result: str
    settings: Mapping[str, str]  # settings of the build and of the run, by name
    metrics: Mapping[str, float]
    operations: int  # operations that the algorithm needs for the result's layers
    nbytes: int  # bytes that it must move
    verdict: str  # verdict of `simgen diff`
    simgen: str  # version

    @property
    def target(self) -> str:
        return result_names.target_of(self.result)

    @property
    def parts(self) -> tuple[str, ...]:
        """What its name says beside options: layers, representatives."""
        return tuple(result_names.words_of(self.result))

    @property
    def seconds(self) -> float:
        """0 where the target counts no time."""
        return self.metrics.get("seconds", 0.0)

    @property
    def rate(self) -> float:
        """Operations that the algorithm needs, in a second; 0 without a time."""
        return self.operations / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class PointStore:
    """What the file holds."""

    points: tuple[StoredPoint, ...]
    missing: tuple[tuple[str, str], ...] = ()  # (bundle, result) of points that have not run
    digests: Mapping[str, str] = field(default_factory=dict)  # bundle -> what it is built of


def read_points(path: Path) -> PointStore:
    """The store.

    Raises:
        UsageError: there is none, or it is of another version of simgen.
        DamagedError: it is not what was written.
    """
    _check_kind(path)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2**26)
            looks = itertools.count()
            most = (MIN_STEPS + STEPS_PER_BYTE * path.stat().st_size) // LOOK
            database.set_progress_handler(lambda: next(looks) > most, LOOK)
            version = database.execute("PRAGMA user_version").fetchone()[0]
            name = database.execute("PRAGMA application_id").fetchone()[0]
            if name != trace.APPLICATION:
                raise UsageError(f"{path}: no store of simgen's; make it with: simgen report DIR")
            if version != trace.VERSION:
                raise UsageError(
                    f"{path}: of another version of simgen; collect it again with: simgen report "
                    f"{path.parent}"
                )
            return _store(database)
    except (sqlite3.Error, ValueError, KeyError) as error:
        raise DamagedError(
            f"{path}: damaged ({error}); collect it again with: simgen report {path.parent}"
        ) from None


def _check_kind(path: Path) -> None:
    try:
        with open_regular(path) as file:
            begins = file.read(len(MAGIC))
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}; give bundles, or the folder of a sweep"
        ) from None
    if begins != MAGIC:
        raise UsageError(f"{path}: neither a bundle nor a store; make it with: simgen report DIR")


def _store(database: sqlite3.Connection) -> PointStore:
    homes = {
        key: (name, workload, planned_for, digest)
        for key, name, workload, planned_for, digest in _rows(
            database, "SELECT id, name, workload, planned_for, digest FROM bundle", "issss"
        )
    }
    sums: dict[int, dict[str, float]] = {}
    query = "SELECT run, name, sum(value) FROM metric GROUP BY run, name"
    for run, name, value in _rows(database, query, "isf"):
        sums.setdefault(run, {})[name] = value
    work = {run: (operations, nbytes) for run, operations, nbytes in _rows(database, _WORK, "iii")}
    verdicts: dict[int, set[str]] = {}
    for run, part, value in _rows(database, "SELECT run, part, value FROM property", "iss"):
        if part == trace.VERDICT:
            verdicts.setdefault(run, set()).add(value)
    planned = _rows(database, "SELECT bundle, result, digest, run FROM point ORDER BY id", "sssn")
    order = {run: at for at, (_, _, _, run) in enumerate(planned) if run is not None}
    found = [
        (order.get(run, run), _point(homes[home], result, version, run, sums, work, verdicts))
        for run, home, result, version in _rows(
            database, "SELECT id, bundle, result, simgen FROM run ORDER BY id", "iiss"
        )
    ]
    return PointStore(
        tuple(point for _, point in sorted(found, key=lambda each: each[0])),
        tuple((bundle, result) for bundle, result, _, run in planned if run is None),
        {name: digest for name, _, _, digest in homes.values()}
        | {bundle: digest for bundle, _, digest, _ in planned},
    )


# Work of the layers and passes that have metrics.
_WORK = """
SELECT run, sum(operations), sum(bytes) FROM (
    SELECT DISTINCT metric.run AS run, step.id, step.operations AS operations, step.bytes AS bytes
    FROM metric JOIN launch ON launch.id = metric.launch JOIN step ON step.id = launch.step
) GROUP BY run
"""


def _point(
    home: tuple[str, str, str, str],
    result: str,
    version: str,
    run: int,
    sums: Mapping[int, Mapping[str, float]],
    work: Mapping[int, tuple[int, int]],
    verdicts: Mapping[int, set[str]],
) -> StoredPoint:
    name, workload, planned_for, _ = home
    settings = {**result_names.options_of(name), **result_names.options_of(result)}
    operations, nbytes = work.get(run, (0, 0))
    return StoredPoint(
        name, workload, planned_for, result, settings, _with_derived(sums.get(run, {})),
        operations, nbytes, _verdict(verdicts.get(run, set())), version,
    )  # fmt: skip


def _with_derived(counted: Mapping[str, float]) -> dict[str, float]:
    """Counts, and those that follow from them."""
    found = metrics.derived(counted).items()
    kept = {name: value for name, value in found if metrics.METRICS[name].kind in trace.COUNTS}
    return {**counted, **kept}


def _verdict(outcomes: set[str]) -> str:
    if not outcomes:
        return verdict_file.UNCHECKED
    if verdict_file.WRONG in outcomes:
        return verdict_file.WRONG
    others = outcomes - {verdict_file.RIGHT}
    return ", ".join(sorted(others)) or verdict_file.RIGHT


def _rows(database: sqlite3.Connection, query: str, kinds: str) -> list[tuple[Any, ...]]:
    """Rows whose cells have these kinds each; SQLite itself keeps to no types. i: a whole number,
    n: one, or nothing, s: text, f: a number.

    Raises:
        ValueError: one is another.
    """
    found = database.execute(query).fetchmany(MOST_ROWS + 1)
    if len(found) > MOST_ROWS:
        raise ValueError("more rows than can be read")
    for row in found:
        if not all(_is(cell, kind) for cell, kind in zip(row, kinds, strict=True)):
            raise ValueError("a value of another type than was written")
    return found


def _is(cell: object, kind: str) -> bool:
    if kind == "s":
        return isinstance(cell, str) and len(cell) <= LONGEST
    if cell is None:
        return kind == "n"
    whole = isinstance(cell, int)
    return (whole or (kind == "f" and isinstance(cell, float))) and 0 <= cell < math.inf  # type: ignore[operator]


def check(path: Path, found: PointStore) -> None:
    """Refuse what has nothing to report, and a store that is older than the sweep beside it.

    Raises:
        UsageError: nothing has run, or the bundles beside it are other builds.
    """
    for name, digest in found.digests.items():
        now = folder.digest_of(path.parent / BUNDLES / name / folder.WORKLOAD)
        if now not in (None, digest):
            raise UsageError(
                f"{path}: half a store, of another build of {name} than lies beside it; collect "
                f"it again with: simgen report {path.parent}"
            )
    if not found.points:
        raise UsageError(f"{path}: none of its points has run; run the sweep first")
