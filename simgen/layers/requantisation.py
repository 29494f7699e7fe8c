"""Sums of products of 8-bit integers, narrowed to 8 bits again: scale, zero point, saturation.

An integer q of a tensor stands for the real number scale (q - zero_point). So of x, w and y

    sum = sum over k of (x - x_zero_point) (w - w_zero_point)  [+ bias]        in 32 bits
    y   = saturate(round(scale sum) + y_zero_point)     scale = x_scale w_scale / y_scale

where `round` goes to the nearest whole number, of two to the even one, and `saturate` to the end of
8 bits, -128 or 127. A bias has the scale x_scale w_scale and the zero point 0. With
`w_scale_per_channel`, each output channel has a w_scale of its own, in the tensor w_scales. Padding
is real zero.

Source: QLinearConv and QLinearMatMul of ONNX, with QuantizeLinear's rounding; Jacob et al.,
"Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
2018.

Of 8-bit floats, too, a number stands for its scale times itself. Then y = scale sum [+ bias], in
float32, is rounded to the type of y as all floats are, as by cublasLtMatmul, whose factor of D is
1 / y_scale; a bias, and beta c, are in units of y and not scaled. Zero points and factors of
channels are of integers alone.

Of integers, each step is one float32 operation: the sum is converted, and multiplied by `scale`,
which is rounded from its factors once (of channels: w_scale times the rest, rounded). Machines
round all of these alike, so that results are known to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, Distribution, DType, Fill, TensorSpec
from simgen.ground.numerics.rounding import float32, identifier
from simgen.layers.base import Layer, Port, key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array

LOW, HIGH = -128, 127
SCALES = "w_scales"  # port with the channels' scales


@dataclass(frozen=True)
class Requantisation:
    """Scaling of integer sums before they are stored; by default there is none. Without a scale,
    channels' factors multiply sums of floats before a bias is added
    (simgen/layers/product/packed.py)."""

    scale: float = 0.0  # float32; 0: sums stay as they are
    zero_point: int = 0
    per_channel: bool = False  # whether each has a factor of its own beside

    def __bool__(self) -> bool:
        return self.scale > 0

    @property
    def ports(self) -> tuple[str, ...]:
        """A kernel's arguments for it."""
        return (SCALES,) if self.per_channel else ()

    @property
    def constants(self) -> Constants:
        """What templates/kernels/constants/epilogue.h declares."""
        return (
            ("requantised", int(bool(self))),
            ("with_channel_scales", int(bool(self.ports))),
            ("requantisation_scale", self.scale),
            ("zero_point", self.zero_point),
        )

    def tensors(self, channels: int, usual: float) -> tuple[Port, ...]:
        """What it reads: factors around the usual one."""
        fill = Fill(Distribution.UNIFORM, usual / 2, usual * 3 / 2)
        return tuple(Port(each, TensorSpec((channels,)), fill) for each in self.ports)

    @property
    def name(self) -> tuple[str, ...]:
        """Parts of a kernel's name."""
        if not self:
            return ("scaled",) * self.per_channel
        zero = f"z{self.zero_point}".replace("-", "m")
        return (f"q{identifier(self.scale)}{zero}{'c' * self.per_channel}",)

    def of(self, sums: Array, factors: Array | float = 1.0) -> Array:
        """What is stored of sums; `factors` are those of channels."""
        if not self:
            return sums
        scale = np.asarray(factors).astype(np.float32) * np.float32(self.scale)
        scaled = sums.astype(np.float32) * scale
        return requantised(scaled, self.zero_point)


def requantised(scaled: NDArray[Any], zero_point: int) -> Array:
    """Scaled numbers as integers of 8 bits."""
    inside = np.clip(scaled, LOW - zero_point, HIGH - zero_point)
    found: Array = np.rint(inside).astype(np.float64) + zero_point
    return found


