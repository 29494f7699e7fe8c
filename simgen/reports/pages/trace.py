"""The trace database: which layer and pass a kernel ran for, and what was measured, over all runs.

`simgen report` fills an SQLite file from all bundles that it is given: their results hold all of it
already, and a query about several targets or bundles needs them in one place. Nobody has to match
kernel names with layers by hand: the workload says which launch is whose.

    bundle     its name, the workload's name, the machine that it is planned for, digest, data, seed
    step       a layer in a pass: bundle, position (from 0), layer, kind, pass, type of elements,
               operations and bytes that the algorithm needs
    launch     one run of a kernel: step, position (from 0, in the whole workload), kernel,
               invocation (from 1: which run of this kernel it is), work_groups, work_group_size
    run        what a target left of a bundle: target, result (its name), finished (UTC), simgen,
               compiler
    property   of a run: part (settings, options, config, machine, verdict
               or inferred), name, value
    metric     run, launch, name, value: in the vocabulary of simgen.ground.metrics
    point      of a sweep: bundle, result, digest of the bundle, run (none: it has not run)

and views, to ask in short:

    launch_metric   one line for each value, with everything that it belongs to
    layer_metric    sums over the launches of a layer and pass, for each run and metric
    layer           one line for each run, layer and pass: the metrics of most targets as columns,
                    hit rates, operations and bytes per second

    SELECT layer, pass, target, seconds, l2_hit_rate FROM layer WHERE bundle = 'alexnet'

The schema itself is templates/trace.sql; the columns of `layer` are those of simgen.ground.metrics.
"""

from __future__ import annotations

import errno
import json
import math
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from simgen.frontend.network import make_layer
from simgen.ground import metrics, resources
from simgen.ground.metrics import Kind
from simgen.ground.storage.files import atomic_path

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from simgen.bundle.results import Result
    from simgen.bundle.writing import Bundle
    from simgen.ground.ir import Workload

FILE = "trace.sqlite3"
APPLICATION, VERSION = 0x73676E31, 4  # as the schema has them
PROPERTIES = ("settings", "options", "config", "machine")  # properties in a result's provenance
STEP = (  # columns of the views
    "run", "bundle", "workload", "planned_for", "target", "result", "step", "layer",
    "kind", "pass", "type",
)  # fmt: skip
COUNTS, RATES = (Kind.TIME, Kind.COUNTER), (Kind.SHARE, Kind.RATE)
VERDICT = "verdict"  # a part beside these, by layer and pass
INFERRED = "inferred"  # another property: a launch, by position -> the launch that ran in its place


@dataclass(frozen=True)
class TracedRun:
    """What a target left of a bundle, and when that was complete."""

    result: Result
    finished: datetime  # with its time zone
    verdict: Mapping[str, str] = field(default_factory=dict)  # by step (simgen.bundle.verdict_file)


def write(
    path: Path,
    found: Iterable[tuple[str, Bundle, Sequence[TracedRun]]],
    points: Iterable[tuple[str, str, str]] = (),
) -> None:
    """Write the database of all (name, bundle, its runs), atomically, in place of what was there.

    `points` are those of a sweep, whether they have run or not: bundle, result, digest.

    Raises:
        OSError: the file cannot be written.
        ValueError: a result does not have as many launches as its workload.
    """
    import sqlite3

    schema = (resources.folder("templates") / "trace.sql").read_text() + "".join(_views())
    with atomic_path(path) as temporary, closing(sqlite3.connect(temporary)) as database:
        try:
            # Half a file never gets the name, so that it needs no journal beside it.
            database.execute("PRAGMA journal_mode = OFF")
            database.executescript(schema)
            for name, bundle, runs in found:
                _add_bundle(database, name, bundle, runs)
            database.executemany(_POINT, points)
            database.commit()
        except sqlite3.OperationalError as error:
            full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
            raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from None


_POINT = """
INSERT INTO point (bundle, result, digest, run) SELECT wanted.bundle, wanted.result, wanted.digest,
    (SELECT run.id FROM run JOIN bundle ON bundle.id = run.bundle
     WHERE bundle.name = wanted.bundle AND run.result = wanted.result)
FROM (SELECT ? AS bundle, ? AS result, ? AS digest) AS wanted
"""


