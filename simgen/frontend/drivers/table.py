"""The drivers by name, and a word of the user as the line of one of them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from simgen.errors import UsageError, printable
from simgen.frontend.drivers.benchdnn import Benchdnn
from simgen.frontend.drivers.cutlass import CutlassProfiler
from simgen.frontend.drivers.deepbench_programs import DeepBenchPrograms
from simgen.frontend.drivers.hipblaslt import HipblasltBench
from simgen.frontend.drivers.miopen import MIOpenDriver
from simgen.frontend.drivers.rocblas import RocblasBench

if TYPE_CHECKING:
    from simgen.frontend.drivers.base import Driver
    from simgen.frontend.operation import LibraryOperation

DRIVERS: dict[str, Driver] = {
    each.name: each
    for each in (
        MIOpenDriver(),
        RocblasBench(),
        HipblasltBench(),
        CutlassProfiler(),
        Benchdnn(),
        DeepBenchPrograms(),
    )
}
PROGRAMS = {name: each for each in DRIVERS.values() for name in each.programs or (each.program,)}
STRING = "string"  # the form of problem strings
FORMS = (STRING, *DRIVERS)


def parse_line(line: str) -> LibraryOperation | None:
    """The operation of a driver's command line; None where the line names none of the programs.

    What stands before the program is passed over: a path, variables, what a log has there.

    Raises:
        UsageError: the line cannot be read.
    """
    found = _split(line)
    return PROGRAMS[found[0]].read(found[1], found[0]) if found else None


def notes(line: str, usual: tuple[str, ...]) -> tuple[str, ...]:
    """What the operation of a line is not, or is by choice of simgen, behind the operation's own
    notes, which are those of BLAS for a product."""
    found = _split(line)
    if not found:
        return usual
    program = PROGRAMS[found[0]]
    return (*(() if program.by_rows(found[1]) else usual), *program.notes(found[1]))


def _split(line: str) -> tuple[str, list[str]] | None:
    """The program of a line, and the words behind it."""
    if not any(program in line for program in PROGRAMS):
        return None
    try:
        words = shlex.split(line)
    except ValueError:
        raise UsageError(f"workload {printable(line)}: a quotation has no end; close it") from None
    for at, word in enumerate(words):
        program = word.rpartition("/")[2].removesuffix(".exe")
        if program in PROGRAMS:
            return program, words[at + 1 :]
    return None


def lines(form: str, operation: LibraryOperation) -> list[str]:
    """The operation in one of FORMS.

    Raises:
        UsageError: that form cannot have it.
    """
    return [str(operation)] if form == STRING else DRIVERS[form].lines(operation)
