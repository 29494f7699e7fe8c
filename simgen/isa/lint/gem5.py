"""What gem5 makes of instructions: by the tables of data/lint, read from its sources; and what any
simulator does, by a table that `simgen conform` has written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simgen.isa.legalise import facts, gem5_operands, gem5_rules, roles
from simgen.isa.legalise.empty_exec import SCALAR, VECTOR, MaskStep, unguarded
from simgen.isa.legalise.gem5 import HALF, LATE
from simgen.isa.legalise.machine_code import LITERAL, Decoded
from simgen.isa.lint.naming import modifiers, name
from simgen.isa.lint.verdicts import (
    EDGES,
    ENDS,
    KEEP_OUT,
    LEGALISE,
    NO_CONTROLS,
    NOTE,
    OTHERWISE,
    WRONG,
    Judged,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simgen.isa.legalise.facts import Table
    from simgen.isa.legalise.simulators import Model

_CLAMP_CURE = "write limits as minimum and maximum"
_LANES_CURE = "bring the elements into their lanes before it"
_CURES = {"clamp": _CLAMP_CURE, "omod": _CLAMP_CURE, "cbsz": _LANES_CURE, "blgp": _LANES_CURE,
          "negative": "subtract it from the base first"}  # fmt: skip
_IGNORED = {"negative": "the sign of the constant", "base": "the upper half of the base"}
_SIGN_CURE = "compare both signs, or clear the sign bit with integer arithmetic"

_TITLES = {"mgpusim": "MGPUSim"}
_IDLE = (
    ("empty_exec_scalar", SCALAR,
     "returns a token there that it has not taken, for a wavefront without active lanes, and ends"),
    ("empty_exec", VECTOR,
     "goes on counting what a wavefront without active lanes asks for, and ends later"),
)  # fmt: skip
_MOVED = re.compile(r"(?:flat|global|scratch)_(?:load|store)_(dwordx2|dword|[us]?short)")
_NBYTES = {"dwordx2": 8, "dword": 4}  # an element, which has to lie in one line; others: 2
_CUT = "loses bytes of lanes that cross a line of 64, unless their addresses are multiples of {}"
_ALIGN = (
    "align what it moves, or compile with -Xclang -target-feature -Xclang -unaligned-access-mode"
)
_TWO_WORDS = (
    "beside a scalar base, reads two registers for its offset: where that is the kernel's last "
    "one, the simulation ends"
)
_EXEC, _MINUS_ONE = 126, 193  # as operands are numbered

_VGPRS = 256  # the first of them, as sources are numbered
_ROW_MIRROR, _ROW_HALF_MIRROR = 0x140, 0x141  # two of DPP's controls
_PARTS = (1, 2, 3, 5)  # places of SDWA's results: all bytes but the lowest, and the upper half
_DWORD, _PRESERVE = 6, 2  # the whole register; and to keep what the result leaves
_VCC_HI = 107  # as operands are numbered
# Fields that may name a scalar register of 32 bits.
_SCALARS = {
    "SOP1": ((0, 7), (16, 22)), "SOP2": ((0, 7), (8, 15), (16, 22)), "SOPC": ((0, 7), (8, 15)),
    "SOPK": ((16, 22),), "VOP1": ((0, 8),), "VOP2": ((0, 8),), "VOPC": ((0, 8),),
    "VOP3": ((32, 40), (41, 49), (50, 58)), "VOP3P": ((32, 40), (41, 49), (50, 58)),
}  # fmt: skip
_LANE_READ = {"v_readfirstlane_b32": (17, 24), "v_readlane_b32": (0, 7)}  # where the result is
_FIRST_CONSTANT = 128  # in the same numbering
_WAIT = 12  # opcode of s_waitcnt
_SDWA_SCALAR = 1 << 23  # in the extra word of gfx9's SDWA: the first source is a scalar register


class Gem5:
    """A version's model of an instruction set."""

    def __init__(self, model: Model, table: Table, rewritings: tuple[str, ...]) -> None:
        self.model, self.rewritings = model, rewritings
        self.title = f"{_TITLES.get(model.simulator, model.simulator)} {model.version}"
        self.ends, self.no_form = frozenset(table.ends), frozenset(table.no_form)
        self.ignores = {each: frozenset(of) for each, of in table.ignores.items()}
        self.no_scalar, self.table = frozenset(table.no_scalar), table
        self.wrong, self.edges, self.cuts = table.wrong, table.edges, table.cuts
        self.notes = table.notes

    def judged(self, items: Sequence[Decoded]) -> Iterator[tuple[Decoded, Judged]]:
        """What is to be said of a function's instructions."""
        arch = self.model.arch
        named = [(item, name(item, arch)) for item in items]
        idle: dict[int, str] = {}
        for rewriting, memory, reason in _IDLE:
            if rewriting in self.rewritings:
                steps = (_mask_step(*each) for each in named)
                idle.update(dict.fromkeys(unguarded(steps, memory), reason))
        for (item, word), following in zip(named, [*items[1:], None], strict=True):
            if found := self._one(item, following, word):
                yield item, found
            elif item.offset in idle:
                yield item, (ENDS, f"{self.title} {idle[item.offset]}", LEGALISE)
            if word in self.notes:
                yield item, (NOTE, self.notes[word], KEEP_OUT)
            if not self.table.offsets and "base" in modifiers(item):
                yield item, (NOTE, _TWO_WORDS, "let the kernel own a vector register more")

    def _one(self, item: Decoded, following: Decoded | None, word: str) -> Judged | None:
        if not word:
            return ENDS, f"no instruction of {self.model.arch} that is known", OTHERWISE
        if word in self.ends:
            cure = NO_CONTROLS.get(item.form, OTHERWISE)
            mended = self._rule(word) or self._cure(word, cure)
            later = facts.later(word, self.model.version, self.model.arch)
            hint = later if mended == OTHERWISE and self.model.simulator == facts.GEM5 else ""
            return ENDS, f"{self.title} ends there{hint}", mended
        if word in self.no_scalar and not _is_vector(item):
            reason = f"{self.title} asserts that its source is a vector register"
            return ENDS, reason, "copy the source to a vector register first"
        if found := self._moved(item, word) or self._operand(item, word):
            return found
        if word in self.no_form:
            reason = f"{self.title} does not read the {item.form.upper()} controls"
            return WRONG, reason, NO_CONTROLS[item.form]
        for modifier in modifiers(item):
            if word in self.ignores.get(modifier, ()):
                cure = _CURES.get(modifier, _SIGN_CURE)
                cure = LEGALISE if gem5_rules.has_rule(word, modifier) else cure
                return WRONG, f"{self.title} ignores {_IGNORED.get(modifier, modifier)} there", cure
        if word in self.wrong:
            return WRONG, self.wrong[word], self._rule(word) or OTHERWISE
        if reason := self._rewritten(item, following, word):
            return WRONG, reason, LEGALISE
        if self.cuts and (nbytes := _unaligned(item, word)):
            return EDGES, f"{self.title} {_CUT.format(nbytes)}", _ALIGN
        if word == "v_div_fixup_f32" and _corrected(item, following, self.model.arch):
            return None
        if word in self.edges:
            return EDGES, self.edges[word], self._rule(word) or KEEP_OUT
        return None

    def _moved(self, item: Decoded, word: str) -> Judged | None:
        """What DPP and SDWA forms do wrongly with any instruction."""
        table = self.table
        if item.form == "dpp" and word not in self.no_form:
            control = item.extra >> 8 & 0x1FF
            cure = LEGALISE if word == gem5_operands.MOVED else "take row_shr and row_shl"
            if control == _ROW_HALF_MIRROR and not table.half_mirror:
                cure = cure if not (table.mirror and table.moves) else "take row_shr and row_shl"
                return ENDS, f"{self.title} reads lanes there that are not", cure
            if control == _ROW_MIRROR and not table.mirror:
                return WRONG, f"{self.title} reads lanes of the first row there", cure
            if not table.moves:
                cure = LEGALISE if word == gem5_operands.MOVED else NO_CONTROLS["dpp"]
                return WRONG, f"{self.title} moves lanes over each other there", cure
        is_sdwa = item.form == "sdwa" and item.format != "VOPC"
        to_a_part = is_sdwa and item.extra >> 8 & 7 in _PARTS
        keeps = is_sdwa and item.extra >> 11 & 3 == _PRESERVE and item.extra >> 8 & 7 != _DWORD
        if keeps and not table.keeps:
            return ENDS, f"{self.title} asserts that it keeps nothing", NO_CONTROLS["sdwa"]
        if to_a_part and not table.parts:
            reason = f"{self.title} leaves that part of the result's register as it was"
            return WRONG, reason, NO_CONTROLS["sdwa"]
        return None

    def _operand(self, item: Decoded, word: str) -> Judged | None:
        """What a version does not read, of any instruction."""
        table = self.table
        if not table.literals and _long_literal(item, word, self.model.arch):
            return ENDS, f"{self.title} asserts that no constant of 32 bits stands for 64", LEGALISE
        if not table.vcc_hi and _names_vcc_hi(item, word):
            return ENDS, f"{self.title} takes vcc_hi for a register that is not there", LEGALISE
        if not table.soffset and item.format == "MUBUF" and item.bits(56, 63) >= _FIRST_CONSTANT:
            return ENDS, f"{self.title} takes a constant offset for a register", LEGALISE
        return None

    def _rule(self, word: str) -> str:
        return LEGALISE if gem5_rules.has_rule(word, "", self.ends | set(self.wrong)) else ""

    def _cure(self, word: str, otherwise: str) -> str:
        known = {"shift_add": "s_lshl", "lds_four_words": "ds_"}
        there = any(word.startswith(p) and r in self.rewritings for r, p in known.items())
        of_rule = word.endswith("_add_u32") or word in ("ds_read_b128", "ds_write_b128")
        return LEGALISE if there and of_rule else otherwise

    def _rewritten(self, item: Decoded, following: Decoded | None, word: str) -> str:
        """What gem5 does otherwise, of which `legalise` knows; empty if nothing."""
        if "lds_three_words" in self.rewritings and word in ("ds_read_b96", "ds_write_b96"):
            return "all lanes but the first get words of others"
        if "late_stores" in self.rewritings and LATE.match(word) and not _waits(following):
            return "gem5 reads what it stores late: what follows may have overwritten it"
        if "scalar_offset" in self.rewritings and _adds_register(item):
            return "gem5 leaves out the register of the address"
        if "packed_floats" in self.rewritings and _packs_otherwise(item, word):
            return "gem5 takes constants and signs of packed floats otherwise"
        if "upper_halves" in self.rewritings and _leaves_half(item, following, word):
            return "gem5 leaves the upper half of the result's register as it was"
        return ""


