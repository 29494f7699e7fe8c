"""How reductions over everything but the features of a batch are spread over work-groups.

A feature is what has statistics of its own: a channel, or a single activation. A tensor is seen as
(samples, features, inner), and a feature's elements are numbered through samples and inner. A
work-group takes a tile: `lanes` features, of each `slices` * `held` elements in a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from simgen.ground.numerics.powers import next_power_of_two

if TYPE_CHECKING:
    from simgen.ground.dtypes import DType
    from simgen.ground.machine import Machine

BLOCK = 256  # work-items
HELD = 16  # elements of a feature that a work-item keeps in registers; twice as many if need be
GROUPS_OF_UNIT = 8  # work-groups for each compute unit, that leave none idle
WARP = 32  # AMD's compiler spills: where rows end within an access, each has a mask of its own
# 16-bit elements of a short row that a work-item loads. So many loads in flight hide memory
# latency, though each has half the bytes; rows then share a work-group.
EACH = 16
VECTOR = 4  # elements of an access
# For longer rows, which have a work-group each: a work-item's registers besides its elements, and
# the elements up to which an H200 hides one work-group's latency behind another.
OTHER_REGISTERS, OVERLAPPED_ELEMENTS = 28, 40
WIDEST = 1024  # work-items
FINALS = 16  # partial results that every work-item adds up itself, instead of one more barrier


@dataclass(frozen=True)
class Tiling:
    elements: int  # elements of each feature
    lanes: int  # features of a work-group
    slices: int  # work-items of a feature in a work-group
    vector: int  # elements of an access
    held: int  # elements of a work-item

    @property
    def tile(self) -> int:
        """Elements of a feature in a work-group."""
        return self.slices * self.held

    @property
    def chunks(self) -> int:
        """Work-groups among which a feature's elements are divided."""
        return ceil(self.elements / self.tile)

    @property
    def last(self) -> int:
        """Elements of a feature in the last of them."""
        return self.elements - (self.chunks - 1) * self.tile

    @property
    def additions(self) -> int:
        """Roundings on the longest way from an element to the sum of its tile.

        A sum of n terms has n - 1 of them at most; adding zeros is exact.
        """
        tree = self.held + ceil(self.slices / FINALS) + min(self.slices, FINALS)
        return min(tree, min(self.tile, self.elements) - 1)

    def groups(self, features: int) -> int:
        """Work-groups for a tensor with so many features."""
        return ceil(features / self.lanes) * self.chunks


@dataclass(frozen=True)
class View:
    samples: int
    features: int
    inner: int
    machine: Machine  # machine that it is planned for

    @property
    def elements(self) -> int:
        """Elements of each feature."""
        return self.samples * self.inner

    def __str__(self) -> str:
        return f"{self.samples}x{self.features}x{self.inner}"

    def tiling(self) -> Tiling:
        """A work-item has some elements before their sum goes through LDS.

        Where a feature's elements lie side by side, neighbouring work-items take neighbouring
        elements, else neighbouring features: either way, they read neighbouring addresses. It has
        more of them where that saves two launches, and leaves no unit idle.
        """
        vector = 4 if self.inner % 4 == 0 else 1
        most = 16 if self.inner == 1 else BLOCK
        slices = min(most, next_power_of_two(ceil(self.elements / 8)))
        lanes = BLOCK // slices
        busy = ceil(self.features / lanes) >= GROUPS_OF_UNIT * self.machine.units
        most = 2 * HELD if busy else HELD
        held = min(most, ceil(self.elements / (slices * vector)) * vector)
        if held * slices < self.elements:  # in several work-groups in any case
            held = min(HELD, held)
        return Tiling(self.elements, lanes, slices, vector, held)


def finishing(chunks: int) -> Tiling:
    """How the results of a feature's chunks are combined, by one work-group for some features."""
    slices = min(BLOCK, next_power_of_two(chunks))
    return Tiling(chunks, BLOCK // slices, slices, 1, ceil(chunks / slices))


def covered(length: int, dtype: DType, machine: Machine) -> tuple[int, int]:
    """(elements of an access, elements that those of a row cover). Rows of narrow elements begin
    between accesses, where the memory takes an element by itself (shifted_rows.h)."""
    if length % VECTOR == 0:
        return VECTOR, length
    if dtype.is_narrow and machine.is_nvidia:
        return VECTOR, ceil((length + VECTOR - 1) / VECTOR) * VECTOR
    return 1, length


def rows_over_items(length: int, vector: int, most: int = 0) -> Tiling:
    """How rows are spread over a work-group's items, of which each has so many elements where loads
    are by fours; by default, one load."""
    each = most if most and vector > 1 else vector
    slices = min(BLOCK, next_power_of_two(ceil(length / each)))
    held = ceil(length / (slices * vector)) * vector
    return Tiling(length, BLOCK // slices, slices, vector, held)


def long_row(length: int, vector: int, tensors: int, machine: Machine) -> tuple[Tiling, bool]:
    """A work-group for each row, and whether all of its `tensors` rows are in registers, if the
    machine has as many; if not, a work-group is as large as can be, so that few rows are under way
    and the cache still has them when they are read again."""
    places = machine.simds * machine.wavefronts * machine.wavefront
    blocks = [block for block in (BLOCK, 2 * BLOCK, WIDEST) if block <= max(BLOCK, places)]
    made = [
        Tiling(length, 1, block, vector, ceil(length / (block * vector)) * vector)
        for block in blocks
    ]

    def room(block: int) -> int:
        """Elements of a work-item, where a unit has one work-group."""
        registers = machine.simds * machine.registers * machine.wavefront // block
        return min(machine.item_registers, registers) - OTHER_REGISTERS

    few = [
        each for each in made if tensors * each.held <= min(OVERLAPPED_ELEMENTS, room(each.slices))
    ]
    fitting = [each for each in made[1:] if tensors * each.held <= room(each.slices)]
    found = next(iter(few or fitting[::-1]), None)
    return found or made[-1], found is not None
