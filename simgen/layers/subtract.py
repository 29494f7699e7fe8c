"""Element-wise difference of two tensors.

    forward   y = x0 - x1
    backward  dx0 = dy      dx1 = -dy

    x0, x1, y and their gradients  (N, C, H, W), or another shape that all have in common

Source: Sub of ONNX without broadcasting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import exactness
from simgen.ground.numerics.rounding import U
from simgen.layers import elementwise
from simgen.layers.base import Lowering, Port, Sums
from simgen.layers.binary import Binary
from simgen.layers.contract import Contract
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.written import writes_all

if TYPE_CHECKING:
    from simgen.layers.base import Tensors

GRADIENTS = ("dx0", "dx1")


@dataclass(frozen=True)
class Subtract(Binary):
    kind = "subtract"
    section = "Subtract"
    contract: ClassVar[Contract] = Contract(copies=(Pass.BACKWARD,))
    # dx0 and dx1 are made of dy alone: their shapes are those of x0 and x1.
    shape_given: ClassVar[tuple[str, ...]] = GRADIENTS

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """A difference for each element; backward moves data and changes signs only."""
        return inputs[0].size if direction is Pass.FORWARD else 0, 0

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x, _ = inputs
        normal = Fill(Distribution.NORMAL, 0.0, 1.0)
        if direction is Pass.FORWARD:
            return (Port("x0", x, normal), Port("x1", x, normal), Port("y", x))
        return (Port("dy", x, normal), *(Port(name, x) for name in GRADIENTS))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        x, _ = inputs
        name = f"subtract_{direction}_{x.size}{elementwise.suffix(x.dtype)}"
        forward = direction is Pass.FORWARD
        template = "subtract.hip" if forward else "subtract_backward.hip"
        args = ("x0", "x1", "y") if forward else ("dy", *GRADIENTS)
        constants = (("size", x.size), ("vector", VECTOR), *elementwise.element(x.dtype))
        kernel = Kernel(name, template, BLOCK, constants)
        return Lowering((kernel,), (Launch(name, elementwise.grid(x.size), args),))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.FORWARD:
            return {"y": tensors["x0"] - tensors["x1"]}
        return {"dx0": tensors["dy"], "dx1": -tensors["dy"]}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums(2 if direction is Pass.FORWARD else 1)

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.BACKWARD:
            return {}  # a copy
        terms = tensors["x0"], -tensors["x1"]
        grain = min(exactness.grain(term) for term in terms)
        if not grain:
            return {}
        magnitudes = np.sum(np.abs(terms), axis=0)
        return {"y": exactness.settled(np.sum(terms, axis=0), magnitudes, grain)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """One rounding to the nearest; a difference below the least normal number is exact."""
        if direction is Pass.FORWARD:
            return {"y": U * np.abs(tensors["x0"] - tensors["x1"])}
        return {name: np.zeros_like(tensors["dy"]) for name in GRADIENTS}  # copies


writes_all("subtract")


writes_all("subtract_backward", arguments=(-2, -1))