def _unaligned(item: Decoded, word: str) -> int:
    """The bytes of an element of a load or store, if its offset is no multiple of them; else 0."""
    moved = _MOVED.match(word) if item.format == "FLAT" else None
    nbytes = _NBYTES.get(moved[1], 2) if moved else 0
    return nbytes if nbytes and item.bits(0, 1) % nbytes else 0


def _corrected(item: Decoded, following: Decoded | None, arch: str) -> bool:
    """Whether the next instruction chooses between a quotient and another one, as the rule does."""
    chooses = following is not None and name(following, arch) == "v_cndmask_b32_e64"
    return bool(chooses and following and item.bits(0, 7) == following.bits(0, 7))


def _mask_step(item: Decoded, word: str) -> MaskStep:
    scalar = item.format in ("SOP1", "SOP2")
    result = "exec" if scalar and item.bits(16, 22) in (_EXEC, _EXEC + 1) else ""
    source = "-1" if scalar and item.bits(0, 7) == _MINUS_ONE else ""
    distance = item.bits(0, 15)  # in words of four bytes, with a sign
    target = item.offset + 4 + 4 * (distance - ((distance & 0x8000) << 1))
    branches = word.startswith(("s_branch", "s_cbranch"))
    return MaskStep(item.offset, word, result, source, target if branches else None)


