"""Metrics by layer and pass, side by side for the targets that have run: tables and a page.

The metrics are those of simgen.ground.metrics. Each row has the last verdict of `simgen diff` on
its result as it is now, or tells that there is none: a report compares nothing itself.
"""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from simgen.ask.report import ReportChoices
from simgen.bundle import verdict_file
from simgen.frontend.network import make_layer
from simgen.ground import metrics, tidy
from simgen.ground.storage.files import write_atomic
from simgen.kernels import render
from simgen.reports.pages import (
    correlation,
    drawing,
    figures,
    interactive,
    latex,
    limits,
    peaks,
    still,
    summary,
)
from simgen.reports.pages.row import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from simgen.bundle.results import Result
    from simgen.bundle.writing import Bundle
    from simgen.ground.ir import Step, Workload
    from simgen.reports.pages.correlation import Correlation
    from simgen.reports.pages.figures import Plot
    from simgen.reports.pages.summary import RunFacts

CORRELATION = "correlation.csv"
SPEED_UP = "Speed-up of each layer and pass"
STEP_COLUMNS = (
    "bundle", "workload", "planned_for", "layer", "kind", "pass", "type", "target", "result",
    "verdict", "inferred_from", "limited_by",
)  # fmt: skip
SHOWN = 3  # results that a line of doubts names
MOST_OUTLIERS = 3  # in a table for people
CORRELATION_TITLES = (
    "quantity", "compared with", "target", "layers", "Pearson r", "error, %", "factor",
    "error after it, %", "outliers", "",
)  # fmt: skip


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
        if result.is_statistics_only:
            no_verdict = verdict_file.SILENT
        kernels = result.kernels(bundle.workload)
        like = _inferred(bundle.workload, result)
        machine = peaks.ran_on(result)
        shortfall = peaks.shortfall(result, machine)
        roof = (2 * machine.rate, machine.dram_rate) if machine else None
        for at, step in enumerate(bundle.workload.steps):
            launches = [m for (of, _), m in zip(kernels, result.launches, strict=True) if of == at]
            if launches and not any(launches):  # the run was about other layers
                continue
            alone = machine.launch_cycles / machine.clock if machine else 0.0
            places = [i for i, (of, _) in enumerate(kernels) if of == at]
            operations, nbytes = work(bundle.workload, step)
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
                    peaks.peaks_of(result),
                    bundle.workload.node(step.layer).kind,
                    verdict_file.INFERRED
                    if at in like
                    else told.get(f"{step.layer} {step.direction}", no_verdict),
                    like.get(at, ""),
                    roof,
                    len(bundle.workload.steps),
                    result.errors(places),
                    shortfall,
                    result.options,
                    alone * len(launches),
                    bundle.settings,
                )
            )
    return made


def _inferred(workload: Workload, result: Result) -> dict[int, str]:
    """Step -> those that ran in its place, of steps that have metrics and did not run."""
    of = [at for at, step in enumerate(workload.steps) for _ in step.launches]
    found: dict[int, dict[str, None]] = {}
    for launch, like in result.inferred.items():
        ran = workload.steps[of[like]]
        found.setdefault(of[launch], {})[f"{ran.layer} {ran.direction}"] = None
    return {at: ", ".join(steps) for at, steps in found.items()}


def doubts(found: Sequence[Row]) -> list[str]:
    """What a reader must know before he believes the numbers: one line for each kind of doubt."""
    lines = []
    for verdict in dict.fromkeys(row.verdict for row in found):
        of = [row for row in found if row.verdict == verdict]
        places = list(dict.fromkeys(f"{row.bundle} on {row.result}" for row in of))
        more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
        where = ", ".join(places[:SHOWN]) + more
        if verdict != verdict_file.RIGHT:
            lines.append(f"{verdict}: {len(of)} of {len(found)} rows, {where}")
    if of := [row for row in found if row.errors]:
        lines.append(
            f"sampled: {len(of)} of {len(found)} rows are extrapolated from some of their "
            "work-groups; the columns _error are half of the intervals that hold 95 of 100 figures"
        )
    return lines


def derived(row: Row) -> dict[str, float]:
    """What follows from a row's counts: accesses and hit rates, utilization, rates per second."""
    needed = {"operations": row.operations, "bytes": row.bytes}
    return metrics.derived({**row.metrics, **row.peaks, **needed})


def columns(found: Sequence[Row]) -> dict[str, list[Any]]:
    """All metrics, a line for each row; None where a target does not count something.

    Each setting of a build or run that the results' names tell has a column.
    """
    values = [{**row.metrics, **derived(row)} for row in found]
    counted = dict.fromkeys(name for each in values for name in each)
    given = [name for name in summary.settings(found) if name not in {*STEP_COLUMNS, *counted}]
    lines = []
    for row, measured in zip(found, values):
        limit = limits.limit_of(row)
        step = (
            row.bundle, row.workload, row.planned_for, row.layer, row.kind, row.pass_, row.type,
            row.target, row.result, row.verdict, row.inferred_from, limit.name if limit else None,
        )  # fmt: skip
        swept = {name: row.setting(name) for name in given}
        lines.append({
            **dict(zip(STEP_COLUMNS, step)),
            **{name: tidy.typed(value) for name, value in swept.items() if value},
            "operations": row.operations, "bytes": row.bytes, **measured,
            **{f"{name}_error": half for name, half in row.errors.items()},
        })  # fmt: skip
    errors = dict.fromkeys(f"{name}_error" for row in found for name in row.errors)
    heads = (*STEP_COLUMNS, *given, "operations", "bytes", *counted, *errors)
    return tidy.columns(heads, lines)


