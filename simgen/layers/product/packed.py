"""Weights that are whole numbers of 8 or 4 bits, as the second factor beside floats.

An element q stands for scale (q - zero_point). The scale is one of all; or one of each output
channel, in float32, which sums are multiplied by; or one of each `group` neighbours along k, in a
type of 16 bits. Those of groups are multiplied by as elements are loaded.

Of 4 bits, element i of a row lies in byte i / 2, an even one in its lower half, as a two's
complement.

Where kernels multiply by scalars, they compute with float32 numbers that are exact: 11 bits by 9.
Matrix instructions take factors of the other one's type. It has all whole numbers that there are;
what they are times the scale of a group is rounded to it, to the nearest.

Source: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers", 2023, section 4 (groups); Lin et al., "AWQ: Activation-aware Weight Quantization for
On-Device LLM Compression and Acceleration", 2024. Both take groups of 128. Their kernels, and
Marlin's (Frantar et al., "MARLIN: Mixed-Precision Auto-Regressive Parallel Inference on Large
Language Models", 2024), round to 16 bits what they load.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any

from simgen.ground.arrays import np
from simgen.ground.dtypes import F16, DType
from simgen.ground.ir import Distribution, Fill, TensorSpec
from simgen.ground.numerics.rounding import float32
from simgen.layers.base import key
from simgen.layers.requantisation import Requantisation

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.product.elements import Elements

USUAL = 128  # elements of a group of 4 bits
WORD = 8  # elements of a word of 4 bits: a group has a multiple of them


@dataclass(frozen=True)
class Weights:
    """How they are stored, and what they stand for. Messages have the name of their tensor."""

    name: str
    bits: int
    scale: float  # one scale for all, or the centre of the scales' range
    zero_point: int = 0
    asked_group: int = 0  # elements along k that share a scale; 0: the usual number
    per_channel: bool = False

    @property
    def per_byte(self) -> int:
        return 8 // self.bits

    @property
    def growth(self) -> int:
        """The largest size of a number is below twice this."""
        return 1 << self.bits

    def check(self, k: int, beside: DType) -> None:
        """`beside` is the type of the other factor.

        Raises:
        ValueError: there is no scale, or none that its type has; rows of `k` elements are not
            whole groups, or groups not whole words.
        """
        name, of = self.name, f"{self.name}_type is i{self.bits}"
        if not self.scale:
            raise ValueError(f"{of} without {name}_scale; give it, such as {name}_scale=.01")
        if self.per_channel and self.asked_group:
            fact = f"{name}_scale_per_channel and group_size are given"
            raise ValueError(f"{fact}; leave one out")
        low, high = -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        if not low <= self.zero_point <= high:
            fact = f"{name}_zero_point is {self.zero_point}, and {name} is i{self.bits}"
            raise ValueError(f"{fact}; let it be {low} to {high}")
        group = self.group(k)
        if self.per_channel and group % WORD:
            fact = f"rows of {name} have {k} elements, and {name} is i{self.bits}"
            raise ValueError(f"{fact}; let rows have a multiple of {WORD}")
        if group % WORD:
            raise ValueError(f"group_size is {group}; let it be a multiple of {WORD}")
        if group and k % group:
            fact = f"rows of {name} have {k} elements, which is not a multiple of group_size"
            if k % WORD:
                raise ValueError(f"{fact} {group}; let rows have a multiple of {WORD}")
            raise ValueError(f"{fact} {group}; let group_size be {gcd(k, group)}, for example")
        if group:
            self._check_scale(scale_of(beside))

    def _check_scale(self, dtype: DType) -> None:
        """Check a centre for groups' scales, which lie between half of it and one and a half times
        it.
        """
        with np.errstate(over="ignore", under="ignore"):
            ends = np.array([self.fill.a, self.fill.b]).astype(dtype.array).astype(np.float64)
        if not (ends > 0).all() or not np.isfinite(ends).all():
            fact = f"{self.name}_scale is {self.scale:g}, and scales of groups are {dtype}"
            raise ValueError(f"{fact}; let it be 2e-7 to 40000")

    def group(self, k: int) -> int:
        """Elements of a row of `k` that have a scale as they are loaded; 0: none have."""
        if self.bits == 8:
            return self.asked_group
        return k if self.per_channel else self.asked_group or USUAL

    @property
    def by_column(self) -> bool:
        """Whether sums are multiplied by scales of their columns."""
        return self.per_channel and self.bits == 8

    @property
    def alpha(self) -> float:
        """What all sums are multiplied by."""
        return 1.0 if self.by_column or self.bits < 8 or self.asked_group else float32(self.scale)

    @property
    def requantisation(self) -> Requantisation:
        """What gives sums the scales of their columns."""
        return Requantisation(per_channel=self.by_column)

    def beside(self, elements: Elements, k: int) -> Elements:
        """The types of a product of rows of `k`, where that of the other factor and so on are
        given."""
        group, scale = self.group(k), scale_of(elements.left)
        zeros = 0, self.zero_point
        return replace(
            elements, right=DType.I8, zero_points=zeros, bits=self.bits, group=group, scale=scale
        )

    def scales(self, rows: tuple[int, ...], k: int, dtype: DType) -> tuple[TensorSpec, ...]:
        """The tensor of scales, if there is any: of rows of `k`, beside elements of a type."""
        if self.by_column:
            return (TensorSpec(rows),)
        group = self.group(k)
        return (TensorSpec((*rows, k // group), scale_of(dtype)),) if group else ()

    @property
    def fill(self) -> Fill:
        """Values of the scales."""
        return Fill(Distribution.UNIFORM, self.scale / 2, self.scale * 3 / 2)

    def numbers(self, stored: Array, scales: Array | None, taken: DType | None = None) -> Array:
        """What rows stand for, (..., k), but for scales of columns and that of all.

        `taken` is the type that products with scales of groups are rounded to.
        """
        whole = stored
        if self.bits < 8:
            each = np.mod(stored, 256)
            halves = np.stack((np.mod(each, 16), np.floor_divide(each, 16)), axis=-1)
            whole = (halves - 16 * (halves > 7)).reshape(*stored.shape[:-1], -1)
        made: Array = whole - self.zero_point
        group = self.group(made.shape[-1])
        if not group or scales is None:
            return made
        made = made * np.repeat(scales, group, axis=-1)
        if taken is None:
            return made
        rounded: Array = made.astype(np.float32).astype(taken.array).astype(np.float64)
        return rounded


def check_unused(tensor: str, group_size: int, *, per_channel: bool = False) -> None:
    """Refuse keys of scales for a tensor that is not stored in groups.

    Raises:
        ValueError: what says how it would lie is given.
    """
    given = {"group_size": group_size, f"{tensor}_scale_per_channel": per_channel}
    for name in (name for name, value in given.items() if value):
        fact = f"{name} is given, and {tensor} has no integers beside floats"
        raise ValueError(f"{fact}; leave it out, or give {tensor}_type beside f32, f16 or bf16")


def scale_of(dtype: DType) -> DType:
    """The type of scales of groups, where the other factor has a type."""
    return dtype if dtype.nbytes == F16.nbytes else F16


def group_key(tensor: str) -> Any:
    """The key of the size of groups."""
    return key(
        "group_size",
        0,
        f"elements along k with one scale, of i4 or i8 {tensor}; 0: {USUAL} of i4, all of i8",
        0,
        of_integers=True,
    )
