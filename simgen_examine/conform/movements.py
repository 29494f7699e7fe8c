"""Loads, LDS and other lanes: instructions that move words between places.

Sources are the low words of up to three values (v4, v6, v8). LDS holds four words for each lane, at
16 times its number: a, b, c, a. Of memory, the values themselves are read. What lies outside of
what the kernel has written or been given is not looked at.

Loads of memory begin at each byte of a word, as GPUs under Linux allow, so that some cross lines of
caches. Those that fill half of a register keep the other half, but where memories have ECC: there,
loads may clear it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen_examine.conform import values
from simgen_examine.conform.arithmetic import ALL_LANES, KEPT, Computed, Wanted
from simgen_examine.conform.expected import Expected
from simgen_examine.conform.forms import Form, form, span
from simgen_examine.conform.stores import adding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simgen_examine.conform.expected import Values, Where
    from simgen_examine.conform.values import Words

    # Words of the sources -> words of the result, and which of these are known.
    Moves = Callable[[Words], tuple[Words, Where]]

SIGNATURE = ("b32", "b32", "b32")
GROUP_NBYTES = 64 * 16
LDS_NBYTES = 8192  # LDS of a work-group
ADDRESS = 14  # the register of a lane's address
SOME_LANES = 0x0F35A5C396C3FF01  # lanes that some forms are tried with
ECC = ("gfx908", "gfx90a", "gfx942")  # architectures whose memories have ECC
_TO_LDS = (
    f"v_lshlrev_b32_e32 v{ADDRESS}, 4, v0",
    f"ds_write_b32 v{ADDRESS}, v4",
    f"ds_write_b32 v{ADDRESS}, v6 offset:4",
    f"ds_write_b32 v{ADDRESS}, v8 offset:8",
    f"ds_write_b32 v{ADDRESS}, v4 offset:12",
    "s_waitcnt lgkmcnt(0)",
)


@dataclass(frozen=True)
class Movement(Computed):
    """What a movement leaves: words, of which some are not known."""

    moves: Moves | None = None

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`."""
        assert self.moves is not None
        found, known = self.moves(words)
        return [
            self._in_lanes(Wanted("b32", Expected(each, ~there)), lanes)
            for each, there in zip(found, known, strict=True)
        ]


