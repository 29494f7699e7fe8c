"""Fully connected layer: a matrix product with the images laid flat, without a bias.

    forward   y[n,k]  = sum over i of  x[n,i] * w[k,i]
    backward  dw[k,i] = sum over n of  x[n,i] * dy[n,k]
              dx[n,i] = sum over k of  dy[n,k] * w[k,i]

    x, dx  (N, C, H, W) seen as (N, I), I = C H W      w, dw  (K, I), K = num_output
    y, dy  (N, K, 1, 1)

Source: DNNMark's FullyConnectedLayer (core/include/layers/fc_layer.h), three GEMMs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar

from simgen.ir import OpCount, Pass, TensorSpec
from simgen.layers.base import Layer, key

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class FullyConnected(Layer):
    kind = "fc"
    section = "FullyConnected"
    sample: ClassVar[Mapping[str, str]] = {
        "n": "100",
        "c": "9162",
        "h": "1",
        "w": "1",
        "num_output": "4096",
    }

    num_output: int = key("num_output", default=4096, least=1)

    def weights(self, x: TensorSpec) -> TensorSpec:
        """w: (K, I)."""
        return TensorSpec((self.num_output, prod(x.shape[1:])), x.dtype)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        return TensorSpec((x.shape[0], self.num_output, 1, 1), x.dtype)

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """2 N I K for each of y, dw and dx; every tensor counts once in the bytes."""
        (x,) = inputs
        y, w = self.output(inputs), self.weights(x)
        flops = 2 * x.shape[0] * w.size
        if direction is Pass.FORWARD:
            return OpCount(flops, 0, x.nbytes + w.nbytes, y.nbytes)
        return OpCount(2 * flops, 0, x.nbytes + y.nbytes + w.nbytes, w.nbytes + x.nbytes)
