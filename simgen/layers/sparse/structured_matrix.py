"""Products of a matrix with 2:4 sparsity by matrix instructions that take it as it is stored.

NVIDIA's mma.sp multiplies the two stored elements of each four with those elements of a column that
their positions choose: half as many products as of whole factors.
The kernel is templates/kernels/structured_matrix.hip. A step of both factors waits in local memory,
as in staged.h: 64 stored elements of a row, and 128 rows of b.

AMD's V_SMFMAC (gfx942, gfx950) has no kernel here: no simulator runs it. gem5's decoder knows its
name and ends there ("Trying to decode instruction without a class"), and MGPUSim has no matrix
instructions. There scalars multiply, as on machines without.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices
from simgen.ground.ir import Kernel
from simgen.ground.machine import NO, Machine
from simgen.layers.product import fragment
from simgen.layers.product.elements import constant, name_of
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from simgen.ground.dtypes import DType
    from simgen.layers.written import Values

OF_WORD = 32  # columns of a whose positions a word has
RUN = 8  # elements that are moved at once
STEP_STORED, STEP = 64, 128  # stored elements of a row in a step, and the columns that they are of
STAGES = 4  # steps in local memory, at most
TOGETHER = 16  # stored elements of a row that an instruction takes
LEAST_ROWS = 16  # rows of a matrix instruction
UNUSED = ("gfx940", "gfx941", "gfx942", "gfx950")  # have V_SMFMAC
WARP = 32  # work-items


@dataclass(frozen=True)
class StructuredTile:
    """Extents of a work-group's tile, and of each warp's part of it."""

    rows: int
    columns: int
    down: int
    across: int

    @property
    def block(self) -> int:
        """Work-items."""
        return self.rows // self.down * (self.columns // self.across) * WARP

    def grid(self, m: int, n: int) -> tuple[int, int, int]:
        return ceil(n / self.columns), ceil(m / self.rows), 1

    @property
    def stage_nbytes(self) -> int:
        """Local memory of a stage in bytes."""
        return 2 * (self.rows * STEP_STORED + self.columns * STEP)

    def stages(self, machine: Machine) -> int:
        return min(STAGES, machine.asked_lds_nbytes // self.stage_nbytes)


TILES = (
    StructuredTile(128, 128, 64, 32),
    StructuredTile(128, 64, 32, 32),
    StructuredTile(64, 64, 32, 32),
    StructuredTile(32, 64, 16, 32),
)


def tile_of(machine: Machine, dtype: DType, m: int, n: int, k: int) -> StructuredTile | None:
    """The largest tile of which there is one for each compute unit, or the smallest one; None:
    scalars multiply."""
    if not machine.is_nvidia or machine.use_matrix == NO or dtype.nbytes != 2:
        return None
    if not fragment.instructions(machine, dtype.name):
        return None
    if k % OF_WORD or n % RUN or m < LEAST_ROWS:
        return None
    fitting = [tile for tile in TILES if tile.stages(machine) > 1]
    for tile in fitting:
        across, down, _ = tile.grid(m, n)
        if across * down >= machine.units:
            return tile
    return fitting[-1] if fitting else None


def why_scalars(machine: Machine, dtype: DType) -> str:
    """Why scalars multiply where the machine has matrix instructions for this type; "" where it
    has none."""
    if dtype.nbytes != 2:
        return ""
    if machine.arch in UNUSED:
        return "V_SMFMAC is not used: no simulator runs it, so that nothing could check it"
    if not machine.is_nvidia or not fragment.instructions(machine, dtype.name):
        return ""
    if machine.use_matrix == NO:
        return f"{BuildChoices.matrix.flag} no"
    return f"mma.sp is for k of whole {OF_WORD}s, n of whole {RUN}s and m from {LEAST_ROWS} on"


def kernel(
    machine: Machine, dtype: DType, extents: tuple[int, int, int], tile: StructuredTile
) -> Kernel:
    """Kernel for factors and results of the given type."""
    m, n, k = extents
    stages = tile.stages(machine)
    constants = (
        ("m", m),
        ("n", n),
        ("k", k),
        ("tile_m", tile.rows),
        ("tile_n", tile.columns),
        ("item_m", tile.down // 8),
        ("item_n", tile.across // 4),
        ("stages", stages),
        *constant("leftelement", dtype),
        *constant("rightelement", dtype),
        *constant("element", dtype),
    )
    size, cut_so = f"{m}x{n}x{k}", f"t{tile.rows}x{tile.columns}s{stages}"
    name = "_".join(("structured_gemm", size, cut_so, *name_of((dtype, dtype))))
    nbytes = stages * tile.stage_nbytes
    return Kernel(name, "structured_matrix.hip", tile.block, constants, nbytes)


@writes("structured_matrix")
def _written(c: Values, block: int) -> list[Writes]:
    x, y = cut_by(Places(c["n"], 1, c["tile_n"])), cut_by(Places(c["m"], c["n"], c["tile_m"]))
    return [Writes(-1, x, y)]
