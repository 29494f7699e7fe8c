"""Pooling along one axis of an image, in float64: both axes in turn are pooling in two dimensions.

Arrays are (..., extent) with the pooled axis last, windows are (..., windows). A reduction over
R S elements is so R + S steps over whole arrays. In the order of steps, the first of equal maxima
is the first in row-major order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.layers import window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array

    Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PooledAxis:
    """Windows along the height or the width of an image."""

    extent: int  # elements of the image
    kernel: int  # elements of a window
    pad: int  # elements before the image and behind it
    stride: int
    windows: int

    @property
    def starts(self) -> Ints:
        """First element of each window, counted from the start of the image."""
        found: Ints = np.arange(self.windows) * self.stride - self.pad
        return found

    @property
    def first(self) -> Ints:
        """The first element of each window that lies inside the image, from the window's start."""
        found: Ints = np.maximum(-self.starts, 0)
        return found

    def clipped(self, margin: int) -> bool:
        """Whether some window reaches over `margin` elements of padding."""
        return self.pad > margin or self.end > self.extent + margin

    @property
    def end(self) -> int:
        """One past the last element of the last window, from the first of the image on."""
        return (self.windows - 1) * self.stride - self.pad + self.kernel

    def counted(self, margin: int) -> Ints:
        """How many elements of each window lie inside the image with `margin` of its padding."""
        ends = np.minimum(self.starts + self.kernel, self.extent + margin)
        found: Ints = ends - np.maximum(self.starts, -margin)
        return found

    def padded(self, x: Array, value: float) -> Array:
        """The image with `value` around it, as far as windows reach."""
        behind = max(0, self.end - self.extent)
        around = [(0, 0)] * (x.ndim - 1) + [(self.pad, behind)]
        return np.pad(x, around, constant_values=value)

    def tap(self, s: int) -> slice:
        """Element s of every window, in the padded image."""
        return slice(s, s + (self.windows - 1) * self.stride + 1, self.stride)


def axis(
    name: str, extent: int, kernel: int, pad: int, behind: int, stride: int, *, round_up: bool
) -> PooledAxis:
    """The windows along an axis, `name` being "height" or "width"; `behind` is the padding at its
    end, -1 where it is `pad` too.

    Raises:
        ValueError: there is no window, or one without any element.
    """
    if pad >= kernel:
        fact = f"a padding of {pad} for a kernel {name} of {kernel}"
        raise ValueError(f"{fact}; make the padding smaller than the kernel")
    if behind >= kernel:
        fact = f"a padding of {behind} behind the image for a kernel {name} of {kernel}"
        raise ValueError(f"{fact}; make the padding smaller than the kernel")
    windows = window.positions(name, extent, kernel, pad, stride, behind, round_up=round_up)
    return PooledAxis(extent, kernel, pad, stride, windows)


def largest(along: PooledAxis, x: Array) -> tuple[Array, Ints]:
    """The maximum of each window, and the first element of the window that has it."""
    padded = along.padded(x, np.nan)
    best = padded[..., along.tap(0)].copy()
    at = np.zeros(best.shape, np.int64)
    for s in range(1, along.kernel):
        value = padded[..., along.tap(s)]
        # The padding is NaN: it is greater than nothing, and everything takes its place.
        better = (value > best) | (np.isnan(best) & ~np.isnan(value))
        np.copyto(best, value, where=better)
        np.copyto(at, s, where=better)
    return best, at


def total(along: PooledAxis, x: Array) -> Array:
    """The sum of each window; the padding is zero."""
    padded = along.padded(x, 0.0)
    found = padded[..., along.tap(0)].copy()
    for s in range(1, along.kernel):
        found += padded[..., along.tap(s)]
    return found


def spread(along: PooledAxis, dy: Array) -> Array:
    """The sum over the windows that hold each element of the image: the transpose of `total`."""
    length = along.pad + max(along.extent, along.end)
    found = np.zeros((*dy.shape[:-1], length))
    for s in range(along.kernel):
        found[..., along.tap(s)] += dy
    return found[..., along.pad : along.pad + along.extent]
