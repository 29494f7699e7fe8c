"""How reductions over everything but the features of a batch are spread over work-groups.

A feature is what has statistics of its own: a channel, or a single activation. A tensor is seen as
(samples, features, inner), and a feature's elements are numbered through samples and inner. A
work-group takes a tile: `lanes` features, of each `slices` * `held` elements in a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simgen.ground.dtypes import DType
    from simgen.ground.machine import Machine

from simgen.ground.machine import MODELS, NO
from simgen.ground.numerics.powers import next_power_of_two

BLOCK = 256  # work-items
HELD = 16  # elements of a feature that a work-item keeps in registers; twice as many if need be
GROUPS_OF_UNIT = 8  # work-groups for each compute unit, that leave none idle
WARP = 32  # AMD's compiler spills: where rows end within an access, each has a mask of its own
# 16-bit elements of a short row that a work-item loads. So many loads in flight hide memory
# latency, though each has half the bytes; rows then share a work-group.
EACH = 16
# Elements of 16 bits, of all tensors, that a work-item keeps where registers are plenty, by the
# work-items of a work-group: long rows have more.
KEPT = {BLOCK: 64, 2 * BLOCK: 144, 4 * BLOCK: 48}
FINALS = 16  # partial results that every work-item adds up itself, instead of one more barrier


@dataclass(frozen=True)
class Tiling:
    elements: int  # elements of each feature
    lanes: int  # features of a work-group
    slices: int  # work-items of a feature in a work-group
    vector: int  # elements of an access
    held: int  # elements of a work-item

    @property
    def block(self) -> int:
        """Work-items of a work-group."""
        return self.lanes * self.slices

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


def by_fours(length: int, dtype: DType, machine: Machine) -> tuple[int, int]:
    """Elements of an access to contiguous rows, and of the accesses that a row lies in, at most.

    Rows of narrow elements may begin within an access, if the machine stores one by itself: GPUs
    do, and simulators are weak there (templates/kernels/rows.h). As with matrix instructions,
    `--matrix no` makes a plan for both.
    """
    if length % 4 == 0:
        return 4, length
    stores_one = machine.is_nvidia and not machine.name.startswith(MODELS)
    if dtype.is_narrow and stores_one and machine.use_matrix != NO:
        return 4, length + 3
    return 1, length


def rows_over_items(
    length: int, over: tuple[int, int], most: int = 0, block: int = BLOCK
) -> Tiling:
    """How rows are spread over a work-group's items, of which each has so many elements where loads
    are by fours; by default, one load. `over` is what `by_fours` gives."""
    vector, reach = over
    each = most if most and vector > 1 else vector
    slices = min(block, next_power_of_two(ceil(reach / each)))
    held = ceil(reach / (slices * vector)) * vector
    return Tiling(length, block // slices, slices, vector, held)


def keeping(length: int, over: tuple[int, int], tensors: int, most: int) -> Tiling:
    """The same on an NVIDIA GPU, whose work-items keep elements of 16 bits of so many `tensors`,
    where as many as can do that; what is longer, the most of them read again.
    """
    if over[1] > WARP * most and most <= EACH:
        few = by_warps(length, over, most)
        if few.slices <= BLOCK and keeps(few, tensors):
            return few
    made = [rows_over_items(length, over, most, block) for block in KEPT]
    return next((each for each in made if keeps(each, tensors)), made[-1])


def by_warps(length: int, over: tuple[int, int], each: int) -> Tiling:
    """The same by whole warps, and by about `each` elements of a work-item, so many that the least
    part of a work-group has none."""
    vector, reach = over
    accesses, about = ceil(reach / vector), each // vector
    loads = min(
        range(about - 1, about + 3),
        key=lambda n: (n * ceil(accesses / (n * WARP)), abs(n - about)),
    )
    slices = ceil(accesses / (loads * WARP)) * WARP
    return Tiling(length, max(1, BLOCK // slices), slices, vector, loads * vector)


def keeps(tiling: Tiling, tensors: int) -> bool:
    """Whether they keep them. Where rows begin within an access, that takes registers too."""
    most = KEPT[max(BLOCK, tiling.slices)]
    return tensors * tiling.held <= (most * 3 // 4 if tiling.elements % tiling.vector else most)
