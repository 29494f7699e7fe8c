"""What launchers in C are compiled from: one generated header, beside files that are as they lie.

The launchers are templates/launchers/*.c and *.cpp; sample/ beside them has a sample of the header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.ground.ir import GUARD
from simgen.kernels import render

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from simgen.ground.ir import Kernel
    from simgen.targets.base import Job
    from simgen.targets.kernargs import Area

HEADER = "plan.h"
_FOLDER = "launchers/"

Row = tuple[str, int, int, int, int, int]  # a kernel, as EACH_KERNEL has it


def row(kernel: Kernel, name: str, at: int = 0, lds_nbytes: int = 0) -> Row:
    """The kernel by the name that the launcher finds it by."""
    return (name, at, lds_nbytes, *kernel.extents)


def sources(
    job: Job,
    files: Iterable[str],
    facts: Mapping[str, object],
    kernels: Sequence[Row] = (),
    areas: Sequence[Area] = (),
    relocated: Sequence[int] = (),
) -> dict[str, bytes]:
    """The header and the files, by name: those of a package have its name before (PACKAGE:FILE).

    `facts` are the macros that the launcher asks for, in C.
    """
    header = render.text(
        f"{_FOLDER}{HEADER}.j2",
        workload=job.workload,
        guard=GUARD,
        data_id=job.data_id,
        facts=facts,
        kernels=kernels,
        areas=areas,
        relocated=relocated,
    )
    texts = {each: render.text(each if ":" in each else _FOLDER + each) for each in files}
    kept = job.workload.left and any('"state.h"' in text for text in texts.values())
    for name in ("system.h", *(("state.h",) if kept else ())):
        texts[name] = render.text(_FOLDER + name)
    made = {each.rpartition(":")[2]: text.encode() for each, text in texts.items()}
    return {HEADER: header.encode(), **made}
