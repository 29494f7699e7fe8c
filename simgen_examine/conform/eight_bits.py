"""Conversions between f32 and the 8-bit floats of gfx942, fp8 (E4M3) and bf8 (E5M2).

These have no infinities and one zero; 0x80 is their only NaN, and exponents have a bias of 8 and 16
(FNUZ). To f32, a byte or two of a register are converted, of others than the lowest by SDWA; all
are exact. From f32, two are rounded to the nearest and put into half of a register, or one is
rounded at random to one of its neighbours, by the bits of the second source, and put into a byte;
op_sel says into which, and the rest of the register stays. How the bits are used is not told: each
neighbour is right.

Of numbers beyond the largest, NaN is right, and so is the largest: MODE.FP16_OVFL says which it is,
and the manual does not say what that makes of infinities.

Source: AMD, Instinct MI300 (CDNA3) Instruction Set Architecture Reference Guide, on V_CVT_F32_FP8
and the like; for op_sel of V_CVT_SR_FP8_F32, LLVM's assembler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen_examine.conform import floats, values
from simgen_examine.conform.arithmetic import ALL_LANES, KEPT, Computed, Modifiers, Wanted
from simgen_examine.conform.description import Described
from simgen_examine.conform.expected import EitherByte, Expected
from simgen_examine.conform.forms import RESULT, SCALAR_SOURCE, Form
from simgen_examine.conform.stores import SOME_LANES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen_examine.conform.values import Words

KINDS = ("fp8", "bf8")
NAN = 0x80
_MAX_MAGNITUDE = 0x7F
_SCALAR = 0x87F83B01  # value of a source in a scalar register


@dataclass(frozen=True)
class Widened(Computed):
    """`count` floats of f32 from as many bytes of a word."""

    kind: str = ""
    first: int = 0  # byte
    count: int = 1

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`."""
        word = words[0, 0]
        if self.constant:
            word = np.full_like(word, self.constant[1])
        told = values.eight_bits(self.kind).astype(np.float32)
        found = []
        for at in range(self.count):
            byte = word >> np.uint32(8 * (self.first + at)) & np.uint32(0xFF)
            found.append(self._in_lanes(Wanted("f32", Expected(told[byte])), lanes))
        return found


