"""Sampled softmax: the loss of a language model without the scores of its whole vocabulary.

    c(r, 0) = labels(r)    c(r, j) = samples(j)                         j = 1 ... K
    z(r, j) = x(r) w(c(r, j)) - log(Q(c(r, j)))                -30000 where samples(j) = labels(r)
    losses  = log(sum_j exp(z(r, j))) - z(r, 0)
    y       = mean of the losses
    g(r, j) = dy / R (exp(z(r, j) - peak - log_sum) - [j = 0])          peak = max_j z(r, j)
    dx(r)   = sum_j g(r, j) w(c(r, j))
    dw(v)   = sum over r and j with c(r, j) = v of g(r, j) x(r)

x        what the words are told from, (N, ..., E): R rows of E features
w        a row for each word of the vocabulary, (V, E): the weights of a fully connected layer
labels   the right word of each row, int32, the shape of x without its last axis
samples  K words that stand for all others, the same for all rows, drawn with the frequencies
         Q(v) ~ (v + 1)^-zipf, which are those of a text's words (simgen/tensors/word_ids.py)

Labels and samples come from the data file. A constant factor of Q is in all scores and cancels in
the loss. The gradient of w uses no atomics: an element looks for its row's word among labels and
samples, in their order, and is 0 if there is none.

Source: S. Jean et al., "On Using Very Large Target Vocabulary for Neural Machine Translation", ACL
2015; Y. Bengio, J.-S. Senecal, 2008; TensorFlow's sampled_softmax_loss, with
remove_accidental_hits, without biases.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, prod
from typing import TYPE_CHECKING, Any, ClassVar

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
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, U, accumulated, float32
from simgen.layers.base import Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.elementwise import BLOCK
from simgen.layers.indices import outside
from simgen.layers.loss import mean
from simgen.layers.loss.mean import ONE, Loss
from simgen.layers.softmax import Softmax, SoftmaxAlgo
from simgen.layers.written import Writes, dense, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

SCORES, LOSSES, SHARES, INPUTS, TABLE = range(5)  # parts of the template
HIT = -30000.0  # score of a sample that is the label: no float32 exponential is above 0 there
LN2 = log(2)


@dataclass(frozen=True)
class SampledSoftmax(Loss):
    kind = "sampled_softmax"
    section = "SampledSoftmax"
    from_data = "labels"
    any_float = False
    parameters: ClassVar[tuple[str, ...]] = ("w",)
    tables: ClassVar[Mapping[str, str]] = {"labels": "w", "samples": "w"}
    contract: ClassVar[Contract] = Contract(rounds=True)
    sample: ClassVar[Mapping[str, str]] = {"shape": "4x25x64"}

    vocabulary: int = key("vocabulary", 1000, "vocabulary size (rows of w)", 1, MOST_WORDS)
    samples: int = key("samples", 63, "number of sampled words", 1)
    zipf: float = key("zipf", 1.0, "Zipf exponent of the sampling", 0.0, STEEPEST)

    def _rows(self, shape: tuple[int, ...]) -> int:
        if len(shape) < 2:
            raise ValueError(f"[{self.section}] takes (N, ..., features); give x two axes or more")
        return prod(shape[:-1])

    def _table(self, shape: tuple[int, ...]) -> TensorSpec:
        return TensorSpec((self.vocabulary, shape[-1]))

    @property
    def _columns(self) -> int:
        return self.samples + 1

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        rows = self._rows(x.shape)
        largest = max(self.vocabulary * x.shape[-1], rows * self._columns, x.size)
        if largest > 2**30:
            fact = f"a tensor of {largest} elements is larger than {2**30}"
            raise ValueError(f"{fact}; make vocabulary, samples or the text smaller")
        return ONE

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        return ()

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """A multiply-add for each feature of each score, backward two; of each score a logarithm,
        an exponential and some arithmetic."""
        (x,) = inputs
        scores = self._rows(x.shape) * self._columns
        if direction is Pass.FORWARD:
            return scores * (2 * x.shape[-1] + 5), 2 * scores
        return scores * (4 * x.shape[-1] + 4), scores

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        of_rows = TensorSpec(x.shape[:-1])
        words = Fill(Distribution.ZIPF, float(self.vocabulary), self.zipf)
        ends = (
            Port("x", x, Fill(Distribution.NORMAL, 0.0, 1.0)),
            Port("w", self._table(x.shape), Fill(Distribution.NORMAL, 0.0, 0.25)),
            Port("labels", TensorSpec(of_rows.shape, DType.I32), words),
            Port("samples", TensorSpec((self.samples,), DType.I32), words),
        )
        scores = TensorSpec((*of_rows.shape, self._columns))
        if direction is Pass.FORWARD:
            kept = (Port("z", scores), Port("peak", of_rows), Port("log_sum", of_rows))
            return (*ends, *kept, Port("losses", of_rows), Port("y", ONE))
        # About what a forward pass leaves.
        kept = (
            Port("z", scores, Fill(Distribution.NORMAL, 4.0, 2.0)),
            Port("peak", of_rows, Fill(Distribution.UNIFORM, 6.0, 9.0)),
            Port("log_sum", of_rows, Fill(Distribution.UNIFORM, 0.5, 2.0)),
        )
        made = (Port("dx", x), Port("dw", self._table(x.shape)))
        return (*ends, *kept, mean.SEED, *made, Port("g", scores, scratch=True))

    def _kernel(self, x: TensorSpec, part: int, word: str, size: int) -> tuple[Kernel, int]:
        """A part of the template over `size` elements, and its work-groups."""
        rows, features = self._rows(x.shape), x.shape[-1]
        sizes = f"{rows}x{features}_{self.vocabulary}_{self.samples}"
        zipf = float32(self.zipf * LN2) if part == SCORES else 0.0
        own = f"_z{rounding.identifier(zipf)}" if part == SCORES else ""
        constants = (
            ("part", part),
            ("size", size),
            ("rows", rows),
            ("features", features),
            ("columns", self._columns),
            ("zipf", zipf),
            ("share", float32(1 / rows) if part == SHARES else 0.0),
        )
        name = f"{self.kind}_{word}_{sizes}{own}"
        return Kernel(name, "sampled_softmax.hip", BLOCK, constants), ceil(size / BLOCK)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        rows = self._rows(x.shape)
        scores = TensorSpec((rows, self._columns))
        ends = ("x", "w", "labels", "samples")
        if direction is Pass.FORWARD:
            softmax = Softmax(algo=SoftmaxAlgo.LOG, axis=1, machine=self.machine)
            name = f"{self.kind}_rows_{rows}x{self._columns}"
            sums, grid = softmax.kernel(name, scores, direction, whole=False)
            last, at_last = mean.launch(self.kind, rows, float32(1 / rows), ("losses", "y"))
            each, groups = self._kernel(x, SCORES, "scores", scores.size)
            first = _launch(each, groups, (*ends, "z"))
            loss, groups = self._kernel(x, LOSSES, "losses", rows)
            then = _launch(loss, groups, ("z", "peak", "log_sum", "losses"))
            launches = (first, Launch(name, grid, ("z", "peak", "log_sum")), then, at_last)
            return Lowering((each, sums, loss, last), launches)
        kept = ("z", "peak", "log_sum", "dy", "g")
        parts: list[tuple[Kernel, int, tuple[str, ...]]] = [
            (*self._kernel(x, SHARES, "shares", scores.size), kept),
            (*self._kernel(x, INPUTS, "dx", x.size), (*ends[1:], "g", "dx")),
            (*self._kernel(x, TABLE, "dw", self._table(x.shape).size), ("x", *ends[2:], "g", "dw")),
        ]
        return Lowering(tuple(each[0] for each in parts), tuple(_launch(*each) for each in parts))

    def fault(self, given: Mapping[str, NDArray[Any]], inputs: tuple[TensorSpec, ...]) -> str:
        found = (outside(n, given.get(n), 0, self.vocabulary - 1) for n in ("labels", "samples"))
        return next((fact for fact in found if fact), "")

    # ---- Reference and bounds ----

    def _words(self, tensors: Tensors) -> NDArray[np.int64]:
        """c: the words of each row, (R, K + 1)."""
        labels = tensors["labels"].astype(np.int64).reshape(-1, 1)
        samples = tensors["samples"].astype(np.int64)
        return np.hstack([labels, np.broadcast_to(samples, (len(labels), self.samples))])

    def _hits(self, words: NDArray[np.int64]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = words == words[:, :1]
        found[:, 0] = False
        return found

    def _flat(self, tensors: Tensors) -> tuple[Array, Array]:
        """x by rows; the rows of w that they meet, (R, K + 1, E)."""
        x = tensors["x"].reshape(-1, tensors["x"].shape[-1]).astype(np.float64)
        return x, tensors["w"][self._words(tensors)].astype(np.float64)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        words = self._words(tensors)
        x, w = self._flat(tensors)
        if direction is Pass.BACKWARD:
            g = self._shares(tensors)
            return {
                "dx": np.einsum("rj,rje->re", g, w).reshape(tensors["x"].shape),
                "dw": self._scattered(g, x, words, tensors["w"].shape),
            }
        z = np.einsum("re,rje->rj", x, w) + float32(self.zipf * LN2) * np.log2(words + 1.0)
        z[self._hits(words)] = HIT
        # fmax of a NaN and a number is the number
        peak = np.fmax.reduce(z, axis=1, initial=-np.inf)
        log_sum = np.log(np.exp(z - peak[:, None]).sum(axis=1))
        losses = log_sum - (z[:, 0] - peak)
        shape = tensors["labels"].shape
        return {
            "z": z.reshape(*shape, -1),
            "peak": peak.reshape(shape),
            "log_sum": log_sum.reshape(shape),
            "losses": losses.reshape(shape),
            "y": np.array([losses.mean()]),
        }

    def _shares(self, tensors: Tensors) -> Array:
        """g: the gradient of each score."""
        t = self._exponents(tensors)
        g: Array = np.exp(t)
        g[:, 0] -= 1
        return g * tensors["dy"] / len(g)

    def _exponents(self, tensors: Tensors) -> Array:
        z = tensors["z"].reshape(-1, self._columns).astype(np.float64)
        kept = (tensors[name].reshape(-1, 1) for name in ("peak", "log_sum"))
        peak, log_sum = kept
        made: Array = z - peak - log_sum
        return made

    def _scattered(
        self, g: Array, x: Array, words: NDArray[np.int64], shape: tuple[int, ...]
    ) -> Array:
        """Sums over rows and words: to each word's row."""
        made = np.zeros(shape)
        np.add.at(made, words[:, 0], g[:, :1] * x)
        np.add.at(made, words[0, 1:], g[:, 1:].T @ x)
        return made

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        words = self._words(tensors)
        made = self.reference(tensors, direction)
        if direction is Pass.BACKWARD:
            return self._backward_bound(tensors, words)
        x, w = self._flat(tensors)
        # The sum of products; the logarithm, its constant and product; and their sum.
        z = made["z"].reshape(-1, self._columns)
        terms = np.einsum("re,rje->rj", np.abs(x), np.abs(w))
        next_one = (words + 1).astype(np.float64)
        log2 = np.log2(next_one)
        moved = self.zipf * LN2 * (rounding.log2(next_one) + 2 * U * log2)
        error = accumulated(x.shape[1]) * terms + moved + U * np.abs(z) + TINY
        error[self._hits(words)] = 0
        row = error.max(axis=1)
        # The logarithm of the sum of exponentials by the peak, as of a softmax: each moves by what
        # its score and the peak do, and its argument and itself are rounded.
        peak, log_sum, losses = (made[n].reshape(-1) for n in ("peak", "log_sum", "losses"))
        d = z - peak[:, None]
        exps = np.exp(d)
        each = (exps * (rounding.exp(d) + U * np.abs(d))).sum(axis=1) / exps.sum(axis=1)
        softmax = Softmax(algo=SoftmaxAlgo.LOG, axis=1, machine=self.machine)
        depth = softmax.mapped(z.shape, direction).additions
        log_error = LN2 * rounding.log2(exps.sum(axis=1)) + 2 * U * log_sum
        sums = (each + depth * U + log_error + 2 * row) * SECOND_ORDER + TINY
        right = np.abs(z[:, 0] - peak)
        rounded = (sums + U * (right + np.abs(losses)) + TINY) * SECOND_ORDER
        mean_error = accumulated(mean.additions(len(losses)) + 2) * np.abs(losses).mean()
        shape = tensors["labels"].shape
        return {
            "z": (error * SECOND_ORDER).reshape(*shape, -1),
            "peak": (row * SECOND_ORDER + TINY).reshape(shape),
            "log_sum": sums.reshape(shape),
            "losses": rounded.reshape(shape),
            "y": np.array([(rounded.mean() + mean_error) * SECOND_ORDER + TINY]),
        }

    def _backward_bound(self, tensors: Tensors, words: NDArray[np.int64]) -> Tensors:
        x, w = self._flat(tensors)
        t = self._exponents(tensors)
        p, g = np.exp(t), np.abs(self._shares(tensors))
        factor = np.abs(tensors["dy"]) / len(x)
        # Two subtractions move the exponent; 1 is taken from p; then the constant and two products.
        z = tensors["z"].reshape(-1, self._columns)
        near = np.abs(z - tensors["peak"].reshape(-1, 1))
        moved = U * (near + np.abs(t)) + rounding.exp(t)
        error = factor * (p * moved + U * (p + 1) + TINY) + 3 * U * g + TINY
        dx = np.einsum("rj,rje->re", error + accumulated(self._columns) * g, np.abs(w))
        # A word that occurs n times needs n additions.
        ones = np.ones_like(x[:, :1])
        met = self._scattered(np.ones_like(g), ones, words, (len(tensors["w"]), 1))
        size = tensors["w"].shape
        dw = self._scattered(error, np.abs(x), words, size)
        summed = self._scattered(g, np.abs(x), words, size)
        dw = dw + met * U / (1 - met * U) * summed
        return {
            "dx": (dx * SECOND_ORDER + self._columns * TINY).reshape(tensors["x"].shape),
            "dw": dw * SECOND_ORDER + met * TINY,
        }


def _launch(kernel: Kernel, groups: int, args: tuple[str, ...]) -> Launch:
    return Launch(kernel.name, (groups, 1, 1), args)


@writes("sampled_softmax")
def _written(c: Values, block: int) -> list[Writes]:
    return [dense(-1, c["size"], 1, block)]
