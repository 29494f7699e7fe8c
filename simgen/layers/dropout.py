"""Dropout: zero for a random share p of the elements, the others scaled to keep the mean.

    forward   y  = x * keep / (1 - p)        keep = 1 where u >= p, else 0;  all zeros for p = 1
    backward  dx = dy * keep / (1 - p)

    x, y, dx, dy  (N, C, H, W)     u in [0, 1): one random number per element     p the probability

Source: cudnnDropoutForward and cudnnDropoutBackward; Srivastava et al., "Dropout", 2014. Libraries
store `keep` between the passes; here u comes from a counter-based generator (Philox: Salmon et
al., "Parallel random numbers: as easy as 1, 2, 3", 2011) keyed by random_seed, so that backward
computes the same `keep` again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ir import OpCount, Pass, TensorSpec
from simgen.layers.base import Layer, key

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Dropout(Layer):
    kind = "dropout"
    section = "Dropout"
    sample: ClassVar[Mapping[str, str]] = {
        "n": "100",
        "c": "1000",
        "h": "1",
        "w": "1",
        "dropout_probability": ".5",
        "random_seed": "0",
    }

    probability: float = key("dropout_probability", default=0.5, least=0, most=1)
    random_seed: int = key("random_seed", default=0, least=0)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        return x

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """A comparison and a multiplication per element, in either pass.

        The random numbers are integer arithmetic, which does not count.
        """
        (x,) = inputs
        return OpCount(2 * x.size, 0, x.nbytes, x.nbytes)
