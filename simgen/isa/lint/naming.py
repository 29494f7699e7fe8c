"""What the instructions of machine code are called, and which modifiers they have.

data/encodings says, for each architecture, which mnemonic an opcode has, with operands that the
assembler takes: the work of benchmarks/lint/encodings.py.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from simgen.errors import DamagedError
from simgen.ground import resources
from simgen.ground.storage import schema
from simgen.ground.storage.files import read_regular
from simgen.isa.legalise.implemented import VOP3B
from simgen.isa.legalise.machine_code import decoded as decoded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.isa.legalise.machine_code import Decoded

FOLDER = "encodings"
SAME = {"gfx801": "gfx803", "gfx900": "gfx902"}  # architectures of the same instruction set
MAX_NBYTES = 2**22  # size limit of a file
OMOD = ("", "mul:2", "mul:4", "div:2")
FIRST_MATRIX = 64  # first VOP3P opcode of a matrix product
NO_BASE = 127  # in place of a register, in global_*
SHORT = ("VOP1", "VOP2", "VOPC")  # formats that have SDWA and DPP forms

Names = dict[tuple[str, int], str]  # by (format, or form where that decides, and opcode)


def architectures() -> tuple[str, ...]:
    """Architectures whose instructions are known."""
    paths = (resources.folder("data") / FOLDER).glob("gfx*.json")
    return tuple(sorted({path.stem for path in paths} | set(SAME)))


@cache
def encodings(arch: str) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Format -> opcode -> a line of assembly for each instruction that it may be.

    Raises:
        DamagedError: the file of that architecture is missing or not what it should be.
    """
    path = resources.folder("data") / FOLDER / f"{SAME.get(arch, arch)}.json"
    try:
        told = schema.parse(read_regular(path, MAX_NBYTES))
        return {
            name: {opcode: tuple(map(str, lines)) for opcode, lines in of.items()}
            for name, of in told.items()
        }
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise DamagedError(f"{path}: damaged ({error}); install simgen again") from None


@cache
def names(arch: str) -> Names:
    """The mnemonic of each opcode: by (form, opcode) for SDWA forms and segments of FLAT."""
    made: Names = {}
    for format_, of in encodings(arch).items():
        for opcode, lines in of.items():
            for word in (line.split()[0] for line in lines):
                form = word.partition("_")[0] if format_ == "FLAT" else format_
                form += " sdwa" * word.endswith("_sdwa")
                made.setdefault((form, int(opcode)), word)
    return made


def name(item: Decoded, arch: str) -> str:
    """The mnemonic of an instruction as clang prints it; empty where there is no such."""
    known = names(arch)
    if item.format == "FLAT":
        return known.get((item.form, item.opcode), "")
    if item.form == "sdwa":
        return known.get((f"{item.format} sdwa", item.opcode), "")
    word = known.get((item.format, item.opcode), "")
    if item.form == "dpp" and word:
        return f"{word.removesuffix('_e32')}_dpp"
    return word


def modifiers(item: Decoded) -> tuple[str, ...]:
    """Which of abs, neg, clamp and omod an instruction of the format VOP3 has; of products of
    matrices, whether they move blocks of A or lanes of B (cbsz, blgp); of gfx9's scalar loads and
    stores, of constants of 16 bits and of global_*, whether it is below zero (negative); of
    global_*, whether they have a scalar base (base)."""
    if item.format == "SOPK":
        return ("negative",) * item.bits(15, 15)
    if item.form == "global":
        return ("negative",) * item.bits(12, 12) + ("base",) * (item.bits(48, 54) != NO_BASE)
    if item.format == "SMEM":
        return ("negative",) * (item.bits(17, 17) & item.bits(52, 52))
    if item.format == "VOP3P" and item.opcode >= FIRST_MATRIX:
        moves = {"cbsz": item.bits(8, 10), "blgp": item.bits(61, 63)}
        return tuple(word for word, bits in moves.items() if bits)
    if item.format != "VOP3":
        return ()
    scalar_result = item.opcode in (*VOP3B, 488, 489)  # v_mad_u64_u32 and v_mad_i64_i32 too
    inputs = 0 if scalar_result else item.bits(8, 10)
    has = {
        "abs": inputs,
        "neg": item.bits(61, 63),
        "clamp": item.bits(15, 15),
        "omod": item.bits(59, 60),
    }
    return tuple(word for word, bits in has.items() if bits)


def written(item: Decoded, arch: str) -> str:
    """An instruction as a report has it: its mnemonic, and what of it is in no mnemonic."""
    told = (word for word in modifiers(item) if word != "base")
    return " ".join((name(item, arch) or f"word {item.word:#x}", *told))
