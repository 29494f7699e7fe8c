"""Machine code of AMD GPUs (gfx8 and gfx9): where each instruction begins and ends, its format and
opcode. What it is called, data/encodings says.

Source: AMD's instruction set manuals ("Graphics Core Next 3", "Vega" and "MI300"), chapter
"Microcode Formats".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

LITERAL, SDWA, DPP = 255, 249, 250  # values of a source field that announce another word


@dataclass(frozen=True)
class Format:
    """An instruction format: how to know it, where the opcode is, what may be a literal."""

    name: str
    mask: int
    bits: int
    shift: int
    width: int  # bits of the opcode
    nbytes: int
    sources: tuple[tuple[int, int], ...] = ()  # (shift, width) of fields that may say LITERAL


_SCALAR = ((0, 8), (8, 8))
_VECTOR = ((0, 9),)
FORMATS = (  # the more specific ones first
    Format("SOP1", 0xFF800000, 0xBE800000, 8, 8, 4, _SCALAR[:1]),
    Format("SOPC", 0xFF800000, 0xBF000000, 16, 7, 4, _SCALAR),
    Format("SOPP", 0xFF800000, 0xBF800000, 16, 7, 4),
    Format("VOP1", 0xFE000000, 0x7E000000, 9, 8, 4, _VECTOR),
    Format("VOPC", 0xFE000000, 0x7C000000, 17, 8, 4, _VECTOR),
    Format("SMEM", 0xFC000000, 0xC0000000, 18, 8, 8),
    Format("EXP", 0xFC000000, 0xC4000000, 0, 0, 8),
    Format("VOP3P", 0xFF800000, 0xD3800000, 16, 7, 8),
    Format("VOP3", 0xFC000000, 0xD0000000, 16, 10, 8),
    Format("VINTRP", 0xFC000000, 0xD4000000, 16, 2, 4),
    Format("DS", 0xFC000000, 0xD8000000, 17, 8, 8),
    Format("FLAT", 0xFC000000, 0xDC000000, 18, 7, 8),
    Format("MUBUF", 0xFC000000, 0xE0000000, 18, 7, 8),
    Format("MTBUF", 0xFC000000, 0xE8000000, 15, 4, 8),
    Format("MIMG", 0xFC000000, 0xF0000000, 18, 7, 8),
    Format("SOPK", 0xF0000000, 0xB0000000, 23, 5, 4),
    Format("SOP2", 0xC0000000, 0x80000000, 23, 7, 4, _SCALAR),
    Format("VOP2", 0x80000000, 0x00000000, 25, 6, 4, _VECTOR),
)
_WITH_LITERAL = {("VOP2", 23), ("VOP2", 24), ("VOP2", 36), ("VOP2", 37), ("SOPK", 20)}
SEGMENTS = ("flat", "scratch", "global")  # segments of the format FLAT, by its bits


@dataclass(frozen=True)
class Decoded:
    """One instruction of machine code."""

    offset: int  # bytes from the start of the code
    format: str  # "" where no format has such bits
    opcode: int
    word: int  # its first 8 bytes, or 4, as a little-endian number
    nbytes: int
    form: str = ""  # "sdwa", "dpp"; of the format FLAT, the segment
    extra: int = 0  # the word behind it: a literal, or the SDWA or DPP controls

    def bits(self, first: int, last: int) -> int:
        """The field of the bits `first` to `last` of the first 64."""
        return self.word >> first & (1 << last - first + 1) - 1


def decoded(code: bytes, most: int = 1 << 62) -> list[Decoded]:
    """The instructions of a kernel, in order; at most so many.

    Words that belong to no format are instructions of format "" and 4 bytes.
    """
    at, found = 0, list[Decoded]()
    while at + 4 <= len(code) and len(found) < most:
        found.append(_one(code, at))
        at += found[-1].nbytes
    return found


def _one(code: bytes, at: int) -> Decoded:
    (word,) = struct.unpack_from("<I", code, at)
    kind = next((f for f in FORMATS if word & f.mask == f.bits), None)
    if kind is None or at + kind.nbytes > len(code):
        return Decoded(at, "", 0, word, 4)
    opcode = word >> kind.shift & (1 << kind.width) - 1
    fields = [word >> shift & (1 << width) - 1 for shift, width in kind.sources]
    form = ""
    if kind.sources == _VECTOR and fields[0] in (SDWA, DPP):
        form = "sdwa" if fields[0] == SDWA else "dpp"
    elif kind.name == "FLAT" and word >> 14 & 3 < len(SEGMENTS):
        form = SEGMENTS[word >> 14 & 3]
    long = bool(form in ("sdwa", "dpp") or LITERAL in fields)
    long = (long or (kind.name, opcode) in _WITH_LITERAL) and at + 8 <= len(code)
    if kind.nbytes == 8:
        (word,) = struct.unpack_from("<Q", code, at)
    extra = struct.unpack_from("<I", code, at + 4)[0] if long else 0
    return Decoded(at, kind.name, opcode, word, kind.nbytes + 4 * long, form, extra)
