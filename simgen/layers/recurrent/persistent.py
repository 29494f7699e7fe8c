"""Where a machine holds the recurrent weights: in the local memory of all its compute units.

A compute unit has one work-group, with all of its local memory, and the weights of some units stay
there from step to step. (G. Diamos et al., "Persistent RNNs: stashing recurrent weights on-chip",
2016, which DeepBench comes from, has them in registers.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.ground.numerics.powers import next_power_of_two
from simgen.layers.recurrent.step import (
    BLOCK,
    LANES,
    MATRIX_COLUMNS,
    MATRIX_SAMPLES,
    SAMPLES,
    WARP,
    MatrixTile,
    StepTile,
    by_matrix,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.ground.dtypes import DType
    from simgen.ground.machine import Machine

UNITS = (64, 32, 16, 8, 4)  # units of a work-group, where scalars multiply
MOST_COLUMNS = 12  # instructions that a warp has side by side
LONG = 2048  # terms of a sum that twice as many warps share
FAR = 4  # times as much is a read of L2 as one of local memory


def tile_of(
    machine: Machine, batch: int, hidden: int, sums: int, terms: int, staged: int, dtype: DType
) -> StepTile | MatrixTile | None:
    """What is planned where `sums` sums of `terms` each make a unit of a sample, of whose results
    `staged` are stored rounded; None: the weights do not fit."""
    room = max(machine.asked_lds_nbytes, machine.group_lds_nbytes)
    fitting = [
        tile
        for tile in (
            _by_matrix(batch, sums, terms)
            if by_matrix(machine, dtype, hidden)
            else _by_scalars(machine, batch, sums, terms)
        )
        if tile.lds_nbytes(staged) <= room and _groups(tile, batch, hidden) <= machine.units
    ]

    def read(tile: StepTile | MatrixTile) -> tuple[bool, int, int]:
        """Whether work-groups wait for each other; what is read for each of k, of samples from L2
        and of weights from local memory; more work-items are better then."""
        waits = machine.joins_groups and tile.units < hidden
        return waits, FAR * tile.samples + sums * tile.units, -tile.block

    return min(fitting, key=read, default=None)


def _groups(tile: StepTile | MatrixTile, batch: int, hidden: int) -> int:
    x, y, _ = tile.grid(batch, hidden)
    return x * y


def _by_matrix(batch: int, sums: int, terms: int) -> Iterator[MatrixTile]:
    for samples in MATRIX_SAMPLES:
        if samples == MATRIX_SAMPLES[0] or samples < 2 * batch:
            for columns in range(1, MOST_COLUMNS // sums + 1):
                for block in (BLOCK, BLOCK * 2) if terms >= LONG else (BLOCK,):
                    yield MatrixTile(columns * MATRIX_COLUMNS, samples, sums, block, terms)


def _by_scalars(machine: Machine, batch: int, sums: int, terms: int) -> Iterator[StepTile]:
    block = BLOCK * 2 if machine.wavefront == WARP else BLOCK
    most = min(SAMPLES, next_power_of_two(batch))
    for samples in (1 << at for at in range(most.bit_length())):
        lanes = min(LANES, samples)
        for units in UNITS:
            tile = StepTile(units, samples, block, terms, sums)
            if units * lanes * tile.slices == block:
                yield tile
