"""How the gradient of max pooling is cut into tiles, one for each work-group.

A work-group searches every window that holds an element of its tile, so windows at a tile's edges
are searched more than once. On an H200 that costs less than to keep the places of all maxima in
memory between two kernels, and what takes the least time is a search of one round.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, lcm
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.layers.pool.along_axis import PooledAxis

WIDTHS = (64, 128, 256)  # elements, about: of tiles that are narrower than the image
HEIGHT = 64  # rows at most, of tiles that are lower
PLANES = 64  # whole planes of a tile at most
HELD = 2048  # windows of a tile at most; each needs 8 bytes of LDS
SEARCH = 2  # time of a round of searches, beside a round of sums
ROUNDS = 1.25  # the time is so much longer where there is more than one round of searches
NARROW = 1.4  # time factor where a tile is narrower than the image


@dataclass(frozen=True)
class GradientTile:
    """Elements of dx that a work-group makes, and the windows that hold one of them."""

    planes: int  # several only if they are whole
    h: int  # a multiple of the stride, or the whole height
    w: int
    windows_p: int
    windows_q: int
    before_p: int  # windows among those that begin above the tile's first window
    before_q: int

    @property
    def constants(self) -> tuple[tuple[str, int], ...]:
        """What the kernel's template reads."""
        return (
            ("tile_planes", self.planes),
            ("tile_h", self.h),
            ("tile_w", self.w),
            ("windows_p", self.windows_p),
            ("windows_q", self.windows_q),
            ("before_p", self.before_p),
            ("before_q", self.before_q),
        )

    def groups(self, planes: int, rows: PooledAxis, columns: PooledAxis) -> int:
        """Work-groups of so many planes."""
        across, down = ceil(columns.extent / self.w), ceil(rows.extent / self.h)
        return ceil(planes / self.planes) * down * across

    def rounds(self, block: int, results: int, vector: int) -> tuple[int, int]:
        """Rounds of `block` work-items: of searches for `results` windows, and of sums."""
        searches = self.planes * self.windows_p * ceil(self.windows_q / results)
        sums = self.planes * self.h * ceil(self.w / vector)
        return ceil(searches / block), ceil(sums / block)


def choose(
    planes: int, rows: PooledAxis, columns: PooledAxis, block: int, results: int, vector: int
) -> GradientTile:  # fmt: skip
    """The tile that should take the least time.

    A work-item of `block` searches `results` windows at a time, and makes `vector` elements.
    """

    def time(tile: GradientTile) -> float:
        search, sums = tile.rounds(block, results, vector)
        more = (ROUNDS if search > 1 else 1.0) * (NARROW if tile.w < columns.extent else 1.0)
        return tile.groups(planes, rows, columns) * (SEARCH * search + sums) * more

    return min(_tiles(planes, rows, columns), key=time)


def _tiles(planes: int, rows: PooledAxis, columns: PooledAxis) -> Iterator[GradientTile]:
    """What there is to choose from, the smallest tile at least."""
    unit = lcm(4, columns.stride)
    widths = sorted({min(columns.extent, ceil(w / unit) * unit) for w in WIDTHS} | {columns.extent})
    heights = {*range(rows.stride, min(rows.extent, HEIGHT) + 1, rows.stride), rows.extent}
    least = True
    for w in widths:
        for h in sorted(heights):
            windows_p, before_p = _windows(rows, h)
            windows_q, before_q = _windows(columns, w)
            held = ceil(windows_q / 4) * 4  # a row of windows is filled up in LDS
            whole = h == rows.extent and w == columns.extent
            for number in range(1, min(planes, PLANES if whole else 1) + 1):
                if least or number * windows_p * held <= HELD:
                    yield GradientTile(number, h, w, windows_p, windows_q, before_p, before_q)
                least = False


def _windows(axis: PooledAxis, extent: int) -> tuple[int, int]:
    """Windows that hold an element of `extent`, and how many of them begin before those."""
    if extent == axis.extent:
        return axis.windows, 0
    before = (axis.kernel - 1 - axis.pad) // axis.stride
    return (extent - 1 + axis.pad) // axis.stride + before + 1, before
