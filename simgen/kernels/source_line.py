"""Where in a kernel's source an instruction comes from, for error messages.

Code objects and the assembly that they are made of hold no line tables, so that their bytes depend
on the code alone. The kernel is compiled again with them only when there is an error to explain.
Line tables leave the instructions and their order as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.errors import SimgenError, printable
from simgen.isa import legalise, toolchain
from simgen.isa.legalise.assembly import Instruction, parse
from simgen.kernels import render

if TYPE_CHECKING:
    from simgen.isa.legalise import Model


@dataclass(frozen=True)
class Origin:
    """An instruction and the line of the source (from 1 on; 0: not known) that it is made of."""

    instruction: str
    line: int
    text: str  # text of that line

    @property
    def quoted(self) -> str:
        """The line as it may stand in a message."""
        return printable(self.text)


def of_refusal(source: str, model: Model) -> Origin | None:
    """What `legalise.rewrite` refuses in a kernel; None if nothing or if it cannot be told."""
    try:
        legalise.rewrite(_assembly(source, render.prelude(), model.arch), model)
    except legalise.NoRuleError as refusal:
        return _origin(refusal.item, source)
    except SimgenError:  # no compiler, say: the first error is the one to show
        pass
    return None


def of_instruction(
    source: str, prelude: str, model: Model, kernel: str, number: int
) -> Origin | None:
    """The instruction of a linked kernel that comes after `number` others; None if not known.

    `model` is what the kernel was made for, `prelude` the header that it was compiled with.
    """
    try:
        made = legalise.rewrite(_assembly(source, prelude, model.arch), model).text
    except SimgenError:
        return None
    for found in parse(made.split("\n")):
        if found.name == kernel:
            items = [item for item in found.items.values() if isinstance(item, Instruction)]
            return _origin(items[number], source) if number < len(items) else None
    return None


def _assembly(source: str, prelude: str, arch: str) -> str:
    """Assembly text in which lines of the kernel and of the prelude are told apart."""
    before, _, after = source.partition(f'#include "{render.PRELUDE}"\n')
    line = before.count("\n") + 2
    whole = f'{before}#line 1 "{render.PRELUDE}"\n{prelude}#line {line} "kernel.hip"\n{after}'
    return toolchain.assembly(whole, arch, lines=True)


def _origin(item: Instruction, source: str) -> Origin:
    lines = source.splitlines()
    known = 0 < item.source_line <= len(lines)
    line = item.source_line if known else 0
    return Origin(str(item), line, lines[line - 1].strip() if line else "")
