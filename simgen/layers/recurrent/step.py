"""One time step as one kernel: the product with the recurrent weights, then the cell.

A work-group has `units` units of `samples` samples with all of their gates. Along k, both sides
pass through local memory in pieces of DEPTH, or of more on NVIDIA's GPUs: their compute units have
few work-groups of a step each, and what counts is how much each of them waits for at once. `slices`
work-items share a sum and leave partial sums, which are added in order: no atomics, the same result
on every run.

Of 16-bit floats, NVIDIA's matrix instructions multiply (templates/kernels/recurrent_matrix.h),
where rows of weights are whole runs of 16 bytes. Both factors have the type of the weights then:
what goes from step to step is stored in it too, once rounded, for the next step to multiply. They
wait in local memory, as many pieces of k ahead as it has room for.

Kept (persistent.py says where that fits), the weights of a work-group lie in local memory along all
of k, and so do the states or gradients of its samples. No more work-groups are launched than there
are compute units, and NVIDIA's GPUs run many steps in one launch, which reads the weights once
(templates/kernels/chain.h).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, Kernel
from simgen.ground.machine import NO, Machine
from simgen.ground.numerics.powers import next_power_of_two
from simgen.ground.numerics.rounding import TINY, U, accumulated
from simgen.ground.numerics.running import Bounded
from simgen.ground.numerics.spread import correlated, repeats, stages
from simgen.layers.product import fragment
from simgen.layers.product.elements import constant, name_of
from simgen.layers.product.tile import width
from simgen.layers.recurrent.cells import RecurrentCell
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from simgen.ground.dtypes import DType
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.written import Values

BLOCK = 256  # work-items
DEPTH = 64  # elements of k in local memory
# Where what is read next is on its way, in registers, while work-items multiply:
DEPTHS = (256, 128)  # elements of k in local memory, if it has room
SAMPLES_AHEAD = (1, 2, 4, 8, 16, 32)
OWN = (1, 2, 4, 8)  # units of a work-item
MOST_SUMS = 32  # sums of a work-item
L2_NBYTES = 32  # bytes of L2 that a compute unit gets per cycle
SAMPLES = 16  # maximum samples of a work-group
LANES = 4  # work-items along the samples, at most: each has some of them
UNITS = (16, 8, 4)  # units of a work-group: the most that leave no compute unit idle
VECTOR = 4  # elements of an access of local memory
FLOAT = 4  # bytes
# Where matrix instructions multiply:
WARP = 32  # work-items
RUN = 8  # elements that a work-item reads of a row at once
MATRIX_PIECE = 32  # elements of k that four work-items read from a row at once
MATRIX_ROWS = 32  # samples of a warp, at most
MATRIX_COLUMNS = 8  # units, or gates of them, of an instruction
MATRIX_SAMPLES, MATRIX_UNITS = (16, 32, 64), (8, 16, 32)  # samples and units of a work-group
GROUPS_AT_ONCE = 2  # work-groups of a compute unit that shall fit, where it has as many
LDS_OF_GROUP = 1024  # bytes that each work-group takes besides
MOST_STAGES = 8  # pieces of k in local memory
MOST_STAGED = 5  # gradients of a unit that are stored rounded: of an LSTM 4, of a GRU 3 and another


@dataclass(frozen=True)
class StepTile:
    """What a work-group has."""

    units: int
    samples: int
    block: int = BLOCK  # work-items
    kept: int = 0  # terms of a sum whose weights stay in local memory; 0: they pass through it
    sums: int = 1  # sums of each unit and sample; only kept sums take room
    piece: int = DEPTH  # elements of k in local memory at a time, if no weights are kept there
    own: int = 1  # units of a work-item

    @property
    def held(self) -> int:
        """Samples of a work-item."""
        return self.samples // min(LANES, self.samples)

    @property
    def slices(self) -> int:
        """Work-items that share a sum."""
        return self.block * self.held * self.own // (self.units * self.samples)

    @property
    def depth(self) -> int:
        """Elements of k in local memory at a time."""
        run = VECTOR * self.slices
        return ceil(self.kept / run) * run if self.kept else self.piece

    @property
    def constants(self) -> Constants:
        names = ("units", "samples", "held", "own", "slices", "depth")
        return tuple((name, getattr(self, name)) for name in names)

    def lds_nbytes(self, staged: int) -> int:
        """Local memory in bytes: the kept weights, plus all samples or the partial sums, whichever
        is more.
        """
        pitch = self.depth + VECTOR
        partial = self.slices * (self.sums * self.samples * self.units + 1)
        return FLOAT * (self.sums * self.units * pitch + max(self.samples * pitch, partial))

    def grid(self, batch: int, hidden: int) -> tuple[int, int, int]:
        return ceil(hidden / self.units), ceil(batch / self.samples), 1

    def _own(self, k: int) -> int:
        """Terms of a work-item's share of a sum."""
        return ceil(k / self.depth) * (self.depth // self.slices)

    def sums_of(self, left: Array, right: Array, *, proxy: bool | None) -> Bounded:
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


@dataclass(frozen=True)
class MatrixTile:
    """The same where matrix instructions multiply `sums` sums for each unit and sample."""

    units: int
    samples: int
    sums: int
    block: int = BLOCK
    kept: int = 0  # as StepTile has it
    stages: int = 0  # pieces of k in local memory, where nothing is kept
    held = own = 1

    @property
    def slices(self) -> int:
        """Warps that share a sum; the others have other samples."""
        return self.block // WARP // ceil(self.samples / MATRIX_ROWS)

    @property
    def depth(self) -> int:
        """Elements of k in local memory at a time."""
        return self.stages * MATRIX_PIECE * self.slices or DEPTH

    @property
    def constants(self) -> Constants:
        names = ("units", "samples", "held", "own", "slices", "depth")
        return tuple((name, getattr(self, name)) for name in names)

    @property
    def stage_nbytes(self) -> int:
        """Local memory in bytes for one stage: a piece of k for all warps."""
        # rows of a warp, 4 lanes each
        rows = min(self.samples, MATRIX_ROWS) + self.sums * self.units
        return self.block // WARP * rows * MATRIX_PIECE * 2

    def grid(self, batch: int, hidden: int) -> tuple[int, int, int]:
        return ceil(hidden / self.units), ceil(batch / self.samples), 1

    def lds_nbytes(self, staged: int) -> int:
        """What is kept; and partial sums with `staged` results of each unit and sample, or before
        them pieces of k, whichever is more."""
        partial = self.slices * (self.sums * self.samples * self.units + 1)
        lane = VECTOR * self.sums * self.units // MATRIX_COLUMNS  # words, of a piece of k
        kept = ceil(self.kept / (MATRIX_PIECE * self.slices)) * self.slices * lane * WARP
        moving = ceil(partial / VECTOR) * VECTOR + staged * self.samples * self.units
        return FLOAT * kept + max(FLOAT * moving, self.stages * self.stage_nbytes)

    def sums_of(self, left: Array, right: Array, *, proxy: bool | None) -> Bounded:
        """As StepTile has it: two roundings of each product at most (product/fragment.py), then
        those of the slices. What instructions cut off does not cancel, so that is the spread too.
        """
        value = left @ right
        if proxy is None:
            return Bounded(value)
        k = right.shape[0]
        own = ceil(k / (MATRIX_PIECE * self.slices)) * MATRIX_PIECE
        depth = 2 * min(own, k) + self.slices
        return Bounded(value, accumulated(depth) * (np.abs(left) @ np.abs(right)) + depth * TINY)


def by_matrix(machine: Machine, dtype: DType, hidden: int) -> bool:
    """Whether matrix instructions multiply weights of this type in the steps."""
    if not machine.is_nvidia or machine.use_matrix == NO or dtype.nbytes != 2:
        return False
    return hidden % RUN == 0 and bool(fragment.instructions(machine, dtype.name))


def tile_of(
    machine: Machine, batch: int, hidden: int, sums: int, dtype: DType
) -> StepTile | MatrixTile:
    """What is planned for so many samples and units, and sums of each of these; weights have the
    type."""
    if by_matrix(machine, dtype, hidden):
        return _matrix_tile(machine, batch, hidden, sums)
    if waits(machine):
        return _waiting_tile(machine, batch, hidden, sums)
    samples = min(SAMPLES, next_power_of_two(batch))
    fitting = [
        StepTile(units, samples)
        for units in UNITS
        if units * min(LANES, samples) * DEPTH >= BLOCK * VECTOR  # a slice has a whole access
    ]
    filling = (tile for tile in fitting if prod(tile.grid(batch, hidden)) >= machine.units)
    return next(filling, fitting[-1])


def waits(machine: Machine) -> bool:
    """Whether what work-groups read next is on its way while they multiply."""
    return machine.is_nvidia


def _waiting_tile(machine: Machine, batch: int, hidden: int, sums: int) -> StepTile:
    """The tile with the fewest cycles per element of k, on a compute unit with as many work-groups
    as any. In a cycle a unit moves 128 bytes of local memory, or 32 of L2."""

    def cycles(tile: StepTile) -> tuple[float, int]:
        rows = tile.samples + sums * tile.units
        share = 1 / tile.held + 1 / (tile.own * sums)  # loads of local memory for each product
        inside = (tile.units * tile.samples * sums * share + rows) / WARP
        groups = ceil(prod(tile.grid(batch, hidden)) / machine.units)
        return groups * (inside + rows * FLOAT / L2_NBYTES), -tile.piece

    fitting = [
        tile
        for samples in SAMPLES_AHEAD
        if samples == 1 or samples < 2 * batch
        for units in UNITS
        for own in OWN
        if units % own == 0
        for piece in (*DEPTHS, DEPTH)
        if own * sums * (tile := StepTile(units, samples, piece=piece, own=own)).held <= MOST_SUMS
        and tile.slices * VECTOR <= piece
        and FLOAT * (samples + sums * units) * (piece + VECTOR) <= machine.group_lds_nbytes
        and FLOAT * tile.slices * (sums * samples * units + 1) <= machine.group_lds_nbytes
    ]
    return min(fitting, key=cycles)


def _matrix_tile(machine: Machine, batch: int, hidden: int, sums: int) -> MatrixTile:
    """The tile of which a compute unit reads the least: for each k a row of samples and one of
    weights, for each of its work-groups. If equal, the one whose weights fewer work-groups share.
    """
    staged = sums + 1 if sums > 1 else MOST_STAGED
    room = max(machine.asked_lds_nbytes, machine.group_lds_nbytes)
    fitting = [
        tile
        for samples in MATRIX_SAMPLES
        for units in MATRIX_UNITS
        if (samples == MATRIX_SAMPLES[0] or samples < 2 * batch)
        and (tile := MatrixTile(units, samples, sums, stages=2)).lds_nbytes(staged) <= room
    ]

    def groups(tile: MatrixTile) -> int:
        """Work-groups of a compute unit."""
        return ceil(prod(tile.grid(batch, hidden)) / machine.units)

    def read(tile: MatrixTile) -> tuple[int, int, int]:
        return groups(tile) * (tile.samples + sums * tile.units), -tile.samples, -tile.units

    tile = min(fitting, key=read)
    shared = (room + LDS_OF_GROUP) // min(groups(tile), GROUPS_AT_ONCE) - LDS_OF_GROUP
    return replace(tile, stages=max(2, min(MOST_STAGES, shared // tile.stage_nbytes)))


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
    tile: StepTile | MatrixTile

    @property
    def grid(self) -> tuple[int, int, int]:
        return self.tile.grid(self.batch, self.hidden)

    @property
    def by_matrix(self) -> bool:
        return by_matrix(self.machine, self.weights, self.hidden)

    def forward(self, *, first: bool) -> Kernel:
        """Forward kernel of the first step, before which all states are zero, or of later steps."""
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
        return self._kernel(name, "recurrent_step.hip", constants, 1)

    def backward(self, *, first: bool, start: bool, final: bool = False) -> Kernel:
        """The same of the gradients; the first one is of the step behind which all is zero, but
        for the gradients of `final` states, the start that before which it is."""
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
            ("with_rounded_gates", int(self.rounds_gates)),
            ("with_final", int(final)),
        )
        words = (*(("start",) if start else ()), *(("final",) if final else ()))
        name = self._name("bwd_data", first, *words, types=(self.weights,))
        kinds = cell.gates + int(cell is RecurrentCell.GRU)
        return self._kernel(name, "recurrent_back.hip", constants, kinds)

    @property
    def rounds_gates(self) -> bool:
        """Whether gradients of the sums are stored rounded too, beside those that go on."""
        return self.by_matrix and self.cell is RecurrentCell.GRU and not self.skips

    def _kernel(self, name: str, template: str, constants: Constants, staged: int) -> Kernel:
        """A kernel, with the local memory that its launches request."""
        tile = self.tile
        asks = tile.kept > 0 or isinstance(tile, MatrixTile)
        lds = tile.lds_nbytes(staged) if asks else 0
        return Kernel(name, template, tile.block, constants, lds, chained=tile.kept > 0)

    def _common(self, first: bool) -> Constants:
        return (
            ("cell", str(self.cell)),
            ("gates", self.cell.gates),
            ("batch", self.batch),
            ("hidden", self.hidden),
            ("first", int(first)),
            *self.tile.constants,
            ("with_matrix", int(self.by_matrix)),
            (
                "with_prefetch",
                int(waits(self.machine) and not self.by_matrix and not self.tile.kept),
            ),
            ("with_held", int(self.tile.kept > 0)),
            *constant("weightelement", self.weights),
        )

    def _name(self, direction: str, first: bool, *words: str, types: tuple[DType, ...]) -> str:
        tile = f"t{self.tile.units}x{self.tile.samples}" + ("m" if self.by_matrix else "")
        tile += "k" if self.tile.kept else ""
        parts = ("recurrent", direction, self.cell, f"{self.batch}x{self.hidden}", tile)
        skips = ("skip",) if self.skips else ()
        last = ("first",) if first else ()
        return "_".join((*parts, *skips, *words, *last, *name_of(types)))


def _tiles(c: Values, argument: int, gates: int = 1) -> Writes:
    """Writes of (batch, gates, hidden): the work-group's units and samples, with all gates."""
    x = cut_by(Places(c["hidden"], 1, c["units"]))
    y = cut_by(Places(c["batch"], gates * c["hidden"], c["samples"]))
    inside = (Places(gates, c["hidden"]),) if gates > 1 else ()
    return Writes(argument, x, y, cut_by(Places(1)), inside)


@writes("recurrent_step")
def _forward(c: Values, block: int) -> list[Writes]:
    last = -1 - c["with_matrix"]
    found = [_tiles(c, last)]  # h is the last, or before it rounded; what is kept stands before
    if c["with_matrix"]:
        found.append(_tiles(c, -1))
    if c["with_candidate"] or c["with_cell"]:
        found.append(_tiles(c, last - 1))
    if c["with_gates"]:
        found.append(_tiles(c, last - 2, c["gates"]))
    return found


@writes("recurrent_back")
def _backward(c: Values, block: int) -> list[Writes]:
    # Rounded ones and dgates, then, from the last one on, what else there is.
    written = [c["gates"]] * (1 + c["with_matrix"] + c["with_rounded_gates"])
    written += [1] if c["with_dx"] else []
    written += [1] if c["with_gates"] else []  # carry
    written += [c["gates"]] if c["with_candidate"] else []
    return [_tiles(c, -1 - at, gates) for at, gates in enumerate(written)]
