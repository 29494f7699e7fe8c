"""Buffers: memory that is addressed by a resource of four scalar registers, s[16:19].

    index   of VGPR (idxen), plus the lane's number where the resource adds it
    offset  of VGPR (offen) + the constant
    linear    address = base + s_offset + offset + stride * index
    swizzled  address = base + s_offset + (index / I * stride + offset / 4 * 4) * I
                        + index % I * 4 + offset % 4        I: the index stride; elements of 4 bytes

What is outside gives 0, or is not stored: of linear buffers, each word whose
offset + stride * index is not below num_records - s_offset; of swizzled ones, what has an index not
below num_records. Where the manuals and drivers differ about the unit of num_records, as of linear
buffers with an index, indices are far below or far beyond all that it may be.

Loads read the values themselves, at s[4:5]; stores and atomics have a window of each lane, as
`stores` has.

Source: AMD, Vega Instruction Set Architecture Reference Guide, section 8.1 (addresses, range checks
word by word, the resource), and those of other generations. The size of elements is in the resource
of gfx8; from gfx9 on it is 4 bytes, as Mesa's `si_descriptors.c` has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen_examine.conform import atomics, movements, stores, values
from simgen_examine.conform.arithmetic import KEPT, Wanted, bits_of
from simgen_examine.conform.expected import Expected
from simgen_examine.conform.forms import Form, form, span
from simgen_examine.conform.movements import ECC, Half, Movement
from simgen_examine.conform.stores import WINDOW, Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen_examine.conform.expected import Where
    from simgen_examine.conform.values import Words

FORMAT = "MUBUF"
ALL, SOME_LANES = stores.ALL, stores.SOME_LANES
INDEX, OFFSET = "v28", "v29"  # in this order where an instruction takes both
_BASE = "v26"  # v26 and v27: where the windows of all lanes begin
_SOFFSET = "s50"
_MANY = 0x7FFFFFF0  # records: more than any lane reaches
_HALF = 512  # tuples
_BEYOND = 0x200000  # elements that an index is beyond all of them
_FLAGS = 0x00027FAC  # x, y, z, w in order, floats of 32 bits
_ELEMENT = 1 << 19  # gfx8: elements of 4 bytes
_ADD_LANE, _NO_FORMAT = 1 << 23, 0x00007FAC  # the latter: bits of the stride then


@dataclass(frozen=True)
class Way:
    """How an instruction addresses a buffer. Sizes are bytes; `step` is what an index or, where
    there is none, an offset goes on by from tuple to tuple."""

    what: str
    step: int
    index: bool = False
    offset: bool = False
    inside: int = 0  # constant
    scalar: int = 0  # offset in a register
    stride: int = 0
    records: int = _MANY
    far: bool = False  # from half of the tuples on, indices are beyond all records
    swizzle: int = 0  # index stride; 0: linear
    second: int = 0  # for an index with an offset: the offset of odd tuples
    lanes: bool = False  # indices are the numbers of the lanes

    @property
    def operands(self) -> str:
        """Behind the data."""
        vector = {
            (False, False): "off", (True, False): INDEX, (False, True): OFFSET,
            (True, True): f"v[{INDEX[1:]}:{OFFSET[1:]}]",
        }[self.index, self.offset]  # fmt: skip
        told = f"{vector}, s[16:19], {_SOFFSET if self.scalar else 0}"
        told += " idxen" * self.index + " offen" * self.offset
        return told + (f" offset:{self.inside}" if self.inside else "")

    def places(self, count: int, words: int) -> tuple[Any, Where]:
        """For each tuple and word: the byte from the base, and whether it is inside."""
        index, offset = self.given(count)
        if self.lanes:
            index = np.arange(count) % values.LANES
        offset = offset[:, None] + self.inside + 4 * np.arange(words)
        index = index[:, None]
        if self.swizzle:
            each = self.swizzle
            place = (index // each * self.stride + offset // 4 * 4) * each
            place += index % each * 4 + offset % 4
            return place + self.scalar, (index < self.records) & (offset >= 0)
        place = offset + self.stride * index
        return place + self.scalar, place < self.records - self.scalar

    def given(self, count: int) -> tuple[Any, Any]:
        """Index and offset of each tuple, as registers have them; 0 where there is none."""
        number = np.arange(count, dtype=np.int64)
        index, offset = np.zeros_like(number), np.zeros_like(number)
        if self.index:
            index = number + np.where(number >= _HALF, _BEYOND, 0) * self.far
        if self.offset:
            offset = number % 2 * self.second if self.index else number * self.step
        return index, offset

    def setup(self, arch: str) -> tuple[str, ...]:
        """The lines that make index, offset and resource; s[16:17] has the base."""
        shift = self.step.bit_length() - 1
        lines = []
        if self.index:
            lines.append(f"v_lshrrev_b32_e32 {INDEX}, 2, v1")
        if self.far:
            lines += [f"v_and_b32_e32 v30, {_HALF}, {INDEX}",
                      f"v_lshlrev_b32_e32 v30, {(_BEYOND // _HALF).bit_length() - 1}, v30",
                      f"v_or_b32_e32 {INDEX}, {INDEX}, v30"]  # fmt: skip
        if self.offset and self.index:
            by = self.second.bit_length() - 3
            lines += [f"v_and_b32_e32 {OFFSET}, 4, v1",
                      f"v_lshlrev_b32_e32 {OFFSET}, {by}, {OFFSET}"]  # fmt: skip
        elif self.offset:
            lines.append(f"v_lshlrev_b32_e32 {OFFSET}, {shift - 2}, v1")
        high = self.stride << 16 | bool(self.swizzle) << 31
        flags = _NO_FORMAT | _ADD_LANE if self.lanes else _FLAGS
        if self.swizzle:
            flags |= self.swizzle.bit_length() - 4 << 21
            flags |= _ELEMENT if arch.startswith("gfx8") else 0
        lines += [f"s_or_b32 s17, s17, {high:#x}", f"s_mov_b32 s18, {self.records:#x}",
                  f"s_mov_b32 s19, {flags:#x}"]  # fmt: skip
        if self.scalar:
            lines.append(f"s_mov_b32 {_SOFFSET}, {self.scalar:#x}")
        return tuple(lines)


def _linear(step: int) -> tuple[Way, ...]:
    """Ways to reach what lies `step` bytes apart; of the last ones, half is beyond the buffer."""
    half = _HALF * step
    return (
        Way("offset", step, offset=True),
        Way("offset, constant", step, offset=True, inside=8),
        Way("offset, scalar offset, constant", step, offset=True, inside=4, scalar=step // 2),
        Way("index", step, index=True, stride=step),
        Way("index, offset", step, index=True, offset=True, stride=step, second=8),
        Way("index, offset, scalar offset, constant", step, index=True, offset=True, stride=step,
            second=4, scalar=step // 2, inside=4),
        Way("offset beyond records", step, offset=True, records=half + 8),
        Way("offset beyond records less the scalar offset", step, offset=True, scalar=step // 2,
            records=half + 8 + step // 2),
        Way("index beyond records", step, index=True, stride=step, far=True, records=half * 64),
    )  # fmt: skip


_SWIZZLED = (
    Way("swizzled by 8", 8, index=True, offset=True, stride=8, second=4, swizzle=8),
    Way("swizzled by 64", 8, index=True, offset=True, stride=8, second=4, swizzle=64,
        scalar=0x40),
    Way("swizzled by 8, index beyond records", 8, index=True, stride=8, swizzle=8, far=True,
        records=_HALF),
)  # fmt: skip
_SAME = (Way("nothing", 4), Way("constant", 4, inside=12), Way("scalar offset", 4, scalar=0x80))
_LANES = Way("index of the lane", 4, stride=4, lanes=True)


@dataclass(frozen=True)
class BufferLoaded(Movement):
    """What a load from a buffer leaves."""

    way: Way = _LANES


@dataclass(frozen=True)
class BufferHalf(Half):
    """The same of half of a register."""

    way: Way = _LANES


def reproducer(of: Form, number: int) -> list[str]:
    """The lines that say what tuple `number` has for index, offset and resource."""
    way: Way = of.plan.way  # type: ignore[attr-defined]
    index, offset = (int(each[number]) for each in way.given(number + 1))
    what = f"the memory of tuple 0; the next begins {4 * WINDOW} bytes on" if of.window else "data"
    return [
        f"; s[16:17]: the address of {what}",
        *(f"v_mov_b32 {INDEX}, {index:#x}" for _ in range(way.index)),
        *(f"v_mov_b32 {OFFSET}, {offset:#x}" for _ in range(way.offset)),
        *(line for line in of.setup if line.startswith(("s_or_b32 s17", "s_mov_b32"))
          and not line.startswith("s_mov_b32 s16")),
    ]  # fmt: skip


def buffers(arch: str, known: frozenset[str]) -> Iterator[Form]:
    """The forms of an architecture."""
    for each in (*_loads(arch), *_stores(arch), *_atomics(arch)):
        if each.mnemonic in known:
            yield each


def _loads(arch: str) -> Iterator[Form]:
    setup = ("s_mov_b32 s16, s4", "s_and_b32 s17, s5, 0xffff")
    told = arch not in ECC
    for way in (*_linear(16), *_SAME, _LANES, *_SWIZZLED):
        lines = (*setup, *way.setup(arch))
        # the manuals do not specify swizzling of more than a word
        one = way in (*_SWIZZLED, _LANES)
        for name, count in movements.WORDS[: 1 if one else None]:
            yield _load(f"buffer_load_{name}", count, way, lines)
        if one:
            continue
        for name, nbytes in movements.LESS:
            yield _load(f"buffer_load_{name}", 1, way, lines, nbytes)
        for name, nbytes in (("ubyte", 1), ("sbyte", 1), ("short", 2)):
            for end in ("_d16", "_d16_hi"):
                word = f"buffer_load_{name}{end}"
                yield _load(word, 1, way, lines, nbytes, half=True, told=told)
    way = _linear(16)[0]
    for name, count in movements.WORDS:
        yield _load(f"buffer_load_{name}", count, way, (*setup, *way.setup(arch)), lanes=SOME_LANES)


def _load(
    word: str, count: int, way: Way, setup: tuple[str, ...], nbytes: int = 4, *,
    half: bool = False, told: bool = True, lanes: int = ALL,
) -> Form:  # fmt: skip
    signed = word.startswith(("buffer_load_sbyte", "buffer_load_sshort"))

    def moves(words: Words) -> tuple[Words, Where]:
        held = np.ascontiguousarray(words.reshape(-1)).view(np.uint8)
        place, inside = way.places(words.shape[2], count)
        place = np.where(inside, place, 0)[..., None] + np.arange(nbytes)
        bytes_ = np.zeros((*place.shape[:2], 4), np.uint8)
        bytes_[..., :nbytes] = held[place]
        value = bytes_.view(np.uint32)[..., 0]
        if signed:
            top = np.uint32(1 << 8 * nbytes - 1)
            value = (value ^ top) - top
        value = np.where(inside, value, np.uint32(0)).T
        return value, np.ones(value.shape, bool)

    more: dict[str, Any] = {"told": told} if half else {}
    return form(
        BufferHalf if half else BufferLoaded, f"{word} {span(10, count)}, {way.operands}",
        way.what + ("" if lanes == ALL else ", some lanes"), FORMAT, stores.SIGNATURE, setup,
        tuple(f"v{10 + n}" for n in range(count)), results=count, lanes=lanes, moves=moves,
        way=way, **more,
    )  # fmt: skip


def _windows(arch: str) -> tuple[str, ...]:
    """s[16:17], from the address of a lane's window and its number."""
    sub, subb = "v_sub_co_u32_e32", "v_subbrev_co_u32_e32"
    if arch.startswith("gfx8"):
        sub, subb = "v_sub_u32_e32", "v_subbrev_u32_e32"
    return (
        f"v_lshlrev_b32_e32 v30, {WINDOW.bit_length() - 1}, v1", f"{sub} {_BASE}, vcc, v14, v30",
        f"{subb} v27, vcc, 0, v15, vcc", f"v_readfirstlane_b32 s16, {_BASE}",
        "v_readfirstlane_b32 s17, v27", "s_nop 4", "s_and_b32 s17, s17, 0xffff",
    )  # fmt: skip


