"""Factors of a product whose rows do not begin with lines of memory: copied to rows that do.

NVIDIA's tensor memory accelerator takes rows that begin at multiples of 16 bytes, and takes longer
from L2 for rows that begin between lines (tile.py). A copy reads and writes each factor once, and a
product reads each many times: so it pays for all but the smallest. What is behind a row is zero,
which adds nothing to any sum.
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


@dataclass(frozen=True)
class Padded:
    """A factor: `rows` of `extent` elements, and the type of these."""

    rows: int
    extent: int
    dtype: DType

    @property
    def pitch(self) -> int:
        """Elements from one row to the next."""
        of_line = LINE // self.dtype.nbytes
        return ceil(self.extent / of_line) * of_line

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec((self.rows, self.pitch), self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes that are read and written."""
        return self.rows * (self.extent + self.pitch) * self.dtype.nbytes

    @property
    def name(self) -> str:
        return f"{self.rows}x{self.extent}_{8 * self.dtype.nbytes}"

    @property
    def piece(self) -> int:
        """Elements that are moved at once."""
        return gcd(self.extent, 16 // self.dtype.nbytes)


def cycles(factors: tuple[Padded, ...], machine: Machine) -> float:
    """Estimate of the time that their copies take."""
    launch, rate = STAGED_SUM
    moved = sum(each.nbytes for each in factors) / (rate * machine.l2_rate)
    return bool(factors) * launch * machine.launch_cycles + moved


def explain(factors: Mapping[int, Padded]) -> tuple[Choice, ...]:
    """What is said of a plan."""
    sides = " and ".join("ab"[side] for side in factors)
    rows = ", ".join(f"{each.extent} to {each.pitch}" for each in factors.values())
    why = "rows that begin between lines take longer than a copy"
    return (Choice("rows", f"of {sides} padded, {rows}", why),) if factors else ()


def lower(
    prefix: str, factors: tuple[Padded, ...], reads: tuple[str, ...], written: tuple[str, ...]
) -> tuple[Kernel, Launch]:
    """One launch that copies one or two factors."""
    constants: list[tuple[str, int]] = [("both", len(factors) - 1), ("each", EACH)]
    for side, each in zip(("first", "second"), (*factors, factors[0]), strict=False):
        constants += [
            (f"{side}_nbytes", each.piece * each.dtype.nbytes),
            (f"{side}_width", each.piece),
            (f"{side}_rows", each.rows),
            (f"{side}_extent", each.extent),
            (f"{side}_pitch", each.pitch),
        ]
    name = "_".join((prefix, "rows", *(each.name for each in factors)))
    kernel = Kernel(name, "padded_rows.hip", BLOCK, tuple(constants))
    groups = sum(ceil(each.rows * each.pitch // each.piece / (BLOCK * EACH)) for each in factors)
    return kernel, Launch(name, (groups, 1, 1), (*reads, *written))


@writes("padded_rows")
def _written(c: Values, block: int) -> list[Writes]:
    made: list[Writes] = []
    sides = ("first", "second") if c["both"] else ("first",)
    for side in sides:
        size, pieces = (
            c[f"{side}_rows"] * c[f"{side}_pitch"],
            block * c["each"] * c[f"{side}_width"],
        )
        first = made[0].grid[0] if made else 0
        cut = cut_by(Places(size, 1, pieces))
        made.append(Writes(len(made) - len(sides), cut, first=first))
    return made
