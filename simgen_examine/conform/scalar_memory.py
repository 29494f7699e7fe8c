"""Scalar loads and stores: words of memory that all lanes share, by a base and an offset.

The words that are loaded are those of the tuples of a work-group, from a place on that differs from
tuple to tuple. s[8:9] is where they lie; s12 becomes the distance of the place, s[10:11] a base
from which it is reached by the offset of the form, and s[16:19] a buffer at that base. What is
loaded goes to s48 and those behind it.

Of stores, each tuple has words of memory of its own at s[14:15], which are KEPT before; of all of
them, those of the tuple go to some. A scalar cache writes back what it holds when it is told to.

Source: AMD, Vega Instruction Set Architecture Reference Guide, section 7.4 (a scalar load adds its
base, its constant and its register, whose constant is signed there; scalar stores, section 7.1, and
S_DCACHE_WB); Graphics Core Next Architecture, Generation 3, Reference Guide, section 7.2 (one of
both, unsigned; the register of a store is M0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simgen_examine.conform import values
from simgen_examine.conform.arithmetic import KEPT, Computed, Wanted
from simgen_examine.conform.description import SCALAR_MEMORY
from simgen_examine.conform.expected import Expected
from simgen_examine.conform.forms import Form, form, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simgen_examine.conform.values import Words

SIGNATURE = ("b64", "b64")
RESULT = 48  # the first register of what is loaded
_NBYTES = 32  # bytes of a tuple in scalar kernels
_FIRST = 0x100  # bytes: the place of the first tuple of a work-group
_STRIDE = 24  # bytes from the place of one to that of the next
_WIDTHS = (1, 2, 4, 8, 16)  # words
_FAR = 0x12344  # bytes: of the 20 bits that a constant has
_REGISTER = 0x87654320  # bytes: an offset in a register is not signed
_NEAR = 0x60  # bytes: without it, what is loaded is there, too
# num_records and the last word of a buffer of bytes, and of one of elements of 16 bytes
_BYTES, _ELEMENTS = (0xFFFFFFF0, 0), (0x0FFFFFFF, 16)
_FLAGS = 0x00027000  # 32-bit words, in order
WINDOW = 8  # words of memory of a tuple, of stores
INTO = 8  # bytes: where in it they begin
_BACK = ("s_waitcnt lgkmcnt(0)", "s_dcache_wb")


@dataclass(frozen=True)
class Loaded(Computed):
    """What a load of `count` words leaves."""

    count: int = 1

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`: word by word."""
        tuples = words.shape[2]
        lying = np.zeros((tuples, _NBYTES // 4), np.uint32)
        lying[:, 0:2], lying[:, 2:4], lying[:, 4] = words[0].T, words[1].T, words[2, 0]
        lane = np.arange(tuples) % values.LANES
        group = np.arange(tuples) - lane
        first = group * (_NBYTES // 4) + (_FIRST + lane * _STRIDE) // 4
        flat = lying.reshape(-1)
        return [Wanted("b32", Expected(flat[first + n])) for n in range(self.count)]


@dataclass(frozen=True)
class ScalarStored(Computed):
    """What a store of the first `count` words of a tuple leaves in its window."""

    count: int = 1

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`: word by word."""
        given = (words[0, 0], words[0, 1], words[1, 0], words[1, 1])
        kept = np.full(words.shape[2], KEPT, np.uint32)
        left = [kept] * WINDOW
        left[INTO // 4 : INTO // 4 + self.count] = given[: self.count]
        return [Wanted("b32", Expected(each)) for each in left]


def scalar_stores(arch: str, known: frozenset[str]) -> Iterator[Form]:
    """The forms of an architecture."""
    both = not arch.startswith("gfx8")
    for count in _WIDTHS[:3]:
        word = "dword" if count == 1 else f"dwordx{count}"
        for each in (*_stores(f"s_store_{word}", count, both),
                     *_buffer_stores(f"s_buffer_store_{word}", count, both)):  # fmt: skip
            if each.mnemonic in known:
                yield each


def _stores(name: str, count: int, both: bool) -> Iterator[Form]:
    yield _store(name, count, "constant", f"s[14:15], {INTO:#x}", ())
    if both:
        for what, operands, setup in ways(INTO):
            yield _store(name, count, what, operands, setup)
        return
    yield _store(name, count, "far constant", f"s[10:11], {_FAR:#x}", _below(_FAR - INTO))
    setup = (*_below(_REGISTER - INTO), f"s_mov_b32 m0, {_REGISTER:#x}")
    yield _store(name, count, "register", "s[10:11], m0", setup)


def ways(into: int) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """How gfx9 reaches a byte of the tuple's window by a base that lies elsewhere: in words, the
    operands, and the lines before."""
    yield "far constant", f"s[10:11], {_FAR:#x}", _below(_FAR - into)
    setup = (*_below(_REGISTER - into), *_register(_REGISTER))
    yield "register", "s[10:11], s13", setup
    yield "negative constant", "s[10:11], -0x40", _below(-0x40 - into)
    setup = (*_below(_NEAR + 0x84 - into), *_register(_NEAR))
    yield "register and constant", "s[10:11], s13 offset:0x84", setup


def buffer_ways(into: int, register: str = "s13") -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The same by a buffer."""
    for size, what in ((_BYTES, "of bytes"), (_ELEMENTS, "of elements")):
        setup = (*_below(_FAR - into), *_buffer(*size))
        yield f"buffer {what}, constant", f"s[16:19], {_FAR:#x}", setup
        setup = (*setup, f"s_mov_b32 {register}, {_FAR:#x}")
        yield f"buffer {what}, register", f"s[16:19], {register}", setup


def _buffer_stores(name: str, count: int, both: bool) -> Iterator[Form]:
    for what, operands, setup in buffer_ways(INTO, "s13" if both else "m0"):
        yield _store(name, count, what, operands, setup)


def _store(name: str, count: int, what: str, operands: str, setup: tuple[str, ...]) -> Form:
    return form(ScalarStored, f"{name} {span(20, count, 's')}, {operands}", what, SCALAR_MEMORY,
                SIGNATURE, setup, after=_BACK, window=WINDOW, count=count)  # fmt: skip


def _below(less: int) -> tuple[str, ...]:
    """s[10:11], that many bytes before the tuple's window."""
    less &= (1 << 64) - 1
    return (f"s_sub_u32 s10, s14, {less & 0xFFFFFFFF:#x}", f"s_subb_u32 s11, s15, {less >> 32:#x}")


def scalar_loads(arch: str, known: frozenset[str]) -> Iterator[Form]:
    """The forms of an architecture."""
    both = not arch.startswith("gfx8")
    for count in _WIDTHS:
        word = "dword" if count == 1 else f"dwordx{count}"
        for each in (*_by_address(word, count, both), *_by_buffer(word, count, both)):
            if each.mnemonic in known:
                yield each


def reproducer(of: Form, number: int, sources: Sequence[str]) -> list[str]:
    """The lines that load or store what tuple `number` does; s[8:9] is where those of its
    work-group lie."""
    if of.window:
        whole = [each.removeprefix("0x") for each in sources[:2]]
        given = [half for each in whole for half in (each[8:], each[:8])]
        # An atomic has sources of two words each, and a tuple's flag says what it compares.
        count = of.plan.count if isinstance(of.plan, ScalarStored) else len(given)
        told = f"  ; s[14:15]: {4 * WINDOW} bytes, each word {KEPT:#x}"
        lines = [f"s_mov_b32 s{20 + n}, 0x{each}" for n, each in enumerate(given[:count])]
        if any(" s24," in line for line in of.setup):
            lines.append(f"s_mov_b32 s24, {number % 3 == 0:d}")
        return [lines[0] + told, *lines[1:], *of.setup, of.text, of.after[-1]]
    group, lane = divmod(number, values.LANES)
    told = f"  ; s[8:9]: where the {values.LANES} tuples of work-group {group} lie"
    return [f"s_mov_b32 s44, {values.LANES - lane}{told}", *of.setup, of.text]


def _by_address(word: str, count: int, both: bool) -> Iterator[Form]:
    name = f"s_load_{word}"
    yield _form(name, count, "no offset", "s[10:11], 0x0", _base(0))
    yield _form(name, count, "constant", f"s[10:11], {_FAR:#x}", _base(_FAR))
    setup = (*_base(_REGISTER), *_register(_REGISTER))
    yield _form(name, count, "register", "s[10:11], s13", setup)
    if both:
        yield _form(name, count, "negative constant", "s[10:11], -0x40", _base(-0x40))
        setup = (*_base(_NEAR + 0x84), *_register(_NEAR))
        yield _form(name, count, "register and constant", "s[10:11], s13 offset:0x84", setup)


def _by_buffer(word: str, count: int, both: bool) -> Iterator[Form]:
    name = f"s_buffer_load_{word}"
    for size, what in ((_BYTES, "of bytes"), (_ELEMENTS, "of elements")):
        setup = (*_base(_FAR), *_buffer(*size))
        yield _form(name, count, f"buffer {what}, constant", f"s[16:19], {_FAR:#x}", setup)
        setup = (*_base(_FAR), *_register(_FAR), *_buffer(*size))
        yield _form(name, count, f"buffer {what}, register", "s[16:19], s13", setup)
    if both:
        setup = (*_base(_NEAR + 0x84), *_register(_NEAR), *_buffer(*_BYTES))
        made = "s[16:19], s13 offset:0x84"
        yield _form(name, count, "buffer of bytes, register and constant", made, setup)


def _form(name: str, count: int, what: str, operands: str, setup: tuple[str, ...]) -> Form:
    outputs = tuple(f"s{RESULT + n}" for n in range(count))
    return form(Loaded, f"{name} {span(RESULT, count, 's')}, {operands}", what, SCALAR_MEMORY,
                SIGNATURE, setup, outputs, results=count, count=count)  # fmt: skip


def _base(less: int) -> tuple[str, ...]:
    """s[10:11], that many bytes before the tuple's place."""
    less = less - _FIRST & (1 << 64) - 1
    return (
        f"s_sub_u32 s12, {values.LANES}, s44", f"s_mul_i32 s12, s12, {_STRIDE}",
        "s_add_u32 s10, s8, s12", "s_addc_u32 s11, s9, 0",
        f"s_sub_u32 s10, s10, {less & 0xFFFFFFFF:#x}", f"s_subb_u32 s11, s11, {less >> 32:#x}",
    )  # fmt: skip


def _register(offset: int) -> tuple[str, ...]:
    """s13."""
    return (f"s_mov_b32 s13, {offset:#x}",)


def _buffer(records: int, stride: int) -> tuple[str, ...]:
    """s[16:19], at s[10:11]."""
    return (
        "s_mov_b32 s16, s10", f"s_and_b32 s17, s11, {0xFFFF:#x}",
        f"s_add_u32 s17, s17, {stride << 16:#x}", f"s_mov_b32 s18, {records:#x}",
        f"s_mov_b32 s19, {_FLAGS:#x}",
    )  # fmt: skip
