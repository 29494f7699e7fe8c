"""The algorithms of a convolution: which config value means which, and what each one computes.

    direct         sums over the taps, with pixels in registers and filters in LDS
    implicit_gemm  a matrix product whose second factor, the unrolled windows, is never in memory
    im2col         unrolls the windows in a workspace, and then multiplies
    winograd       F(2 x 2, 3 x 3): 16 products in place of 36; for 3 x 3 filters of stride 1

DNNMark's values are those of cuDNN's enumerations. cuDNN's algorithms are not simgen's; each value
stands for the one that is nearest in kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from simgen.ir import Launch, TensorSpec
from simgen.layers import conv_direct, conv_gemm, conv_winograd, rounding
from simgen.layers.base import Lowering
from simgen.layers.conv_geometry import Geometry, Names, Split, to_image, to_result
from simgen.layers.matrix_product import Channels, sum_of

if TYPE_CHECKING:
    from simgen.layers.conv_geometry import Gather
    from simgen.layers.rounding import Array


FEW_ROWS = 16  # output channels
FEW_PRODUCTS = 128  # of a sum; of the filters' gradient, columns
LITTLE = 2**24  # multiply-adds


class Algorithm(StrEnum):
    DIRECT = "direct"
    IMPLICIT_GEMM = "implicit_gemm"
    IM2COL = "im2col"
    WINOGRAD = "winograd"


OURS = frozenset(str(each) for each in Algorithm)


class Algo(StrEnum):
    """Forward and backward-filter algorithm; numbers are cudnnConvolutionBwdFilterAlgo_t.

    A number above 0 leaves the forward algorithm at implicit GEMM, as in DNNMark. Fourier
    transforms are not among simgen's algorithms: they stand for implicit GEMM. Winograd's is not
    used for the gradient of the filters, which then is computed by implicit GEMM.
    """

    ALGO_0 = "0"  # what DNNMark takes when nothing is given: simgen chooses, as for "auto"
    ALGO_1 = "1"  # implicit GEMM, as 3
    ALGO_FFT = "2"
    ALGO_3 = "3"
    ALGO_WINOGRAD = "4"
    ALGO_WINOGRAD_NONFUSED = "5"
    ALGO_FFT_TILING = "6"
    FFT = "fft"  # forward too
    WINOGRAD = "winograd"  # forward too
    CUDNN = "cudnn"  # ask the library's heuristics: simgen's
    AUTO = "auto"  # let the library measure: simgen's heuristics
    DIRECT = "direct"  # this one and the next two: simgen's own names, for all passes
    IMPLICIT_GEMM = "implicit_gemm"
    IM2COL = "im2col"


class DataAlgo(StrEnum):
    """Backward-data algorithm; cudnnConvolutionBwdDataAlgo_t, and simgen's own names."""

    ALGO_0 = "0"  # what DNNMark takes when nothing is given: `algo` if that is a name of simgen's
    ALGO_1 = "1"  # implicit GEMM
    FFT = "fft"
    FFT_TILING = "fft_tiling"
    WINOGRAD = "winograd"
    WINOGRAD_NONFUSED = "winograd_nonfused"
    DIRECT = "direct"
    IMPLICIT_GEMM = "implicit_gemm"
    IM2COL = "im2col"


class Unknown(StrEnum):
    """What is computed from the other two."""

    RESULT = "result"
    IMAGE = "image"
    FILTERS = "filters"


def for_forward(algo: Algo) -> Algorithm | None:
    """What the config wants of the forward pass; None: simgen chooses."""
    if algo in (Algo.ALGO_0, Algo.CUDNN, Algo.AUTO):
        return None
    return Algorithm(algo) if algo in OURS else Algorithm.IMPLICIT_GEMM


def for_data(algo: Algo, data_algo: DataAlgo) -> Algorithm | None:
    """The same of the backward-data pass."""
    if data_algo is DataAlgo.ALGO_0:
        return Algorithm(algo) if algo in OURS else None
    if data_algo is DataAlgo.WINOGRAD_NONFUSED:
        return Algorithm.WINOGRAD
    return Algorithm(data_algo) if data_algo in OURS else Algorithm.IMPLICIT_GEMM


def for_filters(algo: Algo) -> Algorithm | None:
    """The same of the backward-weight pass."""
    found = for_forward(algo)
    return Algorithm.IMPLICIT_GEMM if found is Algorithm.WINOGRAD else found


def choose(g: Geometry, unknown: Unknown) -> Algorithm:
    """The algorithm that should be fastest on a GPU.

    A tile of a matrix product needs some 32 rows and many products in each sum. Where there are few
    channels on either side, most of it would be idle: then direct. So it is where there is little
    to compute at all: direct kernels execute the fewest instructions, which counts in simulators.
    """
    if not maps(g, unknown):
        return Algorithm.IMPLICIT_GEMM
    channels, filters = g.group_channels, g.group_filters
    rows, depth = {
        Unknown.RESULT: (filters, channels * g.taps),
        Unknown.IMAGE: (channels, filters * g.taps),
        Unknown.FILTERS: (filters, channels * g.taps),
    }[unknown]
    little = g.batch * g.pixels * g.size <= LITTLE
    few = little or rows <= FEW_ROWS or depth <= FEW_PRODUCTS
    return Algorithm.DIRECT if few else Algorithm.IMPLICIT_GEMM


