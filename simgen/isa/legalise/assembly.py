"""AMDGPU assembly text, as clang prints it: kernels, their instructions, their register counts.

Only what a rewriting needs is understood; every other line is handed through as it is.

Source: https://llvm.org/docs/AMDGPUOperandSyntax.html and AMDGPUUsage.html, "Assembler Directives".
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Numbers = dict[str, tuple[int, int]]  # by name: (index of the line, value)

_LABEL = re.compile(r"([A-Za-z_.$][\w.$]*):")
_FUNCTION = re.compile(r"\s*\.type\s+([\w.$]+),\s*@function")
# .loc FILE LINE COLUMN ; FILE:LINE:COLUMN @[ FILE:LINE:COLUMN ]: inlined, and where it was called
_PLACE = re.compile(r"\s*\.loc\s")
_ALIGN = re.compile(r"; align (\d+)\b")  # as toolchain.aligned writes it
_SOURCE_LINE = re.compile(r"\bkernel\.hip:(\d+):")  # not of the prelude
# Symbol of what the code uses -> directive of what the descriptor reserves, both without VCC. The
# latter may be more, so that fewer waves run at once.
_COUNTS = {"num_vgpr": "next_free_vgpr", "numbered_sgpr": "next_free_sgpr"}
_DESCRIBED = re.compile(r"\s*\.amdhsa_kernel (\S+)")
# Maximum over a function's own registers and those of the functions that it calls.
_MAXIMUM = re.compile(r"\s*\.set ([\w.$]+)\.(\w+), max\(([\w.$, ]+)\)$")
_SYMBOL = re.compile(r"\s*\.set ([\w.$]+)\.(\w+), (\d+)$")  # symbol of a kernel, such as num_vgpr
CONTRACTED = "contracted"  # such a symbol of ours: the source's multiply-adds may be fused
DYNAMIC_LDS = "dynamic_lds"  # such a symbol of ours: bytes that each launch of the kernel asks for
GROUP = ("group_x", "group_y", "group_z")  # such symbols of ours: extents of its work-groups
_METADATA = (".vgpr_count", ".sgpr_count")
_SIZES = (
    ".group_segment_fixed_size",
    ".max_flat_workgroup_size",
    ".private_segment_fixed_size",
)
_BRACKETS = re.compile(r"[][()]")
_TAIL = re.compile(r"[a-z]\w*(:\S+)?$")  # offset:16, clamp, op_sel:[0,1]
_REGISTERS = re.compile(r"([vs])(?:(\d+)|\[(\d+):(\d+)\])$")
_INLINE_FLOATS = frozenset(
    ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494"]
)
VCC = ("vcc_lo", "vcc_hi")


@dataclass(frozen=True)
class Instruction:
    """One instruction: v_add_f32_e64 v0, |v1|, -s2 clamp."""

    mnemonic: str
    operands: tuple[str, ...]
    tail: tuple[str, ...] = ()  # words behind the operands: offset:16, clamp
    source_line: int = 0  # line of the kernel's source; 0: unknown
    align: int = 0  # bytes that its addresses are multiples of, if they are few; 0: not told

    def __str__(self) -> str:
        words = [", ".join(self.operands), *self.tail]
        words += [f"; align {self.align}"] if self.align else []
        return " ".join((self.mnemonic, *filter(None, words)))

    def modifier(self, name: str) -> str | None:
        """The value of NAME:VALUE in the tail."""
        prefix = f"{name}:"
        return next((w.removeprefix(prefix) for w in self.tail if w.startswith(prefix)), None)


@dataclass(frozen=True)
class Label:
    """A place that branches go to."""

    name: str


@dataclass
class AssemblyKernel:
    """The lines of one kernel's code, and the registers that it uses."""

    name: str
    start: int  # index of the line of its label
    items: dict[int, Instruction | Label]  # by index of the line
    vgprs: int = 0
    sgprs: int = 0  # without VCC
    counts: Numbers = field(default_factory=dict)  # numeric .amdhsa_ directives, and symbols
    metadata: Numbers = field(default_factory=dict)  # _METADATA and _SIZES
    # For a function that is no kernel: the module's kernels, whose registers it shares.
    callers: tuple[AssemblyKernel, ...] = ()


