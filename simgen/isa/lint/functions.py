"""The functions of a code object: their machine code, and the lines that it comes from."""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simgen.errors import DamagedError, UsageError
from simgen.isa.code_object import DESCRIPTOR, DESCRIPTOR_NBYTES, MACHINES, PF_X
from simgen.isa.lint import metadata, naming
from simgen.isa.lint.elf import opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elftools.elf.elffile import ELFFile

LOADED, EXECUTABLE = 2, 4  # flags of a section
# Code objects of version 2: the type of kernels' symbols (10), and the bytes before their code.
KERNELS_V2 = ("STT_LOOS", "STT_GNU_IFUNC")
HEADER_V2 = 256
CODE_ALIGNMENT = 256  # alignment of a kernel's first instruction
MOST_LINES = 2**22  # rows of a line table


@dataclass(frozen=True)
class Function:
    """A kernel, or a function that kernels call."""

    name: str
    section: int
    address: int  # address of its first instruction
    code: bytes
    is_kernel: bool
    descriptor: tuple[int, ...] = ()  # a kernel's fields of DESCRIPTOR; empty: it has none


@dataclass
class Lines:
    """Which line of source an address comes from; read when it is first asked for."""

    elf: bytes
    rows: dict[int, list[tuple[int, str]]] | None = field(default=None)

    def at(self, address: int, section: int) -> str:
        """FILE:LINE, or nothing where the code object has no line tables."""
        if self.rows is None:
            self.rows = {0: sorted(_line_rows(self.elf))}
        rows = self.rows[0]
        found = bisect_right(rows, (address, "\U0010ffff")) - 1
        return rows[found][1] if found >= 0 else ""


def processor(elf: bytes, place: str) -> str:
    """The processor that a code object is for, or its number where nobody here knows it.

    Raises:
        DamagedError: it is not a whole ELF file.
    """
    with opened(elf, place) as file:
        machine = file["e_flags"] & 0xFF
        return MACHINES.get(machine, (f"number {machine:#x}", 0))[0]


def functions_of(elf: bytes, place: str) -> tuple[str, list[Function], Lines]:
    """(processor, functions, lines) of a code object, linked or not.

    Raises:
        DamagedError: it is not a whole ELF file.
        UsageError: it is for a processor whose instructions nobody here knows.
    """
    with opened(elf, place) as file:
        machine = file["e_flags"] & 0xFF
        arch = MACHINES.get(machine, ("", 0))[0]
        if arch not in naming.architectures():
            named = arch or f"number {machine:#x}"
            known = ", ".join(naming.architectures())
            raise UsageError(
                f"{place}: for the processor {named}, which no simulator here has; known: {known}"
            )
        return arch, list(_functions(file)), Lines(elf)


def not_loaded(elf: bytes, place: str) -> list[str]:
    """The functions in sections that no launcher loads: who calls them goes anywhere.

    Raises:
        DamagedError: it is not a whole ELF file.
    """
    from elftools.elf.sections import SymbolTableSection

    with opened(elf, place) as file:
        left = {
            number
            for number, section in enumerate(file.iter_sections())
            if not section["sh_flags"] & LOADED
        }
        table = file.get_section_by_name(".symtab")
        return [
            str(symbol.name)
            for symbol in (table.iter_symbols() if isinstance(table, SymbolTableSection) else ())
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] in left
        ]


def _functions(file: ELFFile) -> Iterator[Function]:
    """Functions by symbols; a section without any is one; without sections, by descriptors."""
    from elftools.elf.sections import SymbolTableSection

    if not file.num_sections():
        yield from _described(file)
        return
    table = file.get_section_by_name(".symtab") or file.get_section_by_name(".dynsym")
    symbols = list(table.iter_symbols()) if isinstance(table, SymbolTableSection) else []
    kernels = dict(_descriptors(file, symbols))
    for number, section in enumerate(file.iter_sections()):
        if section["sh_type"] != "SHT_PROGBITS" or not section["sh_flags"] & EXECUTABLE:
            continue
        data, base = bytes(section.data()), section["sh_addr"]
        inside = {  # by address; an alias counts once
            symbol["st_value"] - base: symbol
            for symbol in symbols
            if symbol["st_shndx"] == number
            and (symbol["st_info"]["type"] in (*KERNELS_V2, "STT_FUNC") or symbol.name in kernels)
        }
        starts = sorted(inside)
        for start, following in zip(starts, [*starts[1:], len(data)][: len(starts)], strict=True):
            symbol = inside[start]
            nbytes = symbol["st_size"] or following - start  # assembly by hand may give no size
            if start < 0 or start + nbytes > len(data):
                raise ValueError(f"function {symbol.name} lies outside of its section")
            code, is_kernel, ahead = data[start : start + nbytes], symbol.name in kernels, 0
            if symbol["st_info"]["type"] in KERNELS_V2 and len(code) >= HEADER_V2:
                (ahead,) = struct.unpack_from("<q", code, 16)
                ahead, is_kernel = min(max(ahead, HEADER_V2), len(code)), True
            at, told = symbol["st_value"] + ahead, kernels.get(symbol.name, ())
            yield Function(symbol.name, number, at, code[ahead:], is_kernel, told)
        if not inside and data:
            yield Function(section.name, number, base, data, False)


