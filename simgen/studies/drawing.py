"""Figures of a study: what was measured, set side by side as its definition says.

Each is drawn for each target that has something to show, and has one table with all of its numbers,
in which a line is a value. What a target cannot give is said, with the reason.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simgen import metrics
from simgen.ir import Pass
from simgen.studies import explaining, measuring
from simgen.studies.definition import Draws
from simgen.studies.machines import PLACES
from simgen.study import figures, page
from simgen.targets import TARGETS
from simgen.workload import costs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from simgen.studies.definition import Figure
    from simgen.studies.measuring import Measured, PlannedCase, Scope
    from simgen.study.figures import Series
    from simgen.study.row import Row

HEAD = ("target", "machine", "case", "batch", "place", "quantity", "unit", "value")
MOST_PLACES, MANY_PLACES = 128, 24  # of a picture; from where on it is split by pass


@dataclass
class Drawn:
    """A figure: pictures by what they are of, a table, and what there is to say."""

    figure: Figure
    pictures: list[tuple[str, str]] = field(default_factory=list)  # (caption, SVG)
    lines: list[tuple[object, ...]] = field(default_factory=list)  # by HEAD
    notes: list[str] = field(default_factory=list)
    cells: list[tuple[str, ...]] = field(default_factory=list)  # a table for people, its head first
    targets: list[str] = field(default_factory=list)  # that gave it

    @property
    def csv(self) -> str:
        """The table."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(HEAD)
        for *words, value in self.lines:
            writer.writerow([*words, f"{value:.9g}"])
        return text.getvalue()


@dataclass(frozen=True)
class _Of:
    """What there is to draw one figure from."""

    figure: Figure
    measured: Sequence[Measured]
    planned: Sequence[PlannedCase]
    scope: Scope

    def at(
        self, target: str, machine: str = "", variant: str = "", batch: int | None = None
    ) -> list[Measured]:
        """What a target measured on a machine, at a batch (the largest), in a variant."""
        wanted = batch or max(self.scope.batches)
        return [
            each
            for each in self.measured
            if each.point.place.target == target
            and each.point.place.machine == (machine or self.figure.machine)
            and each.point.variant == variant
            and each.point.batch == wanted
        ]


def draw(
    figure: Figure, measured: Sequence[Measured], planned: Sequence[PlannedCase], scope: Scope
) -> Drawn:
    """A figure of a study from all that there is."""
    made = Drawn(figure)
    of = _Of(figure, measured, planned, scope)
    if figure.draws in _OF_PLAN:
        _OF_PLAN[figure.draws](of, made)
        return made
    for target in scope.targets:
        if figure.machine not in {place.machine for place in PLACES[target]}:
            made.notes.append(f"{target} is one machine here")
            continue
        before = len(made.lines)
        _OF_RUNS[figure.draws](of, made, target)
        if len(made.lines) > before:
            made.targets.append(target)
        else:
            made.notes.append(_why(of, target))
    return made


def _why(of: _Of, target: str) -> str:
    """Why a target has no values for a figure."""
    figure = of.figure
    if not of.at(target):
        return f"{target} has no results"
    if figure.draws is Draws.BYPASS and not measuring.bypasses(target):
        return f"{target} runs loads that pass by L1 as it does the others"
    if figure.draws is Draws.SPEED_UP:
        return f"{target} is one machine here; a speed-up takes two"
    if figure.draws is Draws.FUSION:
        return f"{target} found nothing to fuse, or the runs failed"
    shown = explaining.of_figure(figure)
    counted = TARGETS[target]().reader.counted()
    lacking = [name for name in shown if metrics.expressed(name, counted) is None]
    return f"{target} does not count what it takes: {', '.join(lacking or shown)}"


# ------------------------------------------------------------------ by layer and pass


def _values(row: Row) -> dict[str, float]:
    return {**row.metrics, **page.derived(row)}


def _place(of: _Of, row: Row, case: str) -> str:
    several = len({each.point.case.name for each in of.measured}) > 1
    return f"{case} {row.step}" if several else row.step


def _table(of: _Of, found: Sequence[Measured], names: Sequence[str]) -> dict[str, dict[str, float]]:
    """StudyPlace -> values of the metrics that it has."""
    table: dict[str, dict[str, float]] = {}
    for each in found:
        for row in each.rows:
            values = _values(row)
            had = {name: values[name] for name in names if name in values}
            table[_place(of, row, each.point.case.name)] = had
    return table