@dataclass(frozen=True)
class BufferStored(Stored):
    """What a store to a buffer leaves in the windows."""

    way: Way = _LANES

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`: words that are outside stay."""
        ((_, source, nbytes),) = self.writes
        count = words.shape[2]
        place, inside = self.way.places(count, -(-nbytes // 4))
        own = place - 4 * WINDOW * np.arange(count)[:, None]
        sources = np.stack([words[0, 0], words[0, 1], words[1, 0], words[1, 1]], 1).view(np.uint8)
        window = np.full((count, WINDOW), KEPT, np.uint32).view(np.uint8)
        there = inside & bits_of(lanes, count)[:, None]
        for word in range(place.shape[1]):
            at = np.flatnonzero(there[:, word])
            for byte in range(4 * word, min(4 * word + 4, nbytes)):
                window[at, own[at, word] + byte - 4 * word] = sources[at, source + byte]
        left = window.view(np.uint32)
        return [Wanted("b32", Expected(left[:, n].copy())) for n in range(WINDOW)]


def _stores(arch: str) -> Iterator[Form]:
    base = _windows(arch)
    for name, source, nbytes in stores.WIDTHS:
        for way in _reaching(nbytes):
            for lanes in (ALL, SOME_LANES) if way.what == "offset" else (ALL,):
                yield form(
                    BufferStored,
                    f"buffer_store_{name} {span(4, (nbytes + 3) // 4)}, {way.operands}",
                    way.what + ("" if lanes == ALL else ", some lanes"), FORMAT, stores.SIGNATURE,
                    (*base, *way.setup(arch)), lanes=lanes, window=WINDOW, way=way,
                    writes=((0, source, nbytes),),
                )  # fmt: skip


def _reaching(nbytes: int) -> Iterator[Way]:
    """Ways to what lies in the lane's own window."""
    for way in _linear(4 * WINDOW):
        if way.scalar + way.inside + way.second + nbytes <= 4 * WINDOW:
            yield way


@dataclass(frozen=True)
class BufferAtomic(atomics.Atomic):
    """What an atomic on a buffer leaves; what it returns comes where its data was."""

    way: Way = _LANES

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`: what is outside stays."""
        (_, inside) = self.way.places(words.shape[2], 1)
        active = inside[:, 0]
        plain = super().outcome(words, lanes)
        if active.all():
            return plain
        old = atomics.whole_bits(words[0], wide=self.wide)
        held = [Wanted("b32", Expected(each)) for each in atomics.parts(old)]
        merged = [
            Wanted("b32", Expected(np.where(active, new.expected.value, kept.expected.value)))
            for new, kept in zip(plain, held, strict=False)
        ]
        return [*merged, *plain[len(merged) :]]


def _atomics(arch: str) -> Iterator[Form]:
    returning = " sc0" if arch == "gfx942" else " glc"
    near, beyond = (
        next(way for way in _linear(4 * WINDOW) if way.what == what)
        for what in ("offset", "offset beyond records")
    )
    by_index = next(way for way in _linear(4 * WINDOW) if way.what == "index")
    for change, wide, setup in atomics.filled(arch):
        real = atomics.float_type(change)
        word = f"buffer_atomic_{change}{'_x2' if wide and not real else ''}"
        pair = change in atomics.PAIRS
        data = span(6, (1 + wide) * (1 + pair))
        for way, returns in ((near, False), (near, True), (by_index, False), (beyond, False)):
            if real and way is beyond:  # sums that may be flushed are looked at by themselves
                continue
            yield form(
                BufferAtomic, f"{word} {data}, {way.operands}{returning if returns else ''}",
                f"{way.what}, {'returning' if returns else 'not returning'}", FORMAT,
                atomics.signature(change, wide=wide), (*setup, *_windows(arch), *way.setup(arch)),
                tuple(f"v{6 + n}" for n in range((1 + wide) * returns)), window=WINDOW,
                change=change, wide=wide, returns=returns, way=way,
            )  # fmt: skip
