"""Scalar atomics: a word or two of memory that all lanes share, changed by scalar registers.

Each tuple has words of memory of its own at s[14:15], as scalar stores have. The first source,
s[20:21], is put there before; the second, s[22:23], changes it as atomics of lanes do. It is
replaced by what was there where the instruction returns that (glc), and stays where it does not.
What is compared (cmpswap) equals what is there in every third tuple.

Source: AMD, Vega Instruction Set Architecture Reference Guide, SMEM Instructions (S_ATOMIC_*,
S_BUFFER_ATOMIC_*); gfx8 has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simgen_examine.conform import atomics, scalar_memory
from simgen_examine.conform.arithmetic import KEPT, Computed, Wanted
from simgen_examine.conform.description import SCALAR_MEMORY
from simgen_examine.conform.expected import Expected
from simgen_examine.conform.forms import Form, form
from simgen_examine.conform.scalar_memory import INTO, SIGNATURE, WINDOW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen_examine.conform.values import Words

_AFTER = ("s_waitcnt lgkmcnt(0)",)
_EVERY = "add"  # is tried with all kinds of offsets


@dataclass(frozen=True)
class ScalarAtomic(Computed):
    """What an atomic leaves in its data's registers and in the tuple's window."""

    change: str = ""
    wide: bool = False  # 64 bits
    returns: bool = False

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`: the data first, then word by word."""
        del lanes
        old, a = (atomics.whole_bits(words[at], wide=self.wide) for at in range(2))
        other = a if self.wide else words[1, 1]
        compared = np.where(words[2, 0] != 0, old, other)
        new = atomics.COMMON[self.change](old, a, compared)
        held = old if self.returns else a
        kept = np.full(words.shape[2], KEPT, np.uint32)
        window = [kept] * WINDOW
        at = INTO // 4
        window[at : at + 1 + self.wide] = atomics.parts(new)
        return [Wanted("b32", Expected(each)) for each in (*atomics.parts(held), *window)]


def scalar_atomics(arch: str, known: frozenset[str]) -> Iterator[Form]:
    """The forms of an architecture."""
    del arch
    for change in atomics.IN_MEMORY:
        for wide in (False, True):
            for each in _forms(change, wide=wide):
                if each.mnemonic in known:
                    yield each


def _forms(change: str, *, wide: bool) -> Iterator[Form]:
    word = f"atomic_{change}{'_x2' * wide}"
    fill: tuple[str, ...] = (
        "v_mov_b32_e32 v18, s20", "v_mov_b32_e32 v19, s21", "v_mov_b32_e32 v2, s14",
        "v_mov_b32_e32 v3, s15",
        f"global_store_dword{'x2' * wide} v[2:3], v{'[18:19]' if wide else 18}, off offset:{INTO}",
        "s_waitcnt vmcnt(0)",
    )  # fmt: skip
    data, held = ("s[22:23]", 22) if wide else ("s22", 22)
    if change in atomics.PAIRS and not wide:
        fill += ("s_cmp_lg_u32 s24, 0", "s_cselect_b32 s23, s20, s23")
        data = "s[22:23]"
    elif change in atomics.PAIRS:
        fill += ("s_mov_b64 s[28:29], s[22:23]", "s_cmp_lg_u32 s24, 0",
                 "s_cselect_b32 s30, s20, s22", "s_cselect_b32 s31, s21, s23")  # fmt: skip
        data, held = "s[28:31]", 28
    ways = [("constant", f"s[14:15], {INTO:#x}", ()), *scalar_memory.ways(INTO)]
    places = [(f"s_{word}", *way) for way in (ways if change == _EVERY else ways[:1])]
    ways = list(scalar_memory.buffer_ways(INTO))
    places += [(f"s_buffer_{word}", *way) for way in (ways if change == _EVERY else ways[:1])]
    for name, what, operands, lines in places:
        for returns in (False, True):
            yield form(
                ScalarAtomic, f"{name} {data}, {operands}{' glc' if returns else ''}",
                f"{what}, {'returning' if returns else 'not returning'}", SCALAR_MEMORY, SIGNATURE,
                (*fill, *lines), tuple(f"s{held + n}" for n in range(1 + wide)), after=_AFTER,
                window=WINDOW, change=change, wide=wide, returns=returns,
            )  # fmt: skip
