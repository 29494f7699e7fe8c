"""Opcodes with operands of all kinds: what is tried, and what has to come out."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen_examine.conform import values
from simgen_examine.conform.arithmetic import Wanted
from simgen_examine.conform.expected import TYPES, BrainFloats, Expected
from simgen_examine.conform.integers import typed as as_typed
from simgen_examine.conform.ptx import approximations, description, floats, integers
from simgen_examine.conform.ptx.description import Opcode
from simgen_examine.conform.ptx.operation import FUNCTIONS, Either, OpcodeText, signed, width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from simgen_examine.conform.values import Words

    Answers = Callable[[Words], list[Wanted]]

_COMPUTING = (integers, floats)  # which name their functions for the description
# What a value of a type is in registers: (prefix of their names, type of loads and stores).
_CLASSES = {16: ("rs", "u16"), 32: ("r", "u32"), 64: ("rd", "u64")}
_VALUES = {
    "s16": "i16", "s32": "i32", "s64": "i64", "f16x2": "pk_f16", "bf16x2": "pk_bf16",
    "s16x2": "pk_i16", "u16x2": "pk_u16", "pred": "b32", "K": "b32", "tf32": "f32",
}  # fmt: skip
# Constants as sources, and their bits.
_WORD = (("-7", 0xFFFFFFF9), ("0x89abcdef", 0x89ABCDEF))
_LONG = (("-7", (1 << 64) - 7), ("0x123456789abcdef0", 0x123456789ABCDEF0),
         ("-1311768467463790321", (1 << 64) - 0x123456789ABCDEF1))  # fmt: skip
CONSTANTS = {
    "s16": (("-7", 0xFFF9),), "u16": (("40007", 40007),), "b16": (("0x89ab", 0x89AB),),
    **dict.fromkeys(("s32", "u32", "b32"), _WORD), **dict.fromkeys(("s64", "u64", "b64"), _LONG),
    "f32": (("0fC0490FDB", 0xC0490FDB), ("1.5", 0x3FC00000)),
    "f64": (("0dC00921FB54442D18", 0xC00921FB54442D18), ("1.5", 0x3FF8000000000000)),
}  # fmt: skip
_SMALL = (("5", 5), ("200", 200))  # places and lengths of fields of bits
_IN_ORDER = ("sub", "div", "rem", "shl", "shr", "shf", "setp", "selp", "mad", "fma", "slct")
SOURCE, RESULT, OTHER = 1, 11, 21  # the first numbers of registers


@dataclass(frozen=True)
class Shown:
    """A register that is looked at."""

    register: str
    type: str  # type of loads and stores
    words: int


@dataclass(frozen=True)
class PtxForm:
    """An instruction as it is written once, in its surroundings."""

    instruction: Opcode
    text: str  # the line or lines that are tried
    what: str  # in words: "registers"
    signature: tuple[str, ...]  # types of the values that it is tried with, as in `conform.values`
    sources: tuple[str, ...]  # registers that these are loaded into
    results: tuple[Shown, ...]
    answers: Answers
    setup: tuple[str, ...] = ()  # lines before it
    after: tuple[str, ...] = ()  # lines behind it
    variables: tuple[str, ...] = ()  # declared in the kernel: shared and local memory
    constants: tuple[str, ...] = ()  # declared outside, with {} for the kernel's name
    parameters: tuple[str, ...] = ()  # parameters of the kernel, behind its two
    grid: tuple[int, int, int] = (4, 1, 1)
    block: tuple[int, int, int] = (256, 1, 1)
    scalar: bool = False
    window: int = 0
    place: str = ""  # what shows the result, where that is no register

    @property
    def mnemonic(self) -> str:
        """The opcode."""
        return self.instruction.op.name

    @property
    def kin(self) -> str:
        """What is alike in forms that differ in operands alone; of others, the text."""
        function = self.instruction.function
        return f"{self.mnemonic} {function}" if function else f"{self.text} {self.what}"

    @property
    def pattern(self) -> str:
        """A regular expression for forms like this one."""
        return rf"\b{re.escape(self.instruction.op.name)}\b"

    @property
    def outputs(self) -> tuple[str, ...]:
        """What holds each word of the results."""
        return tuple(each.register for each in self.results for _ in range(each.words))

    def holder(self, at: int, _: int) -> str:
        """What holds the result that begins with a word."""
        return self.outputs[at]

    def outcome(self, given: Words) -> list[Wanted]:
        """What has to come out."""
        return self.answers(given)


def form(
    name: str, section: str, text: str, what: str, given: str, found: str, answers: Answers,
    family: str = "", **more: Any,
) -> PtxForm:  # fmt: skip
    """A form without a row in the description: its opcode, the types of its sources in registers
    from SOURCE on, and of its results from RESULT on."""
    of, to = tuple(given.split()), tuple(found.split())
    parts: dict[str, Any] = {
        "signature": tuple(value_type(each) for each in of),
        "sources": tuple(register(each, SOURCE + n) for n, each in enumerate(of)),
        "results": tuple(output("u32" if each == "pred" else each, RESULT + n)
                         for n, each in enumerate(to)), **more,
    }  # fmt: skip
    opcode = Opcode(OpcodeText(name), section, to, of, "", family or name)
    return PtxForm(opcode, text, what, answers=answers, **parts)


def one_by_one(given: str, found: str, of: Callable[..., Any]) -> Answers:
    """What `of` makes of each thread's sources."""

    def answers(words: Words) -> list[Wanted]:
        columns = [column(words[n], type_) for n, type_ in enumerate(given.split())]
        return [wanted(found, [of(*row) for row in zip(*columns, strict=True)])]

    return answers


