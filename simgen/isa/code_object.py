"""Linked AMDGPU code objects: what a launcher needs of them when there is no runtime to load them.

A code object is an ELF shared object. Kernel NAME has two symbols: NAME is its first instruction,
NAME.kd its 64-byte descriptor, which an AQL packet points to. A copy of its memory image at any
4 KiB boundary runs, once what holds addresses (tables of functions) has been given that boundary's.

Source: https://llvm.org/docs/AMDGPUUsage.html, sections "Code Object" and "Kernel Descriptor".
"""

from __future__ import annotations

import contextlib
import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.ask.choice import spelled
from simgen.errors import DamagedError, RefusedError, SimgenError
from simgen.ground import machine as machines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elftools.elf.elffile import ELFFile

DESCRIPTOR_NBYTES = 64
DESCRIPTOR = struct.Struct("<IIIxxxxq20xIIIHHxxxx")
RSRC1 = 48  # where compute_pgm_rsrc1 lies in a descriptor; in it:
VGPRS_MASK = 63  # granules of vector registers, less 1
ADDRESS = struct.Struct("<Q")
RELATIVE = 13  # R_AMDGPU_RELATIVE64: the image's address and a number
MOST_NBYTES = 1 << 26  # size limit of a memory image; a kernel takes a thousandth of it
PF_X = 1  # flag of an executable segment
DYNAMIC_STACK = 1 << 11  # bits of kernel_code_properties
WAVEFRONT_SIZE_32 = 1 << 10
# Registers that a simulator leaves out, so that all behind them are in the wrong place.
LEFT_OUT = {
    "mgpusim": {
        2: ("queue_ptr", "the address of its queue"),
        4: ("dispatch_id", "the number of its dispatch"),
        5: ("flat_scratch_init", "the place of its scratch memory"),
        6: ("private_segment_size", "the size of its scratch memory"),
    }
}
ROUND_MODES = 12  # bits of compute_pgm_rsrc1: two for float32, two for other floats; 0: to nearest
PRELOADED = 127  # kernarg_preload: the low bits hold the number of words, the others the first one

# The low byte of e_flags (EF_AMDGPU_MACH) -> processor, vector registers in an allocation granule.
MACHINES = {
    arch.elf_machine: (arch.name, arch.register_granule)
    for arch in machines.architectures().values()
    if arch.elf_machine is not None
}

# A wavefront's fetch unit runs ahead of s_endpgm: two cache lines on gem5, which decodes them too
# and dies of an invalid opcode or of an unmapped page. So instructions follow every kernel.
FETCH_AHEAD = 256  # bytes
S_NOP = struct.pack("<I", 0xBF800000)
# Their kernels find the ids of a work-item in v0, 10 bits each; others in v0, v1 and v2.
PACKED_IDS = ("gfx90a", "gfx940", "gfx941", "gfx942", "gfx950")

# Clang puts a one-byte object of this name into every HIP module; no instruction refers to it.
MODULE_ID = "__hip_cuid_"


@dataclass(frozen=True)
class Demand:
    """What a kernel asks of a loader that nobody here gives it."""

    directive: str  # as its descriptor has it in assembly
    fact: str
    cure: str


def demand(
    descriptor: Sequence[int], simulator: str = "", *, any_rounding: bool = False
) -> Demand | None:
    """The first thing in a descriptor (the fields of DESCRIPTOR) that no simulator here, and no
    launcher for one, gives a kernel, or that `simulator` does not: what lint, legalise and builds
    refuse alike. With `any_rounding`, how it rounds is none of that."""
    _, scratch, _, _, _, rsrc1, _, properties, preload = descriptor
    if properties & DYNAMIC_STACK:
        return Demand(
            ".amdhsa_uses_dynamic_stack 1",
            "needs a stack that grows while it runs",
            "kernels must not recurse, call functions by address, or have arrays of variable size",
        )
    if scratch:
        return Demand(
            f".amdhsa_private_segment_fixed_size {scratch}",
            f"needs {scratch} bytes of scratch memory",
            "kernels must not spill registers, index local arrays or call functions",
        )
    if properties & WAVEFRONT_SIZE_32:
        return Demand(
            ".amdhsa_wavefront_size32 1",
            "needs wavefronts of 32 work-items",
            "compile with -mwavefrontsize64",
        )
    if preload:
        words = preload & PRELOADED
        return Demand(
            f".amdhsa_user_sgpr_kernarg_preload_length {words}",
            f"needs {words} words of its arguments in registers before it begins",
            "compile with -mllvm -amdgpu-kernarg-preload-count=0",
        )
    for at, floats in enumerate(() if any_rounding else ("32", "16_64")):
        if mode := rsrc1 >> (ROUND_MODES + 2 * at) & 3:
            return Demand(
                f".amdhsa_float_round_mode_{floats} {mode}",
                "needs results that are not rounded to nearest, as simulators round",
                f"write .amdhsa_float_round_mode_{floats} 0",
            )
    for bit, (name, what) in LEFT_OUT.get(simulator, {}).items():
        if properties >> bit & 1:
            return Demand(
                f".amdhsa_user_sgpr_{name} 1",
                f"needs {what} in registers, which {simulator} does not give it",
                "take it out, or run the kernel on another simulator",
            )
    return None


