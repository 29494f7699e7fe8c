"""Attention sum: a word's probability is the sum of the attention at all places of the word.

    forward   total[n, c] = epsilon + sum of x[n, i] over the places i with
                            ids[n, i] = candidates[n, c]                     in the order of i
              y = total, or its logarithm with log=true
    backward  dx[n, i] = sum of g[n, c] over c with candidates[n, c] = ids[n, i]    in their order
              g = dy, with log=true dy / total

    x  (N, D) or (N, D, 1)      ids  (N, D) int32      candidates  (N, C) int32      y  (N, C)

Without log=true, epsilon is 0. ids and candidates are the second and third tensor of
`previous_layer`, or come from the data file, where words follow Zipf's law.

Source: Kadlec et al., "Text Understanding with the Attention Sum Reader Network", 2016, eq. 2; Cui
et al., "Attention-over-Attention Neural Networks for Reading Comprehension", 2017, eq. 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, prod
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import (
    MOST_WORDS,
    STEEPEST,
    Distribution,
    DType,
    Fill,
    Kernel,
    Launch,
    Pass,
    TensorSpec,
)
from simgen.ground.numerics import rounding
from simgen.ground.numerics.rounding import RCP, SECOND_ORDER, TINY, U, float32, identifier
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.written import Writes, dense, writes, writes_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

F = Pass.FORWARD


@dataclass(frozen=True)
class AttentionSum(Layer):
    kind = "attention_sum"
    section = "AttentionSum"
    contract: ClassVar[Contract] = Contract(rounds=True, slope_shape=(4, 3))
    input_names: ClassVar[tuple[str, ...]] = ("x", "ids", "candidates")
    indices: ClassVar[tuple[str, ...]] = ("ids", "candidates")
    shape_given: ClassVar[tuple[str, ...]] = ("dx",)
    per_sample = True
    any_float = True
    sample: ClassVar[Mapping[str, str]] = {"shape": "16x100"}

    candidates: int = key(
        "candidates", 10, "candidate words per sample, if no layer provides them", 1
    )
    log: bool = key("log", False, "output the logarithm of each sum")
    epsilon: float = key("epsilon", 1e-3, "constant that log=true adds to each sum", 1e-30, 1.0)
    vocabulary: int = key(
        "vocabulary", 40, "vocabulary size of random words", 1, MOST_WORDS, hint=True
    )
    zipf: float = key("zipf", 1.0, "Zipf exponent of random words", 0.0, STEEPEST, hint=True)

    def _words(self, inputs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, TensorSpec]:
        """Specs of ids and candidates.

        Raises:
            ValueError: they do not fit x, or each other.
        """
        x, *given = inputs
        if len(x.shape) < 2:
            raise ValueError(f"x is {x.shape[0]}; give it samples and places: 16x100")
        n, places = x.shape[0], prod(x.shape[1:])
        ids = given[0] if given else TensorSpec((n, places), DType.I32)
        if ids.shape != (n, places):
            told, own = (" x ".join(map(str, each.shape)) for each in (ids, x))
            raise ValueError(f"ids are {told}, but x is {own}; give it ids of {n} x {places}")
        words = given[1] if len(given) > 1 else TensorSpec((n, self.candidates), DType.I32)
        if len(words.shape) != 2 or words.shape[0] != n:
            told = " x ".join(map(str, words.shape))
            raise ValueError(f"candidates are {told}; give each of {n} samples as many")
        return ids, words

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        _, words = self._words(inputs)
        return TensorSpec(words.shape, inputs[0].dtype)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """A comparison and an addition for each place and candidate. With log=true, a logarithm for
        each candidate, and backward a reciprocal and a product."""
        y = self.output(inputs)
        flops, functions = 2 * y.size * self._words(inputs)[0].shape[1], y.size if self.log else 0
        return flops if direction is F else flops + functions, functions

    @property
    def _kept(self) -> tuple[str, ...]:
        return ("total",) if self.log else ()

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x, y = inputs[0], self.output(inputs)
        ids, words = self._words(inputs)
        random = Fill(Distribution.ZIPF, float(self.vocabulary), self.zipf)
        places = ids.shape[1]
        # About what a softmax gives.
        attention = Fill(Distribution.UNIFORM, 0.5 / places, 1.5 / places)
        indices = (Port("ids", ids, random), Port("candidates", words, random))
        if direction is F:
            kept = (Port(name, TensorSpec(y.shape)) for name in self._kept)
            return (Port("x", x, attention), *indices, Port("y", y), *kept)
        total = Fill(Distribution.UNIFORM, 0.0625, 1.0)
        return (
            Port("dy", y, Fill(Distribution.NORMAL, 0.0, 1.0)),
            *indices,
            *(Port(name, TensorSpec(y.shape), total) for name in self._kept),
            Port("dx", x),
        )

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        x, y = inputs[0], self.output(inputs)
        ids, words = self._words(inputs)
        size = y.size if direction is F else x.size
        vector = VECTOR if x.dtype.is_narrow else 1
        how = f"log{identifier(float32(self.epsilon))}" if self.log and direction is F else ""
        how = how or ("log" if self.log else "sum")
        per = f"{ids.shape[0]}x{ids.shape[1]}x{words.shape[1]}"
        name = f"attention_sum_{direction}_{how}_{per}{elementwise.suffix(x.dtype)}"
        constants = (
            ("size", size),
            ("places", ids.shape[1]),
            ("candidates", words.shape[1]),
            ("with_log", int(self.log)),
            ("vector", vector),
            *elementwise.element(x.dtype),
        )
        template, args = (
            "attention_sum_backward.hip",
            ("dy", "ids", "candidates", *self._kept, "dx"),
        )
        if direction is F:
            constants = (*constants, ("epsilon", float32(self.epsilon) if self.log else 0.0))
            template, args = "attention_sum.hip", ("x", "ids", "candidates", *self._kept, "y")
        kernel = Kernel(name, template, BLOCK, constants)
        return Lowering((kernel,), (Launch(name, (ceil(size / (BLOCK * vector)), 1, 1), args),))

    # ---- Reference and bounds ----

    def _of_candidates(self, tensors: Tensors, x: Array) -> Array:
        """Sums of what stands at the places of each candidate: (samples, candidates).

        What stands elsewhere is not read: no NaN or infinity there is in a sum."""
        made: Array = np.where(self._meets(tensors), x[:, np.newaxis, :], 0.0).sum(axis=2)
        return made

    def _of_places(self, tensors: Tensors, each: Array) -> Array:
        """Sums of what the candidates at each place have: (samples, places)."""
        made: Array = np.where(self._meets(tensors), each[:, :, np.newaxis], 0.0).sum(axis=1)
        return made

    def _meets(self, tensors: Tensors) -> NDArray[np.bool_]:
        """Whether a candidate stands at a place: (samples, candidates, places)."""
        meets: NDArray[np.bool_] = (
            tensors["candidates"][:, :, np.newaxis] == tensors["ids"][:, np.newaxis, :]
        )
        return meets

    def _total(self, tensors: Tensors) -> Array:
        epsilon = float32(self.epsilon) if self.log else 0.0
        x = tensors["x"].reshape(tensors["ids"].shape)
        made: Array = epsilon + self._of_candidates(tensors, x)
        return made

    def _gradient(self, tensors: Tensors) -> Array:
        dy: Array = tensors["dy"]
        return dy * (1 / tensors["total"]) if self.log else dy

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is F:
            total = self._total(tensors)
            return {"y": np.log(total), "total": total} if self.log else {"y": total}
        dx = self._of_places(tensors, self._gradient(tensors))
        return {"dx": dx.reshape(tensors["dx"].shape)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """A sum of k terms rounds k - 1 times, with epsilon once more, each time by U of the
        absolute values of its terms at most. The logarithm of a total that is off by e is off by
        e / total, and by its own error; a quotient by RCP and U. Sums themselves are in error too:
        the second order."""
        meets = self._meets(tensors)
        if direction is F:
            x = np.abs(tensors["x"]).reshape(tensors["ids"].shape)
            added = np.maximum(meets.sum(axis=2) - (0 if self.log else 1), 0)
            epsilon = float32(self.epsilon) if self.log else 0.0
            magnitude = self._of_candidates(tensors, x) + epsilon
            summed = added * (U * magnitude + TINY) * SECOND_ORDER
            if not self.log:
                return {"y": summed}
            total = self._total(tensors)
            own = log(2) * rounding.log2(total) + 2 * U * np.abs(np.log(total)) + TINY
            return {"y": summed / total * SECOND_ORDER + own, "total": summed}
        terms = np.abs(self._gradient(tensors))
        added = np.maximum(meets.sum(axis=1) - 1, 0)
        each = (RCP + U) * terms + TINY if self.log else np.zeros_like(terms)
        bound = added * (U * self._of_places(tensors, terms) + TINY)
        bound = (bound + self._of_places(tensors, each)) * SECOND_ORDER
        return {"dx": bound.reshape(tensors["dx"].shape)}


writes_all("attention_sum_backward")


@writes("attention_sum")
def _forward(c: Values, block: int) -> list[Writes]:
    made = [dense(-1, c["size"], c["vector"], block)]
    return [*made, dense(-2, c["size"], c["vector"], block)] if c["with_log"] else made
