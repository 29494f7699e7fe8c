"""Code objects that programs for CPUs hold as constants.

Programs without HIP's runtime have them in their read-only data, whole (`.incbin`, `xxd -i`), or as
memory images: what a loader makes of one, segments at their addresses and no sections behind them.

Source: https://gabi.xinuos.com, "ELF Header", "Section Header", "Program Header".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elftools.elf.elffile import ELFFile

IDENT = b"\x7fELF\x02\x01\x01"  # 64 bits, the least byte first
EM_AMDGPU = 224
RELOCATABLE, SHARED = 1, 3  # types of code objects
PT_NULL, PT_LOAD, PT_NOTE = 0, 1, 4
PF_X, PF_W = 1, 2
SHT_STRTAB, SHT_NOBITS = 3, 8
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NO_SECTION = bytes(_SECTION.size)


@dataclass
class _Segment:
    kind: int
    flags: int
    offset: int  # in the file
    address: int
    physical: int
    nbytes: int  # in the file
    memory_nbytes: int
    alignment: int


def loaded(file: ELFFile) -> list[tuple[int, int]]:
    """(start, end) in the file of what is in memory when a program runs; of an object file, of what
    will be."""
    parts = [(each["p_offset"], each["p_filesz"]) for each in file.iter_segments("PT_LOAD")]
    if not parts:
        parts = [
            (each["sh_offset"], each["sh_size"])
            for each in file.iter_sections("SHT_PROGBITS")
            if each["sh_flags"] & 2  # SHF_ALLOC
        ]
    return sorted((start, start + nbytes) for start, nbytes in parts)


def code_objects(
    content: bytes, parts: Sequence[tuple[int, int]], place: str
) -> Iterator[tuple[int, bytes]]:
    """(offset in `content`, ELF) of each code object in parts of a file; a memory image becomes an
    ELF file without sections.

    Raises:
        DamagedError: one is not whole.
    """
    behind = 0  # the last one: parts may overlap
    for start, end in parts:
        end = min(end, len(content))
        at = content.find(IDENT, max(start, behind), end)
        while at >= 0:
            behind = at + len(IDENT)
            if _is_header(content, at, end):
                code = _leading_elf(memoryview(content)[at:end])  # no copy: there may be gigabytes
                if code is None:
                    raise DamagedError(
                        f"{place}: the code object at {at:#x} is not whole; build the program again"
                    )
                nbytes, elf = code
                yield at, elf
                behind = at + nbytes
            at = content.find(IDENT, behind, end)


def _is_header(content: bytes, at: int, end: int) -> bool:
    """Whether it is a code object's, and not bytes that begin like one."""
    if at + _HEADER.size > end:
        return False
    _, kind, machine, version, *_, nbytes, segment, _, section, _, _ = _HEADER.unpack_from(
        content, at
    )
    return (
        machine == EM_AMDGPU
        and kind in (RELOCATABLE, SHARED)
        and (version, nbytes) == (1, _HEADER.size)
        and segment in (0, _SEGMENT.size)
        and section in (0, _SECTION.size)
    )


def _leading_elf(content: memoryview) -> tuple[int, bytes] | None:
    """(bytes that it takes, ELF) of the code object that `content` begins with."""
    ident, *rest = _HEADER.unpack_from(content, 0)
    segments_at, sections_at, segment_count, section_count, names = (
        rest[4], rest[5], rest[9], rest[11], rest[12],
    )  # fmt: skip
    if segments_at + segment_count * _SEGMENT.size > len(content):
        return None
    segments = [
        _Segment(*_SEGMENT.unpack_from(content, segments_at + number * _SEGMENT.size))
        for number in range(segment_count)
    ]
    ends = [_HEADER.size, segments_at + segment_count * _SEGMENT.size]
    if section_count and (found := _sections_end(content, sections_at, section_count, names)):
        ends += [found, *(each.offset + each.nbytes for each in segments if each.kind == PT_LOAD)]
        return (max(ends), bytes(content[: max(ends)])) if max(ends) <= len(content) else None
    image = section_count > 0  # its sections are not there: segments lie at their addresses
    code = False
    for each in segments:
        offset = each.address if image else each.offset
        here = offset + each.nbytes <= len(content)
        # A memory image may lack writable segments: other bytes may be in their place.
        constant = not (image and each.flags & PF_W)
        if each.kind in (PT_LOAD, PT_NOTE) and here and constant:
            each.offset = offset
            ends.append(offset + each.nbytes)
            code |= each.kind == PT_LOAD and bool(each.flags & PF_X) and each.nbytes > 0
        else:
            each.kind = PT_NULL
    if not code:
        return None
    rest[5], rest[11], rest[12] = 0, 0, 0
    elf = bytearray(content[: max(ends)])
    _HEADER.pack_into(elf, 0, ident, *rest)
    for number, each in enumerate(segments):
        _SEGMENT.pack_into(elf, segments_at + number * _SEGMENT.size, *vars(each).values())
    return max(ends), bytes(elf)


def _sections_end(content: memoryview, at: int, count: int, names: int) -> int:
    """End of the section table and of its sections; 0 if there is no such table."""
    end = at + count * _SECTION.size
    if end > len(content) or not 0 < names < count or content[at : at + 64] != _NO_SECTION:
        return 0
    for number in range(1, count):
        _, kind, _, _, offset, nbytes, *_ = _SECTION.unpack_from(
            content, at + number * _SECTION.size
        )
        if number == names and kind != SHT_STRTAB:
            return 0
        end = max(end, offset + nbytes if kind != SHT_NOBITS else 0)
    return end
