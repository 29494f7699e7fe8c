"""A tensor with other extents and the same elements in place. Nothing runs for it.

    y  x with the extents `to`, as many elements

Readers of y read x, and its gradient is that of x. An extent 0 of `to` is that of x, and -1 is the
remainder. Without a previous layer, y is a tensor of the data file.

Source: Reshape of ONNX, with its 0 and -1; Flatten, Squeeze and Unsqueeze are others of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from simgen.ground.ir import DType, TensorSpec
from simgen.layers.axes import extents
from simgen.layers.base import Alias, key


@dataclass(frozen=True)
class Reshape(Alias):
    kind = "reshape"
    section = "Reshape"
    passes = ()
    any_float = True
    integers: ClassVar[tuple[DType, ...]] = (DType.I8, DType.I32)
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "256", "h": "6", "w": "6", "to": "0x-1"}

    to: str = key("to", "0x-1", "extents of y; 0: as in x, -1: the remainder")

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        asked = extents("to", self.to)
        beyond = [at for at, each in enumerate(asked) if each == 0 and at >= len(x.shape)]
        if beyond:
            raise ValueError(f"to is {self.to}, and x has no axis {beyond[0]} for its 0; write it")
        shape = [x.shape[at] if each == 0 else each for at, each in enumerate(asked)]
        if shape.count(-1) == 1:
            known = prod(each for each in shape if each != -1)
            shape[shape.index(-1)] = x.size // known
        if min(shape) < 1 or prod(shape) != x.size:
            fact = f"to is {self.to}, and x has {' x '.join(map(str, x.shape))} elements"
            raise ValueError(f"{fact}; write extents with that product")
        return TensorSpec(tuple(shape), x.dtype)
