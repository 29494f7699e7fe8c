"""How well two targets agree over layers: what Accel-Sim's correlator reports of its kernels.

For a quantity with the values a_i on the target that is compared with and b_i on the other, over
the layers that both measured:

    Pearson's r      covariance(a, b) / (deviation(a) deviation(b)): do they grow together?
    plain error      100 / n sum |b_i - a_i| / |a_i|, the mean absolute percentage error
    scaled error     the same of s b_i, where s = sum a_i b_i / sum b_i^2 is the factor of least
                     squares: what is left when one is slower or larger throughout

Of a share, such as a hit rate, the plain error is 100 / n sum |b_i - a_i|, in percentage
points: relative to a hit rate near 0, any other would be off by thousands of per cent.

Outliers are layers that differ otherwise than most: with d_i = log(b_i / a_i), of shares
b_i - a_i, those where 0.6745 |d_i - median| exceeds 3.5 median absolute deviations (B. Iglewicz,
D. C. Hoaglin, "How to Detect and Handle Outliers", 1993; where that deviation is 0, the mean one
by 1.2533).

A simulator's times are not compared with a GPU's where the rates that were measured of it
(simgen.reports.rates) are far below what its machine is configured for: its layers wait for
something else.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simgen.ask.run import RunChoices
from simgen.bundle.result_names import target_of
from simgen.ground import metrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Points = Mapping[tuple[str, str], Mapping[str, float]]  # (bundle, layer and pass) -> metrics

FAR, NORMAL, MEAN = 3.5, 0.6745, 1.2533  # factors for outliers, defined above
MIN_LAYERS = 3  # layers: r of two is always 1 or -1
RATES = f"simgen rates {RunChoices.target.flag}"
HOST = "host"  # the CPU of this computer
HARDWARE = ("cuda", "hip")  # a simulator's error is that against a GPU, where both ran
ANY = "any"  # stands for a quantity, where there are too few layers for all of them
COLUMNS = (
    "quantity", "reference", "target", "layers", "pearson_r", "mean_absolute_percentage_error",
    "scale", "scaled_mean_absolute_percentage_error", "outliers", "note",
)  # fmt: skip


@dataclass(frozen=True)
class Correlation:
    """One quantity of two targets; None where the layers do not define it, and `note` says why."""

    quantity: str
    reference: str
    target: str
    layers: int  # layers that both measured
    pearson: float | None = None
    error: float | None = None  # per cent; of shares, percentage points
    scale: float | None = None
    scaled_error: float | None = None  # per cent
    outliers: tuple[str, ...] = ()  # layers and passes, those that are furthest off first
    note: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells as text, in the order of COLUMNS."""
        numbers = (self.pearson, self.error, self.scale, self.scaled_error)
        shown = ["" if n is None else f"{n:.9g}" for n in numbers]
        head = (self.quantity, self.reference, self.target, str(self.layers))
        return (*head, *shown, ", ".join(self.outliers), self.note)


def pairs(targets: Sequence[str]) -> list[tuple[str, str]]:
    """Every two targets, in the order given, but hardware first.

    A point of a sweep is compared with the same point of another target, or with its first result.
    """
    ordered = sorted(dict.fromkeys(targets), key=lambda name: target_of(name) not in HARDWARE)
    places = {name: at for at, name in enumerate(ordered)}
    firsts: dict[str, str] = {}
    for name in ordered:
        firsts.setdefault(target_of(name), name)
    found = set()
    for name, at in places.items():
        own = target_of(name)
        for target, first in firsts.items():
            other = places.get(f"{target}{name.removeprefix(own)}", places[first])
            if target != own:
                found.add((min(at, other), max(at, other)))
    return [(ordered[a], ordered[b]) for a, b in sorted(found)]


def tells_nothing(quantity: str, reference: str, target: str) -> bool:
    """Whether a quantity's times come from this computer's CPU, so that they say nothing
    of a GPU."""
    either = {target_of(reference), target_of(target)}
    return HOST in either and metrics.METRICS[quantity].kind is metrics.Kind.TIME


def is_of_gpu(each: Correlation) -> bool:
    """Whether a simulator is compared with a GPU."""
    return target_of(each.reference) in HARDWARE and target_of(each.target) not in HARDWARE


