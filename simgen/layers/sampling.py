"""Filters of logits, and the choice of a token: rows of x are the last axis.

    [TopK]     y = x where x is not below the row's K-th largest element, else -2^15
    [TopP]     the same where less than `share` of the row's probability lies above x
    [Sample]   y = the first i with p[0] + ... + p[i] > u, or with greedy=true the first largest x
               p = exp(x - max) / sum of exp(x - max)

    x  (..., V)      u  (...) of [0, 1), given or random      y of [Sample]  (...) int32

Elements that equal the last one that stays do so too. A row's threshold is found by its bits, four
at a time, from histograms: eight readings of the row, whatever K is. [TopP] and [Sample] add up
rounded probabilities: where two sums that decide are closer than their errors, nothing is known.

Source: top-k and nucleus filters of Holtzman et al., "The Curious Case of Neural Text
Degeneration", 2020, section 3; TopKMaskLogits and SamplingFromProb of FlashInfer.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, DType, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import rounding
from simgen.ground.numerics.rounding import SECOND_ORDER, U, float32, identifier
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.contract import Contract
from simgen.layers.copying import Copy
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.mask import HIDDEN
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

F = Pass.FORWARD
MOST = 2**24  # elements of a row: numbers of elements are exact in float32
LOGITS = Fill(Distribution.NORMAL, 0.0, 3.0)


def _row(x: TensorSpec) -> int:
    """Elements of a row."""
    if x.shape[-1] > MOST:
        raise ValueError(f"a row has {x.shape[-1]} elements; {MOST} is the most")
    return x.shape[-1]


def _row_vector(x: TensorSpec) -> int:
    return 1 if x.shape[-1] % VECTOR else VECTOR


def _lower(
    kind: str, template: str, x: TensorSpec, constants: Any, args: Any, own: str
) -> Lowering:
    """One launch, a work-group for each row."""
    vector = _row_vector(x)
    x = x if vector == VECTOR else TensorSpec(x.shape)
    rows = x.size // x.shape[-1]
    given = (("rows", rows), ("row", x.shape[-1]), ("vector", vector), *constants)
    name = f"{kind}_{rows}x{x.shape[-1]}_{own}{elementwise.suffix(x.dtype)}"
    kernel = Kernel(name, template, BLOCK, (*given, *elementwise.element(x.dtype)))
    return Lowering((kernel,), (Launch(name, (rows, 1, 1), args),))


def _likely(x: Array) -> tuple[Array, Array]:
    """(p; a bound on the error of a sum of any of a row's, for both sums that are compared).

    An exponential is off by that of its argument, which rounds. A work-item adds up its share of
    the row, then 16 and 16 sums; what is left of the sum that is sought rounds eight times."""
    d = x - x.max(axis=-1, keepdims=True)
    e = np.exp(d)
    p = e / e.sum(axis=-1, keepdims=True)
    relative = rounding.exp(d) + U * np.abs(d)
    depth = ceil(x.shape[-1] / BLOCK) + VECTOR + 48
    off = 2 * ((p * relative).sum(axis=-1, keepdims=True) + depth * U) * SECOND_ORDER
    return p, off


@dataclass(frozen=True)
class TopK(Copy):
    kind = "top_k"
    section = "TopK"
    contract: ClassVar[Contract] = Contract(copies=(F,))
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    integers: ClassVar[tuple[DType, ...]] = ()
    axis_names: ClassVar[tuple[str, ...]] = ("batch", "logits")
    sample: ClassVar[Mapping[str, str]] = {"shape": "4x1000"}

    top_k: int = key("top_k", 50, "elements of a row that stay", 1, MOST)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        if self.top_k > _row(x):
            fact = f"top_k is {self.top_k}, and a row has {x.shape[-1]} elements"
            raise ValueError(f"{fact}; write {x.shape[-1]} or less")
        return x

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        return (Port("x", inputs[0], LOGITS), Port("y", self.output(inputs)))

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        return super().moves(inputs, direction) if _row_vector(inputs[0]) == VECTOR else ()

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        x = inputs[0]
        hidden = -min(HIDDEN, x.dtype.largest)
        constants = (("top_k", self.top_k), ("share", 0.0), ("hidden", hidden))
        return _lower(self.kind, "top_filter.hip", x, constants, ("x", "y"), str(self.top_k))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        x = tensors["x"]
        least = np.partition(x, -self.top_k, axis=-1)[..., -self.top_k, np.newaxis]
        return {"y": np.where(x >= least, x, -min(HIDDEN, self.dtype.largest))}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums(whole=False)


@dataclass(frozen=True)
class TopP(Layer):
    kind = "top_p"
    section = "TopP"
    contract: ClassVar[Contract] = Contract(rounds=True)
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    any_float = True
    sample: ClassVar[Mapping[str, str]] = {"shape": "4x1000"}

    share: float = key("share", 0.9, "of a row's probability, which stays; 1: all", 1e-6, 1.0)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        _row(inputs[0])
        return inputs[0]

    def by_sample(self, inputs: tuple[TensorSpec, ...]) -> bool:
        return len(inputs[0].shape) > 1

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """A difference, an exponential, a sum, a comparison."""
        return 3 * inputs[0].size, inputs[0].size

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        return (Port("x", inputs[0], LOGITS), Port("y", self.output(inputs)))

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        return super().moves(inputs, direction) if _row_vector(inputs[0]) == VECTOR else ()

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        x = inputs[0]
        hidden = -min(HIDDEN, x.dtype.largest)
        constants = (("top_k", 0), ("share", float32(self.share)), ("hidden", hidden))
        own = identifier(self.share)
        return _lower(self.kind, "top_filter.hip", x, constants, ("x", "y"), own)

    def _above(self, x: Array, p: Array) -> Array:
        """Probability of what is larger than each element."""
        order = np.argsort(-x, axis=-1, kind="stable")
        ranked, sums = (np.take_along_axis(each, order, -1) for each in (x, p))
        before = np.cumsum(sums, axis=-1) - sums
        first = np.ones(x.shape, bool)
        first[..., 1:] = ranked[..., 1:] != ranked[..., :-1]
        before = np.maximum.accumulate(np.where(first, before, 0.0), axis=-1)
        made = np.empty_like(before)
        np.put_along_axis(made, order, before, -1)
        return made

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        x = tensors["x"]
        p, _ = _likely(x)
        stays = (self._above(x, p) < float32(self.share)) | (self.share == 1)
        return {"y": np.where(stays, x, -min(HIDDEN, self.dtype.largest))}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        p, off = _likely(tensors["x"])
        if self.share == 1:
            return {"y": np.zeros_like(p)}
        gap = np.abs(self._above(tensors["x"], p) - float32(self.share))
        return {"y": np.where(gap <= off, np.inf, 0.0)}


@dataclass(frozen=True)
class SampleToken(Layer):
    kind = "sample"
    section = "Sample"
    contract: ClassVar[Contract] = Contract(rounds=True)
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    input_names: ClassVar[tuple[str, ...]] = ("x", "u")
    any_float = True
    sample: ClassVar[Mapping[str, str]] = {"shape": "4x1000"}

    greedy: bool = key("greedy", False, "the first of the largest elements; no random numbers")

    @property
    def takes(self) -> tuple[str, ...]:
        return self.input_names[:1] if self.greedy else self.input_names

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        return (x, TensorSpec(x.shape[:-1] or (1,)))[: len(self.takes)]

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        x, *given = inputs
        _row(x)
        shape = x.shape[:-1]
        if not shape:
            raise ValueError("x has one axis; give it rows and logits, as 4x1000")
        if len(given) != (not self.greedy):
            cure = "name x alone" if given else "name random numbers of [0, 1) second"
            fact = f"greedy={str(self.greedy).lower()}, and it has {len(inputs)} inputs"
            raise ValueError(f"{fact}; {cure} in previous_layer")
        if given and (given[0].shape != shape or not given[0].dtype.is_float):
            told, right = (" x ".join(map(str, s)) for s in (given[0].shape, shape))
            raise ValueError(f"u is {told} of {given[0].dtype}; give it {right} of f32")
        return TensorSpec(shape, DType.I32)

    def index_ends(self, inputs: tuple[TensorSpec, ...]) -> Mapping[str, int]:
        return {"y": inputs[0].shape[-1]}

    def by_sample(self, inputs: tuple[TensorSpec, ...]) -> bool:
        return True

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """A comparison; of random choices a difference, an exponential and a sum more."""
        size = inputs[0].size
        return (size, 0) if self.greedy else (3 * size, size)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        fills = (LOGITS, Fill(Distribution.UNIFORM, 0.0, 1.0))
        read = zip(self.takes, inputs, fills)
        return (*(Port(*each) for each in read), Port("y", self.output(inputs)))

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        return ("x", "y") if _row_vector(inputs[0]) == VECTOR else ("y",)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        own, constants = str(int(self.greedy)), (("greedy", int(self.greedy)),)
        args = (*self.takes, "y")
        return _lower(self.kind, "sample.hip", inputs[0], constants, args, own)

    def fault(self, given: Mapping[str, NDArray[Any]], inputs: tuple[TensorSpec, ...]) -> str:
        u = given.get("u")
        if u is None or bool(((u >= 0) & (u < 1)).all()):
            return ""
        return "u has numbers outside of [0, 1); write others"

    def _sums(self, tensors: Tensors) -> tuple[Array, Array]:
        """(p[0] + ... + p[i], error of that less u)."""
        p, off = _likely(tensors["x"])
        return np.cumsum(p, axis=-1), off

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        x = tensors["x"]
        if self.greedy:
            return {"y": np.argmax(x, axis=-1).astype(np.float64)}
        sums, _ = self._sums(tensors)
        found = (sums <= tensors["u"][..., np.newaxis]).sum(axis=-1)
        return {"y": np.minimum(found, x.shape[-1] - 1).astype(np.float64)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        if self.greedy:
            return {"y": np.zeros(tensors["x"].shape[:-1])}
        sums, off = self._sums(tensors)
        near = (np.abs(sums - tensors["u"][..., np.newaxis]) <= off).any(axis=-1)
        return {"y": np.where(near, np.inf, 0.0)}


@writes("top_filter")
def _filtered(c: Values, block: int) -> list[Writes]:
    return [Writes(-1, cut_by(Places(c["rows"], c["row"])), inside=(Places(c["row"]),))]


@writes("sample")
def _chosen(c: Values, block: int) -> list[Writes]:
    return [Writes(-1, cut_by(Places(c["rows"])))]
