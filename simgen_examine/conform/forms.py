"""Instructions in their encodings, with modifiers and sources of all kinds: what is tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen_examine.conform import arithmetic, controls, description, values
from simgen_examine.conform.arithmetic import Computed, Modifiers, Wanted
from simgen_examine.conform.description import Described
from simgen_examine.conform.float_mode import FLUSHING, USUAL, FloatMode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simgen_examine.conform.values import Words

SOURCE = 4  # the first vector register of the sources; each has a pair of them
RESULT = 10  # register of the result
SCALAR_SOURCE = 50  # a source in scalar registers
BITS_OUT, BITS_IN = "s[30:31]", "s[34:35]"  # registers of long encodings: a bit for each lane

# Constants as sources: how the assembler has them, and the value in a register of the type.
_INLINE = {
    "f32": ("-4.0", 0xC0800000), "f16": ("-4.0", 0xC400), "f64": ("-4.0", 0xC010000000000000),
    "i32": ("-7", 0xFFFFFFF9), "u32": ("33", 33), "b32": ("-7", 0xFFFFFFF9), "i16": ("-7", 0xFFF9),
    "u16": ("33", 33), "i64": ("-7", 0xFFFFFFFFFFFFFFF9), "u64": ("33", 33),
}  # fmt: skip
_LITERAL = {
    "f32": 0x40490FDB,
    "i32": 0xFFFE1234,
    "u32": 0x89ABCDEF,
    "b32": 0x89ABCDEF,
    "f16": 0x4248,
}
_SCALAR = {"f32": 0xC0490FDB, "f16": 0xC248, "f64": 0xC00921FB54442D18, "i16": 0xFE12,
           "u16": 0x9ABC, "i64": 0xFEDCBA9876543210, "u64": 0x89ABCDEF01234567,
           "b64": 0x89ABCDEF01234567}  # fmt: skip
_SCALAR_WORD = 0xFEDCBA98
_NO_MODIFIERS = ("v_div_", "v_mad_u64", "v_mad_i64", "v_cvt_pk", "v_pack")
_NO_OUTPUT = ("v_frexp_mant", "v_cndmask")  # modifiers
PLAIN = Modifiers()
_EXEC = 0x0F35A5C396C3FF01  # lanes that some forms are tried with
_EXEC_TOO = ("v_mov_b32", "v_add_f32", "v_cmp_lt_f32", "v_cmpx_lt_f32", "v_cmp_gt_i32",
             "v_cndmask_b32", "v_addc_co_u32", "v_add_f64", "v_fma_f32")  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """Shape of the launch of a kernel that stores ids."""

    group: tuple[int, int, int]  # work-items of a work-group
    grid: tuple[int, int, int]  # work-groups
    ids: str  # dimensions whose ids of work-groups the kernel asks for, of "xyz"


@dataclass(frozen=True)
class Form:
    """An instruction as it is written once: its text, what goes before it, what comes out."""

    instruction: Described
    text: str
    what: str  # in words: "e64, |b|"
    signature: tuple[str, ...]  # types of the values that it is tried with
    setup: tuple[str, ...]  # lines before it
    outputs: tuple[str, ...]  # registers of results, by words: v10, vcc_lo, ...
    plan: Computed
    mode: FloatMode = USUAL  # mode that its kernel begins with
    lanes: int = (1 << values.LANES) - 1  # EXEC
    after: tuple[str, ...] = ()  # lines behind it, in all lanes
    window: int = 0  # words of memory that each lane has to write to, looked at behind `outputs`
    shape: Shape | None = None  # a kernel by itself, of ids
    registers: int = 40  # vector registers of its kernel, at least

    @property
    def mnemonic(self) -> str:
        return self.text.split()[0]

    @property
    def scalar(self) -> bool:
        return self.instruction.format in (*description.SCALAR, description.SCALAR_MEMORY)

    def outcome(self, given: Words) -> list[Wanted]:
        """What `outputs` have to be, in order."""
        return self.plan.outcome(given, self.lanes)

    def holder(self, at: int, count: int) -> str:
        """What holds a result: registers, or a place in the lane's window of memory."""
        if at >= len(self.outputs):
            return f"byte {4 * (at - len(self.outputs))} of its memory"
        first = self.outputs[at]
        if count == 1:
            return first
        return f"{first[0]}[{first[1:]}:{self.outputs[at + count - 1][1:]}]"


