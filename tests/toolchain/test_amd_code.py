"""Every lowered kernel on every AMD GPU: what simulators need of the machine code.

What covers all choices of the templates is compiled for GCN3 and for CDNA3, by other kernels for
each, and a sixth of it for each architecture between them, so that each two choices together are
compiled for one of them. (Sizes are numbers in the code; the host has them all.) A part of
an architecture's kernels is compiled together, each in a namespace of its own, and looked at in one
test, so that no two processes compile the same.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import pytest
from covering import covering, properties
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from layer_variants import accepts, inputs_of, lowered, shapes_of, variants
from machine_code import metadata, mgpusim_runs, no_scratch_no_stack_no_spills, together

from simgen.ground.machine import find
from simgen.isa import code_object, legalise, toolchain
from simgen.isa.legalise import table
from simgen.kernels import render

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.ground.ir import Kernel

ARCHS = ("gfx803", "gfx900", "gfx902", "gfx90a", "gfx942", "gfx1100")
# Architectures that have a set of instructions, or nearly so, and take turns with its kernels.
# gfx803, of which every form of an instruction is run by itself (test_legalise_runs.py), and those
# between it and gfx942 take half of them, and gfx1100, which no simulator has, a quarter.
SETS = (
    ("gfx803", ""),
    ("gfx942",),
    ("gfx900", "gfx902", "gfx90a", "", "", ""),
    ("gfx1100", "", "", ""),
)
PARTS = {"gfx803": 6, "gfx942": 12, "gfx900": 2, "gfx902": 2, "gfx90a": 2, "gfx1100": 3}
GEM5_ARCHS = ("gfx900", "gfx902", "gfx90a", "gfx942")  # those of gem5's VEGA model
DESCRIPTOR_NBYTES = 64

SHAPES = (
    (5, 13, 1, 1),
    (3, 100, 1, 1),
    (100, 1000, 1, 1),
    (2, 4096, 1, 1),
    (2, 4100, 1, 1),
    (2, 4099, 1, 1),
    (2, 3, 5, 7),
    (1, 17, 8, 8),
    (1, 67, 9, 9),
    (2, 300, 1, 3),
    (301, 6, 1, 1),
    (2, 2, 48, 48),
)

# What gem5's VEGA model computes wrongly or stops at (src/arch/amdgpu/vega/insts, v24.0): only what
# a compiler may choose for float32 and int32 code.
BROKEN = {
    r"v_div_(scale|fmas|fixup)_": "divisions by infinity and by zero give wrong values",
    r"v_ffbh_": "counts from the wrong end",
    r"v_(sin|cos)_f32": "scaled by the register that should hold the constant",
    r"v_log_legacy_|v_cvt_f16_f32": "wrong for many values",
    r"v_(?!cvt_f32_)\w+_f16": "half precision is not implemented",
    r"v_pk_": "packed operations are not implemented in all versions",
    r"v_cvt_(pkaccum|pknorm|pkrtz|pk_[ui]16)": "not implemented",
    r"v_(cube|msad|qsad|mqsad|trig_preop)": "not implemented",
    r"s_setreg_|s_sendmsg|s_trap|s_set_gpr_idx|s_memrealtime": "not implemented",
    r"s_dcache_|s_buffer_store": "not implemented",
    r"buffer_|tbuffer_|image_|flat_load_sshort": "not implemented, or only in parts",
    r"ds_\w*(min|max|inc|dec|and|or|xor|cmpst|append|consume|ordered|gws)": "not implemented",
    r"ds_read_i16|ds_sub_": "not implemented",
    r"v_(?!cmp)\w+_([ui]16|b16)(_e32|_e64)?\b": "does not clear the upper half of the register",
    r"\w+_(sdwa|dpp)\b": "most forms are not implemented",
}
MODIFIERS = {
    r"\bclamp\b": "gem5 does not read the clamp bit of most instructions",
    r"\b(mul|div):[0-9]": "gem5 does not read the output modifier of most instructions",
}
# Absolute values and negations of operands, which comparisons ignore.
COMPARE_MODIFIER = re.compile(r"\||-[vs](\d|\[)|\bneg\(|\babs\(")


ARGUMENTS: dict[str, int] = {}  # kernel -> addresses that its launches give it


@cache
def kernels(kind: str) -> dict[str, Kernel]:
    """Name -> kernel of a layer, in all shapes and passes."""
    found: dict[str, Kernel] = {}
    for variant in variants(kind):
        layer = variant.layer
        if kind == "recurrent":
            # Where weights stay, work-groups are for a whole unit: those for warps of 32 have no
            # room in AMD's registers, and code_object refuses them.
            layer = replace(layer, machine=find("mi300a", "test"))
        for shape in shapes_of(kind, SHAPES):
            for direction in layer.able if accepts(layer, shape) else ():
                lowering = layer.lower(inputs_of(layer, shape), direction)
                for kernel in lowering.kernels:
                    found.setdefault(kernel.name, kernel)
                for launch in lowering.launches:
                    ARGUMENTS[launch.kernel] = len(launch.args)
    return found


def shares() -> tuple[dict[str, list[Kernel]], dict[str, int]]:
    """Architecture -> its kernels, and all ARGUMENTS: of each set of instructions, each choice of
    each template, or a share of them; each two choices together for one of the architectures."""
    found = {name: kernel for kind in lowered() for name, kernel in kernels(kind).items()}
    each = {name: (kernel,) for name, kernel in found.items()}
    left = dict.fromkeys(covering(each, pairs=True, sizes=False))
    share: dict[str, list[str]] = {arch: [] for arch in ARCHS}
    for takers in SETS:
        names = covering(each, pairs=False, sizes=False, rather=left)
        for turn, arch in enumerate(takers):
            if arch:
                share[arch] += names[turn :: len(takers)]
                left = {name: None for name in left if name not in share[arch]}
    for turn, name in enumerate(left):
        share[ARCHS[turn % len(ARCHS)]].append(name)
    return {arch: [found[name] for name in names] for arch, names in share.items()}, ARGUMENTS


@pytest.fixture(scope="module")
def shared(once: Callable[..., Any]) -> dict[str, list[Kernel]]:
    share, arguments = once(shares)
    ARGUMENTS.update(arguments)
    return share


def chosen(share: list[Kernel], arch: str, part: int) -> list[Kernel]:
    """In each part some of each template."""
    order = sorted(share, key=lambda kernel: (kernel.template, kernel.name))
    return order[part :: PARTS[arch]]


def test_each_set_of_instructions_has_each_choice(shared: dict[str, list[Kernel]]) -> None:
    every = {
        (kernel.template, one)
        for kind in lowered()
        for kernel in kernels(kind).values()
        for one in properties(kernel, sizes=False)
    }
    for takers in SETS:
        if all(takers):
            own = [kernel for arch in takers for kernel in shared[arch]]
            shown = {(k.template, one) for k in own for one in properties(k, sizes=False)}
            assert shown == every


@dataclass(frozen=True)
class Compiled:
    arch: str
    kernels: list[Kernel]
    text: str  # assembly
    elf: bytes

    @cached_property
    def bodies(self) -> dict[str, list[str]]:
        """Kernel -> its instructions, one on a line, without comments."""
        found = {}
        for name in re.findall(r"^\t\.amdhsa_kernel (\w+)$", self.text, re.M):
            start = self.text.index(f"\n{name}:")
            lines = self.text[start : self.text.index(".Lfunc_end", start)].splitlines()
            code = (line.partition(";")[0].strip() for line in lines)
            found[name] = [line for line in code if re.match(r"[a-z]\w+( |$)", line)]
        return found


@pytest.mark.parametrize(
    ("arch", "part"), [(arch, part) for arch in ARCHS for part in range(PARTS[arch])]
)
def test_machine_code(arch: str, part: int, shared: dict[str, list[Kernel]]) -> None:
    wanted = chosen(shared[arch], arch, part)
    text = toolchain.assembly(together(wanted), arch)
    made = Compiled(arch, wanted, text, toolchain.assemble(text, arch))
    each_kernel_has_its_arguments_and_nothing_else(made)
    no_scratch_no_stack_no_spills(text)
    launchers_take_the_descriptors(made)
    no_calls_and_no_atomics(made)
    nothing_to_relocate_and_no_tables(made)
    one_dimensional_groups_of_the_declared_size(made)
    if arch in GEM5_ARCHS:
        no_instruction_that_gem5_gets_wrong(made)
        no_instruction_that_gem5_lacks(made)
    if arch in table.ARCHS:
        mgpusim_runs(wanted, text, arch)


def each_kernel_has_its_arguments_and_nothing_else(made: Compiled) -> None:
    arguments = {kernel.name: ARGUMENTS[kernel.name] for kernel in made.kernels}
    assert sorted(made.bodies) == sorted(arguments)
    symbols = [name for name in metadata(made.text, "name") if name in arguments]
    sizes = dict(zip(symbols, metadata(made.text, "kernarg_segment_size"), strict=True))
    assert {name: int(size) for name, size in sizes.items()} == {
        name: 8 * count for name, count in arguments.items()
    }
    assert set(metadata(made.text, "value_kind")) == {"global_buffer"}


def launchers_take_the_descriptors(made: Compiled) -> None:
    """As code_object reads them; it refuses what launchers could not run."""
    if made.arch in {name for name, _ in code_object.MACHINES.values()}:
        assert sorted(code_object.kernels(made.elf)) == sorted(made.bodies)


def no_calls_and_no_atomics(made: Compiled) -> None:
    forbidden = re.compile(r"s_(swappc|setpc|call|getpc)|\w*atomic|scratch_|s_barrier_")
    for name, body in made.bodies.items():
        assert not [line for line in body if forbidden.match(line)], name
        assert body[-1] != "s_setpc_b64"
        assert "s_endpgm" in body


def nothing_to_relocate_and_no_tables(made: Compiled) -> None:
    elf = ELFFile(io.BytesIO(made.elf))
    relocations = [s for s in elf.iter_sections() if isinstance(s, RelocationSection)]
    assert sum(section.num_relocations() for section in relocations) == 0
    assert elf.get_section_by_name(".rodata")["sh_size"] == DESCRIPTOR_NBYTES * len(made.kernels)
    # The one object is a mark that HIP's compiler puts into every module; nothing refers to it.
    objects = {s.name for s in elf.get_section_by_name(".symtab").iter_symbols()
               if s["st_info"]["type"] == "STT_OBJECT" and not s.name.endswith(".kd")}  # fmt: skip
    assert len(objects) <= 1
    assert all(name.startswith("__hip_cuid_") for name in objects)


def one_dimensional_groups_of_the_declared_size(made: Compiled) -> None:
    assert set(re.findall(r"\.amdhsa_system_vgpr_workitem_id (\d)", made.text)) == {"0"}
    blocks = {str(kernel.block) for kernel in made.kernels}
    assert set(metadata(made.text, "max_flat_workgroup_size")) == blocks
    lds = [int(size) for size in metadata(made.text, "group_segment_fixed_size")]
    assert max(lds) <= 64 * 1024


def no_instruction_that_gem5_lacks(made: Compiled) -> None:
    """Else it is refused when it is rewritten. Older versions lack more of what a compiler chooses:
    up to 23.1 conversions of halves, up to 22.1 ds_write2st64_b64, 21.2 s_mul_hi_u32. Packed floats
    are another matter: some of FFT's that gem5 gets wrong cannot be split, and are refused."""
    if made.arch in legalise.versions("gem5")["24.0"].architectures:
        model = legalise.Model("gem5", "24.0", made.arch)
        names = [name for name in legalise.names(model) if name != "packed_floats"]
        legalise.rewrite(made.text, model, names)


