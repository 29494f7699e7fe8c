"""Fully connected layer: a matrix product with the images laid flat.

    forward   y[n,k]  = sum over i of  x[n,i] * w[k,i]   [+ b[k]]
    backward  dw[k,i] = sum over n of  x[n,i] * dy[n,k]
              db[k]   = sum over n of  dy[n,k]
              dx[n,i] = sum over k of  dy[n,k] * w[k,i]

    x, dx  (N, C, H, W) seen as (N, I), I = C H W      w, dw  (K, I), K = num_output
    y, dy  (N, K, 1, 1)                                b, db  (K,), with bias=true only

For x and w of i8, y is i32, or i8 if scales are given. 8-bit floats may have scales
(simgen/layers/requantisation.py). With float x, w may be i8 or i4: y = w_scale sum of x (w -
w_zero_point) [+ b], where w is converted to float as it is loaded. Outputs, or groups of group_size
elements of a row, may have their own scales, in w_scales. For i4, w is stored as (K, I / 2) and
always has them (simgen/layers/product/packed.py).

x may have any rank: `axis`, 1 by default, and all later axes are flattened. With axis=-1, x (B, S,
I) gives y (B, S, K), where N above is B S. An image with axis=1 keeps four axes.

Source: InnerProduct of Caffe, whose `axis` this is; DNNMark's FullyConnectedLayer
(core/include/layers/fc_layer.h), three GEMMs and no bias.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.dtypes import DType
from simgen.ground.ir import Fill, Launch, Pass, TensorSpec
from simgen.ground.numerics import exactness
from simgen.ground.numerics.integers import wrapped
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, U
from simgen.ground.numerics.spread import Spread, order, sum_spread
from simgen.layers import axes
from simgen.layers.base import EXTENTS, IN_PARTS, Choice, Lowering, Port, Sums, key
from simgen.layers.epilogue import NOTHING, Epilogue
from simgen.layers.product import fragment, packed
from simgen.layers.product.elements import Elements
from simgen.layers.product.matrix_product import FACTORS, Product, sum_of
from simgen.layers.requantisation import (
    SCALES,
    Requantisation,
    ScaledTensors,
    factor,
    per_channel_key,
    scale_key,
    zero_key,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

LAYOUT = {  # whether the left and the right side of a pass's product lie transposed
    Pass.FORWARD: (False, True),
    Pass.BACKWARD_DATA: (False, False),
    Pass.BACKWARD_WEIGHT: (True, False),
}


class WeightType(StrEnum):
    """Type of the elements of w."""

    OF_X = "of_x"
    I8 = "i8"
    I4 = "i4"


@dataclass(frozen=True)
class FullyConnected(ScaledTensors):
    kind = "fc"
    section = "FullyConnected"
    passes: ClassVar[tuple[Pass, ...]] = IN_PARTS
    parameters: ClassVar[tuple[str, ...]] = ("w", "b", SCALES)
    data_parallel = True
    shape_given = ("dx",)
    any_float = True
    integers: ClassVar[tuple[DType, ...]] = (DType.I8,)
    sample: ClassVar[Mapping[str, str]] = {
        "n": "100",
        "c": "9162",
        "h": "1",
        "w": "1",
        "num_output": "4096",
    }

    num_output: int = key("num_output", 4096, "number of outputs per image", 1)
    bias: bool = key("bias", False, "add a bias to each output")
    axis: int = key("axis", 1, "first axis that is flattened, with all later ones; -1 is the last")
    group_size: int = packed.group_key("w")
    w_type: WeightType = key(
        "w_type",
        WeightType.OF_X,
        "element type of w, where x is f32, f16 or bf16",
        of_integers=True,
    )
    x_scale: float = scale_key("x")
    x_zero_point: int = zero_key("x")
    w_scale: float = scale_key("w")
    w_zero_point: int = zero_key("w")
    w_scale_per_channel: bool = per_channel_key()
    y_scale: float = scale_key("y")
    y_zero_point: int = zero_key("y")

    def rows(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """(N, I) of the shape of x."""
        return axes.rows(shape, axes.behind_batch("axis", self.axis, shape))

    @property
    def epilogue(self) -> Epilogue:
        """What a forward pass does to y before it is stored."""
        return Epilogue(requantisation=self.requantisation(self.dtype))

    def requantisation(self, dtype: DType) -> Requantisation:
        """What is done to sums, where x has a type."""
        if stored := self._stored(dtype):
            self._check_mixed()
            return stored.requantisation
        return super().requantisation(dtype)

    def _alpha(self, dtype: DType, direction: Pass) -> float:
        """What sums of floats are multiplied by."""
        if not dtype.is_float or direction is not Pass.FORWARD:
            return 1.0
        stored = self._stored(dtype)
        return stored.alpha if stored else factor(self.scales)

    def _stored(self, dtype: DType) -> packed.Weights | None:
        """How w lies, where it has integers, and x floats."""
        if not dtype.is_float or self.w_type is WeightType.OF_X:
            return None
        return packed.Weights(
            "w",
            8 if self.w_type is WeightType.I8 else 4,
            self.w_scale,
            self.w_zero_point,
            self.group_size,
            self.w_scale_per_channel,
        )

    def _check_mixed(self) -> None:
        """Raises:
        ValueError: there is something of x and y that floats have not.
        """
        others = ("x_scale", "x_zero_point", "y_scale", "y_zero_point")
        for each in others:
            if getattr(self, each):
                fact = f"{each} is given beside w_type={self.w_type}, and x is no i8"
                raise ValueError(f"{fact}; leave it out, or take i8")

    @property
    def forward_only(self) -> str:
        if self._stored(self.dtype):
            return f"with weights of {self.w_type}"
        return "with scales" if self.y_scale else ""

    def weights(self, x: TensorSpec) -> TensorSpec:
        """w: (K, I); of 4 bits (K, I / 2)."""
        row, stored = self.rows(x.shape)[1], self._stored(x.dtype)
        if not stored:
            return TensorSpec((self.num_output, row), x.dtype)
        return TensorSpec((self.num_output, row // stored.per_byte), DType.I8)

    def _factors(self, x: TensorSpec) -> tuple[Port, ...]:
        """The tensor of scales, where there is one."""
        if stored := self._stored(x.dtype):
            made = stored.scales((self.num_output,), self.rows(x.shape)[1], x.dtype)
            return tuple(Port(SCALES, each, stored.fill) for each in made)
        return self.epilogue.requantisation.tensors(self.num_output, self.w_scale)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        if self.w_type is WeightType.I4 and not x.dtype.is_float:
            raise ValueError(f"w_type is i4, and x is {x.dtype}; take f32, f16 or bf16")
        if stored := self._stored(x.dtype):
            stored.check(self.rows(x.shape)[1], x.dtype)
        else:
            packed.check_unused("w", self.group_size)
        self.product(x, Pass.FORWARD).check()
        made = Epilogue(requantisation=self.requantisation(x.dtype)).result(x.dtype)
        return TensorSpec(self._results(x.shape), made)

    def _results(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of y for that of x."""
        axis = axes.behind_batch("axis", self.axis, shape)
        image = axis == 1 and len(shape) == len(EXTENTS)
        return (*shape[:axis], self.num_output, *((1, 1) if image else ()))

    def product(self, x: TensorSpec, direction: Pass) -> Product:
        """The GEMM of a pass."""
        (n, i), k = self.rows(x.shape), self.num_output
        extents = {
            Pass.FORWARD: (n, k, i),
            Pass.BACKWARD_DATA: (n, i, k),
            Pass.BACKWARD_WEIGHT: (k, i, n),
        }[direction]
        forward = direction is Pass.FORWARD
        epilogue = self.epilogue if forward else NOTHING
        return Product(
            *extents,
            *LAYOUT[direction],
            self._alpha(x.dtype, direction),
            bias=self.bias and forward,
            epilogue=epilogue,
            elements=self._elements(x.dtype, epilogue, i),
            machine=self.machine,
        )

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """2 N I K for each of y, dw and dx, N K for b and for db."""
        (x,) = inputs
        rows, row = self.rows(x.shape)
        added = self.bias and direction is not Pass.BACKWARD_DATA
        return (2 * row + added) * rows * self.num_output, 0

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        y, w = self.output(inputs), self.weights(x)
        # He et al., "Delving Deep into Rectifiers", 2015: activations keep their size.
        normal, weights = Fill.usual(x.dtype), Fill.usual(w.dtype, sqrt(2 / w.shape[1]))
        b = TensorSpec((self.num_output,), x.dtype.product)
        workspaces = self.product(x, direction).workspaces()
        partial = (Port(name, spec, scratch=True) for name, spec in workspaces.items())
        if direction is Pass.FORWARD:
            bias = (Port("b", b, Fill.usual(b.dtype, 0.1)),) if self.bias else ()
            read = (Port("x", x, normal), Port("w", w, weights), *bias, *self._factors(x))
            return (*read, Port("y", y), *partial)
        if direction is Pass.BACKWARD_DATA:
            return (Port("w", w, weights), Port("dy", y, normal), Port("dx", x), *partial)
        db = (Port("db", b),) if self.bias else ()
        return (Port("x", x, normal), Port("dy", y, normal), Port("dw", w), *db, *partial)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        product = self.product(x, direction)
        prefix = f"fc_{direction}"
        if direction is Pass.FORWARD:
            added, scales = "b" if self.bias else None, (SCALES,) * bool(product.elements.group)
            return Lowering(*product.lower(prefix, "x", "w", added, "y", scales=scales))
        if direction is Pass.BACKWARD_DATA:
            return Lowering(*product.lower(prefix, "dy", "w", None, "dx"))
        kernels, launches = product.lower(prefix, "dy", "x", None, "dw")
        if self.bias:
            rows, _ = self.rows(x.shape)
            dtype = x.dtype
            column_sum, grid = sum_of(
                self.machine, f"{prefix}_bias", rows, self.num_output, of=dtype, result=dtype
            )
            kernels = (*kernels, column_sum)
            launches = (*launches, Launch(column_sum.name, grid, ("dy", "db")))
        return Lowering(kernels, launches)

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        written, *_ = FACTORS[direction]
        stored = (written,) if self.product(inputs[0], direction).stores else ()
        read = ("x", "w", "b", "dy", SCALES)
        return (*read, "db", *stored)

    def choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        (x,) = inputs
        return self.product(x, direction).choices

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        rows = {name: self._matrix(name, values) for name, values in tensors.items()}
        if direction is Pass.FORWARD:
            y = (rows["x"] - self.x_zero_point) @ self._numbers(tensors, direction).T
            y = self._columns(tensors) * self._alpha(self.dtype, direction) * y
            made = y + tensors["b"] if self.bias else y
            if self._is_integer:
                factors = tensors.get(SCALES, np.ones(1))
                made = self.epilogue.requantisation.of(wrapped(made), factors)
            return {"y": made.reshape(self._results(tensors["x"].shape))}
        if direction is Pass.BACKWARD_DATA:
            dx = rows["dy"] @ rows["w"]
            return {"dx": dx.reshape(tensors["dx"].shape)}
        dw = {"dw": rows["dy"].T @ rows["x"]}
        return dw | {"db": rows["dy"].sum(axis=0)} if self.bias else dw

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        product, left, right = self._sides(tensors, direction)
        found = self.reference(tensors, direction)
        port, *_ = FACTORS[direction]
        columns = self._columns(tensors)
        bound = product.bound(left, right, self._matrix(port, found[port]), columns)
        if self.bias and direction is Pass.FORWARD and (product.alpha != 1 or np.ndim(columns)):
            # The scaled sum is rounded before b is added, which may leave less of it.
            bound += U * np.abs(product.alpha * columns * (left @ right))
        made = {port: bound.reshape(found[port].shape)}
        if "db" in found:  # in whatever order, each takes part in as many additions at most
            dy = self._matrix("dy", tensors["dy"])
            made["db"] = len(dy) * U * np.abs(dy).sum(axis=0) * SECOND_ORDER + TINY
        return made

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        product, left, right = self._sides(tensors, direction)
        port, *_ = FACTORS[direction]
        both = (self.reference(tensors, direction), tolerance)
        y, hard = (self._matrix(port, each[port]) for each in both)
        columns = self._columns(tensors)
        sigma = product.spread(left, right, y, hard, columns).reshape(tolerance[port].shape)
        made = {port: Spread(sigma)}
        if "db" in tolerance:
            dy = self._matrix("dy", tensors["dy"]).T
            made["db"] = Spread(sum_spread(dy, order(dy.shape[1]), tolerance["db"]))
        return made

    def _elements(self, dtype: DType, epilogue: Epilogue, row: int) -> Elements:
        zeros = self.x_zero_point, self.w_zero_point
        made = replace(Elements.all(dtype), result=epilogue.result(dtype), zero_points=zeros)
        stored = self._stored(dtype)
        return stored.beside(made, row) if stored else made

    def _numbers(self, tensors: Tensors, direction: Pass) -> Array:
        """What the elements of w stand for, but for scales of all and of columns."""
        w, stored = tensors["w"], self._stored(self.dtype)
        if not stored:
            made: Array = w - self.w_zero_point
            return made
        x = TensorSpec(tensors["x"].shape, self.dtype)
        taken = self.product(x, direction).taken
        return stored.numbers(w, tensors.get(SCALES), taken)

    def _columns(self, tensors: Tensors) -> Array | float:
        """The scales of outputs of floats; 1 where there are none."""
        stored = self._stored(self.dtype)
        return tensors[SCALES] if stored and stored.by_column else 1.0

    @property
    def _is_integer(self) -> bool:
        return not self.dtype.is_float

    def _sides(self, tensors: Tensors, direction: Pass) -> tuple[Product, Array, Array]:
        """The product of a pass, and its factors as it reads them."""
        _, a, b = FACTORS[direction]
        left, right = self._matrix(a, tensors[a]), self._matrix(b, tensors[b])
        left = left.T if direction is Pass.BACKWARD_WEIGHT else left
        right = self._numbers(tensors, direction).T if direction is Pass.FORWARD else right
        (m, k), n = left.shape, right.shape[1]
        elements = self._elements(self.dtype, NOTHING, k)
        alpha = self._alpha(self.dtype, direction)
        sides = (m, n, k, *LAYOUT[direction], alpha)
        product = Product(*sides, elements=elements, machine=self.machine)
        return product, left, right

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        (x,) = inputs
        added = int(self.bias and direction is Pass.FORWARD)
        stored = self._stored(x.dtype)  # integers are factors that are not drawn anew
        growth = stored.growth if stored else 1
        return Sums(self.product(x, direction).k + added, growth)

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        if self._is_integer:
            return self.reference(tensors, direction)
        port, *factors = FACTORS[direction]
        given = dict(tensors)
        if direction is Pass.FORWARD:
            given["w"] = self._numbers(tensors, direction)
        grains = {port: exactness.grain(*(given[factor] for factor in factors))}
        if "b" in tensors:
            grains[port] = min(grains[port], exactness.grain(tensors["b"]))
        if self.bias and direction is Pass.BACKWARD_WEIGHT:
            grains["db"] = exactness.grain(tensors["dy"])
        if not any(grains.values()):
            return {}
        multiplied = (given[factor] for factor in factors)
        if not fragment.keeps_factors(self.machine, *multiplied, dtype=self.dtype):
            return {}
        scales = self._alpha(self.dtype, direction) * self._columns(tensors)
        if np.ndim(scales) or scales != 1:  # the product with it is rounded
            return {} if self.bias else {port: self._scaled(given, scales)}
        if self._stored(self.dtype):
            x, w = np.abs(self._matrix("x", given["x"])), np.abs(given["w"])
            y, b = self.reference(tensors, direction)[port], tensors.get("b", np.zeros(1))
            added = (x @ w.T + np.abs(b)).reshape(y.shape)
            return {port: exactness.settled(y, added, grains[port])}
        values = self.reference(tensors, direction)
        sizes = self.reference({p: np.abs(t) for p, t in tensors.items()}, direction)
        return {p: exactness.settled(values[p], sizes[p], g) for p, g in grains.items() if g}

    def _scaled(self, tensors: Tensors, alpha: Array | float) -> Array:
        """Exact sums, multiplied once."""
        x, w = self._matrix("x", tensors["x"]), tensors["w"]
        sums = exactness.settled(x @ w.T, np.abs(x) @ np.abs(w.T), exactness.grain(x, w))
        return exactness.scaled(sums, alpha).reshape(self._results(tensors["x"].shape))

    def _matrix(self, port: str, tensor: Array) -> Array:
        """x as (N, I), y as (N, K), and so their gradients; weights as they are."""
        if port in ("x", "dx"):
            return tensor.reshape(self.rows(tensor.shape))
        return tensor.reshape(-1, self.num_output) if port in ("y", "dy") else tensor
