"""Normalisation of rows by their root mean square, forward only.

    y = gamma * x / sqrt(sum(x^2) / D + epsilon)

    x, y   of any rank: `axis` and all axes behind it form a row, of D elements
    gamma  the extents of a row

`axis` counts from the end if it is negative: -1 is the last one. x and y have the type of the
input; gamma and sums are float32. Rows are distributed over work-items as in [LayerNorm]. If rows
are no multiple of four, narrow elements are converted before and after.

Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019, eq. 4; RMSNormalization of
ONNX, whose `axis` this is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, float32, identifier
from simgen.ground.numerics.spread import Spread
from simgen.layers import axes, elementwise
from simgen.layers.base import Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.norm.layer_norm_errors import LayerNormErrors
from simgen.layers.reduction import BLOCK, FINALS, HELD, Tiling, rows_over_items

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.ir import Constants
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

READS = ("x", "gamma")


@dataclass(frozen=True)
class RMSNorm(Layer):
    kind = "rms_norm"
    section = "RMSNorm"
    contract: ClassVar[Contract] = Contract(rounds=True)
    passes: ClassVar[tuple[Pass, ...]] = (Pass.FORWARD,)
    parameters: ClassVar[tuple[str, ...]] = ("gamma",)
    rank: ClassVar[int | None] = None
    per_sample = True
    any_float = True
    sample: ClassVar[Mapping[str, str]] = {"shape": "8x128x768"}

    axis: int = key(
        "axis",
        default=-1,
        text="first axis of a row; the row extends to the last axis; -1 is the last",
    )
    epsilon: float = key(
        "epsilon", default=1e-5, least=1e-12, most=1e6, text="constant added to mean squares"
    )

    def view(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """(rows, elements of a row)."""
        return axes.rows(shape, axes.behind_batch("axis", self.axis, shape))

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        self.view(x.shape)
        return x

    def _gamma(self, x: TensorSpec) -> TensorSpec:
        return TensorSpec(x.shape[axes.behind_batch("axis", self.axis, x.shape) :])

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Per element: square and its sum, two products. Per row: a division by D, epsilon, square
        root and reciprocal."""
        rows, _ = self.view(inputs[0].shape)
        return 4 * inputs[0].size + 2 * rows, 2 * rows

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        normal = Distribution.NORMAL
        gamma = Port("gamma", self._gamma(x), Fill(normal, 1.0, 0.25))
        # Mean squares are small, so that epsilon shows.
        return (Port("x", x, Fill(normal, 1 / 32, 1 / 8)), gamma, Port("y", x))

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        whole = self._rows(inputs[0].shape).vector == elementwise.VECTOR
        return ("x", "y") if whole else ()

    def _rows(self, shape: tuple[int, ...]) -> Tiling:
        return rows_over_items(self.view(shape)[1])

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        rows, length = self.view(x.shape)
        tiling = self._rows(x.shape)
        narrow = x.dtype.is_narrow and not self.moves(inputs, direction)
        dtype = TensorSpec(()).dtype if narrow else x.dtype
        name = f"rms_norm_{direction}_{rows}x{length}_e{identifier(self.epsilon)}"
        constants: Constants = (
            ("rows", rows),
            ("axis", length),
            ("group_rows", tiling.lanes),
            ("slices", tiling.slices),
            ("vector", tiling.vector),
            ("held", tiling.held),
            ("in_registers", int(tiling.held <= HELD)),
            ("finals", min(FINALS, tiling.slices)),
            ("inverse", float32(1 / length)),
            ("epsilon", self._epsilon),
            ("with_result", 1),
            *elementwise.element(dtype),
        )
        kernel = Kernel(name + elementwise.suffix(dtype), "rms_norm.hip", BLOCK, constants)
        grid = (ceil(rows / tiling.lanes), 1, 1)
        return Lowering((kernel,), (Launch(kernel.name, grid, (*READS, "y")),))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        x, gamma = self._flat(tensors)
        square = np.square(x).mean(axis=1, keepdims=True)
        y = gamma * x / np.sqrt(square + self._epsilon)
        return {"y": y.reshape(tensors["x"].shape)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        return {"y": self._error(tensors, proxy=False)}

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        """One error of a row's sum reaches all of the row."""
        _, length = self.view(tensors["x"].shape)
        sigma = np.minimum(self._error(tensors, proxy=True), tolerance["y"])
        return {"y": Spread(sigma, length)}

    def _error(self, tensors: Tensors, *, proxy: bool) -> Array:
        x, gamma = self._flat(tensors)
        errors = LayerNormErrors(self._rows(tensors["x"].shape), proxy)
        bound = errors.by_root_mean_square(x, gamma, self._epsilon)
        # What is exact cannot fall below the smallest normal number either.
        found: Array = np.where(bound > 0, bound * SECOND_ORDER + TINY, 0.0)
        return found.reshape(tensors["x"].shape)

    @property
    def _epsilon(self) -> float:
        return float32(self.epsilon)

    def _flat(self, tensors: Tensors) -> tuple[Array, Array]:
        """x as rows, and gamma as one."""
        shape = self.view(tensors["x"].shape)
        return tensors["x"].reshape(shape), tensors["gamma"].reshape(1, shape[1])
