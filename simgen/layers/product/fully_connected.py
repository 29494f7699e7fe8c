"""Fully connected layer: a matrix product with the images laid flat.

    forward   y[n,k]  = sum over i of  x[n,i] * w[k,i]   [+ b[k]]
    backward  dw[k,i] = sum over n of  x[n,i] * dy[n,k]
              db[k]   = sum over n of  dy[n,k]
              dx[n,i] = sum over k of  dy[n,k] * w[k,i]

    x, dx  (N, C, H, W) seen as (N, I), I = C H W      w, dw  (K, I), K = num_output
    y, dy  (N, K, 1, 1)                                b, db  (K,), with bias=true only

Of x and w of i8, y is i32, or i8 where scales are given; 8-bit floats have scales or not
(simgen/layers/requantisation.py). Beside floats, w may be of i8: y = w_scale sum of x (w -
w_zero_point) [+ b], where elements of w are made float32 as they are loaded. Of i4, w lies as (K,
I / 2), and groups of group_size elements of its rows have scales of their own, in w_scales
(simgen/layers/product/packed.py).

x may have any rank: `axis`, which is 1 unless the config says otherwise, and all axes behind it are
laid flat. With axis=-1, x (B, S, I) gives y (B, S, K), where N above is B S. An image with axis=1
keeps four axes.

Source: InnerProduct of Caffe, whose `axis` this is; DNNMark's FullyConnectedLayer
(core/include/layers/fc_layer.h), three GEMMs and no bias.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

from simgen.dtypes import DType
from simgen.ir import Distribution, Fill, Launch, OpCount, Pass, TensorSpec
from simgen.layers import axes
from simgen.layers.base import EXTENTS, Choice, Layer, Lowering, Port, Sums, key
from simgen.layers.epilogue import NOTHING, Epilogue
from simgen.layers.product import fragment, packed
from simgen.layers.product.elements import Elements
from simgen.layers.product.matrix_product import FACTORS, Product, sum_of
from simgen.layers.requantisation import (
    LOW,
    SCALES,
    Requantisation,
    chosen,
    factor,
    per_channel_key,
    scale_key,
    zero_key,
)
from simgen.numerics import exactness
from simgen.numerics.integers import wrapped
from simgen.numerics.rounding import SECOND_ORDER, TINY, U, float32
from simgen.numerics.spread import Spread, order, sum_spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from simgen.layers.base import Tensors
    from simgen.numerics.rounding import Array
else:
    from simgen import arrays as np

LAYOUT = {  # whether the left and the right side of a pass's product lie transposed
    Pass.FORWARD: (False, True),
    Pass.BACKWARD_DATA: (False, False),
    Pass.BACKWARD_WEIGHT: (True, False),
}


class WeightType(StrEnum):
    """Of the elements of w."""

    OF_X = "of_x"
    I8 = "i8"
    I4 = "i4"


@dataclass(frozen=True)
class FullyConnected(Layer):
    kind = "fc"
    section = "FullyConnected"
    passes: ClassVar[tuple[Pass, ...]] = (
        Pass.FORWARD,
        Pass.BACKWARD_DATA,
        Pass.BACKWARD_WEIGHT,
    )
    parameters: ClassVar[tuple[str, ...]] = ("w", "b", SCALES)
    data_parallel = True
    shape_given = ("dx",)
    any_float = True
    integers: ClassVar[tuple[DType, ...]] = (DType.I8,)
    rank: ClassVar[int | None] = None
    sample: ClassVar[Mapping[str, str]] = {
        "n": "100",
        "c": "9162",
        "h": "1",
        "w": "1",
        "num_output": "4096",
    }

    num_output: int = key(
        "num_output", default=4096, least=1, text="number of outputs of each image"
    )
    bias: bool = key("bias", default=False, text="add a bias to each output?")
    axis: int = key("axis", default=1, text="laid flat with all behind it; -1 is the last")
    group_size: int = key(
        "group_size",
        default=128,
        least=packed.WORD,
        of_integers=True,
        text="elements of a row of w that share a scale, where w_type is i4",
    )
    w_type: WeightType = key(
        "w_type",
        default=WeightType.OF_X,
        of_integers=True,
        text="element type of w, where x is f32, f16 or bf16",
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
        return Epilogue(requantisation=self.requantisation(self._dtype))

    def requantisation(self, dtype: DType) -> Requantisation:
        """What is done to sums, where x has a type."""
        if self._mixed(dtype):
            self._check_mixed()
            return Requantisation()
        return chosen(
            dtype,
            self._scales,
            {"x": self.x_zero_point, "w": self.w_zero_point, "y": self.y_zero_point},
            per_channel=self.w_scale_per_channel,
            floats=True,
        )

    @property
    def _scales(self) -> dict[str, float]:
        return {"x": self.x_scale, "w": self.w_scale, "y": self.y_scale}

    def _alpha(self, dtype: DType, direction: Pass) -> float:
        """What sums of floats are multiplied by."""
        if not dtype.is_float or direction is not Pass.FORWARD:
            return 1.0
        if self._mixed(dtype):
            return 1.0 if self._grouped else float32(self.w_scale)
        return factor(self._scales)

    def _mixed(self, dtype: DType) -> bool:
        """Whether w has integers, and x floats."""
        return dtype.is_float and self.w_type is not WeightType.OF_X

    @property
    def _grouped(self) -> bool:
        """Whether w has 4 bits, and scales of groups."""
        return self.w_type is WeightType.I4

    def _check_mixed(self) -> None:
        """Raises:
        ValueError: there is no scale of w, or something of x and y that floats have not.
        """
        if not self.w_scale:
            fact = f"w_type is {self.w_type} without w_scale"
            raise ValueError(f"{fact}; give it, such as w_scale=.01")
        others = ("x_scale", "x_zero_point", "w_scale_per_channel", "y_scale", "y_zero_point")
        for each in others:
            if getattr(self, each):
                fact = f"{each} is given beside w_type={self.w_type}, and x is no i8"
                raise ValueError(f"{fact}; leave it out, or take i8")

    @property
    def forward_only(self) -> str:
        if self._mixed(self._dtype):
            return f"with weights of {self.w_type}"
        return "with scales" if self.y_scale else ""

    def weights(self, x: TensorSpec) -> TensorSpec:
        """w: (K, I); of 4 bits (K, I / 2)."""
        dtype, row = DType.I8 if self._mixed(x.dtype) else x.dtype, self.rows(x.shape)[1]
        return TensorSpec(
            (self.num_output, row // packed.PER_BYTE if self._grouped else row), dtype
        )

    def _scales_of_groups(self, x: TensorSpec) -> tuple[Port, ...]:
        if not self._grouped:
            return ()
        shape = self.num_output, self.rows(x.shape)[1] // self.group_size
        fill = Fill(Distribution.UNIFORM, self.w_scale / 2, self.w_scale * 3 / 2)
        return (Port(SCALES, TensorSpec(shape, packed.scale_of(x.dtype)), fill),)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        if self._grouped:
            if not x.dtype.is_float:
                raise ValueError(f"w_type is i4, and x is {x.dtype}; take f32, f16 or bf16")
            packed.check(self.rows(x.shape)[1], self.group_size, self.w_zero_point)
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
            elements=self._elements(x.dtype, epilogue),
            machine=self.machine,
        )

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """2 N I K for each of y, dw and dx, N K for b and for db; every tensor counts once in the
        bytes."""
        (x,) = inputs
        y, w = self.output(inputs), self.weights(x)
        b = TensorSpec((self.num_output,), x.dtype.product)
        rows, row = self.rows(x.shape)
        flops, extra = 2 * rows * self.num_output * row, (y.size if self.bias else 0)
        b_nbytes = b.nbytes if self.bias else 0
        if direction is Pass.FORWARD:
            factors = self.epilogue.requantisation.tensors(self.num_output, 1.0)
            factors = (*factors, *self._scales_of_groups(x))
            read = x.nbytes + w.nbytes + b_nbytes + sum(port.spec.nbytes for port in factors)
            return OpCount(flops + extra, 0, read, y.nbytes)
        if direction is Pass.BACKWARD_DATA:
            return OpCount(flops, 0, y.nbytes + w.nbytes, x.nbytes)
        return OpCount(flops + extra, 0, x.nbytes + y.nbytes, w.nbytes + b_nbytes)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        y, w = self.output(inputs), self.weights(x)
        # He et al., "Delving Deep into Rectifiers", 2015: activations keep their size.
        normal, weights = Fill.usual(x.dtype), Fill.usual(w.dtype, sqrt(2 / w.shape[1]))
        b = TensorSpec((self.num_output,), x.dtype.product)
        workspace = self.product(x, direction).workspace
        partial = (Port("partial", workspace, scratch=True),) if workspace else ()
        if direction is Pass.FORWARD:
            bias = (Port("b", b, Fill.usual(b.dtype, 0.1)),) if self.bias else ()
            scales = self.epilogue.requantisation.tensors(self.num_output, self.w_scale)
            scales = (*scales, *self._scales_of_groups(x))
            read = (Port("x", x, normal), Port("w", w, weights), *bias, *scales)
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
            added, scales = "b" if self.bias else None, (SCALES,) if self._grouped else ()
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
            y = (rows["x"] - self.x_zero_point) @ self._numbers(tensors).T
            y = self._alpha(self._dtype, direction) * y
            made = y + tensors["b"] if self.bias else y
            if self._whole:
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
        bound = product.bound(left, right, self._matrix(port, found[port]))
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
        sigma = product.spread(left, right, y, hard).reshape(tolerance[port].shape)
        made = {port: Spread(sigma)}
        if "db" in tolerance:
            dy = self._matrix("dy", tensors["dy"]).T
            made["db"] = Spread(sum_spread(dy, order(dy.shape[1]), tolerance["db"]))
        return made

    @property
    def _dtype(self) -> DType:
        return self.types[0] if self.types else DType.F32

    def _elements(self, dtype: DType, epilogue: Epilogue) -> Elements:
        zeros = self.x_zero_point, self.w_zero_point
        made = replace(Elements.all(dtype), result=epilogue.result(dtype), zero_points=zeros)
        if not self._mixed(dtype):
            return made
        if not self._grouped:
            return replace(made, right=DType.I8)
        scale = packed.scale_of(dtype)
        return replace(made, right=DType.I8, group=self.group_size, scale=scale)

    def _numbers(self, tensors: Tensors) -> Array:
        """What the elements of w stand for, but for one scale of all."""
        w = tensors["w"]
        if self._grouped:
            return packed.unpacked(w, tensors[SCALES], self.group_size, self.w_zero_point)
        made: Array = w - self.w_zero_point
        return made

    @property
    def _whole(self) -> bool:
        return not self._dtype.is_float

    def _sides(self, tensors: Tensors, direction: Pass) -> tuple[Product, Array, Array]:
        """The product of a pass, and its factors as it reads them."""
        _, a, b = FACTORS[direction]
        left, right = self._matrix(a, tensors[a]), self._matrix(b, tensors[b])
        left = left.T if direction is Pass.BACKWARD_WEIGHT else left
        right = self._numbers(tensors).T if direction is Pass.FORWARD else right
        (m, k), n = left.shape, right.shape[1]
        elements = self._elements(self._dtype, NOTHING)
        alpha = self._alpha(self._dtype, direction)
        sides = (m, n, k, *LAYOUT[direction], alpha)
        product = Product(*sides, elements=elements, machine=self.machine)
        return product, left, right

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        (x,) = inputs
        added = int(self.bias and direction is Pass.FORWARD)
        growth = 1
        if self._mixed(x.dtype):  # integers are factors that are not drawn anew
            growth = 2 * (-packed.LOW if self._grouped else -LOW)
        return Sums(self.product(x, direction).k + added, growth)

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        if self._whole:
            return self.reference(tensors, direction)
        port, *factors = FACTORS[direction]
        given = {**tensors, "w": self._numbers(tensors)} if "w" in tensors else tensors
        grains = {port: exactness.grain(*(given[factor] for factor in factors))}
        if "b" in tensors:
            grains[port] = min(grains[port], exactness.grain(tensors["b"]))
        if self.bias and direction is Pass.BACKWARD_WEIGHT:
            grains["db"] = exactness.grain(tensors["dy"])
        if not any(grains.values()):
            return {}
        if not fragment.whole(self.machine, *(given[factor] for factor in factors)):
            return {}
        alpha = self._alpha(self._dtype, direction)
        if alpha != 1:  # the product with it is rounded
            return {} if self.bias else {port: self._scaled(given, alpha)}
        if self._mixed(self._dtype):
            x, w = np.abs(self._matrix("x", given["x"])), np.abs(given["w"])
            y, b = self.reference(tensors, direction)[port], tensors.get("b", np.zeros(1))
            added = (x @ w.T + np.abs(b)).reshape(y.shape)
            return {port: exactness.settled(y, added, grains[port])}
        values = self.reference(tensors, direction)
        sizes = self.reference({p: np.abs(t) for p, t in tensors.items()}, direction)
        return {p: exactness.settled(values[p], sizes[p], g) for p, g in grains.items() if g}

    def _scaled(self, tensors: Tensors, alpha: float) -> Array:
        """Exact sums, multiplied once."""
        x, w = self._matrix("x", tensors["x"]), tensors["w"]
        sums = exactness.settled(x @ w.T, np.abs(x) @ np.abs(w.T), exactness.grain(x, w))
        return exactness.scaled(sums, alpha).reshape(self._results(tensors["x"].shape))

    def _matrix(self, port: str, tensor: Array) -> Array:
        """x as (N, I), y as (N, K), and so their gradients; weights as they are."""
        if port in ("x", "dx"):
            return tensor.reshape(self.rows(tensor.shape))
        return tensor.reshape(-1, self.num_output) if port in ("y", "dy") else tensor