@dataclass(frozen=True)
class Half(Movement):
    """What a load of less than a word leaves in a register of which it fills a half."""

    told: bool = True  # whether it is specified that the other half stays

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`: both halves, the lower one first."""
        assert self.moves is not None
        (found,), (known,) = self.moves(words)
        count = words.shape[2]
        at = int(self.instruction.name.endswith("_hi"))
        halves = np.tile(np.array([[KEPT & 0xFFFF], [KEPT >> 16]], np.uint16), count)
        free = np.full((2, count), not self.told)
        halves[at], free[at] = found & np.uint32(0xFFFF), ~known
        return [self._in_lanes(Wanted("b16", Expected(halves, free)), lanes)]


def movements(arch: str, known: frozenset[str]) -> Iterator[Form]:
    """The forms of an architecture."""
    told = arch not in ECC
    for each in (*_from_lds(), *_halves_from_lds(told), *_lanes(), *_memory(arch, told)):
        if each.mnemonic in known:
            yield each


def _form(
    text: str, what: str, count: int, moves: Moves, setup: tuple[str, ...], format_: str,
    output: str = "v", **more: Any,
) -> Form:  # fmt: skip
    outputs = tuple(f"v{10 + n}" for n in range(count)) if output == "v" else (output,)
    return form(Movement, text, what, format_, SIGNATURE, setup, outputs, results=count,
                moves=moves, **more)  # fmt: skip


def _half(
    text: str, what: str, moves: Moves, setup: tuple[str, ...], format_: str, told: bool,
    lanes: int = ALL_LANES,
) -> Form:  # fmt: skip
    return form(Half, text, what, format_, SIGNATURE, setup, ("v10",), results=1, lanes=lanes,
                moves=moves, told=told)  # fmt: skip


def _held(words: Words) -> Values:
    """The bytes of LDS of each wavefront: (wavefront, byte)."""
    rows = np.stack([words[0, 0], words[1, 0], words[2, 0], words[0, 0]], 1)
    return np.ascontiguousarray(rows).view(np.uint8).reshape(-1, GROUP_NBYTES)


def _moves_from(places: tuple[int, ...], nbytes: int, *, signed: bool = False) -> Moves:
    """Words from byte offsets of each lane's address; above less than a word, zeros or its sign."""

    def moves(words: Words) -> tuple[Words, Where]:
        held = _held(words)
        lanes = np.arange(words.shape[2])
        group, base = lanes // values.LANES, lanes % values.LANES * 16
        found, known = [], []
        for place in places:
            at = base + place
            inside = at + nbytes <= GROUP_NBYTES
            value = np.zeros(len(lanes), np.uint32)
            for byte in range(nbytes):
                from_ = np.minimum(at + byte, GROUP_NBYTES - 1)
                value |= held[group, from_].astype(np.uint32) << np.uint32(8 * byte)
            if signed:
                top = np.uint32(1 << 8 * nbytes - 1)
                value = (value ^ top) - top
            found.append(value)
            known.append(inside)
        return np.stack(found), np.stack(known)

    return moves


def _from_lds() -> Iterator[Form]:
    a = f"v{ADDRESS}"
    for offset in (0, 8):
        tail = f" offset:{offset}" if offset else ""
        for name, count in (("b32", 1), ("b64", 2), ("b96", 3), ("b128", 4)):
            if (name, offset) == ("b128", 8):
                continue
            places = tuple(offset + 4 * n for n in range(count))
            to = span(10, count)
            yield _form(f"ds_read_{name} {to}, {a}{tail}", f"offset {offset}", count,
                        _moves_from(places, 4), _TO_LDS, "DS")  # fmt: skip
        for name, nbytes in (("u8", 1), ("i8", 1), ("u16", 2), ("i16", 2)):
            for at in (offset + 2, offset + (3 if nbytes == 1 else 4)):
                moved = _moves_from((at,), nbytes, signed=name[0] == "i")
                yield _form(f"ds_read_{name} v10, {a} offset:{at}", f"offset {at}", 1, moved,
                            _TO_LDS, "DS")  # fmt: skip
    for name, to, places in (("b32", "v10", (8,)), ("b64", "v[10:11]", (8, 12))):
        yield _form(f"ds_read_{name} {to}, {a} offset:8", "offset 8, some lanes", len(places),
                    _moves_from(places, 4), _TO_LDS, "DS", lanes=SOME_LANES)  # fmt: skip
    yield _form(f"ds_read2_b32 v[10:11], {a} offset0:1 offset1:6", "offsets 1 and 6", 2,
                _moves_from((4, 24), 4), _TO_LDS, "DS")  # fmt: skip
    yield _form(f"ds_read2_b64 v[10:13], {a} offset0:1 offset1:4", "offsets 1 and 4", 4,
                _moves_from((8, 12, 32, 36), 4), _TO_LDS, "DS")  # fmt: skip
    yield _form(f"ds_read2st64_b32 v[10:11], {a} offset0:0 offset1:1", "offsets 0 and 1", 2,
                _moves_from((0, 256), 4), _TO_LDS, "DS")  # fmt: skip
    yield _form(f"ds_read2st64_b64 v[10:13], {a} offset0:0 offset1:1", "offsets 0 and 1", 4,
                _moves_from((0, 4, 512, 516), 4), _TO_LDS, "DS")  # fmt: skip


def _halves_from_lds(told: bool) -> Iterator[Form]:
    """Loads of less than a word into half of a register."""
    for name, nbytes in (("u8", 1), ("i8", 1), ("u16", 2)):
        for end in ("_d16", "_d16_hi"):
            for offset in (2, 7) if nbytes == 1 else (2, 4):
                moved = _moves_from((offset,), nbytes, signed=name[0] == "i")
                text = f"ds_read_{name}{end} v10, v{ADDRESS} offset:{offset}"
                yield _half(text, f"offset {offset}", moved, _TO_LDS, "DS", told)


def _gathered(lane: Callable[[Words, Values], Values]) -> Moves:
    """The first source of other lanes: `lane` of the words and of the lanes' numbers."""

    def moves(words: Words) -> tuple[Words, Where]:
        number = np.arange(words.shape[2])
        inside = number % values.LANES
        from_ = number - inside + lane(words, inside)
        found = words[0, 0][from_]
        return found[None], np.ones((1, len(number)), bool)

    return moves


def _written(at: int, value: int) -> Moves:
    def moves(words: Words) -> tuple[Words, Where]:
        lane = np.arange(words.shape[2]) % values.LANES
        found = np.where(lane == at, np.uint32(value), np.uint32(KEPT))
        return found[None], np.ones((1, len(lane)), bool)

    return moves


def _lanes() -> Iterator[Form]:
    own = ("v_mov_b32_e32 v14, v0", "v_lshlrev_b32_e32 v15, 2, v6")
    yield _form("ds_bpermute_b32 v10, v15, v4", "lane of b", 1,
                _gathered(lambda words, _: (words[1, 0] & np.uint32(63)).astype(int)), own,
                "DS")  # fmt: skip
    yield _form('ds_swizzle_b32 v10, v4 offset:swizzle(BITMASK_PERM,"01pip")', "BITMASK_PERM", 1,
                _gathered(lambda _, n: n & 32 | n & 0b00111 ^ 0b01010), (), "DS")  # fmt: skip
    yield _form("ds_swizzle_b32 v10, v4 offset:swizzle(QUAD_PERM,3,0,2,1)", "QUAD_PERM", 1,
                _gathered(lambda _, n: n & ~3 | np.array([3, 0, 2, 1])[n & 3]), (),
                "DS")  # fmt: skip
    yield _form("v_readlane_b32 s30, v4, 37", "lane 37", 1,
                _gathered(lambda _, n: np.full_like(n, 37)), (), "VOP3", "s30")  # fmt: skip
    yield _form("v_readfirstlane_b32 s30, v4", "all lanes", 1,
                _gathered(lambda _, n: np.zeros_like(n)), (), "VOP1", "s30")  # fmt: skip
    setup = ("s_mov_b32 s50, 0x12345678",)
    yield _form("v_writelane_b32 v10, s50, 9", "lane 9", 1, _written(9, 0x12345678), setup, "VOP3")


def _moves_behind(offset: int, count: int) -> Moves:
    """Words of the values from each tuple's own on, some bytes further."""

    def moves(words: Words) -> tuple[Words, Where]:
        whole = np.ascontiguousarray(words.reshape(-1)).view(np.uint8)
        lanes = np.arange(words.shape[2])
        found = []
        for n in range(count):
            at = 4 * lanes[:, None] + offset + 4 * n + np.arange(4)
            found.append(np.ascontiguousarray(whole[at]).view(np.uint32)[:, 0])
        return np.stack(found), np.ones((count, len(lanes)), bool)

    return moves


def _part(offset: int, nbytes: int, *, signed: bool) -> Moves:
    def moves(words: Words) -> tuple[Words, Where]:
        (value,), known = _moves_behind(offset, 1)(words)
        value = value & np.uint32((1 << 8 * nbytes) - 1)
        if signed:
            top = np.uint32(1 << 8 * nbytes - 1)
            value = (value ^ top) - top
        return value[None], known

    return moves


WORDS = (("dword", 1), ("dwordx2", 2), ("dwordx3", 3), ("dwordx4", 4))
LESS = (("ubyte", 1), ("sbyte", 1), ("ushort", 2), ("sshort", 2))  # bytes


def _memory(arch: str, told: bool) -> Iterator[Form]:
    add, addc = adding(arch)
    setup = ("v_mov_b32_e32 v15, s5", f"{add} v14, vcc, s4, v1", f"{addc} v15, vcc, 0, v15, vcc")
    moved = {
        by: (*setup, f"{add} v14, vcc, {by}, v14", f"{addc} v15, vcc, 0, v15, vcc")
        for by in (1, 2, 3)
    }
    for segment, place in (("flat", "v[14:15]"), ("global", "v[14:15], off")):
        yield from _loads(segment, place, "offset 0", 0, setup)
        yield from _loads(segment, place, "offset 0, some lanes", 0, setup, SOME_LANES)
        for by, further in moved.items():
            yield from _loads(segment, place, f"address + {by}", by, further)
        for name, nbytes in (("ubyte", 1), ("sbyte", 1), ("short", 2)):
            for end in ("_d16", "_d16_hi"):
                text = f"{segment}_load_{name}{end} v10, {place}"
                part = _part(0, nbytes, signed=name[0] == "s" and nbytes == 1)
                yield _half(text, "offset 0", part, setup, "FLAT", told)
                yield _half(text, "offset 0, some lanes", part, setup, "FLAT", told, SOME_LANES)
                part = _part(3, nbytes, signed=name[0] == "s" and nbytes == 1)
                yield _half(text, "address + 3", part, moved[3], "FLAT", told)
    yield from _loads("global", "v[14:15], off offset:64", "offset 64", 64, setup)
    yield from _loads("global", "v1, s[4:5]", "scalar base", 0, ())
    yield from _loads("global", "v14, s[4:5] offset:-64", "scalar base, negative offset", 0,
                      ("v_mov_b32_e32 v14, 64", f"{add} v14, vcc, v14, v1"))  # fmt: skip
    for by in (4095, -4096):
        high = 0 if by < 0 else -1
        far = (*setup, f"v_mov_b32_e32 v13, {high}", f"{add} v14, vcc, {-by & 0xFFFFFFFF:#x}, v14",
               f"{addc} v15, vcc, v13, v15, vcc")  # fmt: skip
        yield from _loads("global", f"v[14:15], off offset:{by}", f"offset {by}", 0, far)


def _loads(
    segment: str, place: str, what: str, offset: int, setup: tuple[str, ...], lanes: int = ALL_LANES
) -> Iterator[Form]:
    """Forms of all widths that load from `offset` bytes behind the start of each tuple's
    own word."""
    for name, count in WORDS:
        to = span(10, count)
        yield _form(f"{segment}_load_{name} {to}, {place}", what, count,
                    _moves_behind(offset, count), setup, "FLAT", lanes=lanes)  # fmt: skip
    for name, nbytes in LESS:
        moved = _part(offset, nbytes, signed=name[0] == "s")
        yield _form(f"{segment}_load_{name} v10, {place}", what, 1, moved, setup, "FLAT",
                    lanes=lanes)  # fmt: skip
