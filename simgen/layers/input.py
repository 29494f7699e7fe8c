"""A tensor of the data file, of any rank, which several layers may read; nothing runs for it.

A `fixed` tensor, such as a mask or a table of places, has no samples: a bare `n` does not change
it.

    y  the tensor      dy  the sum of the gradients that its readers give it

Source: Input of Caffe, whose `shape` this is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from simgen.ground.ir import DType, Fill, Pass, TensorSpec
from simgen.layers.base import Layer, Port, key


@dataclass(frozen=True)
class Input(Layer):
    kind = "input"
    section = "Input"
    passes = ()
    input_names: ClassVar[tuple[str, ...]] = ()
    given = True
    any_float = True
    integers: ClassVar[tuple[DType, ...]] = (DType.I8, DType.I32)
    per_sample = True
    sample: ClassVar[Mapping[str, str]] = {"shape": "8x128x768"}

    fixed: bool = key("fixed", False, "the input has no samples; a bare n does not change it")
    deviation: float = key(
        "deviation", 1.0, "standard deviation of random floats", 1e-6, 1e6, hint=True
    )

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (y,) = inputs
        return y

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (y,) = inputs
        return (Port("y", y, Fill.usual(y.dtype, self.deviation)),)
