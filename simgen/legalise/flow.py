"""Which of SCC and VCC is still needed at a place in a kernel.

A walk along all paths from there; what is not known counts as a use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.legalise.assembly import Instruction, Kernel, Label

if TYPE_CHECKING:
    from collections.abc import Callable

_UNKNOWN = -1  # a branch to a place outside of the kernel
_READS_SCC = ("s_cbranch_scc", "s_cselect_", "s_addc_", "s_subb_", "s_cmov")
_KEEPS_SCC = (
    "s_mov", "s_mul", "s_bfm", "s_brev", "s_sext", "s_ff", "s_flbit", "s_getpc", "s_bitset",
    "s_load", "s_buffer", "s_store", "s_nop", "s_waitcnt", "s_barrier", "s_sleep", "s_setprio",
    "s_branch", "s_cbranch", "s_endpgm", "s_dcache", "s_mem", "s_pack",
)  # fmt: skip
_WRITES_SCC = (
    "s_add_", "s_sub_", "s_min_", "s_max_", "s_and", "s_or", "s_xor", "s_nand", "s_nor", "s_xnor",
    "s_lsh", "s_ashr", "s_bfe", "s_abs", "s_not", "s_cmp", "s_bitcmp", "s_addk", "s_bcnt", "s_wqm",
)  # fmt: skip
_CARRY_OUT = ("v_add_co", "v_addc", "v_sub_co", "v_subb", "v_subrev_co", "v_div_scale", "v_mad_u64")


def scc_effect(item: Instruction) -> bool | None:
    """True: reads SCC (or may). False: writes it without reading. None: neither."""
    name = item.mnemonic
    if not name.startswith("s_"):
        return True if any("scc" in o for o in item.operands) else None
    if name.startswith(_READS_SCC) or any("scc" in o for o in item.operands):
        return True
    if name.startswith(_WRITES_SCC):
        return False
    return None if name.startswith(_KEEPS_SCC) else True


def vcc_effect(item: Instruction) -> bool | None:
    """The same of VCC."""
    name = item.mnemonic
    if name.startswith(("s_cbranch_vcc", "v_div_fmas")):
        return True
    # gfx803 calls it v_add_u32 and the like, with the carry as second operand.
    carries = name.startswith(_CARRY_OUT) or (
        item.operands[1:2] == ("vcc",) and len(item.operands) > 3
    )
    results = item.operands[: 2 if carries and name.startswith("v_") else 1]
    sources = item.operands[len(results) :]
    if any("vcc" in o for o in sources) or any(o in ("vcc_lo", "vcc_hi") for o in results):
        return True
    return False if "vcc" in results else None


class Flow:
    """The paths through one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self._places = sorted(kernel.items)
        self._items = kernel.items
        self._next = dict(zip(self._places, self._places[1:], strict=False))
        self._labels = {
            item.name: at for at, item in kernel.items.items() if isinstance(item, Label)
        }

    def scc_live_after(self, at: int) -> bool:
        """Whether something may read the SCC that holds behind line `at`."""
        return self._live_after(at, scc_effect)

    def vcc_live_after(self, at: int) -> bool:
        """The same of VCC."""
        return self._live_after(at, vcc_effect)

    def _live_after(self, start: int, effect: Callable[[Instruction], bool | None]) -> bool:
        waiting, seen = self._successors(start), set[int]()
        while waiting:
            at = waiting.pop()
            if at == _UNKNOWN:
                return True
            if at in seen:
                continue
            seen.add(at)
            item = self._items[at]
            found = effect(item) if isinstance(item, Instruction) else None
            if found:
                return True
            if found is None:
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
