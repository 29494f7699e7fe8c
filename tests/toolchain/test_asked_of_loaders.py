"""What kernels ask of whoever loads and launches them: lint, legalise and builds say the same.

The judge of what a kernel asks is the compiler: each case is a source or a flag that makes clang
ask for one thing (LLVM, "User Guide for AMDGPU Backend", "Kernel Descriptor").
gem5 says "Kernarg preload not implemented" (src/gpu-compute/gpu_command_processor.cc, 24.0);
MGPUSim 4.2.0 has written 64 of 10,000 elements of such a kernel.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import simgen
from simgen.errors import RefusedError, SimgenError
from simgen.isa import code_object, toolchain
from simgen.isa.lint import containers, functions, linting, rewriting
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.host import Host
from simgen.targets.mgpusim.target import MGPUSim
from simgen_rocm.hip import Hip

if TYPE_CHECKING:
    from pathlib import Path

SIMULATORS = {
    "mgpusim 4.2.0": ("gfx942", MGPUSim(arch="gfx942")),
    "gem5 24.0": ("gfx942", Gem5Se(gem5_version="24.0", arch="gfx942")),
    "gem5 24.1": ("gfx90a", Gem5Se(gem5_version="24.1", arch="gfx90a")),
}
IDS = """
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define ITEM __builtin_amdgcn_workitem_id_x()
#define GROUP __builtin_amdgcn_workgroup_id_x()
"""
PLAIN = "out[GROUP * 64 + ITEM] = x[GROUP * 64 + ITEM];"
HEAD = 'extern "C" __global__ void k(const int* x, int* out) '
PRELOAD = "-amdgpu-kernarg-preload-count"
# What is asked for -> what stands ahead, body, whether arguments are preloaded, what is said.
CASES = {
    "nothing": ("", PLAIN, False, ""),
    "preloaded arguments": ("", PLAIN, True, "words of its arguments in registers"),
    "scratch memory": (
        "", "int a[400]; for (int i = 0; i < 400; i++) a[i * x[1] % 400] = x[i];"
        "out[ITEM] = a[x[0] % 400];", False, "bytes of scratch memory",
    ),
    "a stack": (
        "__attribute__((noinline)) __device__ int deep(int n) "
        "{ return n < 2 ? n : deep(n - 1) + deep(n - 2); }\n", "out[ITEM] = deep(x[0]);", False,
        "a stack that grows",
    ),
}  # fmt: skip


def assembly(case: str, arch: str) -> str:
    ahead, body, preload, _ = CASES[case]
    flags = [
        f"{PRELOAD}={4 if preload else 0}" if flag.startswith(PRELOAD) else flag
        for flag in toolchain.own_flags("hip", arch)
    ]
    return toolchain.own_assembly(f"{IDS}{ahead}{HEAD}{{ {body} }}\n", flags, "k.hip", "k.hip")


def refusals(elf: bytes, simulator: str, folder: Path, target: object, arch: str) -> list[str]:
    """What lint, legalise and a build say against what the kernel asks for; empty: nothing."""
    name, version = simulator.split()
    (looked,) = linting.code_objects([containers.Held(folder / "k.co", "", elf)], name, version)
    found = [each for each in looked.findings if each.instruction.startswith(".amdhsa_")]
    said = ["; ".join(f"{each.reason}; {each.cure}" for each in found if each.refused)]
    (folder / "k.co").write_bytes(elf)
    (folder / "k.toml").write_text(
        'source = "k.co"\nkernel = "k"\ninputs = { x = "i32[64]" }\noutputs = { out = "i32[64]" }\n'
        'args = ["x", "out"]\nitems = "64"\nblock = 64\nreference = "x"\n'
    )
    plan = simgen.plan(folder / "k.toml")
    for act in (
        lambda: rewriting.rewritten(elf, "k", name, version),
        lambda: plan.build(folder / "bundle", target),
    ):
        try:
            act()
            said.append("")
        except RefusedError as refusal:
            said.append(str(refusal))
    assert (folder / "bundle").exists() is not bool(said[-1])
    return said


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("case", CASES)
def test_lint_legalise_and_build_say_the_same(case: str, simulator: str, tmp_path: Path) -> None:
    arch, target = SIMULATORS[simulator]
    elf = toolchain.assemble_foreign(assembly(case, arch), arch, "k.s")
    said = refusals(elf, simulator, tmp_path, target, arch)
    fact = CASES[case][3]
    assert [fact in each for each in said] == [True] * 3, said
    assert [bool(each) for each in said] == [bool(fact)] * 3, said


# Bits of a descriptor -> what is said of them, and by which simulators.
BITS = {
    (57, 4): ("wavefronts of 32", tuple(SIMULATORS)),
    (56, 4): ("the address of its queue", ("mgpusim 4.2.0",)),
    (56, 16): ("the number of its dispatch", ("mgpusim 4.2.0",)),
    (49, 0x30): ("not rounded to nearest", tuple(SIMULATORS)),
    (49, 0x80): ("not rounded to nearest", tuple(SIMULATORS)),
}


@pytest.mark.parametrize(
    ("bits", "simulator"), [(bits, each) for bits, (_, held) in BITS.items() for each in held]
)
def test_what_a_descriptor_asks_is_refused_alike(bits, simulator: str, tmp_path: Path) -> None:
    """kernel_code_properties, in bytes 56 and 57 of a descriptor; compute_pgm_rsrc1, from 48 on:
    "AMDHSA Kernel Descriptor" of LLVM's AMDGPUUsage."""
    arch, target = SIMULATORS[simulator]
    elf = bytearray(toolchain.assemble_foreign(assembly("nothing", arch), arch, "k.s"))
    (kernel,) = (each for each in functions.functions_of(bytes(elf), "k")[1] if each.is_kernel)
    raw = code_object.DESCRIPTOR.pack(*kernel.descriptor)
    elf[elf.index(raw) + bits[0]] |= bits[1]
    said = refusals(bytes(elf), simulator, tmp_path, target, arch)
    assert [BITS[bits][0] in each for each in said] == [True] * 3, said


