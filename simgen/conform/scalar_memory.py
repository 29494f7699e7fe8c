"""Scalar loads: words of memory that all lanes share, by a base and an offset of any kind.

The words that are loaded are those of the tuples of a work-group, from a place on that differs from
tuple to tuple. s[8:9] is where they lie; s12 becomes the distance of the place, s[10:11] a base
from which it is reached by the offset of the form, and s[16:19] a buffer at that base. What is
loaded goes to s48 and those behind it.

Source: AMD, Vega Instruction Set Architecture Reference Guide, section 7.4 (a scalar load adds its
base, its constant and its register, whose constant is signed there); Graphics Core Next
Architecture, Generation 3, Reference Guide, section 7.2 (one of both, unsigned).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simgen.conform import values
from simgen.conform.arithmetic import Computed, Modifiers, Wanted
from simgen.conform.description import SCALAR_MEMORY, Described
from simgen.conform.expected import Expected
from simgen.conform.forms import Form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.conform.values import Words

SIGNATURE = ("b64", "b64")
RESULT = 48  # the first register of what is loaded
_NBYTES = 32  # of a tuple, as scalar kernels have them
_FIRST = 0x100  # bytes: the place of the first tuple of a work-group
_STRIDE = 24  # bytes from the place of one to that of the next
_WIDTHS = (1, 2, 4, 8, 16)  # words
_FAR = 0x12344  # bytes: of the 20 bits that a constant has
_REGISTER = 0x87654320  # bytes: an offset in a register is not signed
_NEAR = 0x60  # bytes: without it, what is loaded is there, too
# num_records and the last word of a buffer of bytes, and of one of elements of 16 bytes
_BYTES, _ELEMENTS = (0xFFFFFFF0, 0), (0x0FFFFFFF, 16)
_FLAGS = 0x00027000  # 32-bit words, in order


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


def scalar_loads(arch: str, known: frozenset[str]) -> Iterator[Form]:
    """The forms of an architecture."""
    both = not arch.startswith("gfx8")
    for count in _WIDTHS:
        word = "dword" if count == 1 else f"dwordx{count}"
        for form in (*_by_address(word, count, both), *_by_buffer(word, count, both)):
            if form.mnemonic in known:
                yield form


def reproducer(form: Form, number: int) -> list[str]:
    """The lines that load what tuple `number` does; s[8:9] is where those of its work-group lie."""
    group, lane = divmod(number, values.LANES)
    told = f"  ; s[8:9]: where the {values.LANES} tuples of work-group {group} lie"
    return [f"s_mov_b32 s44, {values.LANES - lane}{told}", *form.setup, form.text]


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
    to = f"s{RESULT}" if count == 1 else f"s[{RESULT}:{RESULT + count - 1}]"
    of = Described(name, SCALAR_MEMORY, ("b32",) * count, SIGNATURE, "mov")
    plan = Loaded(of, Modifiers(), None, False, None, count=count)
    outputs = tuple(f"s{RESULT + n}" for n in range(count))
    return Form(of, f"{name} {to}, {operands}", what, SIGNATURE, setup, outputs, plan)


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
