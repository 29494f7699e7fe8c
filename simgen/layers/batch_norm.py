"""Batch normalisation, as in training: zero mean and unit variance over the batch, then an affine
map.

    forward   mean = sum(x) / M      var = sum((x - mean)^2) / M      r = 1 / sqrt(var + epsilon)
              y = scale * (x - mean) * r + bias
              running_mean <- (1 - f) running_mean + f mean                     f = exp_avg_factor
              running_var  <- (1 - f) running_var  + f var M / (M - 1)
    backward  dbias = sum(dy)        dscale = sum(dy * (x - mean) * r)
              dx = scale * r * (dy - dbias / M - (x - mean) * r * dscale / M)

    x, y, dx, dy  (N, C, H, W)

    batchnorm_mode "per_activation"  sums over N:        M = N,      scale, mean, ... (1, C, H, W)
    batchnorm_mode "spatial"         sums over N, H, W:  M = N H W,  scale, mean, ... (1, C, 1, 1)

With save_intermediates, forward leaves mean and r for backward, which otherwise computes them
again.

Source: cudnnBatchNormalizationForwardTraining and cudnnBatchNormalizationBackward; Ioffe and
Szegedy, "Batch Normalization", 2015, algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from simgen.ir import OpCount, Pass, TensorSpec
from simgen.layers.base import Layer, key

if TYPE_CHECKING:
    from collections.abc import Mapping


class Mode(StrEnum):
    PER_ACTIVATION = "per_activation"
    SPATIAL = "spatial"


@dataclass(frozen=True)
class BatchNorm(Layer):
    kind = "bn"
    section = "BatchNorm"
    sample: ClassVar[Mapping[str, str]] = {
        "n": "100",
        "c": "1000",
        "h": "1",
        "w": "1",
        "batchnorm_mode": "per_activation",
        "save_intermediates": "true",
        "exp_avg_factor": "0.5",
        "epsilon": "1e-5",
    }

    mode: Mode = key("batchnorm_mode", default=Mode.PER_ACTIVATION)
    save_intermediates: bool = key("save_intermediates", default=True)
    exp_avg_factor: float = key("exp_avg_factor", default=1.0, least=0, most=1)
    epsilon: float = key("epsilon", default=1e-5, least=1e-5)  # BN_MIN_EPSILON of DNNMark

    def parameter(self, x: TensorSpec) -> TensorSpec:
        """Of scale, bias, and of each statistic."""
        _, c, h, w = x.shape
        shape = (1, c, 1, 1) if self.mode is Mode.SPATIAL else (1, c, h, w)
        return TensorSpec(shape, x.dtype)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        return x

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Operations per element of x, and per statistic; every tensor counts once in the bytes.

        Forward: 6 per element (1 for the mean, 3 for the variance, 2 for y) and 11 per statistic
        (mean, variance, epsilon, scale r, and 7 to update the running ones), with one square root.
        Backward: 9 per element (2 for the normalised x, 3 for the two sums, 4 for dx) and 3 per
        statistic; without saved ones, 3 and 3 more, and the square root.
        """
        (x,) = inputs
        one = self.parameter(x)
        if direction is Pass.FORWARD:
            saved = 2 if self.save_intermediates else 0
            # With a factor of one, the old running statistics do not matter.
            history = 2 if self.exp_avg_factor < 1 else 0
            flops = 6 * x.size + 11 * one.size
            read = x.nbytes + (2 + history) * one.nbytes
            return OpCount(flops, one.size, read, x.nbytes + (2 + saved) * one.nbytes)
        again = 0 if self.save_intermediates else 1
        flops = (9 + 3 * again) * x.size + (3 + 3 * again) * one.size
        read = 2 * x.nbytes + (1 if again else 3) * one.nbytes
        return OpCount(flops, again * one.size, read, x.nbytes + 2 * one.nbytes)
