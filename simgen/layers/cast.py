"""Conversion of elements to another type.

    forward   y  = x, as the type `type`
    backward  dx = dy, as the type of x

    x, y, dx, dy  (N, C, H, W)

Integers stand for real numbers: x of i8 or i32 for x_scale (x - x_zero_point), and y of i8 is

    saturate(round(scale (x - x_zero_point)) + y_zero_point)     scale = x_scale / y_scale

where tensors of other types have the scale 1 and the zero point 0. Each step is one float32
operation, with a scale that is rounded once, so results are known to the bit. There is no backward
pass then. These are QuantizeLinear and DequantizeLinear of ONNX, or both in sequence.

Rounding is to nearest, ties to even: IEEE 754-2019, 5.4.2 (convertFormat) and 4.3.1
(roundTiesToEven). Too large numbers become infinity, or NaN if the type has none: "non-saturating"
in the OCP 8-bit Floating Point Specification, 2023. Alone, the layer reads the type `from`; in a
network, the type of the previous layer's output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.dtypes import F16, DType
from simgen.ground.ir import Fill, Pass, TensorSpec
from simgen.ground.numerics.rounding import float32
from simgen.layers import conversion, elementwise
from simgen.layers.base import Lowering, Port, Sums, key
from simgen.layers.copying import Copy
from simgen.layers.requantisation import requantised, scale_key, zero_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.layers.base import Tensors

SPREAD = 40.0  # standard deviation of integers that are made: some are beyond 8 bits


@dataclass(frozen=True)
class Cast(Copy):
    kind = "cast"
    section = "Cast"
    type_key = "from"
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "1000", "h": "1", "w": "1"}

    type: DType = key("type", F16, "element type of the output")
    x_scale: float = scale_key("x")
    x_zero_point: int = zero_key("x")
    y_scale: float = scale_key("y")
    y_zero_point: int = zero_key("y")

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        if self.type != DType.I8 and (
            not self.type.is_float or self.type.nbytes > DType.F32.nbytes
        ):
            raise ValueError(f"[Cast] cannot make {self.type.name}; set type=f32, f16, bf16 or i8")
        self._check("x", x.dtype, self.x_scale, self.x_zero_point)
        self._check("y", self.type, self.y_scale, self.y_zero_point)
        if not 2.0**-126 <= self._scale <= 2.0**20:
            fact = f"numbers are scaled by {self._scale:g}"
            raise ValueError(f"{fact}; let the scales give 1e-37 to 1e6")
        return TensorSpec(x.shape, self.type)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        source, target = elementwise.ends(direction)
        read, written = self._ends(inputs, direction)
        # Over some binades on both sides of 1, and small enough for every type.
        wide = Fill.usual(read.dtype, self.y_scale * SPREAD if self.y_scale else 8.0)
        return (Port(source, read, wide), Port(target, written))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        read, written = self._ends(inputs, direction)
        source, target = elementwise.ends(direction)
        types, zeros = (read.dtype, written.dtype), (self.x_zero_point, self.y_zero_point)
        return conversion.cast(read.size, *types, source, target, self._scale, zeros)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        source, target = elementwise.ends(direction)
        x = tensors[source]
        if not self._scaled:
            return {target: x}
        made = (x - self.x_zero_point).astype(np.float32) * np.float32(self._scale)
        if self.type == DType.I8:
            return {target: requantised(made, self.y_zero_point)}
        return {target: made.astype(np.float64)}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return None if self._scaled else Sums()

    @property
    def forward_only(self) -> str:
        return "with scales" if self._scaled else ""

    @property
    def _scaled(self) -> bool:
        """Whether integers are made of something, or something of integers."""
        return bool(self.x_scale or self.y_scale)

    @property
    def _scale(self) -> float:
        """What numbers are multiplied by."""
        return float32((self.x_scale or 1.0) / (self.y_scale or 1.0))

    def _check(self, of: str, dtype: DType, scale: float, zero_point: int) -> None:
        """Raises:
        ValueError: a tensor of integers has no scale, or one of floats has.
        """
        if dtype.is_float and (scale or zero_point):
            given = f"{of}_scale" if scale else f"{of}_zero_point"
            raise ValueError(f"{given} is given, and {of} is {dtype}; leave it out")
        if not dtype.is_float and not scale:
            fact = f"{of} is {dtype}, and {of}_scale is missing"
            raise ValueError(f"{fact}; give it, such as {of}_scale=.05")
        if dtype == DType.I32 and zero_point:
            raise ValueError(f"{of} is {dtype}, which has no {of}_zero_point; leave it out")

    def _ends(
        self, inputs: tuple[TensorSpec, ...], direction: Pass
    ) -> tuple[TensorSpec, TensorSpec]:
        """What the pass reads, and writes."""
        (x,), y = inputs, self.output(inputs)
        return (x, y) if direction is Pass.FORWARD else (y, x)
