"""Instructions on floats in kernels that round otherwise, or flush subnormals.

Each instruction that rounds by MODE is tried in each rounding mode and each way to treat
subnormals, and in a mode whose fields of the other types are changed, which must not matter. What
has its own rounding is tried where it must keep it. `s_setreg_b32` and `s_setreg_imm32_b32` have to
change what the next instruction does.

Of conversions, the manuals do not tell which subnormals they flush, nor of minima, maxima and
rounding to integers: only rounding is tried of the former, and of the latter that it stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from simgen_examine.conform import description, float_mode, values
from simgen_examine.conform.arithmetic import Computed, Wanted
from simgen_examine.conform.description import SWITCH, Described
from simgen_examine.conform.float_mode import DOWN, KEEP, NEAREST, UP, USUAL, ZERO, FloatMode
from simgen_examine.conform.forms import RESULT, Form, plain
from simgen_examine.conform.integers import typed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen_examine.conform.expected import Values
    from simgen_examine.conform.values import Words

_ROUNDING = tuple(FloatMode(each, each) for each in (UP, DOWN, ZERO))
_FLUSHING = tuple(FloatMode(denorm_32=each, denorm_16_64=each) for each in range(KEEP))
# Modes for f32, and for the other types; the others' fields differ from those of all forms.
_SINGLE, _OTHERS = FloatMode(UP, ZERO, 2, 0), FloatMode(ZERO, UP, 0, 2)
_CONVERSIONS = ("cvt_f32", "cvt_f16")
# What is rounded in its own way, whatever the mode.
_STAY = ("v_cvt_i32_f32", "v_cvt_u32_f32", "v_cvt_i32_f64", "v_rndne_f32", "v_rndne_f64",
         "v_trunc_f32", "v_cvt_flr_i32_f32", "v_cvt_pkrtz_f16_f32")  # fmt: skip


@dataclass(frozen=True)
class InMode(Computed):
    """The results of a form in a mode."""

    mode: FloatMode = USUAL

    def apply(self, name: str, *sources: Values) -> object:
        """As `Computed.apply`."""
        return float_mode.computed(name, self.mode, *sources)


@dataclass(frozen=True)
class Switched(Computed):
    """The sum of two f32 behind an instruction that sets a mode."""

    mode: FloatMode = USUAL

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`."""
        del lanes
        a, b = (typed(words[at], "f32") for at in range(2))
        with np.errstate(all="ignore"):
            return [Wanted("f32", float_mode.computed("fadd", self.mode, a, b))]


def modes(arch: str, known: frozenset[str]) -> Iterator[Form]:
    """The forms of an architecture."""
    for of in description.instructions(arch):
        if of.format not in description.VECTOR:
            continue
        if of.function in float_mode.HONOUR and _of_floats(of):
            for form in plain(of, arch, known):
                for mode in _tried(of):
                    yield _in(form, mode)
        elif of.name in _STAY:
            for form in list(plain(of, arch, known))[:1]:
                for mode in _ROUNDING[:1]:
                    yield replace(form, what=f"{form.what}, {mode.text}", mode=mode)
    for form in _switches():
        if form.mnemonic in known:
            yield form


def _of_floats(of: Described) -> bool:
    """Whether a result is rounded: conversions to wider types are exact."""
    source, result = (each.removeprefix("pk_") for each in (of.types[0], of.results[0]))
    if of.function in _CONVERSIONS:
        return values.bits(source) >= values.bits(result) and source != result
    return result[0] == "f"


def _tried(of: Described) -> tuple[FloatMode, ...]:
    if of.function in _CONVERSIONS:
        return _ROUNDING
    if of.function in float_mode.UNFUSED:  # they take no subnormals
        return _ROUNDING
    return (*_ROUNDING, *_FLUSHING, _SINGLE, _OTHERS)


def _in(form: Form, mode: FloatMode) -> Form:
    of = form.plan
    plan = InMode(of.instruction, of.modifiers, of.constant, of.vcc, of.upper, mode=mode)
    return replace(form, plan=plan, what=f"{form.what}, {mode.text}", mode=mode)


def _switches() -> Iterator[Form]:
    """Instructions that set a field of MODE; the sum that is computed then; the field as it was.

    Two bits of single precision at a time, as compilers write them around divisions.
    """
    source = ("f32", "f32")
    for offset, usual, mode in (
        *((0, NEAREST, FloatMode(each)) for each in (UP, DOWN, ZERO)),
        (4, KEEP, FloatMode(denorm_32=0)),
    ):
        field = f"hwreg(HW_REG_MODE, {offset}, 2)"
        new = mode.denorm_32 if offset else mode.round_32
        back = ("s_nop 4", f"v_add_f32_e32 v{RESULT}, v4, v6",
                f"s_setreg_imm32_b32 {field}, {usual:#x}", "s_nop 4")  # fmt: skip
        for name, operand, setup in (
            ("s_setreg_imm32_b32", f"{new:#x}", ()),
            ("s_setreg_b32", "s50", (f"s_mov_b32 s50, {new:#x}",)),
        ):
            of = Described(name, SWITCH, (), source, "fadd")
            plan = Switched(of, mode=mode)
            yield Form(of, f"{name} {field}, {operand}", f"then v_add_f32, {mode.text}", source,
                       setup, (f"v{RESULT}",), plan, after=back)  # fmt: skip
