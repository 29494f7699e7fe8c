"""Which registers are still needed at a place in a kernel: SCC, the halves of VCC.

A walk along all paths from there, by the table of roles; what is not known counts as a use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.legalise import roles
from simgen.legalise.assembly import Instruction, Kernel, Label

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNKNOWN = -1  # a branch to a place outside of the kernel


class Flow:
    """The paths through one kernel."""

    def __init__(self, kernel: Kernel, arch: str) -> None:
        self._places = sorted(kernel.items)
        self._items = kernel.items
        self._next = dict(zip(self._places, self._places[1:], strict=False))
        self._labels = {
            item.name: at for at, item in kernel.items.items() if isinstance(item, Label)
        }
        self._effects: Mapping[int, roles.Effect | None] = {
            at: roles.effect(item, arch)
            for at, item in kernel.items.items()
            if isinstance(item, Instruction)
        }

    def live_after(self, start: int, register: str) -> bool:
        """Whether something may read what "scc", "vcc_lo", "s3" ... holds behind line `start`."""
        waiting, seen = self._successors(start), set[int]()
        while waiting:
            at = waiting.pop()
            if at == _UNKNOWN:
                return True
            if at in seen:
                continue
            seen.add(at)
            if at in self._effects:
                effect = self._effects[at]
                if effect is None or register in effect.reads:
                    return True
                if register in effect.writes:
                    continue
            waiting += self._successors(at)
        return False

    def _successors(self, at: int) -> list[int]:
        item = self._items[at]
        following = [self._next[at]] if at in self._next else []
        if not isinstance(item, Instruction):
            return following
        if item.mnemonic == "s_endpgm":
            return []
        if item.mnemonic == "s_branch":
            following = []
        if item.mnemonic == "s_branch" or item.mnemonic.startswith("s_cbranch"):
            following += [self._labels.get(o, _UNKNOWN) for o in item.operands]
        return following
