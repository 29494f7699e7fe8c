"""Convolution of images with a bank of K = num_output filters, without a bias.

    forward   y[n,k,p,q]  = sum over c,r,s of  x[n, c, p u + r - a, q v + s - b] * w[k,c,r,s]
    backward  dw[k,c,r,s] = sum over n,p,q of  x[n, c, p u + r - a, q v + s - b] * dy[n,k,p,q]
              dx[n,c,i,j] = sum over k,p,q of  dy[n,k,p,q] * w[k, c, i - p u + a, j - q v + b]

    x, dx  (N, C, H, W)     w, dw  (K, C, R, S)     y, dy  (N, K, P, Q)
    R, S   kernel_size      a, b   pad              u, v   stride         (height, width each)
    P = floor((H + 2 a - R) / u) + 1, and Q likewise; x and w are zero outside of their extents

That is conv_mode "cross_correlation". "convolution" turns the filters by 180 degrees: w[k,c,r,s]
stands for w[k, c, R-1-r, S-1-s], with the same shapes. "transpose" swaps the roles of y and dx:
w is (C, K, R, S) and P = (H - 1) u + R - 2 a.

Source: cudnnConvolutionForward and its two backward functions; "transpose" is miopenTranspose of
MIOpen. (On AMD GPUs, DNNMark turns "convolution" into miopenTranspose with the shapes of
"cross_correlation". simgen means the same by a config on every machine: what cuDNN means.)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from simgen.ir import OpCount, Pass, TensorSpec
from simgen.layers.base import Layer, key
from simgen.layers.window import positions, spread

if TYPE_CHECKING:
    from collections.abc import Mapping


class Mode(StrEnum):
    CONVOLUTION = "convolution"
    CROSS_CORRELATION = "cross_correlation"
    TRANSPOSE = "transpose"  # DNNMark: AMD only


class Algo(StrEnum):
    """Forward and backward-filter algorithm; numbers are cudnnConvolutionBwdFilterAlgo_t.

    A number leaves the forward algorithm at implicit GEMM.
    """

    ALGO_0 = "0"  # what DNNMark takes when nothing is given
    ALGO_1 = "1"
    ALGO_FFT = "2"
    ALGO_3 = "3"
    ALGO_WINOGRAD = "4"
    ALGO_WINOGRAD_NONFUSED = "5"
    ALGO_FFT_TILING = "6"
    FFT = "fft"  # forward too
    WINOGRAD = "winograd"  # forward too
    CUDNN = "cudnn"  # ask the library's heuristics
    AUTO = "auto"  # let the library measure


class DataAlgo(StrEnum):
    """Backward-data algorithm, cudnnConvolutionBwdDataAlgo_t."""

    ALGO_0 = "0"  # what DNNMark takes when nothing is given
    ALGO_1 = "1"
    FFT = "fft"
    FFT_TILING = "fft_tiling"
    WINOGRAD = "winograd"
    WINOGRAD_NONFUSED = "winograd_nonfused"


class Preference(StrEnum):
    """How much memory the library may take for an algorithm."""

    NO_WORKSPACE = "no_workspace"
    FASTEST = "fastest"
    SPECIFY_WORKSPACE_LIMIT = "specify_workspace_limit"


@dataclass(frozen=True)
class Convolution(Layer):
    kind = "conv"
    section = "Convolution"
    sample: ClassVar[Mapping[str, str]] = {
        "n": "126",
        "c": "3",
        "h": "256",
        "w": "256",
        "conv_mode": "convolution",
        "num_output": "32",
        "kernel_size": "5",
        "pad": "2",
        "stride": "1",
    }

    mode: Mode = key("conv_mode", default=Mode.CROSS_CORRELATION)
    num_output: int = key("num_output", default=32, least=1)
    kernel_h: int = key("kernel_size", "kernel_size_h", default=5, least=1)
    kernel_w: int = key("kernel_size", "kernel_size_w", default=5, least=1)
    pad_h: int = key("pad", "pad_h", default=2, least=0)
    pad_w: int = key("pad", "pad_w", default=2, least=0)
    stride_h: int = key("stride", "stride_h", default=1, least=1)
    stride_w: int = key("stride", "stride_w", default=1, least=1)
    propagation: bool = key("propagation", default=True)  # compute dx; the first layer needs none
    algo: Algo = key("algo", default=Algo.ALGO_0)
    data_algo: DataAlgo = key("algod", default=DataAlgo.ALGO_0)
    forward_preference: Preference = key("conv_fwd_pref", default=Preference.FASTEST)
    filter_preference: Preference = key("conv_bwd_filter_pref", default=Preference.FASTEST)
    data_preference: Preference = key("conv_bwd_data_pref", default=Preference.FASTEST)

    def weights(self, x: TensorSpec) -> TensorSpec:
        """w: (K, C, R, S), and (C, K, R, S) for "transpose"."""
        channels = (self.num_output, x.shape[1])
        if self.mode is Mode.TRANSPOSE:
            channels = (x.shape[1], self.num_output)
        return TensorSpec((*channels, self.kernel_h, self.kernel_w))

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        n, _, h, w = x.shape
        extent = spread if self.mode is Mode.TRANSPOSE else positions
        p = extent("height", h, self.kernel_h, self.pad_h, self.stride_h)
        q = extent("width", w, self.kernel_w, self.pad_w, self.stride_w)
        return TensorSpec((n, self.num_output, p, q), x.dtype)

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """One fused multiply-add per filter tap, in each of y, dw and dx.

        2 K C R S per pixel of y ("transpose": of x), the taps that fall into the padding too, as
        DeepBench and MIOpenDriver count. Every tensor counts once in the bytes; without
        `propagation` neither dx is computed nor w read.
        """
        (x,) = inputs
        y, w = self.output(inputs), self.weights(x)
        image = x if self.mode is Mode.TRANSPOSE else y
        n, _, p, q = image.shape
        flops = 2 * w.size * n * p * q
        if direction is Pass.FORWARD:
            return OpCount(flops, 0, x.nbytes + w.nbytes, y.nbytes)
        filters = OpCount(flops, 0, x.nbytes + y.nbytes, w.nbytes)
        return filters + OpCount(flops, 0, w.nbytes, x.nbytes) if self.propagation else filters
