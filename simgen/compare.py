"""Two float32 tensors side by side: how far apart, against a bound for each element."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORST = 5  # points to remember
# Upper ends of the classes of the ULP histogram; the last class holds what no number of ULPs tells:
# NaN or infinity on one side only.
ULP_CLASSES = (0, 1, 2, 4, 16, 256, 65536, 2**32)


@dataclass(frozen=True)
class Point:
    """One element of both tensors."""

    index: tuple[int, ...]
    a: float
    b: float
    reference: float
    bound: float

    @property
    def error(self) -> float:
        """Infinite where it is not a number."""
        error = abs(self.a - self.b)
        return error if error < np.inf else np.inf

    @property
    def ratio(self) -> float:
        """Of the error to its bound; infinite where no bound allows the error."""
        return self.error / self.bound if self.bound > 0 and self.error < np.inf else np.inf


@dataclass
class Comparison:
    """Filled slice by slice with `add`, so that a large tensor needs no large temporaries."""

    shape: tuple[int, ...]
    elements: int = 0
    outside: int = 0  # elements farther apart than their bound
    exact: int = 0  # elements whose bound is zero
    max_error: float = 0.0
    max_reference: float = 0.0
    max_ratio: float = 0.0  # of an error to its bound
    max_ulps: int = 0
    ulps: list[int] = field(default_factory=lambda: [0] * (len(ULP_CLASSES) + 1))
    special: int = 0  # NaN or infinity on one side only
    zeros: list[int] = field(default_factory=lambda: [0, 0, 0])  # of a, b, reference
    lows: list[float] = field(default_factory=lambda: [np.inf] * 3)  # least of a, b, reference
    highs: list[float] = field(default_factory=lambda: [-np.inf] * 3)
    worst: list[Point] = field(default_factory=list)

    def add(
        self,
        start: int,
        a: NDArray[Any],
        b: NDArray[Any],
        reference: NDArray[np.float64],
        bound: NDArray[np.float64],
    ) -> None:
        """Compare elements [start, start + a.size) of the flattened tensors.

        `a` and `b` may be float32 or float64; `bound` is absolute. An element whose error is not a
        number counts as outside, unless both sides are the same NaN or infinity; so does one whose
        bound is not a number.
        """
        a, b, reference, bound = (np.asarray(t).reshape(-1) for t in (a, b, reference, bound))
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(invalid="ignore"):
            error = np.abs(wide_a - wide_b)
        same = (wide_a == wide_b) | (np.isnan(wide_a) & np.isnan(wide_b))
        error[same] = 0.0
        special = ~same & ~np.isfinite(error)
        error[special] = np.inf
        self.elements += a.size
        self.exact += int(np.count_nonzero(bound == 0))
        outside = special | ~(same | (error <= bound))
        self.outside += int(np.count_nonzero(outside))
        self.special += int(np.count_nonzero(special))
        self.max_error = max(self.max_error, float(error.max(initial=0.0)))
        finite = np.abs(reference[np.isfinite(reference)])
        self.max_reference = max(self.max_reference, float(finite.max(initial=0.0)))
        usable = (bound > 0) & ~special
        ratio = np.divide(error, bound, out=np.where(error > 0, np.inf, 0.0), where=usable)
        self.max_ratio = max(self.max_ratio, float(ratio.max(initial=0.0)))
        self._add_ulps(a, b, same, special)
        self._add_range((wide_a, wide_b, reference))
        self._add_worst(start, ratio, error, (wide_a, wide_b, reference, bound))

    @property
    def passed(self) -> bool:
        return self.outside == 0

    def _add_ulps(
        self,
        a: NDArray[Any],
        b: NDArray[Any],
        same: NDArray[np.bool_],
        special: NDArray[np.bool_],
    ) -> None:
        distance = np.abs(_ordered(a) - _ordered(b))
        distance[same | special] = 0  # two NaNs may differ in their bits
        self.max_ulps = max(self.max_ulps, int(distance.max(initial=0)))
        classes = np.searchsorted(ULP_CLASSES, distance)
        classes[special] = len(ULP_CLASSES)
        for at, count in enumerate(np.bincount(classes, minlength=len(self.ulps))):
            self.ulps[at] += int(count)

    def _add_range(self, tensors: tuple[NDArray[np.float64], ...]) -> None:
        for at, values in enumerate(tensors):
            self.zeros[at] += int(np.count_nonzero(values == 0))
            self.lows[at] = min(self.lows[at], float(np.fmin.reduce(values, initial=np.inf)))
            self.highs[at] = max(self.highs[at], float(np.fmax.reduce(values, initial=-np.inf)))

    def _add_worst(
        self,
        start: int,
        ratio: NDArray[np.float64],
        error: NDArray[np.float64],
        columns: tuple[NDArray[np.float64], ...],
    ) -> None:
        # By ratio to the bound, and by error where the bound is zero.
        wrong = np.flatnonzero(error)
        if wrong.size > WORST:
            wrong = wrong[np.argpartition(ratio[wrong], wrong.size - WORST)[wrong.size - WORST :]]
        for at in wrong:
            index = tuple(int(i) for i in np.unravel_index(start + at, self.shape))
            self.worst.append(Point(index, *(float(column[at]) for column in columns)))
        self.worst.sort(key=lambda point: point.ratio, reverse=True)
        del self.worst[WORST:]


def suspicions(comparison: Comparison, which: int, untouched: int, guard_intact: bool) -> list[str]:
    """Why a tensor (0: a, 1: b) must not be trusted, whatever its errors say.

    A kernel that never ran leaves the canary, zeros or one constant; each of them is within
    tolerance of some reference.
    """
    found = []
    size = prod(comparison.shape)
    zeros, reference_zeros = comparison.zeros[which], comparison.zeros[2]
    if untouched:
        found.append(f"{untouched} of {size} elements were never written")
    if not guard_intact:
        found.append("something was written behind its end")
    if size >= 8 and zeros > 0.9 * size and zeros > reference_zeros + 0.1 * size:
        found.append(f"{zeros} of {size} elements are zero")
    elif size >= 8 and zeros == size:
        found.append("all elements are zero, in the reference too: this workload proves nothing")
    constant = comparison.lows[which] == comparison.highs[which]
    if size > 1 and zeros < size and constant and comparison.lows[2] != comparison.highs[2]:
        found.append(f"all elements are {comparison.lows[which]:g}")
    return found


def _ordered(values: NDArray[Any]) -> NDArray[np.int64]:
    """float32 as integers in the same order, neighbours one apart; -0 and 0 are equal."""
    with np.errstate(over="ignore"):
        bits = np.ascontiguousarray(values, dtype=np.float32).view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
