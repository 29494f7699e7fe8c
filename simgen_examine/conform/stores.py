"""Stores to memory and to LDS: each lane has a window of its own, in which all bytes are looked at.

Before a store, all words of the windows are KEPT; it writes words of the sources (v4 to v7, one
after the other) to some bytes, and the others have to stay, as do all windows of lanes without a
bit in EXEC. In memory v[14:15] is the address of a lane's window, v18 what it is behind s[6:7]; in
LDS, v14 is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen_examine.conform.arithmetic import KEPT, Computed, Wanted, bits_of
from simgen_examine.conform.expected import Expected
from simgen_examine.conform.forms import Form, form, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen_examine.conform.values import Words

    # Bytes that are written: the first one of the window, that of the sources, how many.
    Writes = tuple[tuple[int, int, int], ...]

SIGNATURE = ("b64", "b64")
WINDOW = 8  # words of a lane
SOME_LANES = 0x0F35A5C396C3FF01  # lanes that some forms are tried with
ALL = Form.lanes
_BACK = 32  # the first of the registers to which a window of LDS comes back
_FAR = 2048  # bytes to the second window of LDS, of stores with two places far apart
# Ending of a mnemonic, byte of the source at which it begins, bytes.
WIDTHS = (
    ("byte", 0, 1), ("short", 0, 2), ("dword", 0, 4), ("dwordx2", 0, 8), ("dwordx3", 0, 12),
    ("dwordx4", 0, 16), ("byte_d16_hi", 2, 1), ("short_d16_hi", 2, 2),
)  # fmt: skip
_LDS_WIDTHS = (
    ("b8", 0, 1), ("b16", 0, 2), ("b32", 0, 4), ("b64", 0, 8), ("b96", 0, 12), ("b128", 0, 16),
    ("b8_d16_hi", 2, 1), ("b16_d16_hi", 2, 2),
)  # fmt: skip


@dataclass(frozen=True)
class Stored(Computed):
    """What a store leaves in the windows: their words, from the first on."""

    writes: Writes = ()

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`."""
        count = words.shape[2]
        sources = np.stack([words[0, 0], words[0, 1], words[1, 0], words[1, 1]], 1).view(np.uint8)
        window = np.full((count, WINDOW), KEPT, np.uint32).view(np.uint8)
        active = bits_of(lanes, count)
        for to, source, nbytes in self.writes:
            window[active, to : to + nbytes] = sources[active, source : source + nbytes]
        left = window.view(np.uint32)
        return [Wanted("b32", Expected(left[:, n].copy())) for n in range(WINDOW)]


def adding(arch: str) -> tuple[str, str]:
    """Additions with carry, as an architecture calls them."""
    end = "u32_e32" if arch.startswith("gfx8") else "co_u32_e32"
    return f"v_add_{end}", f"v_addc_{end}"


def stores(arch: str, known: frozenset[str]) -> Iterator[Form]:
    """The forms of an architecture."""
    for each in (*_to_memory(arch), *_to_lds()):
        if each.mnemonic in known:
            yield each


def _form(text: str, what: str, writes: Writes, setup: tuple[str, ...] = (), **more: Any) -> Form:
    """A store to memory."""
    return form(Stored, text, what, "FLAT", SIGNATURE, setup, writes=writes, window=WINDOW, **more)


