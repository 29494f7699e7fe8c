"""A kernel's key in MIOpen's kernel database: its program, and its arguments to the letter.

The library compiles a kernel when it is first asked for, unless its database has a code object
under exactly this program and these arguments. gem5 cannot compile: the simulated program cannot
start another one. So what a run will ask for must be known before it starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Dims = tuple[int, int, int, int]  # (N, C, H, W)
Defines = Mapping[str, int | str]  # macros of the preprocessor, in order
Fields = Mapping[str, Any]  # fields of a layer

# How different parts of the library say that elements are float32.
FLOAT: Defines = {"MIOPEN_USE_FP16": 0, "MIOPEN_USE_FP32": 1}
FLOAT_LAST: Defines = {"MIOPEN_USE_FP32": 1, "MIOPEN_USE_FP16": 0}
FLOAT_MIXED: Defines = {**FLOAT, "MIOPEN_USE_FPMIX": 0}
FLOAT_OF_MANY: Defines = {
    **FLOAT,
    "MIOPEN_USE_INT8": 0,
    "MIOPEN_USE_INT8x4": 0,
    "MIOPEN_USE_BFP16": 0,
    "MIOPEN_USE_INT32": 0,
    "MIOPEN_USE_RNE_BFLOAT16": 1,
}


@dataclass(frozen=True)
class Dispatch:
    """One launch of a kernel.

    `arguments` has one entry, or several where the number of compute units decides which of them
    MIOpen takes. Kernels of rocBLAS have no program and no arguments.
    """

    kernel: str
    program: str = ""
    arguments: tuple[str, ...] = ()


def arguments(*parts: Defines, first: str = "") -> str:
    """As MIOpen hands them to the compiler, up to the name of the GPU. A name may come twice."""
    return first + "".join(f" -D{name}={value}" for part in parts for name, value in part.items())


def vector(unit: int) -> str:
    """The type of `unit` neighbours that a work-item reads at once."""
    return "_FLOAT" if unit == 1 else f"_FLOAT{unit}"
