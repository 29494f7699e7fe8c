"""Stochastic gradient descent: one step of a parameter against its gradient.

    y    = x - (rate / loss_scale) * dx
    copy = y, as the type `copy_type`

x     the parameter, of any shape      dx    loss_scale times the gradient of the loss by it
y     the parameter after the step     rate  the learning rate

x and y are float32. dx has the type `gradient_type`. Where a parameter is used in a narrow type, x
and y are its master weights, which hold steps too small for that type, and the copy, written in the
same launch, is what the next forward pass reads. The loss, and so all gradients, are larger by
loss_scale, for small ones not to vanish in a narrow type; the step takes that out again, by one
constant, rate / loss_scale, rounded once. Gradients that overflow are not looked for: their
parameters become infinite or NaN.

Source: Robbins and Monro, "A stochastic approximation method", 1951; torch.optim.SGD without
momentum; Micikevicius et al., "Mixed Precision Training", 2018, sections 3.1 and 3.2. Pass `sgd` of
a network has one such layer for each parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.dtypes import WORD, DType
from simgen.ir import Distribution, Fill, Kernel, Launch, OpCount, Pass, TensorSpec
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.contract import Contract
from simgen.layers.written import Writes, dense, writes
from simgen.numerics import exactness
from simgen.numerics.rounding import SECOND_ORDER, TINY, U, float32, identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from simgen.ir import Constants
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values
else:
    from simgen import arrays as np


@dataclass(frozen=True)
class SGD(Layer):
    kind = "sgd"
    section = "SGD"
    contract: ClassVar[Contract] = Contract(exact_settings=("rate=0.125",))
    passes = (Pass.FORWARD,)
    per_sample = True  # of whatever its first axis is
    rank = None
    sample: ClassVar[Mapping[str, str]] = {"n": "1000", "c": "4096", "h": "1", "w": "1"}

    rate: float = key("rate", default=0.01, least=0.0, most=1e6, text="learning rate")
    loss_scale: float = key(
        "loss_scale", default=1.0, least=2.0**-24, most=2.0**24, text="of the loss, in the gradient"
    )
    gradient_type: DType = key("gradient_type", default=DType.F32, text="element type of dx")
    copy_type: DType = key(
        "copy_type",
        default=DType.F32,
        text="element type of the working copy; f32: there is none",
    )

    @property
    def step(self) -> float:
        """What dx is multiplied by, as float32."""
        return float32(self.rate / self.loss_scale)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        for dtype in (self.gradient_type, self.copy_type):
            if not dtype.is_float or dtype.nbytes > WORD:
                cure = "set gradient_type and copy_type to f32, f16 or bf16"
                raise ValueError(f"[SGD] has no steps in {dtype}; {cure}")
        return x

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """A multiply-add per element."""
        sizes = {True: 0, False: 0}  # bytes that are read, and written
        for port in self.ports(inputs, direction):
            sizes[port.fill is not None] += port.spec.nbytes
        return OpCount(2 * inputs[0].size, 0, sizes[True], sizes[False])

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        normal = Fill(Distribution.NORMAL, 0.0, 1.0)
        dx = TensorSpec(x.shape, self.gradient_type)
        copy = (Port("copy", TensorSpec(x.shape, self.copy_type)),) if self._copies else ()
        return (Port("x", x, normal), Port("dx", dx, normal), Port("y", x), *copy)

    @property
    def _copies(self) -> bool:
        return self.copy_type != DType.F32

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        return ("dx", "copy")

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        parts = [f"sgd_{x.size}_r{identifier(self.step)}"]
        constants: Constants = (
            ("size", x.size),
            ("vector", elementwise.VECTOR),
            ("rate", self.step),
            ("with_copy", int(self._copies)),
        )
        for name, dtype in (("gradient", self.gradient_type), ("copy", self.copy_type)):
            if dtype != DType.F32:
                parts.append(f"{name}_{dtype}")
                constants = (*constants, (name, dtype.c))
        kernel = Kernel("_".join(parts), "descend.hip", elementwise.BLOCK, constants)
        args = ("x", "dx", "y", *(("copy",) if self._copies else ()))
        return Lowering((kernel,), (Launch(kernel.name, elementwise.grid(x.size), args),))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        y = tensors["x"] - self.step * tensors["dx"]
        return {"y": y, **({"copy": y} if self._copies else {})}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        # The result is rounded, and by MGPUSim, whose fused() is none, the product too.
        made = self.reference(tensors, direction)
        y = made["y"]
        bound = U * (np.abs(y) + np.abs(tensors["x"] - y)) * SECOND_ORDER + TINY
        return dict.fromkeys(made, bound)

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums(2)

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        x, dx = tensors["x"], tensors["dx"]
        grain = min(exactness.grain(x), exactness.grain(dx, np.array([self.step])))
        if not grain:
            return {}
        magnitudes = np.abs(x) + np.abs(self.step * dx)
        y = exactness.settled(x - self.step * dx, magnitudes, grain)
        return {"y": y, **({"copy": y} if self._copies else {})}


@writes("descend")
def _written(c: Values, block: int) -> list[Writes]:
    arguments = (-1, -2) if c["with_copy"] else (-1,)
    return [dense(at, c["size"], c["vector"], block) for at in arguments]
