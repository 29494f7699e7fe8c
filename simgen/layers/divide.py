"""Element-wise quotient of two tensors.

    forward   y = x0 / x1
    backward  dx0 = dy / x1      dx1 = -dx0 x0 / x1

    x0, x1, y and their gradients  (N, C, H, W), or another shape that all have in common

Source: Div of ONNX without broadcasting. Kernels multiply by the reciprocal of x1, which each
machine has as one instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics.rounding import RCP, SECOND_ORDER, TINY, U
from simgen.layers import elementwise
from simgen.layers.base import Lowering, Port
from simgen.layers.binary import Binary
from simgen.layers.contract import Contract
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.written import writes_all

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors


@dataclass(frozen=True)
class Divide(Binary):
    kind = "divide"
    section = "Divide"
    contract: ClassVar[Contract] = Contract(rounds=True)  # reciprocals are any numbers

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """A reciprocal, and a product for each element that is written; a / b is one more."""
        size = inputs[0].size
        return size if direction is Pass.FORWARD else 3 * size, size

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x, _ = inputs
        normal = Fill(Distribution.NORMAL, 0.0, 1.0)
        # Two binades, of which none is near 0: quotients keep the size of what is divided.
        read = (Port("x0", x, normal), Port("x1", x, Fill(Distribution.UNIFORM, 0.5, 2.0)))
        if direction is Pass.FORWARD:
            return (*read, Port("y", x))
        return (*read, Port("dy", x, normal), Port("dx0", x), Port("dx1", x))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        x, _ = inputs
        name = f"divide_{direction}_{x.size}{elementwise.suffix(x.dtype)}"
        forward = direction is Pass.FORWARD
        template = "divide.hip" if forward else "divide_backward.hip"
        args = ("x0", "x1", *(("y",) if forward else ("dy", "dx0", "dx1")))
        constants = (("size", x.size), ("vector", VECTOR), *elementwise.element(x.dtype))
        kernel = Kernel(name, template, BLOCK, constants)
        return Lowering((kernel,), (Launch(name, elementwise.grid(x.size), args),))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        with np.errstate(all="ignore"):  # divisors of a network may be 0
            y: Array = tensors["x0"] / tensors["x1"]
            if direction is Pass.FORWARD:
                return {"y": y}
            dx0 = tensors["dy"] / tensors["x1"]
            return {"dx0": dx0, "dx1": -dx0 * y}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """A reciprocal and the rounding of the product with it; where the divisor is so large that
        its reciprocal may be flushed, that times what is divided. A product of two quotients has
        their errors and its own rounding. Of a divisor that may be flushed nothing is known.
        """
        x0, x1 = tensors["x0"], tensors["x1"]
        made = self.reference(tensors, direction)
        with np.errstate(all="ignore"):
            if direction is Pass.FORWARD:
                bounds = {"y": _bound(x0, made["y"])}
            else:
                y, dx0 = x0 / x1, made["dx0"]
                first, second = _bound(tensors["dy"], dx0), _bound(x0, y)
                product = np.abs(y) * first + np.abs(dx0) * second + first * second
                bounds = {"dx0": first, "dx1": product + U * np.abs(made["dx1"]) + TINY}
            return {
                port: np.where(np.abs(x1) < TINY, np.inf, bound * SECOND_ORDER)
                for port, bound in bounds.items()
            }


def _bound(divided: Array, quotient: Array) -> Array:
    bound: Array = (RCP + U) * np.abs(quotient) + TINY * np.abs(divided) + TINY
    return bound


writes_all("divide")


writes_all("divide_backward", arguments=(-2, -1))
