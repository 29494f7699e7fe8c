"""Metrics by layer and pass, side by side for the targets that have run: tables and a page.

The metrics are those of simgen.metrics. Each row has the last verdict of `simgen diff` on its
result as it is now, or tells that there is none: a report compares nothing itself.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simgen import metrics
from simgen.bundle import result_names as sweep
from simgen.bundle import results, verdict_file
from simgen.compile import render
from simgen.frontend.network import make_layer
from simgen.storage.files import write_atomic
from simgen.study import correlation, figures, peaks, sweep_figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from simgen.bundle.results import Result
    from simgen.bundle.writing import Bundle
    from simgen.ir import Step, Workload
    from simgen.study.correlation import Correlation

CORRELATION = "correlation.csv"
SHOWN = 3  # results that a line of doubts names
MOST_PLACES = 256  # in a figure; nobody reads more, and drawing them takes minutes
CORRELATION_TITLES = (
    "quantity", "compared with", "target", "layers", "Pearson r", "error, %", "factor",
    "error after it, %", "",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """What one target measured for one step: sums over the step's launches."""

    bundle: str
    workload: str
    planned_for: str  # a machine
    layer: str
    direction: str
    types: str  # of the elements of its tensors
    target: str
    operations: int  # that the algorithm needs: flops and transcendentals
    nbytes: int  # that it must move
    metrics: Mapping[str, float]
    peaks: Mapping[str, float] = field(default_factory=dict)  # of the machine that ran it
    kind: str = ""  # of the layer
    verdict: str = verdict_file.UNCHECKED  # of `simgen diff`, against the reference
    inferred_from: str = ""  # the layers and passes that ran in its place; empty: it ran

    @property
    def step(self) -> str:
        return f"{self.layer} {self.direction}"


def rows(
    bundle: Bundle,
    found: Iterable[Result],
    name: str = "",
    verdicts: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Row]:
    """A row for each step and result, in the order of the workload's steps.

    `name` is the bundle's in the report; without one, it is the workload's. `verdicts` are those of
    `simgen diff`, by result and step.
    """
    made = []
    for result in found:
        told = (verdicts or {}).get(result.name, {})
        no_verdict = verdict_file.UNCHECKED
        if results.is_statistics_only(result):
            no_verdict = verdict_file.SILENT
        kernels = results.kernels(result, bundle.workload)
        like = _inferred(bundle.workload, result)
        for at, step in enumerate(bundle.workload.steps):
            launches = [m for (of, _), m in zip(kernels, result.launches, strict=True) if of == at]
            if launches and not any(launches):  # the run was about other layers
                continue
            operations, nbytes = _work(bundle.workload, step)
            made.append(
                Row(
                    name or bundle.workload.name,
                    bundle.workload.name,
                    bundle.workload.machine.label,
                    step.layer,
                    str(step.direction),
                    bundle.workload.types(step),
                    result.name,
                    operations,
                    nbytes,
                    _total(launches),
                    peaks.of(result),
                    bundle.workload.node(step.layer).kind,
                    verdict_file.INFERRED
                    if at in like
                    else told.get(f"{step.layer} {step.direction}", no_verdict),
                    like.get(at, ""),
                )
            )
    return made


def _inferred(workload: Workload, result: Result) -> dict[int, str]:
    """Step -> those that ran in its place, of steps that have metrics and did not run."""
    of = [at for at, step in enumerate(workload.steps) for _ in step.launches]
    found: dict[int, dict[str, None]] = {}
    for launch, like in results.inferred(result).items():
        ran = workload.steps[of[like]]
        found.setdefault(of[launch], {})[f"{ran.layer} {ran.direction}"] = None
    return {at: ", ".join(steps) for at, steps in found.items()}


def doubts(found: Sequence[Row]) -> list[str]:
    """What a reader must know before he believes the numbers: one line for each kind of doubt."""
    lines = []
    for verdict in dict.fromkeys(row.verdict for row in found):
        of = [row for row in found if row.verdict == verdict]
        places = list(dict.fromkeys(f"{row.bundle} on {row.target}" for row in of))
        more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
        where = ", ".join(places[:SHOWN]) + more
        if verdict != verdict_file.RIGHT:
            lines.append(f"{verdict}: {len(of)} of {len(found)} rows, {where}")
    return lines


