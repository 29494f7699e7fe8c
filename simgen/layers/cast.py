"""Conversion of elements to another type.

    forward   y  = x, as the type `type`
    backward  dx = dy, as the type of x

    x, y, dx, dy  (N, C, H, W)

To the nearest number, of two the even one: IEEE 754-2019, 5.4.2 (convertFormat) and 4.3.1
(roundTiesToEven). What is too large becomes infinity, or NaN where the type has none: the OCP 8-bit
Floating Point Specification, 2023, calls that non-saturating. By itself the layer reads the type
`from`; in a network, what the layer before it writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.dtypes import F16, DType
from simgen.ir import Distribution, Fill, OpCount, Pass, TensorSpec
from simgen.layers import conversion, elementwise
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.contract import Contract

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from simgen.layers.base import Tensors
else:
    from simgen import arrays as np


@dataclass(frozen=True)
class Cast(Layer):
    kind = "cast"
    section = "Cast"
    contract: ClassVar[Contract] = Contract(copies=(Pass.FORWARD, Pass.BACKWARD))
    passes = (Pass.FORWARD, Pass.BACKWARD)
    rank = None
    per_sample = True
    any_float = True
    type_key = "from"
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "1000", "h": "1", "w": "1"}

    type: DType = key("type", default=F16, text="element type of the output")

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        if not self.type.is_float or self.type.nbytes > DType.F32.nbytes:
            raise ValueError(f"[Cast] cannot make {self.type.name}; set type=f32, f16 or bf16")
        return TensorSpec(x.shape, self.type)

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Each element is read and written once."""
        source, target = self._ends(inputs, direction)
        return OpCount(0, 0, source.nbytes, target.nbytes)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        source, target = elementwise.ends(direction)
        read, written = self._ends(inputs, direction)
        # Over some binades on both sides of 1, and small enough for every type.
        wide = Fill(Distribution.NORMAL, 0.0, 8.0)
        return (Port(source, read, wide), Port(target, written))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        read, written = self._ends(inputs, direction)
        source, target = elementwise.ends(direction)
        return conversion.cast(read.size, read.dtype, written.dtype, source, target)

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        return elementwise.ends(direction)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        source, target = elementwise.ends(direction)
        return {target: tensors[source]}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        source, target = elementwise.ends(direction)
        return {target: np.zeros_like(tensors[source])}  # what storing rounds is known to the bit

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums()

    def _ends(
        self, inputs: tuple[TensorSpec, ...], direction: Pass
    ) -> tuple[TensorSpec, TensorSpec]:
        """What the pass reads, and writes."""
        (x,), y = inputs, self.output(inputs)
        return (x, y) if direction is Pass.FORWARD else (y, x)
