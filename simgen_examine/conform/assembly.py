"""Kernels that execute forms one after the other and store what each leaves.

Every form gets its sources anew from registers that nothing else writes, executes once, and stores
its results: a block. So that the blocks of a kernel do not disturb each other, and that one of them
can be replaced by s_nop, nothing of a block is read by the next.

    kernel(values, results)

Vector kernels: lane l of work-group g has tuple 64 g + l. Scalar kernels: work-group g goes through
64 tuples, and lane l keeps what tuple 64 g + l gave; blocks without memory of their own share one
such loop, as simulators take their time for each instruction. A kernel of ids has one block and a
shape of its own.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from simgen.isa import toolchain
from simgen.isa.code_object import PACKED_IDS, S_NOP
from simgen_examine.conform import values
from simgen_examine.conform.arithmetic import BITS, KEPT, VCC
from simgen_examine.conform.description import SCALAR_MEMORY, SWITCH
from simgen_examine.conform.forms import RESULT, SOURCE, Form, Shape
from simgen_examine.conform.movements import LDS_NBYTES
from simgen_examine.conform.stores import adding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Placed = tuple[int, Form, int]  # a block's number, its form, byte of the results it begins at

BLOCKS = 128  # blocks of a kernel
PLANE = values.TUPLES * 4  # bytes: a word of each tuple
VECTOR_INPUT = values.SOURCES * 2 * PLANE
SCALAR_INPUT = values.TUPLES * 32
COPIES = 20  # the first of the registers that keep the sources, or what scalar forms leave
FILL = 26  # the first of four registers that windows are filled from
LOOP_RESULTS = 220  # registers that the forms of a loop may leave their results in
SECTION = ".conform"
_ENTRY = struct.Struct("<IIIII")


@dataclass(frozen=True)
class Assembled:
    """A kernel's code object, and where in its code the instruction of each block lies."""

    code: bytes
    # Fields: (byte from the kernel's start, bytes, where its block begins, where that ends)
    places: tuple[tuple[int, int, int, int], ...]
    together: tuple[int, ...]  # bytes of each with those behind it that are left out with it


def number_of(blocks: Sequence[Form], arch: str, instruction: int) -> int | None:
    """Which form the instruction with this number, from 0 on, is; None: it is none of them."""
    lines = text("k", blocks, arch).split("k:\n", 1)[1].splitlines()
    real = [line for line in lines if not line.startswith((";", "."))]
    tried = [line for at, line in enumerate(lines) if at and lines[at - 1].startswith(".Lfrom")]
    if not 0 <= instruction < len(real):
        return None
    before = sum(line.startswith(".Lfrom") for line in _until(lines, instruction))
    return before - 1 if before and real[instruction] == tried[before - 1] else None


def _until(lines: Sequence[str], instruction: int) -> list[str]:
    """The lines before the instruction with this number."""
    count, found = -1, []
    for line in lines:
        count += not line.startswith((";", "."))
        if count == instruction:
            break
        found.append(line)
    return found