def no_instruction_that_gem5_gets_wrong(made: Compiled) -> None:
    found = [
        f"{name}: {line} ({why})"
        for name, body in made.bodies.items()
        for line in body
        for why in faults(line)
    ]
    if made.arch in ("gfx90a", "gfx942"):  # they have packed float32, and so has gem5's model
        found = [fact for fact in found if not re.search(r": v_pk_\w+_f32 |: v_pk_mov_b32 ", fact)]
    assert not found, "\n".join(found[:20])


def faults(line: str) -> list[str]:
    """Why gem5 would not run an instruction, or run it wrongly."""
    found = [why for pattern, why in BROKEN.items() if re.match(pattern, line)]
    found += [why for pattern, why in MODIFIERS.items() if re.search(pattern, line)]
    if line.startswith("v_cmp") and COMPARE_MODIFIER.search(line.partition(" ")[2]):
        found.append("gem5 ignores modifiers of comparisons")
    return found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("y[0] = x[0] / x[1];", "v_div_scale_f32"),
        ("y[0] = x[0] < __builtin_fabsf(x[1]) ? 1 : 2;", "v_cmp"),
        ("y[0] = __builtin_fminf(__builtin_fmaxf(x[0] + x[1], 0), 1);", "clamp"),
        ("y[0] = __builtin_clz(as_uint(x[0]));", "v_ffbh"),
    ],
)
def test_the_tables_find_what_they_name(text: str, line: str) -> None:
    source = render.self_contained(
        f'#include "{render.PRELUDE}"\n'
        'extern "C" __global__ __launch_bounds__(64) void bad(const float* __restrict__ x, '
        f"float* __restrict__ y)\n{{ x += threadIdx.x; y += threadIdx.x; {text} }}\n"
    )
    body = Compiled("gfx902", [], toolchain.assembly(source, "gfx902"), b"").bodies["bad"]
    assert [entry for entry in body if line in entry and faults(entry)]
