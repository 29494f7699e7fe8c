"""One pass of a convolution by one algorithm: what all have, and each answers for itself.

The classes are Direct (direct.py), ImplicitGemm and Im2col (implicit_gemm.py), ChannelsLast
(channels_last.py), Winograd and Fourier (transformed.py); `algorithms.py` chooses among them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.dtypes import DType
from simgen.ground.ir import Launch, TensorSpec
from simgen.ground.numerics import rounding
from simgen.ground.numerics.rounding import U
from simgen.ground.numerics.spread import Spread, correlated, repeats
from simgen.layers.base import Choice, Lowering
from simgen.layers.conv import spread_of_sums
from simgen.layers.conv.geometry import Gather, Geometry, Names, Split, to_image, to_result
from simgen.layers.product import fragment
from simgen.layers.product.matrix_product import Channels, sum_of

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.product.tile import Tile

Workspaces = tuple[tuple[str, TensorSpec], ...]  # (port, tensor)
NAMELESS = Names("", "", "", "")


class Algorithm(StrEnum):
    DIRECT = "direct"
    IMPLICIT_GEMM = "implicit_gemm"
    IM2COL = "im2col"
    CHANNELS_LAST = "channels_last"
    WINOGRAD = "winograd"
    FFT = "fft"


OF_INTEGERS = (Algorithm.DIRECT, Algorithm.IMPLICIT_GEMM)


class Unknown(StrEnum):
    """What is computed from the other two."""

    RESULT = "result"
    IMAGE = "image"
    FILTERS = "filters"


@dataclass(frozen=True)
class ConvJob(ABC):
    """One pass of a convolution; the class is the algorithm."""

    g: Geometry
    unknown: Unknown
    names: Names = NAMELESS

    algorithm: ClassVar[Algorithm]
    reads: ClassVar[bool] = True  # kernels read narrow elements; transforms take float32
    grain: ClassVar[float] = 1.0  # the grain of products after transformations; 0: they have none
    growth: ClassVar[int] = 1  # how much larger sums are on their way, in grains; 0: no grain

    # ---- What each algorithm says ----

    @property
    @abstractmethod
    def fault(self) -> str:
        """Why it cannot do the geometry, behind what the filters are, and a cure; "": it can."""

    @abstractmethod
    def products(self) -> Lowering:
        """Kernels and launches that leave the sums, or partial ones."""

    @property
    @abstractmethod
    def split(self) -> Split:
        """How the sums are shared out."""

    @property
    @abstractmethod
    def by_fours(self) -> bool:
        """Whether the kernels store by fours what they compute, as narrow elements must be."""

    @property
    def tile(self) -> Tile | None:
        """Tile of the matrix product, if the algorithm is one."""
        return None

    def planned(self) -> tuple[Choice, ...]:
        """What was chosen for the machine."""
        return ()

    def copies(self) -> Workspaces:
        """Workspaces beside partial sums."""
        return ()

    def native(self) -> frozenset[str]:
        """Ports whose tensors it reads with channels last, as they may be stored."""
        return frozenset()

    # ---- What follows ----

    @property
    def of_filters(self) -> bool:
        return self.unknown is Unknown.FILTERS

    @cached_property
    def gathers(self) -> tuple[Gather, ...]:
        """What computes a result or an image; nothing where the filters are computed."""
        if self.of_filters:
            return ()
        return to_result(self.g) if self.unknown is Unknown.RESULT else to_image(self.g)

    def check(self) -> None:
        """Raises:
        ValueError: the algorithm cannot do the geometry.
        """
        (r, s), (u, v), (d, e) = self.g.kernel, self.g.stride, self.g.dilation
        if not self.g.dtype.is_float and self.algorithm not in OF_INTEGERS:
            fact = f"algorithm {self.algorithm} takes no {self.g.dtype}"
            raise ValueError(f"{fact}; choose {' or '.join(OF_INTEGERS)}, or leave algo out")
        if fault := self.fault:
            of = f"filters of {r} x {s} with stride {u} x {v} and dilation {d} x {e}"
            raise ValueError(of + fault)

    @property
    def splits(self) -> int:
        """Partial sums of which each element that is computed is the sum."""
        return self.split.splits

    @property
    def stores(self) -> bool:
        """Whether kernels store narrow elements, or the sum of what they leave does; if not, it is
        float32."""
        if not self.g.dtype.is_float:
            return True
        return self.by_fours if self.reads and self.splits == 1 else self.reads

    @property
    def sums_follow(self) -> bool:
        """Whether another kernel adds partial sums, or stores integers by fours."""
        narrow = self._result.is_narrow and not self.g.dtype.is_float
        return self.splits > 1 or (narrow and not self.by_fours)

    @property
    def _result(self) -> DType:
        """The type of what is computed."""
        return self.names.epilogue.result(self.g.dtype)

    @property
    def typed(self) -> Names:
        """The names with the types of elements that the kernels have."""
        dtype = self.g.dtype if self.reads else DType.F32
        if self.sums_follow and self.splits == 1:
            names = replace(self.names, dtype=dtype).summing
            return replace(names, target=self.names.partial)
        return replace(self.names, dtype=dtype, stored=self._result if self.stores else DType.F32)

    def workspaces(self) -> Workspaces:
        """(port, tensor) of what the pass's own kernels write and read."""
        if not self.sums_follow:
            return self.copies()
        partial = TensorSpec((self.splits, self._size), self.g.dtype.accumulation)
        return (*self.copies(), (self.names.partial, partial))

    @property
    def nbytes(self) -> int:
        """Size of all workspaces in bytes."""
        return sum(spec.nbytes for _, spec in self.workspaces())

    @property
    def _extents(self) -> tuple[int, int]:
        """Channels of what is computed, and elements of each, where it is no filters."""
        g = self.g
        if self.unknown is Unknown.RESULT:
            return g.filters, g.pixels
        return g.channels, g.image[0] * g.image[1]

    @property
    def _size(self) -> int:
        """Elements of what is computed."""
        channels, pixels = self._extents
        return self.g.size if self.of_filters else self.g.batch * channels * pixels

    def lower(self) -> Lowering:
        """Kernels and launches, without those of the bias's gradient."""
        made = self.products()
        if not self.sums_follow:
            return made
        of = self.g.dtype.accumulation
        kernel, grid = sum_of(
            self.g.machine,
            "conv",
            self.splits,
            self._size,
            channels=Channels(self.names.epilogue, *self._extents),
            of=of,
            added=of,
            result=self._result if self.stores else DType.F32,
        )
        args = (self.names.partial, *self.names.epilogue.ports, self.names.target)
        launch = Launch(kernel.name, grid, args)
        return Lowering((*made.kernels, kernel), (*made.launches, launch))

    # ---- Errors ----

    @property
    def _depth(self) -> int:
        split = self.split
        return split.depth + (split.splits if split.splits > 1 else 0)

    def bound(self, sums: Array, source: Array, filters: Array) -> Array:
        """Bound on the error of each element that is computed.

        `sums` are those of the absolute values of the terms, and `source` and `filters` the
        absolute values of what the job reads.
        """
        relative, absolute = self._lost(source, filters)
        rounded = rounding.accumulated(self._depth) + relative
        made: Array = sums * rounded + 16 * (self._depth + 1) * rounding.TINY + absolute
        return made

    @property
    def _terms(self) -> int:
        return max((each.met for each in self.gathers), default=self.g.batch * self.g.pixels)

    def _lost(self, source: Array, filters: Array) -> tuple[float, float]:
        """What matrix instructions change sums by, beside roundings of float32."""
        if self.tile is None or not self.tile.matrix:
            return 0.0, 0.0
        return fragment.lost_of(self._terms, source, filters, self.g.dtype, self.g.machine)

    def spread(self, source: Array, filters: Array, hard: Array) -> Spread:
        """Spread of the errors of each computed element; `hard` are its bounds."""
        g = self.g
        root, squares = self.walked(source, filters)
        equal = self._equal(source, filters)
        relative, absolute = self._lost(np.abs(source), np.abs(filters))
        magnitude = (hard - absolute) / (rounding.accumulated(self._depth) + relative)
        sigma = U * root * rounding.SECOND_ORDER + 16 * (self._depth + 1) * rounding.TINY
        if relative or absolute:
            sigma = sigma + relative * magnitude + absolute
        if self.tile is not None and self.tile.matrix and fragment.biased(g.dtype, g.machine):
            return Spread(hard)
        return Spread(correlated(sigma, hard, self._terms, squares, magnitude, equal))

    def walked(self, source: Array, filters: Array) -> tuple[Array, Array]:
        """Roots of the sums of all squared partial sums, and sums of squared products."""
        if self.of_filters:
            return spread_of_sums.filter_gradient(source, filters, self.g, *self.filter_chunks())
        result = self.unknown is Unknown.RESULT
        walk = spread_of_sums.result if result else spread_of_sums.image_gradient
        return walk(source, filters, self.g, self.split)

    def filter_chunks(self) -> tuple[list[int], tuple[int, ...]]:
        """Ends of the chunks of all samples' pixels, and the stages of a chunk's sum."""
        total, split = self.g.batch * self.g.pixels, self.split
        return [min(total, split.chunk * (at + 1)) for at in range(split.splits)], ()

    def _equal(self, source: Array, filters: Array) -> float:
        """How many equal products a sum may have: no more than equal factors of either side."""
        if self.of_filters:
            channels = (t.swapaxes(0, 1).reshape(t.shape[1], -1) for t in (source, filters))
            return min(repeats(each) for each in channels)
        g = self.g
        w = filters.reshape(g.groups, g.group_filters, g.group_channels, g.taps)
        w = w if self.unknown is Unknown.RESULT else w.swapaxes(1, 2)
        rows = np.ascontiguousarray(w).reshape(-1, w.shape[2] * g.taps)
        return min(repeats(rows), repeats(source.reshape(len(source), -1)))

    def magnitudes(self, sums: Array, source: Array, filters: Array) -> Array:
        """Bound on all that is added up on the way to each element; arguments as of `bound`."""
        return sums
