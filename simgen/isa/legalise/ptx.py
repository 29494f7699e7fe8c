"""PTX that GPGPU-Sim executes wrongly or does not read -> PTX that it executes right.

GPGPU-Sim interprets the text that a compiler leaves. Each rule here replaces one form of
instruction by others that compute the same; what has no rule, and is not in the table of what it
reads and implements (data/ptx), is refused before anything runs. Places are of its sources, commit
667834cf.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from simgen.errors import RefusedError
from simgen.ground import resources
from simgen.ground.storage.files import read_regular
from simgen.ground.storage.schema import from_json, parse
from simgen.isa.legalise.ptx_statements import (
    BLOCK,
    Statement,
    registers,
    split,
    statement,
    width,
)
from simgen.isa.legalise.rewritten import Legalised

_ENTRY = re.compile(r"^\.visible \.entry ([\w$]+)\(", re.M)
_LITERAL = re.compile(r"(?<![\w%$.+\[])(-?(?:0[xX][0-9a-fA-F]+|\d+))U?\b(?![.\w])")
# Registers but those that LLVM numbers, and rules.
_SPECIAL = re.compile(r"%(?!(?:p|rs?|rd|rq|fd?|hh?|b|sg[prdh])\d+\b)[a-z]\w*")
_LAUNCH_BOUNDS = re.compile(
    r"^\.(maxntid|minnctapersm|reqntid|maxnreg|noreturn|maxclusterrank|explicitcluster)\b"
)
MAX_NBYTES = 2**20  # size limit of a table


@dataclass(frozen=True)
class PtxTable:
    """What a version of GPGPU-Sim reads and implements: a file of data/ptx."""

    simulator: str
    version: str
    source: str
    opcodes: tuple[str, ...]  # first words of instructions
    modifiers: tuple[str, ...]  # words behind the opcode
    lacks: dict[str, str]  # words that end the simulator, or that it computes wrongly -> why
    registers: tuple[str, ...]  # special ones
    timed_only: dict[str, str]  # opcodes that functional mode computes wrongly -> why


@cache
def table(version: str) -> PtxTable:
    """The table of a version, which must be there."""
    path = resources.folder("data") / "ptx" / f"gpgpusim-{version}.json"
    return from_json(PtxTable, parse(read_regular(path, MAX_NBYTES)))


# Rules -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """What replaces an instruction."""

    opcode: re.Pattern[str]  # all of it
    reason: str  # what GPGPU-Sim does, and where
    make: Callable[[Statement, re.Match[str]], list[str]]


# Registers of ours, declared where a kernel's rules need them.
_TEMPORARIES = "\n".join(
    f"\t.reg {of};" for of in (".pred %sgp<1>", ".b16 %sgh<4>", ".b32 %sgr<6>", ".b64 %sgd<8>")
)


def _compare(this: Statement, found: re.Match[str]) -> list[str]:
    return [f"setp.{found[1]}{found[2] or ''}.u{found[3]} {', '.join(this.operands)}"]


def _signed_load(this: Statement, found: re.Match[str]) -> list[str]:
    bits = int(found[1] or found[2])
    wider = [r for r in registers(this.operands[0]) if width(r) > bits]
    extended = [f"cvt.s{width(r)}.s{bits} {r}, {r}" for r in wider]
    return [f"{this.opcode} {', '.join(this.operands)}", *extended]


def _signed_convert(this: Statement, found: re.Match[str]) -> list[str]:
    to = this.operands[0]
    return [f"{this.opcode} {', '.join(this.operands)}", f"cvt.s{width(to)}.s8 {to}, {to}"]


def _remainder(this: Statement, found: re.Match[str]) -> list[str]:
    to, a, b = this.operands
    sign = found[1]
    return [
        f"mov.b16 %sgh0, {a}", f"mov.b16 %sgh1, {b}",
        f"cvt.{sign}32.{sign}16 %sgr0, %sgh0", f"cvt.{sign}32.{sign}16 %sgr1, %sgh1",
        f"rem.{sign}32 %sgr0, %sgr0, %sgr1", f"cvt.u16.u32 {to}, %sgr0",
    ]  # fmt: skip


def _high_product(this: Statement, found: re.Match[str]) -> list[str]:
    """The upper half of a product of 64 bits, from four products of halves (Knuth, 4.3.1 M)."""
    to, a, b = this.operands
    lines = [
        f"mov.b64 %sgd5, {a}", f"mov.b64 %sgd6, {b}",
        "mov.b64 {%sgr0, %sgr1}, %sgd5", "mov.b64 {%sgr2, %sgr3}, %sgd6",
        "mul.wide.u32 %sgd0, %sgr0, %sgr2", "mul.wide.u32 %sgd1, %sgr1, %sgr2",
        "mul.wide.u32 %sgd2, %sgr0, %sgr3", "mul.wide.u32 %sgd3, %sgr1, %sgr3",
        "shr.u64 %sgd0, %sgd0, 32", "add.s64 %sgd1, %sgd1, %sgd0",  # fits: (2^32 - 1)^2 + 2^32 - 1
        "cvt.u32.u64 %sgr4, %sgd1", "cvt.u64.u32 %sgd4, %sgr4",
        "add.s64 %sgd2, %sgd2, %sgd4", "shr.u64 %sgd2, %sgd2, 32",
        "shr.u64 %sgd1, %sgd1, 32",
        "add.s64 %sgd3, %sgd3, %sgd1", "add.s64 %sgd3, %sgd3, %sgd2",
    ]  # fmt: skip
    if found[1] == "s":  # a negative factor counts 2^64 too much of the other one
        for sign, other in (("%sgd5", "%sgd6"), ("%sgd6", "%sgd5")):
            lines += [f"shr.s64 %sgd4, {sign}, 63", f"and.b64 %sgd4, %sgd4, {other}",
                      "sub.s64 %sgd3, %sgd3, %sgd4"]  # fmt: skip
    return [*lines, f"mov.b64 {to}, %sgd3"]


def _fence(this: Statement, found: re.Match[str]) -> list[str]:
    scope = {"cta": "cta", "gpu": "gl", "sys": "sys"}[found[1]]
    return [f"membar.{scope}"]


def _atomic(this: Statement, found: re.Match[str]) -> list[str]:
    space = f".{found[2]}" if found[2] else ""
    rest = found[3]
    operands = list(this.operands)
    if found[1] == "red":
        operands.insert(0, "%sgd0" if rest.endswith("64") else "%sgr0")
    return [f"atom{space}.{rest} {', '.join(operands)}"]


def _ordered(this: Statement, found: re.Match[str]) -> list[str]:
    space = f".{found[2]}" if found[2] else ""
    return [f"{found[1]}.volatile{space}.{found[3]} {', '.join(this.operands)}"]


def _copysign_32(this: Statement, found: re.Match[str]) -> list[str]:
    to, sign, size = this.operands
    return [
        f"mov.b32 %sgr0, {sign}", f"mov.b32 %sgr1, {size}",
        "and.b32 %sgr0, %sgr0, -2147483648", "and.b32 %sgr1, %sgr1, 2147483647",
        f"or.b32 {to}, %sgr0, %sgr1",
    ]  # fmt: skip


def _copysign_64(this: Statement, found: re.Match[str]) -> list[str]:
    to, sign, size = this.operands
    return [
        f"mov.b64 %sgd0, {sign}", f"mov.b64 %sgd1, {size}",
        "shr.u64 %sgd0, %sgd0, 63", "shl.b64 %sgd0, %sgd0, 63",
        "shl.b64 %sgd1, %sgd1, 1", "shr.u64 %sgd1, %sgd1, 1",
        f"or.b64 {to}, %sgd0, %sgd1",
    ]  # fmt: skip


def _to_half(this: Statement, found: re.Match[str]) -> list[str]:
    """float32 to the nearest float16, to the even one of two: by the exponent, one of three."""
    to, value = this.operands
    return [
        f"mov.b32 %sgr0, {value}", "and.b32 %sgr1, %sgr0, 2147483647",
        # A normal half: 2^12 - 1 and the bit that is kept last are added before others are cut.
        "shr.u32 %sgr2, %sgr1, 13", "and.b32 %sgr2, %sgr2, 1", "add.s32 %sgr2, %sgr2, %sgr1",
        f"add.s32 %sgr2, %sgr2, {((15 - 127) << 23) + 0xFFF}", "shr.u32 %sgr2, %sgr2, 13",
        # A subnormal one: beside 0.5, whose last bit is 2^-24, the addition rounds.
        "add.rn.f32 %sgr3, %sgr1, 0f3F000000", f"add.s32 %sgr3, %sgr3, {-0x3F000000}",
        f"setp.lt.u32 %sgp0, %sgr1, {0x38800000}", "selp.b32 %sgr2, %sgr3, %sgr2, %sgp0",
        # Infinity from 2^16 on, and NaN.
        f"setp.gt.u32 %sgp0, %sgr1, {0x7F800000}", "selp.b32 %sgr3, 32256, 31744, %sgp0",
        f"setp.ge.u32 %sgp0, %sgr1, {0x47800000}", "selp.b32 %sgr2, %sgr3, %sgr2, %sgp0",
        "shr.u32 %sgr0, %sgr0, 16", "and.b32 %sgr0, %sgr0, 32768", "or.b32 %sgr2, %sgr2, %sgr0",
        f"cvt.u16.u32 {to}, %sgr2",
    ]  # fmt: skip


def _rule(opcode: str, reason: str, make: Callable[..., list[str]]) -> Rule:
    return Rule(re.compile(opcode), reason, make)


_ORDER, _SCOPE = r"(?:relaxed|acquire|release|acq_rel)", r"(?:cta|gpu|sys)"
RULES = (
    _rule(
        r"setp\.(eq|ne)(\.(?:and|or|xor))?\.b(16|32)",
        "CmpOp falls from .b16 and .b32 through to .b64 (cuda-sim/instructions.cc:4955), and "
        "compares what is left in the upper halves of registers",
        _compare,
    ),
    _rule(
        r"ld\b.*\.(?:v[24].*\.s(8|16|32)|s(8))",
        "bytes are not sign-extended, and of vectors nothing is (instructions.cc:3395, ld_exec)",
        _signed_load,
    ),
    _rule(r"cvt\.s8\.[su](?:16|32|64)", "the result is not sign-extended", _signed_convert),
    _rule(r"rem\.([su])16", "rem_impl has no types of 16 bits and asserts", _remainder),
    _rule(r"mul\.hi\.([su])64", "mul_impl has no .u64 with .hi, and cuts .s64", _high_product),
    _rule(r"fence\.(?:sc|acq_rel)\.(cta|gpu|sys)", "its lexer has no fence (ptx.l)", _fence),
    _rule(
        rf"(atom|red)(?:\.{_ORDER})?(?:\.{_SCOPE})?(?:\.(global|shared))?(?:::cta)?"
        r"\.((?:add|min|max|and|or|xor|exch|cas|inc|dec)\.[busf](?:32|64))",
        "its lexer has no orders (ptx.l); red ends in red_impl, which is not implemented; all its "
        "atomic operations happen one after the other",
        _atomic,
    ),
    _rule(
        rf"(ld|st)\.{_ORDER}\.{_SCOPE}(?:\.(global|shared))?\.([busf]\d+)",
        "its lexer has no orders (ptx.l); each access happens at once",
        _ordered,
    ),
    _rule(
        r"cvt\.rn\.f16\.f32",
        "ties go away from zero: HALF_ROUND_TIES_TO_EVEN is 0 (cuda-sim/half.h:234)",
        _to_half,
    ),
    _rule(r"copysign\.f32", "its lexer has no copysign (ptx.l)", _copysign_32),
    _rule(r"copysign\.f64", "its lexer has no copysign (ptx.l)", _copysign_64),
)  # fmt: skip
LITERALS = (
    "literals are read with atoi and %x into 32 bits (ptx.l, INT_OPERAND), and U ends the lexer"
)


def _literals(line: str, this: Statement) -> list[str]:
    """The instruction with literals that 32 signed bits hold; larger ones come from registers."""
    ahead: list[str] = []
    wide = this.opcode.endswith("64") or ".wide." in this.opcode
    operands = list(this.operands)
    for at, operand in enumerate(operands):
        if operand.startswith("{"):
            moves, operands[at] = _vector(this, operand)
            ahead += moves
        if operand.startswith(("[", "{", "$", "(")) or not _LITERAL.fullmatch(operand):
            continue
        value = int(operand.rstrip("U"), 0)
        narrow = not wide or (".wide." in this.opcode and at < 3)
        if narrow or -(2**31) <= value < 2**31:
            bits = value & (2**32 - 1)
            cut = bits - (bits >> 31 << 32) if narrow else value
            operands[at] = str(cut)
            continue
        register = f"%sgd{7 - at % 2}"
        low, high = (_signed(value >> shift & (2**32 - 1)) for shift in (0, 32))
        ahead += [f"mov.b32 %sgr4, {low}", f"mov.b32 %sgr5, {high}",
                  f"mov.b64 {register}, {{%sgr4, %sgr5}}"]  # fmt: skip
        operands[at] = register
    made = Statement("", this.opcode, tuple(operands))
    text = f"{made.opcode} {', '.join(made.operands)}".strip()
    return [*ahead, text] if tuple(operands) != this.operands else [line]


def _vector(this: Statement, operand: str) -> tuple[list[str], str]:
    """A vector operand of registers only, and what puts its literals there."""
    parts = split(operand[1:-1])
    if all(part.startswith("%") for part in parts):
        return [], operand
    bits = int(re.sub(r"\D", "", this.words[-1]))
    if this.words[0] == "mov":
        bits //= len(parts)
    bank = {64: "d", 32: "r"}.get(bits, "h")
    moves = []
    for at, part in enumerate(parts):
        if not part.startswith("%"):
            register = f"%sg{bank}{at}"
            moves += _literals_moved(f"mov.b{max(bits, 16)} {register}, {part}")
            parts = (*parts[:at], register, *parts[at + 1 :])
    return moves, f"{{{', '.join(parts)}}}"


def _literals_moved(line: str) -> list[str]:
    inner = statement(f"\t{line};")
    return _literals(line, inner) if inner else [line]


def _signed(bits: int) -> int:
    return bits - (bits >> 31 << 32)


HALVES = ("cvt.f32.f16",)  # what it does right with them


def rewrite(text: str, version: str) -> Legalised:
    """Rewrite a module (clang's PTX) for a version of GPGPU-Sim.

    `emulated` of what is made has the instructions that are right in timing mode only.

    Raises:
        RefusedError: an instruction is not there in GPGPU-Sim and has no rule.
    """
    known = table(version)
    before = text.split("\n")
    lines, timed, kernel = list(before), {}, "?"
    for at, line in enumerate(before):
        if entry := _ENTRY.match(line):
            kernel = entry[1]
        if _LAUNCH_BOUNDS.match(line):
            lines[at] = ""  # its parser wants three numbers; it has no use for any
            continue
        this = statement(line)
        if this is None:
            _check_line(line, kernel)
            continue
        made = _rewritten(this)
        for each in made:
            _check(statement(f"\t{each};") or this, known, kernel, line)
        if made != [_plain(this)] or BLOCK.match(line):
            guard = f"{this.guard} " if this.guard else ""
            lines[at] = "\n".join(f"\t{guard}{each};" for each in made)
        if this.words[0] in known.timed_only:
            timed[this.words[0]] = known.timed_only[this.words[0]]
    counted = Legalised.counted(
        [line for line in before if statement(line)],
        [new for old, new in zip(before, lines, strict=True) if statement(old)],
    )
    return Legalised(
        _declared("\n".join(lines)), sum(statement(line) is not None for line in before),
        counted.replaced, counted.added, timed,
    )  # fmt: skip


def _plain(this: Statement) -> str:
    return f"{this.opcode} {', '.join(this.operands)}".strip()


def _rewritten(this: Statement) -> list[str]:
    made = [_plain(this)]
    for rule in RULES:
        if found := rule.opcode.fullmatch(this.opcode):
            made = rule.make(this, found)
            break
    final: list[str] = []
    for each in made:
        final += _literals_moved(each)
    return final


def _check_line(line: str, kernel: str) -> None:
    """Refuse what stands in a body and is no line of LLVM's PTX that we know."""
    if re.match(r"^\t[a-z]", line) or line.startswith("\t{"):
        raise RefusedError(
            f"kernel {kernel}: {line.strip()}: GPGPU-Sim has no calls and no blocks that simgen "
            "knows; write the kernel without it, or take another target"
        )
    if re.match(r"^(\.visible |\.weak )?\.func\b", line) and "entry" not in line:
        raise RefusedError(f"kernel {kernel}: it calls a function; inline it (__forceinline__)")


def _check(this: Statement, known: PtxTable, kernel: str, line: str) -> None:
    opcode, *modifiers = this.words
    cure = "write the kernel without it, or take another target"
    place = f"kernel {kernel}: {line.split(';')[0].strip()}: GPGPU-Sim {known.version}"
    for name in (this.opcode, opcode):
        if name in known.lacks:
            raise RefusedError(f"{place}: {known.lacks[name]}; {cure}")
    if opcode not in known.opcodes:
        raise RefusedError(f"{place} has no {opcode}; {cure}")
    odd = next((each for each in modifiers if each not in known.modifiers), None)
    if odd is not None:
        raise RefusedError(f"{place} reads no .{odd}; {cure}")
    if {"f16", "f16x2"} & {*modifiers} and this.opcode not in HALVES:
        raise RefusedError(f"{place} rounds ties of halves away from zero; {cure}")
    for register in _SPECIAL.findall(" ".join(this.operands)):
        if register in known.lacks:
            raise RefusedError(f"{place}: {known.lacks[register]}; {cure}")
        if register not in known.registers:
            raise RefusedError(f"{place} has no {register}; {cure}")


def _declared(text: str) -> str:
    """A module whose kernels declare our registers where they use them."""
    made = []
    for part in re.split(r"(?m)(?=^\.visible \.entry )", text):
        used = part.startswith(".visible") and "%sg" in part
        made.append(part.replace("\n{\n", f"\n{{\n{_TEMPORARIES}\n", 1) if used else part)
    return "".join(made)
