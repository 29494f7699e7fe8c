"""How far honest roundings carry a whole tensor: the judge beside the hard bound of each element.

A hard bound lets every rounding go the same way, n u for a sum of n terms; real ones cancel. Taken
as independent and of mean zero, errors |d_j| <= u |s_j| in the sums s_j on the way add up to a
sub-Gaussian variable whose proxy variance is sigma^2 = u^2 sum s_j^2 (Hoeffding's lemma): Higham
and Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41(5),
2019, theorem 2.4; of mean zero whatever came before is enough (Connolly, Higham and Mary,
"Stochastic rounding and its probabilistic backward error analysis", SIAM J. Sci. Comput. 43(1),
2021, theorem 4.4). Layers give sigma for each element; z = error / sigma. Judged are, for m
elements, with a risk of RISK in all that a right tensor fails:

    peak       max |z|  <=  sqrt(2 ln(2 m / p)),  p = RISK / 2: a tail of each element, and their
               union, whatever they have in common
    statistic  mean z^2  <=  1 + 2 sqrt(t / M) + 2 t / M,  t = ln(1 / p): Hsu, Kakade and Zhang,
               "A tail inequality for quadratic forms of subgaussian random vectors", Electron.
               Commun. Probab. 17(52), 2012, theorem 2.1, with tr(S) = m, |S| <= m / M and
               tr(S^2) <= m |S|, where M = m / shared and `shared` is how many elements one
               rounding may reach

The statistic holds of every part of a tensor: it is asked of the whole and, with their number in
place of 1 in t = ln(parts / p), of its samples, channels and columns. So one row that is another's
is seen among thousands.

Where results are stored in a narrower type, |e| - h is no more than the error before that, h being
what storing loses at most: it is divided by sigma without h, and has the same limits.

What is no sum of roundings (an approximated exponential, a flush to zero) is added to sigma as its
bound b: |x + c| <= k (sigma + b) where |x| <= k sigma and |c| <= b for all k >= 1, and by convexity
((x + c) / (sigma + b))^2 is no more than a mean of (x / sigma)^2 and 1.

Partial sums. |s_j| of a sum in order is exact where prefixes are known: at the ends of blocks of n
terms t. Inside, s_j = s_b + r_j, and the norm of the operator from t to its partial sums r is
1 / (2 sin(pi / (4 n + 2))) (`order`), so that no order of the terms matters:

    sqrt(sum s_j^2) <= sqrt(n sum s_b^2) + order(n) sqrt(Q)       Q = sum t^2

and in stages (work-items, then what they leave) their squares add up (`stages`). Products round
too where multiply-adds are not fused (MGPUSim): u sqrt(Q) more.

Roundings that are not independent. (1) Equal terms round equally: a constant added to a sum of one
binade always loses the same. With r equal terms in a sum, r roundings go one way at most: sigma
grows by sqrt(r) (Cauchy and Schwarz), up to the hard bound where all are equal. (2) Rounding a term
t to a grid of step h is off by -h^2 / 24 f(0+) on average where the density f of the terms jumps at
zero (Euler and Maclaurin's second term), as that of terms of one sign does; h <= 2 u |s_j|, in sum
no more than f sigma^2 / 6. f is DENSITY times k^2 Q / (sum |t|)^3, which is 1 to 3 times
1 / mean |t| for sums of k products of normal, rectified or squared normal numbers, and large where
most terms are far smaller than the largest. Both are in `correlated`, which takes no more than the
hard bound; so for constant or degenerate data the second judge is the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi, sin, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from simgen.ground.arrays import np
from simgen.ground.dtypes import DType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

U = DType.F32.roundoff  # roundoff of the kernels' compute type
RISK = 1e-9  # probability that a tensor of a correct result is judged wrong
DENSITY = 4.0  # factor for the density of terms at zero, relative to what their moments say
SAMPLE = 2**20  # elements that equal ones are counted among
BLOCKS = 8  # parts of a sum whose terms may meet partial sums of other sizes
UNEVEN = 1.25  # times the mean that a block's terms may be and yet be any terms
FARTHEST = 3.0  # what a Brownian bridge exceeds once in 30 million times
GRIDS = 8  # sizes of partial sums, in powers of 2; smaller ones lose less than sigma allows


@dataclass(frozen=True)
class Spread:
    """Proxy standard deviation of the error of each element of a tensor.

    Attributes:
        sigma: with what storing loses.
        shared: elements that one rounding may reach.
        stored: a bound on what storing in a narrower type loses, which `sigma` counts whole.
    """

    sigma: Array
    shared: int = 1
    stored: Array | None = None

    def part(self, elements: Any) -> Spread:
        """Spread of some elements of the flattened tensor."""
        stored = None if self.stored is None else self.stored.reshape(-1)[elements]
        return Spread(self.sigma.reshape(-1)[elements], self.shared, stored)


def both(a: Spread, b: Spread) -> Spread:
    """Spread of the difference of two results with independent roundings."""
    stored = None if a.stored is None or b.stored is None else a.stored + b.stored
    return Spread(a.sigma + b.sigma, max(a.shared, b.shared), stored)


def peak_limit(elements: int) -> float:
    """What the largest |z| of so many does not exceed."""
    return sqrt(2 * log(4 * max(elements, 1) / RISK))


def sum_limit(sums: int) -> float:
    """The same of sums of very many roundings, which are normal numbers."""
    return -NormalDist().inv_cdf(RISK / (4 * max(sums, 1)))


def statistic_limit(elements: Array | int, shared: int, parts: int = 1) -> Any:
    """What the root of the mean of z^2 over so many elements does not exceed, in any of `parts`."""
    each = log(2 * parts / RISK) / np.maximum(1.0, np.asarray(elements) / shared)
    return np.sqrt(1 + 2 * np.sqrt(each) + 2 * each)


def order(terms: int) -> float:
    """Root of the sum of the squares of all partial sums of `terms` terms, by that of the terms.

    The largest singular value of the lower triangular matrix of ones.
    """
    return 1 / (2 * sin(pi / (4 * terms + 2)))


def stages(*lengths: int) -> float:
    """The same of a sum in stages: of so many terms, then of so many of those sums, and so on."""
    total, terms = 0.0, 1
    for length in lengths:
        if length > 1:
            total += order(length) ** 2 * terms
        terms *= length
    return sqrt(total)


class Walk:
    """What sums are on their way: filled block by block, in the order of the kernel.

    Of complex sums, the squares are those of both parts.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any = float) -> None:
        self.total: NDArray[Any] = np.zeros(shape, dtype)
        self._current: NDArray[Any] = np.zeros(shape, dtype)  # sum of this chunk
        self._starts: Array = np.zeros(shape)  # sum of n s_b^2
        self._parts: Array = np.zeros(shape)  # sum of the squares of whole chunks
        self._chunks = 0

    def add(self, terms: int, block: NDArray[Any]) -> None:
        """The next `terms` terms, whose sum is `block`; 0 where they do not go on from here."""
        if terms and self._current.any():
            self._starts += terms * np.square(np.abs(self._current))
        self._current += block

    def end(self) -> None:
        """A chunk ends: its sum is a term of the sum of chunks."""
        self.total += self._current
        self._parts += np.square(np.abs(self._current))
        self._current = np.zeros_like(self._current)
        self._chunks += 1

    def root(self, inside: float, squares: Array) -> Array:
        """Root of the sum of all s_j^2, the products' among them.

        `inside` is `order` or `stages` of a block, `squares` the sum of the squares of all terms.
        """
        found: Array = np.sqrt(self._starts) + (inside + 1) * np.sqrt(squares)
        if self._chunks > 1:
            found += order(self._chunks) * np.sqrt(self._parts)
        return found


