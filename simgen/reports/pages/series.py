"""What figures draw: values by label, at places side by side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Series = Mapping[str, Sequence[float | None]]  # label -> a value for each place

WIDE = 100  # times the smallest value: an axis of values for more than that is logarithmic
NAMED = 3  # outliers of a correlation that have their names beside them
DOUBLED = 4  # times the smallest size: an axis of sizes for more than that is logarithmic


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
