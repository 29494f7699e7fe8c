"""The file of what finished steps leave: `state.bin` in the folder of a run.

It is what templates/launchers/state.h reads and writes, little-endian:

    8 bytes     magic, "simgenS1"
    32 bytes    id, as of the data file
    24 bytes    zero
    u8          a mark for each step; zeros up to a multiple of PAGE follow
    bytes       the arena from Workload.state_offset to its end: tensors and the guards behind them

A launcher writes a step's mark after its tensors, so that the tensors of marked steps are whole
however the run has ended. Tensors that nobody wrote are holes in the file. Where memory is reused,
a tensor that nobody reads any more may have been overwritten.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from simgen.ask.run import RunChoices
from simgen.errors import DamagedError
from simgen.ground import arrays
from simgen.ground.ir import GUARD, PAGE, Workload
from simgen.ground.storage.files import atomic_file, open_regular

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


FILE = "state.bin"
MAGIC = b"simgenS1"
MARKS = 64  # offset of the marks


class Mark(IntEnum):
    TO_RUN = 0
    FINISHED = 1  # its tensors are here
    LEFT_OUT = 2  # not run, and nobody reads its tensors
    GIVEN = 3  # not run; its tensors are here, because steps that are run read them
    FILLED = 4  # to be run in part, over tensors that are here


def head_nbytes(workload: Workload) -> int:
    """Where the tensors start in the file."""
    return -(-(MARKS + len(workload.steps)) // PAGE) * PAGE


def nbytes(workload: Workload) -> int:
    """The size that the file may reach."""
    return head_nbytes(workload) + workload.arena_nbytes - workload.state_offset


def finished(path: Path, workload: Workload) -> int:
    """How many steps are marked as finished; 0 where there is no such file."""
    try:
        with open_regular(path) as file:
            file.seek(MARKS)
            return file.read(len(workload.steps)).count(Mark.FINISHED)
    except OSError:
        return 0


def has_finished(path: Path) -> bool:
    """Whether a step is marked as finished, of whatever workload the file is."""
    try:
        with open_regular(path) as file:
            return Mark.FINISHED in file.read(PAGE)[MARKS:]
    except OSError:
        return False


def read_marks(path: Path, workload: Workload, data_id: bytes) -> list[Mark]:
    """The marks.

    Raises:
        DamagedError: it is not the state of a run of this workload and data.
    """
    wrong = f"{path}: not the state of a run of this bundle; run it without {RunChoices.resume}"
    try:
        with open_regular(path) as file:
            head = file.read(MARKS + len(workload.steps))
    except OSError as error:
        raise DamagedError(
            f"{path}: {error.strerror}; run it without {RunChoices.resume}"
        ) from None
    if len(head) < MARKS + len(workload.steps):
        raise DamagedError(wrong)
    if head[:8] != MAGIC or head[8:40] != data_id or max(head[MARKS:]) > max(Mark):
        raise DamagedError(wrong)
    return [Mark(mark) for mark in head[MARKS:]]


def mark(path: Path, marks: Sequence[Mark]) -> None:
    """Overwrite the marks of a file."""
    with path.open("r+b") as file:
        file.seek(MARKS)
        file.write(bytes(marks))


def write(
    path: Path,
    workload: Workload,
    data_id: bytes,
    marks: Sequence[Mark],
    tensors: Mapping[str, NDArray[Any]],
) -> None:
    """A file with `marks` and the tensors of the steps that are GIVEN or FILLED, by buffer."""
    np = arrays
    canary = workload.canary.to_bytes(4, "little")
    with atomic_file(path) as file:
        file.write(MAGIC + data_id + bytes(MARKS - len(MAGIC) - len(data_id)) + bytes(marks))
        for each in workload.left:
            if marks[each.step] not in (Mark.GIVEN, Mark.FILLED):
                continue
            file.seek(head_nbytes(workload) + each.offset - workload.state_offset)
            spec = workload.buffer(each.name).spec
            values = np.ascontiguousarray(tensors[each.name], spec.dtype.array).tobytes()
            file.write(values.ljust(spec.held, b"\0") + canary * (GUARD // 4))
