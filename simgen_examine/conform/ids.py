"""Ids of work-items and work-groups in one to three dimensions, as a kernel finds them.

Work-item ids come in v0 to v2, or packed in v0, 10 bits each (gfx90a on); ids of the work-groups
that a kernel asks for in the scalar registers behind its kernarg address, without gaps (`SOURCE`).
Each work-item stores its ids where they say that it is, and its lane: so ids that are swapped,
repeated or in other lanes leave something else there.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from simgen_examine.conform import values
from simgen_examine.conform.arithmetic import Computed, Wanted
from simgen_examine.conform.description import Described
from simgen_examine.conform.expected import Expected
from simgen_examine.conform.forms import Form, Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen_examine.conform.values import Words

SOURCE = "Initial Kernel Execution State in LLVM's User Guide for AMDGPU Backend"
# Lane, then ids of the work-item and of the work-group: x, y, z.
OUTPUTS = tuple(f"v{at}" for at in range(4, 11))
# Work-items of a work-group, work-groups, whose ids the kernel asks for: at most 1,024 work-items,
# of wavefronts that are full or not, one or several of them; extents that are no powers of two.
SHAPES = (
    Shape((64, 1, 1), (16, 1, 1), "x"),
    Shape((256, 1, 1), (4, 1, 1), "x"),
    Shape((100, 1, 1), (10, 1, 1), "x"),
    Shape((8, 8, 1), (4, 4, 1), "xy"),
    Shape((16, 12, 1), (1, 5, 1), "y"),
    Shape((3, 7, 1), (6, 8, 1), "xy"),
    Shape((4, 4, 4), (4, 2, 2), "xyz"),
    Shape((8, 4, 8), (1, 2, 2), "yz"),
    Shape((5, 3, 2), (17, 1, 2), "xz"),
    Shape((3, 5, 7), (1, 1, 9), "z"),
)


@dataclass(frozen=True)
class Numbered(Computed):
    """Ids that follow from the place at which they are stored."""

    shape: Shape = SHAPES[0]

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`; behind the last work-item, anything is right."""
        place = np.arange(words.shape[2], dtype=np.uint32)
        group, item = np.divmod(place, np.uint32(prod(self.shape.group)))
        free = place >= prod(self.shape.group) * prod(self.shape.grid)
        ids = [*_split(item, self.shape.group), *_split(group, self.shape.grid)]
        return [Wanted("b32", Expected(each, free)) for each in (item % values.LANES, *ids)]


def _split(flat: Words, extents: tuple[int, int, int]) -> list[Words]:
    """x, y and z of numbers in which x is the fastest."""
    found = []
    for extent in extents[:2]:
        flat, one = np.divmod(flat, np.uint32(extent))
        found.append(one)
    return [*found, flat]


def reproducer(shape: Shape, number: int) -> list[str]:
    """Lines that show the ids of a work-item, by its place among all of the launch."""
    group, item = divmod(number, prod(shape.group))
    by = " ".join(f".amdhsa_system_sgpr_workgroup_id_{axis} 1" for axis in shape.ids)
    grid, extents = ("x".join(map(str, each)) for each in (shape.grid, shape.group))
    return [
        f"; {grid} work-groups of {extents}: {by}",
        "v_and_b32 v5, 0x3ff, v0   ; x where ids are packed (gfx90a on); before, v0, v1 and v2",
        "v_bfe_u32 v6, v0, 10, 10  ; y",
        "v_bfe_u32 v7, v0, 20, 10  ; z",
        *(f"v_mov_b32 v{8 + 'xyz'.index(axis)}, s{2 + at}  ; {axis} of the work-group"
          for at, axis in enumerate(shape.ids)),
        f"; work-item {item} of work-group {group}: lane, x, y, z of it, x, y, z of its work-group",
    ]  # fmt: skip


def ids() -> Iterator[Form]:
    """The forms, which all architectures have."""
    of = Described("ids", "ID", (), (), "")
    for shape in SHAPES:
        group, grid = ("x".join(map(str, each)) for each in (shape.group, shape.grid))
        what = f"{grid} work-groups of {group} by {shape.ids}"
        made = Numbered(of, shape=shape)
        yield Form(of, f"ids of {what}", what, (), (),
                   OUTPUTS, made, shape=shape)  # fmt: skip