def form(
    kind: type[Computed], text: str, what: str, format_: str, signature: tuple[str, ...],
    setup: tuple[str, ...] = (), outputs: tuple[str, ...] = (), *, results: int = 0,
    lanes: int = Form.lanes, after: tuple[str, ...] = (), window: int = 0, **plan: Any,
) -> Form:  # fmt: skip
    """A form without a row in the description, which gives so many words; `plan` are the fields
    of `kind`."""
    of = Described(text.split()[0], format_, ("b32",) * results, signature, "mov")
    return Form(of, text, what, signature, setup, outputs, kind(of, **plan), lanes=lanes,
                after=after, window=window)  # fmt: skip


def span(first: int, count: int, file: str = "v") -> str:
    """Registers in a row as the assembler has them."""
    return f"{file}{first}" if count == 1 else f"{file}[{first}:{first + count - 1}]"


def forms(arch: str) -> Iterator[Form]:
    """All of an architecture."""
    known = description.words(arch)
    for each in description.instructions(arch):
        if each.format in description.SCALAR:
            yield from _scalar(each)
        else:
            yield from _Vector(each, arch, known).forms()


def plain(of: Described, arch: str, known: frozenset[str]) -> Iterator[Form]:
    """The forms of a vector instruction that have nothing but registers, one of each encoding."""
    yield from _Vector(of, arch, known).plain()


