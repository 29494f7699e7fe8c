"""Bypass: the identity, as a copy.

    forward   y  = x
    backward  dx = dy

    x, y, dx, dy  (N, C, H, W)

Source: DNNMark's BypassLayer (core/include/layers/bypass_layer.h), one device-to-device copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.layers import elementwise
from simgen.layers.copying import Copy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.ir import Pass, TensorSpec
    from simgen.layers.base import Lowering, Tensors
else:
    pass


@dataclass(frozen=True)
class Bypass(Copy):
    kind = "bypass"
    section = "Bypass"
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "1000", "h": "1", "w": "1"}

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        source, target = elementwise.ends(direction)
        size = elementwise.words(x)
        name = f"bypass_{size}"  # the same in both passes
        copy = elementwise.Operation.COPY
        return elementwise.lower(name, copy, size, (source,), (target,))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        source, target = elementwise.ends(direction)
        return {target: tensors[source]}
