"""Kernels that give each element of their outputs from the same element of their inputs.

All tensors have one size and lie densely, so shapes do not matter. A work-item takes VECTOR
neighbouring elements: one 16-byte access of each tensor.
"""

from __future__ import annotations

from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING

from simgen.dtypes import WORD, DType
from simgen.ir import Kernel, Launch, Pass
from simgen.layers.base import Lowering
from simgen.layers.written import Writes, dense, writes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.ir import Constants, TensorSpec
    from simgen.layers.written import Values

BLOCK = 256  # work-items
VECTOR = 4  # elements of a work-item


class Operation(StrEnum):
    COPY = "copy"  # each output is the input
    ADD = "add"  # the inputs in order, one addition after the other


def element(dtype: DType) -> Constants:
    """The constant that names the type of elements to a kernel, where it is not float32."""
    return (("element", dtype.c),) if dtype.is_narrow else ()


def suffix(dtype: DType) -> str:
    """What tells kernels of narrow types by their names."""
    return f"_{dtype.name}" if dtype.is_narrow else ""


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
) -> Lowering:
    """One launch of kernel `name` over tensors of `size` elements; `reads`, `writes` are ports."""
    constants: Constants = (("size", size), ("vector", VECTOR))
    if operation is Operation.COPY:
        kernel = Kernel(name, "copy.hip", BLOCK, (*constants, ("outputs", len(writes))))
    else:
        constants = (*constants, ("inputs", len(reads)), *element(dtype))
        kernel = Kernel(name + suffix(dtype), "add.hip", BLOCK, constants)
    return Lowering((kernel,), (Launch(kernel.name, grid(size), (*reads, *writes)),))


def grid(size: int) -> tuple[int, int, int]:
    """Work-groups for `size` elements."""
    return ceil(size / (BLOCK * VECTOR)), 1, 1


@writes("add")
def _one(c: Values, block: int) -> list[Writes]:
    return [dense(-1, c["size"], c["vector"], block)]


@writes("copy")
def _copies(c: Values, block: int) -> list[Writes]:
    return [dense(1 + at, c["size"], c["vector"], block) for at in range(c["outputs"])]
