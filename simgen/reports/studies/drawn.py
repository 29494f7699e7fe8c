"""What figures of a study are drawn from, and what they come to: pictures, a table, and notes.

A table is long: a line is a value.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simgen.ground import metrics
from simgen.ground.ir import Pass
from simgen.reports.pages import figures, page
from simgen.reports.pages.series import Grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.reports.pages.figures import Plot
    from simgen.reports.pages.row import Row
    from simgen.reports.pages.series import Series
    from simgen.reports.studies.definition import Figure
    from simgen.reports.studies.measuring import Measured, PlannedCase, Scope

HEAD = ("target", "machine", "case", "batch", "place", "quantity", "unit", "value")
# maximum places of a figure; places from which it is split by pass
MOST_PLACES, MANY_PLACES = 128, 24


@dataclass
class Drawn:
    """A figure: pictures by what they are of, a table, and what there is to say."""

    figure: Figure
    pictures: list[tuple[str, Plot]] = field(default_factory=list)  # by caption
    lines: list[tuple[object, ...]] = field(default_factory=list)  # by HEAD
    notes: list[str] = field(default_factory=list)
    cells: list[tuple[str, ...]] = field(default_factory=list)  # a table for people, its head first
    targets: list[str] = field(default_factory=list)  # targets that gave it

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
class DrawnFrom:
    """What there is to draw one figure from."""

    figure: Figure
    measured: Sequence[Measured]
    planned: Sequence[PlannedCase]
    scope: Scope

    def shows(self, row: Row) -> bool:
        """Whether the figure shows this layer and pass."""
        figure = self.figure
        return row.pass_.startswith(figure.direction) and (
            not figure.places or row.step in figure.places
        )

    def at(
        self, target: str, machine: str = "", variant: str = "", batch: int | None = None
    ) -> list[Measured]:
        """What a target measured on a machine, at a batch (the largest), in a variant."""
        wanted = batch or max(self.scope.batches)
        return [
            each
            for each in self.measured
            if each.point.place.target == target
            and each.point.place.machine == (machine or self.figure.machine[0])
            and each.point.variant == variant
            and each.point.batch == wanted
        ]


def values_of(row: Row) -> dict[str, float]:
    return {**row.metrics, **page.derived(row)}


def place_of(of: DrawnFrom, row: Row, case: str) -> str:
    several = len({each.point.case.name for each in of.measured}) > 1
    return f"{case} {row.step}" if several else row.step


def table_of(
    of: DrawnFrom, found: Sequence[Measured], names: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Place -> values of the metrics that it has."""
    table: dict[str, dict[str, float]] = {}
    for each in found:
        for row in each.rows:
            if not of.shows(row):
                continue
            values = values_of(row)
            had = {name: values[name] for name in names if name in values}
            table[place_of(of, row, each.point.case.name)] = had
    return table


def whole_of(each: Measured, names: Sequence[str]) -> dict[str, float]:
    """The metrics of all layers and passes together."""
    sums: dict[str, float] = {"operations": 0.0, "bytes": 0.0}
    for row in each.rows:
        for name, value in row.metrics.items():
            sums[name] = sums.get(name, 0.0) + value
        sums["operations"] += row.operations
        sums["bytes"] += row.bytes
    peaks = each.rows[0].peaks if each.rows else {}
    values = {**sums, **metrics.derived({**sums, **peaks})}
    return {name: values[name] for name in names if name in values}


def add_line(
    made: Drawn, each: Measured, case: str, place: str, quantity: str, unit: str, value: float
) -> None:
    where = each.point.place
    made.lines.append(
        (where.target, where.machine, case, each.point.batch, place, quantity, unit, value)
    )


def add_picture(
    made: Drawn, caption: str, places: Sequence[str], series: Series, unit: str, share: bool
) -> None:
    whole = 1.0 if share and _most(series) > SMALL_SHARE else None
    for title, shown, cut in halves(caption, places, series):
        made.pictures.append((title, figures.Plot(Grouped(shown, cut, unit, whole))))


def halves(
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


SMALL_SHARE = 0.5  # an axis to 1 would hide what is less throughout


def _most(series: Series) -> float:
    return max((value or 0.0 for values in series.values() for value in values), default=0.0)
