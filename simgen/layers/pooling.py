"""Pooling: the largest value or the mean of each window of a channel.

    forward   y[n,c,p,q] = max or mean of  x[n, c, p u - a + r, q v - b + s]   over r < R, s < S
    backward  dx = dy of every window in which the element was the maximum (the first, if several)
              dx = sum of dy / (elements of the window), over the windows that hold the element

    x, dx  (N, C, H, W)     y, dy  (N, C, P, Q)     P = floor((H + 2 a - R) / u) + 1, Q likewise
    R, S   kernel_size      a, b   pad              u, v   stride         (height, width each)

The padding never is a maximum. In the mean it counts as zeros with "avg_include_padding", which
divides by R S; "avg_exclude_padding" divides by the number of elements inside the image, and so
does "avg".

Source: cudnnPoolingForward and cudnnPoolingBackward with the extents of
cudnnGetPooling2dForwardOutputDim; "avg" is miopenPoolingAverage of MIOpen. DNNMark itself rounds P
and Q up, as Caffe does: it has one row or column more where the stride does not divide
H + 2 a - R.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from simgen.ir import OpCount, Pass, TensorSpec
from simgen.layers.base import Layer, key
from simgen.layers.window import positions

if TYPE_CHECKING:
    from collections.abc import Mapping


class Mode(StrEnum):
    MAX = "max"
    AVG = "avg"  # DNNMark: AMD only, where the next two are missing
    AVG_INCLUDE_PADDING = "avg_include_padding"
    AVG_EXCLUDE_PADDING = "avg_exclude_padding"


@dataclass(frozen=True)
class Pooling(Layer):
    kind = "pool"
    section = "Pooling"
    sample: ClassVar[Mapping[str, str]] = {
        "n": "100",
        "c": "3",
        "h": "256",
        "w": "256",
        "pool_mode": "max",
        "kernel_size": "3",
        "pad": "0",
        "stride": "2",
    }

    mode: Mode = key("pool_mode", default=Mode.MAX)
    kernel_h: int = key("kernel_size", "kernel_size_h", default=3, least=1)
    kernel_w: int = key("kernel_size", "kernel_size_w", default=3, least=1)
    pad_h: int = key("pad", "pad_h", default=0, least=0)
    pad_w: int = key("pad", "pad_w", default=0, least=0)
    stride_h: int = key("stride", "stride_h", default=2, least=1)
    stride_w: int = key("stride", "stride_w", default=2, least=1)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        n, c, h, w = x.shape
        for axis, pad, kernel in (
            ("height", self.pad_h, self.kernel_h),
            ("width", self.pad_w, self.kernel_w),
        ):
            if pad >= kernel:  # there would be windows without any element
                fact = f"a padding of {pad} for a kernel {axis} of {kernel}"
                raise ValueError(f"{fact}; make the padding smaller than the kernel")
        p = positions("height", h, self.kernel_h, self.pad_h, self.stride_h)
        q = positions("width", w, self.kernel_w, self.pad_w, self.stride_w)
        return TensorSpec((n, c, p, q), x.dtype)

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Per element of y, for windows of R S elements, the padding counted as elements.

        Forward: R S - 1 comparisons, or as many additions and a multiplication. Backward: the
        comparisons once more, to find the maximum, and one addition; or a multiplication and R S
        additions. x is read in backward only to find the maximum.
        """
        (x,) = inputs
        y = self.output(inputs)
        window = self.kernel_h * self.kernel_w
        largest = self.mode is Mode.MAX
        if direction is Pass.FORWARD:
            return OpCount((window - 1 if largest else window) * y.size, 0, x.nbytes, y.nbytes)
        flops = (window if largest else window + 1) * y.size
        return OpCount(flops, 0, y.nbytes + (x.nbytes if largest else 0), x.nbytes)
