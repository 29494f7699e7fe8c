"""Machine code -> assembly text, as clang prints it, of the formats that kernels are made of.

Which operands an instruction has, and how wide they are, the sample line of data/encodings says.
What this does not know (matrix instructions with accumulation registers, buffers, SDWA and DPP
forms) raises `NotKnownError`; whoever assembles the text again compares the bytes.

Source: AMD's instruction set manuals ("Graphics Core Next 3", "Vega" and "MI300"), chapter
"Microcode Formats", and LLVM's AMDGPUInstPrinter.cpp.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence

from simgen.isa.legalise.implemented import VOP3B
from simgen.isa.legalise.machine_code import DPP, Decoded
from simgen.isa.lint import naming

_RANGE = re.compile(r"[vsa]\[(\d+):(\d+)\]$")
_SPECIAL = {
    102: "flat_scratch_lo", 103: "flat_scratch_hi", 104: "xnack_mask_lo", 105: "xnack_mask_hi",
    106: "vcc_lo", 107: "vcc_hi", 124: "m0", 126: "exec_lo", 127: "exec_hi", 235: "src_shared_base",
    236: "src_shared_limit", 237: "src_private_base", 238: "src_private_limit", 240: "0.5",
    241: "-0.5", 242: "1.0", 243: "-1.0", 244: "2.0", 245: "-2.0", 246: "4.0", 247: "-4.0",
    248: "0.15915494", 251: "src_vccz", 252: "src_execz", 253: "src_scc",
}  # fmt: skip
_PAIRS = {102: "flat_scratch", 104: "xnack_mask", 106: "vcc", 126: "exec"}
_DPP_ROWS = {0x10: "row_shl", 0x11: "row_shr", 0x12: "row_ror"}
_DPP_WHOLE = {0x130: "wave_shl:1", 0x134: "wave_rol:1", 0x138: "wave_shr:1", 0x13C: "wave_ror:1",
              0x140: "row_mirror", 0x141: "row_half_mirror", 0x142: "row_bcast:15",
              0x143: "row_bcast:31"}  # fmt: skip
_VGPRS, _LITERAL, _OFF = 256, 255, 127
_CARRY_OUT, _CARRY_IN = range(25, 31), (0, 28, 29, 30)  # opcodes of VOP2 that write, read VCC
_SOURCE_ONLY = ("s_setpc_b64", "s_rfe_b64", "s_cbranch_join", "s_set_gpr_idx_idx")
_NO_RESULT = ("s_cbranch_g_fork", "s_rfe_restore_b64")
_RETURNS = re.compile(r"ds_(read|bpermute|permute|swizzle|consume|append|ordered)|.*_rtn(_|$)")
_TWO_OFFSETS = re.compile(r"ds_(read|write|wrxchg)2")
_MIX = re.compile(r"v_(fma|mad)_mix")


class NotKnownError(Exception):
    """An instruction whose text is not known here."""


def text(item: Decoded, arch: str, label: Callable[[int], str]) -> str:
    """One instruction; `label` names the place of a branch, by its offset in the code.

    Raises:
        NotKnownError: it is none of those that are known.
    """
    word = naming.name(item, arch)
    make = _FORMATS.get(item.format)
    if not word or make is None or item.form == "sdwa":
        raise NotKnownError(naming.written(item, arch))
    sample = _sample_operands(item, word.replace("_dpp", "_e32"), arch)
    operands, tail = make(item, word, sample, label)
    if item.form == "dpp":
        tail = _controls(item)
    elif item.format == "FLAT" and arch in ("gfx942", "gfx950"):
        tail = tail.replace("glc", "sc0").replace("slc", "nt") + " sc1" * item.bits(25, 25)
    return " ".join(filter(None, (word, ", ".join(operands), tail)))


def _sample_operands(item: Decoded, word: str, arch: str) -> list[str]:
    """The operands of the instruction's sample line."""
    for line in naming.encodings(arch)[item.format][str(item.opcode)]:
        name, _, rest = line.partition(" ")
        if name == word:
            return [each.split()[0] for each in rest.split(", ")] if rest else []
    raise NotKnownError(word)


def _width(sample: str) -> int:
    found = _RANGE.match(sample)
    if found:
        return int(found[2]) - int(found[1]) + 1
    return 2 if sample in ("vcc", "exec") else 1


def _registers(kind: str, first: int, width: int) -> str:
    return f"{kind}{first}" if width == 1 else f"{kind}[{first}:{first + width - 1}]"