def maps(g: Geometry, unknown: Unknown) -> bool:
    """Whether the direct kernels can do the geometry."""
    if unknown is Unknown.FILTERS:
        return conv_direct.maps_filters(g)
    return conv_direct.maps_gathers(gathers_of(g, unknown))


def gathers_of(g: Geometry, unknown: Unknown) -> tuple[Gather, ...]:
    """What computes a result or an image; nothing where the filters are computed."""
    if unknown is Unknown.FILTERS:
        return ()
    return to_result(g) if unknown is Unknown.RESULT else to_image(g)


@dataclass(frozen=True)
class Job:
    """One pass of a convolution, by one algorithm."""

    g: Geometry
    unknown: Unknown
    algorithm: Algorithm
    names: Names

    @classmethod
    def of(cls, g: Geometry, unknown: Unknown, wanted: Algorithm | None, names: Names) -> Job:
        """By the algorithm wanted, or by the one that simgen chooses."""
        return cls(g, unknown, wanted or choose(g, unknown), names)

    def check(self) -> None:
        """Raises:
        ValueError: the algorithm cannot do the geometry.
        """
        (r, s), (u, v), (d, e) = self.g.kernel, self.g.stride, self.g.dilation
        fact = f"filters of {r} x {s} with stride {u} x {v} and dilation {d} x {e}"
        if self.algorithm is Algorithm.DIRECT and not maps(self.g, self.unknown):
            raise ValueError(f"{fact} are too large for algorithm direct; choose implicit_gemm")
        if self.algorithm is Algorithm.WINOGRAD and not conv_winograd.fits(self._gathers()[0]):
            cure = "winograd takes 3 x 3, stride 1 and dilation 1: choose implicit_gemm"
            raise ValueError(f"{fact}; {cure}")

    def workspaces(self) -> tuple[tuple[str, TensorSpec], ...]:
        """(port, tensor) of what the pass's own kernels write and read."""
        if self.algorithm is Algorithm.WINOGRAD:
            return conv_winograd.workspaces(self._gathers()[0])
        found = []
        if self.algorithm is Algorithm.IM2COL:
            gathers = self._gathers() if self._gathers() else to_result(self.g)
            found.append((conv_gemm.WINDOWS, conv_gemm.windows(gathers)))
        if self._split().splits > 1:
            found.append((self.names.partial, TensorSpec((self._split().splits, self._size()))))
        return tuple(found)

    def lower(self) -> Lowering:
        """Kernels and launches, without those of the bias's gradient."""
        made, splits = self._products(), self._split().splits
        if splits == 1:
            return made
        channels = Channels(self.names.epilogue, *self._channels())
        kernel, grid = sum_of("conv", splits, self._size(), channels=channels)
        args = (self.names.partial, *self.names.epilogue.ports, self.names.target)
        launch = Launch(kernel.name, grid, args)
        return Lowering((*made.kernels, kernel), (*made.launches, launch))

    def bound(self, sums: Array, source: Array, filters: Array) -> Array:
        """Bound on the error of each element that is computed.

        `sums` are those of the absolute values of the terms, and `source` and `filters` the
        absolute values of what the job reads.
        """
        if self.algorithm is Algorithm.WINOGRAD:
            (each,) = self._gathers()
            sums = conv_winograd.magnitude(source, filters, each)
            depth = each.group_in + conv_winograd.TRANSFORMED
        else:
            split = self._split()
            depth = split.depth + (split.splits if split.splits > 1 else 0)
        made: Array = sums * rounding.accumulated(depth) + 16 * (depth + 1) * rounding.TINY
        return made

    def _products(self) -> Lowering:
        unrolled = self.algorithm is Algorithm.IM2COL
        if self.unknown is Unknown.FILTERS:
            if self.algorithm is Algorithm.DIRECT:
                return conv_direct.filters(self.g, self.names)
            return conv_gemm.filters(self.g, self.names, unrolled=unrolled)
        if self.algorithm is Algorithm.WINOGRAD:
            return conv_winograd.gather(self._gathers()[0], self.names)
        if self.algorithm is Algorithm.DIRECT:
            return conv_direct.gather(self._gathers(), self.names)
        return conv_gemm.gather(self._gathers(), self.names, unrolled=unrolled)

    def _gathers(self) -> tuple[Gather, ...]:
        return gathers_of(self.g, self.unknown)

    def _channels(self) -> tuple[int, int]:
        """Channels of what is computed, and elements of each, where it is no filters."""
        g = self.g
        if self.unknown is Unknown.RESULT:
            return g.filters, g.pixels
        return g.channels, g.image[0] * g.image[1]

    def _size(self) -> int:
        """Elements of what is computed."""
        g = self.g
        if self.unknown is Unknown.FILTERS:
            return g.size
        if self.unknown is Unknown.RESULT:
            return g.batch * g.filters * g.pixels
        return g.batch * g.channels * g.image[0] * g.image[1]

    def _split(self) -> Split:
        """How the sums are shared out."""
        direct = self.algorithm is Algorithm.DIRECT
        if self.unknown is Unknown.FILTERS:
            return conv_direct.filter_split(self.g) if direct else conv_gemm.filter_split(self.g)
        gathers = self._gathers()
        if direct or self.algorithm is Algorithm.WINOGRAD:
            return Split(gathers[0].depth, 1, max(each.met for each in gathers))
        return conv_gemm.gather_split(gathers)
