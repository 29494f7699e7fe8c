"""Convolution and fully connected layer with what follows them, in one kernel.

    s = x convolved or multiplied with w [+ b]       as in convolution.py, fully_connected.py
    t = bn_w (s - running_mean) / sqrt(running_var + epsilon) + bn_b     with batch_norm=true
    y = activation(t)                                                    unless activation=false

Batch normalisation uses given statistics, as in inference, one per channel. There is only a forward
pass: a backward pass would read s and t, which are never stored. `simgen build --fuse` replaces the
separate layers by these.

Source: the fusions that MIOpen calls CBNA and CBA; cudnnConvolutionBiasActivationForward.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import DType, OpCount, Pass, TensorSpec
from simgen.ground.numerics import ranged
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, float32
from simgen.ground.numerics.spread import Spread
from simgen.layers.activation import Activation, ActivationMode
from simgen.layers.base import Layer, Port, Sums, key
from simgen.layers.contract import Contract
from simgen.layers.conv.convolution import Convolution
from simgen.layers.epilogue import PORTS, Epilogue
from simgen.layers.layout import LAST
from simgen.layers.norm.batch_norm import BatchNorm, BatchNormMode, Statistics
from simgen.layers.product.fully_connected import FullyConnected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

NORMALISED = dict(zip(("w", "b", "running_mean", "running_var"), PORTS))  # port of bn -> port here


class FusedMode(StrEnum):
    """Modes of [Activation] that kernels of sums have; all are monotone."""

    RELU = ActivationMode.RELU
    SIGMOID = ActivationMode.SIGMOID
    TANH = ActivationMode.TANH
    CLIPPED_RELU = ActivationMode.CLIPPED_RELU
    SOFT_RELU = ActivationMode.SOFT_RELU
    ELU = ActivationMode.ELU


# The largest derivative of an activation; of elu it is 1 or alpha.
STEEPEST = {
    FusedMode.RELU: 1.0,
    FusedMode.CLIPPED_RELU: 1.0,
    FusedMode.SIGMOID: 0.25,
    FusedMode.TANH: 1.0,
    FusedMode.SOFT_RELU: 1.0,
}
# What is made of statistics is made once; normalisations round.
PROMISES: dict[str, Any] = {
    "prepares": True,
    "exact_settings": ("batch_norm=false", "activation_mode=relu"),
}
SAMPLE = {"bias": "true", "activation_mode": "relu"}


@dataclass(frozen=True)
class Fused(Layer):
    """What follows the sums; the layer of the sums is the other base of a class."""

    passes: ClassVar[tuple[Pass, ...]] = (Pass.FORWARD,)
    parameters: ClassVar[tuple[str, ...]] = ("w", "b", *PORTS)
    integers: ClassVar[tuple[DType, ...]] = ()
    first: ClassVar[type[Layer]]

    batch_norm: bool = key("batch_norm", False, "batch normalisation follows")
    epsilon: float = key("epsilon", 1e-5, "constant added to its variance", 1e-12, 1e6)
    activation: bool = key("activation", True, "an activation follows")
    activation_mode: FusedMode = key(
        "activation_mode", FusedMode.RELU, "function of the activation"
    )
    ceiling: float = key("activation_ceiling", 6.0, "upper limit of clipped_relu", 1e-3, 1e6)
    alpha: float = key("activation_alpha", 1.0, "factor of exp(x) - 1 in elu", 0.0, 1e6)

    @property
    def _sums(self) -> Layer:
        """The first of the fused layers, by itself."""
        return self.first(**{f.name: getattr(self, f.name) for f in fields(self.first)})

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        return self._sums.output(inputs)  # it checks its keys for backward passes too

    @property
    def epilogue(self) -> Epilogue:
        mode = self.activation_mode if self.activation else None
        return Epilogue(
            epsilon=self.epsilon if self.batch_norm else None,
            activation=str(mode) if mode else "",
            ceiling=self.ceiling if mode is FusedMode.CLIPPED_RELU else 0.0,
            alpha=self.alpha if mode is FusedMode.ELU else 0.0,
        )

    @property
    def _normalise(self) -> BatchNorm:
        return BatchNorm(
            machine=self.machine,
            mode=BatchNormMode.SPATIAL,
            epsilon=self.epsilon,
            statistics=Statistics.RUNNING,
        )

    @property
    def _activate(self) -> Activation:
        mode = ActivationMode(self.activation_mode)
        return Activation(mode=mode, ceiling=self.ceiling, alpha=self.alpha)

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """The operations of all; of the bytes, those of no tensor between them."""
        y = self.output(inputs)
        made = self._sums.count(inputs, direction)
        if self.batch_norm:
            own = self._normalise.count((y,), direction)
            made += OpCount(own.flops, own.transcendentals, own.read_bytes - y.nbytes)
        if self.activation:
            own = self._activate.count((y,), direction)
            made += OpCount(own.flops, own.transcendentals)
        return made

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        found = self._sums.ports(inputs, direction)
        if not self.batch_norm:
            return found
        of_bn = self._normalise.ports((self.output(inputs),), direction)
        return (
            *(port for port in found if port.fill),
            *(
                Port(NORMALISED[port.name], port.spec, port.fill)
                for port in of_bn
                if port.name in NORMALISED
            ),
            *(port for port in found if not port.fill),
        )

    def magnifies(self, tensors: Tensors) -> float:
        if not self.batch_norm:
            return 1.0
        gains = np.abs(tensors["bn_w"]) / np.sqrt(tensors["running_var"] + self.epsilon)
        return max(1.0, float(gains.max()))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        y = self._sums.reference(tensors, direction)["y"]
        if self.batch_norm:
            y = self._normalise.reference(_around(tensors, y), direction)["y"]
        return self._activate.reference({"x": y}, direction) if self.activation else {"y": y}

    def as_computed(self, tensors: Tensors, direction: Pass) -> Tensors:
        """Sums that may overflow are anything."""
        y = self._sums.as_computed(tensors, direction)["y"]
        plain = {port: np.asarray(values) for port, values in tensors.items()}
        sizes = ranged.sizes(self._sums.tolerance(plain, direction))["y"]
        y = ranged.without(y, sizes, tensors)
        lost = np.isnan(y)
        if self.batch_norm:
            y = self._normalise.as_computed(_around(tensors, y), direction)["y"]
            lost |= np.isnan(y)
        y = self._activate.as_computed({"x": y}, direction)["y"] if self.activation else y
        return {"y": np.where(lost, np.nan, y)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """Each operation's own bound, and what it makes of the error of its input.

        With an input that is off by at most e, a normalisation is off by |bn_w| r e more. An
        activation is monotone: it is off by no more than at one of the ends x - e, x + e.
        """
        y = self._sums.reference(tensors, direction)["y"]
        error = self._sums.tolerance(tensors, direction)["y"]
        if self.batch_norm:
            around = _around(tensors, y)
            own = self._normalise.tolerance(around, direction)["y"]
            y = self._normalise.reference(around, direction)["y"]
            r = 1 / np.sqrt(tensors["running_var"] + float32(self.epsilon))
            error = own + np.abs(tensors["bn_w"]) * r * error * SECOND_ORDER + TINY
        return {"y": self._activated(y, error) if self.activation else error}

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        """As `tolerance`, but for the slope of the activation, which is the steepest everywhere:
        what is larger than a standard deviation is no steeper."""
        hard = self._sums.tolerance(tensors, direction)
        given = self._sums.spread(tensors, direction, hard)["y"]
        y, sigma, error = self._sums.reference(tensors, direction)["y"], given.sigma, hard["y"]
        if self.batch_norm:
            around = _around(tensors, y)
            own = self._normalise.tolerance(around, direction)["y"] + TINY
            y = self._normalise.reference(around, direction)["y"]
            r = 1 / np.sqrt(tensors["running_var"] + float32(self.epsilon))
            scale = np.abs(tensors["bn_w"]) * r * SECOND_ORDER
            sigma, error = own + scale * sigma, own + scale * error
        if self.activation:
            steepest = STEEPEST.get(self.activation_mode, max(1.0, self.alpha))
            sigma = steepest * sigma + self._own(y, error) + TINY
        return {"y": Spread(np.minimum(sigma, tolerance["y"]), given.shared)}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        own = self._sums.sums(inputs, direction)
        after = self._activate.sums(inputs, direction) if self.activation else Sums()
        if own is None or after is None or self.batch_norm:
            return None
        return replace(own, whole=own.whole and after.whole)

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        if self.batch_norm or (self.activation and not self._activate.chooses):
            return {}
        found = self._sums.exact(tensors, direction)
        if not self.activation or not found:
            return found
        activated = self._activate.reference({"x": found["y"]}, direction)["y"]
        return {"y": np.where(np.isnan(found["y"]), np.nan, activated)}  # NaN: it is not known

    def _own(self, x: Array, error: Array) -> Array:
        """The activation's own bound at x, or at an end: it may be another formula there."""
        ends = (x, x - error, x + error)
        own = [self._activate.tolerance({"x": at}, Pass.FORWARD)["y"] for at in ends]
        most: Array = np.maximum.reduce(own)
        return most

    def _activated(self, x: Array, error: Array) -> Array:
        """The error of the activation of what is off by `error` from x."""
        ends = [{"x": at} for at in (x, x - error, x + error)]
        at, low, high = (self._activate.reference(end, Pass.FORWARD)["y"] for end in ends)
        moved = np.maximum(high - at, at - low)
        total: Array = self._own(x, error) + moved * SECOND_ORDER + TINY
        return total