def _scalar(value: int, width: int) -> str:
    if width > 1 and value in _PAIRS:
        return _PAIRS[value]
    if value in _SPECIAL:
        return _SPECIAL[value]
    if value < 102:
        return _registers("s", value, width)
    raise NotKnownError(f"operand {value}")


def _source(item: Decoded, value: int, sample: str) -> str:
    """An operand that may be a register of any kind or a constant."""
    width = _width(sample)
    if value >= _VGPRS:
        return _registers("v", value - _VGPRS, width)
    if value == DPP:
        return f"v{item.extra & 255}"
    if value == _LITERAL:
        return f"{item.extra:#x}"
    if 128 <= value <= 208:
        return str(value - 128 if value <= 192 else 192 - value)
    return _scalar(value, width)


def _controls(item: Decoded) -> str:
    """The word of controls of a DPP form.

    Raises:
        NotKnownError: it has what is not known here, such as signs of sources.
    """
    control, bound, rest = item.extra >> 8 & 0x1FF, item.extra >> 19 & 1, item.extra >> 20 & 15
    if control < 0x100:
        shown = f"quad_perm:[{','.join(str(control >> 2 * at & 3) for at in range(4))}]"
    elif control in _DPP_WHOLE:
        shown = _DPP_WHOLE[control]
    elif control >> 4 in _DPP_ROWS and control & 15:
        shown = f"{_DPP_ROWS[control >> 4]}:{control & 15}"
    else:
        raise NotKnownError(f"DPP control {control:#x}")
    if rest:
        raise NotKnownError("signs of a DPP form")
    banks, rows = item.extra >> 24 & 15, item.extra >> 28
    return f"{shown} row_mask:{rows:#x} bank_mask:{banks:#x}" + " bound_ctrl:0" * bound


def _result(item: Decoded, value: int, sample: str) -> str:
    """A result in a field of 8 bits: a scalar where the sample has one."""
    if sample.startswith(("s", "vcc")):
        return _scalar(value, _width(sample))
    return _registers("v", value, _width(sample))


Made = tuple[list[str], str]
Label = Callable[[int], str]


def _vop1(item: Decoded, word: str, sample: list[str], label: Label) -> Made:
    if not sample:
        return [], ""
    source = _source(item, item.bits(0, 8), sample[1])
    return [_result(item, item.bits(17, 24), sample[0]), source], ""


def _vop2(item: Decoded, word: str, sample: list[str], label: Label) -> Made:
    inner = iter((item.bits(0, 8), item.bits(9, 16) + _VGPRS))
    made = [_registers("v", item.bits(17, 24), _width(sample[0]))]
    made += ["vcc"] * (item.opcode in _CARRY_OUT)
    for each in sample[1:]:
        if each.startswith("0x"):
            made.append(f"{item.extra:#x}")
        elif each != "vcc":
            made.append(_source(item, next(inner), each))
    return [*made, *["vcc"] * (item.opcode in _CARRY_IN)], ""


def _vopc(item: Decoded, word: str, sample: list[str], label: Label) -> Made:
    first, second = sample[-2:]
    other = _source(item, item.bits(9, 16) + _VGPRS, second)
    return ["vcc", _source(item, item.bits(0, 8), first), other], ""


def _vop3(item: Decoded, word: str, sample: list[str], label: Label) -> Made:
    if not sample:
        return [], ""
    made = [_result(item, item.bits(0, 7), sample[0])]
    rest = sample[1:]
    signs = item.bits(8, 10)
    if _scalar_result(item, word):
        made.append(_scalar(item.bits(8, 14), 2))
        rest, signs = rest[1:], 0
    elif item.bits(11, 14):
        raise NotKnownError(f"{word} with op_sel")
    for at, each in enumerate(rest):
        operand = _source(item, item.bits(32 + 9 * at, 40 + 9 * at), each)
        operand = f"|{operand}|" if signs >> at & 1 else operand
        if item.bits(61 + at, 61 + at):
            # The minus of a constant is part of the number.
            plain = operand.startswith(("v", "s", "|", "vcc", "exec", "m0"))
            operand = f"-{operand}" if plain else f"neg({operand})"
        made.append(operand)
    tail = ["clamp"] if item.bits(15, 15) else []
    omod = naming.OMOD[item.bits(59, 60)]
    return made, " ".join([*tail, *([omod] if omod else [])])


def _scalar_result(item: Decoded, word: str) -> bool:
    """Whether an instruction writes a mask of lanes beside its result."""
    carries = item.opcode in VOP3B and word.endswith("_u32_e64")
    return carries or word.startswith(("v_div_scale", "v_mad_u64", "v_mad_i64"))


