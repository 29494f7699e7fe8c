"""What gem5's GPU model executes otherwise than an AMD GPU does -> what it executes the same.

* A 16-bit vector instruction sets the upper half of its result's register to zero (gfx8 and gfx9),
  and compilers rely on it. gem5 leaves that half as it was.
* ds_read_b96 and ds_write_b96: gem5 moves three words for each lane between LDS and a buffer in
  which the instruction has four (`initMemRead<3>` and `lane * 4`), so that all lanes but the first
  get words of others. From 25.0 on both have three.
* A scalar load from the sum of a base, a register and a constant: gem5 leaves out the register
  (smem.cc reads IMM and not SOFFSET_EN). Compilers write it with a constant of zero; for that there
  is a form without the constant.
* ds_read_b128 and ds_write_b128: 21.0 (gfx801; the load) and the VEGA model of 21.2 do not
  implement them.
* Stores to memory of 21.0 read what they store when they are under way: what follows may have
  overwritten it by then. They are waited for.
* s_lshl1_add_u32 to s_lshl4_add_u32: the VEGA model decodes them and ends the simulation.
* v_pk_fma_f32, v_pk_mul_f32, v_pk_add_f32 (gfx90a, gfx942): gem5 reads an inline constant as a
  number of 64 bits, whose lower half is 0 for those of float32, and takes the sign of the first
  factor of v_pk_fma_f32 for all three. Such instructions become two of one float each.
* Reserved vector registers (gfx90a, gfx942): a GPU has 512, and where LDS leaves room for one
  wavefront the compiler reserves 257 for it, whatever it uses. gem5 has 256.

Which version has which of them, data/isa says. Seen in src/arch/amdgpu/vega/insts/ of gem5 at
c91af552, and in wrong results there. On a GPU the rewritten text computes the same as the original.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from simgen.errors import RefusedError
from simgen.isa.legalise.assembly import Instruction, parse, raise_counts, registers
from simgen.isa.legalise.site import MOST_VGPRS

# Instructions that clear the upper half, as LLVM knows (zeroesHigh16BitsOfDest).
HALF = re.compile(
    r"v_(?:lshlrev_b|lshrrev_b|ashrrev_i|add_u|sub_u|subrev_u|mul_lo_u|max_[ui]|min_[ui]|mad_u|mad_i)"
    r"16(?:_e32|_e64)?\Z"
)
LATE = re.compile(r"(?:flat|buffer)_store_(?:byte|short|dword)\w*\Z")
_SHIFT_ADD = re.compile(r"s_lshl([1-4])_add_u32\Z")
_PACKED = re.compile(r"v_pk_(fma|mul|add)_f32\Z")
_SCALAR_LOAD = re.compile(r"s_(?:buffer_)?load_dword")
_WAIT = re.compile(r"lgkmcnt\(\d+\)")


def upper_halves(lines: list[str]) -> None:
    """Let 16-bit instructions in a module's assembly text (clang's) clear the upper half."""
    for _, at, item in _instructions(lines):
        if HALF.match(item.mnemonic):
            result = item.operands[0]
            lines[at] += f"\n\tv_and_b32_e32 {result}, 0xffff, {result}"


def late_stores(lines: list[str]) -> None:
    """Let nothing follow a store before it is done."""
    for _, at, item in _instructions(lines):
        if LATE.match(item.mnemonic):
            lines[at] += "\n\ts_waitcnt vmcnt(0)"


def lds_three_words(lines: list[str]) -> None:
    """Leave no access to three words of LDS at once."""
    _narrowed(lines, ("ds_read_b96", "ds_write_b96"))


def lds_four_words(lines: list[str]) -> None:
    """Leave no access to four words of LDS at once."""
    _narrowed(lines, ("ds_read_b128", "ds_write_b128"))


def scalar_offset(lines: list[str]) -> None:
    """Leave no scalar load from the sum of a register and a constant.

    Raises:
        RefusedError: the constant is not zero.
    """
    for kernel, at, item in _instructions(lines):
        if _adds_register(item):
            lines[at] = f"\t{_without_constant(kernel, item)}"


def shift_add(lines: list[str]) -> None:
    """Put a shift and an addition where both were one scalar instruction.

    That instruction's carry is lost: no compiler asks for it. Where the result stands in the place
    of the summand, the shifted number is added as often as it counts, which takes no register.
    """
    for _, at, item in _instructions(lines):
        if found := _SHIFT_ADD.match(item.mnemonic):
            result, shifted, summand = item.operands
            add = f"\ts_add_u32 {result}, {result}, "
            if result == shifted == summand:
                lines[at] = f"\ts_mul_i32 {result}, {result}, {2 ** int(found[1]) + 1}"
            elif result == summand:
                lines[at] = "\n".join([add + shifted] * 2 ** int(found[1]))
            else:
                lines[at] = f"\ts_lshl_b32 {result}, {shifted}, {found[1]}\n{add}{summand}"


def reserved_registers(lines: list[str]) -> None:
    """Reserve the vector registers that a kernel has. Where LDS leaves room for one wavefront, the
    compiler reserves more than half of 512 for it, and gem5 has 256."""
    for kernel in parse(lines):
        at, count = kernel.counts.get("next_free_vgpr", (0, 0))
        own = kernel.counts.get("accum_offset", (0, kernel.vgprs))[1]
        own = max(kernel.vgprs, own + kernel.counts.get("num_agpr", (0, 0))[1])
        if count > MOST_VGPRS >= own:
            lines[at] = re.sub(r"\d+(\s*)$", rf"{own}\1", lines[at])


def packed_floats(lines: list[str]) -> None:
    """Leave no packed float32 arithmetic on constants or with a sign changed.

    Raises:
        RefusedError: neither half can be computed before the other one, and no register is left.
    """
    for kernel in parse(lines):
        more = 0
        for at, item in kernel.items.items():
            if not isinstance(item, Instruction) or not _PACKED.match(item.mnemonic):
                continue
            if not _plainly_packed(item):
                halves = _halves(kernel.name, item, kernel.vgprs)
                more |= len(halves) > 2
                lines[at] = "\n".join(f"\t{half}" for half in halves)
        if more:
            raise_counts(lines, kernel, kernel.vgprs + 1, kernel.sgprs)


def _instructions(lines: list[str]) -> list[tuple[str, int, Instruction]]:
    """(kernel, index of the line, instruction) of each."""
    return [
        (kernel.name, at, item)
        for kernel in parse(lines)
        for at, item in kernel.items.items()
        if isinstance(item, Instruction)
    ]


def _narrowed(lines: list[str], wide: tuple[str, ...]) -> None:
    """Wide accesses to LDS in two parts. What counted one of them as one operation has to wait for
    all."""
    for kernel in parse(lines):
        items = {at: i for at, i in kernel.items.items() if isinstance(i, Instruction)}
        split = [at for at, item in items.items() if item.mnemonic in wide]
        for at in split:
            lines[at] = "\n".join(f"\t{part}" for part in _split(items[at]))
        for at in kernel.items if split else ():
            lines[at] = _WAIT.sub("lgkmcnt(0)", lines[at])


def _adds_register(item: Instruction) -> bool:
    """Whether a scalar load has a register and a constant beside its base."""
    load = _SCALAR_LOAD.match(item.mnemonic)
    return bool(load and registers(item.operands[2]) and item.modifier("offset"))


def _without_constant(kernel: str, item: Instruction) -> Instruction:
    if int(item.modifier("offset") or "0", 0):
        raise RefusedError(
            f"gem5-se: kernel {kernel}: {item}: gem5 leaves out the register; write the kernel "
            "without an index that all work-items share, or run it on another target"
        )
    return replace(item, tail=tuple(w for w in item.tail if not w.startswith("offset:")))


def _plainly_packed(item: Instruction) -> bool:
    constant = any(not registers(operand) for operand in item.operands)
    return not constant and item.modifier("neg_lo") is item.modifier("neg_hi") is None


def _halves(kernel: str, item: Instruction, free: int) -> list[Instruction]:
    """Two instructions that compute a float each, the first of which leaves the other its sources;
    where each needs what the other one writes, the lower half waits in the vector register `free`.

    A constant is the same for both: what op_sel would choose beside its lower half is none.
    """
    verb = _PACKED.sub(r"v_\1_f32", item.mnemonic)
    results, sources = registers(item.operands[0]), item.operands[1:]
    made = []
    for half, (chosen, negated) in enumerate((("op_sel", "neg_lo"), ("op_sel_hi", "neg_hi"))):
        of = _bits(item, chosen, len(sources), half)
        signs = _bits(item, negated, len(sources), 0)
        words = [(registers(s) or (s, s))[at] for s, at in zip(sources, of, strict=True)]
        signed = [f"-{word}" if sign else word for word, sign in zip(words, signs, strict=True)]
        mnemonic = verb if verb == "v_fma_f32" else f"{verb}_e64"
        made.append((Instruction(mnemonic, (results[half], *signed)), words))
    (low, of_low), (high, of_high) = made
    if results[0] not in of_high:
        return [low, high]
    if results[1] not in of_low:
        return [high, low]
    if free >= MOST_VGPRS:
        raise RefusedError(
            f"gem5-se: kernel {kernel}: {item}: gem5 computes it wrongly, and it cannot be split; "
            "use another algorithm (--algo), or another target"
        )
    kept = replace(low, operands=(f"v{free}", *low.operands[1:]))
    return [kept, high, Instruction("v_mov_b32_e32", (results[0], f"v{free}"))]


def _bits(item: Instruction, modifier: str, count: int, default: int) -> list[int]:
    """[1,0,1] of a packed instruction's modifier."""
    told = item.modifier(modifier)
    return [int(bit) for bit in told.strip("[]").split(",")] if told else [default] * count


def _split(item: Instruction) -> list[str]:
    """Three or four words as two and the rest. A load's address must outlive its first part."""
    load = item.mnemonic.startswith("ds_read")
    words = registers(item.operands[0 if load else 1])
    address = item.operands[1 if load else 0]
    offset = int(item.modifier("offset") or 0)
    verb = "read" if load else "write"

    def part(data: Sequence[str], at: int) -> str:
        text = data[0] if len(data) == 1 else f"v[{data[0][1:]}:{data[-1][1:]}]"
        operands = (text, address) if load else (address, text)
        width = 32 * len(data)
        return f"ds_{verb}_b{width} {', '.join(operands)}" + (f" offset:{at}" if at else "")

    parts = [part(words[:2], offset), part(words[2:], offset + 8)]
    return parts[::-1] if address in words[:2] else parts
