"""What layers have in common that move the elements of x, and compute nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import DType, Fill, Pass, TensorSpec
from simgen.layers.base import Layer, Port, Sums
from simgen.layers.contract import Contract
from simgen.layers.elementwise import ends

if TYPE_CHECKING:
    from simgen.layers.base import Tensors


@dataclass(frozen=True)
class Copy(Layer):
    """Forward, elements of x become those of y; backward the other way round."""

    contract: ClassVar[Contract] = Contract(copies=(Pass.FORWARD, Pass.BACKWARD))
    per_sample: ClassVar[bool] = True
    any_float: ClassVar[bool] = True
    integers: ClassVar[tuple[DType, ...]] = (DType.I8, DType.I32)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x, y = inputs[0], self.output(inputs)
        read, written = (x, y) if direction is Pass.FORWARD else (y, x)
        source, target = ends(direction)
        return (Port(source, read, Fill.usual(x.dtype)), Port(target, written))

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        return {port: np.zeros_like(t) for port, t in self.reference(tensors, direction).items()}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums()
