"""Layers that give each element of what they write from the same elements of what they read: a row
for each result.

A row has the expression of the result: of arrays, that is the reference, and of what has errors
the bound (with_error.py). The kernel's line in templates/kernels is written for itself, so an
exchanged argument shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import exactness, rounding
from simgen.ground.numerics.rounding import RCP, SECOND_ORDER, TINY, U, float32, identifier
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.contract import Contract
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.gate_unit import GateMode, unit, unit_slope
from simgen.layers.with_error import WithError
from simgen.layers.written import Places, Writes, cut_by, dense, writes, writes_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

F, B = Pass.FORWARD, Pass.BACKWARD
LARGEST = 3.4028234663852886e38  # largest finite float32
NORMAL = Fill(Distribution.NORMAL, 0.0, 1.0)
DIVISORS = Fill(Distribution.UNIFORM, 0.5, 2.0)  # two binades, of which none is near 0
PAIR = ("x0", "x1")


class Formula(NamedTuple):
    """A result: the ports that it is made of, and its value, of arrays or what has errors."""

    reads: tuple[str, ...]
    value: Callable[..., Any]
    operations: int = 1
    transcendentals: int = 0
    # terms of a sum that whole numbers leave exact; 1: a product, 0: a copy, None: it rounds
    terms: int | None = 1

    def bound(self, *tensors: Array) -> Array:
        """Bound on the error of each element."""
        found: Array = np.zeros_like(tensors[0]) + self.value(*map(WithError, tensors)).error
        return found

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


ADD = Formula(PAIR, lambda x0, x1: x0 + x1, terms=2)
SUBTRACT = Formula(PAIR, lambda x0, x1: x0 - x1, terms=2)
MULTIPLY = Formula(PAIR, lambda x0, x1: x0 * x1)
DIVIDE = Formula(PAIR, lambda x0, x1: x0 / x1, 1, 1, None)


@dataclass(frozen=True)
class Pointwise(Layer):
    """A layer with two inputs: by itself of one shape, in a network those of `previous_layer`."""

    rows: ClassVar[Mapping[Pass, Mapping[str, Formula]]]
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

    def _each(
        self, tensors: Tensors, direction: Pass, made: Callable[..., Array | None]
    ) -> Tensors:
        """What `made` gives for each row, of that and the tensors that it reads."""
        with np.errstate(all="ignore"):  # divisors of a network may be 0
            found = {
                port: made(row, *map(tensors.__getitem__, row.reads))
                for port, row in self.rows[direction].items()
            }
        return {port: values for port, values in found.items() if values is not None}

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._each(tensors, direction, lambda row, *read: row.value(*read))

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._each(tensors, direction, Formula.bound)

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        terms = [row.terms for row in self.rows[direction].values()]
        return None if None in terms else Sums(max(filter(None, terms), default=1))

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._each(tensors, direction, Formula.exact)


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
    rows: ClassVar[Mapping[Pass, Mapping[str, Formula]]] = {
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
    rows: ClassVar[Mapping[Pass, Mapping[str, Formula]]] = {
        F: {"y": SUBTRACT},
        B: {
            "dx0": Formula(("dy",), lambda dy: dy, 0, terms=0),
            "dx1": Formula(("dy",), lambda dy: -dy, 0, terms=0),
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
    rows: ClassVar[Mapping[Pass, Mapping[str, Formula]]] = {
        F: {"y": DIVIDE},
        B: {
            "dx0": DIVIDE._replace(reads=("dy", "x1")),
            "dx1": Formula(
                (*PAIR, "dy"), lambda x0, x1, dy: -(dy / x1) * (x0 / x1), 2, terms=None
            ),
        },
    }  # fmt: skip
    kernels: ClassVar[Mapping[Pass, tuple[str, str, tuple[str, ...]]]] = {
        F: ("divide_fwd", "divide.hip", ("x0 x1 y",)),
        B: ("divide_bwd", "divide_backward.hip", ("x0 x1 dy dx0 dx1",)),
    }


@dataclass(frozen=True)
class Gate(Pointwise):
    """Gated linear units: a tensor times a function of another one, in one launch.

        forward   y = f(x0) x1
        backward  dx0 = dy x1 f'(x0)      dx1 = dy f(x0)

        gate_mode   f(x)
        swiglu      x / (1 + exp(-x))
        geglu       x Phi(x)
        geglu_tanh  x Phi(x), Phi by tanh
        glu         1 / (1 + exp(-x))

        x0, x1, y and their gradients  (N, C, H, W), or another shape that all have in common

    With `gate_packed`, x0 is the only input: it has what is x0 above in the first half of each row,
    along the last axis, and x1 in the other. So has its gradient.

    Source: Shazeer, "GLU Variants Improve Transformer", 2020; Dauphin et al., "Language Modeling
    with Gated Convolutional Networks", 2017. Phi is that of [Activation].
    """

    kind = "gate"
    section = "Gate"
    contract: ClassVar[Contract] = Contract(rounds=True)  # exponentials are any numbers

    mode: GateMode = key("gate_mode", GateMode.SWIGLU, "the function of x0")
    packed: bool = key("gate_packed", False, "one input has x0 and x1 side by side in each row")

    @property
    def rows(self) -> Mapping[Pass, Mapping[str, Formula]]:  # type: ignore[override]
        mode, (of, slopes) = self.mode, ((4, 2), (6, 2))
        gated = Formula(PAIR, lambda x0, x1: unit(x0, mode) * WithError(x1), *of, None)
        dx0 = Formula(
            (*PAIR, "dy"),
            lambda x0, x1, dy: WithError(dy) * WithError(x1) * unit_slope(x0, mode),
            *slopes,
            None,
        )
        dx1 = gated._replace(reads=("x0", "dy"))
        return {F: {"y": gated}, B: {"dx0": dx0, "dx1": dx1}}

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        return (x,) if self.packed else (x, x)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        if not self.packed:
            return super().output(inputs)
        if len(inputs) != 1:
            fact = f"[Gate] has gate_packed=true and {len(inputs)} inputs"
            raise ValueError(f"{fact}; name one in previous_layer, or remove gate_packed")
        *outer, width = inputs[0].shape
        if width % 2:
            raise ValueError(f"rows of {width} elements have no halves; make them even")
        return TensorSpec((*outer, width // 2), inputs[0].dtype)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        return super().work((self.output(inputs),), direction)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        if not self.packed:
            return super().ports(inputs, direction)
        (x,), y = inputs, self.output(inputs)
        if direction is F:
            return (Port("x0", x, NORMAL), Port("y", y))
        return (Port("x0", x, NORMAL), Port("dy", y, NORMAL), Port("dx0", x))

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        """Narrow rows that do not end with a word are converted before and after."""
        whole = not self.packed or self.output(inputs).shape[-1] % VECTOR == 0
        return super().moves(inputs, direction) if whole else ()

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        y = self.output(inputs)
        y = y if self.moves(inputs, direction) else TensorSpec(y.shape)
        row = y.shape[-1] if self.packed else y.size
        vector = VECTOR if row % VECTOR == 0 or not self.packed else 1
        constants: Constants = (
            ("function", str(self.mode)),
            ("size", y.size),
            ("row", row),
            ("other", row * self.packed),
            ("vector", vector),
            *elementwise.element(y.dtype),
        )
        form = f"{y.size}_{row}" if self.packed else str(y.size)
        name = f"gate_{direction}_{self.mode}_{form}{elementwise.suffix(y.dtype)}"
        one = "x0" if self.packed else "x1"
        template = "gate.hip" if direction is F else "gate_backward.hip"
        args = ("x0", one, *(("y",) if direction is F else ("dy", "dx0", f"d{one}")))
        kernel = Kernel(name, template, BLOCK, constants)
        groups = ceil(y.size / (BLOCK * vector))
        return Lowering((kernel,), (Launch(name, (groups, 1, 1), args),))

    def _each(
        self, tensors: Tensors, direction: Pass, made: Callable[..., Array | None]
    ) -> Tensors:
        if not self.packed:
            return super()._each(tensors, direction, made)
        x0, x1 = np.split(tensors["x0"], 2, axis=-1)
        found = super()._each({**tensors, "x0": x0, "x1": x1}, direction, made)
        return (
            found
            if direction is F or not found
            else {"dx0": np.concatenate(list(found.values()), axis=-1)}
        )

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._each(tensors, direction, lambda row, *read: row.value(*read).value)

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._each(tensors, direction, lambda row, *read: row.value(*read).error)


class PiecewiseMode(StrEnum):
    LEAKY_RELU = "leaky_relu"
    CLIP = "clip"
    HARD_SIGMOID = "hard_sigmoid"
    HARD_SWISH = "hard_swish"
    LINEAR = "linear"
    SWISH = "swish"


class Numbers(NamedTuple):
    """The keys of a layer as kernels have them; 0 where the function has none."""

    slope: float
    offset: float
    low: float
    high: float


class Curve(NamedTuple):
    """A function: its keys, operations and transcendental ones, its value with errors."""

    keys: tuple[str, ...]
    operations: tuple[int, int]
    value: Callable[[WithError, Numbers], WithError]


def _swish(of: WithError, n: Numbers) -> WithError:
    """With e = exp(-t) and t = a x, the error counts by its share of 1 + e. a log2(e) has one
    rounding more than without a. The sum, its reciprocal and the product follow."""
    x, t = of.value, n.slope * of.value
    e = np.exp(-np.abs(t))  # float64 does not overflow either
    y: Array = x * np.where(t >= 0, 1.0, e) / (1 + e)
    share = np.where(t > 0, e, 1.0) / (1 + e)
    relative = share * (rounding.exp(t) + U * np.abs(t)) + 2 * U + RCP
    return WithError(y, (relative * np.abs(y) + (1 + np.abs(x)) * TINY) * SECOND_ORDER)


LINE = ("slope", "offset")
# A function is a row here, and a line in piecewise.hip.
FUNCTIONS = {
    PiecewiseMode.LEAKY_RELU: Curve(("slope",), (2, 0), lambda x, n: x.where_positive(x * n.slope)),
    PiecewiseMode.CLIP: Curve(("low", "high"), (2, 0), lambda x, n: x.between(n.low, n.high)),
    PiecewiseMode.HARD_SIGMOID: Curve(
        LINE, (4, 0), lambda x, n: x.fused(n.slope, n.offset).between(0.0, 1.0)
    ),
    PiecewiseMode.HARD_SWISH: Curve(
        LINE, (5, 0), lambda x, n: x * x.fused(n.slope, n.offset).between(0.0, 1.0)
    ),
    PiecewiseMode.LINEAR: Curve(LINE, (2, 0), lambda x, n: x.fused(n.slope, n.offset)),
    PiecewiseMode.SWISH: Curve(("slope",), (3, 2), _swish),
}


@dataclass(frozen=True)
class Piecewise(Layer):
    """Piecewise linear functions and swish, element by element, forward only.

        mode           y =
        leaky_relu     x where x > 0, otherwise a x
        clip           min(max(x, low), high)
        hard_sigmoid   min(max(a x + b, 0), 1)
        hard_swish     x min(max(a x + b, 0), 1)
        linear         a x + b
        swish          x / (1 + exp(-a x))

    a is `slope`, b is `offset`. relu and clipped_relu are in [Activation], with a backward pass.

    Source: LeakyRelu, Clip, HardSigmoid and HardSwish of ONNX; Howard et al., "Searching for
    MobileNetV3", 2019, section 5.2, where a = 1/6 and b = 1/2. Swish: Ramachandran et al.,
    "Searching for Activation Functions", 2017; with a = 1, torch.nn.SiLU.
    """

    kind = "piecewise"
    section = "Piecewise"
    passes: ClassVar[tuple[Pass, ...]] = (Pass.FORWARD,)
    per_sample = True
    any_float = True
    contract: ClassVar[Contract] = Contract(rounds=True)  # slopes are any numbers
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "32", "h": "128", "w": "128"}

    mode: PiecewiseMode = key("piecewise_mode", PiecewiseMode.LEAKY_RELU, "the function")
    slope: float = key("slope", 0.125, "coefficient a of all functions but clip", -1e6, 1e6)
    offset: float = key(
        "offset", 0.5, "coefficient b of hard_sigmoid, hard_swish, linear", -1e6, 1e6
    )
    low: float = key("low", -1.0, "lower limit of clip", -LARGEST, LARGEST)
    high: float = key("high", 6.0, "upper limit of clip", -LARGEST, LARGEST)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        if self.mode is PiecewiseMode.CLIP and float32(self.low) > float32(self.high):
            raise ValueError(f"low is {self.low}, above {self.high}, which is high; exchange them")
        return x

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        flops, transcendentals = FUNCTIONS[self.mode].operations
        return flops * inputs[0].size, transcendentals * inputs[0].size

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        return (Port("x", x, Fill.usual(x.dtype, 8.0)), Port("y", x))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        numbers = self._numbers._asdict()
        constants: Constants = (
            ("function", str(self.mode)),
            *numbers.items(),
            ("size", x.size),
            ("vector", VECTOR),
            *elementwise.element(x.dtype),
        )
        used = "".join(f"_{name[0]}{identifier(each)}" for name, each in numbers.items() if each)
        suffix = elementwise.suffix(x.dtype)
        name = f"piecewise_{self.mode}_{x.size}{used}{suffix}"
        kernel = Kernel(name, "piecewise.hip", BLOCK, constants)
        return Lowering((kernel,), (Launch(name, elementwise.grid(x.size), ("x", "y")),))

    @property
    def _numbers(self) -> Numbers:
        keys = FUNCTIONS[self.mode].keys
        return Numbers(*(float32(getattr(self, n)) if n in keys else 0.0 for n in Numbers._fields))

    def _evaluated(self, tensors: Tensors) -> WithError:
        return FUNCTIONS[self.mode].value(WithError(tensors["x"]), self._numbers)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        return {"y": self._evaluated(tensors).value}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        return {"y": np.zeros_like(tensors["x"]) + self._evaluated(tensors).error}


writes_all("multiply", "subtract", "divide", "piecewise")
writes_all("subtract_backward", "divide_backward", arguments=(-2, -1))


writes_all("gate")


@writes("gate_backward")
def _gated(c: Values, block: int) -> list[Writes]:
    row, other, vector = c["row"], c["other"], c["vector"]
    if not other:
        return [dense(at, c["size"], vector, block) for at in (-2, -1)]
    rows = Places(c["size"] // row, 2 * row), Places(row, 1, vector)
    return [Writes(at, cut_by(*rows, group=block), offset=row * (2 + at)) for at in (-2, -1)]
