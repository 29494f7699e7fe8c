"""What the kernels of matrix products write: tiles of the result, or partial sums of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.layers.written import Pieces, Places, Writes, cut_by, dense, partial_sums, writes

if TYPE_CHECKING:
    from simgen.layers.written import Values


def items_of(c: Values) -> int:
    """Work-items that hold a tile, of any kernel that includes tile.h."""
    items: int = c["tile_m"] // c["item_m"] * (c["tile_n"] // c["item_n"])
    return items


@writes("gemm")
def _tiled(c: Values, block: int) -> list[Writes]:
    m, n = c["m"], c["result_pitch"] or c["n"]
    x, y = cut_by(Places(n, 1, c["tile_n"])), cut_by(Places(m, n, c["tile_m"]))
    batch = c["batch"]
    if c["groups"]:
        tiles = Places(batch, m * n), Places(m, n, c["tile_m"]), Places(n, 1, c["tile_n"])
        return [Writes(-1, (Pieces(tiles, turns=c["groups"]),), items=items_of(c))]
    z = cut_by(partial_sums(c["k"], c["chunk"], batch * m * n), Places(batch, m * n))
    return [Writes(-1, x, y, z, items=items_of(c))]


@writes("gemm_skinny")
def _short(c: Values, block: int) -> list[Writes]:
    few, many = c["few"], c["many"]
    lanes = block // c["slices"]
    x = cut_by(Places(many, c["y_many"], lanes * (c["rows"] if c["along_k"] else c["w_width"])))
    z = cut_by(partial_sums(c["k"], c["chunk"], few * many))
    return [Writes(-1, x, z=z, inside=(Places(few, c["y_few"]),))]


@writes("gemm_sum")
def _sum(c: Values, block: int) -> list[Writes]:
    return [dense(-1, c["size"], c["width"], block // c["slices"])]
