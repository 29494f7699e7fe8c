"""Embedding: the row of a table for each word of a text.

    forward   y[..., :] = w[ids[...], :]
    backward  dw[v, :] = sum over all places i with ids[i] = v of dy[i, :]      in the order of i

    ids  (N, T), or any shape: int32 in [0, V)      w, dw  (V, E)      y, dy  (N, T, E)

If no layer provides them, ids come from the data file: words of a text whose frequencies follow
Zipf's law with the exponent `zipf` (simgen/tensors/word_ids.py).

The gradient uses no atomics, and each sum has one order. A place i has the key ids[i] L + i, for L
places. Work-groups sort CHUNK keys each in LDS (a bitonic network). Sorted runs are then merged in
pairs (merge path) until one is left. Each row of dw finds its first key by binary search, and sums
what follows.

Source: torch.nn.Embedding, whose gradient on GPUs sorts the indices as well
(embedding_dense_backward_cuda). K. E. Batcher, "Sorting networks and their applications", 1968;
S. Odeh et al., "Merge Path - Parallel Merging Made Simple", 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.dtypes import WORD
from simgen.ground.ir import (
    MOST_WORDS,
    STEEPEST,
    Distribution,
    DType,
    Fill,
    Kernel,
    Launch,
    OpCount,
    Pass,
    TensorSpec,
)
from simgen.ground.numerics import exactness
from simgen.ground.numerics.powers import next_power_of_two
from simgen.ground.numerics.rounding import TINY, U
from simgen.ground.numerics.spread import Spread, correlated, repeats
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.contract import Contract
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.indices import outside
from simgen.layers.written import Places, Writes, cut_by, dense, writes, writes_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

F, BW = Pass.FORWARD, Pass.BACKWARD_WEIGHT
CHUNK = 2048  # keys that a work-group sorts: 8 KiB of LDS
KEYS = 2**32  # keys have 32 bits; this value sorts after all of them
LARGEST = 2**30  # elements of a tensor: offsets are bytes in 32 bits


@dataclass(frozen=True)
class Embedding(Layer):
    kind = "embedding"
    section = "Embedding"
    contract: ClassVar[Contract] = Contract(copies=(F,), gathers=("w",))
    passes: ClassVar[tuple[Pass, ...]] = (F, BW)
    input_names: ClassVar[tuple[str, ...]] = ("ids",)
    indices: ClassVar[tuple[str, ...]] = ("ids",)
    tables: ClassVar[Mapping[str, str]] = {"ids": "w"}
    parameters: ClassVar[tuple[str, ...]] = ("w",)
    per_sample = True
    any_float = True
    own_type = True
    axis_names: ClassVar[tuple[str, ...]] = ("batch", "length")
    sample: ClassVar[Mapping[str, str]] = {"shape": "16x25"}

    vocabulary: int = key("vocabulary", 1000, "rows of the table", 1, MOST_WORDS)
    features: int = key("features", 64, "elements of a row", 1)
    zipf: float = key(
        "zipf", 1.0, "Zipf exponent of random ids; 0: uniform", 0.0, STEEPEST, hint=True
    )
    type: DType = key("type", DType.F32, "element type of the table")

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec(x.shape, DType.I32),)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (ids,) = inputs
        if not self.type.is_float or self.type.nbytes > WORD:
            fact = f"[Embedding] has floating-point types up to 32 bits, and type is {self.type}"
            raise ValueError(f"{fact}; choose another")
        largest = max(self.vocabulary, ids.size) * self.features
        if largest > LARGEST:
            fact = f"a tensor of {largest} elements is larger than {LARGEST}"
            raise ValueError(f"{fact}; make vocabulary, features or the text smaller")
        if self.vocabulary * ids.size >= KEYS:
            raise ValueError(
                f"{ids.size} words of a vocabulary of {self.vocabulary} have no keys of 32 bits to "
                "be sorted by; make one of them smaller"
            )
        return TensorSpec((*ids.shape, self.features), self.type)

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Forward, of the table the rows that are read; backward, an addition for each element."""
        (ids,), y = inputs, self.output(inputs)
        if direction is F:
            return OpCount(0, 0, ids.nbytes + y.nbytes, y.nbytes)
        return OpCount(y.size, 0, ids.nbytes + y.nbytes, self._table.nbytes)

    @property
    def _table(self) -> TensorSpec:
        return TensorSpec((self.vocabulary, self.features), self.type)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (ids,), y = inputs, self.output(inputs)
        normal = Fill(Distribution.NORMAL, 0.0, 1.0)
        words = Port("ids", ids, Fill(Distribution.ZIPF, float(self.vocabulary), self.zipf))
        if direction is F:
            return (Port("w", self._table, normal), words, Port("y", y))
        sorted_keys = (Port(f"keys{at}", TensorSpec((ids.size,), DType.I32), scratch=True)
                       for at in range(2 if ids.size > CHUNK else 1))  # fmt: skip
        return (Port("dy", y, normal), words, Port("dw", self._table), *sorted_keys)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (ids,), y = inputs, self.output(inputs)
        return self._gather(y) if direction is F else self._sums(ids.size)

    def _gather(self, y: TensorSpec) -> Lowering:
        size, row, element = y.size, self.features, y.dtype
        bytes_of = element.nbytes
        if row * bytes_of % WORD == 0:  # copied as words
            # Not all words that are held: behind the last place is no id.
            size, row, element = size * bytes_of // WORD, row * bytes_of // WORD, DType.F32
        vector = VECTOR if row % VECTOR == 0 or element.is_narrow else 1
        name = f"embedding_fwd_{size}x{row}{elementwise.suffix(element)}"
        constants = (
            ("size", size),
            ("row", row),
            ("vector", vector),
            *elementwise.element(element),
        )
        kernel = Kernel(name, "embedding.hip", BLOCK, constants)
        launch = Launch(name, (ceil(size / (BLOCK * vector)), 1, 1), ("w", "ids", "y"))
        return Lowering((kernel,), (launch,))

    def _sums(self, places: int) -> Lowering:
        chunk = min(CHUNK, max(2, next_power_of_two(places)))
        kernels = [
            Kernel(
                f"embedding_sort_{places}",
                "embedding_sort.hip",
                BLOCK,
                (("places", places), ("chunk", chunk)),
            )
        ]
        launches = [Launch(kernels[0].name, (ceil(places / chunk), 1, 1), ("ids", "keys0"))]
        run, source = chunk, 0
        while run < places:
            name = f"embedding_merge_{places}_{run}"
            kernels.append(
                Kernel(name, "embedding_merge.hip", BLOCK, (("places", places), ("run", run)))
            )
            args = (f"keys{source}", f"keys{1 - source}")
            launches.append(Launch(name, (ceil(places / BLOCK), 1, 1), args))
            run, source = 2 * run, 1 - source
        size, narrow = self._table.size, self.type.is_narrow
        together = self.features % VECTOR == 0
        vector = VECTOR if together or narrow else 1
        name = f"embedding_bwd_{places}_{size}x{self.features}{elementwise.suffix(self.type)}"
        constants = (
            ("size", size),
            ("row", self.features),
            ("places", places),
            ("vector", vector),
            ("together", int(together)),
            *elementwise.element(self.type),
        )
        kernels.append(Kernel(name, "embedding_backward.hip", BLOCK, constants))
        grid = (ceil(size / (BLOCK * vector)), 1, 1)
        launches.append(Launch(name, grid, (f"keys{source}", "dy", "dw")))
        return Lowering(tuple(kernels), tuple(launches))

    def fault(self, given: Mapping[str, NDArray[Any]], inputs: tuple[TensorSpec, ...]) -> str:
        return outside("ids", given.get("ids"), 0, self.vocabulary - 1)

    # ---- Reference and bounds ----

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        ids = tensors["ids"].astype(np.int64)
        if direction is F:
            return {"y": tensors["w"][ids]}
        made = np.zeros((self.vocabulary, self.features))
        rows, starts, words = self._segments(tensors)
        made[words] = np.add.reduceat(rows, starts)
        return {"dw": made}

    def _segments(self, tensors: Tensors) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
        """Rows of dy by words, each word's in their order; where each word's begin; the words."""
        ids = tensors["ids"].astype(np.int64).reshape(-1)
        order = np.argsort(ids, kind="stable")
        words, starts = np.unique(ids[order], return_index=True)
        rows: Array = tensors["dy"].reshape(ids.size, self.features)[order]
        return rows, starts, words

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """An addition that gives the sum s rounds by U |s| at most, and |s| is no more than the
        absolute values of its terms: each counts as often as it takes part, the first two as often
        as each other. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.3.
        Then the second order: the sums themselves are in error by as much."""
        if direction is F:
            return {"y": np.zeros_like(self.reference(tensors, direction)["y"])}  # a copy
        rows, starts, words = self._segments(tensors)
        lengths = np.diff(np.append(starts, len(rows)))
        places = np.arange(len(rows)) - np.repeat(starts, lengths)
        parts = np.repeat(lengths, lengths) - np.maximum(places, 1)
        made = np.zeros((self.vocabulary, self.features))
        added = lengths[:, np.newaxis] - 1.0
        terms = np.abs(rows) * np.maximum(parts, 0)[:, np.newaxis]
        made[words] = np.add.reduceat(terms, starts) * U / (1 - added * U) + added * TINY
        return {"dw": made}

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        if direction is F:
            return {port: Spread(bound) for port, bound in tolerance.items()}
        rows, starts, words = self._segments(tensors)
        lengths = np.diff(np.append(starts, len(rows)))
        partial = np.vstack([np.cumsum(part, axis=0) for part in np.split(rows, starts[1:])])
        partial[starts] = 0.0  # a first term is not rounded
        root = np.sqrt(np.add.reduceat(np.square(partial), starts))
        squares = np.add.reduceat(np.square(rows), starts)
        magnitude = np.add.reduceat(np.abs(rows), starts)
        hard, terms = tolerance["dw"][words], lengths[:, np.newaxis].astype(np.float64)
        made = correlated(U * root, hard, terms, squares, magnitude, self._equal(rows, starts))
        sigma = np.zeros_like(tolerance["dw"])
        sigma[words] = np.minimum(made + (terms - 1) * TINY, hard)
        return {"dw": Spread(sigma)}

    def _equal(self, rows: Array, starts: NDArray[np.int64]) -> float:
        """How many terms of a sum are equal: the most of any word."""
        parts = np.split(rows, starts[1:])
        return max(repeats(part.T) for part in parts)

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        (ids,) = inputs
        return Sums() if direction is F else Sums(ids.size)

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is F:
            return {}
        grain = exactness.grain(tensors["dy"])
        if not grain:
            return {}
        sums = self.reference(tensors, direction)["dw"]
        of_absolute = {**tensors, "dy": np.abs(tensors["dy"])}
        magnitudes = self.reference(of_absolute, direction)["dw"]
        return {"dw": exactness.settled(sums, magnitudes, grain)}


writes_all("embedding", "embedding_backward")


@writes("embedding_sort")
def _chunks(c: Values, block: int) -> list[Writes]:
    return [Writes(-1, cut_by(Places(c["places"], 1, c["chunk"])))]


@writes("embedding_merge")
def _merged(c: Values, block: int) -> list[Writes]:
    return [dense(-1, c["places"], 1, block)]