def scale_key(of: str) -> Any:
    """The key of the scale of a tensor."""
    text = f"scale of {of}, where elements have 8 bits"
    # The default says that there is none; a scale that is given is none of 0.
    return key(f"{of}_scale", 0.0, text, 1e-37, 1e6, of_integers=True)


def zero_key(of: str) -> Any:
    """The key of its zero point; "" are all tensors of a layer."""
    text = f"what stands for 0 in {of or 'x and y'}, of i8"
    name = f"{of}_zero_point" if of else "zero_point"
    return key(name, 0, text, LOW, HIGH, of_integers=True)


def check_zero_point(dtype: DType, zero_point: int) -> None:
    """Raises:
    ValueError: it is given beside floats.
    """
    if dtype.is_float and zero_point:
        raise ValueError(f"zero_point is given, and the input is {dtype}; leave it out, or take i8")


def per_channel_key() -> Any:
    """The key that gives each output channel a scale of its own."""
    text = f"has each output channel a w_scale of its own, in {SCALES}?"
    return key("w_scale_per_channel", False, text, of_integers=True)


class ScaledTensors(Layer):
    """A layer that has keys for scales and zero points of two tensors and of its result."""

    scaled: ClassVar[tuple[str, str, str]] = ("x", "w", "y")
    scales_floats: ClassVar[bool] = True  # they are for floats of 8 bits too

    @property
    def scales(self) -> dict[str, float]:
        return {name: getattr(self, f"{name}_scale") for name in self.scaled}

    @property
    def zero_points(self) -> dict[str, int]:
        return {name: getattr(self, f"{name}_zero_point") for name in self.scaled}

    def requantisation(self, dtype: DType) -> Requantisation:
        """What is done to sums, where the first input has a type."""
        per_channel = getattr(self, "w_scale_per_channel", False)
        given = dtype, self.scales, self.zero_points
        return chosen(*given, per_channel=per_channel, floats=self.scales_floats)


def chosen(
    dtype: DType,
    scales: dict[str, float],
    zero_points: dict[str, int],
    *,
    per_channel: bool = False,
    floats: bool = False,
) -> Requantisation:
    """What a layer does whose inputs have a type, from its keys; the last ones are of its result.

    `floats` says that the layer has scales of 8-bit floats too.

    Raises:
        ValueError: keys of integers beside floats, or some without the others.
    """
    given = {f"{name}_scale": value for name, value in scales.items() if value}
    missing = [f"{name}_scale" for name, value in scales.items() if not value]
    shifted = [f"{name}_zero_point" for name, value in zero_points.items() if value]
    per = ["w_scale_per_channel"] if per_channel else []
    result = f"{list(scales)[-1]}_zero_point"
    has_scales = floats and dtype.nbytes == DType.I8.nbytes
    refused = (*(() if has_scales else given), *shifted, *per)
    if dtype.is_float and refused:
        fact = f"{refused[0]} is given, and the input is {dtype}"
        eight = " or an 8-bit float" if floats and refused[0] in given else ""
        raise ValueError(f"{fact}; leave it out, or take i8{eight}")
    if missing and (given or per or result in shifted):
        beside = (*given, *per, *(each for each in shifted if each == result))
        fact = f"{', '.join(beside)} without {', '.join(missing)}"
        raise ValueError(f"{fact}; give {', '.join(f'{each}_scale' for each in scales)}, or none")
    if not given:
        return Requantisation()
    scale = factor(scales, per_channel=per_channel)
    if not 2.0**-126 <= scale <= 2.0**20:
        raise ValueError(f"sums are scaled by {scale:g}; let the scales give 1e-37 to 1e6")
    if dtype.is_float:
        return Requantisation()
    return Requantisation(scale, zero_points[list(scales)[-1]], per_channel)


def factor(scales: dict[str, float], *, per_channel: bool = False) -> float:
    """What sums are multiplied by; 1 without scales. The right one is that of channels, or not."""
    left, right, last = scales.values()
    if not last:
        return 1.0
    return float32(left / last if per_channel else left * right / last)
