"""What commits of gem5 repaired is wrong before them and right from then on, in lint and in builds.

data/history is read from gem5's log, data/lint from its code: neither is made from the other.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from test_lint_tables import assembled

import simgen
from simgen.cli.main import cli
from simgen.isa import legalise, toolchain
from simgen.isa.legalise import Model, facts, history, simulators
from simgen.isa.lint import linting
from simgen.isa.lint.containers import Held
from simgen.isa.lint.verdicts import REFUSED
from simgen.kernels import stages
from simgen.kernels.render import kernels
from simgen.targets.gem5 import apu_se
from simgen.targets.gem5.se import Gem5Se

if TYPE_CHECKING:
    from simgen.kernels.build import Builder
    from simgen.kernels.cache import Cache

ROWS = history.of_gem5().instructions
READ = [v for v in facts.versions("gem5") if v != "25.0"]
ARCHS = {"gfx8": "gfx803", "gfx9": "gfx902"}
# Transcribed from the commits: the sample of a row, the last version with it, another instruction
# that the same commit leaves as it was.
COMMITS = {
    "8693d725e2": ("gfx902", "s_movk_i32 s0, 0xfc00", "22.0", "s_movk_i32 s0, 0x7c00"),
    "f99a3c1f96": ("gfx902", "v_bfe_i32 v0, v1, 8, 8", "22.1", "v_bfe_u32 v0, v1, 8, 8"),
    "cc9f81b08a": ("gfx803", "v_perm_b32 v0, v1, v2, v3", "23.0", "v_alignbyte_b32 v0, v1, v2, v3"),
    "ae7476bcdc": ("gfx803", "ds_read2st64_b32 v[0:1], v2", "22.1", "ds_read2_b32 v[0:1], v2"),
    "bbdebc25da": ("gfx902", "v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf", "22.1",
                   "v_mov_b32_e32 v0, v1"),
    "faf3730559": ("gfx902", "global_load_dword v0, v1, s[0:1]", "21.2",
                   "global_load_dword v0, v[2:3], off"),
    "5e721db9a2": ("gfx902", "global_store_dword v[2:3], v0, off offset:-4", "21.2",
                   "global_store_dword v[2:3], v0, off offset:4"),
    "618d16d6fc": ("gfx902", "v_readfirstlane_b32 s40, v0", "22.0", "v_readlane_b32 s40, v0, s0"),
    "aa19af29ad": ("gfx803", "s_cmp_lt_u32 s0, s1", "21.0", "s_cmp_le_u32 s0, s1"),
    "00dcd5b0bc": ("gfx902", "s_mov_b64 s[2:3], 0x12345678", "23.1",
                   "s_lshl_b64 s[0:1], s[2:3], 0x12345"),
    "af9ecf7920": ("gfx803", "v_mov_b32_e32 v0, vcc_hi", "22.0", "v_mov_b32_e32 v0, vcc_lo"),
    "90a518e885": ("gfx902", "ds_bpermute_b32 v0, v1, v2", "23.0", "ds_read_b32 v0, v1"),
    "a7bc4ca19a": ("gfx902", "v_cvt_f16_f32_e64 v0, v1", "24.0", "v_cvt_f16_f32_e32 v0, v1"),
}  # fmt: skip


def refused(line: str, version: str, arch: str) -> bool:
    judge = linting.judge_of(Model("gem5", version, arch))
    items = assembled([line], arch)
    return any(verdict in REFUSED for _, (verdict, *_) in judge(items))


def simulated(arch: str) -> list[str]:
    return [version for version in READ if facts.table("gem5", version, arch)]


@pytest.mark.parametrize("row", [r for r in ROWS if r.sample], ids=lambda r: r.sample)
def test_what_a_commit_repaired(row: history.Defect) -> None:
    """But for what a version before does not have at all."""
    for family in row.families:
        arch = ARCHS[family]
        found = {v: refused(row.sample, v, arch) for v in simulated(arch)}
        before = {v for v in found if history.concerns(row, v, arch)}
        assert all(found[v] for v in before), row
        if row.first_good and "ds_" not in row.sample and row.sample[:5] != "s_cmp":
            assert not any(found[v] for v in found if v not in before), row


@pytest.mark.parametrize("commit", COMMITS)
def test_versions_of_commits(commit: str) -> None:
    arch, sample, last, other = COMMITS[commit]
    rows = [row for row in ROWS if row.commit == commit]
    assert rows
    known = simulated(arch)
    wrong = known[: known.index(last) + 1]
    assert [v for v in known if refused(sample, v, arch)] == [
        v for v in wrong if facts.table("gem5", v, arch)
    ]
    good = {row.first_good for row in rows}
    assert good <= {known[known.index(last) + 1] if last != known[-1] else "24.0", "23.1", "24.0"}
    assert not refused(other, known[-1], arch)


# Defects that gem5's users know, by name: the row, the family, the last version that is wrong
# (empty: all are); of the memory system, rows of launches.
NAMED = {
    "s_movk, s_addk, s_mulk, s_cmpk below zero": ("s_movk_i32", "gfx9", "22.0"),
    "v_bfe_i32": ("v_bfe_i32", "gfx9", "22.1"),
    "s_bfe_i32": ("s_bfe_i32", "gfx9", "22.1"),
    "s_bfe_i64": ("s_bfe_i64", "gfx9", "22.1"),
    "v_perm_b32": ("v_perm_b32", "gfx9", "23.0"),
    "v_or3_b32": ("v_or3_b32", "gfx9", "23.0"),
    "ds_read2st64_b32": ("ds_read2st64_b32", "gfx9", "22.1"),
    "DPP shifts, rotations, broadcasts": ("DPP forms", "gfx9", "22.1"),
    "global_* with an SGPR base": ("global_*", "gfx9", "21.2"),
    "v_readfirstlane_b32 of high numbers": ("v_readfirstlane_b32", "gfx9", "22.0"),
    "s_cmp_lt_u32": ("s_cmp_lt_u32", "gfx8", "21.0"),
    "flat atomics": ("flat_atomic_*", "gfx8", "21.1"),
    "a literal of 64 bits": ("instructions of 64 bits", "gfx9", "23.1"),
    "stale scalars between kernels (#1093)": ("scalar_cache", "gfx9", "23.1"),
    "a write-back L2 and atomics": ("write_back_l2", "gfx9", "23.1"),
    "a write-back L2 and loads": ("write_back_loads", "gfx9", "22.1"),
    "4 barriers, and not 16": ("barriers", "gfx9", "23.0"),
    "LDS counters leak": ("ds_permute_b32", "gfx9", "23.0"),
    "loads past L1": ("bypassed_loads", "gfx9", "23.0"),
    "thousands of launches": ("queue_end", "gfx8", "21.0"),
}


@pytest.mark.parametrize("name", NAMED)
def test_known_defects_have_rows(name: str) -> None:
    word, family, last = NAMED[name]
    rows = [r for r in ROWS if word in r.instructions.split(", ") and family in r.families]
    rows += [r for r in history.of_gem5().launches if r.name == word and family in r.families]
    known = list(simulators.versions("gem5"))
    assert known[known.index(last) + 1] in {row.first_good for row in rows}


@pytest.mark.parametrize(
    ("arch", "version", "later"),
    [("gfx902", "22.1", " (23.0 has it)"), ("gfx902", "23.0", ""), ("gfx803", "22.1", "")],
)
def test_what_a_later_version_has_is_told(arch: str, version: str, later: str) -> None:
    """ds_add_f32 came with atomics of LDS in the VEGA model of 23.0; GCN3 never had it."""
    judge = linting.judge_of(Model("gem5", version, arch))
    told = [said for _, said in judge(assembled(["ds_add_f32 v0, v1"], arch))]
    assert [reason for _, reason, _ in told] == (
        [] if version == "23.0" else [f"gem5 22.1 ends there{later}"]
    )


def test_rows_name_their_place() -> None:
    for row in (*ROWS, *history.of_gem5().launches):
        assert bool(row.first_good) is bool(row.commit)
        assert not row.first_good or row.first_good in simulators.versions("gem5")
        assert set(row.families) <= set(ARCHS)


def together(texts: list[str], arch: str) -> str:
    """Modules as one: what is local to each has a number."""
    made = [f'\t.amdgcn_target "amdgcn-amd-amdhsa--{arch}"']
    for at, text in enumerate(texts):
        text = re.sub(r"\.L(\w+)", rf".L{at}_\1", text)
        text = re.sub(r"__hip_cuid_\w+", rf"\g<0>_{at}", text)
        for name in re.findall(r"^\s*\.amdhsa_kernel (\S+)", text, re.M):
            text = re.sub(rf"(?<![\w.]){re.escape(name)}\b", f"{name}_{at}", text)
        text = re.sub(r"^\s*\.amdgcn_target.*$", "", text, flags=re.M)
        text = re.sub(r"^\s*\.amdhsa_code_object_version.*$", "", text, flags=re.M)
        metadata = r"^\s*\.amdgpu_metadata.*?\.end_amdgpu_metadata"
        made.append(re.sub(metadata, "", text, flags=re.M | re.S))
    return "\n".join(made)


# Between them, all that versions replace in kernels of the shipped workloads.
WORKLOADS = (
    ("softmax_fwd", "f32"), ("fc_fwd", "f32"), ("pool_bwd", "f32"), ("lenet5", "f32"),
    ("conv_fwd", "i8"), ("gemm_fwd", "bf16"), ("softmax_fwd", "f16"), ("reduce_mean_bwd", "f16"),
)  # fmt: skip
SHAPES = {"reduce_mean_bwd": {"shape": "2x5x6"}}  # in which LLVM puts v_xad_u32


@pytest.fixture(scope="module")
def cache(builder: Builder) -> Cache:
    return builder.cache


@pytest.mark.parametrize("version", apu_se.VERSIONS)
def test_kernels_are_right_in_every_version(version: str, cache: Cache) -> None:
    """What lint would refuse of what is built, of each family of architectures."""
    found = simulators.versions("gem5")[version].architectures
    archs = [arch for arch in ("gfx902", "gfx803", "gfx801") if arch in found]
    for arch in archs[:2]:
        model = Model("gem5", version, arch)
        texts = []
        for name, type_ in WORKLOADS:
            given = SHAPES.get(name, {})
            planned = simgen.plan(name, set=given, type=type_, plan_for=apu_se.machine(arch))
            first, second, *_ = stages.amdgcn(model)
            made = list(kernels(planned.workload).values())[:3]
            texts += [second.make(first.make(each, cache), cache).text for each in made]
        elf = toolchain.assemble(together(texts, arch), arch)
        if version not in facts.versions("gem5"):
            continue
        held = Held(__file__, "", elf)  # type: ignore[arg-type]
        (looked,) = linting.code_objects([held], "gem5", version)
        assert [(f.kernel, f.instruction) for f in looked.findings if f.refused] == []
        assert looked.kernels == len(texts)


@pytest.mark.parametrize(("version", "scalar"), [("23.1", False), ("24.0", True)])
def test_what_may_have_been_written_is_not_loaded_as_scalars(
    version: str, scalar: bool, cache: Cache
) -> None:
    """To 23.1, the cache of scalars keeps what memory held before (#1093)."""
    source = (
        '#include "prelude.h"\n'
        "__global__ void use(const float *w, float *out)\n"
        "{\n"
        "    float sum = 0;\n"
        "    for (int i = 0; i < 16; i++) sum += w[i];\n"
        "    out[0] = sum;\n"
        "}\n"
    )
    first, *_ = stages.amdgcn(Model("gem5", version, "gfx902"))
    loads = re.findall(r"s_load_dword\w* \S+ s\[(\d+):", first.make(source, cache))
    assert len(set(loads)) > 1 if scalar else set(loads) == {loads[0]}


def test_launches_are_told(tmp_path: Path) -> None:
    """By lint and by a build, of the versions that they concern."""
    path = tmp_path / "kernel.s"
    head = '.amdgcn_target "amdgcn-amd-amdhsa--gfx902"\n.globl k\n.type k,@function\nk:\n'
    path.write_text(f"{head}s_endpgm\n")
    for version, told in (("22.0", 6), ("23.1", 2), ("24.0", 0)):
        shown = CliRunner().invoke(cli, ["lint", str(path), "-s", f"gem5@{version}"])
        assert shown.exit_code == 0
        lines = shown.output.splitlines()
        assert sum(line.startswith(f"launches: gem5 {version} ") for line in lines) == told
        assert any("--l1 bypass" in line for line in lines) is (version == "22.0")
        how = "run on 2026-11-28" if version == "24.0" else "known from its sources alone"
        assert any(line.startswith(f"gem5 {version}: {how}") for line in lines)
        package = Gem5Se(gem5_version=version).package
        assert len(package.notes(tmp_path, details=True)) == told
        assert [f"does {told} things" in note for note in package.notes(tmp_path)] == [True] * (
            told > 0
        )


def test_a_loop_of_softmax_begins_below_zero(cache: Cache) -> None:
    """gem5 22.0 extends s_movk_i32 with zeros: the loop would begin at 64,512."""
    (source,) = kernels(simgen.plan("softmax_fwd").workload).values()
    texts = {}
    for version in ("22.0", "23.0"):
        model = Model("gem5", version, "gfx902")
        first = stages.amdgcn(model)[0]
        texts[version] = legalise.rewrite(first.make(source, cache), model).text
    constant = re.search(r"s_movk_i32 (s\d+), (0xf\w{3})", texts["23.0"])
    assert constant
    assert f"s_mov_b32 {constant[1]}, 0xffff{constant[2][2:]}" in texts["22.0"]


@pytest.mark.parametrize(("simulator", "version"), [("gem5", "24.0"), ("gem5", "21.2"), ("", "")])
def test_rows_of_a_sparse_matrix_are_loaded_word_by_word(
    simulator: str, version: str, cache: Cache
) -> None:
    """rows[i] and rows[i + 1] lie in two lines for every sixteenth i."""
    sizes = {"m": 33, "n": 12, "k": 40, "sparsity": 0.75}
    (source,) = kernels(simgen.plan("sparse_gemm_fwd", set=sizes).workload).values()
    first, second, *_ = stages.amdgcn(Model(simulator, version, "gfx902"))
    made = first.make(source, cache)
    pairs = re.findall(r"\tglobal_load_dwordx2 .*", made)
    assert pairs
    assert all("; align 4" in each for each in pairs) is bool(simulator)
    left = re.findall(r"\tglobal_load_dwordx2 .*", second.make(made, cache).text)
    assert bool(left) is not bool(simulator)


def test_alignments_are_those_of_the_compiler() -> None:
    """By a compiler's last pass, in LLVM's text of machine instructions (docs/MIRLangRef)."""
    text = "\tglobal_load_dwordx2 v[0:1], v2, s[0:1]\n\tflat_store_dwordx4 v[0:1], v[2:5]\n"
    told = "  $a = GLOBAL_LOAD_DWORDX2_SADDR $b :: (load (s64) from %ir.6{}, addrspace 1)\n"
    told += "  FLAT_STORE_DWORDX4 $a :: (store (s128) into %ir.7{}), (load (s32) from %ir.8)\n"

    def found(*words: str) -> list[str]:
        made = toolchain.aligned(text, told.format(*words)).splitlines()
        return [line.partition(" ; ")[2] for line in made]

    assert found("", "") == ["", "align 4"]
    assert found(", align 4", ", align 8, basealign 16") == ["align 4", "align 4"]
    assert found(", align 16, !tbaa !5", ", align 16") == ["", "align 4"]
    assert toolchain.aligned(text, "").count("; align 4") == 2


@pytest.mark.parametrize(
    ("version", "source", "waits"),
    [
        ("22.1", "out[threadIdx.x] = x[threadIdx.x]", "with loads; leave --WB_L2 out, or take"),
        ("23.1", "atomicAdd(out, x[threadIdx.x])", "with atomics; leave --WB_L2 out with kernels"),
        ("23.1", "out[threadIdx.x] = x[threadIdx.x]", ""),
        ("24.0", "atomicAdd(out, x[threadIdx.x])", ""),
    ],
)  # fmt: skip
def test_a_cache_that_writes_back_is_refused_where_it_deadlocks(
    version: str, source: str, waits: str, tmp_path: Path
) -> None:
    text = f"__global__ void k(const int* x, int* out) {{ {source}; }}\n"
    (tmp_path / "k.hip").write_text(text)
    (tmp_path / "k.toml").write_text(
        'source = "k.hip"\ninputs = { x = "i32[64]" }\noutputs = { out = "i32[64]" }\n'
        'args = ["x", "out"]\nitems = 64\nblock = 64\nreference = "x"\n'
    )
    target = Gem5Se(gem5_version=version)
    made = simgen.plan(str(tmp_path / "k.toml")).build(tmp_path / "made", target)
    run = made.path / "gem5-se/run.sh"
    environment = {"GEM5": "/nowhere", "GEM5_OPTIONS": "--num-cp=2 --WB_L2", "PATH": os.defpath}
    where = shutil.copytree(made.path, Path(tempfile.mkdtemp(dir="/var/tmp")) / "made")
    try:
        done = subprocess.run(
            ["sh", where / "gem5-se/run.sh"], env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    finally:
        shutil.rmtree(where.parent)
    said = (
        f"simgen: error: gem5-se: --WB_L2: gem5 {version} deadlocks in a write-back L2 (--WB_L2) "
    )
    assert ("--WB_L2" in done.stderr) is bool(waits), done.stderr
    assert not waits or (done.returncode == 4 and done.stderr.startswith(said + waits))
    assert ("\ndeadlock='' #" in run.read_text()) is not bool(waits)
