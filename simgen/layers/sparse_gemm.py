"""A sparse matrix times a dense one, y = a b.

    y(i, j) = sum over e of row i of  values(e) b(columns(e), j)

    a       (m, k)  in compressed rows (CSR): the elements of row i are rows(i) to rows(i + 1) - 1
    values  (z,)    its z elements, row by row, in each by columns
    columns (z,)    the column of each
    rows    (m + 1,)  where in these lists a row begins; the last one is z
    b       (k, n)  and y (m, n) dense, by rows

The data file's a has elements in random places, so that its rows have different lengths
(simgen/tensors/sparse_pattern.py); z is the share 1 - sparsity of m k, rounded once. A user's own
matrix (`--values`) has any number of elements, which `nonzeros` says.

Where b has many columns, each work-item has some of one row of y, and goes through that row of a:
so neighbours read neighbouring elements of b. Where it has few, the work-items of a row share its
sums. There are no atomics: each sum has one order.

Source: SpMM of cuSPARSE, and DeepBench's sparse products (S. Narang, G. Diamos, "DeepBench", 2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, isqrt, log2
from typing import TYPE_CHECKING, ClassVar

from simgen.dtypes import TOGETHER, DType
from simgen.ir import Distribution, Fill, Kernel, Launch, OpCount, Pass, TensorSpec
from simgen.layers.base import Choice, Layer, Lowering, Port, Sums, key
from simgen.layers.contract import Contract
from simgen.layers.product.elements import constant, name_of
from simgen.layers.written import Places, Writes, cut, writes
from simgen.numerics import exactness
from simgen.numerics.powers import power_of_two
from simgen.numerics.rounding import SECOND_ORDER, TINY, U
from simgen.numerics.spread import Spread, correlated, order, repeats

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from simgen.layers.base import Tensors
    from simgen.layers.written import Values
    from simgen.numerics.rounding import Array

    Indices = NDArray[np.int64]
else:
    from simgen import arrays as np

FEW = 8  # columns of b, at most, for work-items that share sums: each needs a float of LDS for each
BLOCK_OF_FEW, BLOCK = 256, 64  # work-items; of many columns a wavefront, so that a row is uniform
TERMS = 4  # of a work-item that shares a sum, on average: so many loads wait for each other
LARGEST = 2**30  # elements of a matrix: offsets are bytes in 32 bits
PANEL = 2**22  # elements of a that a reference is computed from at a time
A = ("values", "columns", "rows")  # ports


@dataclass(frozen=True)
class RowPlan:
    """How a product of these extents is computed."""

    m: int
    n: int
    k: int
    nonzeros: int

    @property
    def shared(self) -> bool:
        """Whether work-items share the sums of a row, and not its columns."""
        return self.n <= FEW

    @property
    def block(self) -> int:
        return BLOCK_OF_FEW if self.shared else BLOCK

    @property
    def width(self) -> int:
        """Columns of an access."""
        return next(width for width in (4, 2, 1) if self.n % width == 0)

    @property
    def lanes(self) -> int:
        """Work-items of a row."""
        wanted = self.nonzeros / (TERMS * self.m) if self.shared else self.n / self.width
        return min(BLOCK, power_of_two(max(1, ceil(wanted))))

    @property
    def rows(self) -> int:
        """Of a work-group."""
        return self.block // self.lanes

    @property
    def columns(self) -> int:
        """Of a work-group."""
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
        those of its own work-item, and in one of each pair on the way to the row's.
        """
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
        """Of each element in its row, from 0 on."""
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


