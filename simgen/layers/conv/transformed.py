"""The algorithms that transform tiles, multiply place by place and transform back."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, ClassVar, Protocol

from simgen.ground.arrays import np
from simgen.ground.numerics import rounding
from simgen.ground.numerics.spread import Spread
from simgen.layers.base import Choice, Lowering
from simgen.layers.conv import fft, winograd
from simgen.layers.conv import spread_of_transforms as spreads
from simgen.layers.conv.geometry import Gather, Geometry, Names, Split
from simgen.layers.conv.job import Algorithm, ConvJob, Workspaces

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.conv.transform_tiles import Products


class Transform(Protocol):
    """What a module knows that transforms tiles, multiplies and transforms back."""

    TAKES: str  # which geometries, for a message

    def fits(self, each: Gather) -> bool: ...
    def fits_filters(self, g: Geometry) -> bool: ...
    def workspaces(self, each: Gather) -> Workspaces: ...
    def filter_workspaces(self, g: Geometry) -> Workspaces: ...
    def products(self, each: Gather) -> Products: ...
    def filter_products(self, g: Geometry) -> Products: ...
    def gather(self, each: Gather, names: Names) -> Lowering: ...
    def filters(self, g: Geometry, names: Names) -> Lowering: ...
    def bound(self, source: Array, filters: Array, each: Gather) -> Array: ...
    def filter_bound(self, image: Array, result: Array, g: Geometry) -> Array: ...


@dataclass(frozen=True)
class Transformed(ConvJob):
    """What both have."""

    reads = False
    by: ClassVar[Transform]

    @property
    def fits(self) -> bool:
        return self.by.fits_filters(self.g) if self.of_filters else self.by.fits(self.gather)

    @property
    def multiplied(self) -> Products:
        by = self.by
        return by.filter_products(self.g) if self.of_filters else by.products(self.gather)

    def copies(self) -> Workspaces:
        by = self.by
        return by.filter_workspaces(self.g) if self.of_filters else by.workspaces(self.gather)

    def products(self) -> Lowering:
        if self.of_filters:
            return self.by.filters(self.g, self.typed)
        return self.by.gather(self.gather, self.typed)

    def bound(self, sums: Array, source: Array, filters: Array) -> Array:
        if self.of_filters:
            return self.by.filter_bound(source, filters, self.g)
        return self.by.bound(source, filters, self.gather)

    @abstractmethod
    def sigma(self, source: Array, filters: Array) -> tuple[Array, float, int]:
        """(sigma of each element, equal terms, elements that a rounding of a factor reaches)."""

    @property
    def gather(self) -> Gather:
        return self.gathers[0]

    @property
    def fault(self) -> str:
        fact = f"; {self.algorithm} takes {self.by.TAKES}: choose implicit_gemm"
        return "" if self.fits else fact

    @property
    def split(self) -> Split:
        return Split(1, 1, 1)  # what they share out, their own kernels add

    @property
    def by_fours(self) -> bool:
        return True

    def planned(self) -> tuple[Choice, ...]:
        why = f"transforms take no {self.g.dtype}: launches convert what they read and write"
        return (Choice("elements", "f32", why),) if self.g.dtype.is_narrow else ()

    @property
    def largest(self) -> int:
        """Elements of the largest workspace."""
        return max(spec.size for _, spec in self.copies())

    @property
    def _reached(self) -> int:
        """Elements that a rounding of a transformed factor of the filters' gradient reaches."""
        return (self.g.group_filters + self.g.group_channels) * self.g.taps

    def spread(self, source: Array, filters: Array, hard: Array) -> Spread:
        sigma, equal, shared = self.sigma(source, filters)
        largest = max(np.abs(t).max(initial=1.0) for t in (source, filters))
        flushed = 2.0**24 * largest * rounding.TINY  # in no more than 2^24 elements of tiles
        sigma = sqrt(equal) * sigma * rounding.SECOND_ORDER + flushed
        return Spread(np.minimum(sigma, hard), shared)


@dataclass(frozen=True)
class Winograd(Transformed):
    algorithm = Algorithm.WINOGRAD
    by: ClassVar[Transform] = winograd
    grain = winograd.GRAIN
    growth = winograd.GROWTH

    def magnitudes(self, sums: Array, source: Array, filters: Array) -> Array:
        if self.of_filters:
            return winograd.filter_magnitude(source, filters, self.g)
        return winograd.magnitude(source, filters, self.gather)

    def sigma(self, source: Array, filters: Array) -> tuple[Array, float, int]:
        if self.of_filters:
            return *spreads.winograd_filters(source, filters, self.g), self._reached
        each = self.gather
        return *spreads.winograd(source, filters, each), each.count + each.group_out * 4


@dataclass(frozen=True)
class Fourier(Transformed):
    algorithm = Algorithm.FFT
    by: ClassVar[Transform] = fft
    grain = 0.0
    growth = 0

    def sigma(self, source: Array, filters: Array) -> tuple[Array, float, int]:
        if self.of_filters:
            return *spreads.fourier_filters(source, filters, self.g), self._reached
        each, (down, across) = self.gather, fft.tiles_of(self.gather).steps
        return *spreads.fourier(source, filters, each), each.count + each.group_out * down * across
