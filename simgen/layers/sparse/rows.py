"""Products of a sparse matrix by rows: how they are computed, their reference and their bounds.

However a matrix is stored, a sum goes through the elements of a row in the order of their columns.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isqrt, log2
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.dtypes import TOGETHER, DType
from simgen.ground.ir import Pass, TensorSpec
from simgen.ground.numerics import exactness
from simgen.ground.numerics.powers import next_power_of_two
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, U
from simgen.ground.numerics.spread import Spread, correlated, order, repeats
from simgen.layers.base import Choice, Layer
from simgen.layers.contract import Contract

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

    Indices = NDArray[np.int64]

BLOCK_OF_SHARED, BLOCK = 256, 64  # work-items; else a wavefront, so that a row is uniform
TERMS = 4  # average terms of a work-item that shares a sum: so many loads depend on each other
LARGEST = 2**30  # elements of a matrix: offsets are bytes in 32 bits
PANEL = 2**22  # elements of a that a reference is computed from at a time


@dataclass(frozen=True)
class RowPlan:
    """How a product of these extents is computed."""

    m: int
    n: int
    k: int
    nonzeros: int
    side: int = 1
    shared: bool = False  # whether work-items share the sums of a row, and not its columns
    # Products that a matrix instruction adds up, in an order that is its own; 0: none multiplies.
    together: int = 0

    @property
    def stored(self) -> int:
        """Blocks."""
        return self.nonzeros // self.side**2

    @property
    def block(self) -> int:
        return BLOCK_OF_SHARED if self.shared else BLOCK

    @property
    def width(self) -> int:
        """Columns of an access."""
        return next(width for width in (4, 2, 1) if self.n % width == 0)

    @property
    def lanes(self) -> int:
        """Work-items of a row of blocks."""
        wanted = self.nonzeros / (TERMS * self.m) if self.shared else self.n / self.width
        return min(BLOCK, next_power_of_two(max(1, ceil(wanted))))

    @property
    def rows(self) -> int:
        """Rows of a work-group."""
        return self.block // self.lanes * self.side

    @property
    def columns(self) -> int:
        """Columns of a work-group."""
        return self.n if self.shared else self.lanes * self.width

    @property
    def grid(self) -> tuple[int, int, int]:
        """Rows come first: work-groups at the same time read the same columns of b."""
        return ceil(self.m / self.rows), ceil(self.n / self.columns), 1

    @property
    def stores_narrow(self) -> bool:
        """Whether results of narrow types can be stored, which move by fours."""
        return not self.shared and self.width == TOGETHER

    def taken_part(self, place: Indices, length: Indices) -> Array:
        """Additions that a product takes part in, by its place in a row of so many; and one more,
        since the product itself is rounded where multiply-adds are not fused.

        In order, the product at a place is in all sums from there on. Where sums are shared, in
        those of its own work-item, and in one of each pair on the way to the row's. By matrix
        instructions, in all sums from the beginning of its own instruction on, where each product
        costs two roundings at most (simgen/layers/product/fragment.py).
        """
        if self.together:
            first = place // self.together * self.together
            return 2 * np.asarray(length - first, np.float64)
        own, more = np.asarray(length - place, np.float64), 1.0
        if self.shared:
            own, more = np.ceil(own / self.lanes), 1 + log2(self.lanes)
        return own + more


@dataclass(frozen=True)
class Compressed:
    """A sparse matrix in compressed rows, of (m, k)."""

    values: Array
    columns: Indices
    rows: Indices
    k: int

    @property
    def m(self) -> int:
        return len(self.rows) - 1

    @cached_property
    def lengths(self) -> Indices:
        """Elements of each row."""
        return np.diff(self.rows)

    @cached_property
    def places(self) -> Indices:
        """Position of each element in its row, from 0."""
        return np.arange(len(self.values)) - np.repeat(self.rows[:-1], self.lengths)

    def dense(self, rows: slice, values: Array) -> Array:
        """Some rows of the matrix that has these values in its places."""
        of = self.rows[rows.start : rows.stop + 1]
        part = slice(of[0], of[-1])
        found = np.zeros((len(of) - 1, self.k))
        found[np.repeat(np.arange(len(of) - 1), np.diff(of)), self.columns[part]] = values[part]
        return found

    def panels(self) -> Iterator[slice]:
        """All rows, some at a time."""
        step = max(1, PANEL // self.k)
        return (slice(at, min(at + step, self.m)) for at in range(0, self.m, step))


class SparseProduct(Layer):
    """y = a b, with a sparse matrix a that is stored by rows and a dense one b, forward."""

    any_float: ClassVar[bool] = True
    contract: ClassVar[Contract] = Contract(cancels=True)

    k: int
    n: int
    type: DType

    def _b(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        """Raises:
        ValueError: the input is no matrix.
        """
        if not inputs:
            return TensorSpec((self.k, self.n), self.type)
        (b,) = inputs
        if len(b.shape) != 2:
            raise ValueError(f"b has {len(b.shape)} axes, and is no matrix; take another tensor")
        return b

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        plan = self.plan(inputs)
        return TensorSpec((plan.m, plan.n), self._b(inputs).dtype)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """A multiply-add for each stored element of a and each column of b."""
        plan = self.plan(inputs)
        return 2 * plan.nonzeros * plan.n, 0

    @abstractmethod
    def plan(self, inputs: tuple[TensorSpec, ...]) -> RowPlan:
        """Raises:
        ValueError: there is no such product.
        """

    @abstractmethod
    def matrices(self, tensors: Tensors) -> tuple[Compressed, Array, RowPlan]:
        """a, b, and how their product is computed."""

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        return ("values", "b", *(("y",) if self.plan(inputs).stores_narrow else ()))

    def choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        plan = self.plan(inputs)
        if plan.shared:
            why = f"b has few columns: they share sums of {plan.nonzeros / plan.m:.3g} terms"
            return (Choice("work-items of a row", str(plan.lanes), why),)
        why = "neighbours read neighbouring elements of b"
        return (Choice("columns of a work-group", str(plan.columns), why),)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        a, b, _ = self.matrices(tensors)
        return {"y": product(a, a.values, b)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """An addition that gives the sum s rounds by U |s| at most, and |s| is no more than the
        absolute values of its terms: each counts as often as it takes part. Higham, "Accuracy and
        Stability of Numerical Algorithms", 2002, section 3.3. Then the second order: the sums
        themselves are in error by as much."""
        a, b, plan = self.matrices(tensors)
        counts = plan.taken_part(a.places, np.repeat(a.lengths, a.lengths))
        roundings = (2.0 if plan.together else 1.0) * a.lengths[:, np.newaxis] + 1.0
        bound = product(a, np.abs(a.values) * counts, np.abs(b)) * U / (1 - roundings * U)
        return {"y": bound + roundings * TINY}

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        a, b, plan = self.matrices(tensors)
        if plan.together:  # what instructions cut off does not cancel
            return {"y": Spread(tolerance["y"])}
        sigma = np.empty((a.m, b.shape[1]))
        equal = min(repeats(a.values), repeats(b.T))
        for part in a.panels():
            root, squares, magnitude = sums_on_the_way(a, b, plan, part)
            terms = np.maximum(1.0, a.lengths[part, np.newaxis])
            flushed = (terms + 1) * TINY
            hard = tolerance["y"][part]
            rounded = U * SECOND_ORDER * root
            made = correlated(rounded, hard, terms, squares, magnitude, equal)
            sigma[part] = np.minimum(made + flushed, hard)
        return {"y": Spread(sigma)}

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        a, b, _ = self.matrices(tensors)
        grain = exactness.grain(a.values, b)
        if not grain:
            return {}
        magnitudes = product(a, np.abs(a.values), np.abs(b))
        return {"y": exactness.settled(product(a, a.values, b), magnitudes, grain)}


def product(a: Compressed, values: Array, b: Array) -> Array:
    """The matrix with these values in the places of a, times b."""
    made = np.empty((a.m, b.shape[1]))
    for part in a.panels():
        made[part] = a.dense(part, values) @ b
    return made


def sums_on_the_way(
    a: Compressed, b: Array, plan: RowPlan, part: slice
) -> tuple[Array, Array, Array]:
    """For some rows, in the terms of simgen/ground/numerics/spread.py: the root of the sum of
    squares of all partial sums and products; the sums of squares; the sums of absolute values.

    In order, sums are known where blocks of columns begin. Shared, those of a work-item's terms are
    in order, and those of pairs are each of twice as many terms: the root of that is their norm.
    """
    dense = a.dense(part, a.values)
    squares, magnitude = np.square(dense) @ np.square(b), np.abs(dense) @ np.abs(b)
    if plan.shared:
        each = np.ceil(a.lengths[part, np.newaxis] / plan.lanes)
        inside = np.sqrt(_orders(each) ** 2 + each * (2 * plan.lanes - 2))
        return (inside + 1) * np.sqrt(squares), squares, magnitude
    step = ceil(a.k / max(1, isqrt(plan.nonzeros // a.m)))
    current, starts = np.zeros_like(squares), np.zeros_like(squares)
    most = np.zeros((len(dense), 1))
    for at in range(0, a.k, step):
        block = slice(at, at + step)
        terms = np.count_nonzero(dense[:, block], axis=1)[:, np.newaxis]
        starts += terms * np.square(current)
        current += dense[:, block] @ b[block]
        most = np.maximum(most, terms)
    return np.sqrt(starts) + (_orders(most) + 1) * np.sqrt(squares), squares, magnitude


def _orders(terms: Array) -> Array:
    """`order` of each of some numbers of terms."""
    whole, back = np.unique(np.maximum(1, terms).astype(np.int64), return_inverse=True)
    known: Array = np.array([order(int(each)) for each in whole])
    return known[back].reshape(terms.shape)
