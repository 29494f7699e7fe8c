"""What two targets stored of the registers of wavefronts, and where that differs.

Addresses differ: each target has its own place for the arena, the arguments and its packets. So a
register may differ by as much as these do. What was computed of such a register, as the carry of an
address, may differ too: only what comes from sources that are the same tells of a difference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from simgen.isa.legalise import roles
from simgen_examine.bisect.instrumented import GIVEN, HEADER, LANES, MARK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from simgen.isa.legalise.assembly import Instruction

    Words = NDArray[np.uint32]  # (wavefront or moment, plane, lane)

UNLIKE = ("mark", "base_lo", "base_hi")  # fields of the header that are never compared
_MEMORY = ("global_load", "flat_load", "s_load", "ds_read", "global_atomic", "flat_atomic")


@dataclass(frozen=True)
class Planes:
    """The planes of a moment by their names."""

    all: tuple[str, ...]
    places: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", {name: at for at, name in enumerate(self.all)})

    def shaped(self, words: Words) -> Words:
        """(moment, plane, lane) of what lay in memory."""
        return words.reshape(-1, len(self.all), LANES)


@dataclass(frozen=True)
class Difference:
    """Lanes in which an instruction left another value, of sources that are the same."""

    number: int  # index of the instruction in its block
    register: str
    lanes: tuple[int, ...]
    a: int  # in the first of these lanes
    b: int


def stored(words: Words, names: Planes) -> NDArray[np.bool_]:
    """(moment, lane): where registers were stored."""
    return np.asarray(words[:, names.places["mark"]] == MARK)


def _deltas(a: Words, b: Words, names: Planes) -> Words:
    """By how much addresses of two targets differ: of the arena, and of what kernels are given.
    They are those of one run: code of another length moves them."""
    found: set[int] = set()
    there = stored(a, names) & stored(b, names)
    for name, at in names.places.items():
        if name.startswith(("base_", GIVEN)):
            found |= {int(d) for d in np.unique((a[:, at] - b[:, at])[there])}
    found.discard(0)
    carries = {(d + carry) % 2**32 for d in found for carry in (0, 1, -1)} - {0}
    return np.array(sorted(carries), np.uint32)


def unlike(a: Words, b: Words, names: Planes, ulps: int) -> NDArray[np.bool_]:
    """Where words differ, by more than addresses do, and by more than `ulps` as whole numbers."""
    differ = a != b
    if len(addresses := _deltas(a, b, names)):
        differ &= ~np.isin(a - b, addresses)
    if ulps:
        apart = np.abs(a.astype(np.int64) - b.astype(np.int64))
        visits = names.places["visits"]
        apart[:, visits] *= 2 * ulps
        differ &= apart > ulps
    for name, at in names.places.items():
        if name in UNLIKE or name.startswith(GIVEN):
            differ[:, at] = False
    both = stored(a, names) & stored(b, names)
    differ &= both[:, None, :]
    # A wavefront that came there on one of them alone:
    differ[:, names.places["mark"]] = stored(a, names) != stored(b, names)
    where: NDArray[np.bool_] = differ
    return where


def first(
    a: Words,
    b: Words,
    names: Planes,
    items: Sequence[Instruction],
    arch: str,
    ulps: int,
) -> Difference | None:
    """The first instruction of a block that leaves something else; `a` and `b` have the registers
    before each, and behind the last one where that goes on."""
    follows = np.zeros((len(names.all), LANES), bool)  # from addresses
    for number, item in enumerate(items[: len(a) - 1]):
        before, after = slice(number, number + 1), slice(number + 1, number + 2)
        differ = unlike(a[after], b[after], names, ulps)[0]
        for name in (*HEADER[:3],):
            differ[names.places[name]] = False
        follows &= differ
        effect = roles.effect(item, arch)
        reads = [names.places[r] for r in (effect.reads if effect else ()) if r in names.places]
        raw = (a[before] != b[before])[0]
        tainted = raw[reads].any(axis=0) if reads else np.zeros(LANES, bool)
        if reads and any(names.all[at].startswith(("s", "vcc", "exec")) for at in reads):
            scalar = [at for at in reads if not names.all[at].startswith("v")
                      or names.all[at].startswith("vcc")]  # fmt: skip
            tainted = tainted | raw[scalar].any()
        new = differ & ~follows
        if item.mnemonic.startswith(_MEMORY):
            tainted = np.zeros(LANES, bool)  # an address may differ, what lies there may not
        origin = new & ~tainted[None, :]
        if origin.any():
            return _difference(a[after][0], b[after][0], origin, names, number)
        follows |= new
    return None


def _difference(
    a: NDArray[np.uint32], b: NDArray[np.uint32], where: NDArray[np.bool_], names: Planes,
    number: int,
) -> Difference:  # fmt: skip
    plane = int(np.flatnonzero(where.any(axis=1))[0])
    lanes = tuple(int(lane) for lane in np.flatnonzero(where[plane]))
    return Difference(
        number, names.all[plane], lanes, int(a[plane, lanes[0]]), int(b[plane, lanes[0]])
    )
