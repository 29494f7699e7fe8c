"""Local response normalisation: each value divided by a power of its neighbourhood's energy.

    forward   s = k + alpha / m * sum of x[j]^2 over the window of x[i]        m = elements in it
              y = x * s^-beta
    backward  dx[i] = dy[i] s[i]^-beta - 2 alpha beta / m * x[i] * sum over j of dy[j] y[j] / s[j]
              where j runs over the elements whose window holds i

    x, y, dx, dy  (N, C, H, W)      L = local_size

    lrn_mode "cross_channel_dim1"  window: channels c - floor((L-1)/2) .. c + floor(L/2),  m = L
    lrn_mode "within_channel"      window: L x L pixels around (h, w), likewise,           m = L^2

A window that reaches over the edge holds fewer elements; m stays.

Source: cudnnLRNCrossChannelForward and Backward; "within_channel" is miopenLRNWithinChannel of
MIOpen. After Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks",
2012, section 3.3, whose alpha is alpha / m here.
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
    CROSS_CHANNEL_DIM1 = "cross_channel_dim1"
    WITHIN_CHANNEL = "within_channel"  # DNNMark: AMD only


@dataclass(frozen=True)
class LRN(Layer):
    kind = "lrn"
    section = "LRN"
    sample: ClassVar[Mapping[str, str]] = {
        "n": "100",
        "c": "32",
        "h": "256",
        "w": "256",
        "lrn_mode": "cross_channel_dim1",
        "local_size": "5",
        "alpha": "0.001",
        "beta": "0.75",
        "k": "1.0",
    }

    # Lower bounds of beta and k: CUDNN_LRN_MIN_BETA and CUDNN_LRN_MIN_K. With alpha >= 0 they keep
    # s positive, so that its power is a number.
    mode: Mode = key("lrn_mode", default=Mode.CROSS_CHANNEL_DIM1)
    local_size: int = key("local_size", default=5, least=1)
    alpha: float = key("alpha", default=1e-4, least=0)
    beta: float = key("beta", default=0.75, least=0.01)
    k: float = key("k", default=2.0, least=1e-5)

    @property
    def window(self) -> int:
        """m: elements of a window that lies inside the image."""
        across = self.mode is Mode.CROSS_CHANNEL_DIM1
        return self.local_size if across else self.local_size**2

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        return x

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Per element, for windows of m elements, those over the edge too.

        Forward: a square (shared by the windows), m - 1 additions, a multiplication and an
        addition for s; the power as exp(-beta log(s)); a multiplication. Backward: s and its power
        again, the ratio dy y / s with a reciprocal, m - 1 additions, and four for dx.
        """
        (x,) = inputs
        energy = self.window + 2
        power = 1  # and two transcendentals
        if direction is Pass.FORWARD:
            return OpCount((energy + power + 1) * x.size, 2 * x.size, x.nbytes, x.nbytes)
        flops = energy + power + 2 + (self.window - 1) + 4
        return OpCount(flops * x.size, 3 * x.size, 3 * x.nbytes, x.nbytes)
