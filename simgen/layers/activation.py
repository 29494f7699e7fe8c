"""Element-wise non-linearities.

    mode          forward y =              backward dx =            source
    relu          max(x, 0)                dy where y > 0, else 0
    clipped_relu  min(max(x, 0), c)        dy where 0 < y < c       cuDNN, CLIPPED_RELU
    elu           x, or a (exp(x) - 1)     dy, or dy (y + a)        Clevert et al. 2015, eq. 14, 15
                  where x <= 0             where y <= 0
    sigmoid       1 / (1 + exp(-x))        dy y (1 - y)
    tanh          tanh(x)                  dy (1 - y) (1 + y)
    soft_relu     log(1 + exp(x))          dy (1 - exp(-y))         MIOpen, SOFTRELU
    gelu          x Phi(x)                 dy (Phi(x) + x Phi'(x))  Hendrycks and Gimpel 2016
    gelu_tanh     x Phi(x), Phi by tanh    the same                 the same
    silu          x / (1 + exp(-x))        the same                 Elfwing et al. 2017; swish

c is `activation_ceiling`, a is `activation_alpha`, Phi is in simgen/layers/gelu.py. Tensors have
any shape. Except for gelu and silu, a derivative is a function of y alone, so a backward pass reads
two tensors and a network need not keep x. For these, two x have the same y, so their backward pass
reads x and dy.

Float32 computes a derivative from y with a small relative error, since 1 - y, 1 + y and y + a are
exact where they would cancel. Where sigmoid or tanh is rounded to its limit, the gradient is 0, as
in every library that keeps y.

For i8, y has the scale of x and its `zero_point`, which replaces 0 in relu. Other modes take floats
only.

y has a small relative error in the tails too, so every bound is relative, except for the slopes of
gelu and silu, whose sign changes. A kernel that computes log(1 + exp(x)) or 1 - exp(-y) as written
here exceeds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, Distribution, DType, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import rounding
from simgen.ground.numerics.rounding import RCP, SECOND_ORDER, TINY, U, float32, identifier
from simgen.layers import elementwise, gelu
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.requantisation import check_zero_point, zero_key
from simgen.layers.written import writes_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

BLOCK = 256  # work-items
VECTOR = 4  # elements of a work-item: one 16-byte load and store


class ActivationMode(StrEnum):
    RELU = "relu"
    SIGMOID = "sigmoid"
    TANH = "tanh"
    CLIPPED_RELU = "clipped_relu"
    SOFT_RELU = "soft_relu"
    ELU = "elu"
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    SILU = "silu"


# (flops, transcendentals) per element: forward, backward
COUNTS = {
    ActivationMode.RELU: ((1, 0), (1, 0)),
    ActivationMode.CLIPPED_RELU: ((2, 0), (2, 0)),
    ActivationMode.ELU: ((3, 1), (3, 0)),
    ActivationMode.SIGMOID: ((2, 2), (3, 0)),
    ActivationMode.TANH: ((3, 2), (3, 0)),
    ActivationMode.SOFT_RELU: ((2, 2), (3, 1)),
    ActivationMode.GELU: ((4, 1), (6, 1)),  # with erf, and exp of the density, as one
    ActivationMode.GELU_TANH: ((8, 1), (14, 1)),
    ActivationMode.SILU: ((3, 2), (6, 2)),
}
# Their slope is a function of x.
UNITS = (ActivationMode.GELU, ActivationMode.GELU_TANH, ActivationMode.SILU)


@dataclass(frozen=True)
class Activation(Layer):
    kind = "activation"
    section = "Activation"
    per_sample = True
    any_float = True
    integers: ClassVar[tuple[DType, ...]] = (DType.I8,)
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "32", "h": "256", "w": "256"}

    mode: ActivationMode = key("activation_mode", ActivationMode.RELU, "the function")
    ceiling: float = key("activation_ceiling", 6.0, "upper limit of clipped_relu", 1e-3, 1e6)
    alpha: float = key("activation_alpha", 1.0, "factor of exp(x) - 1 in elu", 0.0, 1e6)
    zero_point: int = zero_key("")

    @property
    def chooses(self) -> bool:
        """Whether every result is one of the operands, or a constant."""
        return self.mode in (ActivationMode.RELU, ActivationMode.CLIPPED_RELU)

    @property
    def of_x(self) -> bool:
        """Whether a backward pass reads x, and not y; kernels of sums have no such function."""
        return self.mode in UNITS

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        if not x.dtype.is_float and self.mode is not ActivationMode.RELU:
            fact = f"activation_mode is {self.mode}, and the input is {x.dtype}"
            raise ValueError(f"{fact}; take relu, or insert [Cast] with type=f32 before it")
        check_zero_point(x.dtype, self.zero_point)
        return x

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Per element of the output, by mode: see COUNTS."""
        flops, transcendentals = COUNTS[self.mode][direction is Pass.BACKWARD]
        return flops * inputs[0].size, transcendentals * inputs[0].size

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        if direction is Pass.FORWARD:
            # Wide enough for saturation on both sides, dense enough around zero.
            return (Port("x", x, Fill.usual(x.dtype, 8.0)), Port("y", x))
        normal = Distribution.NORMAL
        dy = Fill(normal, 0.0, 1.0)
        if self.of_x:
            return (Port("x", x, Fill(normal, 0.0, 3.0)), Port("dy", x, dy), Port("dx", x))
        y = {  # what the forward pass can give, its limits included
            ActivationMode.RELU: Fill(normal, 0.0, 8.0, low=0.0),  # beyond the usual ceilings too
            ActivationMode.CLIPPED_RELU: Fill(
                normal, self.ceiling / 2, self.ceiling, 0.0, self.ceiling
            ),
            ActivationMode.ELU: Fill(normal, 0.0, 1.0, low=-self.alpha),
            ActivationMode.SIGMOID: Fill(normal, 0.5, 0.5, 0.0, 1.0),
            ActivationMode.TANH: Fill(normal, 0.0, 1.0, -1.0, 1.0),
            ActivationMode.SOFT_RELU: Fill(normal, 2.0, 2.0, low=0.0),
        }[self.mode]
        return (Port("y", x, y), Port("dy", x, dy), Port("dx", x))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        numbers: Constants = (
            ("ceiling", float32(self.ceiling) if self.mode is ActivationMode.CLIPPED_RELU else 0.0),
            ("alpha", float32(self.alpha) if self.mode is ActivationMode.ELU else 0.0),
        )
        runs = elementwise.runs(x.size, x.dtype, self.machine) if direction is Pass.FORWARD else 1
        constants: Constants = (
            ("function", str(self.mode)),
            *(() if self.of_x else numbers),
            ("size", x.size),
            ("vector", VECTOR),
            ("runs", runs),
            *elementwise.element(x.dtype, self.zero_point),
        )
        suffix = elementwise.suffix(x.dtype, self.zero_point)
        name = f"activation_{direction}_{self.mode}_{x.size}{suffix}"
        if self.mode is ActivationMode.CLIPPED_RELU:
            name += f"_c{identifier(self.ceiling)}"
        if self.mode is ActivationMode.ELU:
            name += f"_a{identifier(self.alpha)}"
        if direction is Pass.FORWARD:
            template = "gelu_forward.hip" if self.of_x else "activation_forward.hip"
            args: tuple[str, ...] = ("x", "y")
        else:
            template = "gelu_backward.hip" if self.of_x else "activation_backward.hip"
            args = ("x" if self.of_x else "y", "dy", "dx")
        kernel = Kernel(name, template, BLOCK, constants)
        return Lowering((kernel,), (Launch(kernel.name, elementwise.grid(x.size, runs), args),))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.FORWARD:
            return {"y": self._forward(tensors["x"])}
        dy, slope = tensors["dy"], self._slope(tensors["x" if self.of_x else "y"])
        if self.chooses:  # no product: 0 inf would be NaN
            return {"dx": np.where(slope > 0, dy, 0.0)}
        return {"dx": dy * slope}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.FORWARD:
            x = tensors["x"]
            return {"y": self._forward_bound(x, self._forward(x)) * SECOND_ORDER}
        kept, dy = tensors["x" if self.of_x else "y"], tensors["dy"]
        slope = self._slope(kept)
        if self.chooses:
            return {"dx": np.zeros_like(dy)}  # dy or zero: nothing is rounded
        # The slope's own error, and U of its product with dy. A slope or a product may be flushed.
        bound = np.abs(dy) * (self._slope_bound(kept) + U * np.abs(slope) + TINY) + TINY
        if self.mode is ActivationMode.SOFT_RELU:  # no y is negative; the kernel has no case for it
            bound = np.where(kept < 0, np.inf, bound)
        return {"dx": bound * SECOND_ORDER}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        whole = self.mode is not ActivationMode.CLIPPED_RELU or self.ceiling.is_integer()
        return Sums(whole=whole) if self.chooses else None

    def _forward(self, x: Array) -> Array:
        match self.mode:
            case ActivationMode.RELU:
                return rounding.between(float(self.zero_point), x, np.inf)
            case ActivationMode.CLIPPED_RELU:
                return rounding.between(0.0, x, float32(self.ceiling))
            case ActivationMode.ELU:
                return np.where(x > 0, x, float32(self.alpha) * np.expm1(np.minimum(x, 0.0)))
            case ActivationMode.SIGMOID:
                # exp of a negative number only, so that float64 does not overflow either.
                e = np.exp(-np.abs(x))
                return np.where(x >= 0, 1 / (1 + e), e / (1 + e))
            case ActivationMode.TANH:
                return np.tanh(x)
            case ActivationMode.SOFT_RELU:
                return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
            case ActivationMode.GELU | ActivationMode.GELU_TANH | ActivationMode.SILU:
                return gelu.forward(x, self.mode)

    def _slope(self, y: Array) -> Array:
        """dy/dx as a function of y; of gelu, what is given is x."""
        match self.mode:
            case ActivationMode.RELU:
                return (y > 0).astype(np.float64)
            case ActivationMode.CLIPPED_RELU:
                return ((y > 0) & (y < float32(self.ceiling))).astype(np.float64)
            case ActivationMode.ELU:
                return np.where(y > 0, 1.0, y + float32(self.alpha))
            case ActivationMode.SIGMOID:
                return y * (1 - y)
            case ActivationMode.TANH:
                return (1 - y) * (1 + y)
            case ActivationMode.SOFT_RELU:
                return -np.expm1(-y)
            case ActivationMode.GELU | ActivationMode.GELU_TANH | ActivationMode.SILU:
                return gelu.slope(y, self.mode)

    def _slope_bound(self, y: Array) -> Array:
        """Error bounds for modes whose slope is computed: each step is off by U, and the errors add
        up.
        """
        match self.mode:
            case ActivationMode.ELU:
                return np.where(y > 0, 0.0, U * np.abs(self._slope(y)))  # y + a
            case ActivationMode.SIGMOID:
                return 2 * U * np.abs(self._slope(y))  # 1 - y, y (1 - y)
            case ActivationMode.TANH:
                return 3 * U * np.abs(self._slope(y))  # 1 - y, 1 + y, their product
            case ActivationMode.GELU | ActivationMode.GELU_TANH | ActivationMode.SILU:
                return gelu.slope_bound(y, self.mode)
            case _:
                return _expm1_bound(-y)

    def _forward_bound(self, x: Array, y: Array) -> Array:
        match self.mode:
            case ActivationMode.RELU | ActivationMode.CLIPPED_RELU:
                return np.zeros_like(x)  # one of the operands: nothing is rounded
            case ActivationMode.ELU:
                own = float32(self.alpha) * (_expm1_bound(np.minimum(x, 0.0)) + TINY)
                return np.where(x > 0, 0.0, own + U * np.abs(y) + TINY)
            case ActivationMode.SIGMOID:
                # 1 / (1 + e): e's relative error counts by its share of the sum, 1 - y.
                return y * ((1 - y) * rounding.exp(x) + U + RCP) + TINY
            case ActivationMode.TANH:
                # 1 - 2 r, r = 1 / (1 + exp(2x)), from |x| = 1/4 on; before, an odd polynomial of
                # five terms whose truncation is 0.0089 x^10 relative: less than U.
                share = 1 / (1 + np.exp(-2 * x))
                far = (1 - y) * (share * rounding.exp(2 * x) + U + RCP) + U
                near = 8 * U * np.abs(y) + TINY
                return np.where(x * x < 0.06, near, far)
            case ActivationMode.SOFT_RELU:
                # max(x, 0) + log(1 + e), e = exp(-|x|) <= 1, whose error counts e / (1 + e).
                # The logarithm is s p(s^2), s = e / (2 + e): U of 2 + e, RCP = 2 U, U of the
                # product. Twice that and U more of s^2 count z p'(z) / p(z) <= 1/24. Each step of p
                # rounds by U, of which 1/24 counts but in the last one; p is off by U / 6. U of the
                # last product: together less than 7 U. At last U of the sum. The exponential, and
                # s where e is less than 2 TINY, may be flushed.
                e = np.exp(-np.abs(x))
                log: Array = np.log1p(e)
                bound: Array = e / (1 + e) * rounding.exp(x) + 7 * U * log + U * y + 2 * TINY
                return bound
            case ActivationMode.GELU | ActivationMode.GELU_TANH | ActivationMode.SILU:
                return gelu.forward_bound(x, y, self.mode)


def _expm1_bound(t: Array) -> Array:
    """Absolute error of exp(t) - 1, t <= 0.

    As it stands below -1/4. From there on t q(t), q the Taylor polynomial of degree 5, which is off
    by t^6 / 5040 < U. Its last two steps round by U and, with the product of multiply-adds that are
    not fused, by 2 U |t| at most; those before count t^2. U of the product with t: together less
    than 4 U of t, which is 9/8 of the result at most.
    """
    e: Array = np.exp(t)
    bound: Array = np.where(
        t < -0.25, e * rounding.exp(t) + U * (1 - e), 4.5 * U * np.abs(np.expm1(t))
    )
    return bound


writes_all("activation_forward", "activation_backward", "gelu_forward", "gelu_backward")
