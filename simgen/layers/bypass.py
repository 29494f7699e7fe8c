"""Bypass: the identity, as a copy.

    forward   y  = x
    backward  dx = dy

    x, y, dx, dy  (N, C, H, W)

Source: DNNMark's BypassLayer (core/include/layers/bypass_layer.h), one device-to-device copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.ir import DType, Fill, OpCount, Pass, TensorSpec
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, Sums
from simgen.layers.contract import Contract

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from simgen.layers.base import Tensors
else:
    from simgen.ground import arrays as np


@dataclass(frozen=True)
class Bypass(Layer):
    kind = "bypass"
    section = "Bypass"
    contract: ClassVar[Contract] = Contract(copies=(Pass.FORWARD, Pass.BACKWARD))
    passes = (Pass.FORWARD, Pass.BACKWARD)
    per_sample = True
    any_float = True
    integers: ClassVar[tuple[DType, ...]] = (DType.I8, DType.I32)
    rank = None
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "1000", "h": "1", "w": "1"}

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        return x

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Each element is read and written once."""
        (x,) = inputs
        return OpCount(0, 0, x.nbytes, x.nbytes)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        source, target = elementwise.ends(direction)
        return (Port(source, x, Fill.usual(x.dtype)), Port(target, x))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        source, target = elementwise.ends(direction)
        size = elementwise.words(x)
        name = f"bypass_{size}"  # the same in both passes
        copy = elementwise.Operation.COPY
        return elementwise.lower(name, copy, size, (source,), (target,))

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        return elementwise.ends(direction)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        source, target = elementwise.ends(direction)
        return {target: tensors[source]}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        source, target = elementwise.ends(direction)
        return {target: np.zeros_like(tensors[source])}  # a copy has no error

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums()
