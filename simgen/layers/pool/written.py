"""What the kernels of pooling write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.layers.written import Places, Writes, cut_by, dense, writes

if TYPE_CHECKING:
    from simgen.layers.written import Values


@writes("pooling")
def _windows(c: Values, block: int) -> list[Writes]:
    p, q = c["p"], c["q"]
    rows, columns = Places(p, q, c["rows"]), Places(q, 1, c["results"])
    return [Writes(-1, cut_by(Places(c["planes"], p * q), rows, columns, group=block))]


@writes("pooling_shared")
def _shared(c: Values, block: int) -> list[Writes]:
    return [dense(-1, c["planes"] * c["p"] * c["q"], 1, block // c["slices"])]


@writes("pooling_backward")
def _backward(c: Values, block: int) -> list[Writes]:
    lines = Places(c["planes"] * c["h"], c["w"])
    return [Writes(-1, cut_by(lines, Places(c["w"], 1, c["vector"]), group=block))]


@writes("pooling_backward_max")
def _tiles(c: Values, block: int) -> list[Writes]:
    h, w = c["h"], c["w"]
    planes = cut_by(Places(c["planes"], h * w, c["tile_planes"]))
    return [
        Writes(-1, planes + cut_by(Places(h, w, c["tile_h"])) + cut_by(Places(w, 1, c["tile_w"])))
    ]
