"""The figures of a report, in sections: where the time goes, rooflines, counters, sweeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import hypot
from typing import TYPE_CHECKING

from simgen.bundle import result_names
from simgen.ground import metrics
from simgen.reports.pages import correlation, figures, sweep_figures
from simgen.reports.pages.series import Dotted, Grouped, Roofline, Stacked, shares

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from simgen.reports.pages.figures import Plot
    from simgen.reports.pages.row import Row

    Measured = tuple[Row, Mapping[str, float]]  # a row, and its metrics with what follows from them
    Points = Mapping[str, Mapping[tuple[str, str], Mapping[str, float]]]

MOST_PLACES = 512  # in a figure; nobody reads more
TIME = "seconds"


@dataclass(frozen=True)
class ReportSection:
    """Figures under a heading, each with its caption."""

    title: str
    note: str
    figures: tuple[tuple[str, Plot], ...]
    folded: bool = False


def sections(found: Sequence[Measured]) -> list[ReportSection]:
    """Sections that have something to show."""
    rows = [row for row, _ in found]
    labels = _labels(rows)
    series = dict.fromkeys(label for _, label in labels)
    swept = _swept_names(series)  # which would be as many figures as points
    by_series: dict[str, list[tuple[str, Row, Mapping[str, float]]]]
    by_series = {name: [] for name in series if name not in swept}
    for (place, label), (row, values) in zip(labels, found):
        if label in by_series:
            by_series[label].append((place, row, values))
    timed = [figure for name, of in by_series.items() for figure in _times(name, of)]
    roofs = [figure for name, of in by_series.items() for figure in _roof(name, of)]
    made = [
        ReportSection("Where the time goes", "", tuple(timed)),
        ReportSection(
            "Rooflines",
            "Operations that the algorithm needs and bytes that it must move, by the time that "
            "they took; the roof is the machine's rate of float32 operations and of its DRAM. "
            "Larger dots take more of the time.",
            tuple(roofs),
        ),
        ReportSection("Sweeps", "", tuple(_swept(rows))),
        ReportSection("Counters", "", tuple(_counters(found, labels)), folded=True),
    ]
    return [section for section in made if section.figures]


def _swept_names(names: Iterable[str]) -> set[str]:
    """Names that are one of several points of a sweep."""
    axes = {name: _axes(name) for name in names}
    points = Counter(axes.values())
    return {name for name, own in axes.items() if result_names.options_of(name) and points[own] > 1}


def _axes(name: str) -> tuple[str, ...]:
    """What points of one sweep share."""
    return (
        result_names.target_of(name),
        *result_names.words_of(name),
        *result_names.options_of(name),
    )


def agreement(points: Points) -> list[tuple[str, Plot]]:
    """Times of every two targets against each other, where the correlation has enough of them."""
    drawn = []
    for a, b in correlation.pairs(list(points)):
        if correlation.tells_nothing(TIME, a, b):
            continue
        both = {
            place: (at[TIME], points[b][place][TIME])
            for place, at in points[a].items()
            if at.get(TIME, 0) > 0 and points[b].get(place, {}).get(TIME, 0) > 0
        }
        if len(both) >= correlation.MIN_LAYERS:
            several = len({bundle for bundle, _ in both}) > 1
            named = {" ".join(place) if several else place[1]: v for place, v in both.items()}
            scale = correlation.correlate(TIME, a, b, list(both.values())).scale
            dots = figures.Plot(Dotted(named, f"seconds, {a}", f"seconds, {b}", scale))
            drawn.append((f"Time on {b} against {a}", dots))
    return drawn


def _times(
    series: str, of: Sequence[tuple[str, Row, Mapping[str, float]]]
) -> list[tuple[str, Plot]]:
    """Time by layer and by type of operation, of the passes one above the other."""
    if not any(values.get(TIME) for _, _, values in of):
        return []
    drawn = []
    for title, place in (
        (f"Time by layer: {series}", lambda row: _layer(row, of)),
        (f"Time by type of operation: {series}", lambda row: row.kind),
    ):
        table: dict[str, dict[str, float]] = {}  # pass -> place -> seconds
        halves: dict[str, dict[str, float]] = {}  # half-widths of their confidence intervals
        for _, row, values in of:
            at, half = table.setdefault(row.pass_, {}), halves.setdefault(row.pass_, {})
            at[place(row)] = at.get(place(row), 0.0) + values.get(TIME, 0.0)
            half[place(row)] = hypot(half.get(place(row), 0.0), row.errors.get(TIME, 0.0))
        places = list(dict.fromkeys(each for at in table.values() for each in at))
        parts = {name: [at.get(each) for each in places] for name, at in table.items()}
        said, shown, parts = _readable(title, places, parts)
        errors = {name: [at.get(each) for each in shown] for name, at in halves.items()}
        drawn.append((said, figures.Plot(Stacked(shown, parts, metrics.unit(TIME), errors))))
    return drawn


def _layer(row: Row, of: Sequence[tuple[str, Row, Mapping[str, float]]]) -> str:
    """A layer's name, with its workload's where there are several."""
    several = len({each.workload for _, each, _ in of}) > 1
    return f"{row.workload} {row.layer}" if several else row.layer


def _roof(
    series: str, of: Sequence[tuple[str, Row, Mapping[str, float]]]
) -> list[tuple[str, Plot]]:
    roofs = {row.roof for _, row, _ in of}
    (roof,) = roofs if len(roofs) == 1 else (None,)
    points = {
        place: (float(row.operations), float(row.bytes), values[TIME])
        for place, row, values in of
        if values.get(TIME)
    }
    points = {name: each for name, each in points.items() if all(each)}
    return (
        [(f"Roofline: {series}", figures.Plot(Roofline(points, *roof)))] if roof and points else []
    )


def _counters(
    found: Sequence[Measured], labels: Sequence[tuple[str, str]]
) -> list[tuple[str, Plot]]:
    """Each metric that is drawn, by layer and target; then what each target has in parts."""
    table: dict[str, dict[str, Mapping[str, float]]] = {}  # series -> place -> metrics
    for (place, series), (_, values) in zip(labels, found, strict=True):
        table.setdefault(series, {})[place] = values
    places = list(dict.fromkeys(place for at in table.values() for place in at))
    drawn = []
    for metric in metrics.METRICS.values():
        lines = {label: _sums(at, places, (metric.name,)) for label, at in table.items()}
        lines = {k: v for k, v in lines.items() if any(value is not None for value in v)}
        if metric.figure and lines:
            whole = 1.0 if metrics.is_share(metric.name) else None
            said, shown, lines = _readable(metric.title, places, lines)
            drawn.append((said, figures.Plot(Grouped(shown, lines, metric.unit, whole))))
    swept = _swept_names(table)
    for series, at in table.items():
        if series not in swept:
            drawn += _of_one(series, at)
    return drawn


def _of_one(series: str, at: Mapping[str, Mapping[str, float]]) -> list[tuple[str, Plot]]:
    """Figures of what one target has in parts."""
    drawn = []
    places = list(at)
    for key, (title, unit, needed, as_shares) in metrics.PARTS.items():
        if any(needed in found for found in at.values()):
            parts = {label: _sums(at, places, n) for label, n in metrics.parts(key).items()}
            said, shown, parts = _readable(f"{title}: {series}", places, parts)
            draw = Stacked if as_shares else Grouped
            bars = draw(shown, shares(parts) if as_shares else parts, unit)
            drawn.append((said, figures.Plot(bars)))
    return drawn


def _swept(found: Sequence[Row]) -> list[tuple[str, Plot]]:
    """Figures of the sweeps of each bundle; they name it where there are several."""
    measured: dict[str, dict[str, dict[str, Mapping[str, float]]]] = {}
    given: dict[str, dict[str, Mapping[str, str]]] = {}
    for row in found:
        bundle, point = result_names.in_sweep(row.bundle, row.result)
        measured.setdefault(bundle, {}).setdefault(point, {})[row.step] = row.metrics
        built = result_names.options_of(row.bundle) if point != row.result else {}
        given.setdefault(bundle, {})[point] = {**built, **row.options}
    return [
        (f"{title}, {bundle}" if len(measured) > 1 else title, figure)
        for bundle, points in measured.items()
        for title, figure in sweep_figures.drawn(
            points, given[bundle], metrics.parts(metrics.WAITS)
        )
    ]


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
    short = result_names.shortened(list(dict.fromkeys(row.result for row in found)))
    for row in found:
        place = row.step
        if len(steps) > 1:
            place = row.workload if len(steps[row.workload]) == 1 else f"{row.workload} {place}"
        target = short[row.result]
        labels.append((place, f"{row.bundle}, {target}" if sweep else target))
    return labels