@dataclass(frozen=True)
class SparseGemm(Layer):
    kind = "sparse_gemm"
    section = "SparseGemm"
    passes = (Pass.FORWARD,)
    input_names: ClassVar[tuple[str, ...]] = ("b",)
    rank = None
    takes_input = False
    input_keys: ClassVar[tuple[str, ...]] = ("n", "k", "type")
    any_float = True
    contract: ClassVar[Contract] = Contract(cancels=True)
    sample: ClassVar[Mapping[str, str]] = {"m": "512", "n": "64", "k": "512", "sparsity": "0.9"}

    m: int = key("m", default=512, least=1, text="rows of a and y")
    n: int = key("n", default=64, least=1, text="columns of b and y")
    k: int = key("k", default=512, least=1, text="columns of a, rows of b")
    sparsity: float = key(
        "sparsity", default=0.9, least=0.0, most=1.0, text="share of the elements of a that are 0"
    )
    nonzeros: int = key(
        "nonzeros", default=0, least=0, text="elements of a that are stored; 0: as sparsity says"
    )
    type: DType = key("type", default=DType.F32, text="element type of a and b")

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

    def _plan(self, inputs: tuple[TensorSpec, ...]) -> RowPlan:
        """Raises:
        ValueError: b is no matrix, a has no elements or too many, or a matrix is too large.
        """
        k, n = self._b(inputs).shape
        places = self.m * k
        largest = max(places, k * n, self.m * n)
        if largest > LARGEST:
            fact = f"a matrix of {largest} elements is larger than {LARGEST}"
            raise ValueError(f"{fact}; make it smaller")
        count = self.nonzeros or round((1 - self.sparsity) * places)
        if not 1 <= count <= places:
            cure = "set nonzeros lower" if count else "make sparsity smaller, or set nonzeros"
            raise ValueError(f"{count} elements of a, which has {places} places; {cure}")
        return RowPlan(self.m, n, k, count)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        plan = self._plan(inputs)
        return TensorSpec((plan.m, plan.n), self._b(inputs).dtype)

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """A multiply-add for each element of a and each column of b. All tensors count once in the
        bytes: values and indices, b and y."""
        ports = {port.name: port.spec.nbytes for port in self.ports(inputs, direction)}
        plan = self._plan(inputs)
        written = ports.pop("y")
        return OpCount(2 * plan.nonzeros * plan.n, 0, sum(ports.values()), written)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        plan, b = self._plan(inputs), self._b(inputs)
        z = plan.nonzeros
        at = Fill(Distribution.ROWS, plan.m, plan.k, like="rows", nonzeros=z)
        columns = Fill(Distribution.COLUMNS, plan.m, plan.k, like="rows", nonzeros=z)
        normal = Fill(Distribution.NORMAL, 0.0, 1.0)
        of_one = Fill(Distribution.NORMAL, 0.0, max(1.0, z / plan.m) ** -0.5)  # results of about 1
        return (
            Port("values", TensorSpec((z,), b.dtype), of_one),
            Port("columns", TensorSpec((z,), DType.I32), columns),
            Port("rows", TensorSpec((plan.m + 1,), DType.I32), at),
            Port("b", b, normal),
            Port("y", self.output(inputs)),
        )

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        plan, b = self._plan(inputs), self._b(inputs).dtype
        y = b if plan.stores_narrow else DType.F32
        how = "shared" if plan.shared else "rows"
        parts = (self.kind, f"{plan.m}x{plan.n}", f"{how}{plan.lanes}", *name_of((b, y)))
        constants = (
            ("m", plan.m),
            ("n", plan.n),
            ("lanes", plan.lanes),
            ("width", plan.width),
            ("shared", int(plan.shared)),
            *constant("leftelement", b),
            *constant("rightelement", b),
            *constant("element", y),
        )
        kernel = Kernel("_".join(parts), "sparse_gemm.hip", plan.block, constants)
        return Lowering((kernel,), (Launch(kernel.name, plan.grid, (*A, "b", "y")),))

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        return ("values", "b", *(("y",) if self._plan(inputs).stores_narrow else ()))

    def choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        plan = self._plan(inputs)
        if plan.shared:
            why = f"b has few columns: they share sums of {plan.nonzeros / plan.m:.3g} terms"
            return (Choice("work-items of a row", str(plan.lanes), why),)
        why = "neighbours read neighbouring elements of b"
        return (Choice("columns of a work-group", str(plan.columns), why),)

    def tiles(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Mapping[str, int]:
        if inputs or self.nonzeros:
            return {}
        plan = self._plan(inputs)  # k stays, and with it the lengths of rows
        return {"m": plan.rows, **({} if plan.shared else {"n": plan.columns})}

    def fault(self, given: Mapping[str, NDArray[Any]], inputs: tuple[TensorSpec, ...]) -> str:
        if not given.keys() & {"rows", "columns"}:
            return ""
        if not {"rows", "columns"} <= given.keys():
            one, other = ("rows", "columns") if "rows" in given else ("columns", "rows")
            return f"{one} without {other}, which only fit together; give both"
        rows, columns = (given[name].astype(np.int64) for name in ("rows", "columns"))
        return _fault(rows, columns, self._plan(inputs))

    def _matrices(self, tensors: Tensors) -> tuple[Compressed, Array, RowPlan]:
        """a, b, and how their product is computed."""
        b = tensors["b"]
        columns, rows = (tensors[name].astype(np.int64) for name in ("columns", "rows"))
        a = Compressed(tensors["values"], columns, rows, len(b))
        return a, b, RowPlan(a.m, b.shape[1], len(b), len(columns))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        a, b, _ = self._matrices(tensors)
        return {"y": _product(a, a.values, b)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """An addition that gives the sum s rounds by U |s| at most, and |s| is no more than the
        absolute values of its terms: each counts as often as it takes part. Higham, "Accuracy and
        Stability of Numerical Algorithms", 2002, section 3.3. Then the second order: the sums
        themselves are in error by as much."""
        a, b, plan = self._matrices(tensors)
        counts = plan.taken_part(a.places, np.repeat(a.lengths, a.lengths))
        roundings = a.lengths[:, np.newaxis] + 1.0
        bound = _product(a, np.abs(a.values) * counts, np.abs(b)) * U / (1 - roundings * U)
        return {"y": bound + roundings * TINY}

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        a, b, plan = self._matrices(tensors)
        sigma = np.empty((a.m, b.shape[1]))
        equal = min(repeats(a.values), repeats(b.T))
        for part in a.panels():
            root, squares, magnitude = _sums_on_the_way(a, b, plan, part)
            terms = np.maximum(1.0, a.lengths[part, np.newaxis])
            flushed = (terms + 1) * TINY
            hard = tolerance["y"][part]
            rounded = U * SECOND_ORDER * root
            made = correlated(rounded, hard, terms, squares, magnitude, equal)
            sigma[part] = np.minimum(made + flushed, hard)
        return {"y": Spread(sigma)}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        plan = self._plan(inputs)
        return Sums(min(plan.k, plan.nonzeros))

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        a, b, _ = self._matrices(tensors)
        grain = exactness.grain(a.values, b)
        if not grain:
            return {}
        magnitudes = _product(a, np.abs(a.values), np.abs(b))
        return {"y": exactness.settled(_product(a, a.values, b), magnitudes, grain)}


def _fault(rows: Indices, columns: Indices, plan: RowPlan) -> str:
    """What is wrong with compressed rows, if anything, and what to do."""
    if rows[0] != 0 or rows[-1] != plan.nonzeros:
        fact = f"rows begins with {rows[0]} and ends with {rows[-1]}"
        return f"{fact}; it goes from 0 to the number of elements, {plan.nonzeros}"
    steps = np.diff(rows)
    if (steps < 0).any():
        at = int(np.argmax(steps < 0))
        fact = f"rows[{at + 1}] is {rows[at + 1]}, less than rows[{at}]"
        return f"{fact}; in compressed rows (CSR) they ascend: correct it"
    outside = (columns < 0) | (columns >= plan.k)
    if outside.any():
        at = int(np.argmax(outside))
        return f"columns[{at}] is {columns[at]}; write 0 to {plan.k - 1}"
    ends = np.zeros(len(columns) + 1, bool)
    ends[rows] = True
    falls = (np.diff(columns) <= 0) & ~ends[1:-1]
    if falls.any():
        at = int(np.argmax(falls)) + 1
        fact = f"columns[{at}] is {columns[at]}, behind {columns[at - 1]} in the same row"
        return f"{fact}; sort each row by columns, each once"
    return ""


def _product(a: Compressed, values: Array, b: Array) -> Array:
    """The matrix with these values in the places of a, times b."""
    made = np.empty((a.m, b.shape[1]))
    for part in a.panels():
        made[part] = a.dense(part, values) @ b
    return made


def _sums_on_the_way(
    a: Compressed, b: Array, plan: RowPlan, part: slice
) -> tuple[Array, Array, Array]:
    """Of some rows, in the terms of simgen/numerics/spread.py: the root of the sum of the squares
    of all sums on the way, the products' among them; the sums of squares and of absolute values.

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


@writes("sparse_gemm")
def _written(c: Values, block: int) -> list[Writes]:
    rows = block // c["lanes"]
    if c["shared"]:
        return [Writes(-1, cut(Places(c["m"] * c["n"], 1, rows * c["n"])))]
    columns = Places(c["n"], 1, c["lanes"] * c["width"])
    return [Writes(-1, cut(Places(c["m"], c["n"], rows)), cut(columns))]
