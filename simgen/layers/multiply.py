"""Element-wise product of two tensors, such as a gate.

    forward   y = x0 x1
    backward  dx0 = dy x1      dx1 = dy x0

    x0, x1, y and their gradients  (N, C, H, W), or another shape that all have in common

Source: Mul of ONNX without broadcasting; the gates of Hochreiter and Schmidhuber, "Long short-term
memory", 1997.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import exactness
from simgen.ground.numerics.rounding import TINY, U
from simgen.layers import elementwise
from simgen.layers.base import Lowering, Port, Sums
from simgen.layers.binary import Binary
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.written import writes_all

if TYPE_CHECKING:
    from simgen.layers.base import Tensors

GRADIENTS = (("dx0", "x1"), ("dx1", "x0"))  # what is written, and what dy is multiplied by


@dataclass(frozen=True)
class Multiply(Binary):
    kind = "multiply"
    section = "Multiply"

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """A product for each element of what is written."""
        return inputs[0].size * (1 if direction is Pass.FORWARD else 2), 0

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x, _ = inputs
        normal = Fill(Distribution.NORMAL, 0.0, 1.0)
        read = (Port("x0", x, normal), Port("x1", x, normal))
        if direction is Pass.FORWARD:
            return (*read, Port("y", x))
        return (*read, Port("dy", x, normal), *(Port(name, x) for name, _ in GRADIENTS))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        x, _ = inputs
        name = f"multiply_{x.size}{elementwise.suffix(x.dtype)}"
        constants = (("size", x.size), ("vector", VECTOR), *elementwise.element(x.dtype))
        kernel = Kernel(name, "multiply.hip", BLOCK, constants)
        args = [("x0", "x1", "y")]
        if direction is Pass.BACKWARD:
            args = [("dy", factor, made) for made, factor in GRADIENTS]
        launches = (Launch(name, elementwise.grid(x.size), each) for each in args)
        return Lowering((kernel,), tuple(launches))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.FORWARD:
            return {"y": tensors["x0"] * tensors["x1"]}
        return {made: tensors["dy"] * tensors[factor] for made, factor in GRADIENTS}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums()

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        """Products of whole numbers, or of those by powers of two, that need no rounding."""
        factors = {"y": ("x0", "x1")}
        if direction is Pass.BACKWARD:
            factors = {made: ("dy", factor) for made, factor in GRADIENTS}
        found = {}
        for made, pair in factors.items():
            grain = exactness.grain(tensors[pair[0]], tensors[pair[1]])
            if grain:
                product = tensors[pair[0]] * tensors[pair[1]]
                found[made] = exactness.settled(product, np.abs(product), grain)
        return found

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """One product is rounded, and may be flushed to zero."""
        made = self.reference(tensors, direction)
        return {port: U * np.abs(values) + TINY for port, values in made.items()}


writes_all("multiply")