class _Vector:
    """The forms of a vector instruction."""

    def __init__(self, of: Described, arch: str, known: frozenset[str]) -> None:
        self.of, self.arch, self.known = of, arch, known
        self.sources = [each for each in of.sources if "vcc" not in each]
        self.upper = _upper(of, arch)

    def forms(self) -> Iterator[Form]:
        of = self.of
        if short := self._short:
            yield self._form(short, "e32")
            if of.name in _EXEC_TOO:
                yield self._form(short, "e32, some lanes", lanes=_EXEC)
            yield from self._constants(short, 0, literal="#" not in "".join(of.sources))
        if long := self._long_word:
            yield from self._long(long)
        yield from self._controls()

    def plain(self) -> Iterator[Form]:
        """Forms with registers only."""
        for word, what in ((self._short, "e32"), (self._long_word, "e64")):
            if word:
                yield self._form(word, what)

    @property
    def _short(self) -> str:
        """The mnemonic of the short encoding; empty where there is none."""
        of = self.of
        if "#" in "".join(of.sources):
            return of.name
        return f"{of.name}_e32" if f"{of.name}_e32" in self.known else ""

    @property
    def _long_word(self) -> str:
        of = self.of
        if "#" in "".join(of.sources):
            return ""
        words = (f"{of.name}_e64", of.name)
        return next((w for w in words if w in self.known and w != self._short), "")

    def _long(self, word: str) -> Iterator[Form]:
        yield self._form(word, "e64")
        if self.of.name in _EXEC_TOO:
            yield self._form(word, "e64, some lanes", lanes=_EXEC)
        for at, source in enumerate(self.sources):
            if not source.startswith(("=", "@")) and "@" not in "".join(self.sources):
                yield from self._constants(word, at, literal=False)
        if not self.of.name.startswith(_NO_MODIFIERS) and not self._packed:
            yield from self._modified(word)
        elif self._packed:
            yield from self._packed_forms(word)

    def _modified(self, word: str) -> Iterator[Form]:
        floats = [at for at, each in enumerate(self.sources) if each[0] == "f"]
        for at in floats:
            for neg, absolute in ((True, False), (False, True), (True, True)):
                made = Modifiers(neg=(at,) * neg, absolute=(at,) * absolute)
                yield self._form(word, f"e64, {made.words('abc'[at])}", made)
        results = [each for each in self.of.results if each not in ("vcc", "exec")]
        if results and results[0][0] == "f" and not self.of.name.startswith(_NO_OUTPUT):
            yield self._form(word, "e64, clamp", Modifiers(clamp=True))
            for name, by in (("mul:2", 2.0), ("mul:4", 4.0), ("div:2", 0.5)):
                if results[0] == "f32":
                    yield self._form(word, f"e64, {name}", Modifiers(omod=by), FLUSHING)
        saturating = self.of.name in ("v_add_u32", "v_sub_u32", "v_subrev_u32", "v_add_i32",
                                      "v_sub_i32")  # fmt: skip
        if saturating and self.of.results == self.of.results[:1]:
            yield self._form(word, "e64, clamp", Modifiers(clamp=True))

    @property
    def _packed(self) -> bool:
        return self.of.format == "VOP3P"

    def _packed_forms(self, word: str) -> Iterator[Form]:
        if not self.sources[0].startswith("pk_"):
            return
        count = len(self.sources)
        for at in range(count):
            low = tuple(int(n == at) for n in range(count))
            high = tuple(int(n != at) for n in range(count))
            name = "abc"[at]
            yield self._form(
                word, f"both of the upper {name}", Modifiers(select=(low, (1,) * count))
            )
            yield self._form(
                word, f"both of the lower {name}", Modifiers(select=((0,) * count, high))
            )
            if self.sources[at][3] == "f":
                yield self._form(word, f"neg_lo of {name}", Modifiers(neg_low=(at,)))
                yield self._form(word, f"neg_hi of {name}", Modifiers(neg_high=(at,)))
        if self.of.results[0] == "pk_f16":
            yield self._form(word, "clamp", Modifiers(clamp=True))

    def _constants(self, word: str, at: int, *, literal: bool) -> Iterator[Form]:
        """With a scalar register or a constant in the place of a source."""
        type_ = self.sources[at].lstrip("=#@")
        if type_.startswith("pk_") or type_ not in {**_INLINE, **_SCALAR}:
            return
        encoding = "e32" if word.endswith("_e32") else "e64"
        value = _SCALAR.get(type_, _SCALAR_WORD)
        register = span(SCALAR_SOURCE, values.words(type_), "s")
        setup = tuple(
            f"s_mov_b32 s{SCALAR_SOURCE + n}, {value >> 32 * n & 0xFFFFFFFF:#x}"
            for n in range(values.words(type_))
        )
        name = "abc"[at]
        told = " ".join(self.of.sources)
        if "vcc" not in told and "#" not in told:  # gfx9 allows one scalar source
            yield self._form(
                word, f"{encoding}, {name} scalar", constant=(at, register, value), setup=setup
            )
        if type_ in _INLINE:
            text, value = _INLINE[type_]
            yield self._form(word, f"{encoding}, {name} constant", constant=(at, text, value))
        if literal and type_ in _LITERAL and "vcc" not in told:
            value = _LITERAL[type_]
            yield self._form(
                word, f"{encoding}, {name} literal", constant=(at, f"{value:#x}", value)
            )

    def _form(
        self,
        word: str,
        what: str,
        modifiers: Modifiers = PLAIN,
        mode: FloatMode = USUAL,
        *,
        constant: tuple[int, str, int] | None = None,
        setup: tuple[str, ...] = (),
        lanes: int | None = None,
    ) -> Form:
        of = self.of
        long = not word.endswith("_e32")
        operands, signature, setups = self._operands(modifiers, constant)
        bits_in = BITS_IN if long and "=vcc" not in of.sources else "vcc"
        plan = Computed(
            of, modifiers, constant and (constant[0], constant[2]), bits_in == "vcc", self.upper
        )
        written, outputs = self._results(long)
        if "vcc" in of.sources:
            operands.append(bits_in)
        controls = modifiers.text(len(self.sources), self._packed)
        text = f"{word} {', '.join([*written, *operands])}{controls}"
        before, lanes = (*setups, *setup), Form.lanes if lanes is None else lanes
        return Form(of, text, what, tuple(signature), before, tuple(outputs), plan, mode, lanes)

    def _operands(
        self, modifiers: Modifiers, constant: tuple[int, str, int] | None
    ) -> tuple[list[str], list[str], list[str]]:
        operands: list[str] = []
        signature: list[str] = []
        setup: list[str] = []
        for at, source in enumerate(self.sources):
            type_ = source.lstrip("=#@")
            if source[0] == "#":
                operands.append(f"{arithmetic.LITERAL:#x}")
                continue
            if source[0] == "@":
                operands.append(operands[0])
                continue
            register = span(SOURCE + 2 * len(signature), values.words(type_))
            if source[0] == "=":
                first = SOURCE + 2 * len(signature)
                setup += [
                    f"v_mov_b32_e32 v{RESULT + n}, v{first + n}" for n in range(values.words(type_))
                ]
            elif constant and constant[0] == at:
                operands.append(constant[1])
            else:
                operands.append(modifiers.around(register, at))
            signature.append(type_)
        return operands, signature, setup

    def _results(self, long: bool) -> tuple[list[str], list[str]]:
        """The operands that are written, and the registers to look at."""
        text, outputs = [], []
        for each in self.of.results:
            if each == "vcc":
                text.append(BITS_OUT if long else "vcc")
                outputs += ["s30", "s31"] if long else ["s32", "s33"]  # or a copy of VCC
            elif each == "exec":
                outputs += ["s36", "s37"]  # a copy
            else:
                count = values.words(each)
                text.append(span(RESULT, count))
                outputs += [f"v{RESULT + n}" for n in range(count)]
        return text, outputs

    def _controls(self) -> Iterator[Form]:
        """SDWA and DPP."""
        of = self.of
        short = of.format in ("VOP1", "VOP2", "VOPC") and f"{of.name}_sdwa" in self.known
        plain = all(values.words(each.lstrip("=#@")) == 1 for each in self.sources)
        if not short or not plain or "#" in "".join(of.sources):
            return
        for each in controls.controls_of(of, self.arch):
            operands, signature, setup = self._operands(Modifiers(), None)
            if "vcc" in of.sources:
                operands.append("vcc")
            text, outputs = self._results(False)
            operands = [f"sext({o})" if at in each.extended else o for at, o in enumerate(operands)]
            plan = Computed(of, Modifiers(), None, True, self.upper, each)
            line = f"{of.name}_{each.form} {', '.join([*text, *operands])} {each.text}"
            yield Form(of, line, each.what, tuple(signature), tuple(setup), tuple(outputs), plan)