def correlations_of(
    measured: Mapping[str, Points], shortfalls: Mapping[str, str | None] | None = None
) -> list[Correlation]:
    """Every quantity that two targets both have, and `seconds` even if they have not.

    `measured` holds the metrics of each layer and pass by target; `shortfalls` what is known of
    the rates of simulated machines (Row.shortfall). Of two targets with too few common layers for
    any quantity there is one line that says so.
    """
    slow = shortfalls or {}
    found = []
    for reference, target in pairs(list(measured)):
        a, b = measured[reference], measured[target]
        quantities = [
            metric.name
            for metric in metrics.compared()
            if not tells_nothing(metric.name, reference, target)
        ]
        shared = {quantity: common(a, b, quantity) for quantity in quantities}
        if HOST in (target_of(reference), target_of(target)) and not any(shared.values()):
            continue
        if max(map(len, shared.values())) < MIN_LAYERS:
            found.append(_too_few(reference, target, a, b, max(map(len, shared.values()))))
            continue
        for quantity, values in shared.items():
            if values or quantity == "seconds":
                measures = correlate(quantity, reference, target, [*values.values()])
                measures = replace(measures, outliers=outliers(quantity, values))
                found.append(_trusted(measures, slow.get(target, "")))
    return found


def _trusted(found: Correlation, shortfall: str | None) -> Correlation:
    """Without its measures, where a simulated machine cannot take a GPU's time; with a word where
    nobody knows whether it can."""
    if not is_of_gpu(found) or metrics.METRICS[found.quantity].kind is not metrics.Kind.TIME:
        return found
    if shortfall:
        note = f"refused: {shortfall} ({RATES} {target_of(found.target)})"
        return Correlation(found.quantity, found.reference, found.target, found.layers, note=note)
    if shortfall is None:
        note = f"rates of its machine were not measured: {RATES} {target_of(found.target)}"
        return replace(found, note="; ".join(filter(None, (found.note, note))))
    return found


def outliers(
    quantity: str, values: Mapping[tuple[str, str], tuple[float, float]]
) -> tuple[str, ...]:
    """The layers that differ otherwise than most, with the bundle where there are several."""
    share = metrics.is_share(quantity)
    apart = {
        place: b - a if share else math.log(b) - math.log(a)
        for place, (a, b) in values.items()
        if share or min(a, b) > 0
    }
    if len(apart) < MIN_LAYERS:
        return ()
    middle = statistics.median(apart.values())
    off = {place: abs(value - middle) for place, value in apart.items()}
    usual = statistics.median(off.values()) / NORMAL or statistics.fmean(off.values()) * MEAN
    several = len({bundle for bundle, _ in values}) > 1
    found = [place for place in off if off[place] > FAR * usual > 0]
    found.sort(key=lambda place: -off[place])
    return tuple(" ".join(place) if several else place[1] for place in found)


def _too_few(reference: str, target: str, a: Points, b: Points, most: int) -> Correlation:
    """The line of two targets of which no quantity has enough layers."""
    both = sum(place in b for place in a)
    note = f"{_layers(both)}, {MIN_LAYERS} are needed"
    if both >= MIN_LAYERS:
        note = f"{_layers(both)}, no quantity that both count in {MIN_LAYERS} of them"
    return Correlation(ANY, reference, target, most, note=note)


def _layers(count: int) -> str:
    return f"{count or 'no'} common {'layer' if count == 1 else 'layers'}"


def common(a: Points, b: Points, quantity: str) -> dict[tuple[str, str], tuple[float, float]]:
    """The quantity's values in each layer where both have it, in the order of `a`."""
    return {
        place: (metrics[quantity], b[place][quantity])
        for place, metrics in a.items()
        if quantity in metrics and quantity in b.get(place, {})
    }


def correlate(
    quantity: str, reference: str, target: str, values: Sequence[tuple[float, float]]
) -> Correlation:
    """The measures of (reference, target) values. Layers in which the reference is 0 have no
    relative error and are left out of both errors."""
    count = len(values)
    if count < MIN_LAYERS:
        note = f"{_layers(count)} with it, {MIN_LAYERS} are needed"
        return Correlation(quantity, reference, target, count, note=note)
    a, b = ([float(pair[side]) for pair in values] for side in (0, 1))
    same = reference if len(set(a)) == 1 else target if len(set(b)) == 1 else None
    notes = [f"the same in all layers on {same}"] if same else []
    pearson = None if same else statistics.correlation(a, b)
    if metrics.is_share(quantity):
        apart = 100 * statistics.fmean(abs(y - x) for x, y in values)
        note = "; ".join([*notes, "error in percentage points"])
        return Correlation(quantity, reference, target, count, pearson, apart, note=note)
    zeros = a.count(0.0)
    if zeros:
        notes.append(f"errors without {zeros} of {count}, where {reference} has 0")
    squares = sum(y * y for y in b)
    scale = sum(x * y for x, y in values) / squares if squares else None
    return Correlation(
        quantity,
        reference,
        target,
        count,
        pearson,
        _error(values, 1.0),
        scale,
        None if scale is None else _error(values, scale),
        note="; ".join(notes),
    )


def _error(values: Sequence[tuple[float, float]], scale: float) -> float | None:
    """Mean absolute percentage error of `scale` times the second values."""
    relative = [abs(scale * y - x) / abs(x) for x, y in values if x]
    return 100 * statistics.fmean(relative) if relative else None
