"""Findings as a table of `simgen lint`: what this build makes of each instruction.

The table has what data/lint has of versions whose sources were read (`legalise.facts`), and here
what was seen. An instruction whose forms without modifiers end the simulator, or are missing, in at
least half of the cases `ends`; one that is wrong in more than a few values is `wrong`; `edges` are
few values, or few forms, which the reason names. A modifier is ignored where its forms are wrong
and those without it right. Forms in other modes of floats are left out: what an instruction does
there is not what most kernels ask of it. So are sequences, of which any instruction may be wrong.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from simgen_examine.conform.description import SEQUENCE
from simgen_examine.conform.float_mode import FLUSHING, USUAL
from simgen_examine.conform.judging import Found, Seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simgen_examine.conform.forms import Form
    from simgen_examine.conform.page import Told

# fraction of a form's values up to which wrong ones count as special values
MAX_SPECIAL_SHARE = 0.05
HALF_MIRROR = "row_half_mirror"
_GONE = (Found.MISSING, Found.ENDS)
_IN_TEXT = {"cbsz": r" cbsz:[1-9]", "blgp": r" blgp:[1-9]", "negative": r"-0x|offset:-",
            "clamp": r" clamp\b", "omod": r" (mul|div):\d"}  # fmt: skip
MODIFIERS = ("abs", "neg", *_IN_TEXT)


def rows(told: Told, simulator: str, version: str) -> dict[str, Any]:
    """A file that `simgen lint --table` reads."""
    by_word: dict[str, list[Seen]] = defaultdict(list)
    for each in told.findings:
        form = each.form
        several = form.instruction.format == SEQUENCE
        if not form.shape and not several and form.mode in (USUAL, FLUSHING):
            by_word[each.form.mnemonic].append(each)
    ends: list[str] = []
    found: dict[str, dict[str, str]] = {"wrong": {}, "edges": {}}
    ignores: dict[str, list[str]] = {each: [] for each in MODIFIERS}
    for word, members in sorted(by_word.items()):
        plain = [each for each in members if not modifiers(each.form)] or members
        kind, reason = _verdict(plain)
        if kind == "ends":
            ends.append(word)
        elif kind:
            found[kind][word] = reason
        if kind not in ("ends", "wrong"):
            for name in _ignored(members):
                ignores[name].append(word)
    mirrored = [each for each in told.findings if HALF_MIRROR in each.form.text]
    return {
        "simulator": simulator, "version": version,
        "source": f"simgen conform on {told.title}, {len(told.findings)} forms",
        "tables": [{
            "architectures": [told.arch], "ends": ends,
            "half_mirror": not any(each.found is Found.ENDS for each in mirrored),
            "ignores": {name: words for name, words in ignores.items() if words}, **found,
        }],
    }  # fmt: skip


def opcodes(told: Told, simulator: str, version: str) -> dict[str, Any]:
    """The same of PTX, by opcode with its modifiers; nothing of these is ignored apart."""
    by_word: dict[str, list[Seen]] = defaultdict(list)
    for each in told.findings:
        by_word[each.form.mnemonic].append(each)
    ends: list[str] = []
    found: dict[str, dict[str, str]] = {"wrong": {}, "edges": {}}
    for word, members in sorted(by_word.items()):
        kind, reason = _verdict(members)
        if kind == "ends":
            ends.append(word)
        elif kind:
            found[kind][word] = reason
    return {
        "simulator": simulator, "version": version,
        "source": f"simgen conform on {told.title}, {len(told.findings)} forms",
        "tables": [{"architectures": [told.arch], "ends": ends, **found}],
    }  # fmt: skip


def modifiers(form: Form) -> set[str]:
    """Modifiers of a form that a table has words for."""
    how = form.plan.modifiers
    found = {name for name, pattern in _IN_TEXT.items() if re.search(pattern, form.text)}
    if form.instruction.format != "SMEM":
        found.discard("negative")
    return found | {name for name, on in (("neg", how.neg), ("abs", how.absolute)) if on}


def _verdict(plain: Sequence[Seen]) -> tuple[str, str]:
    """(ends, wrong, edges or nothing, why) of forms without modifiers."""
    gone = [each for each in plain if each.found in _GONE]
    wrong = [each for each in plain if each.found is Found.WRONG]
    if 2 * len(gone) >= len(plain):
        return "ends", ""
    much = [each for each in wrong if each.wrong > MAX_SPECIAL_SHARE * each.lanes]
    if 2 * (len(gone) + len(much)) >= len(plain):
        return "wrong", _reason(much or gone)
    if gone or wrong:
        return "edges", _reason([*gone, *much, *wrong])
    return "", ""


def _reason(seen: Sequence[Seen]) -> str:
    first = seen[0]
    if first.found in _GONE:
        return f"ends the simulation, as seen at `{first.form.text}`"
    forms = ", ".join(dict.fromkeys(each.form.what for each in seen))[:120]
    return (
        f"{first.wrong} of {first.lanes} tuples of values differ in `{first.form.text}` ({forms})"
    )


def _ignored(members: Iterable[Seen]) -> set[str]:
    """The modifiers whose forms, with no other, are wrong."""
    found: dict[str, list[bool]] = defaultdict(list)
    for each in members:
        if len(told := modifiers(each.form)) == 1 and each.found not in _GONE:
            bad = each.found is Found.WRONG and each.wrong > MAX_SPECIAL_SHARE * each.lanes
            found[told.pop()].append(bad)
    return {name for name, bad in found.items() if any(bad)}