def _upper(of: Described, arch: str) -> bool | None:
    """Whether the upper half of a 16-bit result becomes 0; None: unspecified.

    On gfx9 the instructions with three sources keep it, or not, by rules of their own.
    """
    if of.format == "VOP3":
        return None
    return True


def _scalar(of: Described) -> Iterator[Form]:
    """The forms of a scalar instruction: sources in s20 and s22, results in s30."""
    widths = [values.words(each) for each in of.sources]
    registers = [span(20 + 2 * at, width, "s") for at, width in enumerate(widths)]
    results = [span(30, values.words(each), "s") for each in of.results]
    outputs = tuple(f"s{30 + n}" for each in of.results for n in range(values.words(each)))
    plan = Computed(of)
    if of.format == "SOPK":
        yield from _with_immediate(of, results, outputs)
        return
    text = ", ".join([*results, *registers])
    yield Form(of, f"{of.name} {text}", "registers", of.sources, (), (*outputs, "scc"), plan)
    for at, type_ in enumerate(of.sources):
        constants = [_INLINE[type_.replace("b64", "i64")]]
        if widths[at] == 1:
            constants.append((f"{_LITERAL[type_]:#x}", _LITERAL[type_]))
        for constant, value in constants:
            operands = [*registers[:at], constant, *registers[at + 1 :]]
            made = Computed(of, constant=(at, value))
            what = f"{'ab'[at]} {'literal' if constant.startswith('0x') else 'constant'}"
            text = ", ".join([*results, *operands])
            yield Form(of, f"{of.name} {text}", what, of.sources, (), (*outputs, "scc"), made)


def _with_immediate(
    of: Described, results: Sequence[str], outputs: tuple[str, ...]
) -> Iterator[Form]:
    """SOPK: the second source is a constant of 16 bits; the first is also the result, if any."""
    unsigned = of.name.endswith("_u32")
    for immediate in (0x12, 0x7FFF, 0x8000, 0xFFFE):
        value = immediate if unsigned else immediate - (immediate >> 15 << 16)
        setup: tuple[str, ...] = ()
        if of.results and of.sources:
            setup = ("s_mov_b32 s30, s20",)
        register = results[0] if results else "s20"
        signature = of.sources or ("i32",)
        plan = Computed(of, constant=(len(of.sources), value & 0xFFFFFFFF))
        text = f"{of.name} {register}, {immediate if unsigned else value:#x}"
        yield Form(of, text, f"with {value}", signature, setup, (*outputs, "scc"), plan)
