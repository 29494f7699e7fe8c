"""What layers of two tensors of the same extents have in common: x0 and x1 in place of x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.ir import Pass, TensorSpec
from simgen.layers.base import Layer

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Binary(Layer):
    """A layer with two inputs: by itself of one shape, in a network those of `previous_layer`."""

    passes: ClassVar[tuple[Pass, ...]] = (Pass.FORWARD, Pass.BACKWARD)
    input_names: ClassVar[tuple[str, ...]] = ("x0", "x1")
    rank: ClassVar[int | None] = None
    per_sample: ClassVar[bool] = True
    any_float: ClassVar[bool] = True
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "256", "h": "56", "w": "56"}

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        return (x, x)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        if len(inputs) != 2:
            raise ValueError(f"[{self.section}] has one input; name two in previous_layer")
        x0, x1 = inputs
        if x0.shape != x1.shape:
            one, other = (" x ".join(map(str, each.shape)) for each in inputs)
            raise ValueError(f"x0 is {one}, but x1 is {other}; give them the same extents")
        if x0.dtype != x1.dtype:
            raise ValueError(f"x0 is {x0.dtype}, but x1 is {x1.dtype}; insert [Cast] before it")
        return x0
