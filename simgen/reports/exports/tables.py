"""All launches of all results as a table, a line each: CSV, and Parquet.

Columns are what a launch is (how many work-groups, and the work-items of one, `work_group_size`;
empty where a library's kernels ran), every setting that the names of results tell, every metric
that was counted, and what follows from them, by its name. simgen.ground.metrics has their units,
and fields of Parquet carry them.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from math import isnan, prod
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.bundle import result_names
from simgen.ground import metrics, tidy
from simgen.ground.storage.files import write_atomic
from simgen.ground.version import version
from simgen.reports.exports import arrow, base
from simgen.reports.pages import page, peaks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from simgen.bundle.results import Result
    from simgen.reports.exports.base import Exported

LAUNCH = (
    "bundle", "workload", "target", "result", "launch", "step", "layer", "kind", "pass", "type",
    "kernel", "work_groups", "work_group_size", "inferred",
)  # fmt: skip


def launch_table(sources: Sequence[Exported]) -> dict[str, list[Any]]:
    """The columns of bundles and their results, in order; of runs of a part, what ran."""
    runs = [
        (each, found, settings(each.name, found.name)) for each in sources for found in each.results
    ]
    heads = dict.fromkeys(name for _, _, told in runs for name in told)
    lines = [(line, each, told) for each, found, told in runs for line in _lines(each, found)]
    counted = dict.fromkeys(n for line, _, _ in lines for n in line if n not in LAUNCH)
    swept = [name for name in heads if name not in counted and name not in LAUNCH]
    full = [
        {
            **line,
            **{
                name: tidy.typed(value)
                for name in swept
                if (value := told.get(name, each.bundle.settings.get(name)))
            },
        }
        for line, each, told in lines
    ]
    return tidy.columns((*LAUNCH, *swept, *counted), full)


def settings(*names: str) -> dict[str, str]:
    """What the names of a bundle and a result say was swept or given."""
    return {k: v for name in names for k, v in result_names.options_of(name).items()}


def _lines(source: Exported, result: Result) -> Iterator[dict[str, Any]]:
    workload = source.bundle.workload
    own = result.is_statistics_only
    like = result.inferred
    given = peaks.peaks_of(result)
    pairs = list(zip(result.kernels(workload), result.launches, strict=True))
    launches = Counter(index for (index, _), counted in pairs if counted)
    for at, ((index, kernel), counted) in enumerate(pairs):
        if not counted:
            continue
        step = workload.steps[index]
        size = None if own else workload.launches[at].grid
        told = (
            source.name, workload.name, result.target, result.name, at, index, step.layer,
            workload.node(step.layer).kind, str(step.direction), workload.types(step), kernel,
            prod(size) if size else None, workload.kernel(kernel).block if size else None,
            at in like,
        )  # fmt: skip
        measured = {k: v for k, v in counted.items() if not isnan(v)}
        # What the algorithm needs is known of a layer and pass: of a launch, if it is the only one.
        needs = page.work(workload, step) if launches[index] == 1 else ()
        needed = dict(zip(metrics.NEEDED, needs))
        derived = metrics.derived({**measured, **given, **needed})
        yield {**needed, **measured, **derived, **dict(zip(LAUNCH, told))}


class CommaSeparated(base.Export):
    """A file."""

    name: ClassVar[str] = "csv"
    what: ClassVar[str] = "every launch with all metrics, a line each"
    file: ClassVar[bool] = True
    all_results: ClassVar[bool] = True
    several: ClassVar[bool] = True

    def write(self, sources: Sequence[Exported], path: Path) -> list[str]:
        table = launch_table(sources)
        write_atomic(path, csv_text([*table], tidy.cells(table)).encode())
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
        units = {head: metrics.unit(head) for head in table}
        arrow.write(path, table, units, {"producer": f"simgen {version()}"})
        return [_written(path, table)]


def _written(path: Path, table: Mapping[str, Sequence[Any]]) -> str:
    count = len(table["launch"])
    return f"{path}: 1 launch" if count == 1 else f"{path}: {count} launches"


def csv_text(heads: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([heads, *lines])
    return text.getvalue()
