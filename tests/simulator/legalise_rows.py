"""A test on MGPUSim: an instruction with its modifiers, and what hardware makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Array = NDArray[Any]

BOTH = ("gfx942", "gfx803")
CDNA3, GCN3 = ("gfx942",), ("gfx803",)
MASK, SCC, VCC = 6, 7, 8  # outputs
LOW = np.uint64(0xFFFFFFFF)
MASK_BITS = 0x123456789ABCDEF0  # what s[22:23] and s[26:27] hold
VCC_BITS = 0x00FF33550F0F0FF0  # what VCC holds
UNTOUCHED = 0x5EED0000  # what output k holds before, less k


class Inputs:
    """Input words as unsigned, signed and float32 arrays."""

    def __init__(self, words: Array) -> None:
        self.u = words
        self.i = words.view(np.int32)
        self.f = words.view(np.float32)
        self.items = words.shape[1]

    def u64(self, k: int) -> Array:
        return self.u[k].astype(np.uint64) | self.u[k + 1].astype(np.uint64) << np.uint64(32)

    def i64(self, k: int) -> Array:
        return self.u64(k).view(np.int64)

    def bit(self, pattern: int) -> Array:
        """Each item's bit of a mask that all wavefronts share."""
        return np.array([pattern >> (k % 64) & 1 for k in range(self.items)], np.uint32)


@dataclass(frozen=True)
class Row:
    """One test: instructions, and what they leave in which outputs (MASK, SCC, VCC among them)."""

    name: str
    code: str
    expected: Callable[[Inputs], Mapping[int, Array]]
    archs: tuple[str, ...] = BOTH
    scalar: bool = False  # every wavefront has one value in all lanes
    outputs: tuple[int, ...] = ()  # that are looked at even if nothing is expected to be there
    floats: bool = False  # the outputs are float32: a NaN has no bits
    ulps: int = 0  # by which floats may differ
    any_zero: bool = False  # the sign of a zero is free
    lanes: int = 2**64 - 1  # whose bits of masks count
    timed: bool = True  # right in the timing model, too
    # What the instructions themselves store, (items, words) for words that lie together; they find
    # the place for item 0 in s[6:7] + v19 (gfx942) or v[18:19] (gfx803).
    region: Callable[[Inputs], Array] | None = None
    words: int = 0


def f32(x: Any) -> Array:
    return np.asarray(x, np.float32)


def clamp(x: Array) -> Array:
    return np.where(np.isnan(x), f32(0), np.clip(x, 0, 1))


def first(w: Inputs) -> Array:
    """Index of the first lane of each item's wavefront."""
    return np.arange(w.items) // 64 * 64


def saturated(x: Array, low: int, high: int) -> Array:
    """Conversion to an integer as hardware does it; a NaN becomes 0."""
    wide = np.where(np.isnan(x), 0, np.clip(x.astype(np.float64), low, high))
    return np.trunc(wide).astype(np.int64)
