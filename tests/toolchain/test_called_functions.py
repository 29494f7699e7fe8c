"""Functions that kernels call are loaded with them, and calls lead there.

The judge is the encoding of s_getpc_b64 and s_add_u32 in AMD's "Vega ISA" and "CDNA3 ISA", and the
segments that the ELF file says are loaded (pyelftools).
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

import pytest
from called import CALLED, TOML
from elftools.elf.elffile import ELFFile

import simgen
from simgen.errors import RefusedError
from simgen.isa import code_object, legalise, toolchain
from simgen.isa.legalise import Model
from simgen.isa.legalise.assembly import AssemblyKernel, Instruction, parse, registers
from simgen.isa.lint import containers, linting
from simgen.kernels import own
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.host import Host
from simgen.targets.mgpusim.target import MGPUSim

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.api import PlannedBuild
    from simgen.kernels.build import Builder

GETPC, GETPC_MASK = 0xBE801C00, 0xFF80FFFF  # SOP1, opcode 28
ADD, ADD_MASK = 0x80000000, 0xFF800000  # SOP2, opcode 0; src1 in bits 8 to 15
LITERAL = 255


def planned(folder: Path, name: str) -> PlannedBuild:
    source, reference = CALLED[name]
    (folder / "k.hip").write_text(source)
    (folder / "k.toml").write_text(TOML.format(reference=reference))
    return simgen.plan(folder / "k.toml")


def calls(elf: bytes) -> dict[str, set[int]]:
    """Of the code: where calls lead, where functions begin, and what of both is loaded."""
    opened = ELFFile(io.BytesIO(elf))
    text = opened.get_section_by_name(".text")
    words = [each for (each,) in struct.iter_unpack("<I", text.data())]
    found: dict[str, set[int]] = {"targets": set(), "functions": set(), "loaded": set()}
    for at, word in enumerate(words):
        if word & GETPC_MASK == GETPC:
            add = next(
                k for k in range(at + 1, at + 9)
                if words[k] & ADD_MASK == ADD and words[k] >> 8 & 255 == LITERAL
            )  # fmt: skip
            found["targets"].add((text["sh_addr"] + 4 * at + 4 + words[add + 1]) % 2**32)
    for symbol in opened.get_section_by_name(".symtab").iter_symbols():
        if symbol["st_info"]["type"] == "STT_FUNC" and symbol.name != "k":
            found["functions"].add(symbol["st_value"])
    for segment in opened.iter_segments("PT_LOAD"):
        first = segment["p_vaddr"]
        both = found["targets"] | found["functions"]
        found["loaded"] |= {at for at in both if first <= at < first + segment["p_filesz"]}
    return found


@pytest.mark.parametrize("name", ["inline", "chosen", "recursion"])
@pytest.mark.parametrize("arch", ["gfx900", "gfx902", "gfx90a", "gfx942"])
def test_calls_lead_to_functions_that_are_loaded(
    tmp_path: Path, builder: Builder, name: str, arch: str
) -> None:
    (kernel,) = planned(tmp_path, name).workload.kernels
    text = own.assembly(kernel, arch, builder.cache, gem5=True)
    model = Model("gem5", "24.0", arch)
    made = legalise.rewrite(text, model, legalise.names(model, edges=True, private=True)).text
    elf = toolchain.assemble(made, arch)
    found = calls(elf)
    assert found["targets"] <= found["functions"] == found["loaded"]
    assert len(found["targets"]) == {"inline": 2, "chosen": 3, "recursion": 1}[name]
    # What functions borrow is nobody else's: the kernel owns it, and may hold values in all else.
    before = {each.name: each for each in parse(text.split("\n"))}
    borrowed = set()
    for function in parse(made.split("\n")):
        more = vectors(function) - vectors(before[function.name])
        borrowed |= more if function.name != "k" else set()
        assert all(before["k"].vgprs <= r < code_object.kernels(elf)["k"].vgprs for r in more)
    assert bool(borrowed) == (name != "chosen")  # whose functions call no other


@pytest.mark.parametrize("arch", ["gfx902", "gfx942"])
def test_a_table_holds_the_functions_addresses(tmp_path: Path, builder: Builder, arch: str) -> None:
    (kernel,) = planned(tmp_path, "table").workload.kernels
    text = own.assembly(kernel, arch, builder.cache, gem5=True)
    model = Model("gem5", "24.0", arch)
    elf = toolchain.assemble(
        legalise.rewrite(text, model, legalise.names(model, edges=True, private=True)).text, arch
    )
    image, places = code_object.memory_image(elf), code_object.relocated(elf)
    held = [struct.unpack_from("<Q", image, at)[0] for at in places]
    found = calls(elf)
    assert set(held) == found["functions"] == found["loaded"] - found["targets"]
    assert all(at % 4 == 0 and at < len(image) for at in (*places, *held))
    (symbol,) = [
        each for each in ELFFile(io.BytesIO(elf)).get_section_by_name(".symtab").iter_symbols()
        if each.name == "table"
    ]  # fmt: skip
    assert {symbol["st_value"], symbol["st_value"] + 8} <= set(places)


def vectors(function: AssemblyKernel) -> set[int]:
    """Numbers of the vector registers that its instructions name."""
    items = [each for each in function.items.values() if isinstance(each, Instruction)]
    used = {r for each in items for operand in each.operands for r in registers(operand)}
    return {int(r[1:]) for r in used if r[0] == "v" and r[1:].isdigit()}


@pytest.mark.parametrize("name", CALLED)
def test_what_gem5_takes_others_refuse_or_compute(tmp_path: Path, name: str) -> None:
    plan = planned(tmp_path, name)
    if name == "passed":  # of functions that nobody knows, compilers keep nearly all registers
        with pytest.raises(RefusedError, match=r"no register left .*; inline functions"):
            plan.build(tmp_path / "gem5", Gem5Se())
    else:
        plan.build(tmp_path / "gem5", Gem5Se())
    with pytest.raises(RefusedError, match=r"it calls \w+, or reads it, and MGPUSim loads"):
        plan.build(tmp_path / "mgpusim", MGPUSim())
    if Host().needs.missing():
        return
    bundle = plan.build(tmp_path / "host", Host())
    bundle.run(timeout=300)
    assert bundle.diff(strict=True)


def test_a_function_that_nobody_loads_ends_builds_and_lint(tmp_path: Path) -> None:
    text = (
        "\t.text\n\t.globl k\n\t.p2align 8\n\t.type k,@function\nk:\n\ts_endpgm\n"
        '\t.section .elsewhere,"",@progbits\n\t.type f,@function\nf:\n\ts_setpc_b64 s[30:31]\n'
        "\t.rodata\n\t.p2align 6\n\t.amdhsa_kernel k\n\t.amdhsa_next_free_vgpr 8\n"
        "\t.amdhsa_next_free_sgpr 16\n\t.end_amdhsa_kernel\n"
    )
    elf = toolchain.assemble_foreign(text, "gfx902", "k.s")
    held = [containers.Held(tmp_path, "", elf)]
    (looked,) = linting.code_objects(held, "gem5", "24.0")
    (finding,) = [each for each in looked.findings if each.refused]
    assert (finding.kernel, finding.reason) == ("f", linting.NOT_LOADED)
