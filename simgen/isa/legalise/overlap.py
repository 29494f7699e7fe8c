"""A result in the register of a source, which a rule may write before it reads the source.

A rule is written for registers that differ. Where they do not, it is tried with results of their
own; if that shows a source read behind the write of the result in its place, those results are kept
and moved where they belong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simgen.isa.legalise import roles
from simgen.isa.legalise.assembly import Instruction, is_vgpr, registers

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.isa.legalise.site import Site

_MEMORY = ("global_", "flat_", "ds_", "s_load")  # results come late; those rules look themselves
_SPECIAL = ("vcc", "exec", "m0")


def mended(site: Site, rule: Callable[[Site], None]) -> None:
    """Apply a rule to the site, so that it holds for a result that is a source, too."""
    original, first = site.item, len(site.out)
    before = site.mark()
    rule(site)
    shared = _shared(original, site.arch)
    if not shared or len(site.out) - first < 2:
        return
    as_written, cost = site.out[first:], site.mark()
    del site.out[first:]
    site.reset(before)
    moves = _rename_results(site, original)
    rule(site)
    if _reads_late(site, first, {t: r for r, t in moves.items() if r in shared}):
        for register, temporary in moves.items():
            move = "v_mov_b32_e32" if is_vgpr(register) else "s_mov_b32"
            site.put(move, register, temporary)
    else:
        site.out[first:] = as_written
        site.reset(cost)


def _shared(item: Instruction, arch: str) -> set[str]:
    """The registers that are only a result in one operand and a source in another."""
    form = roles.roles_of(item, arch)
    if form is None or item.mnemonic.startswith(_MEMORY):
        return set()
    read, written = set[str](), set[str]()
    for text, operand in roles.pairs(item, form):
        (read if operand.is_read else written).update(roles.named_registers(text))
    return {r for r in read & written if not r.startswith(_SPECIAL)}


def _rename_results(site: Site, item: Instruction) -> dict[str, str]:
    """Give the site's instruction temporaries as results: register -> temporary."""
    form = roles.roles_of(item, site.arch)
    assert form is not None
    operands, moves = list(item.operands), dict[str, str]()
    for at, (text, operand) in enumerate(roles.pairs(item, form)):
        own = registers(text)
        if operand.role != "d" or not own or text.startswith(_SPECIAL):
            continue
        kind = site.vgpr if is_vgpr(text) else site.sgpr
        kind_pair = site.vgpr_pair if is_vgpr(text) else site.sgpr_pair
        if len(own) == 1:
            operands[at] = kind()
        else:
            operands[at] = kind_pair()[0]
        moves |= dict(zip(own, registers(operands[at]), strict=True))
    site.item = replace(item, operands=tuple(operands))
    return moves


def _reads_late(site: Site, first: int, register_of: dict[str, str]) -> bool:
    """Whether a source is read behind a write of the temporary that stands for its register."""
    written = set[str]()
    for item in site.out[first:]:
        effect = roles.effect(item, site.arch)
        if effect is None or effect.reads & written:
            return True
        written |= {register_of[r] for r in effect.writes & register_of.keys()}
    return False
