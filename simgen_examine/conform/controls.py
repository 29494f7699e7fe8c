"""SDWA and DPP: parts of registers, and registers of other lanes, as sources.

SDWA takes a byte or a half of a source, with zeros or its sign above, and puts a byte or a half of
the result into its place. DPP takes the first source from another lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simgen_examine.conform import values
from simgen_examine.conform.expected import Expected, unsigned_bits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simgen_examine.conform.description import Described
    from simgen_examine.conform.expected import Where
    from simgen_examine.conform.values import Words

KEPT = 0x5CA1AB1E  # what the result's register holds before (arithmetic.KEPT)
_PARTS = {"DWORD": (0, 32), "WORD_0": (0, 16), "WORD_1": (16, 16),
          **{f"BYTE_{at}": (8 * at, 8) for at in range(4)}}  # fmt: skip
ROW, BANK = 16, 4  # lanes


@dataclass(frozen=True)
class Control:
    """What an SDWA or DPP form says beside its operands."""

    form: str  # "sdwa" or "dpp"
    what: str
    selects: tuple[str, ...] = ()  # parts of the sources
    extended: tuple[int, ...] = ()  # sources whose part is signed
    to: str = "DWORD"  # part of the result
    unused: str = "UNUSED_PAD"
    lane: Callable[[int], int | None] | None = None  # which lane the first source is taken from
    permutation: str = ""
    rows: int = 0xF  # mask of the rows that are computed
    banks: int = 0xF
    zero: bool = False  # lanes that there are not give 0
    has_result: bool = True

    @property
    def places(self) -> bool:
        """Whether the result is put into a part of its register."""
        return self.form == "sdwa" and self.to != "DWORD"

    @property
    def text(self) -> str:
        if self.form == "dpp":
            zero = " bound_ctrl:0" if self.zero else ""
            return f"{self.permutation} row_mask:{self.rows:#x} bank_mask:{self.banks:#x}{zero}"
        told = f"dst_sel:{self.to} dst_unused:{self.unused} " if self.has_result else ""
        return told + " ".join(f"src{at}_sel:{each}" for at, each in enumerate(self.selects))

    def read(self, words: Words, at: int, type_: str) -> tuple[Words, Where]:
        """A source as it is read, and in which lanes it is."""
        del type_
        every = np.ones(words.shape[1], bool)
        if self.form == "sdwa":
            start, width = _PARTS[self.selects[at]]
            part = words[0] >> np.uint32(start)
            if width < 32:
                part = part & np.uint32((1 << width) - 1)
                if at in self.extended:
                    top = np.uint32(1 << width - 1)
                    part = (part ^ top) - top
            return np.stack([part, words[1]]), every
        if at:
            return words, every
        lanes = np.arange(words.shape[1])
        assert self.lane is not None
        of = [self.lane(lane) for lane in range(values.LANES)]
        from_ = np.array([0 if each is None else each for each in of])
        there = np.array([each is not None for each in of])[lanes % values.LANES]
        base = lanes // values.LANES * values.LANES
        read = words[:, base + from_[lanes % values.LANES]]
        if self.zero:
            read = np.where(there, read, np.uint32(0))
            there = every
        row, bank = lanes % values.LANES // ROW, lanes % ROW // BANK
        computed = (self.rows >> row & 1).astype(bool) & (self.banks >> bank & 1).astype(bool)
        return read, there & computed

    def placed(self, expected: Expected, reads: Where) -> Expected:
        """The result in its part of the register."""
        del reads
        if not self.places:
            return expected
        start, width = _PARTS[self.to]
        mask = (1 << width) - 1
        part = unsigned_bits(expected.value).astype(np.uint32) & np.uint32(mask)
        made = part << np.uint32(start)
        if self.unused == "UNUSED_SEXT":
            sign = part >> np.uint32(width - 1) != 0
            above = np.uint32(0xFFFFFFFF & ~((1 << start + width) - 1))
            made = np.where(sign, made | above, made)
        elif self.unused == "UNUSED_PRESERVE":
            made = made | np.uint32(KEPT & ~(mask << start))
        free = expected.free
        if expected.value.dtype.kind == "f":
            nan = np.isnan(expected.value)
            free = nan if free is None else free | nan
        return Expected(made, free)

    def bits(self, expected: Expected, reads: Where) -> Expected:
        """A bit for each lane: lanes that are not computed are left out."""
        return expected if self.form == "sdwa" else expected.freed(~reads)


def controls_of(instruction: Described, arch: str) -> Iterator[Control]:
    """The controls that an instruction is tried with."""
    del arch
    yield from _sdwa(instruction)
    if instruction.format != "VOPC":
        yield from _dpp(instruction)


_ALL = ("v_mov_b32", "v_min_i32", "v_and_b32", "v_add_u32", "v_add_f16", "v_cvt_f32_u32",
        "v_cvt_f32_i32", "v_max_u16")  # fmt: skip


def _sdwa(of: Described) -> Iterator[Control]:
    sources = [each for each in of.sources if "vcc" not in each and each[0] != "="]
    plain = ("DWORD",) * len(sources)
    result = of.format != "VOPC"
    if any(each == "f32" for each in sources):
        yield Control("sdwa", "SDWA, whole registers", plain, has_result=result)
        return
    signed = sources[0] in ("i32", "i16") and of.format != "VOPC"
    narrow = values.bits(sources[0]) == 16
    parts = (
        ("WORD_1",)
        if of.name not in _ALL
        else ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1")
    )
    for part in parts:
        if part.startswith("BYTE") and narrow and sources[0][0] == "f":
            continue
        yield Control("sdwa", f"SDWA, a is {part}", (part, *plain[1:]), has_result=result)
    if len(sources) > 1 and not ("f" in sources[1] and narrow):
        yield Control("sdwa", "SDWA, b is WORD_1", ("DWORD", "WORD_1"), has_result=result)
    if signed:
        yield Control(
            "sdwa", "SDWA, a is sext BYTE_1", ("BYTE_1", *plain[1:]), (0,), has_result=result
        )
        yield Control(
            "sdwa", "SDWA, a is sext WORD_1", ("WORD_1", *plain[1:]), (0,), has_result=result
        )
    if not result or of.name not in _ALL or of.results[0] == "f32":
        return
    for to in ("BYTE_1", "WORD_1", "WORD_0"):
        if to.startswith("BYTE") and of.results[0][0] == "f":
            continue
        for unused in ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"):
            yield Control("sdwa", f"SDWA, to {to}, {unused}", plain, (), to, unused)


def _row(step: int, *, turning: bool = False) -> Callable[[int], int | None]:
    """From so many lanes on in the row; turning round at its end, or nothing there."""

    def made(lane: int) -> int | None:
        inside = lane % ROW + step
        if turning:
            inside %= ROW
        return lane - lane % ROW + inside if 0 <= inside < ROW else None

    return made


_LANES: dict[str, Callable[[int], int | None]] = {
    "quad_perm:[1,0,3,2]": lambda lane: lane ^ 1,
    "row_shl:1": _row(1),
    "row_shr:3": _row(-3),
    "row_ror:5": _row(-5, turning=True),
    "row_mirror": lambda lane: lane ^ 15,
    "row_half_mirror": lambda lane: lane ^ 7,
    "row_bcast:15": lambda lane: lane // ROW * ROW - 1 if lane >= ROW else None,
    "row_bcast:31": lambda lane: 31 if lane >= 32 else None,
}


def _dpp(of: Described) -> Iterator[Control]:
    if "vcc" in of.results or any(each[0] == "=" for each in of.sources):
        return
    every = of.name in ("v_mov_b32", "v_add_f32", "v_add_u32")
    for name, lane in _LANES.items() if every else [("row_shr:3", _LANES["row_shr:3"])]:
        yield Control("dpp", f"DPP, {name}", lane=lane, permutation=name, zero=True)
    if every:
        name, lane = "row_shr:3", _LANES["row_shr:3"]
        yield Control("dpp", f"DPP, {name}, bound_ctrl off", lane=lane, permutation=name)
        name, lane = "quad_perm:[1,0,3,2]", _LANES["quad_perm:[1,0,3,2]"]
        yield Control("dpp", "DPP, some rows", lane=lane, permutation=name, rows=0xA)
        yield Control("dpp", "DPP, some banks", lane=lane, permutation=name, banks=0x6)
