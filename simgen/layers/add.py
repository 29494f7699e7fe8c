"""Element-wise sum of several tensors, as at the end of a residual block.

    forward   y    = x0 + x1 + ...     in this order, one rounding after each addition
    backward  dx_i = dy

    x0, x1, ..., y and their gradients  (N, C, H, W), or another shape that all have in common

For i8, there are two inputs, a scale for each tensor, and only a forward pass:

    y = saturate(round(f0 (x0 - x0_zero_point) + f1 (x1 - x1_zero_point)) + y_zero_point)

where fi = xi_scale / y_scale is rounded to float32, as are both products and their sum. So results
are known to the bit. This is QLinearAdd of ONNX Runtime.

Source: He et al., "Deep residual learning for image recognition", 2016, eq. 1; cudnnAddTensor and
cudnnOpTensor compute it. By itself the layer has `inputs` inputs; in a network, as many as
`previous_layer` names. Where several layers read one tensor, a workload adds up their gradients
with this layer too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import DType, Pass, TensorSpec
from simgen.ground.numerics import exactness
from simgen.ground.numerics.rounding import U, float32
from simgen.layers import elementwise
from simgen.layers.contract import Contract
from simgen.layers.multi_input import GRADIENTS, INPUTS, Several, reads_and_writes
from simgen.layers.requantisation import ScaledTensors, requantised, scale_key, zero_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Lowering, Tensors


@dataclass(frozen=True)
class Add(Several, ScaledTensors):
    kind = "add"
    section = "Add"
    contract: ClassVar[Contract] = Contract(copies=(Pass.BACKWARD,))
    integers: ClassVar[tuple[DType, ...]] = (DType.I8,)
    scaled = ("x0", "x1", "y")
    scales_floats = False
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "256", "h": "56", "w": "56"}

    x0_scale: float = scale_key("x0")
    x0_zero_point: int = zero_key("x0")
    x1_scale: float = scale_key("x1")
    x1_zero_point: int = zero_key("x1")
    y_scale: float = scale_key("y")
    y_zero_point: int = zero_key("y")

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        self.check(inputs, range(len(inputs[0].shape)))
        dtype = inputs[0].dtype
        self.requantisation(dtype)
        if not dtype.is_float and not self.y_scale:
            fact = f"x0 is {dtype}, and x0_scale, x1_scale and y_scale are missing"
            raise ValueError(f"{fact}; give them, such as y_scale=.05")
        if not dtype.is_float and len(inputs) > 2:
            fact = f"[{self.section}] of {dtype} has {len(inputs)} inputs"
            raise ValueError(f"{fact}; add them two by two")
        return inputs[0]

    @property
    def _scaling(self) -> elementwise.Scaling:
        """What integers stand for."""
        if not self.y_scale:
            return elementwise.Scaling()
        factors = float32(self.x0_scale / self.y_scale), float32(self.x1_scale / self.y_scale)
        zeros = self.x0_zero_point, self.x1_zero_point, self.y_zero_point
        return elementwise.Scaling(factors, zeros)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Per element one addition less than there are inputs; backward moves data only."""
        return (len(inputs) - 1) * inputs[0].size if direction is Pass.FORWARD else 0, 0

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        forward = direction is Pass.FORWARD
        size, count = inputs[0].size if forward else elementwise.words(inputs[0]), len(inputs)
        name = f"add_{direction}_{count}x{size}"
        ports = reads_and_writes(direction, count)
        if not forward:
            return elementwise.lower(name, elementwise.Operation.COPY, size, *ports)
        operation, dtype = elementwise.Operation.ADD, inputs[0].dtype
        scaling = self._scaling
        return elementwise.lower(name, operation, size, *ports, dtype=dtype, scaling=scaling)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.BACKWARD:
            return {name: tensors["dy"] for name in GRADIENTS if name in tensors}
        if self.y_scale:
            return {"y": requantised(self._scaled_sum(tensors), self.y_zero_point)}
        y = np.zeros_like(tensors["x0"])
        for name in INPUTS:
            y = y + tensors[name] if name in tensors else y
        return {"y": y}

    def _scaled_sum(self, tensors: Tensors) -> Array:
        """Each step in float32, as kernels do it."""
        terms = zip(("x0", "x1"), self._scaling.zero_points, self._scaling.factors)
        first, second = (
            (tensors[name] - zero).astype(np.float32) * np.float32(factor)
            for name, zero, factor in terms
        )
        made: Array = first + second
        return made

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.BACKWARD:
            zero = np.zeros_like(tensors["dy"])  # a copy has no error
            return {name: zero for name in GRADIENTS if name in tensors}
        if self.y_scale:
            return {"y": np.zeros_like(tensors["x0"])}
        # Each addition rounds a sum that the additions before have already changed a little.
        y, bound = tensors["x0"], np.zeros_like(tensors["x0"])
        for name in INPUTS[1:]:
            if name in tensors:
                y = y + tensors[name]
                bound = bound + U * (np.abs(y) + bound)
        return {"y": bound}

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.BACKWARD or self.y_scale:
            return {}  # a copy, or known to the bit in any case
        terms = [tensors[name] for name in INPUTS if name in tensors]
        grain = min(exactness.grain(term) for term in terms)
        if not grain:
            return {}
        magnitudes = np.sum(np.abs(terms), axis=0)
        return {"y": exactness.settled(np.sum(terms, axis=0), magnitudes, grain)}