def constant(type_: str, value: int) -> Answers:
    """The same in all threads."""
    return lambda _: [wanted(type_, [value] * values.TUPLES)]


def value_type(type_: str) -> str:
    """A type of PTX as `conform.values` calls it."""
    return _VALUES.get(type_, type_)


def _tried_with(opcode: Opcode, type_: str) -> str:
    """The values of a source: of conversions into narrower floats, halfway cases too."""
    to = opcode.op.types[0].removesuffix("x2")
    if opcode.op.root == "cvt" and f"{type_}_{to}" in values.BITS:
        return f"{type_}_{to}"
    return value_type(type_)


def register(type_: str, at: int) -> str:
    """The register of a number for values of a type."""
    if type_ == "pred":
        return f"%p{at}"
    if type_ in ("f32", "f64"):
        return f"%f{at}" if type_ == "f32" else f"%fd{at}"
    return f"%{_CLASSES[width(type_)][0]}{at}"


def loaded(type_: str) -> str:
    """The type of a load or a store of such a value."""
    return type_ if type_ in ("f32", "f64") else _CLASSES[width(type_)][1]


def output(type_: str, at: int) -> Shown:
    """The register of a number as a result."""
    return Shown(register(type_, at), loaded(type_), (width(type_) + 31) // 32)


def column(words: Words, type_: str) -> list[int]:
    """Sources as whole numbers: signed ones, bits of floats, truths."""
    if type_ in ("pred", "K"):
        found: Any = words[0] & 1
        return [int(each) for each in found]
    bits = width(type_)
    whole = words[0].astype(np.uint64) | words[1].astype(np.uint64) << np.uint64(32)
    values = [int(each) & (1 << bits) - 1 for each in whole]
    if signed(type_) and not type_.endswith("x2"):
        top = 1 << bits - 1
        values = [each - 2 * top if each & top else each for each in values]
    return values


def wanted(type_: str, found: Sequence[Any]) -> Wanted:
    """What a register of a type has to hold: numbers, `Either`, None for anything."""
    bits = 32 if type_ in ("pred", "C") else width(type_)
    mask = 1 if type_ == "pred" else (1 << bits) - 1
    kind: Any = {16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]
    free = np.array([each is None for each in found])
    first = np.array([_one(each, 0) & mask for each in found], kind)
    second = np.array([_one(each, 1) & mask for each in found], kind)
    if type_.endswith("x2"):
        first, second = (
            np.ascontiguousarray(each[:, None].view(np.uint16).T) for each in (first, second)
        )
        free = np.broadcast_to(free, first.shape)
        type_ = type_.removesuffix("x2")
    if type_ == "bf16":
        return Wanted("b16", BrainFloats(first, free, other=second))
    name = "u32" if type_ in ("pred", "C") else value_type(type_)
    return Wanted(name, Expected(first.view(TYPES[name]), free, other=second.view(TYPES[name])))


def _one(found: Any, which: int) -> int:
    if found is None:
        return 0
    if isinstance(found, Either):
        return found.second if which else found.first
    return int(found)


def answers_of(opcode: Opcode, given: dict[int, int], inverted: tuple[int, ...] = ()) -> Answers:
    """What an opcode computes; `given` has the bits of sources that are constants, by number."""

    def answers(words: Words) -> list[Wanted]:
        types = opcode.sources
        at = iter(range(len(types)))
        if opcode.function in approximations.FUNCTIONS:
            arrays = [
                as_typed(
                    _alike(given[n], words) if n in given else words[next(at)], value_type(each)
                )
                for n, each in enumerate(types)
            ]
            made = approximations.FUNCTIONS[opcode.function](opcode.op, *arrays)
            return [Wanted(value_type(opcode.results[0]), made)]
        columns = []
        for n, type_ in enumerate(types):
            held = _alike(given[n], words) if n in given else words[next(at)]
            columns.append(column(held, type_))
            if n in inverted:
                columns[-1] = [1 - each for each in columns[-1]]
        does = FUNCTIONS[opcode.function]
        found = [does(opcode.op, *row) for row in zip(*columns, strict=True)]
        if len(opcode.results) == 1:
            return [wanted(opcode.results[0], found)]
        return [wanted(type_, [each[n] for each in found])
                for n, type_ in enumerate(opcode.results)]  # fmt: skip

    return answers


def _alike(bits: int, words: Words) -> Words:
    """A constant in all threads."""
    found = np.full(words.shape[1:], bits & 0xFFFFFFFF, np.uint32)
    found[1] = bits >> 32
    return found


def forms(arch: str) -> Iterator[PtxForm]:
    """Forms on registers and constants for a machine."""
    for opcode in description.opcodes(arch):
        yield plain(opcode)
        if made := _recomputed(opcode):
            yield replace(
                plain(opcode), what=f"{plain(opcode).what}, sources that were computed",
                setup=(*made, *plain(opcode).setup),
            )  # fmt: skip
        if opcode.op.root in ("div", "rem") and opcode.op.type[0] in "us":
            yield positive(opcode)
        if "C" in opcode.results and "K" not in opcode.sources:
            alone = replace(opcode, results=opcode.results[:1], function="without_carry")
            yield replace(plain(alone), what=f"{plain(alone).what}, the sum alone")
        if _takes_constants(opcode):
            for at in _places(opcode):
                small = opcode.op.root in ("bfe", "bfi") and opcode.sources[at] == "u32"
                for text, bits in _SMALL if small else CONSTANTS.get(opcode.sources[at], ()):
                    yield plain(opcode, {at: (text, bits)})
        if "pred" in opcode.sources and opcode.op.root in ("setp", "set", "selp"):
            yield plain(opcode, inverted=(opcode.sources.index("pred"),))
        if _sets_two(opcode):
            yield both(opcode)
        if opcode.function == "convert" and not opcode.op.has("sat"):
            yield from wider(opcode)
        if opcode.function == "move" and opcode.op.type in ("b32", "b64"):
            yield from halves(opcode)


def _recomputed(opcode: Opcode) -> list[str]:
    """Lines that compute sources once more, with overflows on the way: what an instruction leaves
    above a register's bits must not matter. Of one opcode of those that differ in rounding."""
    op = opcode.op
    if op.ftz or op.has("sat") or op.rounding not in ("rn", "rni", "rzi"):
        return []
    lines: list[str] = []
    for n, type_ in enumerate(opcode.sources):
        if type_ not in ("u16", "s16", "b16", "u32", "s32", "b32"):
            continue
        mine, by = register(type_, SOURCE + n), register(type_, 99)
        kind = f"u{width(type_)}"
        # Another one of each source: equal values are to come about in different ways.
        constant = f"{(0x9E3779B9, 0x10001, 0xDEADBEEF, 7 << 16)[n] >> 32 - width(type_):#x}"
        lines += [f"mov.{kind} {by}, {constant};", f"sub.{kind} {mine}, {mine}, {by};",
                  f"add.{kind} {mine}, {mine}, {by};"]  # fmt: skip
    return lines


def positive(opcode: Opcode) -> PtxForm:
    """A division whose divisor is odd, and not below zero."""
    form = plain(opcode)
    bits, divisor = width(opcode.op.type), form.sources[1]
    # 64-bit constants are tried by themselves: shifts do without.
    kind = f"b{bits}"
    setup = (f"shl.{kind} {divisor}, {divisor}, 1;", f"shr.u{bits} {divisor}, {divisor}, 1;",
             f"or.{kind} {divisor}, {divisor}, 1;")  # fmt: skip

    def answers(words: Words) -> list[Wanted]:
        a, b = (column(words[n], type_) for n, type_ in enumerate(opcode.sources))
        low = (1 << bits - 1) - 1
        does = FUNCTIONS[opcode.function]
        rows = zip(a, b, strict=True)
        return [wanted(opcode.op.type, [does(opcode.op, x, y & low | 1) for x, y in rows])]

    return replace(form, what="odd divisors above zero", setup=setup, answers=answers)


def _sets_two(opcode: Opcode) -> bool:
    """Whether a second predicate is tried; those of 16-bit floats have none."""
    if opcode.op.root != "setp" or len(opcode.results) > 1:
        return False
    half = opcode.function == "fcompare" and opcode.op.type.endswith("16")
    return opcode.op.parts[1] in ("lt", "eq", "le", "gt") and not half


def _takes_constants(opcode: Opcode) -> bool:
    """Whether constants are tried as sources: of one opcode of those that differ in rounding."""
    op = opcode.op
    if op.ftz or op.has("sat") or op.rounding not in ("rn", "rni"):
        return False
    if op.root == "cvt" or (op.root in ("setp", "set") and op.parts[1] not in ("eq", "lt")):
        return False
    if op.root == "set" and (op.types[0] != "u32" or "pred" in opcode.sources):
        return False
    return len(opcode.sources) > 1 or op.root in ("mov", "not", "neg", "popc", "brev")


def _places(opcode: Opcode) -> list[int]:
    """The numbers of sources that constants are tried as: the last one that may be one, and the
    first one where it matters which is which."""
    there = [at for at, type_ in enumerate(opcode.sources) if type_ in CONSTANTS]
    if opcode.op.root in ("bfe", "bfi", "prmt", "lop3"):
        return there
    first = there[:1] if opcode.op.root in _IN_ORDER else []
    return sorted({*there[-1:], *first})


def plain(
    opcode: Opcode,
    constants: dict[int, tuple[str, int]] | None = None,
    inverted: tuple[int, ...] = (),
) -> PtxForm:
    """An opcode on registers, but for `constants`, by number of the source; predicates that are
    `inverted` have an exclamation mark."""
    constants = constants or {}
    operands, registers, signature = [], [], []
    setup: list[str] = []
    after: list[str] = []
    results: list[Shown] = []
    for n, type_ in enumerate(opcode.results):
        if type_ == "C":
            borrows = opcode.op.root.startswith("sub")
            after.append(f"{'subc' if borrows else 'addc'}.u32 %r{RESULT + n}, 0, 0;")
            results.append(output("u32", RESULT + n))
        elif type_ == "pred":
            operands.append(f"%p{RESULT + n}")
            after.append(f"selp.u32 %r{RESULT + n}, 1, 0, %p{RESULT + n};")
            results.append(output("u32", RESULT + n))
        else:
            operands.append(register(type_, RESULT + n))
            results.append(output(type_, RESULT + n))
    if opcode.results == ("pred", "pred"):
        operands = ["|".join(operands)]
    for n, type_ in enumerate(opcode.sources):
        at = SOURCE + n
        if n in constants:
            operands.append(constants[n][0])
            continue
        signature.append(_tried_with(opcode, type_))
        if type_ in ("pred", "K"):
            registers.append(f"%r{at}")
            setup.append(f"and.b32 %r{OTHER + n}, %r{at}, 1;")
            if type_ == "pred":
                setup.append(f"setp.ne.u32 %p{at}, %r{OTHER + n}, 0;")
                operands.append(("!" if n in inverted else "") + f"%p{at}")
            elif opcode.op.root.startswith("sub"):
                setup.append(f"sub.cc.u32 %r{OTHER + 9}, 0, %r{OTHER + n};")
            else:
                setup.append(f"add.cc.u32 %r{OTHER + 9}, %r{OTHER + n}, 0xffffffff;")
        else:
            registers.append(register(type_, at))
            operands.append(registers[-1])
    what = "registers"
    if constants:
        what = ", ".join(f"{'abcd'[n]} {text}" for n, (text, _) in constants.items())
    if inverted:
        what = "inverted predicate"
    modifiers = "." + ".".join(each for each in opcode.op.parts[1:] if each not in opcode.op.types)
    if len(modifiers) > 1:
        what = f"{modifiers}, {what}"
    return PtxForm(
        opcode, f"{opcode.op.name} {', '.join(operands)}{opcode.op.tail};", what,
        tuple(signature), tuple(registers), tuple(results),
        answers_of(opcode, {n: bits for n, (_, bits) in constants.items()}, inverted),
        tuple(setup), tuple(after),
    )  # fmt: skip


def both(opcode: Opcode) -> PtxForm:
    """A comparison that sets a second predicate to the contrary."""
    form = plain(opcode)
    first, second = f"%p{RESULT}", f"%p{RESULT + 1}"

    def answers(words: Words) -> list[Wanted]:
        (told,) = form.answers(words)
        truth = told.expected.value
        if "pred" not in opcode.sources:
            return [told, replace(told, expected=Expected(np.uint32(1) - truth))]
        # The contrary of the comparison goes through the same boolean operator.
        columns = [column(words[n], type_) for n, type_ in enumerate(opcode.sources)]
        plain_op = _without_boolean(opcode)
        does = FUNCTIONS[opcode.function]
        rows = zip(*columns, strict=True)
        found = [integers.joined(opcode.op, 1 - does(plain_op, *row[:-1]), row[-1]) for row in rows]
        return [told, wanted("pred", found)]

    return replace(
        form, text=form.text.replace(first, f"{first}|{second}", 1),
        what=f"{form.what}, both predicates", answers=answers,
        results=(*form.results, output("u32", RESULT + 1)),
        after=(*form.after, f"selp.u32 %r{RESULT + 1}, 1, 0, {second};"),
    )  # fmt: skip


def _without_boolean(opcode: Opcode) -> Any:
    name = re.sub(r"\.(and|or|xor)\b", "", opcode.op.name)
    return replace(opcode.op, name=name)


def wider(opcode: Opcode) -> Iterator[PtxForm]:
    """Conversions into and from registers that are wider than the type."""
    to, of = opcode.op.types
    form = plain(opcode)
    if width(to) < 64:
        # What is above is the sign, of types that have one.
        wide = replace(opcode, results=(f"{to[0]}64",))
        yield replace(
            form, text=form.text.replace(form.results[0].register, f"%rd{RESULT}", 1),
            what=f"{form.what}, into 64 bits", results=(output("u64", RESULT),),
            answers=answers_of(wide, {}),
        )  # fmt: skip
    if width(of) < 64:
        wide = replace(opcode, sources=("b64",))
        yield replace(
            form, text=form.text.replace(f"{form.sources[0]};", f"%rd{SOURCE};"),
            what=f"{form.what}, from 64 bits", signature=("b64",), sources=(f"%rd{SOURCE}",),
            answers=answers_of(wide, {}),
        )  # fmt: skip


def halves(opcode: Opcode) -> Iterator[PtxForm]:
    """Moves between a register and a vector of two."""
    half = "b16" if opcode.op.type == "b32" else "b32"
    apart = replace(opcode, results=(half, half), function="low_and_high")
    form = plain(apart)
    low, high = (register(half, RESULT + n) for n in range(2))
    yield replace(
        form, text=f"{opcode.op.name} {{{low}, {high}}}, {form.sources[0]};", what="apart"
    )
    together = replace(opcode, sources=(half, half), function="joined_halves")
    form = plain(together)
    yield replace(
        form, what="together",
        text=f"{opcode.op.name} {form.results[0].register}, {{{', '.join(form.sources)}}};",
    )  # fmt: skip