def _descriptors(file: ELFFile, symbols: Sequence[Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """(kernel, the fields of its descriptor); none where that lies in no section."""
    for symbol in symbols:
        if symbol.name.endswith(".kd"):
            told: tuple[int, ...] = ()
            if isinstance(symbol["st_shndx"], int):
                section = file.get_section(symbol["st_shndx"])
                at = symbol["st_value"] - section["sh_addr"]
                if section["sh_type"] == "SHT_PROGBITS" and at >= 0:
                    told = DESCRIPTOR.unpack_from(section.data(), at)
            yield symbol.name.removesuffix(".kd"), told


def _described(file: ELFFile) -> Iterator[Function]:
    """The kernels of a code object without sections: descriptors tell where they begin, metadata
    what they are called."""
    from elftools.elf.segments import NoteSegment

    segments = list(file.iter_segments("PT_LOAD"))
    held = (each for each in file.iter_segments("PT_NOTE") if isinstance(each, NoteSegment))
    notes = [note for segment in held for note in segment.iter_notes()]
    told = metadata.of_notes(notes).get("amdhsa.kernels", [])
    for number, segment in enumerate(segments):
        if not segment["p_flags"] & PF_X:
            continue
        code, base = bytes(segment.data()), segment["p_vaddr"]
        starts = {  # address -> descriptor
            start: descriptor
            for other in segments
            if not other["p_flags"] & PF_X
            for start, descriptor in _entries(bytes(other.data()), other["p_vaddr"])
            if base <= start < base + len(code)
        }
        names = [f"kernel at {start:#x}" for start in starts]
        if [each[".kernarg_segment_size"] for each in told] == [d[2] for d in starts.values()]:
            names = [str(each[".name"]) for each in told]
        named = sorted(zip(starts, names, strict=True))
        if not named and code:
            yield Function("", number, base, code, False)
        ends = [*(start for start, _ in named[1:]), base + len(code)]
        for (start, name), end in zip(named, ends[: len(named)], strict=True):
            code_of = code[start - base : end - base]
            yield Function(name, number, start, code_of, True, starts[start])


def _entries(data: bytes, base: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(address of the first instruction, fields) of what may be descriptors."""
    for at in range(
        -base % DESCRIPTOR_NBYTES, len(data) - DESCRIPTOR_NBYTES + 1, DESCRIPTOR_NBYTES
    ):
        descriptor = DESCRIPTOR.unpack_from(data, at)
        entry = descriptor[3]
        start = base + at + entry
        if entry > 0 and start % CODE_ALIGNMENT == 0 and not any(data[at + 24 : at + 44]):
            yield start, descriptor


def _line_rows(elf: bytes) -> Iterator[tuple[int, str]]:
    """(address, FILE:LINE) of each row of the line tables; of one without an end, nothing."""
    try:
        with opened(elf, "") as file:
            if not file.has_dwarf_info():
                return
            dwarf = file.get_dwarf_info()
            for unit in dwarf.iter_CUs():
                program = dwarf.line_program_for_CU(unit)
                if program is None:
                    continue
                for entry in program.get_entries()[:MOST_LINES]:
                    state = entry.state
                    if state is not None and not state.end_sequence:
                        yield state.address, f"{_file(program.header, state.file)}:{state.line}"
    except DamagedError:
        return  # line tables are a comfort: without them the address tells the place


def _file(header: Any, number: int) -> str:
    entries = header["file_entry"]
    at = number if header["version"] >= 5 else number - 1
    return str(entries[at].name.decode(errors="replace")) if 0 <= at < len(entries) else "?"
