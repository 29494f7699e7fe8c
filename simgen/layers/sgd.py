"""Stochastic gradient descent: one step of a parameter against its gradient.

    y = x - rate * dx

    x   the parameter, of any shape      dx  the gradient of the loss by it
    y   the parameter after the step     rate  the learning rate

Source: Robbins and Monro, "A stochastic approximation method", 1951; torch.optim.SGD without
momentum. Pass `sgd` of a network has one such layer for each parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ir import Distribution, Fill, OpCount, Pass, TensorSpec
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.contract import Contract
from simgen.numerics import exactness
from simgen.numerics.rounding import SECOND_ORDER, TINY, U, float32, identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from simgen.layers.base import Tensors
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

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        return x

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """A multiply-add per element."""
        (x,) = inputs
        return OpCount(2 * x.size, 0, 2 * x.nbytes, x.nbytes)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        normal = Fill(Distribution.NORMAL, 0.0, 1.0)
        return (Port("x", x, normal), Port("dx", x, normal), Port("y", x))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        name = f"sgd_{x.size}_r{identifier(self.rate)}"
        descend = elementwise.Operation.DESCEND
        return elementwise.lower(name, descend, x.size, ("x", "dx"), ("y",), float32(self.rate))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        return {"y": tensors["x"] - float32(self.rate) * tensors["dx"]}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        # The result is rounded, and by MGPUSim, whose fused() is none, the product too.
        y = self.reference(tensors, direction)["y"]
        product = np.abs(tensors["x"] - y)
        return {"y": U * (np.abs(y) + product) * SECOND_ORDER + TINY}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums(2)

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        x, dx = tensors["x"], tensors["dx"]
        rate = float32(self.rate)
        grain = min(exactness.grain(x), exactness.grain(dx, np.array([rate])))
        if not grain:
            return {}
        magnitudes = np.abs(x) + np.abs(rate * dx)
        return {"y": exactness.settled(x - rate * dx, magnitudes, grain)}
