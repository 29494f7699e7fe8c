"""What a kernel does to each sum of a channel before it stores it: the layers that follow, fused.

    v = sum [+ bias]    v = factor v    v = w (v - mean) / sqrt(var + epsilon) + b
    v = activation(v)

The last three are there or not. The operations and their order are those of the kernels that the
layers have for themselves, so that fusing them changes no bit. Sums of integers are requantised in
their place, or stay as they are (simgen/layers/requantisation.py); a factor is of 8-bit floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.ground.dtypes import DType
from simgen.ground.numerics.rounding import float32, identifier
from simgen.layers.requantisation import Requantisation

if TYPE_CHECKING:
    from simgen.ground.ir import Constants

# ports of batch normalisation; each has one value per channel
PORTS = ("bn_w", "bn_b", "running_mean", "running_var")


@dataclass(frozen=True)
class Epilogue:
    """What a kernel does to each sum before it stores it; by default, nothing."""

    epsilon: float | None = None  # epsilon of batch normalisation; None: no batch normalisation
    activation: str = ""  # a mode; "": there is none
    ceiling: float = 0.0  # upper limit of clipped_relu
    alpha: float = 0.0  # slope of elu
    requantisation: Requantisation = Requantisation()
    factor: float = 1.0  # float32

    @property
    def ports(self) -> tuple[str, ...]:
        """The kernel's arguments for it, after those of the sum."""
        return (*(() if self.epsilon is None else PORTS), *self.requantisation.ports)

    @property
    def constants(self) -> Constants:
        """What templates/kernels/constants/epilogue.h declares."""
        return (
            ("with_batch_norm", int(self.epsilon is not None)),
            ("bn_epsilon", float32(self.epsilon or 0.0)),
            ("activation", self.activation or "none"),
            ("activation_ceiling", float32(self.ceiling)),
            ("activation_alpha", float32(self.alpha)),
            ("factor", self.factor),
            *self.requantisation.constants,
        )

    @property
    def name(self) -> tuple[str, ...]:
        """Parts of a kernel's name that tell epilogues apart."""
        parts = [] if self.epsilon is None else [f"bn{identifier(self.epsilon)}"]
        if self.activation:
            value = {"clipped_relu": self.ceiling, "elu": self.alpha}.get(self.activation)
            parts.append(self.activation + ("" if value is None else identifier(value)))
        scaled = (f"x{identifier(self.factor)}",) if self.factor != 1 else ()
        return (*scaled, *parts, *self.requantisation.name)

    def result(self, dtype: DType) -> DType:
        """The type of what is left of products of factors of a type."""
        return DType.I8 if self.requantisation else dtype.product


NOTHING = Epilogue()