def _layers(of: _Of, made: Drawn, target: str) -> None:
    for each in of.at(target):
        table = _table(of, [each], of.figure.metrics)
        _grouped(of, made, each, table)


def _cases(of: _Of, made: Drawn, target: str) -> None:
    found = of.at(target)
    table = {each.point.case.name: _whole(each, of.figure.metrics) for each in found}
    if found:
        _grouped(of, made, found[0], table, case="")


def _whole(each: Measured, names: Sequence[str]) -> dict[str, float]:
    """The metrics of all layers and passes together."""
    sums: dict[str, float] = {"operations": 0.0, "bytes": 0.0}
    for row in each.rows:
        for name, value in row.metrics.items():
            sums[name] = sums.get(name, 0.0) + value
        sums["operations"] += row.operations
        sums["bytes"] += row.nbytes
    peaks = each.rows[0].peaks if each.rows else {}
    values = {**sums, **metrics.derived({**sums, **peaks})}
    return {name: values[name] for name in names if name in values}


def _grouped(
    of: _Of,
    made: Drawn,
    each: Measured,
    table: Mapping[str, Mapping[str, float]],
    case: str | None = None,
) -> None:
    """Bars of the metrics at each place; a picture for each unit that they have."""
    where = each.point.place
    shown = each.point.case.name if case is None else case
    for place, values in table.items():
        for name, value in values.items():
            _line(made, each, shown, place, name, metrics.unit(name), value)
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
        _picture(made, f"{where.title}, batch {each.point.batch}", places, series, unit, share)


def _line(
    made: Drawn, each: Measured, case: str, place: str, quantity: str, unit: str, value: float
) -> None:
    where = each.point.place
    made.lines.append(
        (where.target, where.machine, case, each.point.batch, place, quantity, unit, value)
    )


def _picture(
    made: Drawn, caption: str, places: Sequence[str], series: Series, unit: str, share: bool
) -> None:
    whole = 1.0 if share and _most(series) > SMALL_SHARE else None
    for title, shown, cut in _halves(caption, places, series):
        made.pictures.append((title, figures.grouped(shown, cut, unit, whole)))


def _halves(
    caption: str, places: Sequence[str], series: Series
) -> list[tuple[str, list[str], dict[str, list[float | None]]]]:
    """(caption, places, series) of a picture, or of two where it would have many places: of the
    forward pass, and of the others."""
    forward = [at for at, place in enumerate(places) if place.endswith(f" {Pass.FORWARD}")]
    rest = [at for at in range(len(places)) if at not in forward]
    groups = {"": [*range(len(places))]}
    if forward and rest and len(places) > MANY_PLACES:
        groups = {", forward": forward, ", backward": rest}
    return [
        (
            caption + what,
            [places[at] for at in group],
            {label: [values[at] for at in group] for label, values in series.items()},
        )
        for what, found in groups.items()
        for group in [found[n : n + MOST_PLACES] for n in range(0, len(found), MOST_PLACES)]
    ]


SMALL_SHARE = 0.1  # an axis to 1 would hide what is less throughout


def _most(series: Series) -> float:
    return max((value or 0.0 for values in series.values() for value in values), default=0.0)


def _parts(of: _Of, made: Drawn, target: str) -> None:
    _, unit, needed, as_shares = metrics.PARTS[of.figure.part]
    parts = metrics.parts(of.figure.part)
    for each in of.at(target):
        names = [name for group in parts.values() for name in group]
        table = _table(of, [each], [*names, needed])
        table = {place: values for place, values in table.items() if needed in values}
        for place, values in table.items():
            for name in names:
                if name in values:
                    unit_of = metrics.unit(name)
                    _line(made, each, each.point.case.name, place, name, unit_of, values[name])
        series = {
            label: [_sum(values, group) for values in table.values()]
            for label, group in parts.items()
        }
        series = {label: values for label, values in series.items() if any(values)}
        if table and series:
            stacks = figures.shares(series) if as_shares else series
            caption = f"{each.point.place.title}, batch {each.point.batch}"
            for title, places, cut in _halves(caption, list(table), stacks):
                made.pictures.append((title, figures.stacked(places, cut, unit)))


