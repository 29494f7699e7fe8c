"""Mean or sum along an axis, whose extent becomes 1.

    forward   y[o, 0, i] = factor * sum over a of x[o, a, i]
    backward  dx[o, a, i] = factor * dy[o, 0, i]

    [ReduceMean]  factor = 1 / A, a float32 number      [ReduceSum]  a key, 1 if it is not given

    x, dx  (..., A, ...) seen as (O, A, I)      y, dy  (..., 1, ...)

Sums are in the order of a. Source: ReduceMean and ReduceSum of ONNX with keepdims; with a factor,
moe_sum_reduce of SGLang.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics.rounding import TINY, U, float32, identifier
from simgen.ground.numerics.spread import Spread, order, sum_spread
from simgen.layers import axes, elementwise
from simgen.layers.base import Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.elementwise import BLOCK, VECTOR, ends
from simgen.layers.written import writes_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors


@dataclass(frozen=True)
class ReduceMean(Layer):
    kind = "reduce_mean"
    section = "ReduceMean"
    contract: ClassVar[Contract] = Contract(rounds=True, cancels=True)
    shape_given: ClassVar[tuple[str, ...]] = ("dx",)
    per_sample = True
    any_float = True
    sample: ClassVar[Mapping[str, str]] = {"shape": "16x50x256"}

    axis: int = key("axis", 1, "axis to average over; -1 is the last")

    @property
    def _own(self) -> str:
        """What else tells its kernels by their names."""
        return ""

    def _factor(self, extent: int) -> float:
        return float32(1 / extent)

    def _view(self, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """(outer, axis, inner) of the shape of x."""
        at = axes.behind_batch("axis", self.axis, shape)
        return prod(shape[:at]), shape[at], prod(shape[at + 1 :])

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        at = axes.behind_batch("axis", self.axis, x.shape)
        return TensorSpec((*x.shape[:at], 1, *x.shape[at + 1 :]), x.dtype)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Forward an addition for each element but the first of a sum, and a product for each mean;
        backward a product for each element."""
        return inputs[0].size, 0

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,), y = inputs, self.output(inputs)
        source, target = ends(direction)
        read, written = (x, y) if direction is Pass.FORWARD else (y, x)
        return (Port(source, read, Fill(Distribution.NORMAL, 1.0, 1.0)), Port(target, written))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,), y = inputs, self.output(inputs)
        outer, extent, inner = self._view(x.shape)
        written = y if direction is Pass.FORWARD else x
        together = inner % VECTOR == 0
        vector = VECTOR if together or x.dtype.is_narrow else 1
        suffix = elementwise.suffix(x.dtype)
        name = f"{self.kind}_{direction}_{outer}x{extent}x{inner}{self._own}{suffix}"
        constants = (
            ("size", written.size),
            ("extent", extent),
            ("inner", inner),
            ("backward", int(direction is Pass.BACKWARD)),
            ("factor", self._factor(extent)),
            ("vector", vector),
            ("together", int(together)),
            *elementwise.element(x.dtype),
        )
        kernel = Kernel(name, "reduce_mean.hip", BLOCK, constants)
        grid = (ceil(written.size / (BLOCK * vector)), 1, 1)
        return Lowering((kernel,), (Launch(name, grid, ends(direction)),))

    def _rows(self, x: Array) -> Array:
        """The terms of each sum: (outer, inner, axis)."""
        return x.reshape(self._view(x.shape)).swapaxes(1, 2)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.BACKWARD:
            shape = tensors["dx"].shape
            factor = self._factor(self._view(shape)[1])
            return {"dx": np.ascontiguousarray(np.broadcast_to(factor * tensors["dy"], shape))}
        x = tensors["x"]
        at = axes.behind_batch("axis", self.axis, x.shape)
        return {"y": self._factor(x.shape[at]) * x.sum(axis=at, keepdims=True)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """A sum of n terms is off by (n - 1) U of their absolute values (Higham, "Accuracy and
        Stability of Numerical Algorithms", 2002, section 4.2); the product rounds once."""
        made = self.reference(tensors, direction)
        if direction is Pass.BACKWARD:
            return {"dx": U * np.abs(made["dx"]) + TINY}
        rows = self._rows(tensors["x"])
        added = rows.shape[-1] - 1
        factor = self._factor(rows.shape[-1])
        summed = np.abs(rows).sum(axis=-1) * added * U / (1 - added * U) + added * TINY
        y = made["y"]
        return {"y": factor * summed.reshape(y.shape) * (1 + U) + U * np.abs(y) + TINY}

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        if direction is Pass.BACKWARD:
            return {port: Spread(bound) for port, bound in tolerance.items()}
        rows, y = self._rows(tensors["x"]), self.reference(tensors, direction)["y"]
        count = rows.shape[-1]
        factor, hard = self._factor(count), tolerance["y"]
        sums = sum_spread(rows, order(count), hard.reshape(rows.shape[:-1]) / factor)
        own = U * np.abs(y) + (count * factor + 1) * TINY
        return {"y": Spread(np.minimum(factor * sums.reshape(y.shape) + own, hard))}


@dataclass(frozen=True)
class ReduceSum(ReduceMean):
    kind = "reduce_sum"
    section = "ReduceSum"

    factor: float = key("factor", 1.0, "of each sum", 1e-6, 1e6)

    @property
    def _own(self) -> str:
        return f"_{identifier(self.factor)}"

    def _factor(self, extent: int) -> float:
        return float32(self.factor)


writes_all("reduce_mean")
