"""Figures of a sweep: the time against each option that varies, and what wavefronts wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.bundle import result_names
from simgen.ground import metrics
from simgen.reports.pages import figures
from simgen.reports.pages.series import Curves, Stacked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.reports.pages.figures import Plot

    # Result -> layer and pass -> metrics
    Measured = Mapping[str, Mapping[str, Mapping[str, float]]]
    Given = Mapping[str, Mapping[str, str]]

# lines of a figure; of more layers the slowest have their own, the others one together
MAX_LINES = 8
REST = "the others"
ALL, MOST_LAYERS = "all layers", 4  # lines of a speed-up: the slowest layers beside them all
MIN_VALUES = 3
# Options of which twice as many can halve the time.
PROPORTIONAL = ("num_compute_units", "cu_per_sa", "gpu_clock")


def drawn(
    measured: Measured, given: Given, waits: Mapping[str, tuple[str, ...]]
) -> list[tuple[str, Plot]]:
    """(title, figure) for each target with a sweep and each of its options with several values.

    `given` are the options of each result that was measured. `waits` are the parts of wavefronts'
    cycles: label -> metrics whose sum it shows.
    """
    grids: dict[tuple[str, ...], dict[str, Mapping[str, Mapping[str, float]]]] = {}
    for name, at in measured.items():
        if options := given[name]:  # points of one sweep have the same ones
            series = ", ".join((result_names.target_of(name), *result_names.words_of(name)))
            grids.setdefault((series, *options), {})[name] = at
    return [
        figure
        for (target, *options), points in grids.items()
        for varied in [_varied(options, [given[name] for name in points])]
        for option in varied
        for figure in _of_option(target, option, varied, points, given, waits)
    ]


def _varied(options: Sequence[str], given: Sequence[Mapping[str, str]]) -> list[str]:
    """The options that have more than one value."""
    return [name for name in options if len({each[name] for each in given}) > 1]


def _of_option(
    target: str,
    option: str,
    varied: Sequence[str],
    points: Measured,
    given: Given,
    waits: Mapping[str, tuple[str, ...]],
) -> list[tuple[str, Plot]]:
    """Curves for the other options' values; where those are the same throughout, for layers."""
    lines: dict[str, dict[str, Mapping[str, Mapping[str, float]]]] = {}
    for name in sorted(points, key=lambda each: result_names.rank_of(given[each])):
        own = given[name]
        others = ", ".join(f"{k}={own[k]}" for k in varied if k != option)
        lines.setdefault(others, {})[own[option]] = points[name]
    values = sorted({v for line in lines.values() for v in line}, key=_size)
    title = f"against {option}: {target}"
    if len(lines) > 1:
        times = {
            label: [_total(line.get(v, {}), ("seconds",)) for v in values]
            for label, line in lines.items()
        }
        made = [(f"Time {title}", _lines(values, times, option))] if _any(times) else []
        return made + _speed_up(title, values, times, option)
    ((_, only),) = lines.items()
    times = _by_layer(values, only)
    made = [(f"Time {title}", _lines(values, times, option))] if _any(times) else []
    whole = [_total(only[value], ("seconds",)) for value in values]
    slowest = sorted(times, key=lambda step: -(times[step][0] or 0.0))[: MOST_LAYERS + 1]
    single = {step: times[step] for step in times if step in slowest and step != REST}
    alone = single if len(times) > 1 else {}
    made += _speed_up(title, values, {ALL: whole, **alone}, option)
    parts = {k: [_total(only[v], names) for v in values] for k, names in waits.items()}
    if _any(parts):
        bars = figures.Plot(Stacked(values, parts, "cycles of wavefronts", across=option))
        made.append((f"{metrics.PARTS[metrics.WAITS][0]} {title}", bars))
    return made


def _speed_up(
    title: str,
    values: Sequence[str],
    times: Mapping[str, Sequence[float | None]],
    option: str,
) -> list[tuple[str, Plot]]:
    """Speed-ups over the first value, beside what the hardware would give at most."""
    sizes = [result_names.magnitude(value) for value in values]
    if option not in PROPORTIONAL or None in sizes or len(values) < MIN_VALUES:
        return []
    at = [size for size in sizes if size is not None]
    found = {
        label: [line[0] / each if line[0] and each else None for each in line]
        for label, line in times.items()
        if line[0]
    }
    ideal = [size / at[0] for size in at]
    drawn = figures.Plot(Curves(values, at, found, option, "speed-up", ideal))
    return [(f"Speed-up {title}", drawn)] if found else []


def _by_layer(
    values: Sequence[str], only: Mapping[str, Mapping[str, Mapping[str, float]]]
) -> dict[str, list[float | None]]:
    """The times of each layer and pass; of many, of the slowest ones."""
    steps = list(dict.fromkeys(step for value in values for step in only[value]))
    table = {s: [only[v].get(s, {}).get("seconds") for v in values] for s in steps}
    if len(table) <= MAX_LINES:
        return table
    ordered = sorted(table, key=lambda step: -sum(time or 0.0 for time in table[step]))
    shown = {step: table[step] for step in steps if step in ordered[: MAX_LINES - 1]}
    rest = [table[step] for step in ordered[MAX_LINES - 1 :]]
    return {**shown, REST: [sum(time or 0.0 for time in column) for column in zip(*rest)]}


def _lines(values: Sequence[str], times: Mapping[str, Sequence[float | None]], option: str) -> Plot:
    sizes = [result_names.magnitude(value) for value in values]
    at = None if None in sizes else [size for size in sizes if size is not None]
    return figures.Plot(Curves(values, at, times, option, metrics.unit("seconds")))


def _total(at: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> float | None:
    had = [metrics[name] for metrics in at.values() for name in names if name in metrics]
    return sum(had) if had else None


def _any(series: Mapping[str, Sequence[float | None]]) -> bool:
    return any(value for values in series.values() for value in values)


def _size(value: str) -> tuple[bool, float, str]:
    size = result_names.magnitude(value)
    return (size is None, size or 0.0, value)