def _vop3p(item: Decoded, word: str, sample: list[str], label: Label) -> Made:
    if "mfma" in word or "smfmac" in word or "accvgpr" in word:
        raise NotKnownError(word)
    count = len(sample) - 1
    made = [_registers("v", item.bits(0, 7), _width(sample[0]))]
    made += [
        _source(item, item.bits(32 + 9 * at, 40 + 9 * at), each)
        for at, each in enumerate(sample[1:])
    ]
    high = item.bits(59, 60) | item.bits(14, 14) << 2
    fields = {"op_sel": (item.bits(11, 13), 0), "op_sel_hi": (high, 0 if _MIX.match(word) else 7),
              "neg_lo": (item.bits(61, 63), 0), "neg_hi": (item.bits(8, 10), 0)}  # fmt: skip
    mask = (1 << count) - 1
    tail = [
        f"{name}:[{','.join(str(bits >> at & 1) for at in range(count))}]"
        for name, (bits, default) in fields.items()
        if bits & mask != default & mask
    ]
    return made, " ".join([*tail, *(["clamp"] if item.bits(15, 15) else [])])


def _sop1(item: Decoded, word: str, sample: list[str], label: Label) -> Made:
    if word in _SOURCE_ONLY:
        return [_source(item, item.bits(0, 7), sample[0])], ""
    made = [_scalar(item.bits(16, 22), _width(sample[0]))]
    return [*made, *(_source(item, item.bits(0, 7), each) for each in sample[1:])], ""


def _sop2(item: Decoded, word: str, sample: list[str], label: Label) -> Made:
    made = [] if word in _NO_RESULT else [_scalar(item.bits(16, 22), _width(sample[0]))]
    first, second = sample[-2:]
    made.append(_source(item, item.bits(0, 7), first))
    return [*made, _source(item, item.bits(8, 15), second)], ""


def _sopc(item: Decoded, word: str, sample: list[str], label: Label) -> Made:
    if word == "s_set_gpr_idx_on":
        raise NotKnownError(word)
    first = _source(item, item.bits(0, 7), sample[0])
    return [first, _source(item, item.bits(8, 15), sample[1])], ""


def _sopk(item: Decoded, word: str, sample: list[str], label: Label) -> Made:
    value = item.bits(0, 15)
    scalar = item.bits(16, 22)
    if word.startswith(("s_call", "s_cbranch")):
        return [_scalar(scalar, 2), label(item.offset + 4 + 4 * _signed(value, 16))], ""
    shown = f"{value:#x}"
    if word == "s_setreg_b32":
        return [_hardware(value), _scalar(scalar, 1)], ""
    if word == "s_setreg_imm32_b32":
        return [_hardware(value), f"{item.extra:#x}"], ""
    if word == "s_getreg_b32":
        return [_scalar(scalar, 1), _hardware(value)], ""
    return [_scalar(scalar, 1), shown], ""


def _hardware(value: int) -> str:
    """Bits of a hardware register."""
    number, first, count = value & 63, value >> 6 & 31, (value >> 11) + 1
    return f"hwreg({'HW_REG_MODE' if number == 1 else number}, {first}, {count})"


def _sopp(item: Decoded, word: str, sample: list[str], label: Label) -> Made:
    value = item.bits(0, 15)
    if word.startswith(("s_branch", "s_cbranch")):
        return [label(item.offset + 4 + 4 * _signed(value, 16))], ""
    if word == "s_waitcnt":
        return [_waits(value)], ""
    return [str(value)] if sample else [], ""


def _waits(value: int) -> str:
    vector = value & 15 | value >> 14 << 4
    counts = (
        ("vmcnt", vector, 63),
        ("expcnt", value >> 4 & 7, 7),
        ("lgkmcnt", value >> 8 & 15, 15),
    )
    shown = [f"{name}({count})" for name, count, most in counts if count != most]
    return " ".join(shown) or f"{value:#x}"


def _smem(item: Decoded, word: str, sample: list[str], label: Label) -> Made:
    if not sample:
        return [], ""
    made = [_scalar(item.bits(6, 12), _width(sample[0]))]
    if len(sample) == 1:
        return made, ""
    made.append(_scalar(item.bits(0, 5) << 1, _width(sample[1])))
    constant, register = item.bits(17, 17), item.bits(14, 14)
    tail = ["glc"] if item.bits(16, 16) else []
    if register:
        made.append(_scalar(item.bits(57, 63), 1))
        tail += [f"offset:{_signed(item.bits(32, 52), 21):#x}"] if constant else []
    elif constant:
        made.append(f"{_signed(item.bits(32, 52), 21):#x}")
    else:
        made.append(_scalar(item.bits(32, 38), 1))
    return made, " ".join(tail)


