"""Heads of attention: splits the features of each token into heads that become part of the batch.

    forward   y[n, h, s, e] = x[n, s, h E + e]      of x with three axes: heads are cut
              y[n, s, h E + e] = x[n, h, s, e]      of x with four: heads are put together again
    backward  the other way round

    (N, S, H E)  samples, tokens and their features     (N, H, S, E)  H = heads

Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.2; the transpositions 0213 of
PyTorch's and FasterTransformer's multi-head attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.ir import DType, Fill, OpCount, Pass, TensorSpec
from simgen.layers import swap
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.contract import Contract
from simgen.layers.elementwise import ends

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from simgen.layers.base import Tensors
else:
    from simgen.ground import arrays as np


@dataclass(frozen=True)
class Heads(Layer):
    kind = "heads"
    section = "Heads"
    contract: ClassVar[Contract] = Contract(copies=(Pass.FORWARD, Pass.BACKWARD))
    passes = (Pass.FORWARD, Pass.BACKWARD)
    rank = None
    per_sample = True
    any_float = True
    integers: ClassVar[tuple[DType, ...]] = (DType.I8, DType.I32)
    sample: ClassVar[Mapping[str, str]] = {"shape": "8x128x768", "heads": "12"}

    heads: int = key("heads", default=2, least=1, text="parts of the features")

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        extents = " x ".join(map(str, x.shape))
        if len(x.shape) == 4:
            n, h, s, e = x.shape
            if h != self.heads:
                raise ValueError(f"the input is {extents}, which has {h} heads; set heads={h}")
            return TensorSpec((n, s, h * e), x.dtype)
        if len(x.shape) != 3:
            cure = (
                "give it (samples, tokens, features), or heads (samples, heads, tokens, features)"
            )
            raise ValueError(f"the input is {extents}; {cure}")
        n, s, features = x.shape
        if features % self.heads:
            fact = f"{features} features are not a multiple of {self.heads} heads"
            raise ValueError(f"{fact}; choose others")
        return TensorSpec((n, self.heads, s, features // self.heads), x.dtype)

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Each element is read and written once."""
        (x,) = inputs
        return OpCount(0, 0, x.nbytes, x.nbytes)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,), y = inputs, self.output(inputs)
        source, target = ends(direction)
        read, written = (x, y) if direction is Pass.FORWARD else (y, x)
        return (Port(source, read, Fill.usual(x.dtype)), Port(target, written))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        """A swap of two axes: where heads are cut, of tokens and heads."""
        (x,), y = inputs, self.output(inputs)
        joins = len(x.shape) == 4
        n, h, s, e = (x if joins else y).shape
        cuts = joins == (direction is Pass.BACKWARD)
        first, second = (s, h) if cuts else (h, s)
        return swap.lower(f"{self.kind}_{n}x", x, (first, second, e), direction)

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        return ("x", "y", "dx", "dy")

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        source, target = ends(direction)
        x = tensors[source]
        if x.ndim == 3:
            parts = x.reshape(*x.shape[:2], self.heads, -1)
            return {target: np.ascontiguousarray(parts.swapaxes(1, 2))}
        joined = np.ascontiguousarray(x.swapaxes(1, 2))
        return {target: joined.reshape(*joined.shape[:2], -1)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        # A copy has no error.
        return {port: np.zeros_like(t) for port, t in self.reference(tensors, direction).items()}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums()
