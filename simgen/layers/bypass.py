"""Bypass: the identity, as a copy.

    forward   y  = x
    backward  dx = dy

    x, y, dx, dy  (N, C, H, W)

Source: DNNMark's BypassLayer (core/include/layers/bypass_layer.h), one device-to-device copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ir import OpCount, Pass, TensorSpec
from simgen.layers.base import Layer

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Bypass(Layer):
    kind = "bypass"
    section = "Bypass"
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "1000", "h": "1", "w": "1"}

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        return x

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Each element is read and written once."""
        (x,) = inputs
        return OpCount(0, 0, x.nbytes, x.nbytes)