def _ds(item: Decoded, word: str, sample: list[str], label: Label) -> Made:
    returns = bool(_RETURNS.match(word))
    fields = ([(56, 63)] if returns else []) + [(32, 39), (40, 47), (48, 55)]
    made = [
        _registers("v", item.bits(*field), _width(each))
        for field, each in zip(fields, sample, strict=False)
    ]
    low, high = item.bits(0, 7), item.bits(8, 15)
    if _TWO_OFFSETS.match(word):
        tail = [f"offset0:{low}"] * bool(low) + [f"offset1:{high}"] * bool(high)
    else:
        whole = low | high << 8
        shown = _swizzle(whole) if word == "ds_swizzle_b32" else str(whole)
        tail = [f"offset:{shown}"] * bool(whole)
    return made, " ".join([*tail, *(["gds"] if item.bits(16, 16) else [])])


def _swizzle(value: int) -> str:
    if value >> 15:
        return f"swizzle(QUAD_PERM,{','.join(str(value >> 2 * at & 3) for at in range(4))})"
    letters = ""
    for at in range(4, -1, -1):
        keep, put, turn = value >> at & 1, value >> at + 5 & 1, value >> at + 10 & 1
        letters += "01"[put] if not keep else "pi"[turn]
    return f'swizzle(BITMASK_PERM,"{letters}")'


def _flat(item: Decoded, word: str, sample: list[str], label: Label) -> Made:
    if item.form == "scratch" or item.bits(13, 13):
        raise NotKnownError(word)
    base = item.bits(48, 54)
    alone = item.form == "flat" or base == _OFF
    address = _registers("v", item.bits(32, 39), 2 if alone else 1)
    data, result = item.bits(40, 47), item.bits(56, 63)
    stores, atomic = "_store_" in word, "_atomic_" in word
    glc = item.bits(16, 16)
    if stores:
        made = [address, _registers("v", data, _width(sample[1]))]
    elif atomic:
        width = _width(sample[1])
        made = [address, _registers("v", data, width)]
        if glc:
            returned = width // 2 if "cmpswap" in word else width
            made = [_registers("v", result, returned), *made]
    else:
        made = [_registers("v", result, _width(sample[0])), address]
    if item.form == "global":
        made.append("off" if alone else _scalar(base, 2))
    offset = _signed(item.bits(0, 12), 13) if item.form == "global" else item.bits(0, 11)
    tail = [f"offset:{offset}"] * bool(offset) + ["glc"] * bool(glc)
    return made, " ".join([*tail, *(["slc"] if item.bits(17, 17) else [])])


def _signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> width - 1 else value


_FORMATS: dict[str, Callable[[Decoded, str, list[str], Label], Made]] = {
    "VOP1": _vop1, "VOP2": _vop2, "VOPC": _vopc, "VOP3": _vop3, "VOP3P": _vop3p, "SOP1": _sop1,
    "SOP2": _sop2, "SOPC": _sopc, "SOPK": _sopk, "SOPP": _sopp, "SMEM": _smem, "DS": _ds,
    "FLAT": _flat,
}  # fmt: skip


def listing(
    items: Sequence[Decoded], arch: str, function: str = "f"
) -> tuple[list[str], dict[int, Decoded]]:
    """The text of a function, and which line stands for which instruction.

    Instructions that are not known are left out.
    """

    own = re.sub(r"\W", "_", function)

    def label(offset: int) -> str:
        place = f"{offset}" if offset >= 0 else f"m{-offset}"
        return f".L{place}_{own}"  # other functions of a module have labels too

    known: dict[int, str] = {}
    for item in items:
        with contextlib.suppress(NotKnownError):
            known[item.offset] = text(item, arch, label)
    targets = {word.rpartition(" ")[2] for word in known.values() if ".L" in word}
    lines, of_line = [f"\t.type\t{function},@function", f"{function}:"], dict[int, Decoded]()
    for item in items:
        if label(item.offset) in targets:
            lines.append(f"{label(item.offset)}:")
        if item.offset in known:
            of_line[len(lines)] = item
            lines.append(f"\t{known[item.offset]}")
    return lines, of_line
