"""Layers that give each element of what they write from the same elements of two tensors: a row for
each result.

A row has the result in NumPy, and a bound on the error of the kernel, derived from the kernel's
line in templates/kernels. Both are written for themselves, so an exchanged argument shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import exactness
from simgen.ground.numerics.rounding import RCP, SECOND_ORDER, TINY, U
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, Sums
from simgen.layers.contract import Contract
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.written import writes_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

F, B = Pass.FORWARD, Pass.BACKWARD
NORMAL = Fill(Distribution.NORMAL, 0.0, 1.0)
DIVISORS = Fill(Distribution.UNIFORM, 0.5, 2.0)  # two binades, of which none is near 0
PAIR = ("x0", "x1")


class Row(NamedTuple):
    """A result: the ports that it is made of, its value, its bound from value and ports."""

    reads: tuple[str, ...]
    value: Callable[..., Array]
    bound: Callable[..., Array]
    operations: int = 1
    transcendentals: int = 0
    # terms of a sum that whole numbers leave exact; 1: a product, 0: a copy, None: it rounds
    terms: int | None = 1

    def exact(self, *tensors: Array) -> Array | None:
        """Results of whole numbers, or of those by powers of two, that need no rounding."""
        grain = 0.0
        if self.terms == 1:
            grain = exactness.grain(*tensors)
        elif self.terms:
            grain = min(map(exactness.grain, tensors))
        if not grain:
            return None
        value = self.value(*tensors)
        size = np.abs(value) if self.terms == 1 else np.abs(tensors[0]) + np.abs(tensors[1])
        return exactness.settled(value, size, grain)


def _sum(y: Array, *_: Array) -> Array:
    """One rounding to the nearest; a sum below the least normal number is exact."""
    return U * np.abs(y)


def _product(y: Array, *_: Array) -> Array:
    """One product is rounded, and may be flushed to zero."""
    return U * np.abs(y) + TINY


def _copy(y: Array, *_: Array) -> Array:
    return np.zeros_like(y)


def _ratio(y: Array, divided: Array) -> Array:
    """A reciprocal and the rounding of the product with it; where the divisor is so large that its
    reciprocal may be flushed, that times what is divided."""
    return (RCP + U) * np.abs(y) + TINY * np.abs(divided) + TINY


def _known(x1: Array, bound: Array) -> Array:
    """Nothing is known of a divisor that may be flushed."""
    return np.where(np.abs(x1) < TINY, np.inf, bound * SECOND_ORDER)


def _quotient(y: Array, x0: Array, x1: Array) -> Array:
    return _known(x1, _ratio(y, x0))


def _product_of_quotients(dx1: Array, x0: Array, x1: Array, dy: Array) -> Array:
    """The errors of both, and its own rounding."""
    y, dx0 = x0 / x1, dy / x1
    first, second = _ratio(dx0, dy), _ratio(y, x0)
    product = np.abs(y) * first + np.abs(dx0) * second + first * second
    return _known(x1, product + U * np.abs(dx1) + TINY)


ADD = Row(PAIR, lambda x0, x1: x0 + x1, _sum, terms=2)
SUBTRACT = Row(PAIR, lambda x0, x1: x0 - x1, _sum, terms=2)
MULTIPLY = Row(PAIR, lambda x0, x1: x0 * x1, _product)
DIVIDE = Row(PAIR, lambda x0, x1: x0 / x1, _quotient, 1, 1, None)


@dataclass(frozen=True)
class Pointwise(Layer):
    """A layer with two inputs: by itself of one shape, in a network those of `previous_layer`."""

    rows: ClassVar[Mapping[Pass, Mapping[str, Row]]]
    # what begins the kernel's name, its template, and the arguments of each launch
    kernels: ClassVar[Mapping[Pass, tuple[str, str, tuple[str, ...]]]]
    fills: ClassVar[Mapping[str, Fill]] = {}

    input_names: ClassVar[tuple[str, ...]] = PAIR
    per_sample: ClassVar[bool] = True
    any_float: ClassVar[bool] = True
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "256", "h": "56", "w": "56"}

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        return (x, x)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        if len(inputs) != 2:
            raise ValueError(f"[{self.section}] has one input; name two in previous_layer")
        x0, x1 = inputs
        if x0.shape != x1.shape:
            one, other = (" x ".join(map(str, each.shape)) for each in inputs)
            raise ValueError(f"x0 is {one}, but x1 is {other}; give them the same extents")
        if x0.dtype != x1.dtype:
            raise ValueError(f"x0 is {x0.dtype}, but x1 is {x1.dtype}; insert [Cast] before it")
        return x0

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        size, rows = inputs[0].size, self.rows[direction].values()
        return size * sum(r.operations for r in rows), size * sum(r.transcendentals for r in rows)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        rows = self.rows[direction]
        read = {port for row in rows.values() for port in row.reads}
        return (
            *(Port(p, inputs[0], self.fills.get(p, NORMAL)) for p in (*PAIR, "dy") if p in read),
            *(Port(name, inputs[0]) for name in rows),
        )

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x, *_), (prefix, template, launched) = inputs, self.kernels[direction]
        constants = (("size", x.size), ("vector", VECTOR), *elementwise.element(x.dtype))
        name = f"{prefix}_{x.size}{elementwise.suffix(x.dtype)}"
        launches = (Launch(name, elementwise.grid(x.size), tuple(a.split())) for a in launched)
        return Lowering((Kernel(name, template, BLOCK, constants),), tuple(launches))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        with np.errstate(all="ignore"):  # divisors of a network may be 0
            return {
                port: row.value(*map(tensors.__getitem__, row.reads))
                for port, row in self.rows[direction].items()
            }

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        made = self.reference(tensors, direction)
        with np.errstate(all="ignore"):
            return {
                port: row.bound(made[port], *map(tensors.__getitem__, row.reads))
                for port, row in self.rows[direction].items()
            }

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        terms = [row.terms for row in self.rows[direction].values()]
        return None if None in terms else Sums(max(filter(None, terms), default=1))

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        made = {
            port: row.exact(*map(tensors.__getitem__, row.reads))
            for port, row in self.rows[direction].items()
        }
        return {port: values for port, values in made.items() if values is not None}


@dataclass(frozen=True)
class Multiply(Pointwise):
    """Element-wise product of two tensors, such as a gate.

        forward   y = x0 x1
        backward  dx0 = dy x1      dx1 = dy x0

        x0, x1, y and their gradients  (N, C, H, W), or another shape that all have in common

    Source: Mul of ONNX without broadcasting; the gates of Hochreiter and Schmidhuber, "Long
    short-term memory", 1997.
    """

    kind = "multiply"
    section = "Multiply"
    rows: ClassVar[Mapping[Pass, Mapping[str, Row]]] = {
        F: {"y": MULTIPLY},
        B: {
            "dx0": MULTIPLY._replace(reads=("dy", "x1")),
            "dx1": MULTIPLY._replace(reads=("dy", "x0")),
        },
    }
    kernels: ClassVar[Mapping[Pass, tuple[str, str, tuple[str, ...]]]] = {
        F: ("multiply", "multiply.hip", ("x0 x1 y",)),
        B: ("multiply", "multiply.hip", ("dy x1 dx0", "dy x0 dx1")),
    }


@dataclass(frozen=True)
class Subtract(Pointwise):
    """Element-wise difference of two tensors.

        forward   y = x0 - x1
        backward  dx0 = dy      dx1 = -dy

        x0, x1, y and their gradients  (N, C, H, W), or another shape that all have in common

    Source: Sub of ONNX without broadcasting.
    """

    kind = "subtract"
    section = "Subtract"
    contract: ClassVar[Contract] = Contract(copies=(B,))
    # dx0 and dx1 are made of dy alone: their shapes are those of x0 and x1.
    shape_given: ClassVar[tuple[str, ...]] = ("dx0", "dx1")
    rows: ClassVar[Mapping[Pass, Mapping[str, Row]]] = {
        F: {"y": SUBTRACT},
        B: {
            "dx0": Row(("dy",), lambda dy: dy, _copy, 0, terms=0),
            "dx1": Row(("dy",), lambda dy: -dy, _copy, 0, terms=0),
        },
    }
    kernels: ClassVar[Mapping[Pass, tuple[str, str, tuple[str, ...]]]] = {
        F: ("subtract_fwd", "subtract.hip", ("x0 x1 y",)),
        B: ("subtract_bwd", "subtract_backward.hip", ("dy dx0 dx1",)),
    }


@dataclass(frozen=True)
class Divide(Pointwise):
    """Element-wise quotient of two tensors.

        forward   y = x0 / x1
        backward  dx0 = dy / x1      dx1 = -dx0 x0 / x1

        x0, x1, y and their gradients  (N, C, H, W), or another shape that all have in common

    Source: Div of ONNX without broadcasting. Kernels multiply by the reciprocal of x1, which each
    machine has as one instruction.
    """

    kind = "divide"
    section = "Divide"
    contract: ClassVar[Contract] = Contract(rounds=True)  # reciprocals are any numbers
    fills: ClassVar[Mapping[str, Fill]] = {"x1": DIVISORS}  # quotients keep the size of x0
    rows: ClassVar[Mapping[Pass, Mapping[str, Row]]] = {
        F: {"y": DIVIDE},
        B: {
            "dx0": DIVIDE._replace(reads=("dy", "x1")),
            "dx1": Row(
                (*PAIR, "dy"), lambda x0, x1, dy: -(dy / x1) * (x0 / x1), _product_of_quotients,
                2, terms=None,
            ),
        },
    }  # fmt: skip
    kernels: ClassVar[Mapping[Pass, tuple[str, str, tuple[str, ...]]]] = {
        F: ("divide_fwd", "divide.hip", ("x0 x1 y",)),
        B: ("divide_bwd", "divide_backward.hip", ("x0 x1 dy dx0 dx1",)),
    }


writes_all("multiply", "subtract", "divide")
writes_all("subtract_backward", "divide_backward", arguments=(-2, -1))
