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

from simgen.ir import OpCount, Pass, TensorSpec
from simgen.layers import elementwise
from simgen.layers.contract import Contract
from simgen.layers.multi_input import GRADIENTS, INPUTS, Several, reads_and_writes
from simgen.numerics import exactness
from simgen.numerics.rounding import U

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from simgen.layers.base import Lowering, Tensors
else:
    from simgen import arrays as np


@dataclass(frozen=True)
class Add(Several):
    kind = "add"
    section = "Add"
    contract: ClassVar[Contract] = Contract(copies=(Pass.BACKWARD,))
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "256", "h": "56", "w": "56"}

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        self.check(inputs, range(len(inputs[0].shape)))
        return inputs[0]

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Per element one addition less than there are inputs; backward moves data only."""
        x, inputs_nbytes = inputs[0], len(inputs) * inputs[0].nbytes
        if direction is Pass.FORWARD:
            return OpCount((len(inputs) - 1) * x.size, 0, inputs_nbytes, x.nbytes)
        return OpCount(0, 0, x.nbytes, inputs_nbytes)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        forward = direction is Pass.FORWARD
        size, count = inputs[0].size if forward else elementwise.words(inputs[0]), len(inputs)
        name = f"add_{direction}_{count}x{size}"
        ports = reads_and_writes(direction, count)
        if not forward:
            return elementwise.lower(name, elementwise.Operation.COPY, size, *ports)
        operation, dtype = elementwise.Operation.ADD, inputs[0].dtype
        return elementwise.lower(name, operation, size, *ports, dtype=dtype)

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        return (*INPUTS, "y", "dy", *GRADIENTS)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.BACKWARD:
            return {name: tensors["dy"] for name in GRADIENTS if name in tensors}
        y = np.zeros_like(tensors["x0"])
        for name in INPUTS:
            y = y + tensors[name] if name in tensors else y
        return {"y": y}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.BACKWARD:
            zero = np.zeros_like(tensors["dy"])  # a copy has no error
            return {name: zero for name in GRADIENTS if name in tensors}
        # Each addition rounds a sum that the additions before have already changed a little.
        y, bound = tensors["x0"], np.zeros_like(tensors["x0"])
        for name in INPUTS[1:]:
            if name in tensors:
                y = y + tensors[name]
                bound = bound + U * (np.abs(y) + bound)
        return {"y": bound}

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.BACKWARD:
            return {}  # a copy
        terms = [tensors[name] for name in INPUTS if name in tensors]
        grain = min(exactness.grain(term) for term in terms)
        if not grain:
            return {}
        magnitudes = np.sum(np.abs(terms), axis=0)
        return {"y": exactness.settled(np.sum(terms, axis=0), magnitudes, grain)}