def test_what_is_not_linked_or_has_no_sections_asks_the_same() -> None:
    """Of an object of `clang -c`, and of a code object without its table of sections."""
    text = assembly("preloaded arguments", "gfx942")
    linked = toolchain.assemble_foreign(text, "gfx942", "k.s")
    bare = bytearray(linked)
    bare[40:48], bare[58:64] = bytes(8), bytes(6)  # e_shoff; e_shentsize, e_shnum, e_shstrndx
    for elf in (linked, bytes(bare)):
        (kernel,) = (each for each in functions.functions_of(elf, "k")[1] if each.is_kernel)
        asked = code_object.demand(kernel.descriptor)
        assert asked is not None
        (words,) = re.findall(r"kernarg_preload_length (\d+)", text)
        assert asked.directive.endswith(f" {words}")


LAUNCH = """
source = "k.{suffix}"
kernel = "k"
inputs = {{ x = "i32[256]" }}
outputs = {{ out = "i32[256]" }}
args = ["x", "out"]
grid = 2
block = {block}
defines = {{ ITEMS = 64 }}
reference = "x"
"""
HIP = "{} k(const int* x, int* out) {{ out[threadIdx.x] = x[threadIdx.x]; }}\n"
CL = "{} k(__global const int* x, __global int* out) {{ out[get_global_id(0)] = 1; }}\n"
PTX = """.version 6.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out) // .maxntid 8
{}
{{
 ret;
}}
"""
# Suffix, text, blocks that it takes, those that it does not, and what is said of them.
BOUNDS = [
    ("hip", HIP.format("__global__ __launch_bounds__(64) void"), [64, 32], [128], "64 at most"),
    ("hip", HIP.format("__launch_bounds__(64, 2) __global__ void"), [64], [65], "64 at most"),
    ("cu", HIP.format("__global__ void __launch_bounds__(64)"), [64], [128], "64 at most"),
    ("cu", HIP.format("__global__ void __launch_bounds__(2 * ITEMS)"), [128], [256], "128 at most"),
    ("cu", "#define N 96\n" + HIP.format("__global__ void __launch_bounds__(N)"), [96], [97], "96"),
    ("hip", "constexpr int N = 32;\n" + HIP.format("__global__ void __launch_bounds__(N)"),
     [32], [64], "32 at most"),
    ("hip", HIP.format("__attribute__((amdgpu_flat_work_group_size(64, 128))) __global__ void"),
     [64, 128], [32], "64 at least"),
    ("cl", CL.format("__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void"), [64],
     [32, 128], "written for another alone"),
    ("cl", CL.format("__attribute__((reqd_work_group_size(8, 8, 1))) __kernel void"), ["[8, 8]"],
     [64, "[8, 4]"], "written for another alone"),
    ("ptx", PTX.format(".reqntid 64, 1, 1"), [64], [32, 128], r"write block = \[64, 1, 1\]"),
    ("ptx", PTX.format(".reqntid 8, 8"), ["[8, 8]"], [64], r"write block = \[8, 8, 1\]"),
    ("ptx", PTX.format(".maxntid 64, 2, 1\n.minnctapersm 2"), [128, 32], [256], "128 at most"),
    ("ptx", PTX.format(".reqnctapercluster 2"), [], [64], "asks for clusters"),
    ("ptx", PTX.format(""), [64, 1024], [], ""),
]  # fmt: skip


