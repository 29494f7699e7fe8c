"""Instructions of PTX as clang writes them: one to a line."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STATEMENT = re.compile(r"^\t(?:(@!?%\w+) +)?([a-z][\w.:]*)(?:[ \t]+(.*?))?;(?:\s*//.*)?$")
# Half of a pair that nobody wants has a name of its own:
# { .reg .b32 tmp; mov.b64 {tmp, %r1}, %rd1; }
BLOCK = re.compile(r"^\t\{ \.reg \.b(16|32) (\w+); ([a-z][^;]*); \}$")
_WIDTHS = {"%rs": 16, "%rd": 64, "%fd": 64, "%sgh": 16, "%sgd": 64}  # all others have 32


@dataclass(frozen=True)
class Statement:
    """An instruction: `@%p1 add.s32 %r1, %r2, 3;`."""

    guard: str
    opcode: str
    operands: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """What points part in its opcode."""
        return self.opcode.replace("::", ".").split(".")


def statement(line: str) -> Statement | None:
    """The instruction of a line, or None."""
    if block := BLOCK.match(line):
        register = {"16": "%sgh1", "32": "%sgr5"}[block[1]]
        line = "\t" + re.sub(rf"\b{block[2]}\b", register, block[3]) + ";"
    found = _STATEMENT.match(line)
    if not found:
        return None
    return Statement(found[1] or "", found[2], split(found[3] or ""))


def split(operands: str) -> tuple[str, ...]:
    """Operands of an instruction, of which braces and brackets hold commas."""
    made, depth, word = [], 0, ""
    for character in operands:
        depth += (character in "{[(") - (character in "}])")
        if character == "," and not depth:
            made.append(word.strip())
            word = ""
        else:
            word += character
    return (*made, word.strip()) if word.strip() else tuple(made)


def width(register: str) -> int:
    """Bits of a register, by the names that LLVM gives, or ours."""
    found = re.match(r"%[a-z]+", register)
    return _WIDTHS.get(found[0] if found else "", 32)


def registers(operand: str) -> list[str]:
    """The registers of an operand, in order."""
    return re.findall(r"%[\w$]+", operand)