def correlated(
    sigma: Array, hard: Array, terms: int | Array, squares: Array, magnitude: Array, repeats: float
) -> Array:
    """`sigma` with what roundings have in common, and no more than the hard bound.

    Of sums of `terms` terms, the sums of their squares and of their absolute values.
    """
    with np.errstate(all="ignore"):  # sums of no terms
        density = DENSITY * terms**2 * squares / magnitude**3
        found = sqrt(repeats) * sigma + np.where(magnitude > 0, density * sigma**2 / 6, 0.0)
    made: Array = np.fmin(found, hard)
    return made


def any_order(rows: Array, far: float) -> tuple[Array, Array]:
    """What float32 sums of rows of many terms are off: a bound on its mean over orders, and sigma,
    the worst of those together where `far` deviations count.

    A partial sum is a multiple of g, the distance of float32 numbers of its size. So adding a term
    is off by what rounding the term to g loses, whatever the partial sum is; but for ties, whose
    way is that of the partial sum's last bit (`_ties`). Sums of one sign grow evenly: a half of
    the terms meets sums of the last whole binade, a quarter those of the one before it. Which terms
    these are is chance, and so is the rest of the deviation. Sums of several work-items meet
    smaller grids. Where their sizes follow their places, all of them may meet any one grid, as
    terms of two signs may (but see `_wandering`). Blocks of terms whose losses differ by more than
    chance do not cancel; where sizes follow places, no blocks do.
    """
    terms = rows.astype(np.float32).astype(np.float64)
    squares, total = np.square(terms).sum(axis=-1), np.abs(terms.sum(axis=-1))
    magnitude = np.abs(terms).sum(axis=-1)
    sums = np.abs(np.cumsum(terms, axis=-1)).max(axis=-1)  # backward: no more than total + sums
    largest = np.minimum(total + np.maximum(2 * np.sqrt(squares), sums), magnitude)
    significand, exponents = np.frexp(largest)
    blocks = np.arange(BLOCKS) * terms.shape[-1] // BLOCKS
    size = np.add.reduceat(np.abs(terms), blocks, axis=-1).max(axis=-1) * BLOCKS
    even = (total == magnitude) & (size <= UNEVEN * magnitude)
    share = np.where(even, 1 - 0.5 / significand, 1.0)
    first, second = np.zeros(terms.shape), np.zeros(terms.shape)  # moments of what a term loses
    mean, more, variance = (np.zeros(total.shape) for _ in range(3))
    worst, largest_mean, in_place = (mean, variance), mean, mean
    for below in reversed(range(GRIDS)):
        grid = np.ldexp(1.0, exponents - DType.F32.mantissa - 1 - below)[..., None]
        parts = terms / grid
        lost = grid * (np.rint(parts) - parts)
        tie = np.abs(lost) == grid / 2
        sure = np.where(tie, 0.0, lost)
        of_blocks = np.add.reduceat(sure, blocks, axis=-1)
        here = of_blocks.sum(axis=-1)
        apart = np.square(of_blocks - here[..., None] / BLOCKS).sum(axis=-1)
        variance = np.square(lost).sum(axis=-1)  # 7 / 16 of twice this is chance, on average
        uneven = np.sqrt(BLOCKS * np.maximum(apart - 2 * variance, 0.0)) + _ties(parts, lost, tie)
        largest_mean = np.maximum(largest_mean, np.abs(here) + uneven)
        of_ties = np.add.reduceat(lost - sure, blocks, axis=-1)
        in_place = np.maximum(in_place, (np.abs(of_blocks) + np.abs(of_ties)).sum(axis=-1))
        part = share if below == 0 else 0.5 if below < GRIDS - 1 else 1.0
        mean, more = part * here + (1 - part) * mean, part * uneven + (1 - part) * more
        weight = np.asarray(part)[..., None]
        first, second = (
            weight * now + (1 - weight) * before
            for now, before in ((sure, first), (np.square(lost), second))
        )
        made = np.abs(mean) + more, np.sqrt((second - np.square(first)).sum(axis=-1))
        is_worse = made[0] + far * made[1] > worst[0] + far * worst[1]
        worst = np.where(is_worse, made[0], worst[0]), np.where(is_worse, made[1], worst[1])
    apart = _wandering(terms.shape[-1] * squares, total / np.sqrt(squares), far)
    wanders = sums <= total + FARTHEST * np.sqrt(squares)
    rest = np.where(wanders, np.fmin(apart, np.sqrt(variance)), np.sqrt(variance))
    largest_mean = np.where(wanders & (total < magnitude), largest_mean, in_place)
    return np.where(even, worst[0], largest_mean), np.where(even, worst[1], rest)


