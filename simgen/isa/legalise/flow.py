"""Which registers are still needed at a place in a kernel: SCC, the halves of VCC.

A walk along all paths from there, by the table of roles; what is not known counts as a use.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property

from simgen.isa.legalise import roles
from simgen.isa.legalise.assembly import AssemblyKernel, Instruction, Label

NEAR = 64  # instructions: the compiler's sequences are shorter
_UNKNOWN = -1  # a branch to a place outside of the kernel


class Flow:
    """The paths through one kernel."""

    def __init__(self, kernel: AssemblyKernel, arch: str) -> None:
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

    def definitions(self, start: int, register: str) -> list[Instruction] | None:
        """What may have written the value that a register has in front of line `start`.

        None if one of them is not known, or lies before the kernel.
        """
        found, seen, waiting = dict[int, Instruction](), set[int](), [start]
        while waiting:
            before = self._predecessors.get(waiting.pop(), ())
            if not before:
                return None
            for at in before:
                if at in seen:
                    continue
                seen.add(at)
                item, effect = self._items[at], self._effects.get(at)
                if isinstance(item, Instruction) and effect is None:
                    return None
                if isinstance(item, Instruction) and effect and register in effect.writes:
                    found[at] = item
                else:
                    waiting.append(at)
        return [found[at] for at in sorted(found)]

    def recent(self, start: int, register: str) -> Instruction | None:
        """What wrote a register last before line `start`, no more than `NEAR` lines and no label
        away."""
        place = bisect_left(self._places, start)
        for at in reversed(self._places[max(0, place - NEAR) : place]):
            item, effect = self._items[at], self._effects.get(at)
            if not isinstance(item, Instruction) or effect is None:
                return None
            if register in effect.writes:
                return item
        return None

    @cached_property
    def _predecessors(self) -> dict[int, list[int]]:
        before: dict[int, list[int]] = {}
        for at in self._places:
            for following in self._successors(at):
                before.setdefault(following, []).append(at)
        return before
