"""The table of a target: what it executes right as it is, and the rule for everything else.

Rules register themselves by architecture and mnemonic. A rule gets a `Site` and puts there what
stands in place of the instruction, made of native ones. A mnemonic with neither is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.ground import machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.isa.legalise.site import Site

    Rule = Callable[[Site], None]

GFX942 = "gfx942"
GFX803 = "gfx803"
ARCHS = tuple(each.machine.arch for each in machine.descriptions().values() if each.mgpusim)

RULES: dict[str, dict[str, Rule]] = {arch: {} for arch in ARCHS}


def rule(names: str, *archs: str) -> Callable[[Rule], Rule]:
    """Register a rule for mnemonics. "v_x*" stands for v_x_e32 and v_x_e64."""

    def register(function: Rule) -> Rule:
        for arch in archs or ARCHS:
            for name in names.split():
                forms = (f"{name[:-1]}_e32", f"{name[:-1]}_e64") if name.endswith("*") else (name,)
                for form in forms:
                    if form in RULES[arch]:
                        raise RuntimeError(f"two rules for {form} on {arch}")
                    RULES[arch][form] = function
        return function

    return register
