"""Sum, difference, product or quotient of two tensors, each repeated along the axes where the other
has more elements. One launch, forward only.

    operation   y =
    add         x0 + x1
    subtract    x0 - x1
    multiply    x0 x1
    divide      x0 / x1, by the reciprocal of x1

Extents are compared from the last axis on. They are equal, or one of them is 1 or missing.

Source: "Multidirectional Broadcasting" of ONNX, which is NumPy's, for Add, Sub, Mul and Div.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.layers import elementwise, pointwise
from simgen.layers.axes import MAX_INT, extents
from simgen.layers.base import MAX_RANK, Layer, Lowering, Port, Sums, key
from simgen.layers.contract import Contract
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.written import writes_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.layers.base import Tensors

Shape = tuple[int, ...]
NAMES = ("x0", "x1")


class Pairwise(StrEnum):
    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"


ROWS = {
    Pairwise.ADD: pointwise.ADD,
    Pairwise.SUBTRACT: pointwise.SUBTRACT,
    Pairwise.MULTIPLY: pointwise.MULTIPLY,
    Pairwise.DIVIDE: pointwise.DIVIDE,
}


@dataclass(frozen=True)
class Broadcast(Layer):
    kind = "broadcast"
    section = "Broadcast"
    contract: ClassVar[Contract] = Contract(gathers=NAMES, rounds=True)  # `rounds` holds for divide
    passes: ClassVar[tuple[Pass, ...]] = (Pass.FORWARD,)
    input_names: ClassVar[tuple[str, ...]] = NAMES
    any_float: ClassVar[bool] = True
    sample: ClassVar[Mapping[str, str]] = {"n": "16", "c": "64", "h": "56", "w": "56"}

    operation: Pairwise = key("operation", Pairwise.MULTIPLY, "operation on each pair of elements")
    operand: str = key(
        "operand", "", "extents of x1 if previous_layer has no second layer; 0: as in x0"
    )

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        """x1 has a number for each channel, if `operand` says nothing else."""
        usual = tuple(extent if at == 1 else 1 for at, extent in enumerate(x.shape))
        if not self.operand:
            return x, TensorSpec(usual, x.dtype)
        asked = extents("operand", self.operand, 0)
        if len(asked) != len(x.shape):
            fact = f"operand is {self.operand}, and the input has {len(x.shape)} axes"
            raise ValueError(f"{fact}; write a number for each")
        shape = tuple(want or have for want, have in zip(asked, x.shape, strict=True))
        return x, TensorSpec(shape, x.dtype)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        if len(inputs) != 2:
            raise ValueError(f"[{self.section}] has one input; name two in previous_layer")
        x0, x1 = inputs
        if x0.dtype != x1.dtype:
            raise ValueError(f"x0 is {x0.dtype}, but x1 is {x1.dtype}; insert [Cast] before it")
        rank = max(len(x0.shape), len(x1.shape))
        pairs = list(zip(*(_aligned(each.shape, rank) for each in inputs), strict=True))
        if any(one != other and 1 not in (one, other) for one, other in pairs):
            one, other = (" x ".join(map(str, each.shape)) for each in inputs)
            fact = f"x0 is {one}, but x1 is {other}"
            raise ValueError(f"{fact}; give them the same extents, or 1, from the last axis on")
        shape = tuple(max(pair) for pair in pairs)
        if prod(shape) > MAX_INT or rank > MAX_RANK:
            raise ValueError(f"y has {prod(shape)} elements, more than {MAX_INT}; make it smaller")
        return TensorSpec(shape, x0.dtype)

    def by_sample(self, inputs: tuple[TensorSpec, ...]) -> bool:
        """Whether both tensors have samples."""
        x0, x1 = inputs
        return len(x0.shape) == len(x1.shape) and x0.shape[0] == x1.shape[0]

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """An operation for each element of y."""
        size = self.output(inputs).size
        return self._row.operations * size, self._row.transcendentals * size

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        first, second = Fill.usual(inputs[0].dtype), Fill.usual(inputs[1].dtype)
        second = pointwise.DIVISORS if self.operation is Pairwise.DIVIDE else second
        x0, x1 = inputs
        return (Port("x0", x0, first), Port("x1", x1, second), Port("y", self.output(inputs)))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        y = self.output(inputs)
        axes = _merged(y.shape, [each.shape for each in inputs])
        last = axes[-1][0]
        fours = [
            last % VECTOR == 0 and not any(axis[at] % VECTOR for axis in axes[:-1])
            for at in (1, 2)
        ]  # fmt: skip
        # Neighbours in y are the same element, four neighbours, or lie where each has to be looked.
        ways = [
            "once" if last % VECTOR == 0 and axes[-1][at] == 0 else "four" if by_fours else "each"
            for at, by_fours in zip((1, 2), fours, strict=True)
        ]
        constants: Constants = (
            ("operation", str(self.operation)),
            ("size", y.size),
            ("extents", " ".join(str(axis[0]) for axis in axes)),
            *((f"strides{at}", " ".join(str(axis[1 + at]) for axis in axes)) for at in (0, 1)),
            *((f"way{at}", way) for at, way in enumerate(ways)),
            ("vector", VECTOR),
            *elementwise.element(y.dtype),
        )
        digest = hashlib.sha256(repr(constants).encode()).hexdigest()[:12]
        name = f"broadcast_{self.operation}_{y.size}_{digest}{elementwise.suffix(y.dtype)}"
        kernel = Kernel(name, "broadcast.hip", BLOCK, constants)
        return Lowering((kernel,), (Launch(name, elementwise.grid(y.size), (*NAMES, "y")),))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        with np.errstate(all="ignore"):  # divisors of a network may be 0
            return {"y": np.asarray(self._row.value(tensors["x0"], tensors["x1"]))}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        x0, x1 = np.broadcast_arrays(tensors["x0"], tensors["x1"])
        with np.errstate(all="ignore"):
            return {"y": self._row.bound(x0, x1)}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums(self._row.terms) if self._row.terms else None

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        made = self._row.exact(tensors["x0"], tensors["x1"])
        return {} if made is None else {"y": made}

    @property
    def _row(self) -> pointwise.Formula:
        return ROWS[self.operation]


def _aligned(shape: Shape, rank: int) -> Shape:
    return (*(1,) * (rank - len(shape)), *shape)


def _merged(shape: Shape, inputs: list[Shape]) -> list[tuple[int, ...]]:
    """The axes of y, as few as possible: extent, and strides of both inputs."""
    own = [_aligned(each, len(shape)) for each in inputs]
    found: list[tuple[int, ...]] = []
    for at, extent in enumerate(shape):
        strides = [prod(each[at + 1 :]) if each[at] > 1 else 0 for each in own]
        if extent == 1:
            continue
        if found and all(
            before == extent * stride for before, stride in zip(found[-1][1:], strides, strict=True)
        ):
            found[-1] = (found[-1][0] * extent, *strides)
        else:
            found.append((extent, *strides))
    return found or [(1, 0, 0)]


writes_all("broadcast")
