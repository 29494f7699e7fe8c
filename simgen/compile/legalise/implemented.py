"""Which opcodes a simulator implements: data/isa, and a check of machine code against it.

The second line of defence behind the table of mnemonics: it reads what the assembler made.

Source: AMD's instruction set manuals ("Vega" and "MI300"), chapter "Microcode Formats".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from simgen.compile.legalise import simulators

if TYPE_CHECKING:
    from simgen.compile.legalise.simulators import Model

LITERAL, SDWA, DPP = 255, 249, 250  # values of a source field that announce another word
VOP3B = frozenset((281, 282, 283, 284, 285, 286, 480, 481))  # as MGPUSim decodes: a scalar result


@dataclass(frozen=True)
class Format:
    """An instruction format: how to know it, where the opcode is, what may be a literal."""

    name: str
    mask: int
    bits: int
    shift: int
    width: int  # of the opcode
    nbytes: int
    sources: tuple[tuple[int, int], ...] = ()  # (shift, width) of fields that may say LITERAL


_SCALAR = ((0, 8), (8, 8))
_VECTOR = ((0, 9),)
FORMATS = (  # the more specific ones first
    Format("SOP1", 0xFF800000, 0xBE800000, 8, 8, 4, _SCALAR[:1]),
    Format("SOPC", 0xFF800000, 0xBF000000, 16, 7, 4, _SCALAR),
    Format("SOPP", 0xFF800000, 0xBF800000, 16, 7, 4),
    Format("VOP1", 0xFE000000, 0x7E000000, 9, 8, 4, _VECTOR),
    Format("VOPC", 0xFE000000, 0x7C000000, 17, 8, 4, _VECTOR),
    Format("SMEM", 0xFC000000, 0xC0000000, 18, 8, 8),
    Format("VOP3a", 0xFC000000, 0xD0000000, 16, 10, 8),
    Format("DS", 0xFC000000, 0xD8000000, 17, 8, 8),
    Format("FLAT", 0xFC000000, 0xDC000000, 18, 7, 8),
    Format("SOPK", 0xF0000000, 0xB0000000, 23, 5, 4),
    Format("SOP2", 0xC0000000, 0x80000000, 23, 7, 4, _SCALAR),
    Format("VOP2", 0x80000000, 0x00000000, 25, 6, 4, _VECTOR),
)
_WITH_LITERAL = {("VOP2", 23), ("VOP2", 24), ("VOP2", 36), ("VOP2", 37), ("SOPK", 20)}


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

    number: int  # of instructions before it
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
    """(offset, format, opcode) of each instruction of a kernel."""
    at, found = 0, []
    while at + 4 <= len(code):
        (word,) = struct.unpack_from("<I", code, at)
        format_ = next((f for f in FORMATS if word & f.mask == f.bits), None)
        if format_ is None:
            found.append((at, f"word {word:#010x}", 0))
            at += 4
            continue
        opcode = word >> format_.shift & (1 << format_.width) - 1
        fields = [word >> shift & (1 << width) - 1 for shift, width in format_.sources]
        long = LITERAL in fields or (format_.sources == _VECTOR and fields[0] in (SDWA, DPP))
        long = long or (format_.name, opcode) in _WITH_LITERAL
        name = "VOP3b" if format_.name == "VOP3a" and opcode in VOP3B else format_.name
        found.append((at, name, opcode))
        at += format_.nbytes + 4 * long
    return found
