"""Splits a tensor into equal parts along an axis: the reverse of [Concat].

    forward   y_i = the i-th part of x along the axis
    backward  dx = dy0, dy1, ... one behind the other

    x, dx  (N, C, H, W)      y_i, dy_i  (N, C / outputs, H, W)      or any rank

In a network, the parts are the tensors NAME.y0, NAME.y1 and so on.

Source: Slice of Caffe, whose `axis` this is; Split of ONNX with num_outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Fill, Pass, TensorSpec
from simgen.layers import axes
from simgen.layers.base import Lowering, Port, key
from simgen.layers.copying import Copy
from simgen.layers.joining import copies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.layers.base import Tensors

    Ports = tuple[tuple[str, ...], tuple[str, ...]]

MAX_OUTPUTS = 16  # outputs; each is an argument of the kernel
OUTPUTS = tuple(f"y{at}" for at in range(MAX_OUTPUTS))  # names of ports
GRADIENTS = tuple(f"dy{at}" for at in range(MAX_OUTPUTS))


@dataclass(frozen=True)
class Slice(Copy):
    kind = "slice"
    section = "Slice"
    output_names: ClassVar[tuple[str, ...]] = OUTPUTS
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "256", "h": "28", "w": "28"}

    parts: int = key("outputs", 2, "number of parts", 2, MAX_OUTPUTS)
    axis: int = key("axis", 1, "axis to cut; -1 is the last")

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        axis = axes.behind_batch("axis", self.axis, x.shape)
        if x.shape[axis] % self.parts:
            raise ValueError(
                f"axis {axis} has {x.shape[axis]} elements, which is not a multiple of "
                f"{self.parts} outputs; choose others"
            )
        each = x.shape[axis] // self.parts
        return TensorSpec((*x.shape[:axis], each, *x.shape[axis + 1 :]), x.dtype)

    def outputs(self, inputs: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
        return dict.fromkeys(OUTPUTS[: self.parts], self.output(inputs))

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        y, normal = self.output(inputs), Fill.usual(x.dtype)
        if direction is Pass.FORWARD:
            return (Port("x", x, normal), *(Port(name, y) for name in OUTPUTS[: self.parts]))
        return (*(Port(name, y, normal) for name in GRADIENTS[: self.parts]), Port("dx", x))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        axis = axes.behind_batch("axis", self.axis, x.shape)
        parts = [self.output(inputs)] * self.parts
        if direction is Pass.FORWARD:
            ports: Ports = ("x",), OUTPUTS[: self.parts]
            return copies(f"slice_{direction}", parts, axis, ports, joins=False)
        ports = GRADIENTS[: self.parts], ("dx",)
        return copies(f"slice_{direction}", parts, axis, ports, joins=True)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.FORWARD:
            x = tensors["x"]
            axis = axes.behind_batch("axis", self.axis, x.shape)
            return dict(zip(OUTPUTS, np.split(x, self.parts, axis=axis)))
        parts = [tensors[name] for name in GRADIENTS[: self.parts]]
        axis = axes.behind_batch("axis", self.axis, parts[0].shape)
        return {"dx": np.concatenate(parts, axis=axis)}