def _data(nbytes: int, first: int = 4) -> str:
    return span(first, (nbytes + 3) // 4)


def _to_memory(arch: str) -> Iterator[Form]:
    add, addc = adding(arch)
    for name, source, nbytes in WIDTHS:
        data = _data(nbytes)
        writes = ((0, source, nbytes),)
        plain = f"flat_store_{name} v[14:15], {data}"
        yield _form(plain, "offset 0", writes)
        yield _form(plain, "offset 0, some lanes", writes, lanes=SOME_LANES)
        if arch.startswith("gfx8"):
            yield from _unaligned(plain, nbytes, source, add, addc)
            continue
        yield _form(f"{plain} offset:8", "offset 8", ((8, source, nbytes),))
        plain = f"global_store_{name} v[14:15], {data}, off"
        yield _form(plain, "offset 0", writes)
        yield _form(plain, "offset 0, some lanes", writes, lanes=SOME_LANES)
        yield _form(f"{plain} offset:8", "offset 8", ((8, source, nbytes),))
        for by in (4092, -4096):
            low, high = -by & 0xFFFFFFFF, 0 if by < 0 else -1
            setup = (f"v_mov_b32_e32 v31, {high}", f"{add} v30, vcc, {low:#x}, v14",
                     f"{addc} v31, vcc, v31, v15, vcc")  # fmt: skip
            far = f"global_store_{name} v[30:31], {data}, off offset:{by}"
            yield _form(far, f"offset {by}", writes, setup)
        yield from _unaligned(plain, nbytes, source, add, addc)
        scalar = f"global_store_{name} v18, {data}, s[6:7]"
        yield _form(scalar, "scalar base", writes)
        yield _form(f"{scalar} offset:12", "scalar base, offset 12", ((12, source, nbytes),))
        back = f"global_store_{name} v30, {data}, s[6:7] offset:-64"
        yield _form(back, "scalar base, negative offset", writes, (f"{add} v30, vcc, 64, v18",))


def _unaligned(plain: str, nbytes: int, source: int, add: str, addc: str) -> Iterator[Form]:
    """From the next byte on, and from the next half or word on."""
    for by in (1, 2, 4):
        setup = (f"{add} v14, vcc, {by}, v14", f"{addc} v15, vcc, 0, v15, vcc")
        yield _form(plain, f"address + {by}", ((by, source, nbytes),), setup)


def _to_lds() -> Iterator[Form]:
    for name, source, nbytes in _LDS_WIDTHS:
        plain = f"ds_write_{name} v14, {_data(nbytes)}"
        yield _lds(plain, "offset 0", ((0, source, nbytes),))
        yield _lds(plain, "offset 0, some lanes", ((0, source, nbytes),), lanes=SOME_LANES)
        by = min(nbytes, 16) if nbytes != 12 else 16
        yield _lds(f"{plain} offset:{by}", f"offset {by}", ((by, source, nbytes),))
    for name, nbytes in (("b32", 4), ("b64", 8)):
        pair = f"{_data(nbytes)}, {_data(nbytes, 4 + nbytes // 4)}"
        places = ((nbytes, 0, nbytes), (3 * nbytes, nbytes, nbytes))
        text = f"ds_write2_{name} v14, {pair} offset0:1 offset1:3"
        yield _lds(text, "offsets 1 and 3", places)
        yield _lds(text, "offsets 1 and 3, some lanes", places, lanes=SOME_LANES)
        text = f"ds_write2st64_{name} v14, {pair} offset1:{_FAR // 64 // nbytes}"
        # The upper half of the window is that of the far one.
        yield _lds(text, "far apart", ((0, 0, nbytes), (16, nbytes, nbytes)), far=True)


def _lds(text: str, what: str, writes: Writes, *, far: bool = False, lanes: int = ALL) -> Form:
    """A store to LDS, whose window is read back."""
    half = WINDOW // 2
    offsets = [4 * n if n < half or not far else _FAR + 4 * (n - half) for n in range(WINDOW)]
    setup = (
        "v_lshlrev_b32_e32 v14, 5, v0", f"v_mov_b32_e32 v15, {KEPT:#x}",
        *(f"ds_write_b32 v14, v15 offset:{at}" for at in offsets), "s_waitcnt lgkmcnt(0)",
    )  # fmt: skip
    after = tuple(f"ds_read_b32 v{_BACK + n}, v14 offset:{at}" for n, at in enumerate(offsets))
    outputs = tuple(f"v{_BACK + n}" for n in range(WINDOW))
    return form(Stored, text, what, "DS", SIGNATURE, setup, outputs, lanes=lanes, writes=writes,
                after=(*after, "s_waitcnt lgkmcnt(0)"))  # fmt: skip