def _around(tensors: Tensors, x: Array) -> dict[str, Array]:
    """What the normalisation reads."""
    return {"x": x} | {own: tensors[port] for own, port in NORMALISED.items()}


@dataclass(frozen=True)
class FusedConvolution(Fused, Convolution):
    kind = "fused_conv"
    section = "FusedConvolution"
    contract: ClassVar[Contract] = replace(Convolution.contract, kernels="conv", **PROMISES)
    first = Convolution

    sample: ClassVar[Mapping[str, str]] = {**Convolution.sample, **SAMPLE}

    @property
    def epilogue(self) -> Epilogue:
        return replace(super().epilogue, factor=self.factor_of_floats)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        if self.layout in LAST or self.filter_layout in LAST:
            raise ValueError(
                "what follows a convolution has nchw and kcrs only; leave layout and filter_layout "
                "out"
            )
        return super().output(inputs)


@dataclass(frozen=True)
class FusedFullyConnected(Fused, FullyConnected):
    kind = "fused_fc"
    section = "FusedFullyConnected"
    contract: ClassVar[Contract] = Contract(kernels="fc", **PROMISES)
    rank: ClassVar[int | None] = 4
    first = FullyConnected
    sample: ClassVar[Mapping[str, str]] = {**FullyConnected.sample, **SAMPLE}

    @property
    def epilogue(self) -> Epilogue:
        return replace(super().epilogue, requantisation=self.requantisation(self.dtype))

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        y = super().output(inputs)
        if len(y.shape) != self.rank:
            raise ValueError(f"axis is {self.axis}; what follows takes images, leave it out")
        return y
