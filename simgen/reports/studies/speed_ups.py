"""Figures of a study that divide times: one machine by another, with and without L1 or fusion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.reports.pages import figures
from simgen.reports.pages.series import Grouped
from simgen.reports.studies import measuring
from simgen.reports.studies.drawn import Drawn, DrawnFrom, add_line, halves, table_of, whole_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.reports.studies.measuring import Measured


def machines(of: DrawnFrom, made: Drawn, target: str) -> None:
    series: dict[str, dict[str, float]] = {}
    for batch in sorted(of.scope.batches):
        slow, fast = (of.at(target, machine, batch=batch) for machine in "AB")
        for a, b in zip(slow, fast, strict=False):
            series[f"batch {batch}"] = _ratios(of, made, a, b, "A / B")
    _ratio_picture(of, made, target, series)


def bypass(of: DrawnFrom, made: Drawn, target: str) -> None:
    base, other = of.at(target), of.at(target, variant=measuring.BYPASS)
    series = {}
    for a, b in zip(base, other, strict=False):
        series[f"batch {a.point.batch}"] = _ratios(of, made, a, b, "with L1 / without")
    _ratio_picture(of, made, target, series)


def fusion(of: DrawnFrom, made: Drawn, target: str) -> None:
    """Compare whole passes: a fused layer is named after its last member, so that layers do not
    correspond."""
    base, other = (of.at(target, variant=each) for each in (measuring.FORWARD, measuring.FUSED))
    for a, b in zip(base, other, strict=False):
        before, after = (whole_of(each, ["seconds"]).get("seconds") for each in (a, b))
        if before and after:
            case = a.point.case.name
            values = {"as it is": before, "fused": after}
            for label, value in values.items():
                add_line(made, a, case, label, "seconds", "seconds", value)
            add_line(made, a, case, "forward pass", "speed_up", "as it is / fused", before / after)
            for whole in of.at(target):
                back = sum(
                    row.metrics.get("seconds", 0.0) for row in whole.rows if row.pass_ != "fwd"
                )
                ratio = (before + back) / (after + back)
                unit = "as it is / fused"
                if back:
                    add_line(made, a, case, "whole iteration", "speed_up", unit, ratio)
                    made.notes.append(f"{target}, with the backward pass: {_percent(ratio)}")
            made.notes.append(
                f"{target}: {before / after:.3f} times as fast, {_percent(before / after)}"
            )
            caption = f"{a.point.place.title}, batch {a.point.batch}: {before / after:.3f}"
            svg = figures.Plot(Grouped([case], {k: [v] for k, v in values.items()}, "seconds"))
            made.pictures.append((caption, svg))


def _ratios(of: DrawnFrom, made: Drawn, a: Measured, b: Measured, unit: str) -> dict[str, float]:
    """The time of a by that of b at each place, and of all together."""
    name = "seconds"
    before, after = (table_of(of, [each], [name]) for each in (a, b))
    found = {
        place: values[name] / after[place][name]
        for place, values in before.items()
        if values.get(name) and after.get(place, {}).get(name)
    }
    for place, value in found.items():
        add_line(made, a, a.point.case.name, place, "speed_up", unit, value)
    sums = [whole_of(each, [name]).get(name) for each in (a, b)]
    if found and sums[0] and sums[1]:
        whole = sums[0] / sums[1]
        add_line(made, a, a.point.case.name, "all", "speed_up", unit, whole)
        best = max(found, key=found.__getitem__)
        made.notes.append(
            f"{a.point.place.target}, batch {a.point.batch}: {_percent(whole)} in all; most in "
            f"{best}, {_percent(found[best])}"
        )
    return found


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _ratio_picture(
    of: DrawnFrom, made: Drawn, target: str, series: Mapping[str, Mapping[str, float]]
) -> None:
    places = list(dict.fromkeys(place for values in series.values() for place in values))
    drawn = {label: [values.get(place) for place in places] for label, values in series.items()}
    if places:
        for title, shown, cut in halves(target, places, drawn):
            made.pictures.append((title, figures.Plot(Grouped(shown, cut, "speed-up", level=1.0))))
