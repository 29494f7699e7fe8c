"""Code objects of anybody -> what a simulator executes right.

A code object becomes assembly text, which the legaliser of `compile` rewrites as it does our own
kernels, and a code object again: the same symbols, the same metadata, more registers where
replacements take some. The text, assembled as it is, must be the code that was read, byte for byte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.errors import RefusedError, UsageError, printable
from simgen.ground.ir import Language
from simgen.isa import code_object, cures, legalise, toolchain
from simgen.isa.code_object import MACHINES
from simgen.isa.legalise.assembly import DYNAMIC_LDS, Instruction, Label, parse
from simgen.isa.legalise.simulators import Model
from simgen.isa.lint import disassembly, functions, metadata, naming
from simgen.isa.lint.elf import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from elftools.elf.elffile import ELFFile

    from simgen.isa.legalise import Legalised
    from simgen.isa.lint.functions import Function

VCC_AND_MORE = 6  # scalar registers that a kernel owns beside its numbered ones
MOST_SGPRS = 102
LDS = "group_segment_fixed_size"
_REGISTER = re.compile(r"\b([vs])(?:(\d+)\b|\[\d+:(\d+)\])")
_NAME = re.compile(r"[\w.$@]+", re.ASCII)  # name of a symbol, without quotes
_OF_LANES = ("ds_bpermute", "ds_permute", "ds_swizzle")  # which access no LDS
# What takes the place of code as an address, which rewriting moves:
_PLACES = ("s_getpc", "s_setpc", "s_swappc", "s_call", "s_rfe")


@dataclass(frozen=True)
class _Kernel:
    """A kernel's code as text, and its descriptor."""

    name: str
    lines: list[str]  # instructions and labels
    descriptor: tuple[
        int, ...
    ]  # LDS, scratch, arguments, offset, rsrc3, rsrc1, rsrc2, flags, preload
    vgprs: int
    sgprs: int


def rewritten(
    elf: bytes,
    place: str,
    simulator: str,
    version: str,
    dynamic_lds: int | None = None,
    *,
    any_rounding: bool = False,
) -> tuple[bytes, Legalised]:
    """A code object that the simulator executes right, and what that took.

    `dynamic_lds`: the most bytes of LDS that launches ask for beside what kernels declare; None:
    nobody knows. With `any_rounding`, kernels may ask for results that are not rounded to nearest,
    though the simulator rounds so.

    Raises:
        RefusedError: something in it has no replacement, its code cannot be moved, a kernel asks
            of a loader what nobody gives, or a replacement takes LDS that its launches may have
            asked for.
        UsageError: the simulator does not have the processor, or its version no rules.
        DamagedError: it is not a whole code object.
    """
    arch, found, _ = functions.functions_of(elf, place)
    for each in found:
        if not each.descriptor:
            continue
        if asked := code_object.demand(each.descriptor, simulator, any_rounding=any_rounding):
            where = place if place == f"kernel {each.name}" else f"{place}: kernel {each.name}"
            raise RefusedError(f"{where} {asked.fact}; {asked.cure}")
    model = Model(simulator, version, arch)
    chosen = legalise.names(model, edges=True)
    behind = _local_arguments(elf, place)
    made: list[Legalised] = []

    def change(text: str) -> str:
        asked = {
            kernel.name: f"\t.set {kernel.name}.{DYNAMIC_LDS}, {dynamic_lds}\n"
            for kernel in parse(text.split("\n"))
            if kernel.name not in behind and dynamic_lds
        }
        try:
            made.append(legalise.rewrite("".join((text, "\n", *asked.values())), model, chosen))
        except RefusedError as refusal:
            cures.fit(refusal, Language.ASSEMBLY)
            raise
        if dynamic_lds is None:
            _check_lds(text, made[-1].text, behind, place)
        return made[-1].text

    return changed(elf, place, change), made[0]


def _local_arguments(elf: bytes, place: str) -> set[str]:
    """Kernels of OpenCL with arguments in LDS: launchers put them behind what kernels own in the
    end, and such a kernel knows no other LDS that launches ask for."""
    with opened(elf, place) as file:
        told: Any = metadata_of(file).get("amdhsa.kernels", [])
    return {
        str(each.get(".symbol", "")).removesuffix(".kd")
        for each in told
        if any(arg.get(".value_kind") == "dynamic_shared_pointer" for arg in each.get(".args", []))
    }


