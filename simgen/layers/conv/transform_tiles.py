"""What the algorithms that transform tiles, Winograd's and Fourier's, have in common.

Each transforms filters and tiles of pixels, multiplies place by place of the transformed tiles, a
matrix product for every place and group, and transforms the products back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, Kernel, Launch
from simgen.layers.product import tile
from simgen.layers.product.matrix_product import UNALIGNED

if TYPE_CHECKING:
    from simgen.ground.machine import Machine
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.conv.geometry import Gather


# Tiles for complex products, whose work-items have 4 rows of real and imaginary parts. With a batch
# of 100 images of one tile, 128 columns would compute 20% too much.
NARROWER = (
    tile.Tile(128, 104, 8, 8, 13, False, 0.95, wavefront=32, at_once=3),
    tile.Tile(192, 104, 8, 8, 13, False, 0.95, wavefront=32, at_once=2),
    tile.Tile(128, 96, 8, 8, 12, False, 0.95, wavefront=32, at_once=3),
)


@dataclass(frozen=True)
class Products:
    """(m, k) times (k, n) for all places of a transformed tile and all groups, by rows."""

    m: int
    n: int
    k: int
    places: int
    groups: int
    machine: Machine  # machine that they are planned for
    right_along: str = "n"  # "k": the second factors lie as (n, k)
    most: int = 1  # chunks of k; the products of each lie behind those of the one before
    by_complex: bool = False  # (m / 2, k / 2) times (k / 2, n) complex numbers (complex.h)

    @property
    def cut(self) -> tile.Cut:
        tiles = tile.TILES if min(self._widths) > 1 else UNALIGNED
        if self.by_complex:
            tiles += NARROWER
        return tile.best_cut(
            *self._sides, machine=self.machine, tiles=tiles, splits=self.most, nbytes=self._nbytes
        )

    @property
    def cycles(self) -> float:
        """Estimate of the time."""
        return tile.cycles(self.cut, *self._sides, self.machine, self._nbytes)

    @property
    def _sides(self) -> tuple[int, int, int, int]:
        return self.m, self.n, self.k, self.places * self.groups

    @property
    def _nbytes(self) -> tuple[int, int, int]:
        """Size in bytes of an element of each factor and of the product."""
        left, right, product = tile.WORDS
        return left // 2 if self.by_complex else left, right, product

    @property
    def _widths(self) -> tuple[int, int]:
        """Elements of a load of either side."""
        return tile.width(self.k), tile.width(self.k if self.right_along == "k" else self.n)

    def lower(self, name: str, args: tuple[str, str, str]) -> tuple[Kernel, Launch]:
        found = self.cut
        left_width, right_width = self._widths
        constants: Constants = (
            ("places", self.places),
            ("groups", self.groups),
            ("m", self.m),
            ("n", self.n),
            ("k", self.k),
            ("splits", found.splits),
            ("chunk", found.chunk),
            ("left_along", "k"),
            ("left_width", left_width),
            ("right_along", self.right_along),
            ("right_width", right_width),
            ("by_complex", int(self.by_complex)),
            ("store_width", tile.width(self.n)),
            *found.tile.constants,
        )
        kernel = Kernel(name, "conv_products.hip", found.tile.block, constants)
        across, down = found.tile.grid(self.m, self.n)
        return kernel, Launch(name, (across, down, self.places * self.groups * found.splits), args)


def ordered(filters: Array, each: Gather) -> Array:
    """(G, output channels, input channels, R, S), with taps in the order of the sum."""
    places = [
        np.arange(count) * stride
        for count, stride in (
            (each.groups, each.group_stride),
            (each.group_out, each.out_stride),
            (each.group_in, each.in_stride),
        )
    ]
    for axis, stride in ((each.rows, each.kernel[1]), (each.columns, 1)):
        places.append((axis.filter_first + axis.filter_step * np.arange(axis.taps)) * stride)
    taken: Array = filters.reshape(-1)[sum(np.ix_(*places), start=np.zeros((), np.int64))]
    return taken


def windows(
    image: Array,
    starts: tuple[int, int],
    counts: tuple[int, int],
    steps: tuple[int, int],
    sizes: tuple[int, int],
) -> Array:
    """Tiles of an image (C, H, W): (C, tiles down, tiles across, rows, columns).

    There are `counts` of `sizes` pixels, `steps` apart; outside of the image all is zero.
    """
    found = image
    axes = zip(starts, counts, steps, sizes, strict=True)
    for at, (start, count, step, size) in enumerate(axes, 1):
        places = start + np.arange((count - 1) * step + size)
        inside = (places >= 0) & (places < image.shape[at])
        taken = np.take(found, np.where(inside, places, 0), axis=at)
        found = taken * inside.reshape([-1 if at == each_axis else 1 for each_axis in range(3)])
    views = np.lib.stride_tricks.sliding_window_view(found, sizes, axis=(1, 2))
    tiles: Array = views[:, :: steps[0], :: steps[1]]
    return tiles
