"""Numbers as elements and scales of a format, and how well kernels know both."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.formats import E8M0_BIAS, SETTLED, Groups
from simgen.ground.ir import Distribution, Fill, TensorSpec
from simgen.ground.numerics.rounding import RCP, SECOND_ORDER, TINY, U
from simgen.layers import elementwise

if TYPE_CHECKING:
    from simgen.ground.dtypes import DType
    from simgen.ground.numerics.rounding import Array

SCALES = {  # fills of scales, by whether they are e8m0: groups differ
    False: Fill(Distribution.UNIFORM, 2.0**-6, 2.0**-4),
    True: Fill(Distribution.UNIFORM, 120.0, 124.0),
}
LEAST = 1e-10  # least magnitude that a float32 scale is made of


@dataclass(frozen=True)
class Side:
    """A factor: its format, or the type of its elements, and what shares a scale."""

    dtype: DType  # type of elements, without a format
    groups: Groups | None = None
    group: int = 0  # elements along k
    sharing: int = 1  # rows

    @property
    def c(self) -> str:
        return self.groups.element.c if self.groups else elementwise.as_float(self.dtype)

    @property
    def name(self) -> str:
        if not self.groups:
            return self.dtype.name
        scale = "e8m0" if self.groups.is_power else self.groups.scale.name
        return f"{self.groups.element.name}g{self.group}x{self.sharing}_{scale}"

    def tensors(self, rows: int, depth: int) -> tuple[TensorSpec, ...]:
        """What holds rows of `depth`, and their scales, if there are any."""
        if not self.groups:
            return (TensorSpec((rows, depth), self.dtype),)
        element = self.groups.element
        blocks = ceil(rows / self.sharing), depth // self.group
        stored = TensorSpec((rows, element.extent(depth)), element.dtype)
        return stored, TensorSpec(blocks, self.groups.scale)

    @property
    def fills(self) -> tuple[Fill, Fill]:
        """Values of random elements and scales, whose products are about 1."""
        if not self.groups:
            return Fill.usual(self.dtype), SCALES[False]
        element = self.groups.element.dtype
        return Fill.usual(element, 16.0), SCALES[self.groups.is_power]

    @property
    def roundings(self) -> int:
        """Roundings of an element as it is loaded."""
        return int(self.groups is not None and not self.groups.scale.is_narrow)

    def numbers(self, stored: Array, scales: Array | None = None) -> Array:
        """What rows stand for."""
        if not self.groups or scales is None:
            return stored
        factors = np.repeat(self.groups.scales(scales), self.group, axis=-1)
        made = self.groups.element.decoded(stored)
        rows = np.repeat(factors, self.sharing, axis=-2)[..., : made.shape[-2], :]
        return made * rows


def quantised(
    x: Array, groups: Groups, group: int, error: Array | float = 0.0
) -> dict[str, tuple[Array, Array]]:
    """(value, bound) of y and scales; of float32 scales, numbers may have errors.

    A scale m / L rounds its constant and the product, a quotient the inverse and the product.
    Scales of other types, and elements of less than a byte, are known to the bit where an error
    cannot lead to another one; elsewhere nothing is known.
    """
    element = groups.element
    parts = x.reshape(*x.shape[:-1], x.shape[-1] // group, group)
    off = np.broadcast_to(error, x.shape).reshape(parts.shape)
    m = np.abs(parts).max(axis=-1)
    m_off = off.max(axis=-1)
    bound = np.zeros_like(m)
    if groups.is_power:
        _, exponent = np.frexp(m)
        stored = np.maximum(np.where(m > 0, exponent - 1 + E8M0_BIAS - element.top, 0), 0)
        stored = stored.astype(np.float64)
        scale = np.ldexp(1.0, stored.astype(int) - E8M0_BIAS)
    elif groups.scale.is_narrow:
        words = m.astype(np.float32).view(np.uint32)
        m = ((words + np.uint32(512)) & np.uint32(0xFFFFFC00)).view(np.float32).astype(np.float64)
        wanted = np.minimum(m / element.largest, groups.scale.largest)
        stored = scale = wanted.astype(groups.scale.array).astype(np.float64)
        sides = (wanted * side for side in (1 - SETTLED, 1 + SETTLED))
        ends = [each.astype(groups.scale.array).astype(np.float64) for each in sides]
        tie = np.abs(scale - wanted) * 2 == np.abs(ends[0] - ends[1])
        bound = np.where((ends[0] != ends[1]) & ~tie, np.inf, 0.0)
    else:
        stored = scale = np.maximum(m, LEAST) / element.largest
        bound = (2 * U * scale + m_off / element.largest) * SECOND_ORDER + TINY
    divisor = np.where(scale > 0, scale, 1.0)[..., np.newaxis]
    quotient = np.where(scale[..., np.newaxis] > 0, parts / divisor, parts * 0.0)
    largest = element.largest
    inside = np.clip(quotient, -largest, largest)
    if element.is_packed:
        doubtful = element.doubtful(inside, 0.0 if groups.is_power else SETTLED)
        unknown = doubtful | np.isinf(bound)[..., np.newaxis]
        y = element.encoded(inside.reshape(x.shape)).astype(np.float64)
        bits = np.repeat(unknown.reshape(x.shape), element.bits, axis=-1)
        y_bound = np.where(bits.reshape(*y.shape, 8).any(axis=-1), np.inf, 0.0)
    else:
        relative = 0.0 if groups.is_power else 3 * U + RCP
        more = off / divisor + np.abs(quotient) * (m_off / np.maximum(m, LEAST))[..., np.newaxis]
        y = inside.reshape(x.shape)
        y_bound = ((relative * np.abs(quotient) + more) * SECOND_ORDER).reshape(x.shape)
    return {"y": (y, y_bound), "scales": (stored, bound)}