def _check_lds(before: str, after: str, behind: set[str], place: str) -> None:
    """Refuse LDS for replacements where launches may ask for LDS that begins at the same place."""
    for kernel, made in zip(parse(before.split("\n")), parse(after.split("\n")), strict=True):
        grown = kernel.counts[LDS][1] < made.counts[LDS][1] and kernel.name not in behind
        if grown and any(map(_is_of_lds, kernel.items.values())):
            raise RefusedError(
                f"{place}: kernel {kernel.name}: replacements take LDS behind the kernel's own, "
                "where LDS that launches ask for begins too; say with --dynamic-lds BYTES how much "
                "they ask for, 0 for none"
            )


def _is_of_lds(item: Instruction | Label) -> bool:
    """Whether it may access LDS, and not lanes alone."""
    if isinstance(item, Label):
        return False
    of_lds = item.mnemonic.startswith("ds_") and not item.mnemonic.startswith(_OF_LANES)
    return of_lds or any(each.startswith("src_shared") for each in item.operands)


def changed(
    elf: bytes, place: str, change: Callable[[str], str], names: Mapping[str, str] | None = None
) -> bytes:
    """A code object whose text `change` has rewritten: assembly in the layout of clang's, with the
    symbols that count registers, which `change` may raise. Kernels get other `names`.

    Raises:
        RefusedError: its code cannot be moved.
        UsageError: it has no kernel.
        DamagedError: it is not a whole code object.
    """
    arch, found, _ = functions.functions_of(elf, place)
    with opened(elf, place) as file:
        if not file.num_sections():
            fact = "a memory image, which has no symbols"
            raise UsageError(f"{place}: {fact}; give the code object that it was made of")
    kernels = [_kernel(each, arch, place) for each in found if each.is_kernel]
    if not kernels:
        raise UsageError(f"{place}: no kernel in it; give a code object that has one")
    with opened(elf, place) as file:
        told = metadata.text(metadata_of(file))
    plain = "\n".join(_module(kernels, told, arch))
    _check_same(plain, found, arch, place)
    text = _with_descriptors(change(plain), kernels, arch)
    for old, new in (names or {}).items():
        text = re.sub(rf"(?<![\w$]){re.escape(old)}(?![\w$])", new, text)
    return toolchain.assemble(text, arch)


def _kernel(function: Function, arch: str, place: str) -> _Kernel:
    """A kernel's text.

    Raises:
        RefusedError: an instruction has no text here, or needs the address of code; or its name
            is none that assembly can have as it is.
        DamagedError: its descriptor is not whole.
    """
    if not _NAME.fullmatch(function.name):
        raise RefusedError(
            f"{place}: kernel {printable(function.name)}: a name of other characters than letters, "
            "digits and . _ $ @; rename it"
        )
    items = naming.decoded(function.code)
    lines, of_line = disassembly.listing(items, arch, function.name)
    if len(of_line) < len(items):
        known = {item.offset for item in of_line.values()}
        first = next(item for item in items if item.offset not in known)
        raise RefusedError(
            f"{place}: kernel {function.name}: {naming.written(first, arch)} at {first.offset:#x}: "
            "cannot be written as text here; legalise the assembly that it was made of"
        )
    if fixed := next((line.strip() for line in lines if line.strip().startswith(_PLACES)), ""):
        raise RefusedError(
            f"{place}: kernel {function.name}: {fixed.split()[0]}: code that needs its own address "
            "cannot be moved; inline its functions and keep constants out of it"
        )
    used = {"v": 3, "s": 0}  # the work-item's numbers are in as many as three vector registers
    for kind, one, last in _REGISTER.findall("\n".join(lines)):
        used[kind] = max(used[kind], int(one or last) + 1)
    descriptor = _told(function, function.name)
    given = (descriptor[6] >> 1 & 31) + 5  # scalars that hold arguments, and group numbers
    return _Kernel(function.name, lines, descriptor, used["v"], max(used["s"], given))


def descriptor_of(elf: bytes, name: str, place: str) -> tuple[int, ...]:
    """The fields of NAME.kd: LDS, scratch, arguments, offset, rsrc3, rsrc1, rsrc2, flags, preload.

    Raises:
        UsageError: there is no such descriptor.
    """
    return _told(
        next((f for f in functions.functions_of(elf, place)[1] if f.name == name), None), name
    )


def _told(function: Function | None, name: str) -> tuple[int, ...]:
    if function is None or not function.descriptor:
        raise UsageError(
            f"kernel {name}: no descriptor of it; give a code object of version 3 or later"
        )
    return function.descriptor