def _is_vector(item: Decoded) -> bool:
    """Whether the first source is a vector register."""
    if item.form:
        return item.form == "dpp" or not item.extra & _SDWA_SCALAR
    first = item.bits(32, 40) if item.format.startswith("VOP3") else item.bits(0, 8)
    return first >= _VGPRS


def _long_literal(item: Decoded, word: str, arch: str) -> bool:
    """Whether a source of 64 bits is a constant of 32."""
    if item.format not in ("SOP1", "SOP2", "SOPC", "VOP1", "VOPC") or item.form:
        return False
    first = 8 if item.format.startswith("V") else 7
    fields = [item.bits(0, first), *([item.bits(8, 15)] if item.format in ("SOP2", "SOPC") else [])]
    for form in roles.forms(word, arch):
        sources = [each for each in form.operands if each.is_read and not each.lane_mask]
        return any(
            field == LITERAL and of.width == 2 for field, of in zip(fields, sources, strict=False)
        )
    return False


def _names_vcc_hi(item: Decoded, word: str) -> bool:
    fields = _SCALARS.get(item.format, ())
    at = _LANE_READ.get(word)
    named = not item.form and any(item.bits(*field) == _VCC_HI for field in fields)
    return named or bool(at and item.bits(*at) == _VCC_HI)


def _waits(following: Decoded | None) -> bool:
    """Whether the next instruction waits for all accesses to memory."""
    found = following is not None and following.format == "SOPP" and following.opcode == _WAIT
    return bool(found and following and not following.bits(0, 3))


def _adds_register(item: Decoded) -> bool:
    """Whether a scalar load of gfx9 adds a register and a constant that is not zero."""
    both = item.format == "SMEM" and item.bits(14, 14) and item.bits(17, 17)
    return bool(both and item.bits(32, 52))


def _packs_otherwise(item: Decoded, word: str) -> bool:
    if word not in ("v_pk_fma_f32", "v_pk_mul_f32", "v_pk_add_f32"):
        return False
    count = 3 if word == "v_pk_fma_f32" else 2
    constant = any(128 <= item.bits(32 + 9 * n, 40 + 9 * n) <= 255 for n in range(count))
    return bool(constant or item.bits(8, 10) or item.bits(61, 63))


def _leaves_half(item: Decoded, following: Decoded | None, word: str) -> bool:
    """Whether the upper half is left as it was, and the next instruction does not clear it."""
    if not HALF.match(word) or item.form:
        return False
    result = item.bits(0, 7) if item.format == "VOP3" else item.bits(17, 24)
    if following is None or following.format != "VOP2" or following.form:
        return True
    mask, of, to = following.extra, following.bits(9, 16), following.bits(17, 24)
    cleared = following.opcode == 19 and following.bits(0, 8) == 255 and mask == 0xFFFF
    return not (cleared and of == to == result)
