"""All-reduce: each GPU ends with the sum of all GPUs' vectors.

    y(i) = sum over r of  x(r, i)

    x  (n, ...)  n vectors, shared by the GPUs as a batch is: of as many GPUs, each has one
    y  (...)     one vector, on every GPU

Each GPU sums its own vectors, in order; with one vector, this is a copy. Then the GPUs sum their
results in a ring or along a tree (simgen/workload/sharding.py), as they sum gradients in training.
The layer needs several GPUs.

Source: MPI_Allreduce; ncclAllReduce of NCCL; DeepBench's all-reduces.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import exactness
from simgen.ground.numerics.rounding import U
from simgen.layers.base import Choice, Collective, Lowering, Port, Sums, key
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.written import Writes, dense, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.layers.base import Tensors
    from simgen.layers.written import Values


class Route(StrEnum):
    """How sums go from GPU to GPU."""

    RING = "ring"  # in chunks around all GPUs, twice: each link carries the least that it can
    TREE = "tree"  # whole, up a binary tree and down again: the fewest stages


@dataclass(frozen=True)
class AllReduce(Collective):
    kind = "all_reduce"
    section = "AllReduce"
    passes = (Pass.FORWARD,)
    data_parallel = True
    summed: ClassVar[tuple[str, ...]] = ("y",)
    sample: ClassVar[Mapping[str, str]] = {"n": "4", "c": "100000"}

    route: Route = key("route", Route.RING, "route of the sums between GPUs", hint=True)

    @property
    def way(self) -> str:
        return str(self.route)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        if len(x.shape) < 2:
            raise ValueError(f"x has {len(x.shape)} axes; give it one of GPUs before its others")
        if x.shape[0] < 2:
            raise ValueError("n is 1, and one vector is its own sum; set n=2 or more")
        return self._y(x)

    def _y(self, x: TensorSpec) -> TensorSpec:
        """The result's spec, for a whole tensor or for a share, which may have one vector."""
        return TensorSpec(x.shape[1:], x.dtype)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """The sums, in all one addition less than there are vectors."""
        return inputs[0].size - self._y(inputs[0]).size, 0

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        return (Port("x", x, Fill(Distribution.NORMAL, 0.0, 1.0)), Port("y", self._y(x)))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        size = prod(x.shape[1:])
        vector = VECTOR if size % VECTOR == 0 else 1
        name = f"all_reduce_{x.shape[0]}x{size}"
        constants = (("ranks", x.shape[0]), ("size", size), ("width", vector))
        kernel = Kernel(name, "all_reduce.hip", BLOCK, constants)
        groups = -(-size // (BLOCK * vector))
        return Lowering((kernel,), (Launch(name, (groups, 1, 1), ("x", "y")),))

    def choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        ring = "each GPU sends 2 (n - 1) / n of its vector, the least there is"
        tree = "a sum goes up and down a binary tree in 2 log2(n) stages"
        return (Choice("route", str(self.route), ring if self.route is Route.RING else tree),)

    def tiles(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Mapping[str, int]:
        (x,) = inputs
        return {"c": BLOCK * VECTOR} if len(x.shape) == 4 and prod(x.shape[2:]) == 1 else {}

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        return {"y": tensors["x"].sum(axis=0)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """Each addition rounds a sum that the additions before have already changed a little."""
        first, *others = tensors["x"]
        y, bound = first, np.zeros_like(first)
        for x in others:
            y = y + x
            bound = bound + U * (np.abs(y) + bound)
        return {"y": bound}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        (x,) = inputs
        return Sums(x.shape[0])

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        x = tensors["x"]
        grain = exactness.grain(x)
        if not grain:
            return {}
        return {"y": exactness.settled(x.sum(axis=0), np.abs(x).sum(axis=0), grain)}


@writes("all_reduce")
def _written(c: Values, block: int) -> list[Writes]:
    return [dense(-1, c["size"], c["width"], block)]
