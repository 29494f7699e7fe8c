"""Element-wise non-linearities.

    mode          forward y =              backward dx =            source
    relu          max(x, 0)                dy where y > 0, else 0
    clipped_relu  min(max(x, 0), c)        dy where 0 < y < c       cuDNN, CLIPPED_RELU
    elu           x, or a (exp(x) - 1)     dy, or dy (y + a)        Clevert et al. 2015, eq. 14, 15
                  where x <= 0             where y <= 0
    sigmoid       1 / (1 + exp(-x))        dy y (1 - y)
    tanh          tanh(x)                  dy (1 - y^2)
    soft_relu     log(1 + exp(x))          dy (1 - exp(-y))         MIOpen, SOFTRELU

c is `activation_ceiling`, a is `activation_alpha`. Every derivative is a function of y alone, so
that a backward pass reads two tensors and a network need not keep x. Tensors have any shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, ClassVar

from simgen.ir import Distribution, Fill, Kernel, Launch, OpCount, Pass, TensorSpec
from simgen.layers import rounding
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.rounding import RCP, SECOND_ORDER, TINY, U, float32, identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from simgen.layers.base import Tensors
    from simgen.layers.rounding import Array
else:
    from simgen import arrays as np

BLOCK = 256  # work-items
VECTOR = 4  # elements of a work-item: one 16-byte load and store


class Mode(StrEnum):
    RELU = "relu"
    SIGMOID = "sigmoid"
    TANH = "tanh"
    CLIPPED_RELU = "clipped_relu"
    SOFT_RELU = "soft_relu"
    ELU = "elu"


# (flops, transcendentals) per element: forward, backward
COUNTS = {
    Mode.RELU: ((1, 0), (1, 0)),
    Mode.CLIPPED_RELU: ((2, 0), (2, 0)),
    Mode.ELU: ((3, 1), (3, 0)),
    Mode.SIGMOID: ((2, 2), (3, 0)),
    Mode.TANH: ((3, 2), (3, 0)),
    Mode.SOFT_RELU: ((2, 2), (3, 1)),
}


@dataclass(frozen=True)
class Activation(Layer):
    kind = "activation"
    section = "Activation"
    passes = (Pass.FORWARD, Pass.BACKWARD)
    per_sample = True
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "32", "h": "256", "w": "256"}

    mode: Mode = key("activation_mode", default=Mode.RELU)
    ceiling: float = key("activation_ceiling", default=6.0, least=1e-3, most=1e6)
    alpha: float = key("activation_alpha", default=1.0, least=0.0, most=1e6)

    @property
    def chooses(self) -> bool:
        """Whether every result is one of the operands, or a constant."""
        return self.mode in (Mode.RELU, Mode.CLIPPED_RELU)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        return x

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Per element of the output, by mode: see COUNTS."""
        (x,) = inputs
        backward = direction is Pass.BACKWARD
        flops, transcendentals = COUNTS[self.mode][backward]
        reads = 2 if backward else 1
        return OpCount(flops * x.size, transcendentals * x.size, reads * x.nbytes, x.nbytes)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        if direction is Pass.FORWARD:
            # Wide enough for saturation on both sides, dense enough around zero.
            return (Port("x", x, Fill(Distribution.NORMAL, 0.0, 8.0)), Port("y", x))
        normal = Distribution.NORMAL
        y = {  # what the forward pass can give, its limits included
            Mode.RELU: Fill(normal, 0.0, 8.0, low=0.0),  # beyond the usual ceilings too
            Mode.CLIPPED_RELU: Fill(normal, self.ceiling / 2, self.ceiling, 0.0, self.ceiling),
            Mode.ELU: Fill(normal, 0.0, 1.0, low=-self.alpha),
            Mode.SIGMOID: Fill(normal, 0.5, 0.5, 0.0, 1.0),
            Mode.TANH: Fill(normal, 0.0, 1.0, -1.0, 1.0),
            Mode.SOFT_RELU: Fill(normal, 2.0, 2.0, low=0.0),
        }[self.mode]
        dy = Fill(normal, 0.0, 1.0)
        return (Port("y", x, y), Port("dy", x, dy), Port("dx", x))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        constants: list[tuple[str, int | float | str]] = [
            ("direction", str(direction)),
            ("mode", str(self.mode)),
            ("size", x.size),
            ("vector", VECTOR),
        ]
        name = f"activation_{direction}_{self.mode}_{x.size}"
        if self.mode is Mode.CLIPPED_RELU:
            constants.append(("ceiling", float32(self.ceiling)))
            name += f"_c{identifier(self.ceiling)}"
        if self.mode is Mode.ELU:
            constants.append(("alpha", float32(self.alpha)))
            name += f"_a{identifier(self.alpha)}"
        kernel = Kernel(name, "activation.hip.j2", BLOCK, tuple(constants))
        grid = (ceil(x.size / (BLOCK * VECTOR)), 1, 1)
        args = ("x", "y") if direction is Pass.FORWARD else ("y", "dy", "dx")
        return Lowering((kernel,), (Launch(kernel.name, grid, args),))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.FORWARD:
            return {"y": self._forward(tensors["x"])}
        dy, slope = tensors["dy"], self._slope(tensors["y"])
        if self.chooses:  # no product: 0 inf would be NaN
            return {"dx": np.where(slope > 0, dy, 0.0)}
        return {"dx": dy * slope}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.FORWARD:
            x = tensors["x"]
            return {"y": self._forward_bound(x, self._forward(x)) * SECOND_ORDER}
        y, dy = tensors["y"], tensors["dy"]
        slope = self._slope(y)
        if self.chooses:
            return {"dx": np.zeros_like(dy)}  # dy or zero: nothing is rounded
        # The slope's own rounding: a subtraction from one, a product, an addition of `alpha`.
        own = U * (np.abs(slope) + np.abs(y) ** 2 + np.abs(y))
        if self.mode is Mode.SOFT_RELU:
            own = np.exp(-y) * rounding.exp(y) + U * slope
        bound = np.abs(dy) * own + 2 * U * np.abs(dy * slope) + TINY
        return {"dx": bound * SECOND_ORDER}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        whole = self.mode is not Mode.CLIPPED_RELU or self.ceiling.is_integer()
        return Sums(whole=whole) if self.chooses else None

    def _forward(self, x: Array) -> Array:
        match self.mode:
            case Mode.RELU:
                return np.maximum(x, 0.0)
            case Mode.CLIPPED_RELU:
                return np.clip(x, 0.0, float32(self.ceiling))
            case Mode.ELU:
                return np.where(x > 0, x, float32(self.alpha) * np.expm1(np.minimum(x, 0.0)))
            case Mode.SIGMOID:
                # exp of a negative number only, so that float64 does not overflow either.
                e = np.exp(-np.abs(x))
                return np.where(x >= 0, 1 / (1 + e), e / (1 + e))
            case Mode.TANH:
                return np.tanh(x)
            case Mode.SOFT_RELU:
                return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))

    def _slope(self, y: Array) -> Array:
        """dy/dx as a function of y."""
        match self.mode:
            case Mode.RELU:
                return (y > 0).astype(np.float64)
            case Mode.CLIPPED_RELU:
                return ((y > 0) & (y < float32(self.ceiling))).astype(np.float64)
            case Mode.ELU:
                return np.where(y > 0, 1.0, y + float32(self.alpha))
            case Mode.SIGMOID:
                return y * (1 - y)
            case Mode.TANH:
                return 1 - y * y
            case Mode.SOFT_RELU:
                return -np.expm1(-y)

    def _forward_bound(self, x: Array, y: Array) -> Array:
        match self.mode:
            case Mode.RELU | Mode.CLIPPED_RELU:
                return np.zeros_like(x)  # one of the operands: nothing is rounded
            case Mode.ELU:
                # exp(x) - 1 below -1/4, else a polynomial of six products and additions whose
                # truncation is x^6 / 5040 relative: less than U.
                alpha = float32(self.alpha)
                e: Array = np.exp(np.minimum(x, 0.0))
                far: Array = alpha * (e * rounding.exp(x) + U * (1 - e)) + U * np.abs(y)
                near = 9 * U * np.abs(y)
                return np.where(x > 0, 0.0, np.where(x < -0.25, far, near) + TINY)
            case Mode.SIGMOID:
                # 1 / (1 + e): e's relative error counts by its share of the sum, 1 - y.
                return y * ((1 - y) * rounding.exp(x) + U + RCP) + TINY
            case Mode.TANH:
                # 1 - 2 r, r = 1 / (1 + exp(2x)), from |x| = 1/4 on; before, an odd polynomial of
                # five terms whose truncation is 0.0089 x^10 relative: less than U.
                share = 1 / (1 + np.exp(-2 * x))
                far = (1 - y) * (share * rounding.exp(2 * x) + U + RCP) + U
                near = 8 * U * np.abs(y)
                return np.where(x * x < 0.06, near, far)
            case Mode.SOFT_RELU:
                # max(x, 0) + ln 2 log2(1 + e), e = exp(-|x|) <= 1.
                e = np.exp(-np.abs(x))
                inner = e / (1 + e) * rounding.exp(x) + U
                log: Array = np.log1p(e)
                bound: Array = inner + np.log(2) * rounding.log2(1 + e) + 2 * U * log + U * y
                return bound
