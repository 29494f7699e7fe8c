"""Concatenation along an axis, by default the channels.

    forward   y = x0, x1, ... one behind the other along the axis
    backward  dx_i = the part of dy that x_i has in y

    x_i, dx_i  (N, C_i, H, W)      y, dy  (N, C_0 + C_1 + ..., H, W)      or any rank

Source: Szegedy et al., "Going deeper with convolutions", 2015, figure 2 ("DepthConcat"); Concat of
Caffe, whose `axis` this is. By itself the layer has `inputs` inputs of one shape; in a network,
those that `previous_layer` names.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import DType, Pass, TensorSpec
from simgen.layers import axes
from simgen.layers.base import key
from simgen.layers.contract import Contract
from simgen.layers.joining import copies
from simgen.layers.multi_input import GRADIENTS, INPUTS, Several, reads_and_writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Lowering, Tensors


@dataclass(frozen=True)
class Concat(Several):
    kind = "concat"
    section = "Concat"
    contract: ClassVar[Contract] = Contract(copies=(Pass.FORWARD, Pass.BACKWARD))
    integers: ClassVar[tuple[DType, ...]] = (DType.I8, DType.I32)
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "128", "h": "28", "w": "28"}

    axis: int = key("axis", 1, "axis to join along; -1 is the last")

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        shape = inputs[0].shape
        axis = axes.behind_batch("axis", self.axis, shape)
        self.check(inputs, [each for each in range(len(shape)) if each != axis])
        total = sum(x.shape[axis] for x in inputs)
        return TensorSpec((*shape[:axis], total, *shape[axis + 1 :]), inputs[0].dtype)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        axis = axes.behind_batch("axis", self.axis, inputs[0].shape)
        ports = reads_and_writes(direction, len(inputs))
        joins = direction is Pass.FORWARD
        return copies(f"{self.kind}_{direction}", inputs, axis, ports, joins)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.FORWARD:
            xs = [tensors[name] for name in INPUTS if name in tensors]
            return {"y": np.concatenate(xs, axis=self._axis(xs[0]))}
        names = [name for name in GRADIENTS if name in tensors]
        axis = self._axis(tensors["dy"])
        extents = [tensors[name].shape[axis] for name in names]
        ends = list(accumulate(extents))[:-1]
        return dict(zip(names, np.split(tensors["dy"], ends, axis=axis)))

    def _axis(self, tensor: Array) -> int:
        return axes.behind_batch("axis", self.axis, tensor.shape)

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        # A copy has no error.
        wanted = self.reference(tensors, direction)
        return {name: np.zeros_like(values) for name, values in wanted.items()}
