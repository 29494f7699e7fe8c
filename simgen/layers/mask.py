"""Masks of attention: sets the scores of hidden keys so low that their weight is 0.

    forward   y[n, ..., q, k] = x[n, ..., q, k] where query q of sample n sees key k, else -2^15,
                                or the lowest number of a type that ends before
    backward  dx = dy where it sees it, else 0

    mask=causal   q sees k <= q + K - Q: what is not behind it, where the last query is the last key
    mask=lengths  q sees k < lengths[n]: no padding; lengths (N,) int32 of 1 to K

    x, y, dx, dy  (N, ..., Q, K)

A following [Softmax] with softmax_axis=-1 gives such keys the weight 0: relative to scores of any
size that exp can distinguish, exp of so low a number is 0. Lengths are the second tensor of
`previous_layer`, or come from the data file.

Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.3; attn_mask and
key_padding_mask of torch.nn.MultiheadAttention, is_causal of scaled_dot_product_attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, DType, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.layers import elementwise
from simgen.layers.base import Lowering, Port, Sums, key
from simgen.layers.copying import Copy
from simgen.layers.elementwise import BLOCK, VECTOR, ends
from simgen.layers.indices import outside
from simgen.layers.written import writes_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

HIDDEN = 2.0**15  # every type of 16 bits and more has it


class MaskMode(StrEnum):
    CAUSAL = "causal"
    LENGTHS = "lengths"


@dataclass(frozen=True)
class Mask(Copy):
    kind = "mask"
    section = "Mask"
    integers: ClassVar[tuple[DType, ...]] = ()
    input_names: ClassVar[tuple[str, ...]] = ("x", "lengths")
    indices: ClassVar[tuple[str, ...]] = ("lengths",)
    lengths: ClassVar[tuple[str, ...]] = ("lengths",)
    sample: ClassVar[Mapping[str, str]] = {"shape": "8x12x128x128"}

    mode: MaskMode = key(
        "mask", MaskMode.CAUSAL, "hidden elements: later ones (causal), or padding"
    )

    @property
    def _index(self) -> tuple[str, ...]:
        return ("lengths",) if self.mode is MaskMode.LENGTHS else ()

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        x, *given = inputs
        extents = " x ".join(map(str, x.shape))
        if len(x.shape) < 3:
            raise ValueError(f"x is {extents}; give it samples, queries and keys: 8x128x128")
        *_, queries, keys = x.shape
        if self.mode is MaskMode.CAUSAL and keys < queries:
            fact = f"x is {extents}: of {queries} queries, the first see none of {keys} keys"
            raise ValueError(f"{fact}; give it as many keys, or mask=lengths")
        if given and not self._index:
            raise ValueError(f"mask={self.mode} has no lengths; name x alone in previous_layer")
        if given and given[0].shape != (x.shape[0],):
            told = " x ".join(map(str, given[0].shape))
            fact = f"lengths are {told}, but x has {x.shape[0]} samples"
            raise ValueError(f"{fact}; give it an [Input] with shape={x.shape[0]} and type=i32")
        return x

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x = inputs[0]
        source, target = ends(direction)
        keys = x.shape[-1]
        some = Fill(Distribution.UNIFORM, float(-(-keys // 2)), keys + 1.0)  # half padding at most
        lengths = TensorSpec((x.shape[0],), DType.I32)
        return (
            Port(source, x, Fill(Distribution.NORMAL, 0.0, 1.0)),
            *(Port(name, lengths, some) for name in self._index),
            Port(target, x),
        )

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        x = inputs[0]
        *_, queries, keys = x.shape
        source, target = ends(direction)
        hidden = self._hidden(x.dtype, direction)
        suffix = elementwise.suffix(x.dtype)
        per = f"{prod(x.shape[1:])}x{queries}x{keys}"
        name = f"mask_{direction}_{self.mode}_{x.size}_{per}{suffix}"
        constants = (
            ("size", x.size),
            ("sample", prod(x.shape[1:])),
            ("queries", queries),
            ("keys", keys),
            ("with_lengths", len(self._index)),
            ("hidden", hidden),
            ("vector", VECTOR),
            *elementwise.element(x.dtype),
        )
        kernel = Kernel(name, "mask.hip", BLOCK, constants)
        args = (source, *self._index, target)
        return Lowering((kernel,), (Launch(name, elementwise.grid(x.size), args),))

    def fault(self, given: Mapping[str, NDArray[Any]], inputs: tuple[TensorSpec, ...]) -> str:
        return outside("lengths", given.get("lengths"), 1, inputs[0].shape[-1])

    def _hidden(self, dtype: DType, direction: Pass) -> float:
        """What is written where nothing is seen."""
        return -min(HIDDEN, dtype.largest) if direction is Pass.FORWARD else 0.0

    def _seen(self, tensors: Tensors, shape: tuple[int, ...]) -> Array:
        """Whether each query sees each key."""
        *_, queries, keys = shape
        places = np.arange(keys)
        if self.mode is MaskMode.CAUSAL:
            rows = np.arange(queries)[:, np.newaxis]
            return np.broadcast_to(places <= rows + keys - queries, shape)
        lengths = tensors["lengths"].reshape(-1, *[1] * (len(shape) - 1))
        return np.broadcast_to(places < lengths, shape)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        source, target = ends(direction)
        x = tensors[source]
        hidden = self._hidden(self.dtype, direction)
        return {target: np.where(self._seen(tensors, x.shape), x, hidden)}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums(whole=direction is Pass.BACKWARD)


writes_all("mask")