def _sum(values: Mapping[str, float], names: Iterable[str]) -> float | None:
    had = [values[name] for name in names if name in values]
    return sum(had) if had else None


def _batches(of: _Of, made: Drawn, target: str) -> None:
    (name,) = of.figure.metrics
    tables: dict[int, dict[str, dict[str, float]]] = {}
    for batch in sorted(of.scope.batches):
        for each in of.at(target, batch=batch):
            tables[batch] = table = _table(of, [each], [name])
            for place, values in table.items():
                if name in values:
                    case, unit = each.point.case.name, metrics.unit(name)
                    _line(made, each, case, place, name, unit, values[name])
    places = list(dict.fromkeys(p for table in tables.values() for p in table))
    series = {
        f"batch {batch}": [table.get(place, {}).get(name) for place in places]
        for batch, table in tables.items()
    }
    if any(value for values in series.values() for value in values):
        title = next(p.title for p in PLACES[target] if p.machine == of.figure.machine)
        _picture(made, title, places, series, metrics.unit(name), share=False)


# ------------------------------------------------------------------ speed-ups


def _speed_up(of: _Of, made: Drawn, target: str) -> None:
    series: dict[str, dict[str, float]] = {}
    for batch in sorted(of.scope.batches):
        slow, fast = (of.at(target, machine, batch=batch) for machine in "AB")
        for a, b in zip(slow, fast, strict=False):
            series[f"batch {batch}"] = _ratios(of, made, a, b, "A / B")
    _ratio_picture(of, made, target, series)


def _bypass(of: _Of, made: Drawn, target: str) -> None:
    base, other = of.at(target), of.at(target, variant=measuring.BYPASS)
    series = {}
    for a, b in zip(base, other, strict=False):
        series[f"batch {a.point.batch}"] = _ratios(of, made, a, b, "with L1 / without")
    _ratio_picture(of, made, target, series)


def _fusion(of: _Of, made: Drawn, target: str) -> None:
    """Of the whole pass: fused layers have the name of the last of them, so that layers do not
    correspond."""
    base, other = (of.at(target, variant=each) for each in (measuring.FORWARD, measuring.FUSED))
    for a, b in zip(base, other, strict=False):
        before, after = (_whole(each, ["seconds"]).get("seconds") for each in (a, b))
        if before and after:
            case = a.point.case.name
            values = {"as it is": before, "fused": after}
            for label, value in values.items():
                _line(made, a, case, label, "seconds", "seconds", value)
            _line(made, a, case, "forward pass", "speed_up", "as it is / fused", before / after)
            made.notes.append(
                f"{target}: {before / after:.3f} times as fast, {_percent(before / after)}"
            )
            caption = f"{a.point.place.title}, batch {a.point.batch}: {before / after:.3f}"
            svg = figures.grouped([case], {k: [v] for k, v in values.items()}, "seconds")
            made.pictures.append((caption, svg))


def _ratios(of: _Of, made: Drawn, a: Measured, b: Measured, unit: str) -> dict[str, float]:
    """The time of a by that of b at each place, and of all together."""
    name = "seconds"
    before, after = (_table(of, [each], [name]) for each in (a, b))
    found = {
        place: values[name] / after[place][name]
        for place, values in before.items()
        if values.get(name) and after.get(place, {}).get(name)
    }
    for place, value in found.items():
        _line(made, a, a.point.case.name, place, "speed_up", unit, value)
    sums = [_whole(each, [name]).get(name) for each in (a, b)]
    if found and sums[0] and sums[1]:
        whole = sums[0] / sums[1]
        _line(made, a, a.point.case.name, "all", "speed_up", unit, whole)
        best = max(found, key=found.__getitem__)
        made.notes.append(
            f"{a.point.place.target}, batch {a.point.batch}: {_percent(whole)} in all; most in "
            f"{best}, {_percent(found[best])}"
        )
    return found


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _ratio_picture(
    of: _Of, made: Drawn, target: str, series: Mapping[str, Mapping[str, float]]
) -> None:
    places = list(dict.fromkeys(place for values in series.values() for place in values))
    drawn = {label: [values.get(place) for place in places] for label, values in series.items()}
    if places:
        for title, shown, cut in _halves(target, places, drawn):
            made.pictures.append((title, figures.grouped(shown, cut, "speed-up", level=1.0)))