def derived(row: Row) -> dict[str, float]:
    """What follows from a row's counts: accesses and hit rates, utilization, rates per second."""
    needed = {"operations": row.operations, "bytes": row.nbytes}
    return metrics.derived({**row.metrics, **row.peaks, **needed})


def to_csv(found: Sequence[Row]) -> str:
    """All metrics, one line per row; empty where a target does not count something."""
    metrics = list(dict.fromkeys(n for row in found for n in {**row.metrics, **derived(row)}))
    head = (
        "bundle", "workload", "planned_for", "layer", "pass", "type", "target", "verdict",
        "inferred_from", "operations", "bytes",
    )  # fmt: skip
    lines = []
    for row in found:
        values = {**row.metrics, **derived(row)}
        cells = [f"{values[name]:.9g}" if name in values else "" for name in metrics]
        step = (
            row.bundle, row.workload, row.planned_for, row.layer, row.direction, row.types,
            row.target, row.verdict, row.inferred_from,
        )  # fmt: skip
        lines.append([*step, row.operations, row.nbytes, *cells])
    return _csv([*head, *metrics], lines)


def correlations(found: Sequence[Row]) -> list[Correlation]:
    """Every two targets, over the layers and passes that both measured in the same bundle."""
    return correlation.of(_points(found))


def write(folder: Path, found: Sequence[Row]) -> Path:
    """`report.html`, which needs no other file, `metrics.csv` and `correlation.csv`.

    Returns the page's path. Numbers are the same in all of them.
    """
    table = to_csv(found)
    write_atomic(folder / "metrics.csv", table.encode())
    compared = correlations(found)
    write_atomic(folder / CORRELATION, correlation_csv(found).encode())
    metrics = list(csv.reader(io.StringIO(table)))
    page = render.page(
        "report.html.j2",
        head=metrics[0],
        rows=metrics[1:],
        doubts=doubts(found),
        figures=_figures(found),
        compared=[correlation_cells(each) for each in compared],
        compared_head=CORRELATION_TITLES,
    )
    path = folder / "report.html"
    write_atomic(path, page.encode())
    return path


def correlation_csv(found: Sequence[Row]) -> str:
    """How well every two targets agree, as a table."""
    return _csv(correlation.COLUMNS, [each.cells for each in correlations(found)])


def correlation_cells(each: Correlation) -> tuple[str, ...]:
    """For people, by CORRELATION_TITLES."""
    formats = ((each.pearson, ".3f"), (each.error, ".1f"), (each.scale, ".3g"))
    shown = ["" if n is None else f"{n:{how}}" for n, how in (*formats, (each.scaled_error, ".1f"))]
    quantity = each.quantity.replace("_", " ")
    return (quantity, each.reference, each.target, str(each.layers), *shown, each.note)


