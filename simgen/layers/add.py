"""Element-wise sum of several tensors, as at the end of a residual block.

    forward   y    = x0 + x1 + ...     in this order, one rounding after each addition
    backward  dx_i = dy

    x0, x1, ..., y and their gradients  (N, C, H, W), or another shape that all have in common

Source: He et al., "Deep residual learning for image recognition", 2016, eq. 1; cudnnAddTensor and
cudnnOpTensor compute it. By itself the layer has `inputs` inputs; in a network, as many as
`previous_layer` names. Where several layers read one tensor, a workload adds up their gradients
with this layer too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ir import Distribution, Fill, OpCount, Pass, TensorSpec
from simgen.layers import elementwise, several
from simgen.layers.base import Layer, Lowering, Port, key
from simgen.layers.rounding import U

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from simgen.layers.base import Tensors
else:
    from simgen import arrays as np


@dataclass(frozen=True)
class Add(Layer):
    kind = "add"
    section = "Add"
    passes = (Pass.FORWARD, Pass.BACKWARD)
    shape_given = several.GRADIENTS
    per_sample = True
    several_inputs = True
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "256", "h": "56", "w": "56"}

    inputs: int = key("inputs", default=2, least=2, most=several.MOST)

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        return (x,) * self.inputs

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        several.check(self.section, inputs, range(len(inputs[0].shape)))
        return inputs[0]

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Per element one addition less than there are inputs; backward moves data only."""
        x, inputs_nbytes = inputs[0], len(inputs) * inputs[0].nbytes
        if direction is Pass.FORWARD:
            return OpCount((len(inputs) - 1) * x.size, 0, inputs_nbytes, x.nbytes)
        return OpCount(0, 0, x.nbytes, inputs_nbytes)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        normal = Fill(Distribution.NORMAL, 0.0, 1.0)
        if direction is Pass.FORWARD:
            xs = (Port(name, x, normal) for name, x in zip(several.INPUTS, inputs))
            return (*xs, Port("y", inputs[0]))
        gradients = (Port(name, x) for name, x in zip(several.GRADIENTS, inputs))
        return (Port("dy", inputs[0], normal), *gradients)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        size, count = inputs[0].size, len(inputs)
        name = f"add_{direction}_{count}x{size}"
        if direction is Pass.FORWARD:
            add = elementwise.Operation.ADD
            return elementwise.lower(name, add, size, several.INPUTS[:count], ("y",))
        copy = elementwise.Operation.COPY
        return elementwise.lower(name, copy, size, ("dy",), several.GRADIENTS[:count])

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.BACKWARD:
            return {name: tensors["dy"] for name in several.GRADIENTS if name in tensors}
        y = np.zeros_like(tensors["x0"])
        for name in several.INPUTS:
            y = y + tensors[name] if name in tensors else y
        return {"y": y}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.BACKWARD:
            zero = np.zeros_like(tensors["dy"])  # a copy has no error
            return {name: zero for name in several.GRADIENTS if name in tensors}
        # Each addition rounds a sum that the additions before have already changed a little.
        y, bound = tensors["x0"], np.zeros_like(tensors["x0"])
        for name in several.INPUTS[1:]:
            if name in tensors:
                y = y + tensors[name]
                bound = bound + U * (np.abs(y) + bound)
        return {"y": bound}
