"""Factors of a product whose rows do not begin with lines of memory are copied to rows that do, and
results from rows that begin at multiples of 16 bytes.

NVIDIA's tensor memory accelerator takes rows that begin at multiples of 16 bytes, and takes longer
from L2 for rows that begin between lines (tile.py). A copy reads and writes each factor once, and a
product reads each many times: so it pays for all but the smallest. What is behind a row is zero,
which adds nothing to any sum. Results that lie by 16 bytes are stored so.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, gcd
from typing import TYPE_CHECKING

from simgen.ground.ir import Kernel, Launch, TensorSpec
from simgen.layers.base import Choice
from simgen.layers.product.tile import LINE, STAGED_SUM
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.dtypes import DType
    from simgen.ground.machine import Machine
    from simgen.layers.written import Values

BLOCK = 256
EACH = 8  # pieces of a work-item
RUN_NBYTES = 16
ALONE = 0.045  # times l2_rate: bytes of narrow results in a cycle, stored one by one
# Times longer than estimated, with loads of so many elements through registers: on an H200.
BY_WIDTH = {1: 6.5, 2: 1.7, 4: 1.3}


@dataclass(frozen=True)
class CopiedRows:
    """Rows of a matrix that are copied: `extent` elements apart, then `pitch`."""

    rows: int
    extent: int
    pitch: int
    dtype: DType

    @property
    def spec(self) -> TensorSpec:
        """What the copy is."""
        return TensorSpec((self.rows, self.pitch), self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes that are read and written."""
        return self.rows * (self.extent + self.pitch) * self.dtype.nbytes

    @property
    def name(self) -> str:
        return f"{self.rows}x{self.extent}to{self.pitch}_{8 * self.dtype.nbytes}"

    @property
    def piece(self) -> int:
        """Elements that are moved at once."""
        return gcd(self.extent, self.pitch, RUN_NBYTES // self.dtype.nbytes)

    @property
    def groups(self) -> int:
        """Work-groups of the copy."""
        return ceil(self.rows * self.pitch // self.piece / (BLOCK * EACH))


def padded(rows: int, extent: int, dtype: DType) -> CopiedRows:
    """A factor whose rows begin with lines afterwards."""
    of_line = LINE // dtype.nbytes
    return CopiedRows(rows, extent, ceil(extent / of_line) * of_line, dtype)


def cut(rows: int, extent: int, dtype: DType) -> CopiedRows:
    """A result whose rows begin at multiples of 16 bytes before."""
    of_run = RUN_NBYTES // dtype.nbytes
    return CopiedRows(rows, ceil(extent / of_run) * of_run, extent, dtype)


def cycles(copied: tuple[CopiedRows, ...], machine: Machine) -> float:
    """Estimate of the time that one launch takes for them."""
    launch, rate = STAGED_SUM
    moved = sum(each.nbytes for each in copied) / (rate * machine.l2_rate)
    return bool(copied) * launch * machine.launch_cycles + moved


def pays(result: CopiedRows, machine: Machine) -> bool:
    """Whether a copy is faster than storing elements one by one."""
    alone = result.rows * result.pitch * result.dtype.nbytes / (ALONE * machine.l2_rate)
    return cycles((result,), machine) < alone


def explain(copied: Mapping[str, CopiedRows]) -> tuple[Choice, ...]:
    """What is said of a plan: name of a matrix -> its rows."""
    sides = " and ".join(copied)
    rows = ", ".join(f"{each.extent} to {each.pitch}" for each in copied.values())
    why = "rows that begin between lines take longer than a copy"
    return (Choice("rows", f"of {sides} copied, {rows}", why),) if copied else ()


def lower(
    prefix: str, copied: tuple[CopiedRows, ...], reads: tuple[str, ...], written: tuple[str, ...]
) -> tuple[Kernel, Launch]:
    """One launch that copies the rows of one or two matrices."""
    constants: list[tuple[str, int]] = [("both", len(copied) - 1), ("each", EACH)]
    for side, each in zip(("first", "second"), (*copied, copied[0]), strict=False):
        constants += [
            (f"{side}_nbytes", each.piece * each.dtype.nbytes),
            (f"{side}_width", each.piece),
            (f"{side}_rows", each.rows),
            (f"{side}_extent", each.extent),
            (f"{side}_pitch", each.pitch),
        ]
    name = "_".join((prefix, "rows", *(each.name for each in copied)))
    kernel = Kernel(name, "copy_rows.hip", BLOCK, tuple(constants))
    groups = sum(each.groups for each in copied)
    return kernel, Launch(name, (groups, 1, 1), (*reads, *written))


@writes("copy_rows")
def _written(c: Values, block: int) -> list[Writes]:
    made: list[Writes] = []
    sides = ("first", "second") if c["both"] else ("first",)
    for side in sides:
        size, items = c[f"{side}_rows"] * c[f"{side}_pitch"], block * c["each"]
        groups = Places(size, 1, items * c[f"{side}_width"])
        first = made[0].grid[0] if made else 0
        made.append(Writes(len(made) - len(sides), cut_by(groups), first=first))
    return made
