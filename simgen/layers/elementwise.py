"""Kernels that give each element of their outputs from the same element of their inputs.

All tensors have one size and lie densely, so shapes do not matter. A work-item takes VECTOR
neighbouring elements: one 16-byte access of each tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING

from simgen.ground.dtypes import WORD, DType
from simgen.ground.ir import Constants, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics.rounding import identifier
from simgen.layers.base import Lowering
from simgen.layers.written import Writes, dense, writes, writes_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.ground.machine import Machine
    from simgen.layers.written import Values

BLOCK = 256  # work-items
VECTOR = 4  # elements of a work-item
RUN_NBYTES = 16  # bytes of a tensor that a work-item should have in flight
FULL = 8  # work-groups that a unit holds at once


class Operation(StrEnum):
    COPY = "copy"  # each output is the input
    ADD = "add"  # the inputs in order, one addition after the other


@dataclass(frozen=True)
class Scaling:
    """Scales of two added tensors of 8-bit integers, and of their sum."""

    factors: tuple[float, float] = (1.0, 1.0)  # float32
    zero_points: tuple[int, int, int] = (0, 0, 0)

    @property
    def constants(self) -> Constants:
        """What templates/kernels/constants/add.h declares: there, loads subtract the last one."""
        first, second, last = self.zero_points
        return (
            ("scaled", int(self != Scaling())),
            ("factor0", self.factors[0]),
            ("factor1", self.factors[1]),
            ("zero0", first - last),
            ("zero1", second - last),
        )

    @property
    def name(self) -> str:
        """Part of a kernel's name."""
        if self == Scaling():
            return ""
        first, second = map(identifier, self.factors)
        return f"_a{first}{zeros(self.zero_points[0])}_a{second}{zeros(self.zero_points[1])}"


def element(dtype: DType, zero_point: int = 0) -> Constants:
    """The constant that names the type of elements to a kernel, where it is not float32."""
    return (("element", as_float(dtype, zero_point)),) if dtype.is_narrow else ()


def as_float(dtype: DType, zero_point: int = 0) -> str:
    """The type in kernels that compute with float32: of 8-bit integers, too, and what stands for 0
    in these."""
    return f"Counted<{zero_point}>" if dtype == DType.I8 else dtype.c


def suffix(dtype: DType, zero_point: int = 0) -> str:
    """What tells kernels of narrow types by their names."""
    return f"_{dtype.name}{zeros(zero_point)}" if dtype.is_narrow else ""


def zeros(zero_point: int) -> str:
    """The same of what stands for 0."""
    return f"z{zero_point}".replace("-", "m") if zero_point else ""


def words(spec: TensorSpec) -> int:
    """A tensor's size as one of 32-bit elements, for kernels that copy."""
    return spec.held // WORD


def ends(direction: Pass) -> tuple[str, str]:
    """(port that is read, port that is written) where each pass has one of each."""
    return ("x", "y") if direction is Pass.FORWARD else ("dy", "dx")


def lower(
    name: str,
    operation: Operation,
    size: int,
    reads: Sequence[str],
    writes: Sequence[str],
    dtype: DType = DType.F32,
    scaling: Scaling = Scaling(),
) -> Lowering:
    """One launch of kernel `name` over tensors of `size` elements; `reads`, `writes` are ports.

    Of a sum of integers, `scaling` says what they stand for.
    """
    constants: Constants = (("size", size), ("vector", VECTOR))
    if operation is Operation.COPY:
        kernel = Kernel(name, "copy.hip", BLOCK, (*constants, ("outputs", len(writes))))
    else:
        own = (*scaling.constants, *element(dtype, scaling.zero_points[-1]))
        constants = (*constants, ("inputs", len(reads)), *own)
        suffixes = f"{suffix(dtype, scaling.zero_points[-1])}{scaling.name}"
        kernel = Kernel(name + suffixes, "add.hip", BLOCK, constants)
    return Lowering((kernel,), (Launch(kernel.name, grid(size), (*reads, *writes)),))


def grid(size: int, runs: int = 1) -> tuple[int, int, int]:
    """Work-groups for `size` elements."""
    return ceil(size / (BLOCK * VECTOR * runs)), 1, 1


def runs(size: int, dtype: DType, machine: Machine) -> int:
    """Accesses that a work-item has at once, where each is of few bytes and the machine is an
    NVIDIA GPU that all of its work-groups fill."""
    wide = RUN_NBYTES // (VECTOR * dtype.nbytes)
    filled = machine.units * FULL * BLOCK * VECTOR * wide
    return wide if machine.is_nvidia and size >= filled else 1


writes_all("add")


@writes("copy")
def _copies(c: Values, block: int) -> list[Writes]:
    return [dense(1 + at, c["size"], c["vector"], block) for at in range(c["outputs"])]
