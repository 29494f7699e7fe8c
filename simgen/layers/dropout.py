"""Dropout: zero for a random share p of the elements, the others scaled to keep the mean.

    forward   y  = x * keep / (1 - p)        keep = 1 where u >= p, else 0;  all zeros for p = 1
    backward  dx = dy * keep / (1 - p)

    x, y, dx, dy  (N, C, H, W)     u in [0, 1): one random number per element     p the probability

Source: cudnnDropoutForward and cudnnDropoutBackward; Srivastava et al., "Dropout", 2014. Libraries
store `keep` between the passes; here u comes from a counter-based generator keyed by random_seed,
so that backward computes the same `keep` again.

The generator is Philox-4x32-7 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011):
the variant with the fewest rounds that passes all of BigCrush. Its key is (random_seed, 0), and
its four 32-bit numbers at counter (i, 0, 0, 0) belong to elements 4 i to 4 i + 3 of the tensor,
laid flat. p is rounded to a multiple of 2^-32, and so 1 - p is exactly the share that is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, frexp
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import exactness
from simgen.ground.numerics.rounding import TINY, U, float32
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.written import writes_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.layers.base import Tensors

ROUNDS = 7
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = 0x9E3779B9, 0xBB67AE85  # what the two words of the key grow by from round to round
WORD = 2**32
CHUNK = 2**18  # counters that the reference takes at a time: they stay in the cache


@dataclass(frozen=True)
class Dropout(Layer):
    kind = "dropout"
    section = "Dropout"
    any_float = True
    training_only = True
    sample: ClassVar[Mapping[str, str]] = {
        "n": "100",
        "c": "1000",
        "h": "1",
        "w": "1",
        "dropout_probability": ".5",
        "random_seed": "0",
    }

    probability: float = key(
        "dropout_probability", 0.5, "probability that an element becomes 0", 0, 1
    )
    random_seed: int = key("random_seed", 0, "seed of the mask", 0)

    @property
    def threshold(self) -> int:
        """p * 2^32: the least random number that keeps its element."""
        return round(float32(self.probability) * WORD)

    @property
    def scale(self) -> float:
        """1 / (1 - p) as float32; 0 for p = 1."""
        kept = WORD - self.threshold
        return float32(WORD / kept) if kept else 0.0

    @property
    def _doubles(self) -> bool:
        """Whether the scale is a power of two, or 0."""
        return self.scale == 0.0 or frexp(self.scale)[0] == 0.5

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """A comparison and a multiplication per element, in either pass.

        The random numbers are integer arithmetic, which does not count.
        """
        return 2 * inputs[0].size, 0

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        source, target = elementwise.ends(direction)
        return (Port(source, x, Fill(Distribution.NORMAL, 0.0, 1.0)), Port(target, x))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        name = f"dropout_{x.size}_p{self.threshold:08x}"  # the same in both passes
        random = 0 < self.threshold < WORD
        if random:
            name += f"_s{self.random_seed}"
        name += elementwise.suffix(x.dtype)
        runs = elementwise.runs(x.size, x.dtype, self.machine)
        constants = (
            ("size", x.size),
            ("vector", elementwise.VECTOR),
            ("runs", runs),
            ("all", int(self.threshold == WORD)),
            ("threshold", self.threshold if random else 0),
            ("scale", self.scale),
            ("key", self.random_seed if random else 0),
            *elementwise.element(x.dtype),
        )
        kernel = Kernel(name, "dropout.hip", elementwise.BLOCK, constants)
        launch = Launch(name, elementwise.grid(x.size, runs), elementwise.ends(direction))
        return Lowering((kernel,), (launch,))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        source, target = elementwise.ends(direction)
        x = tensors[source]
        return {target: np.where(self._keep(x.size).reshape(x.shape), x * self.scale, 0.0)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        # One product, exact where the scale is a power of two, and nothing where it is dropped.
        ((target, wanted),) = self.reference(tensors, direction).items()
        error = 0.0 if self._doubles else U
        return {target: np.where(wanted == 0.0, 0.0, error * np.abs(wanted) + TINY)}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums(whole=self._doubles)

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        source, target = elementwise.ends(direction)
        if not exactness.grain(tensors[source]):
            return {}
        made = exactness.scaled(self.reference(tensors, direction)[target], 1.0)  # rounded once
        return {target: made}

    def _keep(self, size: int) -> NDArray[np.bool_]:
        keep = np.empty(4 * ceil(size / 4), np.bool_)
        for start in range(0, keep.size, 4 * CHUNK):
            part = keep[start : start + 4 * CHUNK]
            counters = np.arange(start // 4, (start + part.size) // 4, dtype=np.uint64)
            random = philox(counters, self.random_seed)
            np.greater_equal(random.T, self.threshold, out=part.reshape(-1, 4))
        return keep[:size]


def philox(counters: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Random numbers of 32 bits, (4, len(counters)), at counters (i, 0, 0, 0) and key (seed, 0)."""
    low = np.uint64(WORD - 1)
    half = np.uint64(32)
    x = [counters & low, *(np.zeros_like(counters) for _ in range(3))]
    for turn in range(ROUNDS):
        left, right = (np.uint64((k + turn * w) % WORD) for k, w in zip((seed, 0), WEYL))
        a, b = (np.uint64(m) * word for m, word in zip(MULTIPLIERS, (x[0], x[2])))
        x = [b >> half ^ x[1] ^ left, b & low, a >> half ^ x[3] ^ right, a & low]
    return np.stack(x)


writes_all("dropout")