def metadata_of(opened: ELFFile) -> dict[str, object]:
    """The metadata of a code object; empty where there is none."""
    from elftools.elf.sections import NoteSection

    sections = (each for each in opened.iter_sections() if isinstance(each, NoteSection))
    return metadata.of_notes(note for section in sections for note in section.iter_notes())


def _module(kernels: Sequence[_Kernel], told: Sequence[str], arch: str) -> list[str]:
    """Assembly text in the layout of clang's, for the legaliser; without descriptors."""
    lines = [f'\t.amdgcn_target "{toolchain.AMD_TARGET}--{arch}"', "\t.text"]
    for kernel in kernels:
        end = f".Lend_{kernel.name}"
        lines += [f"\t.globl\t{kernel.name}", f"\t.protected\t{kernel.name}", "\t.p2align\t8"]
        lines += [*kernel.lines, f"{end}:", f"\t.size\t{kernel.name}, {end}-{kernel.name}"]
        lines += [f"\t.set {kernel.name}.{key}, {value}" for key, value in _counts(kernel).items()]
    return [*lines, *told]


def _counts(kernel: _Kernel) -> dict[str, int]:
    """What the legaliser asks for, and raises, by its names."""
    lds, _, _, _, _, _, rsrc2, _, _ = kernel.descriptor
    return {
        "num_vgpr": kernel.vgprs,
        "numbered_sgpr": kernel.sgprs,
        LDS: lds,
        "system_vgpr_workitem_id": rsrc2 >> 11 & 3,
    }


def _with_descriptors(text: str, kernels: Sequence[_Kernel], arch: str) -> str:
    """The module with a descriptor of each kernel, which owns what the rewriting left."""
    lines = [text, '\t.section\t.rodata,"a",@progbits']
    for kernel in kernels:
        raised = {
            key: int(re.findall(rf"\.set {re.escape(kernel.name)}\.{key}, (\d+)", text)[-1])
            for key in _counts(kernel)
        }
        _, scratch, arguments, _, rsrc3, rsrc1, rsrc2, flags, preload = kernel.descriptor
        rsrc1, rsrc3 = _registers(rsrc1, rsrc3, raised, arch)
        lines += [
            "\t.p2align\t6", f"\t.globl\t{kernel.name}.kd", f"\t.type\t{kernel.name}.kd,@object",
            f"{kernel.name}.kd:",
            f"\t.long {raised[LDS]}, {scratch}, {arguments}, 0",
            f"\t.quad {kernel.name}-{kernel.name}.kd", "\t.zero 20",
            f"\t.long {rsrc3}, {rsrc1}, {rsrc2}", f"\t.short {flags}, {preload}", "\t.long 0",
            f"\t.size\t{kernel.name}.kd, 64",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _registers(rsrc1: int, rsrc3: int, raised: dict[str, int], arch: str) -> tuple[int, int]:
    """The words of a descriptor that count registers, for at least so many.

    Raises:
        RefusedError: there are not so many.
    """
    granule = dict(MACHINES.values())[arch]
    vgprs = raised["num_vgpr"]
    if arch in ("gfx90a", "gfx942", "gfx950"):  # accumulation registers begin behind the others
        offset = max(rsrc3 & 63, -(-vgprs // 4) - 1)
        vgprs, rsrc3 = (offset + 1) * 4, rsrc3 & ~63 | offset
    vectors = max(rsrc1 & 63, -(-vgprs // granule) - 1)
    scalars = max(rsrc1 >> 6 & 15, -(-(raised["numbered_sgpr"] + VCC_AND_MORE) // 16) * 2 - 1)
    if vectors > 63 or raised["numbered_sgpr"] > MOST_SGPRS:
        raise RefusedError(
            f"replacements take {raised['num_vgpr']} vector and {raised['numbered_sgpr']} scalar "
            "registers, and there are not so many; write the kernel with fewer"
        )
    return rsrc1 & ~1023 | vectors | scalars << 6, rsrc3


def _check_same(text: str, found: Sequence[Function], arch: str, place: str) -> None:
    """Refuse code whose text is not that code."""
    try:
        made = toolchain.assemble_foreign(text, arch, place)
    except UsageError:
        made = b""
    codes = (
        {each.name: each.code for each in functions.functions_of(made, place)[1]} if made else {}
    )
    for function in found:
        if function.is_kernel and codes.get(function.name) != function.code:
            raise RefusedError(
                f"{place}: kernel {function.name}: its text does not assemble to the same code; "
                "legalise the assembly that it was made of"
            )
