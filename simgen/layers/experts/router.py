"""A router: the best experts of each token, and their weights.

    ids[t, :]  the K experts with the largest scores, in their order; of equal ones the first
    y[t, k]    scale s[t, ids[t, k]] / sum over k of s[t, ids[t, k]]    (`normalised`), or scale s

    scores_mode  s =                                          scores
    softmax      exp(x - max) / sum over all of exp(x - max)  x
    sigmoid      1 / (1 + exp(-x))                            x

    x  (T, E), or another shape with E last      y, ids  (T, K): float32 and int32

With `correction`, scores are s + bias, bias (E). With `groups`, E is cut into so many, and the
experts of the best `top_groups` are chosen from. A group's score is its best expert's or, with
`correction`, the sum of its two best.

Comparisons of x are exact. Sums with a bias round: where two scores that decide are closer than
their errors, nothing is known of that token.

Source: Shazeer et al., "Outrageously Large Neural Networks", 2017; DeepSeek-AI, "DeepSeek-V3
Technical Report", 2024, section 2.1.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, Distribution, DType, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import rounding
from simgen.ground.numerics.rounding import RCP, SECOND_ORDER, TINY, U, float32, identifier
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.elementwise import BLOCK
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

F = Pass.FORWARD
LANES = 64  # work-items of a token
MOST = 1024  # experts whose scores a work-group holds
FINALS = 16  # partial sums that every work-item adds up


class Scores(StrEnum):
    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"


@dataclass(frozen=True)
class Router(Layer):
    kind = "router"
    section = "Router"
    contract: ClassVar[Contract] = Contract(rounds=True)  # exponentials are any numbers
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    output_names: ClassVar[tuple[str, ...]] = ("y", "ids")
    per_sample = True
    any_float = True
    sample: ClassVar[Mapping[str, str]] = {"shape": "64x128"}

    scores: Scores = key("scores_mode", Scores.SOFTMAX, "what scores become weights by")
    top_k: int = key("top_k", 2, "experts of a token", 1, 32)
    normalised: bool = key("normalised", True, "a token's weights are divided by their sum")
    scale: float = key("weight_scale", 1.0, "factor of all weights", 1e-6, 1e6)
    correction: bool = key("correction", False, "a bias is added to what is compared")
    groups: int = key("groups", 1, "groups of experts", 1, LANES)
    top_groups: int = key("top_groups", 1, "groups that a token's experts are of", 1, LANES)

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]  # none in other routers
        return ("bias",) if self.correction else ()

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        *tokens, experts = x.shape
        if not tokens:
            raise ValueError("x has one axis; give it tokens and experts, as 64x128")
        if experts > MOST:
            raise ValueError(f"there are {experts} experts; {MOST} is the most")
        if self.top_k > experts:
            fact = f"top_k is {self.top_k}, and there are {experts} experts"
            raise ValueError(f"{fact}; write {experts} or less")
        if experts % self.groups or self.top_groups > self.groups:
            fact = f"groups is {self.groups} and top_groups {self.top_groups}"
            raise ValueError(f"{fact}; groups divides {experts} experts, and has top_groups")
        chosen = self.top_groups * experts // self.groups
        if self.top_k > chosen:
            fact = f"top_k is {self.top_k}, and {self.top_groups} groups have {chosen} experts"
            raise ValueError(f"{fact}; make top_groups larger")
        return TensorSpec((*tokens, self.top_k))

    def outputs(self, inputs: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
        y = self.output(inputs)
        return {"y": y, "ids": TensorSpec(y.shape, DType.I32)}

    def index_ends(self, inputs: tuple[TensorSpec, ...]) -> Mapping[str, int]:
        return {"ids": inputs[0].shape[-1]}

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Per score a difference or a sum, an exponential, a sum; per weight a sum, a product."""
        size, chosen = inputs[0].size, self.output(inputs).size
        return 3 * size + 2 * chosen, size

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        bias = Port("bias", TensorSpec(x.shape[-1:]), Fill(Distribution.NORMAL, 0.0, 0.25))
        return (
            Port("x", x, Fill(Distribution.NORMAL, 0.0, 1.0)),
            *((bias,) if self.correction else ()),
            *(Port(name, spec) for name, spec in self.outputs(inputs).items()),
        )

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        experts = x.shape[-1]
        rows = x.size // experts
        constants: Constants = (
            ("scores", str(self.scores)),
            ("rows", rows),
            ("experts", experts),
            ("top_k", self.top_k),
            ("groups", self.groups),
            ("top_groups", self.top_groups),
            ("normalised", int(self.normalised)),
            ("scale", float32(self.scale)),
            ("corrected", int(self.correction)),
            *elementwise.element(x.dtype),
        )
        form = f"{self.scores}_{rows}x{experts}_{self.top_k}_{self.groups}_{self.top_groups}"
        flags = f"{int(self.normalised)}{int(self.correction)}_{identifier(self.scale)}"
        name = f"router_{form}_{flags}{elementwise.suffix(x.dtype)}"
        kernel = Kernel(name, "router.hip", BLOCK, constants)
        args = ("x", *self.parameters, "y", "ids")
        return Lowering((kernel,), (Launch(name, (ceil(rows / (BLOCK // LANES)), 1, 1), args),))

    def _weights(self, x: Array) -> tuple[Array, Array]:
        """(s before it is divided by a sum, its relative error)."""
        if self.scores is Scores.SIGMOID:
            e = np.exp(-np.abs(x))
            s = np.where(x >= 0, 1.0, e) / (1 + e)
            return s, (1 - s) * rounding.exp(x) + U + RCP
        d = x - x.max(axis=-1, keepdims=True)
        return np.exp(d), rounding.exp(d) + U * np.abs(d)

    def _chosen(self, tensors: Tensors) -> tuple[NDArray[Any], Array]:
        """(ids, the least difference of two scores that decides, less twice their errors)."""
        x = tensors["x"]
        score, off = x, np.zeros_like(x)
        if self.correction:
            s, relative = self._weights(x)
            if self.scores is Scores.SOFTMAX:
                relative = relative + U + self._sum_error(s, relative)
                s = s / s.sum(axis=-1, keepdims=True)
            score = s + tensors["bias"]
            off = (s * relative + U * np.abs(score) + TINY) * SECOND_ORDER
        room: Array = np.full(x.shape[:-1], np.inf)
        if self.top_groups < self.groups:
            parts = np.sort(score.reshape(*x.shape[:-1], self.groups, -1), axis=-1)
            best = parts[..., -2:].sum(axis=-1) if self.correction else parts[..., -1]
            wide = 2.0 * off.max(axis=-1) * (1 + U) + 2 * U * np.abs(best).max(axis=-1)
            order = np.argsort(-best, axis=-1, kind="stable")
            ranked = np.take_along_axis(best, order, -1)
            gap = ranked[..., self.top_groups - 1] - ranked[..., self.top_groups]
            room = gap - 2 * wide if self.correction else room
            kept = np.zeros(best.shape, bool)
            np.put_along_axis(kept, order[..., : self.top_groups], True, -1)
            each = x.shape[-1] // self.groups
            score = np.where(np.repeat(kept, each, axis=-1), score, -np.inf)
        order = np.argsort(-score, axis=-1, kind="stable")
        ids = order[..., : self.top_k]
        if self.correction:
            ranked = np.take_along_axis(score, order, -1)[..., : self.top_k + 1]
            with np.errstate(invalid="ignore"):
                gaps = -np.diff(ranked, axis=-1)
            least = np.fmin.reduce(gaps, axis=-1, initial=np.inf) if gaps.size else room
            room = np.minimum(room, least - 2 * off.max(axis=-1))
        return ids, room

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        s, _ = self._weights(tensors["x"])
        ids, _ = self._chosen(tensors)
        return {"y": self._factor(s, ids), "ids": ids.astype(np.float64)}

    def _factor(self, s: Array, ids: NDArray[Any]) -> Array:
        y: Array = np.take_along_axis(s, ids, -1) * float32(self.scale)
        if self.normalised:
            y /= np.take_along_axis(s, ids, -1).sum(axis=-1, keepdims=True)
        elif self.scores is Scores.SOFTMAX:
            y /= s.sum(axis=-1, keepdims=True)
        return y

    def _sum_error(self, s: Array, relative: Array) -> Array:
        """Relative error of the reciprocal of the sum over all experts."""
        mean = (s * relative).sum(axis=-1, keepdims=True) / s.sum(axis=-1, keepdims=True)
        depth = ceil(s.shape[-1] / LANES) + LANES // FINALS + FINALS
        found: Array = mean + depth * U + RCP
        return found

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """s, the sum of those that it is divided by, which rounds with each addition, its
        reciprocal, and two products. What is flushed is s, and the results."""
        s, relative = self._weights(tensors["x"])
        ids, room = self._chosen(tensors)
        y = self._factor(s, ids)
        error = np.take_along_axis(relative, ids, -1) + 2 * U
        if self.normalised:
            error = error + np.max(error, axis=-1, keepdims=True) + self.top_k * U + RCP
        elif self.scores is Scores.SOFTMAX:
            error = error + self._sum_error(s, relative)
        bound = (np.abs(y) * error + 2 * TINY * (1 + float32(self.scale))) * SECOND_ORDER
        open_rows = (room <= 0)[..., np.newaxis]
        known = np.where(open_rows, np.inf, 0.0)
        return {"y": bound + known, "ids": np.zeros_like(y) + known}


@writes("router")
def _routed(c: Values, block: int) -> list[Writes]:
    tokens = cut_by(Places(c["rows"], c["top_k"], block // LANES))
    return [Writes(at, tokens, inside=(Places(c["top_k"]),)) for at in (-2, -1)]
