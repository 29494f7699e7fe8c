"""All launches of all results as a table, a line each: CSV, and Parquet.

Columns are what a launch is (`work_groups` and `work_items` of one work-group; empty where a
library's kernels ran), every setting that the names of results tell, and every metric that was
counted, by its name; simgen.ground.metrics has their units, and fields of Parquet carry them.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from math import isnan, prod
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.bundle import result_names
from simgen.ground import metrics
from simgen.ground.storage.files import write_atomic
from simgen.ground.version import version
from simgen.reports.exports import arrow, base

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from simgen.bundle.results import Result
    from simgen.reports.exports.base import Exported

LAUNCH = (
    "bundle", "workload", "result", "launch", "step", "layer", "kind", "pass", "type", "kernel",
    "work_groups", "work_items", "inferred",
)  # fmt: skip


@dataclass(frozen=True)
class LaunchTable:
    """Heads, and values by head of each line."""

    heads: tuple[str, ...]
    lines: tuple[Mapping[str, Any], ...]


def launch_table(sources: Sequence[Exported]) -> LaunchTable:
    """The table of bundles and their results, in order; of runs of a part, what ran."""
    runs = [(each, found) for each in sources for found in each.results]
    lines = [line for each, found in runs for line in _lines(each, found)]
    counted = dict.fromkeys(name for line in lines for name in line if name not in LAUNCH)
    given = {id(found): settings(each.name, found.name) for each, found in runs}
    heads = dict.fromkeys(name for told in given.values() for name in told)
    swept = [name for name in heads if name not in counted and name not in LAUNCH]
    lines = [
        {**line, **{k: given[id(found)].get(k, each.bundle.settings.get(k)) for k in swept}}
        for each, found in runs
        for line in _lines(each, found)
    ]
    return LaunchTable((*LAUNCH, *swept, *counted), tuple(lines))


def settings(*names: str) -> dict[str, str]:
    """What the names of a bundle and a result say was swept or given."""
    return {k: v for name in names for k, v in result_names.options_of(name).items()}


def _lines(source: Exported, result: Result) -> Iterator[dict[str, Any]]:
    workload = source.bundle.workload
    own = result.is_statistics_only
    like = result.inferred
    pairs = zip(result.kernels(workload), result.launches, strict=True)
    for at, ((index, kernel), counted) in enumerate(pairs):
        if not counted:
            continue
        step = workload.steps[index]
        size = None if own else workload.launches[at].grid
        told = (
            source.name, workload.name, result.name, at, index, step.layer,
            workload.node(step.layer).kind, str(step.direction), workload.types(step), kernel,
            prod(size) if size else None, workload.kernel(kernel).block if size else None,
            at in like,
        )  # fmt: skip
        yield dict(zip(LAUNCH, told)) | {k: v for k, v in counted.items() if not isnan(v)}


class CommaSeparated(base.Export):
    """A file."""

    name: ClassVar[str] = "csv"
    what: ClassVar[str] = "every launch with all metrics, a line each"
    file: ClassVar[bool] = True
    all_results: ClassVar[bool] = True
    several: ClassVar[bool] = True

    def write(self, sources: Sequence[Exported], path: Path) -> list[str]:
        table = launch_table(sources)
        write_atomic(
            path,
            csv_text(
                table.heads, [[_cell(line.get(h)) for h in table.heads] for line in table.lines]
            ).encode(),
        )
        return [_written(path, table)]


class Parquet(base.Export):
    """The same table with types and units."""

    name: ClassVar[str] = "parquet"
    what: ClassVar[str] = "the same table as Parquet, with units; needs pyarrow"
    file: ClassVar[bool] = True
    all_results: ClassVar[bool] = True
    several: ClassVar[bool] = True

    def write(self, sources: Sequence[Exported], path: Path) -> list[str]:
        table = launch_table(sources)
        columns = {head: [line.get(head) for line in table.lines] for head in table.heads}
        units = {head: metrics.unit(head) for head in table.heads}
        arrow.write(path, columns, units, {"producer": f"simgen {version()}"})
        return [_written(path, table)]


def _written(path: Path, table: LaunchTable) -> str:
    return f"{path}: 1 launch" if len(table.lines) == 1 else f"{path}: {len(table.lines)} launches"


def csv_text(heads: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([heads, *lines])
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    return "" if value is None else f"{value:.9g}" if isinstance(value, float) else value
