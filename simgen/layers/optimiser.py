"""What the steps of all optimisers have in common: a parameter, its gradient, states, copies.

x     the parameter, of any shape      dx    loss_scale times the gradient of the loss by it
y     the parameter after the step     rate  the learning rate

x, y and the states of an optimiser are float32. dx has the type `gradient_type`. Where a parameter
is used in a narrow type, x and y are its master weights, which hold steps too small for that type,
and `copy`, written in the same launch, is what the next forward pass reads. The loss, and so all
gradients, are larger by loss_scale, for small ones not to vanish in a narrow type; the step takes
that out again. Gradients that overflow are not looked for: their parameters become infinite or NaN.

Source: Micikevicius et al., "Mixed Precision Training", 2018, sections 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from simgen.ground.dtypes import WORD, DType
from simgen.ground.ir import Constants, Distribution, Fill, Pass, TensorSpec
from simgen.ground.numerics.rounding import float32
from simgen.layers.base import Layer, Port, key

NORMAL = Fill(Distribution.NORMAL, 0.0, 1.0)


@dataclass(frozen=True)
class Optimiser(Layer):
    """One step of one parameter."""

    passes = (Pass.FORWARD,)
    per_sample = True  # samples are independent, whatever the first axis is
    sample: ClassVar[Mapping[str, str]] = {"n": "1000", "c": "4096", "h": "1", "w": "1"}
    type_cure = "leave it out; gradients have gradient_type, and working copies copy_type"

    rate: float = key("rate", 0.01, "learning rate", 0.0, 1e6)
    loss_scale: float = key(
        "loss_scale", 1.0, "loss scale that the gradient contains", 2.0**-24, 2.0**24
    )
    gradient_type: DType = key("gradient_type", DType.F32, "element type of dx")
    copy_type: DType = key("copy_type", DType.F32, "element type of the working copy; f32: no copy")

    @property
    def scale(self) -> float:
        """What dx is multiplied by to be the gradient of the loss, as float32."""
        return float32(1 / self.loss_scale)

    @property
    def states(self) -> tuple[tuple[str, Fill], ...]:
        """Port -> values, by themselves, of what it carries from step to step, each of the shape
        of x; training begins with zeros. "new_" and the name is the port that is written."""
        return ()

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        for dtype in (self.gradient_type, self.copy_type):
            if not dtype.is_float or dtype.nbytes > WORD:
                cure = "set gradient_type and copy_type to f32, f16 or bf16"
                raise ValueError(f"[{self.section}] has no steps in {dtype}; {cure}")
        return x

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        dx = TensorSpec(x.shape, self.gradient_type)
        copy = (Port("copy", TensorSpec(x.shape, self.copy_type)),) if self.copies else ()
        read = (Port("x", x, NORMAL), Port("dx", dx, NORMAL))
        states = self.state_ports(x)
        carried = (port for port in states if port.fill)
        left = (port for port in states if not port.fill)
        return (*read, *carried, Port("y", x), *left, *copy)

    def state_ports(self, x: TensorSpec) -> tuple[Port, ...]:
        """What is carried, as it is read and as it is written."""
        read = tuple(Port(name, TensorSpec(x.shape), fill) for name, fill in self.states)
        return (*read, *(Port(f"new_{port.name}", port.spec) for port in read))

    @property
    def copies(self) -> bool:
        return self.copy_type != DType.F32

    def types_of(self) -> tuple[list[str], Constants]:
        """Words for a kernel's name, and constants, that say types other than float32."""
        words: list[str] = []
        constants: Constants = ()
        for name, dtype in (("gradient", self.gradient_type), ("copy", self.copy_type)):
            if dtype != DType.F32:
                words.append(f"{name}_{dtype}")
                constants = (*constants, (name, dtype.c))
        return words, constants

    @property
    def switches(self) -> Constants:
        """Constants that say whether there is a copy."""
        return (("with_copy", int(self.copies)),)