@dataclass(frozen=True)
class Narrowed(Computed):
    """A word of which some bytes are 8-bit floats of f32, and the others stay."""

    kind: str = ""
    first: int = 0  # byte
    random: bool = False  # rounded to any neighbour; one float in place of two

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`."""
        value, other = (np.full(words.shape[2], KEPT, np.uint32) for _ in range(2))
        for at in range(1 if self.random else 2):
            source = words[at, 0].view(np.float32)
            if at in self.modifiers.absolute:
                source = floats.absolute(source)
            if at in self.modifiers.neg:
                source = floats.negated(source)
            shift = np.uint32(8 * (self.first + at))
            for whole, byte in zip(
                (value, other), rounded(source, self.kind, random=self.random), strict=True
            ):
                whole &= ~(np.uint32(0xFF) << shift)
                whole |= byte << shift
        return [self._in_lanes(Wanted("b32", EitherByte(value, other=other)), lanes)]


def rounded(source: Any, kind: str, *, random: bool = False) -> tuple[Any, Any]:
    """Bytes that are right for floats of f32: two of each, which may be the same.

    To the nearest, of two the even one; or, `random`, to either neighbour.
    """
    told = values.eight_bits(kind)[: _MAX_MAGNITUDE + 1]
    told = np.append(told, 2 * told[-1] - told[-2])  # where what is beyond begins to be nearer
    with np.errstate(invalid="ignore"):  # the values include signalling NaNs
        size = np.abs(source.astype(np.float64))
    below = np.clip(np.searchsorted(told, size, "right") - 1, 0, _MAX_MAGNITUDE)
    exact = told[below] == size
    middle = (told[below] + told[below + 1]) / 2
    if random:
        above = np.where(exact, below, below + 1)
    else:
        up = (size > middle) | ((size == middle) & (below % 2 == 1))
        below = above = np.where(up, below + 1, below)
    beyond = (above > _MAX_MAGNITUDE) | (size >= told[-1])
    value = _signed(np.minimum(below, _MAX_MAGNITUDE), source)
    other = _signed(np.minimum(above, _MAX_MAGNITUDE), source)
    value = np.where(beyond, _signed(np.full_like(below, _MAX_MAGNITUDE), source), value)
    other = np.where(beyond, np.uint32(NAN), other)
    nan = np.isnan(source)
    return np.where(nan, np.uint32(NAN), value), np.where(nan, np.uint32(NAN), other)


def _signed(code: Any, source: Any) -> Any:
    """There is no negative zero."""
    negative = np.signbit(source) & (code != 0)
    return np.where(negative, code | 0x80, code).astype(np.uint32)


def eight_bit_conversions(_: str, known: frozenset[str]) -> Iterator[Form]:
    """The forms of an architecture."""
    for kind in KINDS:
        for form in (*_widened(kind), *_narrowed(kind)):
            if form.mnemonic in known:
                yield form


def _widened(kind: str) -> Iterator[Form]:
    for name, count, part in (
        (f"v_cvt_f32_{kind}", 1, "BYTE"), (f"v_cvt_pk_f32_{kind}", 2, "WORD"),
    ):  # fmt: skip
        to = "v10" if count == 1 else "v[10:11]"
        outputs = tuple(f"v{RESULT + n}" for n in range(count))
        setup = (f"s_mov_b32 s{SCALAR_SOURCE}, {_SCALAR:#x}",)
        scalar = f"s{SCALAR_SOURCE}"
        tried: list[tuple[str, str, int, int, tuple[str, ...], tuple[int, int] | None]] = [
            (f"{name}_e32 {to}, v4", "e32", 0, ALL_LANES, (), None),
            (f"{name}_e32 {to}, v4", "e32, some lanes", 0, SOME_LANES, (), None),
            (f"{name}_e32 {to}, {scalar}", "e32, a scalar", 0, ALL_LANES, setup, (0, _SCALAR)),
            (f"{name}_e64 {to}, v4", "e64", 0, ALL_LANES, (), None),
        ]
        for at in range(4 // count):
            text = f"{name}_sdwa {to}, v4 src0_sel:{part}_{at}"
            tried.append((text, f"SDWA, a is {part}_{at}", count * at, ALL_LANES, (), None))
        for text, what, first, lanes, lines, constant in tried:
            of = Described(name, "VOP1", ("f32",) * count, ("4xu8",), "")
            plan = Widened(of, constant=constant, kind=kind, first=first, count=count)
            yield Form(of, text, what, of.sources, lines, outputs, plan, lanes=lanes)


def _narrowed(kind: str) -> Iterator[Form]:
    negative, magnitude = Modifiers(neg=(0,)), Modifiers(absolute=(1,))
    pair, one = (f"v_cvt_{each}_{kind}_f32" for each in ("pk", "sr"))
    of_pair = Described(pair, "VOP3", ("b32",), (f"f32_{kind}",) * 2, "")
    of_one = Described(one, "VOP3", ("b32",), (f"f32_{kind}", "u32"), "")
    for of, operands, what, first, how, lanes in (
        (of_pair, "v4, v6", "lower half", 0, Modifiers(), ALL_LANES),
        (of_pair, "v4, v6", "lower half, some lanes", 0, Modifiers(), SOME_LANES),
        (of_pair, "v4, v6 op_sel:[0,0,1]", "upper half", 2, Modifiers(), ALL_LANES),
        (of_pair, "-v4, v6", "-a", 0, negative, ALL_LANES),
        (of_pair, "v4, |v6|", "|b|", 0, magnitude, ALL_LANES),
        (of_pair, "v4, -|v6|", "-|b|", 0, Modifiers(neg=(1,), absolute=(1,)), ALL_LANES),
        *((of_one, "v4, v6" + (f" op_sel:[0,0,{at & 1},{at >> 1}]" if at else ""), f"byte {at}",
           at, Modifiers(), ALL_LANES) for at in range(4)),
        (of_one, "-v4, v6", "-a", 0, negative, ALL_LANES),
    ):  # fmt: skip
        plan = Narrowed(of, how, kind=kind, first=first, random=of is of_one)
        text = f"{of.name} v10, {operands}"
        yield Form(of, text, what, of.sources, (), ("v10",), plan, lanes=lanes)