def _csv(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    return text.getvalue()


def _points(found: Sequence[Row]) -> dict[str, dict[tuple[str, str], dict[str, float]]]:
    """Target -> (bundle, step) -> metrics, for the correlation."""
    points: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    for row in found:
        at = points.setdefault(row.target, {})
        at[(row.bundle, row.step)] = {**row.metrics, **derived(row)}
    return points


def _work(workload: Workload, step: Step) -> tuple[int, int]:
    node = workload.node(step.layer)
    work = make_layer(node, workload.machine).count(node.inputs, step.direction)
    return work.flops + work.transcendentals, work.read_bytes + work.written_bytes


def _total(launches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for launch in launches for name in launch)
    return {name: sum(launch.get(name, 0.0) for launch in launches) for name in names}


def _figures(found: Sequence[Row]) -> list[tuple[str, str]]:
    """(title, SVG) of each figure that has something to show."""
    table: dict[str, dict[str, dict[str, float]]] = {}  # series -> place -> metrics
    for (place, series), row in zip(_labels(found), found, strict=True):
        table.setdefault(series, {})[place] = {**row.metrics, **derived(row)}
    places = list(dict.fromkeys(place for at in table.values() for place in at))
    drawn = []
    for metric in metrics.METRICS.values():
        names = (metric.name,)
        lines = {label: _sums(at, places, names) for label, at in table.items()}
        lines = {k: v for k, v in lines.items() if any(value is not None for value in v)}
        if metric.figure and lines:
            whole = 1.0 if metrics.is_share(metric.name) else None
            said, shown, lines = _readable(metric.title, places, lines)
            drawn.append((said, figures.grouped(shown, lines, metric.unit, whole)))
    for series, at in table.items():
        if not sweep.options_of(series):  # of a sweep, that would be as many figures as points
            drawn += _of_one(series, at)
    return drawn + _swept(found) + _scatters(found)


def _swept(found: Sequence[Row]) -> list[tuple[str, str]]:
    """Figures of the sweeps of each bundle; they name it where there are several."""
    measured: dict[str, dict[str, dict[str, Mapping[str, float]]]] = {}
    for row in found:
        bundle, point = sweep.in_sweep(row.bundle, row.target)
        measured.setdefault(bundle, {}).setdefault(point, {})[row.step] = row.metrics
    return [
        (f"{title}, {bundle}" if len(measured) > 1 else title, figure)
        for bundle, points in measured.items()
        for title, figure in sweep_figures.drawn(points, metrics.parts(metrics.WAITS))
    ]


def _of_one(series: str, at: Mapping[str, Mapping[str, float]]) -> list[tuple[str, str]]:
    """Figures of what one target has in parts."""
    drawn = []
    places = list(at)
    for key, (title, unit, needed, as_shares) in metrics.PARTS.items():
        if any(needed in found for found in at.values()):
            parts = {label: _sums(at, places, n) for label, n in metrics.parts(key).items()}
            said, shown, parts = _readable(f"{title}: {series}", places, parts)
            draw = figures.stacked if as_shares else figures.grouped
            drawn.append((said, draw(shown, figures.shares(parts) if as_shares else parts, unit)))
    return drawn


def _readable(
    title: str, places: list[str], series: Mapping[str, list[float | None]]
) -> tuple[str, list[str], dict[str, list[float | None]]]:
    """A figure's title, places and values, of no more places than `MOST_PLACES`: the largest."""
    if len(places) <= MOST_PLACES:
        return title, places, dict(series)
    weights = [max(value or 0.0 for value in values) for values in zip(*series.values())]
    ranked = sorted(range(len(places)), key=weights.__getitem__, reverse=True)
    kept = sorted(ranked[:MOST_PLACES])
    chosen = {label: [values[at] for at in kept] for label, values in series.items()}
    title = f"{title}, the largest {MOST_PLACES} of {len(places)}"
    return title, [places[at] for at in kept], chosen


def _scatters(found: Sequence[Row]) -> list[tuple[str, str]]:
    """Times of every two targets against each other, where the correlation has enough of them."""
    points = _points(found)
    drawn = []
    for a, b in correlation.pairs(list(points)):
        both = correlation.common(points[a], points[b], "seconds")
        both = [(x, y) for x, y in both if x > 0 and y > 0]
        if len(both) >= correlation.LEAST:
            dots = figures.against(both, f"seconds, {a}", f"seconds, {b}")
            drawn.append((f"Time on {b} against {a}", dots))
    return drawn


def _sums(
    at: Mapping[str, Mapping[str, float]], places: Sequence[str], names: Sequence[str]
) -> list[float | None]:
    """For each place the sum of the metrics that it has; None where it has none of them."""
    sums: list[float | None] = []
    for place in places:
        had = [at[place][name] for name in names if name in at.get(place, {})]
        sums.append(sum(had) if had else None)
    return sums


def _labels(found: Sequence[Row]) -> list[tuple[str, str]]:
    """(place, series) of each row: layers side by side, targets as series.

    Several bundles of one workload (a sweep) are series too; several workloads are places.
    """
    steps: dict[str, set[str]] = {}
    bundles: dict[str, set[str]] = {}
    for row in found:
        steps.setdefault(row.workload, set()).add(row.step)
        bundles.setdefault(row.workload, set()).add(row.bundle)
    sweep = any(len(names) > 1 for names in bundles.values())
    labels = []
    for row in found:
        place = row.step
        if len(steps) > 1:
            place = row.workload if len(steps[row.workload]) == 1 else f"{row.workload} {place}"
        labels.append((place, f"{row.bundle}, {row.target}" if sweep else row.target))
    return labels
