"""A recurrent layer unrolled over the time steps of its input: what its passes have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING

from simgen.ground.dtypes import WORD, DType
from simgen.ground.ir import Pass, TensorSpec
from simgen.ground.machine import Machine, NoRoomError
from simgen.ground.numerics import storing
from simgen.layers.product.elements import Elements
from simgen.layers.product.matrix_product import Product
from simgen.layers.recurrent import persistent
from simgen.layers.recurrent.cells import RecurrentCell
from simgen.layers.recurrent.step import MatrixTile, StepKernels, StepTile, by_matrix, tile_of

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array

F, BX, BW = Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT


class StepAlgo(StrEnum):
    AUTO = "auto"
    STEPS = "steps"
    PERSISTENT = "persistent"


@dataclass(frozen=True)
class Unrolled:
    """The layer, and the input x (T, N, C...) that it has."""

    x: TensorSpec
    cell: RecurrentCell
    hidden: int
    bias: bool
    skips: bool  # x stands in the place of its product with w
    reverse: bool
    states: tuple[str, ...]  # ports of those that it begins with
    final: bool  # whether those that it ends with are outputs
    algo: StepAlgo
    machine: Machine

    @property
    def dtype(self) -> DType:
        """Type of x, y and the weights."""
        return self.x.dtype

    @property
    def steps(self) -> int:
        return self.x.shape[0]

    @property
    def batch(self) -> int:
        return self.x.shape[1]

    @property
    def features(self) -> int:
        return prod(self.x.shape[2:])

    @property
    def rows(self) -> int:
        """Samples of all steps."""
        return self.steps * self.batch

    @property
    def gates(self) -> int:
        return self.cell.gates

    @property
    def sums(self) -> int:
        """Sums of a sample at a step."""
        return self.gates * self.hidden

    @property
    def order(self) -> list[int]:
        """Time steps as they are run forward."""
        found = list(range(self.steps))
        return found[::-1] if self.reverse else found

    # ---- Tensors ----

    @property
    def state(self) -> str:
        """The port of h in float32."""
        return state_of(self.dtype)

    @property
    def passed(self) -> str:
        """The port of the gradients that go on from step to step."""
        return "drec" if self.cell is RecurrentCell.GRU else "dgates"

    @property
    def specs(self) -> dict[str, TensorSpec]:
        """Specs of all ports except workspaces, whether the layer has them or not."""
        y, dtype = (self.steps, self.batch, self.hidden), self.dtype
        specs = dict.fromkeys(("state", "cell", "candidate", "carry"), TensorSpec(y))
        gates = TensorSpec((self.steps, self.batch, self.gates, self.hidden))
        specs |= dict.fromkeys(("gates", "dgates", "drec"), gates)
        specs |= {"x": self.x, "y": TensorSpec(y, dtype)}
        specs |= {"w": TensorSpec((self.sums, self.features), dtype)}
        specs |= {"r": TensorSpec((self.sums, self.hidden), dtype)}
        specs |= dict.fromkeys(("bw", "br"), TensorSpec((self.sums,), dtype))
        specs |= {"h0": TensorSpec(y[1:], dtype), "c0": TensorSpec(y[1:])}
        specs |= {"hy": specs["h0"], "cy": specs["c0"]}
        own = ("x", "y", "w", "r", "bw", "br", "h0", "c0", "hy", "cy")
        return specs | {f"d{port}": specs[port] for port in own}

    @property
    def begins_on_words(self) -> bool:
        """Whether each step's x of a layer that skips does, since its elements fill some."""
        return self.batch * self.hidden * self.dtype.nbytes % WORD == 0

    def rounded(self, direction: Pass) -> dict[str, str]:
        """Port -> the workspace that has it in the type of the weights, for products."""
        if direction is F or not self.by_matrix:
            return {}
        ports = [self.passed] + ([] if self.skips else ["dgates"])
        ports += [self.state] if direction is BW else []
        return {port: f"{port}_rounded" for port in ports}

    # ---- Kernels ----

    @property
    def by_matrix(self) -> bool:
        return by_matrix(self.machine, self.dtype, self.hidden)

    def factor(self, values: Array) -> Array:
        """States or gradients as products have them."""
        return storing.nearest(values, self.dtype) if self.by_matrix else values

    def kernels(self, direction: Pass, *, product: bool = True) -> StepKernels:
        """Kernels of the steps, or of a step without a product."""
        narrow = self.skips and (direction is not F or self.begins_on_words)
        x = self.dtype if narrow else DType.F32
        return StepKernels(
            self.cell, self.batch, self.hidden, self.skips, self.bias, x, self.dtype,
            self.machine, self.tile(direction) if product else self._passing(direction),
        )  # fmt: skip

    def tile(self, direction: Pass) -> StepTile | MatrixTile:
        """Tile of the steps.

        Raises:
            NoRoomError: the weights shall stay in local memory, and do not fit.
        """
        kept = self.keeping(direction)
        if kept is None and self.algo is StepAlgo.PERSISTENT:
            nbytes = self.sums * self.hidden * (self.dtype if self.by_matrix else DType.F32).nbytes
            machine = f"{self.machine.units} compute units of {self.machine.label}"
            raise NoRoomError(
                f"algo=persistent: the local memory of the {machine} does not hold {nbytes} bytes "
                f"of recurrent weights and what {direction} reads of a step; take algo=steps"
            )
        return kept if kept and self._keeps else self._passing(direction)

    @property
    def _keeps(self) -> bool:
        """Whether weights stay in local memory that holds them: where nobody says so, if a launch
        has many steps."""
        if self.algo is StepAlgo.AUTO:
            return self.machine.joins_groups
        return self.algo is StepAlgo.PERSISTENT

    def keeping(self, direction: Pass) -> StepTile | MatrixTile | None:
        """The tile of steps whose weights stay in local memory; None: they do not fit."""
        sums = self._sums_of_a_unit(direction)
        forward = direction is F
        terms = self.hidden if forward else self.sums
        staged = 1 if forward else self.gates + int(self.cell is RecurrentCell.GRU)
        size = self.machine, self.batch, self.hidden
        return persistent.tile_of(*size, sums, terms, staged, self.dtype)

    def _passing(self, direction: Pass) -> StepTile | MatrixTile:
        """Tile of steps whose weights pass through it."""
        sums = self._sums_of_a_unit(direction)
        return tile_of(self.machine, self.batch, self.hidden, sums, self.dtype)

    def _sums_of_a_unit(self, direction: Pass) -> int:
        return self.gates if direction is F else 1

    def products(self, direction: Pass) -> dict[str, Product]:
        """Products over all steps, by what they write."""
        made: dict[str, Product] = {}
        narrow, wide = self.dtype, DType.F32
        of_gradients = narrow if self.by_matrix else wide
        if direction is F and not self.skips:
            types = Elements(narrow, narrow, narrow, wide)
            extents = (self.rows, self.sums, self.features)
            made["sums"] = self._product(extents, (False, True), types)
        if direction is BX and not self.skips:
            types = Elements(of_gradients, narrow, wide, narrow)
            extents = (self.rows, self.features, self.sums)
            made["dx"] = self._product(extents, (False, False), types)
        if direction is BX and self.states:
            types = Elements(of_gradients, narrow, wide, narrow)
            extents, adds = (self.batch, self.hidden, self.sums), self.cell is RecurrentCell.GRU
            made["dh0"] = self._product(extents, (False, False), types, adds=adds)
        if direction is BW:
            rows, types = self.rows - self.batch, Elements(of_gradients, narrow, wide, narrow)
            if not self.skips:
                extents = (self.sums, self.features, self.rows)
                made["dw"] = self._product(extents, (True, False), types)
            types = Elements(of_gradients, of_gradients, wide, narrow)
            # the first step alone, to which later steps' gradients are added
            if self.states and rows:
                later, extents = replace(types, result=wide), (self.sums, self.hidden, rows)
                made["dr_later"] = self._product(extents, (True, False), later)
            extents = (self.sums, self.hidden, self.batch if self.states else rows)
            made["dr"] = self._product(extents, (True, False), types, adds="dr_later" in made)
        return made

    def _product(
        self,
        extents: tuple[int, int, int],
        transposed: tuple[bool, bool],
        types: Elements,
        *,
        adds: bool = False,
    ) -> Product:
        bias, beta = self.bias and transposed == (False, True), float(adds)
        return Product(
            *extents, *transposed, beta=beta, bias=bias, elements=types, machine=self.machine
        )


def state_of(dtype: DType) -> str:
    """The port of h in float32 where the layer has this type."""
    return "state" if dtype.is_narrow else "y"
