"""Which work-groups of a launch stand for all of them, and what all would take.

Groups begin in the order of their numbers, x fastest, and a machine holds so many at once: a wave.
A launch is a first wave, which finds cold caches and begins all at once, many waves, and a last one
that leaves units idle. A sample is a small launch of the same parts:

    the first two waves; four in the middle, or in each of as many equal parts; what is left at the
    end

so that what it lacks are whole waves from between. In the parts, places are spread by the golden
ratio: a launch often does the same again after each row of its grid, and equal distances would
meet one phase of that alone. A wave lasts from the begin of its first group to that of the next
wave's: in a full machine, a group begins where another one ends. After each gap the first wave
finds nothing of what its neighbours would have left in the caches, and its groups end in the time
of the second one; these two run for those behind them, and count as two that are missing. Where
enough others are seen, the first two of the launch stand for none that is missing, too. So

    all = sampled - waves after gaps + (missing + 2 gaps) * mean(other waves but the first)

with Student's prediction interval of a sum of so many waves from those that were seen, and from
the means of those that were seen side by side, whichever is wider. Few waves may be alike by
chance, so that their deviation is taken as no less than that of as many groups drawn at random.

What belongs to a group (its instructions) is counted by strata instead: groups at the same borders
of the grid do the same.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod, sqrt
from typing import TYPE_CHECKING, Annotated

from simgen.ground.storage.schema import Within

if TYPE_CHECKING:
    Grid = tuple[int, int, int]
    Stratum = tuple[int, int, int]

FIRST = 2  # waves at the begin: the first one is not like the others
CLUSTER = 4  # waves at another place
UNLIKE = 2  # the first waves, which differ from the others
ENOUGH = 3  # waves that stand for others, without the second one of the launch
GOLDEN = (sqrt(5) - 1) / 2
MIN_WAVES = 2 * (FIRST + CLUSTER)  # whole waves of a launch that can have a sample
CONFIDENCE = 0.95
MOST_PARTS = 64
Number = Annotated[int, Within(0, 2**40)]
Range = tuple[Number, Number]  # the first work-group, and how many


@dataclass(frozen=True)
class Sample:
    """The work-groups of a launch that run."""

    launch: Annotated[int, Within(0, 2**31)]  # index in the workload
    wave: Annotated[int, Within(1, 2**31)]  # work-groups that the machine holds at once
    ranges: tuple[Range, ...]  # in order
    # For a launch on a part of the machine (`of_part`): the part (8: one eighth); places in the
    # arena (offset, bytes) that are in L2 and in its TLB at the beginning, least recently used
    # first; whether its code is cached.
    part: Annotated[int, Within(1, MOST_PARTS)] = 1
    warm: tuple[Range, ...] = ()
    pages: tuple[Range, ...] = ()
    code: bool = False
    # For results: metric -> half of the 95% confidence interval.
    errors: Mapping[str, Annotated[float, Within(0)]] = field(default_factory=dict)

    @property
    def groups(self) -> int:
        return sum(count for _, count in self.ranges)

    def numbers(self) -> Iterator[int]:
        """The work-groups in order."""
        for first, count in self.ranges:
            yield from range(first, first + count)

    def fits(self, grid: Grid) -> bool:
        """Whether it is one of such a grid of work-groups, as `ranges` or `of_part` makes them."""
        if self.part > 1:
            return (self.ranges, self.wave) == of_part(grid, self.part)
        groups = prod(grid)
        *waves, last = self.ranges or ((0, 0),)
        ends = [0, *(first + count for first, count in waves)]
        ordered = all(end <= first for end, (first, _) in zip(ends, self.ranges))
        whole = all(count and count % self.wave == 0 for _, count in waves)
        return (
            ordered
            and whole
            and 0 < last[1] <= self.wave
            and sum(map(len, self._seen())) > 1
            and (sum(last) == groups and (groups - self.groups) % self.wave == 0)
        )

    def after_gaps(self) -> list[int]:
        """Whole waves that run and follow a gap, counted from 0."""
        return [at for place in self._places() for at in place[:UNLIKE]]

    def _places(self) -> list[range]:
        """The whole waves that run at each place but the begin, counted from 0 on."""
        counts = [count // self.wave for _, count in self.ranges[:-1]]
        ends = list(itertools.accumulate(counts))
        return list(itertools.starmap(range, itertools.pairwise(ends)))

    def _seen(self) -> list[list[int]]:
        """The waves that stand for those that do not run, by their places."""
        found = [list(place[UNLIKE:]) for place in self._places()]
        return found if sum(map(len, found)) > ENOUGH else [[1], *found]

    def missing(self, groups: int) -> int:
        """How many waves they stand for."""
        return (groups - self.groups) // self.wave + len(self.after_gaps())

    def figure(self, groups: int, counted: Sequence[float], variation: float) -> Extrapolated:
        """One of a whole launch of so many work-groups.

        `counted` has it at the begin of each wave, at that of the groups that are left, and at the
        end; `variation` is the relative deviation of the groups' times.
        """
        waves = [after - before for before, after in itertools.pairwise(counted[:-1])]
        places = [[waves[at] for at in place] for place in self._seen() if place]
        seen = list(itertools.chain(*places))
        mean, missing = sum(seen) / len(seen), self.missing(groups)
        deviation = max(_deviation(seen), mean * variation / sqrt(self.wave))
        half = student(len(seen) - 1) * deviation * sqrt(missing**2 / len(seen) + missing)
        if len(places) > ENOUGH:
            between = _deviation([sum(place) / len(place) for place in places])
            own = missing * deviation**2  # variance of the missing waves
            wider = student(len(places) - 1) * sqrt(missing**2 * between**2 / len(places) + own)
            half = max(half, wider)
        sampled = counted[-1] - sum(waves[at] for at in self.after_gaps())
        return Extrapolated(sampled + missing * mean, half)


def _deviation(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sqrt(sum((each - mean) ** 2 for each in values) / (len(values) - 1))


@dataclass(frozen=True)
class Extrapolated:
    """A figure of a whole launch, with half of its interval."""

    value: float
    half: float


def ranges(groups: int, wave: int, rate: float) -> tuple[Range, ...] | None:
    """A sample of about `rate` of the work-groups; None where that would be most of them."""
    rest = (groups - 1) % wave + 1
    waves = (groups - rest) // wave
    places = max(1, round((rate * waves - FIRST) / CLUSTER))
    if 2 * (FIRST + places * CLUSTER) > waves:
        return None
    part = (waves - FIRST) / places
    inside = [(0.5 + GOLDEN * at) % 1 * (part - CLUSTER) for at in range(places)]
    starts = [FIRST + int(part * at + inside[at]) for at in range(places)]
    middle = [(at * wave, CLUSTER * wave) for at in starts]
    return ((0, FIRST * wave), *middle, (waves * wave, rest))


def of_part(grid: Grid, part: int) -> tuple[tuple[Range, ...], int]:
    """The work-groups that run on an eighth of the machine, if `part` is 8, and how many they are.

    They are a block from about the middle of the grid, with fewer along y if that goes, then along
    z, then along x: in a product, x goes over what layers before left in the caches, y over rows of
    weights and z over parts of the sum, so that a part reads an eighth of the weights, of few
    pages.
    """
    left, extents = float(part), [0, 0, 0]
    for axis in (1, 2, 0):
        extents[axis] = max(1, round(grid[axis] / left) if axis == 0 else ceil(grid[axis] / left))
        left = max(1.0, left * extents[axis] / grid[axis])
    x, y, z = (grid[axis] // extents[axis] // 2 * extents[axis] for axis in range(3))
    found: list[Range] = []
    for k, j in itertools.product(range(z, z + extents[2]), range(y, y + extents[1])):
        first = (k * grid[1] + j) * grid[0] + x
        if found and sum(found[-1]) == first:
            found[-1] = (found[-1][0], found[-1][1] + extents[0])
        else:
            found.append((first, extents[0]))
    return tuple(found), extents[0] * extents[1] * extents[2]


def of_groups(grid: Grid, numbers: Sequence[int], counted: Sequence[float]) -> Extrapolated:
    """A figure of all groups of a grid, from those with these numbers, by strata.

    A stratum that has none is taken to be like the one that differs from it at fewest borders.
    """
    strata: dict[Stratum, list[float]] = defaultdict(list)
    for number, value in zip(numbers, counted, strict=True):
        strata[_stratum(grid, number)].append(value)
    value = variance = 0.0
    least = 1
    for stratum, size in _sizes(grid).items():
        like = min(strata, key=lambda known: sum(a != b for a, b in zip(known, stratum)))
        found = strata[like]
        count, mean = len(found), sum(found) / len(found)
        value += size * mean
        if count > 1 and size > count:
            of_stratum = sum((each - mean) ** 2 for each in found) / (count - 1)
            variance += size * (size - count) / count * of_stratum
            least = max(least, count - 1)
    return Extrapolated(value, student(least) * sqrt(variance))


def _stratum(grid: Grid, number: int) -> Stratum:
    """At which borders a group is: in each direction the first, the last or between."""
    x, y, z = number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])
    first, middle, last = (_side(at, extent) for at, extent in zip((x, y, z), grid))
    return first, middle, last


def _side(at: int, extent: int) -> int:
    return 0 if at == 0 else 2 if at == extent - 1 else 1


def _sizes(grid: Grid) -> dict[Stratum, int]:
    """Work-groups of each stratum that has some."""
    along = [[min(extent, 1), max(extent - 2, 0), int(extent > 1)] for extent in grid]
    sizes = {(a, b, c): along[0][a] * along[1][b] * along[2][c]
             for a, b, c in itertools.product(range(3), repeat=3)}  # fmt: skip
    return {stratum: size for stratum, size in sizes.items() if size}


# Two-sided 95 % quantiles of Student's distribution, by degrees of freedom.
_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def student(freedom: int) -> float:
    """The quantile that a value exceeds in absolute terms in 5 of 100 cases; rounded up."""
    return _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _STUDENT[-1]
