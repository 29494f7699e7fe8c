"""Two axes that change places: heads of attention and tokens, samples and time steps."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.dtypes import WORD, DType
from simgen.ground.ir import Kernel, Launch, Pass, TensorSpec
from simgen.layers import elementwise
from simgen.layers.base import Lowering, key
from simgen.layers.copying import Copy
from simgen.layers.elementwise import BLOCK, VECTOR, ends
from simgen.layers.written import writes_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.layers.base import Tensors


@dataclass(frozen=True)
class Heads(Copy):
    """Heads of attention: splits the features of each token into heads that become part of the
    batch.

        forward   y[n, h, s, e] = x[n, s, h E + e]      of x with three axes: heads are cut
                  y[n, s, h E + e] = x[n, h, s, e]      of x with four: heads are put together again
        backward  the other way round

        (N, S, H E)  samples, tokens and their features     (N, H, S, E)  H = heads

    Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.2; the transpositions
    0213 of PyTorch's and FasterTransformer's multi-head attention.
    """

    kind = "heads"
    section = "Heads"
    sample: ClassVar[Mapping[str, str]] = {"shape": "8x128x768", "heads": "12"}

    heads: int = key("heads", 2, "parts of the features", 1)

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

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,), y = inputs, self.output(inputs)
        joins = len(x.shape) == 4
        n, h, s, e = (x if joins else y).shape
        cuts = joins == (direction is Pass.BACKWARD)
        first, second = (s, h) if cuts else (h, s)
        return swapped(f"{self.kind}_{n}x", x, (first, second, e), direction)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        source, target = ends(direction)
        x = tensors[source]
        if x.ndim == 3:
            parts = x.reshape(*x.shape[:2], self.heads, -1)
            return {target: np.ascontiguousarray(parts.swapaxes(1, 2))}
        joined = np.ascontiguousarray(x.swapaxes(1, 2))
        return {target: joined.reshape(*joined.shape[:2], -1)}


@dataclass(frozen=True)
class Transpose(Copy):
    """Swaps the first two axes of a tensor: samples and time steps.

        forward   y[t, n, ...] = x[n, t, ...]      backward  dx[n, t, ...] = dy[t, n, ...]

        x, dx  (N, T, ...)      y, dy  (T, N, ...)

    [Recurrent] has time steps first, attention and products of batches have samples first. Source:
    Transpose of ONNX with perm = 1, 0, 2, ...; torch.transpose(x, 0, 1).
    """

    kind = "transpose"
    section = "Transpose"
    per_sample = False
    integers: ClassVar[tuple[DType, ...]] = ()
    sample: ClassVar[Mapping[str, str]] = {"shape": "16x25x512"}

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        if len(x.shape) < 2:
            fact = f"the input has one axis of {x.shape[0]}, and no second one to change with"
            raise ValueError(f"{fact}; give it samples and time steps")
        first, second, *rest = x.shape
        return TensorSpec((second, first, *rest), x.dtype)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        first, second = x.shape[:2] if direction is Pass.FORWARD else x.shape[1::-1]
        return swapped(f"{self.kind}_", x, (first, second, prod(x.shape[2:])), direction)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        source, target = ends(direction)
        return {target: np.ascontiguousarray(tensors[source].swapaxes(0, 1))}


def swapped(
    prefix: str, tensor: TensorSpec, extents: tuple[int, int, int], direction: Pass
) -> Lowering:
    """One launch that makes (..., second, first, inner) of (..., first, second, inner) = extents.

    What the extents leave of the tensor is in front of them; kernels' names begin with the prefix.
    """
    first, second, inner = extents
    size, element = tensor.size, tensor.dtype
    if inner * element.nbytes % WORD == 0:  # copied as words
        size, inner = elementwise.words(tensor), inner * element.nbytes // WORD
        element = DType.F32
    vector = VECTOR if inner % VECTOR == 0 or element.is_narrow else 1
    name = f"{prefix}{first}x{second}x{inner}{elementwise.suffix(element)}"
    constants = (
        ("size", size),
        ("first", first),
        ("second", second),
        ("inner", inner),
        ("vector", vector),
        *elementwise.element(element),
    )
    kernel = Kernel(name, "heads.hip", BLOCK, constants)
    grid = (ceil(size / (BLOCK * vector)), 1, 1)
    return Lowering((kernel,), (Launch(name, grid, ends(direction)),))


writes_all("heads")