def _wandering(size: Array, drift: Array, far: float) -> Array:
    """Sigma of a sum of terms of two signs in a random order: `far` of it are as much as a right
    sum is off with the risk of so many.

    Partial sums are a Brownian bridge B from 0 to `drift`, times the root of the terms' squares.
    Adding to s loses up to u s, with a variance of u^2 s^2 / 6 on average and of no more than
    u^2 s^2 / 4 on a way that is large for long, which has the shape of a sine. So by Markov, with
    E exp(a^2 / 2 int B^2) = sqrt(a / sin a) exp(drift^2 / 2 (1 - a cot a)) (Cameron and Martin,
    1944) for every a < pi.
    """
    a = np.linspace(0.05, 3.1, 62)
    lead = -log(NormalDist().cdf(-far)) + np.log(a / np.sin(a)) / 2
    most = (lead + np.square(drift)[..., None] / 2 * (1 - a / np.tan(a))) / a
    made: Array = U / 2 * np.sqrt(size) * most.min(axis=-1) / far
    return made


def _ties(parts: Array, lost: Array, tie: NDArray[np.bool_]) -> Array:
    """What ties lose together: `lost` each where the last bit of the partial sum is 0, and the
    opposite where it is 1. It is 0 after a tie; any other term changes it as its own last bit
    does, so that it is 0 more often by `q / (1 - (1 - q) c)`, for a share q of ties."""
    share = tie.mean(axis=-1)
    bits = np.where(tie, 0.0, 1 - 2 * (np.rint(parts) % 2)).sum(axis=-1)
    left = tie.shape[-1] - np.abs(bits)  # n (1 - (1 - q) |c|)
    more = np.divide(share * tie.shape[-1], left, out=np.ones_like(share), where=left > 0)
    made: Array = more * np.abs(np.where(tie, lost, 0.0).sum(axis=-1))
    return made


