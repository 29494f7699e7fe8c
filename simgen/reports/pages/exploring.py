"""What the points of a sweep say together: speed-up, which are worth having, what a setting does.

Points are beside each other where they do the same: the same workload with as many operations, on
the same target, of the same layers. The first of them is the base point, unless another is named.

    speed-up      time of the base point / time of the point
    Pareto        no other point is as good in all objectives and better in one. The objectives are
                  the time and every option of the hardware that is swept and has a size, of which
                  less is cheaper; where there is none, or no point has them all, the time and the
                  bytes of DRAM. A point that lacks an objective is beside the front: a result of
                  default options, or one whose bytes were not counted.
    sensitivity   of a setting: points that differ in it alone, each against the one with its first
                  value; the geometric mean of their rates (operations in a second) divided, the
                  least and the most. The exponent e is the mean of log(rates divided) / log(values
                  divided): rate ~ value^e.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.bundle import result_names
from simgen.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simgen.reports.pages.store import StoredPoint

DRAM = "dram_bytes"


@dataclass(frozen=True)
class ComparedPoint:
    """A point among those that do the same."""

    point: StoredPoint
    base: StoredPoint
    objectives: Mapping[str, float]  # less is better
    lacking: tuple[str, ...]  # objectives of others that it does not have
    pareto: bool

    @property
    def speed_up(self) -> float | None:
        """Over the base point; None where one has no time."""
        both = self.point.seconds and self.base.seconds
        return self.base.seconds / self.point.seconds if both else None


@dataclass(frozen=True)
class Sensitivity:
    """What one value of a setting does, against its first one."""

    workload: str
    target: str
    setting: str
    value: str
    against: str
    pairs: int  # pairs of points that differ in nothing else
    mean: float  # rates divided, geometric mean
    least: float
    most: float
    exponent: float | None  # None of words


def compared(found: Sequence[StoredPoint], baseline: str | None = None) -> list[ComparedPoint]:
    """All points, in groups that do the same, in the order of their first ones.

    Raises:
        UsageError: the baseline is none of them, or several.
    """
    base = None if baseline is None else _named(found, baseline)
    groups: dict[tuple[object, ...], list[StoredPoint]] = {}
    for point in found:
        groups.setdefault(_same(point), []).append(point)
    return [
        each
        for group in groups.values()
        for each in _compare(group, base if base in group else group[0])
    ]


def _same(point: StoredPoint) -> tuple[object, ...]:
    return (point.workload, point.target, point.operations, point.parts)


def _compare(group: Sequence[StoredPoint], base: StoredPoint) -> list[ComparedPoint]:
    hardware = _sizes(group)
    objectives = {id(point): _objectives(point, hardware) for point in group}
    timed = [point for point in group if point.seconds]
    every = dict.fromkeys(name for point in timed for name in objectives[id(point)])
    lacking = {id(o): tuple(name for name in every if name not in objectives[id(o)]) for o in group}
    whole = [point for point in timed if not lacking[id(point)]]
    return [
        ComparedPoint(
            point,
            base,
            objectives[id(point)],
            lacking[id(point)],
            bool(point.seconds)
            and not lacking[id(point)]
            and not any(_better(objectives[id(o)], objectives[id(point)]) for o in whole),
        )
        for point in group
    ]


def beside_fronts(points: Sequence[ComparedPoint]) -> list[str]:
    """What is to be said of points that no front can have, a line for each group and reason."""
    found: dict[tuple[int, tuple[str, ...]], list[ComparedPoint]] = {}
    for each in points:
        if each.point.seconds and each.lacking:
            found.setdefault((id(each.base), each.lacking), []).append(each)
    lines = []
    for (base, lacking), group in found.items():
        whole = sum(id(each.base) == base and bool(each.point.seconds) for each in points)
        first = f"{group[0].point.bundle} on {group[0].point.result}"
        told = f"{len(group)} of {whole} points say no {', '.join(lacking)}, {first} the first"
        lines.append(f"Pareto: {told} of them; they are beside the front")
    return lines


def _sizes(group: Sequence[StoredPoint]) -> list[str]:
    """The options of the run that have several values, all of them sizes.

    None where no point with a time has them all: each alone would be half of the hardware.
    """
    options = [result_names.options_of(point.result) for point in group if point.seconds]
    names = dict.fromkeys(name for each in options for name in each)
    made = []
    for name in names:
        values = {each[name] for each in options if name in each}
        if len(values) > 1 and all(result_names.magnitude(value) is not None for value in values):
            made.append(name)
    return made if any(set(made) <= set(each) for each in options) else []


def _objectives(point: StoredPoint, hardware: Sequence[str]) -> dict[str, float]:
    made = {"seconds": point.seconds}
    if not hardware and DRAM in point.metrics:
        made[DRAM] = point.metrics[DRAM]
    for name in hardware:
        if name in point.settings:
            made[name] = result_names.magnitude(point.settings[name]) or 0.0
    return made


def _better(a: Mapping[str, float], b: Mapping[str, float]) -> bool:
    """`a` is nowhere worse than `b`, and somewhere better."""
    return all(a[name] <= b[name] for name in b) and any(a[name] < b[name] for name in b)


def _named(found: Sequence[StoredPoint], word: str) -> StoredPoint:
    names = [(f"{point.bundle}:{point.result}", point.result) for point in found]
    there = [point for point, both in zip(found, names) if word in both]
    if len(there) == 1:
        return there[0]
    fact = "several bundles have it" if there else "no such result"
    cure = (
        f"write {there[0].bundle}:{word}"
        if there
        else did_you_mean(word, (name for both in names for name in both))
    )
    raise UsageError(f"--baseline {word}: {fact}; {cure}")


# ------------------------------------------------------------------ sensitivity


def sensitivity(found: Sequence[StoredPoint]) -> list[Sensitivity]:
    """Sensitivity to every setting with several values, by workload and target."""
    groups: dict[tuple[object, ...], list[StoredPoint]] = {}
    for point in found:
        if point.rate > 0:
            groups.setdefault((point.workload, point.target, point.parts), []).append(point)
    return [each for group in groups.values() for each in _of_group(group)]


def _of_group(group: Sequence[StoredPoint]) -> Iterator[Sensitivity]:
    settings = dict.fromkeys(name for point in group for name in point.settings)
    for name in settings:
        values = list(dict.fromkeys(p.settings[name] for p in group if name in p.settings))
        rest: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
        for point in group:
            if name in point.settings:
                others = tuple(sorted((k, v) for k, v in point.settings.items() if k != name))
                rest.setdefault(others, {})[point.settings[name]] = point.rate
        for value in values[1:]:
            ratios = [
                rates[value] / rates[values[0]]
                for rates in rest.values()
                if value in rates and values[0] in rates
            ]
            if ratios:
                yield _sensitivity(group[0], name, value, values[0], ratios)


def _sensitivity(
    of: StoredPoint, name: str, value: str, first: str, ratios: Sequence[float]
) -> Sensitivity:
    logs = [math.log(ratio) for ratio in ratios]
    mean = sum(logs) / len(logs)
    sizes = result_names.magnitude(value), result_names.magnitude(first)
    exponent = None
    if sizes[0] and sizes[1] and sizes[0] != sizes[1]:
        exponent = mean / math.log(sizes[0] / sizes[1])
    return Sensitivity(
        of.workload, of.target, name, value, first, len(ratios), math.exp(mean), min(ratios),
        max(ratios), exponent,
    )  # fmt: skip
