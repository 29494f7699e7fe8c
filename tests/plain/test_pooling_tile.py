"""Tiles of the gradient of max pooling: they hold every window that they need, and fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from simgen.layers.pool import along_axis, gradient_tile

if TYPE_CHECKING:
    from simgen.layers.pool.along_axis import PooledAxis

BLOCK = 256
LDS = 32 * 1024  # bytes of a work-group, so that a compute unit of 64 KiB holds two


@st.composite
def axes(draw: st.DrawFn) -> PooledAxis:
    kernel = draw(st.integers(1, 8))
    pad = draw(st.integers(0, kernel - 1))
    behind = draw(st.integers(-1, kernel - 1))
    padded = pad + (pad if behind < 0 else behind)
    extent = draw(st.integers(max(1, kernel - padded), 700))
    stride = draw(st.integers(1, 10))
    up = draw(st.booleans())
    return along_axis.axis("height", extent, kernel, pad, behind, stride, round_up=up)


def windows_of(axis: PooledAxis, begin: int, extent: int) -> list[int]:
    """Those that hold an element of [begin, begin + extent)."""
    last = min(begin + extent, axis.extent)
    return [
        number
        for number, start in enumerate(axis.starts.tolist())
        if start < last and start + axis.kernel > begin
    ]


@given(axes(), axes(), st.integers(1, 300), st.sampled_from([1, 2, 4]), st.sampled_from([1, 4]))
def test_a_tile_holds_the_windows_of_its_elements(
    rows: PooledAxis, columns: PooledAxis, planes: int, results: int, vector: int
) -> None:
    tile = gradient_tile.choose(planes, rows, columns, BLOCK, results, vector)

    whole = (tile.h, tile.w) == (rows.extent, columns.extent)
    assert 1 <= tile.planes <= (planes if whole else 1)
    held = ((rows, tile.h, tile.windows_p, tile.before_p),
            (columns, tile.w, tile.windows_q, tile.before_q))  # fmt: skip
    for axis, extent, count, before in held:
        assert extent == axis.extent or extent % axis.stride == 0
        for begin in range(0, axis.extent, extent):
            first = begin // axis.stride - before
            needed = windows_of(axis, begin, extent)
            assert all(first <= number < first + count for number in needed)
    assert tile.planes * tile.windows_p * (tile.windows_q + 3) // 4 * 4 * 8 <= LDS


def test_the_tile_of_dnnmarks_pooling_is_searched_in_one_round() -> None:
    axis = along_axis.axis("height", 256, 3, 0, -1, 2, round_up=False)
    tile = gradient_tile.choose(300, axis, axis, BLOCK, 2, 4)
    assert (tile.planes, tile.h, tile.w) == (1, 6, 256)
    assert tile.rounds(BLOCK, 2, 4) == (1, 2)
    assert tile.groups(300, axis, axis) == 300 * 43
