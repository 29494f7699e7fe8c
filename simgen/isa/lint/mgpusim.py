"""What MGPUSim makes of instructions: by the opcodes that it has, and the rules of `legalise`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.isa.legalise import implemented, instruction_rules
from simgen.isa.legalise.assembly import CONTRACTED
from simgen.isa.lint import disassembly, naming
from simgen.isa.lint.verdicts import EDGES, ENDS, LEGALISE, NO_CONTROLS, OTHERWISE, WRONG, Judged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simgen.isa.legalise.machine_code import Decoded
    from simgen.isa.legalise.simulators import Model

NAME = "f"  # any name: functions are looked at one by one
_FLOATS = (240, 248)  # the numbers of constants that are floats, as sources are numbered
_NARROW = "takes constants of 32 bits for those of 64"
# Why, where it is known, by the beginnings of mnemonics: what `simgen conform` has found.
_BECAUSE = {
    "gfx942": {"flat_": "adds s[0:1] to the address"},
    "": {
        "v_med3_u32": "gives another number where two sources are equal",
        "v_mad_u32_u24": "multiplies all 32 bits",
        "v_cvt_f64_u32": "leaves the upper half of the result unwritten",
        "s_not_b32": "does not tell in SCC whether the result is 0",
    },
}
# Right but for such values, which the rules keep out where they make these of others:
_NANS = "gives another result where operands are NaN"
_COUNTS = "does not cut the count to six bits"
_CARRY = "loses the carry where a source is 0xffffffff"
_BUT_FOR = {
    "v_addc_u32_e32": _CARRY,
    **dict.fromkeys(("v_med3_f32", "v_max3_f32", "v_min3_f32"), _NANS),
    **dict.fromkeys(("v_max_f32_e32", "v_min_f32_e32"), _NANS),
    **dict.fromkeys(("v_ashrrev_i64", "v_lshlrev_b64"), _COUNTS),
}

# The same of what no rule mends: what is rounded otherwise, SCC that hardly anybody reads.
_TWICE = "rounds the product before it adds"
_AS_IT_IS = {
    "gfx942": dict.fromkeys(
        ("v_fma_f32", "v_fmac_f32_e32", "v_fmamk_f32", "v_fmaak_f32", "v_pk_fma_f32"), _TWICE
    ),
    "": {"s_abs_i32": "does not tell in SCC whether the result is 0"},
}
_QUIETS = "takes |a| of a signalling NaN for a quiet one"


def judged(
    model: Model, items: Sequence[Decoded], *, contracted: bool = False
) -> Iterator[tuple[Decoded, Judged]]:
    """What is to be said of a function's instructions; `contracted` as `linting.judge_of`."""
    known = implemented.implemented(model)
    lines, of_line = disassembly.listing(items, model.arch, NAME)
    lines += [f"\t.set {NAME}.{CONTRACTED}, 1"] * contracted
    changed = {
        of_line[at].offset: why
        for at, why in instruction_rules.planned_rewrites("\n".join(lines), model).items()
    }
    told = {item.offset for item in of_line.values()}
    title = f"MGPUSim {model.version}"
    for item in items:
        format_, opcode = implemented.named(item)
        has = opcode in known.get(format_, {}) and item.form != "scratch"
        if item.offset not in told:  # the rules could not read its text
            if not has:
                yield item, (ENDS, f"{title} has no such instruction and panics", OTHERWISE)
            else:
                cure = NO_CONTROLS.get(item.form, OTHERWISE)
                yield item, (WRONG, f"{title} is not known to execute this form right", cure)
        elif has and item.offset not in changed:
            if found := _as_it_is(item, model.arch):
                yield item, (found[0], f"{title} {found[1]}", OTHERWISE)
        elif has and (reason := _but_for(item, model.arch)):
            yield item, (EDGES, f"{title} {reason}", LEGALISE)
        else:
            cure = OTHERWISE if changed.get(item.offset, "no rule") else LEGALISE
            if has:
                yield item, (WRONG, f"{title} {_why(item, model.arch)}", cure)
            else:
                yield item, (ENDS, f"{title} has no such instruction and panics", cure)


def _as_it_is(item: Decoded, arch: str) -> tuple[str, str] | None:
    """Verdict and reason of what no rule changes."""
    word = naming.name(item, arch)
    for known in (_AS_IT_IS.get(arch, {}), _AS_IT_IS[""]):
        if word in known:
            return EDGES, known[word]
    if word == "v_cmp_class_f32_e64" and "abs" in naming.modifiers(item):
        return EDGES, _QUIETS
    if word == "v_rcp_f64_e32" and _FLOATS[0] <= item.bits(0, 8) <= _FLOATS[1]:
        return WRONG, _NARROW
    return None


def _but_for(item: Decoded, arch: str) -> str:
    """For which values alone something is wrong; empty where it is more."""
    limited = {"clamp", "omod"} & set(naming.modifiers(item))
    return "" if limited else _BUT_FOR.get(naming.name(item, arch), "")


def _why(item: Decoded, arch: str) -> str:
    word = naming.name(item, arch)
    for known in (_BECAUSE.get(arch, {}), _BECAUSE[""]):
        for start, why in known.items():
            if word.startswith(start):
                return why
    if "f64" in word and any(_FLOATS[0] <= source <= _FLOATS[1] for source in _sources(item)):
        return _NARROW
    return "does not execute it right, or not in this form"


def _sources(item: Decoded) -> list[int]:
    """The numbers of the sources of a vector instruction."""
    if item.format.startswith("VOP3"):
        return [item.bits(32 + 9 * n, 40 + 9 * n) for n in range(3)]
    return [item.bits(0, 8)] if item.format in ("VOP1", "VOP2", "VOPC") else []
