"""Two tensors of one type side by side: how far apart, against a bound for each element, and all
together against the spread of honest roundings (simgen/ground/numerics/spread.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.ground.dtypes import DType, Special
from simgen.ground.numerics import storing
from simgen.ground.numerics.spread import Spread, peak_limit, statistic_limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

WORST = 5  # points to remember
# Upper ends of the classes of the ULP histogram; the last class holds what no number of ULPs tells:
# NaN or infinity on one side only.
ULP_CLASSES = (0, 1, 2, 4, 16, 256, 65536, 2**32)
OTHER_ORDER = 8  # tolerances, and units in the last place
NEAR = 2.0**-10  # share that roundings may be of what an overflow has left
MOSTLY = 0.9  # share of a tensor that is not zero by chance
NO_BOUND = "rounding has no bound there"
MAX_ROUNDINGS = 8  # roundings that may add to a value, or take from it


@dataclass(frozen=True)
class Beyond:
    """Elements before whose result a number is out of float32's range, and why.

    Attributes:
        mask: these elements.
        cause: what is out of range, in half a line.
        values: what is left of the elements of `mask`; NaN, or None, is anything.
        large: elements whose sums on the way may overflow, to infinity or NaN.
    """

    mask: NDArray[np.bool_]
    cause: str
    values: NDArray[np.float64] | None = None
    large: NDArray[np.bool_] | None = None

    def of(self, numbers: NDArray[np.int64]) -> Beyond:
        """The same for some of the elements."""
        values = None if self.values is None else self.values.reshape(-1)[numbers]
        large = None if self.large is None else self.large.reshape(-1)[numbers]
        return Beyond(self.mask.reshape(-1)[numbers], self.cause, values, large)

    def allows(
        self,
        found: NDArray[np.float64],
        reference: NDArray[np.float64],
        bound: NDArray[np.float64],
        dtype: DType,
    ) -> NDArray[np.bool_]:
        """Elements that may be what an overflow or underflow has left: it, stored in the type, 0,
        infinity or NaN, or a number between it and the reference, where the machine has subnormal
        numbers."""
        infinite = ~np.isfinite(found)
        allowed: NDArray[np.bool_] = self.mask
        if self.values is not None:
            with np.errstate(all="ignore"):
                off, gap = np.abs(found - self.values), np.abs(self.values - reference) * (1 + NEAR)
                lost = storing.rounding(self.values, dtype)
                near = off <= bound + np.abs(self.values) * NEAR + lost
                gap += lost
                near |= np.isfinite(gap) & (off <= gap) & (np.abs(found - reference) <= gap)
                near |= np.isnan(self.values)
            allowed = allowed & (near | infinite | (found == 0))
        return allowed if self.large is None else allowed | (self.large & infinite)


@dataclass(frozen=True)
class WorstPoint:
    """One element of both tensors."""

    index: tuple[int, ...]
    a: float  # whole numbers of 64 bits as int
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
        """Ratio of the error to its bound; infinite where no bound allows the error."""
        return self.error / self.bound if self.bound > 0 and self.error < np.inf else np.inf


@dataclass
class Comparison:
    """Filled slice by slice with `add`, so that a large tensor needs no large temporaries."""

    shape: tuple[int, ...]
    dtype: DType = DType.F32
    by_reference: bool = False  # bounds follow a user's expression, not the kernel's text
    elements: int = 0
    outside: int = 0  # elements farther apart than their bound
    exact: int = 0  # elements whose bound is zero
    max_error: float = 0.0
    max_reference: float = 0.0
    max_ratio: float = 0.0  # largest ratio of an error to its bound
    max_ulps: int = 0
    ulps: list[int] = field(default_factory=lambda: [0] * (len(ULP_CLASSES) + 1))
    special: int = 0  # NaN or infinity on one side only
    overflowed: int = 0  # infinite, as they must be, or NaN in a type that has no infinity
    nans: int = 0  # NaN on both sides
    finite: int = 0  # finite elements of the reference, in the type
    free: int = 0  # elements that nothing is known of, and that are not what the reference says
    causes: dict[str, int] = field(default_factory=dict)  # why -> elements of these
    zeros: list[int] = field(default_factory=lambda: [0, 0, 0])  # zeros in a, b and the reference
    rounded: list[int] = field(default_factory=lambda: [0, 0])  # zeros of a, b that bounds allow
    # What one value in all elements would have to lie between, to be within all bounds.
    window: list[float] = field(default_factory=lambda: [-np.inf, np.inf])
    lows: list[float] = field(default_factory=lambda: [np.inf] * 3)  # least of a, b, reference
    highs: list[float] = field(default_factory=lambda: [-np.inf] * 3)
    worst: list[WorstPoint] = field(default_factory=list)
    _judged: int = 0  # elements with a spread
    _shared: int = 1
    # Errors as stored or before, and axis, or -1 for the whole -> elements of each part, and
    # sums of (error / sigma)^2.
    _parts: dict[tuple[int, int], tuple[NDArray[np.float64], NDArray[np.float64]]] = field(
        default_factory=dict
    )
    _largest: float = 0.0  # |error| / sigma
    _spreads: bool = False

    def add(
        self,
        start: int,
        a: NDArray[Any],
        b: NDArray[Any],
        reference: NDArray[np.float64],
        bound: NDArray[np.float64],
        spread: Spread | None = None,
        apart: NDArray[np.float64] | float = 0.0,
        mask: NDArray[np.bool_] | None = None,
        beyond: Callable[[], Beyond | None] | None = None,
    ) -> None:
        """Compare elements [start, start + a.size) of the flattened tensors; those of `mask`.

        `a` and `b` may be of the type or float64, of 64 bits `reference` too, and are then compared
        as whole numbers; `bound` is absolute. An element whose error is
        not a number counts as outside, unless both sides are the same NaN or infinity, or one is
        the infinity, or NaN, to which the type rounds the other. One whose bound is infinite or
        not a number is never outside: nothing is known of it. Nor is one that `beyond` allows,
        which is asked where there are elements outside.
        `spread` is that of a - b about `apart`, what a right a - b is.
        """
        a, b, reference, bound = (np.asarray(t).reshape(-1) for t in (a, b, reference, bound))
        numbers = np.arange(a.size) if mask is None else np.flatnonzero(mask)
        if numbers.size < a.size:
            a, b, reference, bound = a[numbers], b[numbers], reference[numbers], bound[numbers]
            apart = np.asarray(apart).reshape(-1)[numbers] if np.ndim(apart) else apart
            spread = spread and spread.part(numbers)
        with np.errstate(invalid="ignore"):  # signalling NaNs, and infinities on both sides
            wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
            error = np.abs(wide_a - wide_b)
        nans = np.isnan(wide_a) & np.isnan(wide_b)
        same = (wide_a == wide_b) | nans
        columns = wide_a, wide_b
        if self.dtype.is_long and {a.dtype.kind, b.dtype.kind} <= {"i", "u"}:
            error, same, columns = _apart(a, b, self.dtype), a == b, (a, b)
        reference = reference.astype(np.float64)
        if not np.isfinite(wide_a).all() or not np.isfinite(wide_b).all():
            over = _overflowed(self.dtype, wide_a, wide_b, reference, bound)
            same |= over
            infinite = np.isinf(wide_a) | np.isinf(wide_b)
            self.overflowed += int(np.count_nonzero(over | same & infinite))
            self.nans += int(np.count_nonzero(nans & ~over))
        with np.errstate(invalid="ignore"):
            wrong = ~same & ~((error <= bound) & np.isfinite(error))
            limit = self._limit(bound, spread)
            small = (np.abs(reference) <= limit) & (np.abs(reference) >= self.dtype.vanishing)
            lost = [(wide == 0) & small & np.isfinite(limit) for wide in (wide_a, wide_b)]
            doubted = wrong | (lost[0] | lost[1] if mostly(lost[0]) or mostly(lost[1]) else False)
            free = self._add_free(doubted, wide_a, reference, bound, numbers, beyond)
        for at, zeros in enumerate(lost):
            self.rounded[at] += int(np.count_nonzero(zeros & ~free))
        same |= free
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
        self._add_ulps(a, b, error, same, special)
        known = ~free if free.any() else slice(None)
        self._add_range((wide_a[known], wide_b[known], reference[known]))
        self._add_window(reference, limit, free)
        self._add_worst(start + numbers, ratio, error, (*columns, reference, bound))
        if spread:
            apart = np.asarray(apart).reshape(-1)[known] if np.ndim(apart) else apart
            places = start + numbers[known]
            self._add_spread(wide_a[known], wide_b[known], spread.part(known), apart, places)

    @property
    def statistic(self) -> float | None:
        """Root mean square of error / sigma, over its limit, in the whole or in a part of it; None
        where no spread was given."""
        if not self._judged:
            return 0.0 if self._spreads else None
        found = 0.0
        for counts, squares in self._parts.values():
            roots = np.sqrt(squares / np.maximum(counts, 1))
            limits = statistic_limit(counts, self._shared, counts.size)
            found = max(found, float(np.max(roots / limits)))
        return found

    @property
    def peak(self) -> float | None:
        """The largest |error| / sigma, over its limit; None where no spread was given."""
        return self._largest / peak_limit(self._judged) if self._spreads else None

    @property
    def passed(self) -> bool:
        """No element outside of its bound, and both judges of the whole tensor within limits."""
        return self.outside == 0 and (self.statistic or 0.0) <= 1 and (self.peak or 0.0) <= 1

    @property
    def is_other_order(self) -> bool:
        """Whether errors are those of a sum or product in another order than the reference's:
        few tolerances, and few units in the last place of the largest value."""
        return (
            self.by_reference
            and not self.passed
            and not self.special
            and not self.dtype.is_narrow
            and self.max_ratio <= OTHER_ORDER
            and self.max_error <= OTHER_ORDER * 2 * self.dtype.roundoff * self.max_reference
        )

    def _add_free(
        self,
        outside: NDArray[np.bool_],
        found: NDArray[np.float64],
        reference: NDArray[np.float64],
        bound: NDArray[np.float64],
        numbers: NDArray[np.int64],
        beyond: Callable[[], Beyond | None] | None,
    ) -> NDArray[np.bool_]:
        """The elements that nothing is known of, where they are not what the reference says."""
        free = outside & ~np.isfinite(bound)
        self._add_cause(NO_BOUND, free)
        outside = outside & ~free
        made = beyond() if beyond and outside.any() else None
        if made:
            over = outside & made.of(numbers).allows(found, reference, bound, self.dtype)
            self._add_cause(made.cause, over)
            free |= over
        self.free += int(np.count_nonzero(free))
        return free

    def _add_cause(self, cause: str, elements: NDArray[np.bool_]) -> None:
        if count := int(np.count_nonzero(elements)):
            self.causes[cause] = self.causes.get(cause, 0) + count

    def _add_spread(
        self,
        a: NDArray[np.float64],
        b: NDArray[np.float64],
        spread: Spread,
        apart: NDArray[np.float64] | float,
        places: NDArray[np.int64],
    ) -> None:
        # What is exact has a bound of zero, and what is not finite is outside or the same.
        with np.errstate(all="ignore"):
            error = np.abs(a - b - np.reshape(apart, -1))
            series = [error / spread.sigma]
            if spread.stored is not None:  # what it was before it was stored, at least
                rest = np.maximum(error - spread.stored, 0.0)
                series.append(rest / (spread.sigma - spread.stored))
        self._spreads = True
        self._judged += int(np.count_nonzero(np.isfinite(series[0])))
        self._shared = max(self._shared, spread.shared)
        for at, z in enumerate(series):
            finite = np.isfinite(z)
            self._largest = max(self._largest, float(np.max(z, initial=0.0, where=finite)))
            self._add_parts(at, np.square(z[finite]), places[finite])

    def _add_parts(
        self, series: int, squares: NDArray[np.float64], places: NDArray[np.int64]
    ) -> None:
        """Count elements and sums for the whole and for each sample, channel and column."""
        rank = len(self.shape)
        for axis in sorted({-1, *(each for each in (0, 1, rank - 1) if 0 <= each < rank)}):
            extent = self.shape[axis] if axis >= 0 else 1
            if axis >= 0 and (extent < 2 or prod(self.shape) < MAX_ROUNDINGS * extent):
                continue  # the whole, or elements by themselves, which `peak` judges
            behind = prod(self.shape[axis + 1 :]) if axis >= 0 else 1
            at = places // behind % extent if extent > 1 else np.zeros_like(places)
            counts, sums = self._parts.get((series, axis), (np.zeros(extent), np.zeros(extent)))
            counts = counts + np.bincount(at, minlength=extent)
            sums = sums + np.bincount(at, squares, extent)
            self._parts[series, axis] = counts, sums

    def _add_ulps(
        self,
        a: NDArray[Any],
        b: NDArray[Any],
        error: NDArray[np.float64],
        same: NDArray[np.bool_],
        special: NDArray[np.bool_],
    ) -> None:
        if self.dtype.is_long:
            distance = np.minimum(error, 2.0**62).astype(np.int64)
        else:
            distance = np.abs(_ordered(a, self.dtype) - _ordered(b, self.dtype))
        distance[same | special] = 0  # two NaNs may differ in their bits
        self.max_ulps = max(self.max_ulps, int(distance.max(initial=0)))
        classes = np.searchsorted(ULP_CLASSES, distance)
        classes[special] = len(ULP_CLASSES)
        for at, count in enumerate(np.bincount(classes, minlength=len(self.ulps))):
            self.ulps[at] += int(count)

    def _add_range(self, tensors: tuple[NDArray[np.float64], ...]) -> None:
        for at, values in enumerate(tensors):
            zero = np.abs(values) < self.dtype.vanishing if at == 2 else values == 0
            self.zeros[at] += int(np.count_nonzero(zero))
            self.lows[at] = min(self.lows[at], float(np.fmin.reduce(values, initial=np.inf)))
            high = float(np.fmax.reduce(values, initial=-np.inf))
            if at < 2 and np.isnan(values).any():  # what overflows is no constant, as infinity
                high = np.inf
            self.highs[at] = max(self.highs[at], high)

    def _limit(self, bound: NDArray[np.float64], spread: Spread | None) -> NDArray[np.float64]:
        """What the error of an element may be, for itself and as the peak of the tensor."""
        if spread is None:
            return bound
        peak = peak_limit(prod(self.shape)) * spread.sigma.reshape(-1)
        limit: NDArray[np.float64] = np.fmin(bound, peak)
        return limit

    def _add_window(
        self,
        reference: NDArray[np.float64],
        bound: NDArray[np.float64],
        free: NDArray[np.bool_],
    ) -> None:
        finite = (np.abs(reference) < self.dtype.overflow) & ~free
        if not finite.all():
            reference, bound = reference[finite], bound[finite]
        self.finite += reference.size
        low, high = self.window
        self.window = [
            max(low, float(np.max(reference - bound, initial=-np.inf))),
            min(high, float(np.min(reference + bound, initial=np.inf))),
        ]

    @property
    def is_constant(self) -> bool:
        """Whether all elements of the reference are one value, but for a few roundings."""
        low, high = self.lows[2], self.highs[2]
        rounded = MAX_ROUNDINGS * self.dtype.roundoff * max(abs(low), abs(high))
        return high - low <= rounded + self.dtype.vanishing

    def _add_worst(
        self,
        numbers: NDArray[np.int64],
        ratio: NDArray[np.float64],
        error: NDArray[np.float64],
        columns: tuple[NDArray[Any], ...],
    ) -> None:
        # By ratio to the bound, and by error where the bound is zero.
        wrong = np.flatnonzero(error)
        if wrong.size > WORST:
            wrong = wrong[np.argpartition(ratio[wrong], wrong.size - WORST)[wrong.size - WORST :]]
        for at in wrong:
            index = tuple(int(i) for i in np.unravel_index(numbers[at], self.shape))
            self.worst.append(WorstPoint(index, *(column[at].item() for column in columns)))
        self.worst.sort(key=lambda point: point.ratio, reverse=True)
        del self.worst[WORST:]


def suspicions(comparison: Comparison, which: int, untouched: int, guard_intact: bool) -> list[str]:
    """Why a tensor (0: a, 1: b) is wrong, whatever its errors say.

    A kernel that never ran leaves the canary, zeros or one constant; each of them is within
    tolerance of some reference. Where a type has one NaN of a sign, the canary is what overflows
    leave too: where all that are NaN must or may be, it says nothing.
    """
    found: list[str] = []
    size = comparison.elements - comparison.free
    if comparison.dtype.special in (Special.FINITE, Special.UNSIGNED_ZERO):
        known = comparison.overflowed + comparison.nans + comparison.free
        untouched = 0 if comparison.outside == 0 and untouched <= known else untouched
    zeros = comparison.zeros[which]
    if untouched:
        found.append(f"{untouched} of {size} elements were never written")
    if not guard_intact:
        found.append("something was written behind its end")
    if _too_many(comparison, which, zeros - comparison.rounded[which]):
        found.append(f"{zeros} of {size} elements are zero")
    low = comparison.lows[which]
    constant = low == comparison.highs[which] and np.isfinite(low)
    if size > 1 and zeros < size and constant and not comparison.is_constant:
        found.append(f"all elements are {low:g}")
    return found


def mostly(elements: NDArray[np.bool_]) -> bool:
    """Whether so many elements are zero that a kernel may not have written them."""
    return bool(np.count_nonzero(elements) > MOSTLY * elements.size)


def _too_many(comparison: Comparison, which: int, unexplained: int) -> bool:
    """Whether most elements of a tensor are zero, and `unexplained` ones are too many."""
    size = comparison.elements - comparison.free
    more = unexplained > comparison.zeros[2] + (1 - MOSTLY) * size
    return size >= 8 and comparison.zeros[which] > MOSTLY * size and more


def proves_nothing(comparison: Comparison) -> str:
    """Why a tensor that is right cannot tell a working kernel from a dead one; empty if it can.

    A dead kernel writes zeros, one value, or NaN. So a tensor proves something only if no one value
    in all of its elements would be within their bounds. Of a single element, that is said of zero.
    """
    if comparison.free:
        cause = max(comparison.causes, key=lambda each: comparison.causes[each])
        which = f", in {comparison.free} of {comparison.elements} elements"
        return cause + (which if comparison.free < comparison.elements else "")
    low, high = comparison.window
    zero_passes = low <= 0 <= high
    if not comparison.elements:
        whole = prod(comparison.shape)
        return "none of its elements was computed" if whole else "it has no elements"
    if not comparison.finite:
        most = comparison.max_reference
        size = f", up to {most:.4g} in size," if most else ""
        return f"every element of the reference{size} overflows {comparison.dtype.numpy} or is NaN"
    if comparison.zeros[2] == comparison.finite:
        most = comparison.max_reference
        if most and np.isfinite(most):
            kind = comparison.dtype.numpy
            return f"every element of the reference, up to {most:.4g} in size, underflows {kind}"
        return "every element of the reference is 0"
    if comparison.elements > 1 and comparison.is_constant:
        return f"every element of the reference is {comparison.lows[2]:.6g}"
    for side, zeros in enumerate(comparison.zeros[:2]):
        if not zero_passes and _too_many(comparison, side, zeros):
            return f"{zeros} of {comparison.elements} elements are zero, and their bounds allow it"
    if zero_passes or (comparison.elements > 1 and low <= high):
        return f"{0.0 if zero_passes else (low + high) / 2:.6g} in every element would pass too"
    return ""


def remarks(comparison: Comparison) -> list[str]:
    """What is right and yet worth a word."""
    found = []
    if n := comparison.overflowed:
        words = ("element overflows", "it must") if n == 1 else ("elements overflow", "they must")
        found.append(f"{n} {words[0]} {comparison.dtype.numpy}, as {words[1]}")
    if n := comparison.nans:
        found.append(f"{n} {'element is' if n == 1 else 'elements are'} NaN, on both sides")
    return found


def _apart(a: NDArray[Any], b: NDArray[Any], dtype: DType) -> NDArray[np.float64]:
    """How far whole numbers of 64 bits are apart: their difference has room in 64 bits."""
    bits = [np.ascontiguousarray(each, dtype.array).view("<u8") for each in (a, b)]
    apart: NDArray[np.uint64] = np.where(a >= b, bits[0] - bits[1], bits[1] - bits[0])
    return apart.astype(np.float64)


def _overflowed(
    dtype: DType,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    reference: NDArray[np.float64],
    bound: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Where a machine may, or must, write an infinity of the reference's sign, and one side is.

    A NaN stands for both where the type has no infinity.
    """
    beyond = np.isinf if dtype.special is Special.IEEE else np.isnan
    right = (beyond(a) | beyond(b)) & np.isfinite(bound)
    right &= np.abs(reference) + bound >= dtype.overflow
    for values in (a, b):
        large = (np.sign(values) == np.sign(reference)) & (np.abs(values) + bound >= dtype.overflow)
        right &= large | np.isnan(values) & beyond(values)
    return right


def _ordered(values: NDArray[Any], dtype: DType) -> NDArray[np.int64]:
    """Numbers as integers in the same order, neighbours one apart; -0 and 0 are equal."""
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = np.ascontiguousarray(values, dtype.array)
    if not dtype.is_float:
        return numbers.astype(np.int64)
    bits = numbers.view(f"<i{dtype.nbytes}").astype(np.int64)
    return np.where(bits < 0, -(bits & (2 ** (8 * dtype.nbytes - 1) - 1)), bits)