@pytest.mark.parametrize(("suffix", "text", "right", "wrong", "fact"), BOUNDS)
def test_a_launch_keeps_to_what_the_source_declares(
    tmp_path: Path, suffix: str, text: str, right: list[object], wrong: list[object], fact: str
) -> None:
    """PTX ISA, "Performance-Tuning Directives"; HIP and CUDA, "Launch Bounds"; OpenCL C, 6.7.2."""
    (tmp_path / f"k.{suffix}").write_text(text)
    for block in (*right, *wrong):
        (tmp_path / "k.toml").write_text(LAUNCH.format(suffix=suffix, block=block))
        if block in right:
            plan = simgen.plan(tmp_path / "k.toml")
            if "amdgpu" in text:  # no CPU's function has such attributes
                plan.build(tmp_path / f"bundle{block}", Host())
            continue
        with pytest.raises(SimgenError, match=fact) as error:
            simgen.plan(tmp_path / "k.toml")
        assert "\n" not in str(error.value)


def test_what_no_launcher_reads_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "k.hip").write_text(HIP.format("__global__ void"))
    (tmp_path / "k.toml").write_text(LAUNCH.format(suffix="hip", block=64))
    with pytest.raises(RefusedError, match=r"the machine code of gfx1100.*build for one of gfx801"):
        simgen.plan(tmp_path / "k.toml").build(tmp_path / "bundle", Hip(arch="gfx1100"))


@pytest.mark.parametrize("simulator", ["mgpusim 4.2.0", "gem5 24.1"])
@pytest.mark.parametrize(
    ("attribute", "block", "fact"),
    [
        ("amdgpu_flat_work_group_size(1, 64)", 64, ""),
        ("amdgpu_flat_work_group_size(1, 64)", 128, r"64 work-items \(\.max_flat_workgroup_size\)"),
        ("reqd_work_group_size(64, 1, 1)", 64, ""),
        ("reqd_work_group_size(64, 1, 1)", 32, r"\[64, 1, 1\] alone \(\.reqd_workgroup_size\)"),
    ],
)
def test_a_launch_keeps_to_what_machine_code_declares(
    tmp_path: Path, simulator: str, attribute: str, block: int, fact: str
) -> None:
    arch, target = SIMULATORS[simulator]
    flags = toolchain.own_flags("cl", arch)
    text = CL.format(f"__attribute__(({attribute})) kernel void")
    text = f"#define get_global_id(n) __builtin_amdgcn_workitem_id_x()\n{text}"
    (tmp_path / "k.s").write_text(toolchain.own_assembly(text, flags, "k.cl", "k.cl"))
    (tmp_path / "k.toml").write_text(LAUNCH.format(suffix="s", block=block))
    plan = simgen.plan(tmp_path / "k.toml")
    if not fact:
        plan.build(tmp_path / "bundle", target)
        return
    with pytest.raises(RefusedError, match=fact):
        plan.build(tmp_path / "bundle", target)
    assert not (tmp_path / "bundle").exists()


def test_a_template_s_bounds_are_those_of_its_instance(tmp_path: Path) -> None:
    """Which the source alone does not tell, and its machine code does."""
    (tmp_path / "k.hip").write_text(
        "template <int N> __global__ void __launch_bounds__(N) k(const int* x, int* out)"
        "{ out[threadIdx.x] = x[threadIdx.x]; }\n"
    )
    for kernel, fits in (("k<128>", True), ("k<64>", False)):
        text = LAUNCH.format(suffix="hip", block=128).replace('"k"', f'"{kernel}"')
        (tmp_path / "k.toml").write_text(text)
        plan = simgen.plan(tmp_path / "k.toml")
        if fits:
            plan.build(tmp_path / "bundle", MGPUSim())
        else:
            with pytest.raises(RefusedError, match="at most 64 work-items"):
                plan.build(tmp_path / "other", MGPUSim())