def parse(lines: Sequence[str]) -> list[AssemblyKernel]:
    """The kernels of a module, in order."""
    directives = [each for each in enumerate(lines) if each[1].lstrip()[:1] == "."]
    names = {m[1] for _, line in directives if (m := _FUNCTION.match(line))}
    found: list[AssemblyKernel] = []
    inside: AssemblyKernel | None = None
    place = 0
    for at, line in enumerate(lines):
        code = line.split(";", 1)[0].strip()
        if ":" not in code and code[:1].isalpha():  # most lines
            if inside:
                inside.items[at] = instruction(code, place)
        elif m := _LABEL.match(code):
            if m[1] in names:
                inside = AssemblyKernel(m[1], at, {})
                found.append(inside)
            elif inside:
                inside.items[at] = Label(m[1])
        elif code.startswith("."):
            if _PLACE.match(code):
                m = _SOURCE_LINE.search(line)
                place = int(m[1]) if m else 0
            elif code.startswith((".section", ".end_amdhsa", ".size")):
                inside = None
        elif inside and code:
            told = _ALIGN.search(line) if ";" in line else None
            inside.items[at] = instruction(code, place, int(told[1]) if told else 0)
    counts, metadata = _counts(directives), _metadata(lines)
    for kernel in found:
        kernel.counts, kernel.metadata = counts[kernel.name], metadata[kernel.name]
        kernel.vgprs, kernel.sgprs = (
            kernel.counts.get(used, kernel.counts.get(reserved, (0, 0)))[1]
            for used, reserved in _COUNTS.items()
        )
    described = {m[1] for _, line in directives if (m := _DESCRIBED.match(line))}
    kernels = tuple(kernel for kernel in found if kernel.name in described)
    if kernels and len(kernels) < len(found):  # what any of them owns may be in use in a call
        vgprs, sgprs = max(k.vgprs for k in found), max(k.sgprs for k in found)
        for kernel in found:
            kernel.vgprs, kernel.sgprs = vgprs, sgprs
            kernel.callers = () if kernel in kernels else kernels
    return found


@lru_cache(maxsize=1 << 15)  # each rewriting of a text parses it again
def instruction(code: str, source_line: int = 0, align: int = 0) -> Instruction:
    """Parse one instruction without its comment."""
    mnemonic, _, rest = code.partition(" ")
    parts = _split(rest)
    tail: list[str] = []
    if parts:
        words = parts[-1].split()
        first = len(words)
        while first > (0 if mnemonic.startswith("s_waitcnt") else 1) and _TAIL.match(
            words[first - 1]
        ):
            first -= 1
        tail = words[first:]
        parts[-1] = " ".join(words[:first])
    return Instruction(mnemonic, tuple(filter(None, parts)), tuple(tail), source_line, align)


def _split(text: str) -> list[str]:
    """Cut at the commas that stand outside of brackets."""
    if not _BRACKETS.search(text):
        parts = [part.strip() for part in text.split(",")]
        return parts if parts[-1] else parts[:-1]
    parts, depth, start = [], 0, 0
    for at, c in enumerate(text):
        depth += (c in "[(") - (c in "])")
        if c == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def readable(symbol: str) -> str:
    """The name in the source of what a symbol of C++ stands for."""
    head = re.match(r"_Z(?:Z.*E)?N?", symbol)
    name, at = symbol, head.end() if head else len(symbol)
    while length := re.match(r"L?(\d+)", symbol[at:]):
        start = at + length.end()
        name, at = symbol[start : start + int(length[1])], start + int(length[1])
    return name


# Operands ------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 12)
def registers(operand: str) -> tuple[str, ...]:
    """The 32-bit registers of v3, s[4:5], vcc; empty for anything else."""
    if operand in ("vcc", "exec"):
        return f"{operand}_lo", f"{operand}_hi"
    m = _REGISTERS.match(operand)
    if not m:
        return (operand,) if operand in (*VCC, "exec_lo", "exec_hi", "m0") else ()
    first, last = int(m[2] or m[3]), int(m[2] or m[4])
    return tuple(f"{m[1]}{n}" for n in range(first, last + 1))


def is_vgpr(operand: str) -> bool:
    return operand.startswith("v") and not operand.startswith("vcc")


def integer(operand: str) -> int | None:
    """The value of an integer constant, else None."""
    try:
        return int(operand, 0)
    except ValueError:
        return None


def is_inline(operand: str) -> bool:
    """Whether a constant needs no extra word; VOP3 instructions take no other."""
    value = integer(operand)
    return operand in _INLINE_FLOATS if value is None else -16 <= value <= 64


def is_constant(operand: str) -> bool:
    return operand[:1].isdigit() or (operand[:1] == "-" and operand[1:2].isdigit())


def is_number(operand: str) -> bool:
    """Whether an operand is a constant that is no NaN as a float32."""
    value = integer(operand)
    if value is None:
        return is_constant(operand)
    return value & 0x7FFFFFFF <= 0x7F800000


@lru_cache(maxsize=1 << 12)
def source_modifiers(operand: str) -> tuple[bool, bool, str]:
    """(neg, abs, the rest) of -|v0|; of a constant, of neg(1.0): a minus belongs to the number."""
    if operand.startswith("neg("):
        return True, False, operand[4:-1]
    neg = operand.startswith("-") and not is_constant(operand)
    body = operand[1:] if neg else operand
    absolute = body.startswith("|")
    return neg, absolute, body.strip("|")