@dataclass(frozen=True)
class KernelInfo:
    """Resources of one kernel, from its descriptor."""

    descriptor_offset: int  # bytes from the start of the memory image; a multiple of 64
    lds_nbytes: int  # per work-group
    scratch_nbytes: int  # per work-item
    kernarg_nbytes: int
    sgprs: int  # allocated for one wavefront
    vgprs: int  # allocated for one work-item


def machine(elf: bytes) -> str:
    """The processor a code object is for: "gfx902".

    Raises:
        DamagedError: `elf` is not a linked code object of a known processor.
    """
    with _opened(elf) as opened:
        return _machine(opened)[0]


def memory_image(elf: bytes) -> bytes:
    """The bytes to place at a 4 KiB boundary: segments at their virtual addresses, zeros between.

    Ends `FETCH_AHEAD` bytes after the last instruction. What lies behind the instructions in the
    file (the dynamic linker's tables) is left out.

    Raises:
        DamagedError: `elf` is not a linked code object of a known processor.
        SimgenError: the code object needs a loader: it has global objects, or relocations other
            than those of `relocated`.
    """
    with _opened(elf) as opened:
        _machine(opened)
        words = _addresses(opened)
        segments = list(opened.iter_segments("PT_LOAD"))
        held = [(s["p_vaddr"], s["p_vaddr"] + s["p_memsz"], s["p_flags"] & PF_X) for s in segments]
        code = max((end for _, end, runs in held if runs), default=0)
        size = max([code, *(end for start, end, _ in held for at in words if start <= at < end)])
        if not code or size > MOST_NBYTES:
            raise DamagedError("code object: no code, or too much of it; build it again")
        image = bytearray(size)
        if size > code:  # data behind the code
            image[code : code + FETCH_AHEAD] = S_NOP * (FETCH_AHEAD // len(S_NOP))
        for segment in segments:
            start, data = segment["p_vaddr"], segment.data()
            if start + len(data) <= size:
                image[start : start + len(data)] = data
        for at, addend in words.items():
            if not 0 <= at <= size - ADDRESS.size:
                raise DamagedError(f"code object: no place {at:#x} for an address; build it again")
            ADDRESS.pack_into(image, at, addend)
    image += bytes(-size % len(S_NOP))
    return bytes(image) + S_NOP * (FETCH_AHEAD // len(S_NOP))


def relocated(elf: bytes) -> tuple[int, ...]:
    """Where a memory image has 64-bit words to which its address is to be added.

    Raises:
        DamagedError: `elf` is not a linked code object.
    """
    with _opened(elf) as opened:
        return tuple(_addresses(opened))


def kernels(elf: bytes, *, any_rounding: bool = False) -> dict[str, KernelInfo]:
    """Resources of each kernel by name; with `any_rounding`, also where it asks for another one.

    Raises:
        DamagedError: `elf` is not a linked code object of a known processor.
        SimgenError: a kernel needs scratch memory or a stack, which no launcher of ours sets up.
    """
    image = memory_image(elf)
    with _opened(elf) as opened:
        processor, granule = _machine(opened)
        found = {
            symbol.name.removesuffix(".kd"): _info(image, symbol, processor, granule, any_rounding)
            for symbol in _symbols(opened)
            if symbol.name.endswith(".kd")
        }
    if not found:
        raise DamagedError("code object: it holds no kernel; build it again")
    return found


def instructions(elf: bytes, kernel: str) -> bytes:
    """The machine code of a kernel.

    Raises:
        DamagedError: `elf` is not a linked code object, or does not hold the kernel.
    """
    with _opened(elf) as opened:
        for symbol in _symbols(opened):
            if symbol.name == kernel:
                start, nbytes = symbol["st_value"], symbol["st_size"]
                for segment in opened.iter_segments("PT_LOAD"):
                    at = start - segment["p_vaddr"]
                    if at >= 0 and at + nbytes <= segment["p_filesz"]:
                        return bytes(segment.data()[at : at + nbytes])
    raise DamagedError(f"code object: it does not hold kernel {kernel}; build it again")


def for_granule(image: bytes, info: KernelInfo, granule: int) -> bytes:
    """A memory image with the kernel's vector registers counted in another granule: that of the
    GPU that a simulator is told, where that is not the one that the code is for.

    Raises:
        RefusedError: such a GPU has not so many registers.
    """
    encoded = -(-info.vgprs // granule) - 1
    if encoded > VGPRS_MASK:
        most = (VGPRS_MASK + 1) * granule
        raise RefusedError(
            f"code object: a kernel takes {info.vgprs} vector registers, and the simulated GPU has "
            f"{most}; take an {spelled('arch')} that has no matrix instructions, or plan for "
            "another machine"
        )
    at = info.descriptor_offset + RSRC1
    (word,) = struct.unpack_from("<I", image, at)
    changed = struct.pack("<I", word & ~VGPRS_MASK | encoded)
    return image[:at] + changed + image[at + len(changed) :]


@contextlib.contextmanager
def _opened(elf: bytes) -> Iterator[ELFFile]:
    """The parsed file; whatever the parser trips over is a damaged file."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        opened = ELFFile(io.BytesIO(elf))
        if opened["e_machine"] != "EM_AMDGPU" or opened["e_type"] != "ET_DYN":
            raise DamagedError("code object: not a linked AMDGPU code object; build it again")
        yield opened
    except (ELFError, ValueError, LookupError, AttributeError, OverflowError) as error:
        raise DamagedError(f"code object: not a whole ELF file ({error}); build it again") from None


def _machine(elf: ELFFile) -> tuple[str, int]:
    number = elf["e_flags"] & 0xFF
    if number not in MACHINES:
        known = ", ".join(name for name, _ in MACHINES.values())
        raise DamagedError(f"code object: unknown processor {number:#x}; known: {known}")
    return MACHINES[number]


def _symbols(elf: ELFFile) -> Iterator[Any]:
    from elftools.elf.sections import SymbolTableSection

    table = elf.get_section_by_name(".dynsym")
    if isinstance(table, SymbolTableSection):
        yield from table.iter_symbols()


def _addresses(elf: ELFFile) -> dict[int, int]:
    """Where addresses lie, and what each is relative to the image's.

    Raises:
        SimgenError: a loader would have more to do.
    """
    from elftools.elf.relocation import RelocationSection

    found: dict[int, int] = {}
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection) and section.num_relocations():
            rows = list(section.iter_relocations())
            if any(row["r_info_type"] != RELATIVE for row in rows):
                raise SimgenError(
                    f"code object: {section.name} has {len(rows)} relocations; "
                    "kernels must not refer to global objects or functions"
                )
            found |= {row["r_offset"]: row["r_addend"] for row in rows}
    for symbol in _symbols(elf):
        begin = symbol["st_value"]
        is_object = symbol["st_info"]["type"] == "STT_OBJECT"
        is_table = any(begin <= at < begin + symbol["st_size"] for at in found)
        known = is_table or symbol.name.startswith(MODULE_ID) or symbol.name.endswith(".kd")
        if is_object and not known:
            raise SimgenError(
                f"code object: {symbol.name!r} is a global object; kernels must not have any"
            )
    return found


def _info(
    image: bytes, symbol: Any, processor: str, granule: int, any_rounding: bool
) -> KernelInfo:
    at = symbol["st_value"]
    if at % DESCRIPTOR_NBYTES or at + DESCRIPTOR_NBYTES > len(image):
        raise DamagedError(f"code object: {symbol.name} lies at {at:#x}; build it again")
    lds, scratch, kernarg, entry, _, rsrc1, *_ = found = DESCRIPTOR.unpack_from(image, at)
    if not 0 <= at + entry < len(image) - FETCH_AHEAD:
        raise DamagedError(f"code object: {symbol.name} starts outside its code; build it again")
    if asked := demand(found, any_rounding=any_rounding):
        raise SimgenError(f"code object: kernel {symbol.name[:-3]} {asked.fact}; {asked.cure}")
    encoded = rsrc1 >> 6 & 15
    sgprs = (encoded // 2 + 1) * 16 if processor.startswith("gfx9") else (encoded + 1) * 8
    vgprs = ((rsrc1 & VGPRS_MASK) + 1) * granule
    return KernelInfo(at, lds, scratch, kernarg, sgprs, vgprs)
