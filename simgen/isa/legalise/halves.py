"""Halves of VCC and EXEC, which MGPUSim takes for the whole.

It reads all 64 bits where an instruction names a half, and of a write of one it may lose the other.
So the mask is copied to a pair of scalars, the instruction uses a register of that pair, and a pair
that was written to goes back. Which operands are read and written says the table of roles.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simgen.isa.legalise import roles
from simgen.isa.legalise.assembly import source_modifiers

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site

_MASK_OF = {f"{mask}_{half}": mask for mask in ("vcc", "exec") for half in ("lo", "hi")}


def named(item_operand: str) -> str:
    """The half of a mask that an operand is, under its modifiers; "" for anything else."""
    body = source_modifiers(item_operand)[2]
    return body if body in _MASK_OF else ""


def copied_out(site: Site, form: roles.Roles) -> dict[str, str]:
    """Let the site's instruction use copies of the halves that it names.

    Returns mask -> pair for those that have to be written back behind it.
    """
    held: dict[str, tuple[str, str, str]] = {}
    back: dict[str, str] = {}
    operands = list(site.item.operands)
    for at, (text, operand) in enumerate(roles.pairs(site.item, form)):
        half = named(text)
        if not half:
            continue
        mask = _MASK_OF[half]
        if mask not in held:
            held[mask] = site.sgpr_pair()
            site.put("s_mov_b64", held[mask][0], mask)
        pair, low, high = held[mask]
        operands[at] = text.replace(half, low if half.endswith("_lo") else high)
        if operand.is_written:
            back[mask] = pair
    site.item = replace(site.item, operands=tuple(operands))
    return back


def copied_back(site: Site, back: dict[str, str]) -> None:
    if back and site.item.mnemonic.startswith("s_load"):
        site.put("s_waitcnt", "lgkmcnt(0)")
    for mask, pair in back.items():
        site.put("s_mov_b64", mask, pair)
