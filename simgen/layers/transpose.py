"""Swaps the first two axes of a tensor: samples and time steps.

    forward   y[t, n, ...] = x[n, t, ...]      backward  dx[n, t, ...] = dy[t, n, ...]

    x, dx  (N, T, ...)      y, dy  (T, N, ...)

[Recurrent] has time steps first, attention and products of batches have samples first. Source:
Transpose of ONNX with perm = 1, 0, 2, ...; torch.transpose(x, 0, 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.ir import Distribution, Fill, OpCount, Pass, TensorSpec
from simgen.layers import swap
from simgen.layers.base import Layer, Lowering, Port, Sums
from simgen.layers.contract import Contract
from simgen.layers.elementwise import ends

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from simgen.layers.base import Tensors
else:
    from simgen.ground import arrays as np


@dataclass(frozen=True)
class Transpose(Layer):
    kind = "transpose"
    section = "Transpose"
    contract: ClassVar[Contract] = Contract(copies=(Pass.FORWARD, Pass.BACKWARD))
    passes: ClassVar[tuple[Pass, ...]] = (Pass.FORWARD, Pass.BACKWARD)
    rank: ClassVar[int | None] = None
    any_float = True
    sample: ClassVar[Mapping[str, str]] = {"shape": "16x25x512"}

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        if len(x.shape) < 2:
            fact = f"the input has one axis of {x.shape[0]}, and no second one to change with"
            raise ValueError(f"{fact}; give it samples and time steps")
        first, second, *rest = x.shape
        return TensorSpec((second, first, *rest), x.dtype)

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Each element is read and written once."""
        (x,) = inputs
        return OpCount(0, 0, x.nbytes, x.nbytes)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,), y = inputs, self.output(inputs)
        source, target = ends(direction)
        read, written = (x, y) if direction is Pass.FORWARD else (y, x)
        return (Port(source, read, Fill(Distribution.NORMAL, 0.0, 1.0)), Port(target, written))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        first, second = x.shape[:2] if direction is Pass.FORWARD else x.shape[1::-1]
        extents = first, second, prod(x.shape[2:])
        return swap.lower(f"{self.kind}_", x, extents, direction)

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        return ("x", "y", "dx", "dy")

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        source, target = ends(direction)
        return {target: np.ascontiguousarray(tensors[source].swapaxes(0, 1))}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        # A copy has no error.
        return {port: np.zeros_like(t) for port, t in self.reference(tensors, direction).items()}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums()
