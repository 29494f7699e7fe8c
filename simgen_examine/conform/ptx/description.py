"""The description of PTX: simgen_examine/data/ptx.json.

A row is [opcode, results, sources, function, least machine]. In an opcode, <a|b> stands for a and
b, and a word in capitals for a list of the file; what stands behind a comma follows the operands.
Types of operands are by blanks: `T` is the last one of the opcode, `T0` the first; `W` is twice as
wide as `T`; `D` is signed if any of the opcode is; `R0` and `R1` are registers of the opcode's
types, of at least 16 bits; `C` is the carry that an instruction leaves, `K` that which it gets.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from simgen.ask.checks import ConformChoices
from simgen.errors import DamagedError, UsageError, did_you_mean
from simgen.ground.storage import schema
from simgen.ground.storage.files import read_regular
from simgen_examine import HERE
from simgen_examine.conform.ptx.operation import OpcodeText, signed, width

FILE = "ptx.json"
MAX_NBYTES = 2**20
_CHOICE = re.compile(r"<([^>]*)>")


@dataclass(frozen=True)
class Opcode:
    """An instruction of PTX with its types and modifiers."""

    op: OpcodeText
    section: str  # section of the manual
    results: tuple[str, ...]  # types
    sources: tuple[str, ...]
    function: str
    family: str = ""
    format: str = "PTX"

    @property
    def name(self) -> str:
        """What findings are grouped by: the instruction and its types."""
        return self.family or ".".join((self.op.root, *self.op.types))


def machines() -> dict[str, str]:
    """Machines that have opcodes, with the PTX version written for each."""
    return dict(_file()["machines"])


def manual() -> str:
    """The vendor's document."""
    return str(_file()["manual"])


def version(arch: str) -> str:
    """PTX version of the texts for a machine.

    Raises:
        UsageError: nobody wrote a description for it.
    """
    known = machines()
    if arch not in known:
        raise UsageError(f"{ConformChoices.arch} {arch}: {did_you_mean(arch, known)}")
    return known[arch]


def number(arch: str) -> int:
    """Number of a machine: 70."""
    return int(arch.removeprefix("sm_"))


def opcodes(arch: str) -> Iterator[Opcode]:
    """Opcodes of a machine.

    Raises:
        DamagedError: the file is missing or not what it should be.
    """
    for section, rows in _file()["sections"].items():
        for pattern, results, sources, function, *least in rows:
            if least and number(arch) < number(least[0]):
                continue
            for text in expanded(pattern):
                name, _, tail = text.partition(",")
                op = OpcodeText(name, f",{tail}" if tail else "")
                if not _is_legal(op):
                    continue
                types = [tuple(typed(each, op) for each in of.split()) for of in (results, sources)]
                yield Opcode(op, section, types[0], types[1], function)


def expanded(pattern: str) -> Iterator[str]:
    """All opcodes that a pattern stands for."""
    lists = _file()["lists"]
    fixed = _CHOICE.split(pattern)
    choices = [
        [one for word in part.split("|") for one in lists.get(word, word).split("|")]
        for part in fixed[1::2]
    ]
    for chosen in itertools.product(*choices):
        pieces = itertools.zip_longest(fixed[::2], chosen, fillvalue="")
        yield "".join(piece for pair in pieces for piece in pair)


def typed(word: str, op: OpcodeText) -> str:
    """The type of an operand."""
    if word in ("T", "T0"):
        return op.types[0] if word == "T0" else op.type
    if word == "W":
        return f"{op.type[0]}{2 * width(op.type)}"
    if word == "D":
        return "s32" if any(map(signed, op.types)) else "u32"
    if word in ("R0", "R1"):
        of = op.types[int(word[1])]
        return f"{of[0]}16" if width(of) == 8 else of
    return word


def _is_legal(op: OpcodeText) -> bool:
    """`.sat` between whole numbers is only allowed where it can change one."""
    if (
        op.root != "cvt"
        or not op.has("sat")
        or op.types[0][0] not in "us"
        or op.type[0] not in "us"
    ):
        return True
    if op.has("pack"):
        return True
    to, of = op.types
    if signed(to) == signed(of):
        return width(to) < width(of)
    return signed(of) or width(to) <= width(of)


@cache
def _file() -> Any:
    path = HERE / "data" / FILE
    try:
        return schema.parse(read_regular(path, MAX_NBYTES))
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path}: damaged ({error}); install simgen again") from None
