"""A sparse matrix times a dense one, y = a b.

    y(i, j) = sum over e of row i of  values(e) b(columns(e), j)

    a       (m, k)  in compressed rows (CSR): the elements of row i are rows(i) to rows(i + 1) - 1
    values  (z,)    its z elements, row by row, in each by columns
    columns (z,)    the column of each
    rows    (m + 1,)  where in these lists a row begins; the last one is z
    b       (k, n)  and y (m, n) dense, by rows

With side=s above 1, a is stored in blocks of s x s (block compressed rows, BSR): `values` is
(z, s, s), `columns` and `rows` are those of a matrix of m / s rows and k / s columns of blocks.

By default, a has elements in random places, so its rows have different lengths
(simgen/tensors/sparse_pattern.py); z is the share 1 - sparsity of m k, rounded once. A user's own
matrix (`--values`) has `nonzeros` elements.

If b has many columns, each work-item makes a part of one row of y and processes that row of a, so
neighbours read neighbouring elements of b. If it has few, the work-items of a row share its sums.
There are no atomics: each sum has one order.

Source: SpMM of cuSPARSE, and DeepBench's sparse products (S. Narang, G. Diamos, "DeepBench", 2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.dtypes import DType
from simgen.ground.ir import Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.layers.base import Lowering, Port, Sums, key
from simgen.layers.product.elements import constant, name_of
from simgen.layers.sparse.rows import LARGEST, Compressed, RowPlan, SparseProduct
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.sparse.rows import Indices
    from simgen.layers.written import Values

# columns of b, at most, for work-items that share sums: each needs a float of LDS for each
MAX_SHARED_COLUMNS = 8
# maximum side of a block: a work-item has a sum for each of its rows, times 4 columns
MOST_SIDE = 16
A = ("values", "columns", "rows")  # ports


def _planned(m: int, n: int, k: int, nonzeros: int, side: int) -> RowPlan:
    return RowPlan(m, n, k, nonzeros, side, shared=n <= MAX_SHARED_COLUMNS and side == 1)


@dataclass(frozen=True)
class SparseGemm(SparseProduct):
    kind = "sparse_gemm"
    section = "SparseGemm"
    passes = (Pass.FORWARD,)
    input_names: ClassVar[tuple[str, ...]] = ("b",)
    takes_input = False
    input_keys: ClassVar[tuple[str, ...]] = ("n", "k", "type")
    sample: ClassVar[Mapping[str, str]] = {"m": "512", "n": "64", "k": "512", "sparsity": "0.9"}

    m: int = key("m", 512, "rows of a and y", 1)
    n: int = key("n", 64, "columns of b and y", 1)
    k: int = key("k", 512, "columns of a, rows of b", 1)
    side: int = key("side", 1, "rows and columns of a stored block", 1, MOST_SIDE)
    sparsity: float = key("sparsity", 0.9, "share of zeros in a", 0.0, 1.0)
    nonzeros: int = key("nonzeros", 0, "number of stored elements of a; 0: as sparsity says", 0)
    type: DType = key("type", DType.F32, "element type of a and b")

    def plan(self, inputs: tuple[TensorSpec, ...]) -> RowPlan:
        """Raises:
        ValueError: b is no matrix, a has no elements or too many, or a matrix is too large.
        """
        k, n = self._b(inputs).shape
        places = self.m * k
        largest = max(places, k * n, self.m * n)
        if largest > LARGEST:
            fact = f"a matrix of {largest} elements is larger than {LARGEST}"
            raise ValueError(f"{fact}; make it smaller")
        each = self.side**2
        if self.m % self.side or k % self.side:
            fact = f"a is {self.m} x {k}, no whole blocks of {self.side} x {self.side}"
            raise ValueError(f"{fact}; make m and k multiples of side")
        count = self.nonzeros or round((1 - self.sparsity) * places / each) * each
        if count % each:
            fact = f"{count} elements are no whole blocks of {self.side} x {self.side}"
            raise ValueError(f"{fact}; set nonzeros to a multiple of {each}")
        if not 1 <= count <= places:
            cure = "set nonzeros lower" if count else "make sparsity smaller, or set nonzeros"
            raise ValueError(f"{count} elements of a, which has {places} places; {cure}")
        return _planned(self.m, n, k, count, self.side)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        plan, b = self.plan(inputs), self._b(inputs)
        z, side = plan.stored, plan.side
        extents = plan.m // side, plan.k // side
        at = Fill(Distribution.ROWS, *extents, like="rows", nonzeros=z)
        columns = Fill(Distribution.COLUMNS, *extents, like="rows", nonzeros=z)
        normal = Fill(Distribution.NORMAL, 0.0, 1.0)
        terms = max(1.0, plan.nonzeros / plan.m)
        of_one = Fill(Distribution.NORMAL, 0.0, terms**-0.5)  # results of about 1
        blocks = (side, side) if side > 1 else ()
        return (
            Port("values", TensorSpec((z, *blocks), b.dtype), of_one),
            Port("columns", TensorSpec((z,), DType.I32), columns),
            Port("rows", TensorSpec((extents[0] + 1,), DType.I32), at),
            Port("b", b, normal),
            Port("y", self.output(inputs)),
        )

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        plan, b = self.plan(inputs), self._b(inputs).dtype
        y = b if plan.stores_narrow else DType.F32
        how = "shared" if plan.shared else "rows"
        side = (f"side{plan.side}",) if plan.side > 1 else ()
        parts = (self.kind, f"{plan.m}x{plan.n}", f"{how}{plan.lanes}", *side, *name_of((b, y)))
        constants = (
            ("m", plan.m),
            ("n", plan.n),
            ("side", plan.side),
            ("lanes", plan.lanes),
            ("width", plan.width),
            ("shared", int(plan.shared)),
            *constant("leftelement", b),
            *constant("rightelement", b),
            *constant("element", y),
        )
        kernel = Kernel("_".join(parts), "sparse_gemm.hip", plan.block, constants)
        return Lowering((kernel,), (Launch(kernel.name, plan.grid, (*A, "b", "y")),))

    def tiles(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Mapping[str, int]:
        if inputs or self.nonzeros:
            return {}
        plan = self.plan(inputs)  # k stays, and with it the lengths of rows
        return {"m": plan.rows, **({} if plan.shared else {"n": plan.columns})}

    def fault(self, given: Mapping[str, NDArray[Any]], inputs: tuple[TensorSpec, ...]) -> str:
        if not given.keys() & {"rows", "columns"}:
            return ""
        if not {"rows", "columns"} <= given.keys():
            one, other = ("rows", "columns") if "rows" in given else ("columns", "rows")
            return f"{one} without {other}, which only fit together; give both"
        rows, columns = (given[name].astype(np.int64) for name in ("rows", "columns"))
        return _fault(rows, columns, self.plan(inputs))

    def matrices(self, tensors: Tensors) -> tuple[Compressed, Array, RowPlan]:
        """a, b, and how their product is computed."""
        b = tensors["b"]
        columns, rows = (tensors[name].astype(np.int64) for name in ("columns", "rows"))
        values = tensors["values"]
        side = 1 if values.ndim == 1 else values.shape[1]
        a = (
            Compressed(values, columns, rows, len(b))
            if side == 1
            else _as_elements(values, columns, rows, len(b))
        )
        return a, b, _planned(a.m, b.shape[1], len(b), a.values.size, side)

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        plan = self.plan(inputs)
        return Sums(min(plan.k, plan.nonzeros))


def _fault(rows: Indices, columns: Indices, plan: RowPlan) -> str:
    """What is wrong with compressed rows, if anything, and what to do."""
    if rows[0] != 0 or rows[-1] != plan.stored:
        fact = f"rows begins with {rows[0]} and ends with {rows[-1]}"
        what = "elements" if plan.side == 1 else "blocks"
        return f"{fact}; it goes from 0 to the number of {what}, {plan.stored}"
    steps = np.diff(rows)
    if (steps < 0).any():
        at = int(np.argmax(steps < 0))
        fact = f"rows[{at + 1}] is {rows[at + 1]}, less than rows[{at}]"
        return f"{fact}; in compressed rows (CSR) they ascend: correct it"
    most = plan.k // plan.side
    outside = (columns < 0) | (columns >= most)
    if outside.any():
        at = int(np.argmax(outside))
        return f"columns[{at}] is {columns[at]}; write 0 to {most - 1}"
    ends = np.zeros(len(columns) + 1, bool)
    ends[rows] = True
    falls = (np.diff(columns) <= 0) & ~ends[1:-1]
    if falls.any():
        at = int(np.argmax(falls)) + 1
        fact = f"columns[{at}] is {columns[at]}, behind {columns[at - 1]} in the same row"
        return f"{fact}; sort each row by columns, each once"
    return ""


def _as_elements(values: Array, columns: Indices, rows: Indices, k: int) -> Compressed:
    """Blocks as elements: those of a row are in the order of the blocks, in each by columns."""
    side = values.shape[1]
    lengths = np.repeat(np.diff(rows), side) * side
    of_blocks = np.repeat(np.arange(len(rows) - 1), np.diff(rows))
    inside = np.arange(side)
    at = np.empty(values.shape, np.int64)  # row of each element
    at[:] = (of_blocks[:, np.newaxis] * side + inside)[:, :, np.newaxis]
    column = np.empty(values.shape, np.int64)
    column[:] = (columns[:, np.newaxis] * side + inside)[:, np.newaxis, :]
    order = np.argsort(at.reshape(-1), kind="stable")
    ends = np.concatenate(([0], np.cumsum(lengths)))
    return Compressed(values.reshape(-1)[order], column.reshape(-1)[order], ends, k)


@writes("sparse_gemm")
def _written(c: Values, block: int) -> list[Writes]:
    rows = block // c["lanes"] * c["side"]
    if c["shared"]:
        return [Writes(-1, cut_by(Places(c["m"] * c["n"], 1, rows * c["n"])))]
    columns = Places(c["n"], 1, c["lanes"] * c["width"])
    return [Writes(-1, cut_by(Places(c["m"], c["n"], rows)), cut_by(columns))]
