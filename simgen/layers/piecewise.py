"""Piecewise linear functions and swish, element by element, forward only.

    mode           y =
    leaky_relu     x where x > 0, otherwise a x
    clip           min(max(x, low), high)
    hard_sigmoid   min(max(a x + b, 0), 1)
    hard_swish     x min(max(a x + b, 0), 1)
    linear         a x + b
    swish          x / (1 + exp(-a x))

a is `slope`, b is `offset`. relu and clipped_relu are in [Activation], with a backward pass.

Source: LeakyRelu, Clip, HardSigmoid and HardSwish of ONNX; Howard et al., "Searching for
MobileNetV3", 2019, section 5.2, where a = 1/6 and b = 1/2. Swish: Ramachandran et al., "Searching
for Activation Functions", 2017; with a = 1, torch.nn.SiLU.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import rounding
from simgen.ground.numerics.rounding import RCP, SECOND_ORDER, TINY, U, between, float32, identifier
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.written import writes_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.ir import Constants
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

LARGEST = 3.4028234663852886e38  # largest finite float32


class PiecewiseMode(StrEnum):
    LEAKY_RELU = "leaky_relu"
    CLIP = "clip"
    HARD_SIGMOID = "hard_sigmoid"
    HARD_SWISH = "hard_swish"
    LINEAR = "linear"
    SWISH = "swish"


COUNTS = {  # flops, transcendentals
    PiecewiseMode.LEAKY_RELU: (2, 0),
    PiecewiseMode.CLIP: (2, 0),
    PiecewiseMode.HARD_SIGMOID: (4, 0),
    PiecewiseMode.HARD_SWISH: (5, 0),
    PiecewiseMode.LINEAR: (2, 0),
    PiecewiseMode.SWISH: (3, 2),
}
OFFSET = (PiecewiseMode.HARD_SIGMOID, PiecewiseMode.HARD_SWISH, PiecewiseMode.LINEAR)  # have one


@dataclass(frozen=True)
class Piecewise(Layer):
    kind = "piecewise"
    section = "Piecewise"
    passes: ClassVar[tuple[Pass, ...]] = (Pass.FORWARD,)
    per_sample = True
    any_float = True
    contract: ClassVar[Contract] = Contract(rounds=True)  # slopes are any numbers
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "32", "h": "128", "w": "128"}

    mode: PiecewiseMode = key("piecewise_mode", PiecewiseMode.LEAKY_RELU, "the function")
    slope: float = key("slope", 0.125, "coefficient a of all functions but clip", -1e6, 1e6)
    offset: float = key(
        "offset", 0.5, "coefficient b of hard_sigmoid, hard_swish, linear", -1e6, 1e6
    )
    low: float = key("low", -1.0, "lower limit of clip", -LARGEST, LARGEST)
    high: float = key("high", 6.0, "upper limit of clip", -LARGEST, LARGEST)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        if self.mode is PiecewiseMode.CLIP and float32(self.low) > float32(self.high):
            raise ValueError(f"low is {self.low}, above {self.high}, which is high; exchange them")
        return x

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        flops, transcendentals = COUNTS[self.mode]
        return flops * inputs[0].size, transcendentals * inputs[0].size

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        return (Port("x", x, Fill.usual(x.dtype, 8.0)), Port("y", x))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        clips = self.mode is PiecewiseMode.CLIP
        numbers = {
            "slope": 0.0 if clips else float32(self.slope),
            "offset": float32(self.offset) if self.mode in OFFSET else 0.0,
            "low": float32(self.low) if clips else 0.0,
            "high": float32(self.high) if clips else 0.0,
        }
        constants: Constants = (
            ("function", str(self.mode)),
            *numbers.items(),
            ("size", x.size),
            ("vector", VECTOR),
            *elementwise.element(x.dtype),
        )
        used = "".join(f"_{name[0]}{identifier(each)}" for name, each in numbers.items() if each)
        suffix = elementwise.suffix(x.dtype)
        name = f"piecewise_{self.mode}_{x.size}{used}{suffix}"
        kernel = Kernel(name, "piecewise.hip", BLOCK, constants)
        grid = (ceil(x.size / (BLOCK * VECTOR)), 1, 1)
        return Lowering((kernel,), (Launch(name, grid, ("x", "y")),))

    def _line(self, x: Array) -> Array:
        return float32(self.slope) * x + float32(self.offset)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        x = tensors["x"]
        match self.mode:
            case PiecewiseMode.LEAKY_RELU:
                return {"y": np.where(x > 0, x, float32(self.slope) * x)}
            case PiecewiseMode.CLIP:
                return {"y": between(float32(self.low), x, float32(self.high))}
            case PiecewiseMode.HARD_SIGMOID:
                return {"y": between(0.0, self._line(x), 1.0)}
            case PiecewiseMode.HARD_SWISH:
                return {"y": x * between(0.0, self._line(x), 1.0)}
            case PiecewiseMode.LINEAR:
                return {"y": self._line(x)}
            case PiecewiseMode.SWISH:
                e = np.exp(-np.abs(float32(self.slope) * x))  # float64 does not overflow either
                return {"y": x * np.where(float32(self.slope) * x >= 0, 1.0, e) / (1 + e)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """The line is a multiply-add, which rounds its product too where it is not fused (MGPUSim);
        what is cut off to 0 or 1 may have been rounded across it. Products may be flushed to zero.
        """
        x = tensors["x"]
        y = self.reference(tensors, direction)["y"]
        if self.mode is PiecewiseMode.CLIP:
            return {"y": np.zeros_like(y)}  # one of the operands
        if self.mode is PiecewiseMode.LEAKY_RELU:
            return {"y": np.where(x > 0, 0.0, U * np.abs(y) + TINY)}
        if self.mode is PiecewiseMode.SWISH:
            # With e = exp(-t) and t = a x, the error counts by its share of 1 + e. a log2(e) has
            # one rounding more than without a. The sum, its reciprocal and the product follow.
            t = float32(self.slope) * x
            share = np.where(t > 0, np.exp(-np.abs(t)), 1.0) / (1 + np.exp(-np.abs(t)))
            relative = share * (rounding.exp(t) + U * np.abs(t)) + 2 * U + RCP
            return {"y": (relative * np.abs(y) + (1 + np.abs(x)) * TINY) * SECOND_ORDER}
        if self.mode is PiecewiseMode.LINEAR:
            product = U * np.abs(float32(self.slope) * x) if float32(self.offset) else 0.0
            return {"y": (product + U * np.abs(y) + 2 * TINY) * SECOND_ORDER}
        line = self._line(x)
        product = U * np.abs(float32(self.slope) * x) + TINY
        rounded = U * np.minimum(np.abs(line), 1.0) + TINY + product
        above = line > -2 * (TINY + product)
        inside = above & (line < 1 + 2 * (U + product))
        bound = np.where(inside, rounded, 0.0)
        if self.mode is PiecewiseMode.HARD_SWISH:
            bound = np.abs(x) * bound + np.where(above, U * np.abs(y) + TINY, 0.0)
        return {"y": bound * SECOND_ORDER}


writes_all("piecewise")
