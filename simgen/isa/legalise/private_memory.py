"""Private memory (scratch) of work-items as ordinary memory, for simulators whose own is wrong.

What spills, and arrays that are indexed by data, compilers for gfx9 put into scratch_load_* and
scratch_store_* (`+enable-flat-scratch`). gem5 lays the words of a lane at places that depend on how
many are moved at once (`swizzleAddr` in op_encodings.hh), so that what was stored as two words is
not what is loaded as one. Here they become global_load_* and global_store_*, of memory that the
launcher has behind the tensors:

    s[base]                    where it begins
    v(offset) = stride * (64 * wavefront + lane)
    scratch_load_dword v1, v2, off offset:4  ->  v_add_u32 v3, v(offset), v2
                                                 global_load_dword v1, v3, s[base] offset:4

Wavefronts get their numbers as they begin, by counting. The launcher puts behind a kernel's
arguments, at the next multiple of 8, the address of the memory and a word to count in, which is 0.
Functions that are called have these registers too, and the stack of calls lies in this memory.
Each launch has its own arguments. Metadata goes on to tell how many bytes a work-item needs
(`.private_segment_fixed_size`); the descriptor asks for none.

On a GPU, the words of lanes lie side by side. Here each lane's lie together: what a program reads
is the same, and how many lines of caches an instruction touches is not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from simgen.errors import RefusedError
from simgen.isa.legalise.assembly import AssemblyKernel, Instruction, parse, raise_counts
from simgen.isa.legalise.rewritten import Legalised
from simgen.isa.legalise.site import MOST_SGPRS, MOST_VGPRS

LANES = 64  # lanes of a wavefront
GRAIN = 16  # bytes that a lane's memory is a multiple of
BEHIND_NBYTES = 16  # an address, the counter, and what fills them up
STACK_NBYTES = 1024  # stack for calls of unknown depth, besides _SIZE; HIP's runtime has the same
_SIZE, _DYNAMIC = "private_segment_fixed_size", "uses_dynamic_stack"
_GROWS = re.compile(r"s_add_[iu]32 s32, s32, (?!-)")
_ACCESS = re.compile(r"scratch_(load|store)_\w+\Z")
# Registers for users that come before the address of the arguments, and how many each has.
_BEFORE = {"private_segment_buffer": 4, "dispatch_ptr": 2, "queue_ptr": 2}
_CALLS = "inline functions, or call them by their names"
_CURE = "index local arrays by constants, or let a work-group have fewer work-items"


def stride(nbytes: int) -> int:
    """Bytes from the memory of a lane to that of the next one."""
    return -(-nbytes // GRAIN) * GRAIN


def behind(kernarg_nbytes: int) -> int:
    """Offset of the address behind a kernel's own arguments."""
    return -(-kernarg_nbytes // 8) * 8


def rewrite(text: str, arch: str) -> Legalised:
    """Assembly text (in the layout of clang's) whose kernels need no private memory of a launcher.

    Raises:
        RefusedError: a pointer to private memory is passed on, or there are too few registers.
    """
    lines = text.split("\n")
    count: Counter[str] = Counter()
    before = added = 0
    found = parse(lines)
    called = [each for each in found if each.callers]
    for kernel in found:
        before += sum(isinstance(item, Instruction) for item in kernel.items.values())
        if kernel.callers:
            continue
        grows = kernel.counts.get(_DYNAMIC, (0, 0))[1]
        nbytes = kernel.counts.get(_SIZE, (0, 0))[1] + (STACK_NBYTES if grows else 0)
        if nbytes:
            if called and len(called) + 1 < len(found):
                raise _refusal(kernel, "calls functions, as other kernels beside it do")
            added += _kernel(lines, kernel, called, nbytes, arch, count)
    return Legalised("\n".join(lines), before, dict(sorted(count.items())), added)


def _kernel(
    lines: list[str], kernel: AssemblyKernel, called: Sequence[AssemblyKernel], nbytes: int,
    arch: str, count: Counter[str],
) -> int:  # fmt: skip
    offset, held = f"v{kernel.vgprs}", f"v{kernel.vgprs + 1}"
    first = -(-kernel.sgprs // 2) * 2
    if kernel.vgprs + 2 > MOST_VGPRS or first + 6 > MOST_SGPRS:
        cure = _CALLS if called else _CURE
        raise _refusal(kernel, "has no register left to address its private memory with", cure)
    base = f"s[{first}:{first + 1}]"
    made = 0
    for function in (kernel, *called):
        for place, item in function.items.items():
            if not isinstance(item, Instruction):
                continue
            if any(each.startswith("src_private") for each in item.operands):
                raise _refusal(kernel, "passes a pointer to private memory on")
            new = _replaced(kernel, item, base, offset, held)
            if new is None and _DYNAMIC in kernel.counts and _GROWS.match(str(item)):
                new = [str(item), *_checked(first + 2, nbytes, place)]
            if new is not None:
                count[item.mnemonic] += 1
                made += len(new) - 1
                text = "\n".join(each if each.endswith(":") else f"\t{each}" for each in new)
                lines[place] = text + f"\t; for {item}"
    start = _start(kernel, arch, stride(nbytes), first, offset, held)
    lines[kernel.start] += "".join(f"\n\t{each}" for each in start)
    for name, value in ((_SIZE, 0), (_DYNAMIC, 0)):
        if name in kernel.counts:
            at = kernel.counts[name][0]
            lines[at] = re.sub(r"\d+(\s*)$", rf"{value}\1", lines[at])
    if f".{_SIZE}" in kernel.metadata:
        at = kernel.metadata[f".{_SIZE}"][0]
        lines[at] = re.sub(r"\d+(\s*)$", rf"{nbytes}\1", lines[at])
    where, kernarg = kernel.counts["kernarg_size"]
    lines[where] = re.sub(r"\d+(\s*)$", rf"{behind(kernarg) + BEHIND_NBYTES}\1", lines[where])
    raise_counts(lines, kernel, kernel.vgprs + 2, first + 6)
    return made + len(start)


def _checked(scalar: int, nbytes: int, place: int) -> list[str]:
    """What reads from the address 0, where nothing is, if the stack has grown out of its memory.
    SCC is nobody's behind the sum that moves the stack's end."""
    pair, label = f"s[{scalar}:{scalar + 1}]", f".Lsimgen_stack_{place}"
    return [
        f"s_cmp_le_u32 s32, {nbytes:#x}",
        f"s_cbranch_scc1 {label}",
        f"s_mov_b64 {pair}, 0",
        f"s_load_dword s{scalar}, {pair}, 0x0",
        "s_waitcnt lgkmcnt(0)",
        f"{label}:",
    ]


def _replaced(
    kernel: AssemblyKernel, item: Instruction, base: str, offset: str, held: str
) -> list[str] | None:
    """What stands for an instruction; None: it stays."""
    if item.operands and item.operands[0].startswith("flat_scratch"):
        return []  # is set up for nobody now
    if any("flat_scratch" in each for each in item.operands):
        raise _refusal(kernel, f"reads flat_scratch ({item})")
    access = _ACCESS.match(item.mnemonic)
    if not access:
        if item.mnemonic.startswith("scratch_"):
            raise _refusal(kernel, f"has {item.mnemonic}")
        return None
    load = access[1] == "load"
    data, own = item.operands[:2] if load else item.operands[1::-1]
    new = []
    address = offset
    for each in (own, item.operands[2]):
        if each != "off":
            new.append(f"v_add_u32_e32 {held}, {each}, {address}")
            address = held
    words = (data, address) if load else (address, data)
    name = item.mnemonic.replace("scratch", "global", 1)
    return [*new, str(replace(item, mnemonic=name, operands=(*words, base)))]


def _start(
    kernel: AssemblyKernel, arch: str, nbytes: int, first: int, offset: str, held: str
) -> list[str]:
    """What a kernel begins with: its wavefront's number, and each lane's offset."""
    counts = kernel.counts
    if not counts.get("user_sgpr_kernarg_segment_ptr", (0, 0))[1]:
        raise _refusal(kernel, "takes no arguments, behind which its private memory would be told")
    at = sum(n * counts.get(f"user_sgpr_{name}", (0, 0))[1] for name, n in _BEFORE.items())
    place = behind(counts["kernarg_size"][1])
    base, kept, number = f"s[{first}:{first + 1}]", f"s[{first + 2}:{first + 3}]", f"s{first + 4}"
    arguments = f"s[{at}:{at + 1}]"
    returns = "sc0" if arch in ("gfx942", "gfx950") else "glc"
    return [
        f"s_load_dwordx2 {base}, {arguments}, {place:#x}",
        f"s_mov_b64 {kept}, exec",
        "s_mov_b64 exec, 1",
        f"v_mov_b32_e32 {offset}, 0",
        f"v_mov_b32_e32 {held}, 1",
        f"global_atomic_add {held}, {offset}, {held}, {arguments} offset:{place + 8} {returns}",
        "s_waitcnt vmcnt(0) lgkmcnt(0)",
        f"v_readfirstlane_b32 {number}, {held}",
        "s_mov_b64 exec, -1",  # spilled scalars are in lanes that may be inactive
        f"s_mul_i32 {number}, {number}, {LANES * nbytes:#x}",
        f"s_mov_b32 s{first + 5}, {nbytes:#x}",
        f"v_mbcnt_lo_u32_b32 {offset}, -1, 0",
        f"v_mbcnt_hi_u32_b32 {offset}, -1, {offset}",
        f"v_mul_lo_u32 {offset}, {offset}, s{first + 5}",
        f"v_add_u32_e32 {offset}, {number}, {offset}",
        f"s_mov_b64 exec, {kept}",
    ]


def _refusal(kernel: AssemblyKernel, fact: str, cure: str = _CURE) -> RefusedError:
    return RefusedError(f"kernel {kernel.name}: it {fact}; {cure}")
