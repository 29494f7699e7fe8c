"""What layers with several inputs have in common: x0, x1, ... in place of x."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from simgen.ground.ir import Fill, Pass, TensorSpec
from simgen.layers.base import Layer, Port, Sums, key

MAX_INPUTS = 16  # inputs; each is an argument of the kernel
INPUTS = tuple(f"x{at}" for at in range(MAX_INPUTS))  # names of ports
GRADIENTS = tuple(f"dx{at}" for at in range(MAX_INPUTS))


@dataclass(frozen=True)
class Several(Layer):
    """A layer with 2 to MAX_INPUTS inputs.

    By itself it has `inputs` of one shape, in a network those that `previous_layer` names.
    """

    shape_given: ClassVar[tuple[str, ...]] = GRADIENTS
    input_names: ClassVar[tuple[str, ...]] = INPUTS
    per_sample: ClassVar[bool] = True
    any_float: ClassVar[bool] = True

    inputs: int = key("inputs", 2, "number of inputs if previous_layer names none", 2, MAX_INPUTS)

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        return (x,) * self.inputs

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        normal, y = Fill.usual(inputs[0].dtype), self.output(inputs)
        if direction is Pass.FORWARD:
            xs = (Port(name, x, normal) for name, x in zip(INPUTS, inputs))
            return (*xs, Port("y", y))
        gradients = (Port(name, x) for name, x in zip(GRADIENTS, inputs))
        return (Port("dy", y, normal), *gradients)

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums(len(inputs))

    def check(self, inputs: Sequence[TensorSpec], axes: Sequence[int]) -> None:
        """Raises:
        ValueError: not 2 to MAX_INPUTS inputs, or not of equal extents along `axes`.
        """
        if len(inputs) < 2:
            raise ValueError(f"[{self.section}] has one input; name two or more in previous_layer")
        if len(inputs) > MAX_INPUTS:
            fact = f"[{self.section}] has {len(inputs)} inputs, more than {MAX_INPUTS}"
            raise ValueError(f"{fact}; use two layers in a row")
        for at, x in enumerate(inputs):
            if x.dtype != inputs[0].dtype:
                raise ValueError(
                    f"x0 is {inputs[0].dtype}, but x{at} is {x.dtype}; insert [Cast] before it"
                )
            ranks = len(x.shape) != len(inputs[0].shape)
            if ranks or any(x.shape[axis] != inputs[0].shape[axis] for axis in axes):
                one, other = (" x ".join(map(str, spec.shape)) for spec in (inputs[0], x))
                raise ValueError(f"x0 is {one}, but x{at} is {other}; give them the same extents")


def reads_and_writes(direction: Pass, count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ports of a pass of a layer with `count` inputs."""
    if direction is Pass.FORWARD:
        return INPUTS[:count], ("y",)
    return ("dy",), GRADIENTS[:count]