# Register counts -----------------------------------------------------------------------------


def _counts(directives: Iterable[tuple[int, str]]) -> defaultdict[str, Numbers]:
    """Numeric directives and symbols by kernel; of (index, line)."""
    found: defaultdict[str, Numbers] = defaultdict(dict)
    most: dict[tuple[str, str], tuple[int, list[str]]] = {}
    inside = ""
    for at, line in directives:
        words = line.split()
        if words[:1] == [".amdhsa_kernel"]:
            inside = words[1]
        elif words[:1] == [".end_amdhsa_kernel"]:
            inside = ""
        elif inside and len(words) == 2 and words[1].isdigit():
            found[inside][words[0].removeprefix(".amdhsa_")] = (at, int(words[1]))
        elif m := _SYMBOL.match(line):
            found[m[1]][m[2]] = (at, int(m[3]))
        elif m := _MAXIMUM.match(line):
            most[m[1], m[2]] = (at, m[3].split(", "))
    for name, key in most:
        found[name][key] = (most[name, key][0], _most(name, key, most, found, set()))
    return found


def _most(
    name: str, key: str, most: Mapping[tuple[str, str], tuple[int, list[str]]],
    known: Mapping[str, Numbers], seen: set[tuple[str, str]],
) -> int:  # fmt: skip
    """The value of a symbol; functions may call each other."""
    if (name, key) in seen:
        return 0
    seen.add((name, key))
    if (name, key) not in most:
        return known.get(name, {}).get(key, (0, 0))[1]
    parts = ((part, *part.rpartition(".")) for part in most[name, key][1])
    return max(
        int(part) if part.isdigit() else _most(owner, own, most, known, seen)
        for part, owner, _, own in parts
    )


def _metadata(lines: Sequence[str]) -> defaultdict[str, Numbers]:
    """Register counts and sizes by kernel, from the list amdhsa.kernels."""
    found: defaultdict[str, Numbers] = defaultdict(dict)
    starts = (at for at, line in enumerate(lines) if line.startswith("amdhsa.kernels:"))
    entry: dict[str, tuple[int, int]] = {}
    for at in range(next(starts, len(lines)) + 1, len(lines)):
        line = lines[at]
        if line[:1] != " ":
            break
        if line.startswith("  - "):
            entry = {}
        key, _, value = line.removeprefix("  - ").strip().partition(":")
        if key in _METADATA + _SIZES:
            entry[key] = (at, int(value))
        elif line[4:].startswith(".name:"):  # not of an argument, which is further in
            found[value.strip()] = entry
    return found


def raise_counts(lines: list[str], kernel: AssemblyKernel, vgprs: int, sgprs: int) -> None:
    """Let the kernel, or all that call the function, own at least this many registers: descriptor,
    metadata and symbols."""
    vgprs, sgprs = max(vgprs, kernel.vgprs), max(sgprs, kernel.sgprs)
    if (vgprs, sgprs) == (kernel.vgprs, kernel.sgprs):
        return
    # Accumulation registers begin at accum_offset, a multiple of 4.
    values = {"accum_offset": -(-vgprs // 4) * 4}
    for names, count in zip(_COUNTS.items(), (vgprs, sgprs)):
        values |= dict.fromkeys(names, count)
    for owner in kernel.callers or (kernel,):
        for name, value in values.items():
            if name in owner.counts:
                _raise(lines, owner.counts[name][0], value)
        for key, more in zip(_METADATA, (vgprs - owner.vgprs, sgprs - owner.sgprs)):
            if key in owner.metadata:
                at, old = owner.metadata[key]
                _raise(lines, at, old + more)


def _raise(lines: list[str], at: int, value: int) -> None:
    """Let a line end with a number that is at least this one, or the most of it and others."""
    found = re.sub(r"(\d+)(\s*)$", lambda m: f"{max(int(m[1]), value)}{m[2]}", lines[at])
    lines[at] = re.sub(r" max\((.*)\)$", rf" max({value}, \1)", found)


def raise_ids(lines: list[str], kernel: AssemblyKernel, dimensions: int) -> None:
    """Let the kernel's work-items know their numbers in so many dimensions."""
    _raise(lines, kernel.counts["system_vgpr_workitem_id"][0], dimensions - 1)


def raise_lds(lines: list[str], kernel: AssemblyKernel, nbytes: int) -> None:
    """Let the kernel's work-groups own so much LDS beside what launches ask for: descriptor and
    metadata."""
    places = [
        kernel.counts.get("group_segment_fixed_size"),
        kernel.metadata.get(".group_segment_fixed_size"),
    ]
    for place in filter(None, places):
        lines[place[0]] = re.sub(r"\d+(\s*)$", rf"{nbytes}\1", lines[place[0]])
