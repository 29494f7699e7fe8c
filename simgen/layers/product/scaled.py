"""Matrix products of numbers that share scales, in tiles: they become float32 as they are loaded.

A factor is a number times the scale of its group, which rounds once where the scale is float32.
What follows is the product of simgen/layers/product/matrix_product.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, U
from simgen.layers.base import MAX_INT
from simgen.layers.product import tile
from simgen.layers.product.matrix_product import Product
from simgen.layers.product.written import items_of
from simgen.layers.written import Places, Writes, cut_by, partial_sums, writes

if TYPE_CHECKING:
    from simgen.ground.ir import Kernel
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.product.matrix_product import Sides
    from simgen.layers.quantised import Side
    from simgen.layers.written import Values

UNUSED = ("alpha", "beta", "with_c", "with_bias", "batch", "stages", "tensor_maps", "groups",
          "left_pitch", "right_pitch", "result_pitch", "paired", "leftelement", "rightelement",
          "addedelement", "total", "group", "with_groups")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ScaledProduct(Product):
    """y = x w^T, of which w has a format, and x may."""

    left: Side
    right: Side

    def check(self) -> None:
        """Offsets are elements in 32 bits, not bytes.

        Raises:
            ValueError: a matrix has more.
        """
        largest = max(self.m * self.k, self.k * self.n, self.m * self.n)
        if largest > MAX_INT:
            raise ValueError(f"a matrix of {largest} elements is larger than {MAX_INT}; cut it")
        _ = self.chunks

    @property
    def short(self) -> bool:
        return False

    def _tiles(self, sides: Sides) -> tuple[tile.Tile, ...]:
        return tile.TILES

    @property
    def scaled(self) -> bool:
        """Whether both factors have scales."""
        return self.left.groups is not None

    def _tiled(self, prefix: str) -> tuple[Kernel, tuple[int, int, int]]:
        kernel, grid = super()._tiled(prefix)
        sides = self.left, self.right
        own = (each for each in kernel.constants if not self._is_unused(each[0]))
        scales = [each.groups.c if each.groups else "float" for each in sides]
        constants = (
            *own,
            ("left_group", self.left.group),
            ("right_group", self.right.group),
            ("sharing", self.right.sharing),
            ("leftnumber", self.left.c),
            ("rightnumber", self.right.c),
            ("leftscale", scales[0]),
            ("rightscale", scales[1]),
            ("with_left_scales", int(self.scaled)),
        )
        name = f"{kernel.name}_{self.left.name}_{self.right.name}"
        return replace(kernel, name=name, template="scaled_fc.hip", constants=constants), grid

    def _is_unused(self, name: str) -> bool:
        """Whether a constant of other products is none of these."""
        return name in UNUSED or name in dict(self.epilogue.constants)

    def bound(self, a: Array, b: Array, y: Array, columns: Array | float = 1.0) -> Array:
        return super().bound(a, b, y, columns) + self._of_factors(a, b)

    def spread(
        self, a: Array, b: Array, y: Array, hard: Array, columns: Array | float = 1.0
    ) -> Array:
        more = self._of_factors(a, b)
        return super().spread(a, b, y, hard - more, columns) + more

    def _of_factors(self, a: Array, b: Array) -> Array:
        """What factors lose that round as they are loaded."""
        roundings = self.left.roundings + self.right.roundings
        made: Array = roundings * U * SECOND_ORDER * (np.abs(a) @ np.abs(b)) + TINY
        return made


@writes("scaled_fc")
def _tiled(c: Values, block: int) -> list[Writes]:
    m, n = c["m"], c["n"]
    x, y = cut_by(Places(n, 1, c["tile_n"])), cut_by(Places(m, n, c["tile_m"]))
    z = cut_by(partial_sums(c["k"], c["chunk"], m * n))
    return [Writes(-1, x, y, z, items=items_of(c))]
