"""One time step as one kernel: the product with the recurrent weights, then the cell.

A work-group has `units` units of `samples` samples with all of their gates. Along k, both sides
pass through local memory in pieces of DEPTH; `slices` work-items share a sum and leave partial
sums, which are added in order: no atomics, the same result on every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from simgen.ir import Kernel
from simgen.layers.product.elements import constant, name_of
from simgen.layers.product.tile import width
from simgen.layers.recurrent.cells import RecurrentCell
from simgen.layers.written import Places, Writes, cut, writes
from simgen.numerics.powers import power_of_two
from simgen.numerics.rounding import TINY, U, accumulated
from simgen.numerics.running import Bounded
from simgen.numerics.spread import correlated, repeats, stages

if TYPE_CHECKING:
    import numpy as np

    from simgen.dtypes import DType
    from simgen.ir import Constants
    from simgen.layers.written import Values
    from simgen.machine import Machine
    from simgen.numerics.rounding import Array
else:
    from simgen import arrays as np

BLOCK = 256  # work-items
DEPTH = 64  # of k, in local memory
SAMPLES = 16  # of a work-group, at most
LANES = 4  # work-items along the samples, at most: each has some of them
UNITS = (16, 8, 4)  # of a work-group: the most that leave no compute unit idle
VECTOR = 4  # elements of an access of local memory


@dataclass(frozen=True)
class StepTile:
    """What a work-group has."""

    units: int
    samples: int

    @property
    def held(self) -> int:
        """Samples of a work-item."""
        return self.samples // min(LANES, self.samples)

    @property
    def slices(self) -> int:
        """Work-items that share a sum."""
        return BLOCK * self.held // (self.units * self.samples)

    @property
    def constants(self) -> Constants:
        names = ("units", "samples", "held", "slices")
        return tuple((name, getattr(self, name)) for name in names)

    def grid(self, batch: int, hidden: int) -> tuple[int, int, int]:
        return ceil(hidden / self.units), ceil(batch / self.samples), 1

    def _own(self, k: int) -> int:
        """Terms of a work-item's share of a sum."""
        return ceil(k / DEPTH) * (DEPTH // self.slices)

    def sums(self, left: Array, right: Array, *, proxy: bool | None) -> Bounded:
        """left (..., k) times right (k, n), with what the kernel may lose: a bound or, where
        `proxy`, a proxy standard deviation; None: nothing is followed."""
        value = left @ right
        if proxy is None:
            return Bounded(value)
        k = right.shape[0]
        depth = min(self._own(k) + self.slices, k) + 1  # a product may be rounded by itself
        sizes = np.abs(left) @ np.abs(right)
        hard: Array = accumulated(depth) * sizes + (depth + 1) * TINY
        if not proxy:
            return Bounded(value, hard)
        squares = np.square(left) @ np.square(right)
        inside = stages(min(self._own(k), k), self.slices) + 1
        equal = min(repeats(left.reshape(-1, k)), repeats(right.T))
        sigma = correlated(U * inside * np.sqrt(squares), hard, k, squares, sizes, equal)
        return Bounded(value, np.minimum(sigma + (depth + 1) * TINY, hard))


def tile_of(machine: Machine, batch: int, hidden: int) -> StepTile:
    """What is planned for so many samples and units."""
    samples = min(SAMPLES, power_of_two(batch))
    fitting = [
        StepTile(units, samples)
        for units in UNITS
        if units * min(LANES, samples) * DEPTH >= BLOCK * VECTOR  # a slice has a whole access
    ]
    for tile in fitting:
        x, y, _ = tile.grid(batch, hidden)
        if x * y >= machine.units:
            return tile
    return fitting[-1]


@dataclass(frozen=True)
class StepKernels:
    """The kernels of a layer's time steps."""

    cell: RecurrentCell
    batch: int
    hidden: int
    skips: bool  # x goes into all gates as it is
    bias: bool
    x: DType  # element types
    weights: DType
    machine: Machine

    @property
    def tile(self) -> StepTile:
        return tile_of(self.machine, self.batch, self.hidden)

    @property
    def grid(self) -> tuple[int, int, int]:
        return self.tile.grid(self.batch, self.hidden)

    def forward(self, *, first: bool) -> Kernel:
        """Of the first step, before which all is zero, or of the others."""
        cell = self.cell
        constants: Constants = (
            *self._common(first),
            ("with_bias", int(self.bias)),
            ("with_input_bias", int(self.bias and self.skips)),
            ("skips", int(self.skips)),
            ("with_cell", int(cell is RecurrentCell.LSTM)),
            ("with_candidate", int(cell is RecurrentCell.GRU)),
            ("with_gates", int(cell.gated)),
            ("width", width(self.hidden)),
            *constant("inputelement", self.x),
        )
        words = ("bias",) if self.bias else ()
        name = self._name("fwd", first, *words, types=(self.x, self.weights))
        return Kernel(name, "recurrent_step.hip", BLOCK, constants)

    def backward(self, *, first: bool, start: bool) -> Kernel:
        """The same of the gradients; the first one is of the step behind which all is zero, the
        start that before which it is."""
        cell = self.cell
        constants: Constants = (
            *self._common(first),
            ("start", int(start)),
            ("with_dx", int(self.skips)),
            ("with_gates", int(cell.gated)),
            ("with_cell", int(cell is RecurrentCell.LSTM)),
            ("with_candidate", int(cell is RecurrentCell.GRU)),
            ("left_width", width(self.hidden * cell.gates)),
            ("width", width(self.hidden)),
        )
        words = ("start",) if start else ()
        name = self._name("bwd_data", first, *words, types=(self.weights,))
        return Kernel(name, "recurrent_back.hip", BLOCK, constants)

    def _common(self, first: bool) -> Constants:
        return (
            ("cell", str(self.cell)),
            ("gates", self.cell.gates),
            ("batch", self.batch),
            ("hidden", self.hidden),
            ("first", int(first)),
            *self.tile.constants,
            *constant("weightelement", self.weights),
        )

    def _name(self, direction: str, first: bool, *words: str, types: tuple[DType, ...]) -> str:
        tile = f"t{self.tile.units}x{self.tile.samples}"
        parts = ("recurrent", direction, self.cell, f"{self.batch}x{self.hidden}", tile)
        skips = ("skip",) if self.skips else ()
        last = ("first",) if first else ()
        return "_".join((*parts, *skips, *words, *last, *name_of(types)))


def _tiles(c: Values, argument: int, gates: int = 1) -> Writes:
    """Of (batch, gates, hidden): the work-group's units and samples, with all gates."""
    x = cut(Places(c["hidden"], 1, c["units"]))
    y = cut(Places(c["batch"], gates * c["hidden"], c["samples"]))
    inside = (Places(gates, c["hidden"]),) if gates > 1 else ()
    return Writes(argument, x, y, cut(Places(1)), inside)


@writes("recurrent_step")
def _forward(c: Values, block: int) -> list[Writes]:
    found = [_tiles(c, -1)]  # h is the last, what is kept stands before it
    if c["with_candidate"] or c["with_cell"]:
        found.append(_tiles(c, -2))
    if c["with_gates"]:
        found.append(_tiles(c, -3, c["gates"]))
    return found


@writes("recurrent_back")
def _backward(c: Values, block: int) -> list[Writes]:
    written = [c["gates"]]  # dgates, then, from the last one on, what else there is
    written += [1] if c["with_dx"] else []
    written += [1] if c["with_gates"] else []  # carry
    written += [c["gates"]] if c["with_candidate"] else []
    return [_tiles(c, -1 - at, gates) for at, gates in enumerate(written)]
