"""Product of a 2:4 sparse matrix, which stores two of every four neighbours, and a dense one.

    y(i, j) = sum over groups g of  values(i, 2 g) b(4 g + p(i, g, 0), j)
                                 +  values(i, 2 g + 1) b(4 g + p(i, g, 1), j)

    a          (m, k)  in each row, two of each four neighbouring elements may be other than 0
    values     (m, k / 2)  these two of each group
    positions  (m, ceil(k / 32))  where in their groups, 0 <= p(i, g, 0) < p(i, g, 1) <= 3: 2 bits
               for each, 8 groups in a word, the first in the lowest bits
    b          (k, n)  and y (m, n) dense, by rows

NVIDIA's matrix instructions multiply 16-bit floats if rows are whole words of positions and whole
runs of 16 bytes (structured_matrix.py). Otherwise, scalar arithmetic does.

Source: A. Mishra et al., "Accelerating Sparse Deep Neural Networks", 2021; the order of the bits is
that of the metadata of PTX's mma.sp.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.dtypes import DType
from simgen.ground.ir import Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.layers.base import Choice, Lowering, Port, Sums, key
from simgen.layers.product.elements import constant, name_of
from simgen.layers.sparse import structured_matrix
from simgen.layers.sparse.rows import LARGEST, Compressed, RowPlan, SparseProduct
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.sparse.rows import Indices
    from simgen.layers.sparse.structured_matrix import StructuredTile
    from simgen.layers.written import Values

GROUP = 4  # neighbours
GROUPS = 8  # in a word of positions


@dataclass(frozen=True)
class StructuredGemm(SparseProduct):
    kind = "structured_gemm"
    section = "StructuredGemm"
    passes = (Pass.FORWARD,)
    input_names: ClassVar[tuple[str, ...]] = ("b",)
    takes_input = False
    input_keys: ClassVar[tuple[str, ...]] = ("n", "k", "type")
    sample: ClassVar[Mapping[str, str]] = {"m": "256", "n": "64", "k": "256"}

    m: int = key("m", 256, "rows of a and y", 1)
    n: int = key("n", 64, "columns of b and y", 1)
    k: int = key("k", 256, "columns of a, rows of b: a multiple of 4", 1)
    type: DType = key("type", DType.F32, "element type of a and b")

    def plan(self, inputs: tuple[TensorSpec, ...]) -> RowPlan:
        k, n = self._b(inputs).shape
        if k % GROUP:
            raise ValueError(f"k is {k}, no whole groups of {GROUP}; make it a multiple of {GROUP}")
        largest = max(self.m * k, k * n, self.m * n)
        if largest > LARGEST:
            fact = f"a matrix of {largest} elements is larger than {LARGEST}"
            raise ValueError(f"{fact}; make it smaller")
        return self._planned(self.m, n, k)

    def _planned(self, m: int, n: int, k: int) -> RowPlan:
        by_matrix = self._tile(m, n, k) is not None
        together = structured_matrix.TOGETHER if by_matrix else 0
        return RowPlan(m, n, k, m * k // 2, together=together)

    @property
    def _dtype(self) -> DType:
        return self.types[0] if self.types else self.type

    def _tile(self, m: int, n: int, k: int) -> StructuredTile | None:
        """Tile for matrix instructions; None: scalars multiply."""
        return structured_matrix.tile_of(self.machine, self._dtype, m, n, k)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        plan, b = self.plan(inputs), self._b(inputs)
        of_one = Fill(Distribution.NORMAL, 0.0, (plan.k / 2) ** -0.5)  # results of about 1
        words = TensorSpec((plan.m, ceil(plan.k / (GROUP * GROUPS))), DType.I32)
        return (
            Port("values", TensorSpec((plan.m, plan.k // 2), b.dtype), of_one),
            Port("positions", words, Fill(Distribution.PAIRS, 0.0, GROUP)),
            Port("b", b, Fill(Distribution.NORMAL, 0.0, 1.0)),
            Port("y", self.output(inputs)),
        )

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        plan, b = self.plan(inputs), self._b(inputs).dtype
        args = ("values", "positions", "b", "y")
        size = plan.m, plan.n, plan.k
        if tile := self._tile(*size):
            made = structured_matrix.kernel(self.machine, b, size, tile)
            grid = tile.grid(plan.m, plan.n)
            return Lowering((made,), (Launch(made.name, grid, args),))
        y = b if plan.stores_narrow else DType.F32
        extents = f"{plan.m}x{plan.n}x{plan.k}"
        constants = (
            ("m", plan.m),
            ("n", plan.n),
            ("k", plan.k),
            ("lanes", plan.lanes),
            ("width", plan.width),
            *constant("leftelement", b),
            *constant("rightelement", b),
            *constant("element", y),
        )
        name = "_".join((self.kind, extents, *name_of((b, y))))
        kernel = Kernel(name, "structured_gemm.hip", plan.block, constants)
        return Lowering((kernel,), (Launch(kernel.name, plan.grid, args),))

    def tiles(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Mapping[str, int]:
        plan = self.plan(inputs)
        if inputs:
            return {}
        if tile := self._tile(plan.m, plan.n, plan.k):
            return {"m": tile.rows, "n": tile.columns, "k": structured_matrix.STEP}
        return {"m": plan.rows, "n": plan.columns, "k": GROUP * GROUPS}

    def choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        plan = self.plan(inputs)
        tile = self._tile(plan.m, plan.n, plan.k)
        if tile is None:
            why = structured_matrix.why_scalars(self.machine, self._dtype)
            scalars = (Choice("matrix cores", "no", why),) if why else ()
            return (*scalars, *super().choices(inputs, direction))
        why = f"{self.machine.name} has them for 2:4 sparsity"
        tiled = Choice("tile", f"{tile.rows}x{tile.columns}", "the largest that fills the machine")
        return (Choice("matrix cores", "yes", why), tiled)

    def fault(self, given: Mapping[str, NDArray[Any]], inputs: tuple[TensorSpec, ...]) -> str:
        if "positions" not in given:
            return ""
        places = _places(given["positions"].astype(np.int64), self.plan(inputs).k)
        falls = places[..., 0] >= places[..., 1]
        if not falls.any():
            return ""
        row, group = np.unravel_index(int(np.argmax(falls)), falls.shape)
        first, second = places[row, group]
        fact = f"positions of row {row}, group {group}, are {first} and {second}"
        return f"{fact}; write two that ascend, 2 bits each"

    def matrices(self, tensors: Tensors) -> tuple[Compressed, Array, RowPlan]:
        b, values = tensors["b"], tensors["values"]
        m, k = len(values), len(b)
        places = _places(tensors["positions"].astype(np.int64), k)
        columns = places + np.arange(0, k, GROUP)[:, np.newaxis]
        rows = np.arange(m + 1) * (k // 2)
        a = Compressed(values.reshape(-1), columns.reshape(-1), rows, k)
        return a, b, self._planned(m, b.shape[1], k)

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums(self.plan(inputs).k // 2)


def _places(words: Indices, k: int) -> Indices:
    """Position of each stored element in its group, (m, k / 4, 2)."""
    shifts = np.arange(0, 32, 2)
    found: Indices = words[:, :, np.newaxis] >> shifts & 3
    return found.reshape(len(words), -1)[:, : k // 2].reshape(len(words), k // GROUP, 2)


@writes("structured_gemm")
def _written(c: Values, block: int) -> list[Writes]:
    columns = Places(c["n"], 1, c["lanes"] * c["width"])
    return [Writes(-1, cut_by(Places(c["m"], c["n"], block // c["lanes"])), cut_by(columns))]