def without(made: Assembled, numbers: Sequence[int], name: str) -> bytes:
    """The code object with s_nop in the place of some forms."""
    from elftools.elf.elffile import ELFFile

    file, code = ELFFile(io.BytesIO(made.code)), bytearray(made.code)
    symbols: Any = file.get_section_by_name(".dynsym")
    start = symbols.get_symbol_by_name(name)[0]["st_value"]
    (segment,) = (
        each for each in file.iter_segments("PT_LOAD")
        if each["p_vaddr"] <= start < each["p_vaddr"] + each["p_filesz"]
    )  # fmt: skip
    first = segment["p_offset"] + start - segment["p_vaddr"]
    for number in numbers:
        at, nbytes = made.places[number][0], made.together[number]
        code[first + at : first + at + nbytes] = S_NOP * (nbytes // len(S_NOP))
    return bytes(code)


def words(form: Form) -> int:
    """Words that a form stores for each tuple."""
    return len(form.outputs) + form.window


def text(name: str, blocks: Sequence[Form], arch: str) -> str:
    """The assembly of a kernel; its blocks are all scalar or all not, and have one `mode`; one of
    ids is alone."""
    body: list[str] = []
    for part in _parts(blocks):
        if _looped(part[0][1]):
            body += _scalar_loop(part, arch)
            continue
        ((at, form, place),) = part
        make = _id_block if form.shape else _scalar_block if form.scalar else _vector_block
        body += [f".Lblock{at}:", *make(form, at, arch, place), f".Lend{at}:"]
    start = _scalar_start(arch) if blocks[0].scalar else _vector_start(arch)
    if shape := blocks[0].shape:
        start = _id_start(shape, arch)
    return "\n".join(
        [f'.amdgcn_target "amdgcn-amd-amdhsa--{arch}"', ".text", f".globl {name}", ".p2align 8",
         f".type {name},@function", f"{name}:", *start, *body, "s_endpgm", f".Lend_{name}:",
         f".size {name}, .Lend_{name}-{name}",
         *_descriptor(name, arch, blocks),
         f'.section {SECTION},"",@progbits',
         *(f".long .Lfrom{at}-{name}, .Lto{at}-.Lfrom{at}, .Lblock{at}-{name}, .Lend{at}-{name}, "
           f".Lwith{at}-.Lfrom{at}" for at in range(len(blocks))), ""]
    )  # fmt: skip


def _looped(form: Form) -> bool:
    """Whether a form shares a loop with others: one without memory of its own."""
    return form.scalar and not form.window


def _parts(blocks: Sequence[Form]) -> Iterator[list[Placed]]:
    """The blocks, in order: those of a loop together, as many as there are registers for, and each
    other one alone."""
    part: list[Placed] = []
    held = place = 0
    for at, form in enumerate(blocks):
        full = held + len(form.outputs) > LOOP_RESULTS
        if part and (full or not _looped(form) or not _looped(part[0][1])):
            yield part
            part, held = [], 0
        part.append((at, form, place))
        held += len(form.outputs)
        place += words(form) * PLANE
    yield part


def name_of(blocks: Sequence[Form], arch: str) -> str:
    """The name of their kernel: the same whenever they are tried, and of no others."""
    digest = hashlib.sha256(text("k", blocks, arch).encode()).digest()
    return f"conform_{int.from_bytes(digest[:8])}"


def assembled(blocks: Sequence[Form], arch: str) -> Assembled:
    """The linked code object of a kernel."""
    from elftools.elf.elffile import ELFFile

    code = _code(text(name_of(blocks, arch), blocks, arch), arch)
    section: Any = ELFFile(io.BytesIO(code)).get_section_by_name(SECTION)
    entries = list(_ENTRY.iter_unpack(section.data()))
    places = tuple((at, nbytes, begin, end) for at, nbytes, begin, end, _ in entries)
    return Assembled(code, places, tuple(together for *_, together in entries))


_code = cache(toolchain.assemble)  # what is tried has been assembled to see what rules refuse


def _address(arch: str, base: str, high: str, to: int = 2) -> list[str]:
    """Two vector registers = a scalar address + v1."""
    add, addc = adding(arch)
    return [
        f"v_mov_b32_e32 v{to + 1}, {high}", f"{add} v{to}, vcc, {base}, v1",
        f"{addc} v{to + 1}, vcc, 0, v{to + 1}, vcc",
    ]  # fmt: skip


def _advance(arch: str) -> list[str]:
    """v[2:3] to the next plane."""
    add, addc = adding(arch)
    return [f"{add} v2, vcc, {PLANE:#x}, v2", f"{addc} v3, vcc, 0, v3, vcc"]


def _load(arch: str, register: str) -> str:
    if arch.startswith("gfx8"):
        return f"flat_load_dword {register}, v[2:3]"
    return f"global_load_dword {register}, v[2:3], off"


def _store(arch: str, register: str, place: int) -> list[str]:
    """To a byte from where the kernel's results begin."""
    add, addc = adding(arch)
    lines = [f"{add} v2, vcc, {place:#x}, v16", f"{addc} v3, vcc, 0, v17, vcc"]
    if arch.startswith("gfx8"):
        return [*lines, f"flat_store_dword v[2:3], {register}"]
    return [*lines, f"global_store_dword v[2:3], {register}, off"]


def _start(arch: str) -> list[str]:
    """s[4:5] is where values lie, s[6:7] where results go; v1 is four times the tuple, and v[16:17]
    will be where its first result goes."""
    return [
        "s_load_dwordx4 s[4:7], s[0:1], 0x0",
        "s_lshl_b32 s3, s2, 6",
        "v_or_b32_e32 v1, s3, v0",
        "v_lshlrev_b32_e32 v1, 2, v1",
        "s_waitcnt lgkmcnt(0)",
    ]


def _vector_start(arch: str) -> list[str]:
    """s[56:57] and s[58:59] are what VCC and the bits of lanes are before each instruction."""
    lines = [*_start(arch), *_pair("s56", "s57", VCC), *_pair("s58", "s59", BITS)]
    lines += _address(arch, "s4", "s5")
    for at in range(values.SOURCES * 2):
        lines += [_load(arch, f"v{COPIES + at}"), *_advance(arch)]
    return [*lines, "s_waitcnt vmcnt(0) lgkmcnt(0)", *_address(arch, "s6", "s7", 16)]


def _vector_block(form: Form, at: int, arch: str, place: int) -> list[str]:
    # What ends a simulator may leave its block early. gfx8: m0 limits LDS.
    lines = [f"; {form.text}", "s_mov_b64 exec, -1", "s_mov_b32 m0, -1"]
    named = _named(form)
    words = range(2 * len(form.signature))
    lines += [
        f"v_mov_b32_e32 v{SOURCE + at}, v{COPIES + at}" for at in words if SOURCE + at in named
    ]
    lines += [f"v_mov_b32_e32 v{n}, {KEPT:#x}" for n in range(RESULT, RESULT + 4) if n in named]
    if form.window:
        lines += _window(form, arch, place + len(form.outputs) * PLANE)
    lines += ["s_mov_b64 vcc, s[56:57]", "s_mov_b64 s[30:31], s[58:59]"]
    lines += ["s_mov_b64 s[34:35], s[58:59]", *form.setup]
    if form.lanes != Form.lanes:
        lines += [*_pair("s46", "s47", form.lanes), "s_mov_b64 exec, s[46:47]"]
    # What shows a switch, and turns it back, is left out with it.
    switch, after = form.instruction.format == SWITCH, form.after
    lines += ["s_nop 4", f".Lfrom{at}:", form.text, f".Lto{at}:"]
    lines += [*(after if switch else ()), f".Lwith{at}:", "s_nop 4"]
    if form.instruction.format in ("DS", "FLAT", "MUBUF"):
        lines.append("s_waitcnt vmcnt(0) lgkmcnt(0)")
    if "s36" in form.outputs:
        lines.append("s_mov_b64 s[36:37], exec")
    if "s32" in form.outputs:  # MGPUSim reads vcc_hi wrongly: that is tried by itself
        lines.append("s_mov_b64 s[32:33], vcc")
    if "s36" in form.outputs or form.lanes != Form.lanes:
        lines.append("s_mov_b64 exec, -1")
    lines += () if switch else after
    moved = []
    for n, output in enumerate(form.outputs):
        if output[0] != "v":
            lines.append(f"v_mov_b32_e32 v{12 + n}, {output}")
            moved.append(f"v{12 + n}")
        else:
            moved.append(output)
    for register in moved:
        lines += _store(arch, register, place)
        place += PLANE
    return lines


def _named(form: Form) -> set[int]:
    """The numbers of the vector registers that a form or what goes with it names."""
    lines = " ".join((form.text, *form.setup, *form.after, *form.outputs))
    named = re.findall(r"\bv\[?(\d+)(?::(\d+))?", lines)
    return {n for low, high in named for n in range(int(low), int(high or low) + 1)}


def _window(form: Form, arch: str, place: int) -> list[str]:
    """Each lane's words of memory, behind byte `place` of the results, filled; v18 is where they
    lie behind s[6:7], and v[14:15] their address.

    Lanes fill what lies side by side, whosever it is: simulators take their time for each line of
    a cache that an instruction touches.
    """
    add, addc = adding(arch)
    nbytes = values.LANES * form.window * 4  # bytes of a wavefront
    lines = [
        f"v_lshlrev_b32_e32 v18, {form.window.bit_length() - 1}, v1",
        f"{add} v18, vcc, {place:#x}, v18", "v_mov_b32_e32 v15, s7", f"{add} v14, vcc, s6, v18",
        f"{addc} v15, vcc, 0, v15, vcc", f"s_mul_i32 s46, s2, {nbytes:#x}",
        f"s_add_u32 s46, s46, {place:#x}", "s_add_u32 s46, s46, s6", "s_addc_u32 s47, s7, 0",
        "v_lshlrev_b32_e32 v2, 4, v0", f"{add} v2, vcc, s46, v2", "v_mov_b32_e32 v3, s47",
        f"{addc} v3, vcc, 0, v3, vcc",
        *(f"v_mov_b32_e32 v{FILL + n}, {KEPT:#x}" for n in range(4)),
    ]  # fmt: skip
    quad, step = f"v[{FILL}:{FILL + 3}]", 16 * values.LANES
    for at in range(0, nbytes, step):
        if not arch.startswith("gfx8"):
            lines.append(f"global_store_dwordx4 v[2:3], {quad}, off offset:{at}")
            continue
        lines.append(f"flat_store_dwordx4 v[2:3], {quad}")
        if at + step < nbytes:
            lines += [f"{add} v2, vcc, {step:#x}, v2", f"{addc} v3, vcc, 0, v3, vcc"]
    return [*lines, "s_waitcnt vmcnt(0) lgkmcnt(0)"]


def _pair(low: str, high: str, value: int) -> list[str]:
    return [f"s_mov_b32 {low}, {value & 0xFFFFFFFF:#x}", f"s_mov_b32 {high}, {value >> 32:#x}"]


def _scalar_start(arch: str) -> list[str]:
    """s[8:9] is where the work-group's tuples lie, of 32 bytes each."""
    return [
        *_start(arch), *_address(arch, "s6", "s7", 16),
        "s_lshl_b32 s8, s2, 11", "s_add_u32 s8, s8, s4",
        "s_addc_u32 s9, s5, 0",
    ]  # fmt: skip


def _scalar_block(form: Form, at: int, arch: str, place: int) -> list[str]:
    """Words of a tuple: a, b (two each), the bit that SCC is before; s[14:15] are its own words of
    memory, of a form that has some."""
    lines = [f"; {form.text}"]
    where: list[str] = []
    if form.window:
        first = place + len(form.outputs) * PLANE
        lines += ["s_mov_b64 exec, -1", *_window(form, arch, first)]
        where = [
            f"s_sub_u32 s14, {values.LANES}, s44", "s_lshl_b32 s15, s2, 6",
            "s_add_u32 s14, s14, s15", f"s_lshl_b32 s14, s14, {form.window.bit_length() + 1}",
            f"s_add_u32 s14, s14, {first:#x}", "s_add_u32 s14, s14, s6", "s_addc_u32 s15, s7, 0",
        ]  # fmt: skip
    lines += [
        "s_mov_b32 s42, s8", "s_mov_b32 s43, s9", "s_mov_b32 s40, 1",
        "s_mov_b32 s41, 0", f"s_mov_b32 s44, {values.LANES}", f".Lloop{at}:",
        "s_load_dwordx8 s[20:27], s[42:43], 0x0", "s_waitcnt lgkmcnt(0)",
        *_pair("s30", "s31", KEPT << 32 | KEPT), *where, *form.setup, "s_cmp_lg_u32 s24, 0",
        # What follows a store is left out with it: a simulator that lacks one lacks the other.
        f".Lfrom{at}:", form.text, f".Lto{at}:", *form.after, f".Lwith{at}:",
        "s_cselect_b32 s38, 1, 0",
    ]  # fmt: skip
    if form.instruction.format == SCALAR_MEMORY:
        lines.append("s_waitcnt lgkmcnt(0)")
    lines.append("s_mov_b64 exec, s[40:41]")
    registers = []
    for n, output in enumerate(form.outputs):
        lines.append(f"v_mov_b32_e32 v{COPIES + n}, {'s38' if output == 'scc' else output}")
        registers.append(f"v{COPIES + n}")
    lines += [*_next_tuple(f".Lloop{at}"), "s_mov_b64 exec, -1"]
    for register in registers:
        lines += _store(arch, register, place)
        place += PLANE
    return lines


def _scalar_loop(part: Sequence[Placed], arch: str) -> list[str]:
    """Each form of a part in turn, with one tuple after the other; see `_scalar_block`."""
    first = part[0][0]
    lines = [
        "s_mov_b32 s42, s8", "s_mov_b32 s43, s9", "s_mov_b32 s40, 1", "s_mov_b32 s41, 0",
        f"s_mov_b32 s44, {values.LANES}", *_pair("s46", "s47", KEPT << 32 | KEPT),
        f".Lloop{first}:", "s_load_dwordx8 s[20:27], s[42:43], 0x0", "s_waitcnt lgkmcnt(0)",
        "s_mov_b64 exec, s[40:41]",
    ]  # fmt: skip
    kept: list[tuple[str, int]] = []
    for at, form, place in part:
        pairs = {int(each[1:]) & ~1 for each in form.outputs if each != "scc"}
        lines += [
            f"; {form.text}", f".Lblock{at}:",
            *(f"s_mov_b64 s[{n}:{n + 1}], s[46:47]" for n in sorted(pairs)), *form.setup,
            "s_cmp_lg_u32 s24, 0", f".Lfrom{at}:", form.text, f".Lto{at}:", *form.after,
            f".Lwith{at}:",
        ]  # fmt: skip
        if "scc" in form.outputs:
            lines.append("s_cselect_b32 s38, 1, 0")
        if form.instruction.format == SCALAR_MEMORY:
            lines.append("s_waitcnt lgkmcnt(0)")
        for n, output in enumerate(form.outputs):
            register = f"v{COPIES + len(kept)}"
            lines.append(f"v_mov_b32_e32 {register}, {'s38' if output == 'scc' else output}")
            kept.append((register, place + n * PLANE))
        lines.append(f".Lend{at}:")
    lines += [*_next_tuple(f".Lloop{first}"), "s_mov_b64 exec, -1"]
    for register, place in kept:
        lines += _store(arch, register, place)
    return lines


def _next_tuple(loop: str) -> list[str]:
    """To a loop's begin again, for the next lane, while there is one."""
    return [
        "s_lshl_b64 s[40:41], s[40:41], 1", "s_add_u32 s42, s42, 32", "s_addc_u32 s43, s43, 0",
        "s_sub_u32 s44, s44, 1", "s_cmp_lg_u32 s44, 0", f"s_cbranch_scc1 {loop}",
    ]  # fmt: skip


def _id_start(shape: Shape, arch: str) -> list[str]:
    """v4 is the lane, v5 to v7 are the ids of the work-item, v8 to v10 those of its work-group;
    v[16:17] is where the first result of the work-item with these ids goes."""
    lines = ["s_load_dwordx4 s[12:15], s[0:1], 0x0", "s_mov_b64 s[16:17], exec"]
    if arch in PACKED_IDS:
        for n in range(3):
            lines += [f"v_lshrrev_b32_e32 v{5 + n}, {10 * n}, v0",
                      f"v_and_b32_e32 v{5 + n}, 0x3ff, v{5 + n}"]  # fmt: skip
    else:
        given = _dimensions(shape)
        lines += [f"v_mov_b32_e32 v{5 + n}, {f'v{n}' if n < given else 0}" for n in range(3)]
    for n, axis in enumerate("xyz"):
        at = shape.ids.find(axis)
        lines.append(f"v_mov_b32_e32 v{8 + n}, {f's{2 + at}' if at >= 0 else 0}")
    lines.append("v_mov_b32_e32 v4, 0")  # no mbcnt: MGPUSim lacks it
    for bit in range(6):
        mask = sum(1 << lane for lane in range(values.LANES) if lane >> bit & 1)
        lines += [*_pair("s18", "s19", mask), "s_mov_b64 exec, s[18:19]",
                  f"v_or_b32_e32 v4, {1 << bit}, v4"]  # fmt: skip
    lines += ["s_mov_b64 exec, s[16:17]", "v_mov_b32_e32 v1, v10"]
    (x, y, _), (a, b, c) = shape.grid, shape.group
    # ((((gz Y + gy) X + gx) c + z) b + y) a + x, or the last place, should ids be too large
    for extent, register in ((y, 9), (x, 8), (c, 7), (b, 6), (a, 5)):
        lines += [f"v_mov_b32_e32 v2, {extent:#x}", "v_mul_lo_u32 v1, v1, v2",
                  f"{adding(arch)[0]} v1, vcc, v{register}, v1"]  # fmt: skip
    lines += [
        f"v_mov_b32_e32 v2, {values.TUPLES - 1:#x}", "v_min_u32_e32 v1, v2, v1",
        "v_lshlrev_b32_e32 v1, 2, v1", "s_waitcnt lgkmcnt(0)", "s_mov_b32 s6, s14",
        "s_mov_b32 s7, s15",
    ]  # fmt: skip
    return [*lines, *_address(arch, "s6", "s7", 16)]


def _id_block(form: Form, at: int, arch: str, place: int) -> list[str]:
    lines = [f"; {form.text}", f".Lfrom{at}:", "s_nop 0", f".Lto{at}:", f".Lwith{at}:"]
    for register in form.outputs:
        lines += _store(arch, register, place)
        place += PLANE
    return lines


def _dimensions(shape: Shape) -> int:
    """Number of dimensions for which the kernel requests ids of work-items."""
    return max(n + 1 for n in range(3) if n == 0 or shape.group[n] > 1)


def _descriptor(name: str, arch: str, blocks: Sequence[Form]) -> list[str]:
    """As clang writes it, and how floats are rounded and flushed."""
    form = blocks[0]
    registers = max(each.registers for each in blocks)
    if any(map(_looped, blocks)):
        registers = max(registers, COPIES + LOOP_RESULTS)
    told = {
        "user_sgpr_kernarg_segment_ptr": 1, "kernarg_size": 16,
        "group_segment_fixed_size": LDS_NBYTES, "next_free_vgpr": registers,
        "next_free_sgpr": 64, "system_sgpr_workgroup_id_x": 1,
        **form.mode.directives, "dx10_clamp": 1,
    }  # fmt: skip
    if arch in PACKED_IDS:
        told["accum_offset"] = registers
    if shape := form.shape:
        told |= {f"system_sgpr_workgroup_id_{axis}": int(axis in shape.ids) for axis in "xyz"}
        told["system_vgpr_workitem_id"] = _dimensions(shape) - 1
    return [
        ".rodata", ".p2align 6", f".amdhsa_kernel {name}",
        *(f".amdhsa_{key} {value}" for key, value in told.items()), ".end_amdhsa_kernel", ".text",
    ]  # fmt: skip