def to_csv(found: Sequence[Row]) -> str:
    """The columns, with all digits."""
    table = columns(found)
    return csv_text([*table], tidy.cells(table))


def correlations(found: Sequence[Row]) -> list[Correlation]:
    """Every two targets, over the layers and passes that both measured in the same bundle."""
    # The last machine of a target decides: a slow one, or an unmeasured one.
    doubtful = sorted(found, key=lambda row: (bool(row.shortfall), row.shortfall is None))
    return correlation.correlations_of(
        _points(found), {row.result: row.shortfall for row in doubtful}
    )


def write(
    folder: Path,
    found: Sequence[Row],
    told: Sequence[RunFacts] = (),
    against: summary.Against | None = None,
    looks: ReportChoices | None = None,
) -> Path:
    """`report.html`, which needs no other file, `metrics.csv` and `correlation.csv`.

    `told` is what there is to say of each run; `against` the others beside a baseline, in
    `baseline.csv` too. `looks` asks for figures and LaTeX beside it. Returns the page's path.
    Numbers are the same in all of them.
    """
    looks = looks or ReportChoices()
    if looks.figures or looks.form == "tex":
        still.need()
    if looks.form == "tex":  # which includes PDF, and no SVG
        looks = replace(looks, figures=tuple(sorted({"pdf", *looks.figures})))
    table = to_csv(found)
    write_atomic(folder / "metrics.csv", table.encode())
    compared = correlations(found)
    write_atomic(folder / CORRELATION, correlation_csv(found).encode())
    if against:
        speed = csv_text(summary.SPEED_UP_COLUMNS, (each.cells for each in against.lines))
        write_atomic(folder / "baseline.csv", speed.encode())
    metrics = list(csv.reader(io.StringIO(table)))
    runs = summary.run_summaries(found, told)
    sections = drawing.sections([(row, {**row.metrics, **derived(row)}) for row in found])
    agreement = drawing.agreement(_points(found))
    head: dict[str, object] = {
        "title": looks.title or "simgen report",
        "author": looks.author or "",
        "sentences": summary.sentences(found),
        "doubts": doubts(found),
        "summary": runs,
        "against": against,
    }
    drawn = figures_of(found) + ([(SPEED_UP, against.figure)] if against else [])
    saved = figures.write(folder / figures.FOLDER, drawn, looks)
    if looks.form == "tex":
        text = latex.text(found, saved, folder, head)
        write_atomic(folder / latex.FILE, text.encode())
    page = render.page(
        "report.html.j2",
        **head,
        library=interactive.library(),
        limited=any(step.limit for run in runs for step in run.top),
        words=len(STEP_COLUMNS) + len(summary.settings(found)),
        head=metrics[0],
        rows=metrics[1:],
        sections=sections,
        agreement=agreement,
        compared=[correlation_cells(each) for each in compared],
        compared_head=CORRELATION_TITLES,
        results=len({(row.bundle, row.result) for row in found}),
    )
    path = folder / "report.html"
    write_atomic(path, page.encode())
    return path


def figures_of(found: Sequence[Row]) -> list[tuple[str, Plot]]:
    """All figures of a page, but those against a baseline."""
    measured = [(row, {**row.metrics, **derived(row)}) for row in found]
    made = [each for section in drawing.sections(measured) for each in section.figures]
    return made + drawing.agreement(_points(found))


def correlation_csv(found: Sequence[Row]) -> str:
    """How well every two targets agree, as a table."""
    return csv_text(correlation.COLUMNS, [each.cells for each in correlations(found)])


def correlation_cells(each: Correlation) -> tuple[str, ...]:
    """For people, by CORRELATION_TITLES."""
    formats = ((each.pearson, ".3f"), (each.error, ".1f"), (each.scale, ".3g"))
    shown = ["" if n is None else f"{n:{how}}" for n, how in (*formats, (each.scaled_error, ".1f"))]
    quantity = each.quantity.replace("_", " ")
    first = ", ".join(each.outliers[:MOST_OUTLIERS])
    more = f" and {n} more" if (n := len(each.outliers) - MOST_OUTLIERS) > 0 else ""
    head = (quantity, each.reference, each.target, str(each.layers))
    return (*head, *shown, first + more, each.note)


def csv_text(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """A table of this head."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    return text.getvalue()


def _points(found: Sequence[Row]) -> dict[str, dict[tuple[str, str], dict[str, float]]]:
    """Target -> (bundle, step) -> metrics, for the correlation."""
    points: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    for row in found:
        at = points.setdefault(row.result, {})
        at[(row.bundle, row.step)] = {**row.metrics, **derived(row)}
    return points


def work(workload: Workload, step: Step) -> tuple[int, int]:
    node = workload.node(step.layer)
    work = make_layer(node, workload.machine).count(node.inputs, step.direction)
    return work.flops + work.transcendentals, work.read_bytes + work.written_bytes


def _total(launches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for launch in launches for name in launch)
    return {name: sum(launch.get(name, 0.0) for launch in launches) for name in names}
