"""From words of sources to what the results of a form have to be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen_examine.conform import floats, integers, values
from simgen_examine.conform.expected import TYPES, Expected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen_examine.conform.controls import Control
    from simgen_examine.conform.description import Described
    from simgen_examine.conform.expected import Values, Where
    from simgen_examine.conform.values import Words

LITERAL = 0x40490FDB  # the constant of v_madmk_f32 and the like
KEPT = 0x5CA1AB1E  # what the result's registers hold before
VCC = 0xA5C3965A00FF0F35  # what VCC holds before
BITS = 0x123456789ABCDEF0  # value of other pairs of scalar registers, as a source
ALL_LANES = (1 << values.LANES) - 1
FUNCTIONS = {**integers.FUNCTIONS, **floats.FUNCTIONS}
_SATURATING = {"add": "add_clamped", "sub": "sub_clamped", "subrev": "subrev_clamped"}


@dataclass(frozen=True)
class Wanted:
    """What registers have to hold: of a bit for each lane, `mask`; or values of a type."""

    type: str  # type of an element; "mask"; "scc"
    expected: Expected
    upper: bool | None = None  # for 16 bits: True if the upper half is 0; None: anything
    kept: Where | None = None  # lanes that keep what was there

    @property
    def words(self) -> int:
        if self.type == "mask":
            return 2
        if self.type == "scc":
            return 1
        return int(self.expected.value.ndim == 2 and self.type == "f32") + values.words(self.type)

    def right(self, words: Words) -> Where:
        """Where what was found is right; `words` is (word, tuple)."""
        if self.type == "scc":
            return self.expected.right(words[0] != 0)
        if self.type == "mask":
            return self._mask_right(words)
        good = self.expected.right(self._typed(words))
        if good.ndim == 2:
            good = good.all(0)
        elif self.upper and values.bits(self.type) == 16:
            good &= (words[0] >> np.uint32(16)) == 0
        if self.kept is not None:
            good = np.where(self.kept, (words == KEPT).all(0), good)
        return good

    def _typed(self, words: Words) -> Values:
        if self.expected.value.ndim == 1:
            return integers.typed(words, self.type)
        if values.bits(self.type) == 16:
            low, high = words[0] & np.uint32(0xFFFF), words[0] >> np.uint32(16)
            return np.stack([low, high]).astype(np.uint16).view(TYPES[self.type])
        return words.copy().view(TYPES[self.type])

    def _mask_right(self, words: Words) -> Where:
        lanes = np.arange(words.shape[1])
        whole = words[0].astype(np.uint64) | words[1].astype(np.uint64) << np.uint64(32)
        found = whole >> (lanes % values.LANES).astype(np.uint64) & np.uint64(1) != 0
        groups = whole.reshape(-1, values.LANES)
        same = np.repeat((groups == groups[:, :1]).all(1), values.LANES)
        return self.expected.right(found) & same


@dataclass(frozen=True)
class Modifiers:
    """What VOP3 and VOP3P say of sources and result. Sources are told by their numbers."""

    neg: tuple[int, ...] = ()
    absolute: tuple[int, ...] = ()
    clamp: bool = False
    omod: float = 1.0
    select: tuple[tuple[int, ...], tuple[int, ...]] | None = None  # op_sel, op_sel_hi
    neg_low: tuple[int, ...] = ()
    neg_high: tuple[int, ...] = ()

    def around(self, register: str, at: int) -> str:
        """A source as the assembler has it."""
        text = f"|{register}|" if at in self.absolute else register
        return f"-{text}" if at in self.neg else text

    def words(self, name: str) -> str:
        return self.around(name, (*self.neg, *self.absolute)[0])

    def text(self, count: int, packed: bool) -> str:
        """What comes behind the operands."""
        told = ""
        if packed and self.select:
            low, high = (",".join(map(str, each)) for each in self.select)
            told += f" op_sel:[{low}] op_sel_hi:[{high}]"
        for name, of in (("neg_lo", self.neg_low), ("neg_hi", self.neg_high)):
            if of:
                told += f" {name}:[{','.join(str(int(n in of)) for n in range(count))}]"
        told += " clamp" if self.clamp else ""
        return told + {1.0: "", 2.0: " mul:2", 4.0: " mul:4", 0.5: " div:2"}[self.omod]


@dataclass(frozen=True)
class Computed:
    """How the results of a form follow from its sources."""

    instruction: Described
    modifiers: Modifiers = Modifiers()
    constant: tuple[int, int] | None = None  # number of a source, and its bits
    vcc: bool = False  # the bits that it gets are VCC's, not another pair's
    upper: bool | None = None
    control: Control | None = None

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """What each result has to be."""
        of = self.instruction
        if of.scc:
            return self._scalar(words)
        if of.sources[0].startswith("pk_"):
            return self._packed(words)
        sources, reads = self._sources(words)
        carry = None
        if "vcc" in of.sources or "=vcc" in of.sources:
            carry = self.bits(words.shape[2])
        found = self._computed(sources, carry)
        results = []
        for type_, value in zip(_expected_types(of), found, strict=True):
            expected = self._modified(_as_expected(value), type_)
            kept = None
            if self.control is not None and type_ not in ("vcc", "exec"):
                expected = self.control.placed(expected, reads)
                kept = ~reads if self.control.form == "dpp" else None
            elif self.control is not None:
                expected = self.control.bits(expected, reads)
            kind = "mask" if type_ in ("vcc", "exec") else type_
            if self.control is not None and self.control.places and kind != "mask":
                kind = "u32"
            results.append(self._in_lanes(Wanted(kind, expected, self.upper, kept), lanes))
        return results

    def _in_lanes(self, outcome: Wanted, lanes: int) -> Wanted:
        """Where EXEC has no bit, registers keep what they had, and comparisons give 0."""
        if lanes == ALL_LANES:
            return outcome
        expected = outcome.expected
        active = bits_of(lanes, expected.value.shape[-1])
        if outcome.type != "mask":
            return replace(outcome, kept=~active)
        if self.instruction.format != "VOPC":  # a carry: not told
            return replace(outcome, expected=expected.freed(~active))
        return replace(outcome, expected=replace(expected, value=expected.value & active))

    def bits(self, count: int) -> Where:
        """The bit that each lane gets."""
        return bits_of(VCC if self.vcc else BITS, count)

    def _sources(self, words: Words) -> tuple[list[Values], Where]:
        """The sources with their modifiers, and which lanes are computed."""
        found: list[Values] = []
        plane = 0
        reads = np.ones(words.shape[2], bool)
        for at, source in enumerate(each for each in self.instruction.sources if "vcc" not in each):
            type_ = source.lstrip("=#@")
            if source[0] == "@":
                found.append(found[0])
                continue
            if source[0] == "#":
                found.append(np.full(words.shape[2], LITERAL, np.uint32).view(TYPES[type_]))
                continue
            given = words[plane]
            plane += 1
            if self.constant and self.constant[0] == at:
                given = _constant(self.constant[1], words.shape[2])
            if self.control is not None and source[0] != "=":
                given, some = self.control.read(given, at, type_)
                reads &= some
            value = integers.typed(given, type_)
            if at in self.modifiers.absolute:
                value = floats.absolute(value)
            if at in self.modifiers.neg:
                value = floats.negated(value)
            found.append(value)
        return found, reads

    def apply(self, name: str, *sources: Values) -> Any:
        """What a function of the description makes of sources."""
        return FUNCTIONS[name](*sources)

    def _computed(self, sources: Sequence[Values], carry: Where | None) -> list[Any]:
        name = self.instruction.function
        if self.modifiers.clamp and name in _SATURATING:
            name = _SATURATING[name]
        more = () if carry is None else (carry,)
        with np.errstate(all="ignore"):
            found = self.apply(name, *sources, *more)
        if "exec" in self.instruction.results:
            return [found, found]
        return list(found) if isinstance(found, tuple) else [found]

    def _modified(self, expected: Expected, type_: str) -> Expected:
        if type_ in TYPES and expected.value.dtype != TYPES[type_]:
            expected = Expected(expected.value.view(TYPES[type_]), expected.free, expected.ulps)
        if type_[0] != "f":
            return expected
        if self.modifiers.omod != 1.0:
            expected = floats.multiplied(expected, self.modifiers.omod)
        return floats.clamped(expected) if self.modifiers.clamp else expected

    def _packed(self, words: Words) -> list[Wanted]:
        """Both halves of each source, in the way that op_sel says."""
        of, how = self.instruction, self.modifiers
        count = len(of.sources)
        chosen = how.select or ((0,) * count, (1,) * count)
        halves = []
        for half, (select, neg) in enumerate(zip(chosen, (how.neg_low, how.neg_high), strict=True)):
            sources = []
            for at, type_ in enumerate(of.sources):
                value = _half(words[at], type_.removeprefix("pk_"), select[at])
                sources.append(floats.negated(value) if at in neg else value)
            with np.errstate(all="ignore"):
                made = _as_expected(self.apply(of.function, *sources))
            del half
            halves.append(floats.clamped(made) if how.clamp else made)
        return [Wanted(of.results[0].removeprefix("pk_"), _stacked(halves))]

    def _scalar(self, words: Words) -> list[Wanted]:
        of = self.instruction
        count = words.shape[2]
        types = list(of.sources)
        sources = [integers.typed(words[at], each) for at, each in enumerate(types)]
        if self.constant:
            at, value = self.constant
            type_ = types[at] if at < len(types) else (types or ["i32"])[0]
            made = integers.typed(_constant(value, count), type_)
            sources[at : at + 1] = [made]
        carry = words[2, 0] != 0
        with np.errstate(all="ignore"):
            result, scc = integers.scalar(of.function, of.scc)(*sources, carry=carry)
        found = []
        if of.results:
            whole = _as_expected(result)
            typed = Expected(whole.value.view(TYPES[of.results[0]]), whole.free)
            found.append(Wanted(of.results[0], typed))
        bit = _as_expected(carry if scc is None else scc)
        if of.scc == "first":  # the manuals differ about which of two equal sources is taken
            bit = bit.freed(sources[0] == sources[1])
        found.append(Wanted("scc", bit))
        return found


def bits_of(mask: int, count: int) -> Where:
    """A bit for each of `count` lanes, the same for each wavefront."""
    return np.array([mask >> at % values.LANES & 1 for at in range(count)], bool)


def _expected_types(of: Described) -> list[str]:
    return list(of.results)


def _as_expected(value: Any) -> Expected:
    return value if isinstance(value, Expected) else Expected(value)


def _constant(value: int, count: int) -> Words:
    low = np.full(count, value & 0xFFFFFFFF, np.uint32)
    return np.stack([low, np.full(count, value >> 32 & 0xFFFFFFFF, np.uint32)])


def _half(words: Words, type_: str, upper: int) -> Values:
    if values.bits(type_) == 32:
        return words[upper].copy().view(TYPES[type_])
    whole = words[0] >> np.uint32(16 * upper) & np.uint32(0xFFFF)
    return whole.astype(np.uint16).view(TYPES[type_])


def _stacked(halves: Sequence[Expected]) -> Expected:
    none = np.zeros(halves[0].value.shape, bool)
    free = np.stack([none if each.free is None else each.free for each in halves])
    other = np.stack([each.value if each.other is None else each.other for each in halves])
    return Expected(np.stack([each.value for each in halves]), free, halves[0].ulps, other)
