"""Figures of a study: what was measured, set side by side as its definition says.

Each is drawn for each target that has something to show, and has one table with all of its numbers,
in which a line is a value. What a target cannot give is said, with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.errors import UsageError
from simgen.ground import metrics
from simgen.reports.pages import figures, limits
from simgen.reports.pages.series import Stacked, shares
from simgen.reports.studies import (
    explaining,
    measuring,
    operating_points,
    plan_figures,
    speed_ups,
    trade_offs,
)
from simgen.reports.studies.definition import Draws
from simgen.reports.studies.drawn import (
    Drawn,
    DrawnFrom,
    add_line,
    add_picture,
    halves,
    place_of,
    table_of,
    whole_of,
)
from simgen.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from simgen.reports.pages.row import Row
    from simgen.reports.studies.definition import Figure, Study
    from simgen.reports.studies.measuring import Measured, PlannedCase, Scope


def draw(
    figure: Figure, measured: Sequence[Measured], planned: Sequence[PlannedCase], scope: Scope
) -> Drawn:
    """A figure of a study from all that there is."""
    made = Drawn(figure)
    of = DrawnFrom(figure, measured, planned, scope)
    if figure.draws in _OF_PLAN:
        _OF_PLAN[figure.draws](of, made)
        return made
    for target in scope.targets:
        if not {*figure.machine} & {place.machine for place in scope.places(target)}:
            made.notes.append(f"{target} is one machine here")
            continue
        before = len(made.lines)
        _OF_RUNS[figure.draws](of, made, target)
        if len(made.lines) > before:
            made.targets.append(target)
            if lacking := _lacking(figure, target):
                made.notes.append(f"{target} does not count {', '.join(lacking)}")
        else:
            made.notes.append(_why(of, target))
    return made


def _why(of: DrawnFrom, target: str) -> str:
    """Why a target has no values for a figure."""
    figure = of.figure
    axis = operating_points.AXES.get(figure.draws)
    if axis and not operating_points.takes(axis, target):
        return f"{target}: {axis.others}"
    if not of.at(target):
        return f"{target} has no results"
    if figure.draws is Draws.BYPASS and not measuring.bypasses(target):
        return f"{target} runs loads that pass by L1 as it does the others"
    if figure.draws is Draws.BYPASS:
        return f"{target} has no run without L1"
    if figure.draws is Draws.SPEED_UP:
        return f"{target} is one machine here; a speed-up takes two"
    if figure.draws is Draws.FUSION:
        return f"{target} found nothing to fuse, or the runs failed"
    shown = _lacking(figure, target) or explaining.of_figure(figure)
    return f"{target} does not count what it takes: {', '.join(shown)}"


def _lacking(figure: Figure, target: str) -> list[str]:
    """The metrics of a figure that a target cannot give."""
    counted = TARGETS[target]().reader.counted()
    return [name for name in _shown(figure) if metrics.expressed(name, counted) is None]


def drawable(
    study: Study, targets: Sequence[str], passed: Mapping[str, str], asked: bool
) -> tuple[list[str], dict[str, str]]:
    """The targets that can give some figure, and why not the others; `asked` if the user named
    them.

    Raises:
        UsageError: one that was asked for, or all, can give none.
    """
    figures = [each for each in study.figures if each.draws not in _OF_PLAN]
    found, left = [], dict(passed)
    for target in targets:
        if all(len(_lacking(each, target)) == len(_shown(each)) for each in figures):
            left[target] = f"it counts nothing that figures of {study.name} show"
        else:
            found.append(target)
    nothing = [target for target in targets if target not in found]
    if nothing and (asked or not found):
        raise UsageError(
            f"--targets {nothing[0]}: {left[nothing[0]]}; take --targets mgpusim or gem5-se"
        )
    return found, left


def _shown(figure: Figure) -> list[str]:
    return list(dict.fromkeys(explaining.of_figure(figure)))


# ------------------------------------------------------------------ by layer and pass


def _layers(of: DrawnFrom, made: Drawn, target: str) -> None:
    for machine in of.figure.machine:
        for each in of.at(target, machine):
            table = table_of(of, [each], of.figure.metrics)
            _grouped(of, made, each, table)


def _machines(of: DrawnFrom, made: Drawn, target: str) -> None:
    """A picture for each metric, with a bar for each machine at each place."""
    found = [each for machine in "AB" for each in of.at(target, machine)]
    tables = [(each, table_of(of, [each], of.figure.metrics)) for each in found]
    for name in of.figure.metrics:
        series: dict[str, list[float | None]] = {}
        places = list(dict.fromkeys(place for _, table in tables for place in table))
        for each, table in tables:
            values = [table.get(place, {}).get(name) for place in places]
            for place, value in zip(places, values, strict=True):
                if value is not None:
                    case, unit = each.point.case.name, metrics.unit(name)
                    add_line(made, each, case, place, name, unit, value)
            if any(value is not None for value in values):
                where = each.point.place
                series[f"{where.machine}: {where.title}"] = values
        if series:
            caption = f"{metrics.METRICS[name].title}, {target}, batch {found[0].point.batch}"
            share, unit = metrics.is_share(name), metrics.unit(name)
            add_picture(made, caption, places, series, unit, share)
    if len(found) == 1:
        made.notes.append(f"{target} is one machine here")


def _cases(of: DrawnFrom, made: Drawn, target: str) -> None:
    found = of.at(target)
    table = {each.point.case.name: whole_of(each, of.figure.metrics) for each in found}
    if found:
        _grouped(of, made, found[0], table)


def _kernels(of: DrawnFrom, made: Drawn, target: str) -> None:
    """Draw the metrics of the kernel that takes most of a case's time, and of all kernels: in one
    picture where there is one metric, else one for each."""
    found = [each for each in of.at(target) if each.longest[0]]
    names = of.figure.metrics
    tables: dict[str, dict[str, Mapping[str, float]]] = {LONGEST: {}, "all kernels": {}}
    made.cells += [("case", "target", "kernel of most time", "its part of the time", *names)]
    for each in found:
        case, (kernel, counts) = each.point.case.name, each.longest
        values = {**counts, **metrics.derived({**counts, **each.rows[0].peaks})}
        whole = whole_of(each, [*names, "seconds"])
        tables[LONGEST][case] = {name: values[name] for name in names if name in values}
        tables["all kernels"][case] = {name: whole[name] for name in names if name in whole}
        shown = [f"{values[name]:.3g}" if name in values else "" for name in names]
        part = f"{counts['seconds'] / whole['seconds']:.0%}"
        made.cells.append((case, target, kernel, part, *shown))
        for label, table in tables.items():
            place = kernel if label == LONGEST else "all"
            for name, value in table[case].items():
                add_line(made, each, case, place, name, metrics.unit(name), value)
    for group in [names] if len(names) == 1 else [(label,) for label in tables]:
        if len(names) > 1:
            shown_of = {metrics.METRICS[n].title: (group[0], n) for n in names}
        else:
            shown_of = {label: (label, names[0]) for label in tables}
        series = {
            label: [values.get(name) for values in tables[of_label].values()]
            for label, (of_label, name) in shown_of.items()
        }
        series = {k: v for k, v in series.items() if any(value is not None for value in v)}
        if series:
            title = found[0].point.place.title
            caption = f"{title}, batch {found[0].point.batch}"
            caption += f", {group[0]}" if len(names) > 1 else ""
            unit, share = metrics.unit(names[0]), metrics.is_share(names[0])
            add_picture(made, caption, [*tables[LONGEST]], series, unit, share)


LONGEST = "kernel of most time"


def _grouped(
    of: DrawnFrom,
    made: Drawn,
    each: Measured,
    table: Mapping[str, Mapping[str, float]],
) -> None:
    """Bars of the metrics at each place; a picture for each unit that they have."""
    where = each.point.place
    whole = of.figure.draws is Draws.CASES
    for place, values in table.items():
        for name, value in values.items():
            case, shown = (place, "all") if whole else (each.point.case.name, place)
            add_line(made, each, case, shown, name, metrics.unit(name), value)
    units: dict[str, list[str]] = {}
    for name in of.figure.metrics:
        if any(name in values for values in table.values()):
            units.setdefault(metrics.unit(name), []).append(name)
    for unit, names in units.items():
        places = [place for place, values in table.items() if any(n in values for n in names)]
        series = {
            metrics.METRICS[name].title: [table[place].get(name) for place in places]
            for name in names
        }
        share = metrics.is_share(names[0])
        add_picture(made, f"{where.title}, batch {each.point.batch}", places, series, unit, share)


def _parts(of: DrawnFrom, made: Drawn, target: str) -> None:
    _, unit, needed, as_shares = metrics.PARTS[of.figure.part]
    parts = metrics.parts(of.figure.part)
    for each in [each for machine in of.figure.machine for each in of.at(target, machine)]:
        names = [name for group in parts.values() for name in group]
        table = table_of(of, [each], [*names, needed])
        table = {place: values for place, values in table.items() if needed in values}
        for place, values in table.items():
            for name in (*names, needed):
                if name in values:
                    unit_of = metrics.unit(name)
                    add_line(made, each, each.point.case.name, place, name, unit_of, values[name])
        series = {
            label: [_sum(values, group) for values in table.values()]
            for label, group in parts.items()
        }
        series = {label: values for label, values in series.items() if any(values)}
        if table and series:
            stacks = shares(series) if as_shares else series
            caption = f"{each.point.place.title}, batch {each.point.batch}"
            for title, places, cut in halves(caption, list(table), stacks):
                made.pictures.append((title, figures.Plot(Stacked(places, cut, unit))))


def _sum(values: Mapping[str, float], names: Iterable[str]) -> float | None:
    had = [values[name] for name in names if name in values]
    return sum(had) if had else None


def _batches(of: DrawnFrom, made: Drawn, target: str) -> None:
    (name,) = of.figure.metrics
    tables: dict[int, dict[str, dict[str, float]]] = {}
    for batch in sorted(of.scope.batches):
        for each in of.at(target, batch=batch):
            tables[batch] = table = table_of(of, [each], [name])
            for place, values in table.items():
                if name in values:
                    case, unit = each.point.case.name, metrics.unit(name)
                    add_line(made, each, case, place, name, unit, values[name])
    places = list(dict.fromkeys(p for table in tables.values() for p in table))
    series = {
        f"batch {batch}": [table.get(place, {}).get(name) for place in places]
        for batch, table in tables.items()
    }
    if any(value for values in series.values() for value in values):
        title = next(p.title for p in of.scope.places(target) if p.machine == of.figure.machine)
        add_picture(made, title, places, series, metrics.unit(name), share=False)


def _limits(of: DrawnFrom, made: Drawn, target: str) -> None:
    """What limits each layer and pass: the parts of its time, and the word that follows."""
    for each in [each for machine in of.figure.machine for each in of.at(target, machine)]:
        made.cells += [] if made.cells else [("layer and pass", "target", "limited by", *LIMITS)]
        for row in each.rows:
            limit = limits.limit_of(row) if of.shows(row) else None
            place = place_of(of, row, each.point.case.name)
            parts = limit.parts if limit else {}
            for name, value in parts.items():
                add_line(made, each, each.point.case.name, place, name, "share", value)
            shown = [f"{parts[name]:.1%}" if name in parts else "" for name in LIMITS]
            made.cells += [(place, target, str(limit), *shown)] if limit else []
    drawn = [line for line in made.lines if line[0] == target]
    places = list(dict.fromkeys(str(line[4]) for line in drawn))
    values = {(str(line[4]), line[5]): float(str(line[7])) for line in drawn}
    series = {name: [values.get((place, name)) for place in places] for name in LIMITS}
    series = {name: found for name, found in series.items() if any(found)}
    if series:
        caption = f"{of.at(target)[0].point.place.title}, batch {max(of.scope.batches)}"
        add_picture(made, caption, places, series, "share of time, or of slots", share=True)


LIMITS = ("compute", "bandwidth", "launch", "occupancy")


# ------------------------------------------------------------------ by case


def _shares_of_time(kind: Callable[[Measured, Row], str], quantity: str) -> _Draw:
    def of_target(of: DrawnFrom, made: Drawn, target: str) -> None:
        table: dict[str, dict[str, float]] = {}
        for each in of.at(target):
            sums: dict[str, float] = {}
            for row in each.rows:
                if "seconds" in row.metrics:
                    label = kind(each, row)
                    sums[label] = sums.get(label, 0.0) + row.metrics["seconds"]
            if sums:
                table[each.point.case.name] = sums
                for label, value in sums.items():
                    add_line(made, each, each.point.case.name, label, quantity, "seconds", value)
        labels = list(dict.fromkeys(label for sums in table.values() for label in sums))
        series = {label: [sums.get(label) for sums in table.values()] for label in labels}
        if table:
            place = next(p for p in of.scope.places(target) if p.machine == of.figure.machine)
            caption = f"{place.title}, batch {max(of.scope.batches)}"
            svg = figures.Plot(Stacked(list(table), shares(series), "share of time"))
            made.pictures.append((caption, svg))

    return of_target


def _kind_of(each: Measured, row: Row) -> str:
    return row.kind


def _pass_of(each: Measured, row: Row) -> str:
    return PHASES.get(row.pass_, "backward")


PHASES = {"fwd": "forward", "sgd": "update"}

if TYPE_CHECKING:
    from collections.abc import Callable as _Callable

    _Draw = _Callable[[DrawnFrom, Drawn, str], None]

_OF_PLAN: Mapping[Draws, Callable[[DrawnFrom, Drawn], None]] = {
    Draws.MEMORY: plan_figures.memory,
    Draws.SIZES: plan_figures.sizes,
    Draws.EXTENTS: plan_figures.extents,
    Draws.TABLE: plan_figures.work_table,
}
_OF_RUNS: Mapping[Draws, _Draw] = {
    Draws.LAYERS: _layers,
    Draws.PARTS: _parts,
    Draws.CASES: _cases,
    Draws.KERNELS: _kernels,
    Draws.MACHINES: _machines,
    Draws.BATCHES: _batches,
    Draws.SPEED_UP: speed_ups.machines,
    Draws.BYPASS: speed_ups.bypass,
    Draws.FUSION: speed_ups.fusion,
    Draws.LIMITS: _limits,
    Draws.CLOCKS: trade_offs.draw,
    Draws.UNITS: trade_offs.draw,
    Draws.GPUS: trade_offs.scaling,
    Draws.TYPES: _shares_of_time(_kind_of, "time_of_type"),
    Draws.PHASES: _shares_of_time(_pass_of, "time_of_phase"),
}