# ------------------------------------------------------------------ by case


def _shares_of_time(kind: Callable[[Measured, Row], str], quantity: str) -> _Draw:
    def of_target(of: _Of, made: Drawn, target: str) -> None:
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
                    _line(made, each, each.point.case.name, label, quantity, "seconds", value)
        labels = list(dict.fromkeys(label for sums in table.values() for label in sums))
        series = {label: [sums.get(label) for sums in table.values()] for label in labels}
        if table:
            place = next(p for p in PLACES[target] if p.machine == of.figure.machine)
            caption = f"{place.title}, batch {max(of.scope.batches)}"
            svg = figures.stacked(list(table), figures.shares(series), "share of time")
            made.pictures.append((caption, svg))

    return of_target


# ------------------------------------------------------------------ of the plan


def _memory(of: _Of, made: Drawn) -> None:
    largest = max(of.scope.batches)
    table: dict[str, dict[str, int]] = {}
    for each in of.planned:
        if each.batch == largest:
            found = costs.memory(each.workload)
            found.pop("arena")
            table[each.case.name] = found
            for kind, value in found.items():
                made.lines.append(
                    ("plan", "", each.case.name, largest, kind, "memory", "bytes", value)
                )
    series = {
        kind: [float(found[kind]) for found in table.values()]
        for kind in costs.KINDS
        if any(found[kind] for found in table.values())
    }
    svg = figures.stacked(list(table), series, "bytes")
    made.pictures.append((f"batch {largest}, counted from the plan", svg))


def _sizes(of: _Of, made: Drawn) -> None:
    batches = sorted({each.batch for each in of.planned})
    series: dict[str, list[float | None]] = {}
    for each in of.planned:
        value = costs.memory(each.workload)["arena"]
        series.setdefault(each.case.name, [None] * len(batches))[batches.index(each.batch)] = value
        made.lines.append(
            ("plan", "", each.case.name, each.batch, "all tensors", "memory", "bytes", value)
        )
    svg = figures.lines([str(n) for n in batches], batches, series, "batch", "bytes")
    made.pictures.append(("counted from the plan, with what aligns tensors", svg))


def _work_table(of: _Of, made: Drawn) -> None:
    largest = max(of.scope.batches)
    made.cells.append(
        ("layer", "kind", "pass", "result", "parameters", "operations", "bytes", "operations/byte")
    )
    for each in of.planned:
        for work in costs.of(each.workload) if each.batch == largest else ():
            count = work.count
            operations = count.flops + count.transcendentals
            moved = count.read_bytes + count.written_bytes
            place = f"{work.layer} {work.direction}"
            shape = "x".join(map(str, work.output))
            numbers = (f"{work.parameters:,}", f"{operations:,}", f"{moved:,}")
            words = (work.layer, work.kind, str(work.direction), shape)
            made.cells.append((*words, *numbers, f"{work.intensity:.2f}"))
            quantities = {
                "parameters": ("elements", work.parameters),
                "operations": ("operations", operations),
                "bytes": ("bytes", moved),
            }
            for quantity, (unit, value) in quantities.items():
                made.lines.append(
                    ("plan", "", each.case.name, largest, place, quantity, unit, value)
                )


def _kind_of(each: Measured, row: Row) -> str:
    return row.kind


def _pass_of(each: Measured, row: Row) -> str:
    return PHASES.get(row.direction, "backward")


PHASES = {"fwd": "forward", "sgd": "update"}

if TYPE_CHECKING:
    from collections.abc import Callable as _Callable

    _Draw = _Callable[[_Of, Drawn, str], None]

_OF_PLAN: Mapping[Draws, Callable[[_Of, Drawn], None]] = {
    Draws.MEMORY: _memory,
    Draws.SIZES: _sizes,
    Draws.TABLE: _work_table,
}
_OF_RUNS: Mapping[Draws, _Draw] = {
    Draws.LAYERS: _layers,
    Draws.PARTS: _parts,
    Draws.CASES: _cases,
    Draws.BATCHES: _batches,
    Draws.SPEED_UP: _speed_up,
    Draws.BYPASS: _bypass,
    Draws.FUSION: _fusion,
    Draws.TYPES: _shares_of_time(_kind_of, "time_of_type"),
    Draws.PHASES: _shares_of_time(_pass_of, "time_of_phase"),
}