def _views() -> Iterator[str]:
    """The view `layer`, and what it is made from: a column for each metric that is compared."""
    compared = metrics.compared(rates=True)
    sums = (
        f"sum(value) FILTER (WHERE metric = '{name}') AS {name}"
        for name in metrics.counted(metric.name for metric in compared)
    )
    yield (
        "-- The metrics of most targets as columns; NULL where a target does not count one.\n"
        f"CREATE VIEW layer_sum AS SELECT {', '.join((*STEP, *sums))}\n"
        "FROM launch_metric GROUP BY run, step;\n"
    )
    step = [f"layer_sum.{name}" for name in STEP]
    counts, rates = (
        [f"{metrics.sql(m.name)} AS {m.name}" for m in compared if m.kind in kinds]
        for kinds in (COUNTS, RATES)
    )
    columns = ", ".join((*step, *counts, "step.operations", "step.bytes", *rates))
    yield (
        "-- The same with what follows from them.\n"
        f"CREATE VIEW layer AS SELECT {columns}\n"
        "FROM layer_sum JOIN run ON run.id = layer_sum.run\n"
        "    JOIN step ON step.bundle = run.bundle AND step.position = layer_sum.step;\n"
    )


def _add_bundle(
    database: sqlite3.Connection, name: str, bundle: Bundle, runs: Iterable[TracedRun]
) -> None:
    workload = bundle.workload
    made_from = (bundle.digest, bundle.manifest["data"]["id"], str(workload.seed))
    row = (name, workload.name, workload.machine.label, *made_from)
    key = _insert(database, "INSERT INTO bundle VALUES (NULL, ?, ?, ?, ?, ?, ?)", row)
    steps = _add_steps(database, key, workload)
    sizes = [
        (at, each.kernel, math.prod(each.grid), workload.kernel(each.kernel).block)
        for at, step in enumerate(workload.steps)
        for each in step.launches
    ]
    launches = _add_launches(database, steps, sizes, 0)
    count = len(launches)
    for run in runs:
        ran = launches
        if run.result.is_statistics_only:
            own = [(*each, None, None) for each in run.result.kernels(workload)]
            ran = _add_launches(database, steps, own, count)
            count += len(own)
        _add_run(database, key, ran, run)


def _add_steps(database: sqlite3.Connection, bundle: int, workload: Workload) -> list[int]:
    """Add the steps; returns their keys in order."""
    keys = []
    for position, step in enumerate(workload.steps):
        node = workload.node(step.layer)
        work = make_layer(node, workload.machine).count(node.inputs, step.direction)
        needs = (work.flops + work.transcendentals, work.read_bytes + work.written_bytes)
        named = (step.layer, node.kind, str(step.direction), workload.types(step))
        row = (bundle, position, *named, *needs)
        query = "INSERT INTO step VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)"
        keys.append(_insert(database, query, row))
    return keys


def _add_launches(
    database: sqlite3.Connection,
    steps: Sequence[int],
    launches: Iterable[tuple[int, str, int | None, int | None]],
    first: int,
) -> list[int]:
    """Add launches, (step, kernel, work-groups, work-items) each, from position `first` on.

    Returns their keys in order.
    """
    times: dict[str, int] = {}  # kernel -> how often it has run
    keys: list[int] = []
    for position, (at, kernel, *size) in enumerate(launches, first):
        nth = times[kernel] = times.get(kernel, 0) + 1
        query = "INSERT INTO launch VALUES (NULL, ?, ?, ?, ?, ?, ?)"
        keys.append(_insert(database, query, (steps[at], position, kernel, nth, *size)))
    return keys


def _add_run(
    database: sqlite3.Connection, bundle: int, launches: Sequence[int], run: TracedRun
) -> None:
    told = run.result.provenance
    finished = run.finished.astimezone(UTC).isoformat(timespec="seconds")
    named = run.result.target, run.result.name
    row = (bundle, *named, finished, told["simgen"], told["compiler"])
    key = _insert(database, "INSERT INTO run VALUES (NULL, ?, ?, ?, ?, ?, ?)", row)
    like = {str(at): str(ran) for at, ran in run.result.inferred.items()}
    more = {**told, VERDICT: run.verdict, INFERRED: like}
    properties = [(key, *each) for each in _properties(more)]
    database.executemany("INSERT INTO property VALUES (?, ?, ?, ?)", properties)
    values = [
        (key, launch, name, value)
        for launch, metrics in zip(launches, run.result.launches, strict=True)
        for name, value in metrics.items()
        if not math.isnan(value)
    ]
    database.executemany("INSERT INTO metric VALUES (?, ?, ?, ?)", values)


def _properties(told: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(part, name, value) of a result's provenance; what is not text becomes JSON."""
    for part in (*PROPERTIES, VERDICT, INFERRED):
        for name, value in told.get(part, {}).items():
            text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            yield part, name, text


def _insert(database: sqlite3.Connection, query: str, row: Sequence[Any]) -> int:
    """The key of the new row."""
    key = database.execute(query, row).lastrowid
    assert key is not None
    return key
