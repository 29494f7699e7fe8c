"""The elements that work-groups write, counted out from what their kernel declares (written.py)."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from simgen.layers.written import Cuts, Pieces, Places, Writes

    Elements = NDArray[np.int64]

Grid = tuple[int, int, int]


def elements(each: Writes, grid: Grid | None = None) -> Elements:
    """Indices that all work-groups write or, with `grid`, those below it in each direction."""
    found = np.array([each.offset], np.int64)
    corner = (grid[0] - each.first, *grid[1:]) if grid else each.grid
    for cuts, groups in zip((each.x, each.y, each.z), corner):
        found = _sums(found, _along(cuts, max(groups, 0)))
    return _with_inside(each, found)


def of_groups(each: Writes, grid: Grid, groups: Iterable[int]) -> Elements:
    """Indices that some work-groups write, by their numbers in a launch's grid, x fastest."""

    @cache
    def along(axis: int, at: int) -> Elements:
        cuts = (each.x, each.y, each.z)[axis]
        numbers = np.unravel_index(at, [cut.groups for cut in cuts]) if cuts else ()
        return _crossed(cuts, [int(number) for number in numbers])

    parts = [np.empty(0, np.int64)]
    for group in groups:
        x, y, z = group % grid[0], group // grid[0] % grid[1], group // (grid[0] * grid[1])
        if each.first <= x < each.first + each.grid[0]:
            of_plane = _sums(along(1, y), along(2, z))
            parts.append(_sums(along(0, x - each.first), of_plane) + each.offset)
    return _with_inside(each, np.concatenate(parts))


def _with_inside(each: Writes, found: Elements) -> Elements:
    for places in each.inside:
        found = _sums(found, np.arange(places.count) * places.stride)
    return found


def _sums(some: Elements, other: Elements) -> Elements:
    return (some[:, None] + other).reshape(-1)


def _along(cuts: Cuts, groups: int) -> Elements:
    """Offsets of what the first work-groups along one coordinate write."""
    if groups >= prod(cut.groups for cut in cuts):
        found = np.zeros(1, np.int64)
        for cut in cuts:
            found = _sums(found, _offsets(cut, 0, cut.groups))
        return found
    parts = [np.empty(0, np.int64)]
    for at, numbers in enumerate(product(*(range(cut.groups) for cut in cuts))):
        if at == groups:
            break
        parts.append(_crossed(cuts, numbers))
    return np.concatenate(parts)


def _crossed(cuts: Cuts, numbers: Iterable[int]) -> Elements:
    """Offsets of what the work-group with these numbers in the cuts writes."""
    found = np.zeros(1, np.int64)
    for cut, number in zip(cuts, numbers):
        found = _sums(found, _offsets(cut, number, number + 1))
    return found


def _offsets(cut: Pieces, first: int, last: int) -> Elements:
    """Offsets of the pieces of the work-groups `first` to `last` - 1 of a cut."""
    pieces = [each.pieces for each in cut.places]
    numbers = np.arange(first * cut.group, min(last * cut.group, prod(pieces)))
    if cut.turns:
        every = np.arange(prod(pieces))
        numbers = every[(every % cut.turns >= first) & (every % cut.turns < last)]
    found = np.zeros((numbers.size, 1), np.int64)
    inside = np.ones((numbers.size, 1), bool)
    for places, number in zip(cut.places, np.unravel_index(numbers, pieces)):
        there, offsets = _places_of_pieces(places, number)
        found = (found[:, :, None] + offsets[:, None, :]).reshape(numbers.size, -1)
        inside = (inside[:, :, None] & there[:, None, :]).reshape(numbers.size, -1)
    return found[inside]


def _places_of_pieces(places: Places, number: NDArray[Any]) -> tuple[NDArray[np.bool_], Elements]:
    """(whether a place exists, its offset), of pieces by their numbers, (piece, neighbour)."""
    if places.backward:
        number = places.pieces - 1 - number
    place = number[:, None] * places.each + np.arange(min(places.each, places.count))
    return place < places.count, place * places.stride