def sum_spread(rows: Array, inside: float, hard: Array) -> Array:
    """Sigma of the sum of each row, in an order or in stages whose norm is `inside`."""
    squares, magnitude = np.square(rows).sum(axis=-1), np.abs(rows).sum(axis=-1)
    sigma = U * inside * np.sqrt(squares)
    return correlated(sigma, hard, rows.shape[-1], squares, magnitude, repeats(rows))


def repeats(rows: Array) -> float:
    """Elements of a row that are equal to one of them, itself among them: the mean over all.

    Zeros do not count: adding them does not round. Of long tensors a sample of rows is taken.
    """
    length = max(1, rows.shape[-1])
    rows = rows.reshape(-1, length)
    rows = rows[:: max(1, rows.size // SAMPLE)] if len(rows) > 1 else rows
    values = np.sort(np.abs(rows[: max(1, SAMPLE // length)]), axis=-1).reshape(-1)
    begins = np.empty(values.shape, bool)
    begins[1:] = values[1:] != values[:-1]
    begins[::length] = True
    places = np.flatnonzero(begins)  # first of equal elements of a row
    counts = np.diff(places, append=values.size)[values[places] != 0]
    total, equal = int(counts.sum()), float(np.square(counts.astype(np.float64)).sum())
    return equal / total if total else 1.0
