"""What figures show: values by label, at places side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    Series = Mapping[str, Sequence[float | None]]  # label -> a value for each place

WIDE = 100  # times the smallest value: an axis of values for more than that is logarithmic
NAMED = 3  # outliers of a correlation that have their names beside them
DOUBLED = 4  # times the smallest size: an axis of sizes for more than that is logarithmic


@dataclass(frozen=True)
class Picture:
    """What a figure shows. `interactive` and `still` draw each kind, by its name."""

    @property
    def kind(self) -> str:
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Grouped(Picture):
    """A group of bars at each place, one for each of the series; None leaves a gap.

    The axis is logarithmic where linear bars would hide the small ones, but not where values are
    shares of a `whole`: it goes from 0 to that. At `level`, a line goes across.
    """

    places: Sequence[str]
    series: Series
    unit: str
    whole: float | None = None
    level: float | None = None


@dataclass(frozen=True)
class Stacked(Picture):
    """One bar at each place, of the parts from below to above; `errors` are half of the interval
    of a part, at its end. `across` is what the places are values of."""

    places: Sequence[str]
    parts: Series
    unit: str
    errors: Series | None = None
    across: str = ""


@dataclass(frozen=True)
class Curves(Picture):
    """A line for each of the series over the values of an option, placed by what they measure,
    or one after the other where that is None; doublings have the same distance. `ideal` is a
    broken line behind them."""

    values: Sequence[str]
    sizes: Sequence[float] | None
    series: Series
    across: str
    unit: str
    ideal: Sequence[float] | None = None


@dataclass(frozen=True)
class Dotted(Picture):
    """A dot for each name's (x, y), x and y above 0, on logarithmic axes, with the lines y = x and
    x = `scale` y. The dots farthest from that line have their names beside them."""

    points: Mapping[str, tuple[float, float]]
    across: str
    up: str
    scale: float | None


@dataclass(frozen=True)
class Front(Picture):
    """A dot for each name's (x, y), and a line through the `best` of them, on logarithmic axes
    where values are wide apart."""

    points: Mapping[str, tuple[float, float]]
    best: Collection[str]
    across: str
    up: str


@dataclass(frozen=True)
class Roofline(Picture):
    """A dot for each name's (operations, bytes, seconds), all above 0, below the roof of a machine
    that does `operations` and moves `rate` bytes in a second; larger ones take more of the time.

    Williams, Waterman, Patterson: Roofline, CACM 52 (2009).
    """

    points: Mapping[str, tuple[float, float, float]]
    operations: float
    rate: float


def shares(parts: Series) -> dict[str, list[float | None]]:
    """The parts of each place divided by their sum: small layers are as readable as large ones."""
    sums = [sum(value or 0.0 for value in place) for place in zip(*parts.values())]
    return {
        label: [(value or 0.0) / total if total else None for value, total in zip(values, sums)]
        for label, values in parts.items()
    }


def is_wide(series: Series) -> bool:
    """Whether a linear axis would hide the small values."""
    shown = [value for values in series.values() for value in values if value]
    return bool(shown) and min(shown) > 0 and max(shown) > WIDE * min(shown)


def needs_log_axis(sizes: Sequence[float]) -> bool:
    """Whether a linear axis would crowd the small sizes, such as 4, 8, 16."""
    return min(sizes) > 0 and max(sizes) >= DOUBLED * min(sizes)


def outliers(points: Mapping[str, tuple[float, float]], scale: float | None) -> list[str]:
    """The names of the points that are farthest from the line x = `scale` y."""
    off = {
        name: abs(math.log(scale or 1.0) + math.log(y) - math.log(x))
        for name, (x, y) in points.items()
    }
    return sorted(off, key=lambda name: -off[name])[:NAMED]


def roofs(
    points: Mapping[str, tuple[float, float, float]], operations: float, rate: float
) -> tuple[dict[str, tuple[float, float]], tuple[float, float, float]]:
    """A roofline: name -> (operations per byte, operations in a second); the lowest x, that of
    the ridge, and the highest."""
    shown = {n: (o / b, o / t) for n, (o, b, t) in points.items() if o and b and t}
    ridge = operations / rate
    low = min(ridge / 4, *(x for x, _ in shown.values())) / 2
    high = max(ridge * 4, *(x for x, _ in shown.values())) * 2
    return shown, (low, ridge, high)
