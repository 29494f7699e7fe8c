"""The report of a store: report.html, points.csv and sensitivity.csv."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.ask.report import FigureChoices, ReportChoices
from simgen.bundle import outputs, verdict_file
from simgen.ground import tidy
from simgen.ground.metrics import seconds
from simgen.ground.storage.files import write_atomic
from simgen.kernels import render
from simgen.reports.pages import exploring, figures, interactive, still, store, sweep_figures
from simgen.reports.pages.reporting import REPORT
from simgen.reports.pages.series import Front

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simgen.reports.pages.exploring import ComparedPoint, Sensitivity
    from simgen.reports.pages.figures import Plot
    from simgen.reports.pages.store import StoredPoint

POINTS, SENSITIVITY = "points.csv", "sensitivity.csv"
COUNTS = ("instructions", exploring.DRAM)
SENSITIVITY_COLUMNS = (
    "workload", "target", "setting", "value", "against", "pairs", "rate_ratio", "least", "most",
    "exponent",
)  # fmt: skip


@dataclass(frozen=True)
class Explored:
    """What a store came to.

    Attributes:
        page: report.html; points.csv and sensitivity.csv lie beside it.
        doubts: what a reader must know first, a line each.
    """

    page: Path
    points: tuple[ComparedPoint, ...]
    sensitivity: tuple[Sensitivity, ...]
    doubts: tuple[str, ...]


def write(
    path: Path, output: Path, baseline: str | None = None, looks: FigureChoices | None = None
) -> Explored:
    """Write the report of the store at `path` into the folder `output`.

    Raises:
        UsageError: it is no store, nothing has run, or the baseline is none of its results; the
            folder is something else.
        DamagedError: it is not what was written.
    """
    if looks and looks.figures:
        still.need()
    found = store.read_points(path)
    store.check(path, found)
    points = exploring.compared(found.points, baseline)
    of_settings = exploring.sensitivity(found.points)
    doubts = [*_doubts(path, found.points, found.missing), *exploring.beside_fronts(points)]
    table = columns(points)
    outputs.folder(output, REPORT)
    write_atomic(output / POINTS, _csv([*table], tidy.cells(table)))
    lines = [_cells(each) for each in of_settings]
    write_atomic(output / SENSITIVITY, _csv(SENSITIVITY_COLUMNS, lines))
    looks = looks or ReportChoices()
    told = looks if isinstance(looks, ReportChoices) else ReportChoices()
    fronts, ups = _fronts(points), _speed_ups(points)
    figures.write(output / figures.FOLDER, [*ups, *fronts], looks)
    page = output / "report.html"
    shown, cells = short(points)
    text = render.page(
        "explored.html.j2",
        library=interactive.library(),
        title=told.title or "simgen report of a sweep",
        author=told.author or "",
        doubts=doubts,
        speed_ups=ups,
        fronts=fronts,
        objectives=_objectives(points),
        head=shown,
        rows=cells,
        sensitivity_head=SENSITIVITY_COLUMNS,
        sensitivity=lines,
    )
    write_atomic(page, text.encode())
    return Explored(page, tuple(points), tuple(of_settings), tuple(doubts))


def _doubts(
    path: Path, found: Sequence[StoredPoint], missing: Sequence[tuple[str, str]]
) -> list[str]:
    lines = []
    if missing:
        count = len(found) + len(missing)
        lines.append(
            f"{len(missing)} of {count} points have not run, {missing[0][0]} on {missing[0][1]} "
            f"the first of them; go on with: snakemake -d {path.parent} -s {path.parent}/Snakefile"
        )
    for verdict in dict.fromkeys(point.verdict for point in found):
        if verdict not in (verdict_file.RIGHT, verdict_file.INFERRED):
            of = [point for point in found if point.verdict == verdict]
            first = f"{of[0].bundle} on {of[0].result}"
            lines.append(f"{verdict}: {len(of)} of {len(found)} points, {first} the first of them")
    silent = [point for point in found if not point.seconds]
    if silent:
        first = f"{silent[0].bundle} on {silent[0].result}"
        lines.append(f"no time: {len(silent)} of {len(found)} points, {first} the first of them")
    versions = sorted({point.simgen for point in found})
    if len(versions) > 1:
        lines.append(f"made by several versions of simgen: {', '.join(versions)}")
    return lines


def short(points: Sequence[ComparedPoint]) -> tuple[list[str], list[list[str]]]:
    """The head and the lines of a table for people: settings that vary, and what was counted."""
    given: dict[str, set[str]] = {}
    for each in points:
        for name in each.point.settings:
            given.setdefault(name, {other.point.settings.get(name, "") for other in points})
    settings = [name for name, values in given.items() if len(values) > 1]
    counts = [name for name in COUNTS if any(name in each.point.metrics for each in points)]
    head = ["workload", "target", *settings, "verdict", "time", "speed-up", "Pareto",
            "operations/s", *counts]  # fmt: skip
    return head, [_shown(each, settings, counts) for each in points]


# ------------------------------------------------------------------ tables


def columns(points: Sequence[ComparedPoint]) -> dict[str, list[Any]]:
    """All metrics, a line for each point; None where a target does not count something."""
    settings = dict.fromkeys(name for each in points for name in each.point.settings)
    names = sorted({name for each in points for name in each.point.metrics})
    heads = (
        "bundle", "result", "workload", "target", "planned_for", *settings, "verdict", "base",
        "speed_up", "pareto", "operations", "bytes", *names,
    )  # fmt: skip
    lines = [
        {
            "bundle": each.point.bundle, "result": each.point.result,
            "workload": each.point.workload, "target": each.point.target,
            "planned_for": each.point.planned_for,
            **{name: tidy.typed(value) for name, value in each.point.settings.items()},
            "verdict": each.point.verdict, "base": f"{each.base.bundle}:{each.base.result}",
            "speed_up": each.speed_up, "pareto": each.pareto,
            "operations": each.point.operations, "bytes": each.point.nbytes,
            **each.point.metrics,
        }
        for each in points
    ]  # fmt: skip
    return tidy.columns(heads, lines)


def _shown(each: ComparedPoint, settings: Sequence[str], counts: Sequence[str]) -> list[str]:
    point = each.point
    return [
        point.workload,
        ", ".join((point.target, *point.parts)),
        *(point.settings.get(name, "") for name in settings),
        point.verdict,
        seconds(point.seconds) if point.seconds else "",
        "" if each.speed_up is None else f"{each.speed_up:.3g}",
        "yes" if each.pareto else "",
        f"{point.rate:.3g}" if point.rate else "",
        *(f"{point.metrics[name]:.4g}" if name in point.metrics else "" for name in counts),
    ]


def _cells(each: Sensitivity) -> list[str]:
    return [
        each.workload, each.target, each.setting, each.value, each.against, str(each.pairs),
        _number(each.mean), _number(each.least), _number(each.most), _number(each.exponent),
    ]  # fmt: skip


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _csv(head: Sequence[str], lines: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    return text.getvalue().encode()


# ------------------------------------------------------------------ figures


def _groups(points: Sequence[ComparedPoint]) -> dict[str, list[ComparedPoint]]:
    """Points in groups of comparable ones, by group."""
    made: dict[int, list[ComparedPoint]] = {}
    for each in points:
        made.setdefault(id(each.base), []).append(each)
    named: dict[str, list[ComparedPoint]] = {}
    for group in made.values():
        base = group[0].base
        title = f"{base.workload} on {', '.join((base.target, *base.parts))}"
        title += f", {base.operations:.3g} operations" if title in named else ""
        named[title] = group
    return named


def _fronts(points: Sequence[ComparedPoint]) -> list[tuple[str, Plot]]:
    """Time against each of the other objectives, of each group."""
    made = []
    for title, group in _groups(points).items():
        timed = [each for each in group if each.point.seconds]
        whole = [each for each in timed if not each.lacking]
        others = [name for each in whole[:1] for name in each.objectives if name != "seconds"]
        for other in others if len(timed) > 1 else []:
            shown = {
                f"{each.point.bundle} on {each.point.result}": (
                    each.objectives.get(other, 0.0), each.point.seconds,
                )
                for each in timed if not each.lacking
            }  # fmt: skip
            front = {f"{each.point.bundle} on {each.point.result}" for each in timed if each.pareto}
            made.append((title, figures.Plot(Front(shown, front, other, "seconds"))))
    return made


def _speed_ups(points: Sequence[ComparedPoint]) -> list[tuple[str, Plot]]:
    """The speed-up over each option of the hardware that is swept, of each group."""
    made = []
    for title, group in _groups(points).items():
        given = {each.point.result: each.point.settings for each in group}
        timed = {
            each.point.result: {"": each.point.metrics} for each in group if each.point.seconds
        }
        same = len({frozenset(each) for each in given.values()}) == 1
        drawn = sweep_figures.drawn(timed, given, {}) if same else []
        made += [
            (f"{what}; {title}", plot) for what, plot in drawn if getattr(plot.shown, "ideal", None)
        ]
    return made


def _objectives(points: Sequence[ComparedPoint]) -> Mapping[str, str]:
    return {
        title: ", ".join((*group[0].objectives, *group[0].lacking))
        for title, group in _groups(points).items()
    }
