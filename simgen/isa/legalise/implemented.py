"""Which opcodes a simulator implements: data/isa, and a check of machine code against it.

The second line of defence behind the table of mnemonics: it reads what the assembler made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from simgen.isa.legalise import simulators
from simgen.isa.legalise.machine_code import Decoded, decoded

if TYPE_CHECKING:
    from simgen.isa.legalise.simulators import Model

VOP3B = frozenset((281, 282, 283, 284, 285, 286, 480, 481))  # as MGPUSim decodes: a scalar result
VOP3P = 0x380  # its opcodes are numbers of VOP3a there, from this one on


@cache
def implemented(model: Model) -> dict[str, dict[int, str]]:
    """Format -> opcode -> the simulator's own name of the instruction.

    Raises:
        UsageError: the table has no such model.
    """
    opcodes = simulators.support(model).opcodes
    return {name: {int(k): v for k, v in codes.items()} for name, codes in opcodes.items()}


@dataclass(frozen=True)
class Unimplemented:
    """An instruction that a simulator lacks."""

    number: int  # number of instructions before it
    format: str
    opcode: int

    def __str__(self) -> str:
        return f"{self.format} opcode {self.opcode}"


def unimplemented(code: bytes, model: Model) -> list[Unimplemented]:
    """The instructions of a kernel that the simulator lacks, in order."""
    table = implemented(model)
    return [
        Unimplemented(number, name, opcode)
        for number, (_, name, opcode) in enumerate(instructions(code))
        if opcode not in table.get(name, {})
    ]


def instructions(code: bytes) -> list[tuple[int, str, int]]:
    """(offset, format, opcode) of each instruction of a kernel, as MGPUSim calls formats."""
    return [(item.offset, *named(item)) for item in decoded(code)]


def named(item: Decoded) -> tuple[str, int]:
    """The format and the opcode of an instruction, as MGPUSim calls them."""
    if item.format == "VOP3P":
        return "VOP3a", VOP3P + item.opcode
    if item.format == "VOP3":
        return ("VOP3b" if item.opcode in VOP3B else "VOP3a"), item.opcode
    return item.format or f"word {item.word:#010x}", item.opcode
