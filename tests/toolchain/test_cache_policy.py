"""`--l1 bypass`: what it changes in machine code, and that it changes nothing else."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

from simgen.bundle import writing as bundles
from simgen.errors import UsageError
from simgen.frontend import network, problem
from simgen.ground import resources
from simgen.isa import code_object, toolchain
from simgen.isa.legalise import cache_policy
from simgen.kernels import render
from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache
from simgen.targets.cuda import Cuda
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.mgpusim.target import MGPUSim
from simgen.workload import lowering as workloads

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.ground.ir import Workload
    from simgen.targets.base import Target

SMALL = {
    "conv_fwd": [("n", "1"), ("c", "4"), ("h", "9"), ("w", "9"), ("num_output", "8")],
    "pool_bwd": [("n", "1"), ("c", "2"), ("h", "16"), ("w", "16")],
    "softmax_fwd": [("n", "3"), ("c", "100")],
}
LOAD = re.compile(r"(global|flat|buffer)_load_")
AGENT_LOAD = """\
extern "C" __attribute__((global)) void k(const int* x, int* y)
{
    unsigned i = __builtin_amdgcn_workitem_id_x();
    y[i] = __scoped_atomic_load_n(x + i, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
"""
PROVENANCE = {"simgen": "test", "config": {}}
LINKED = {name for name, _ in code_object.MACHINES.values()}
each_arch = pytest.mark.parametrize("arch", toolchain.AMD_ARCHS)


@cache
def lowered(name: str) -> Workload:
    found = problem.find(name, SMALL[name], None)
    resolved = network.resolve(found.config, found.settings)
    return workloads.lower(resolved, name, found.passes, 0)


def code(line: str) -> str:
    return line.partition(";")[0].strip()


@each_arch
def test_the_bits_are_those_of_a_load_that_the_whole_gpu_sees(arch: str) -> None:
    """The compiler's own choice for such a load, which a stale line in L1 must not answer."""
    loads = [code(line) for line in toolchain.assembly(AGENT_LOAD, arch).splitlines()]
    (load,) = (line for line in loads if LOAD.match(line))
    assert load.split()[-1] == cache_policy.BITS[arch]


@each_arch
@pytest.mark.parametrize("name", SMALL)
def test_every_load_has_the_bits_and_nothing_else_changes(arch: str, name: str) -> None:
    for kernel in lowered(name).kernels:
        text = toolchain.assembly(render.self_contained(render.kernel(kernel)), arch)
        changed = cache_policy.bypass(text, arch)

        loads = 0
        for before, after in zip(text.split("\n"), changed.split("\n"), strict=True):
            if LOAD.match(code(before)):
                loads += 1
                assert code(after) == f"{code(before)} {cache_policy.BITS[arch]}"
            else:
                assert after == before
        assert loads

        if arch not in LINKED:
            continue
        old, new = (
            code_object.instructions(toolchain.assemble(t, arch), kernel.name)
            for t in (text, changed)
        )
        assert len(old) == len(new)
        bits = [(a ^ b).bit_count() for a, b in zip(old, new, strict=True) if a != b]
        assert bits == loads * [1]  # one bit of one byte of each load


def test_loads_that_a_rewriting_made_or_commented_get_the_bits() -> None:
    text = "\tglobal_load_dword v1, v2, s[0:1] offset:16  ; for global_load_dwordx2 v[1:2], v2\n"
    assert cache_policy.bypass(text, "gfx942") == text.replace(" offset:16", " offset:16 sc1")
    twice = cache_policy.bypass(cache_policy.bypass(text, "gfx942"), "gfx942")
    assert twice.count("sc1") == 1


@pytest.mark.parametrize(
    "line",
    ["\tglobal_store_dword v0, v1, s[0:1]", "\ts_load_dwordx4 s[0:3], s[4:5], 0x0",
     "\tds_read_b32 v0, v1", "; global_load_dword v0, v1, s[0:1]", "global_load_table:"],
)  # fmt: skip
def test_all_else_stays(line: str) -> None:
    assert cache_policy.bypass(line, "gfx900") == line


def built(place: Path, target: Target) -> tuple[Mapping[str, str], set[str]]:
    """Digests of the target's files, and the cache entries that were asked for."""
    cache = Cache(place / "cache")
    made = bundles.write(place / "b", lowered("pool_bwd"), [target], Builder(cache), PROVENANCE)
    files = json.loads((made.path / "manifest.json").read_text())["files"]
    return files, set(cache.asked)


@pytest.mark.parametrize("kind", [Gem5Se, MGPUSim])
def test_the_policy_is_part_of_the_code_and_of_its_key(tmp_path: Path, kind: type[Target]) -> None:
    plain, plain_keys = built(tmp_path / "plain", kind())
    cached, cached_keys = built(tmp_path / "cached", kind(l1="cached"))
    bypass, bypass_keys = built(tmp_path / "bypass", kind(l1="bypass"))

    assert cached == plain
    assert cached_keys == plain_keys
    kernels = [n for n in plain if n.endswith((".co", "/binary"))]
    assert kernels
    assert all(bypass[name] != plain[name] for name in kernels)
    assert len(bypass_keys & plain_keys) < len(plain_keys)
    assert bypass.keys() == plain.keys()


def test_native_runs_are_told(tmp_path: Path) -> None:
    for policy, option in (("cached", False), ("bypass", True)):
        built(tmp_path / policy, Cuda(l1=policy))
        script = (tmp_path / policy / "b/cuda/run.sh").read_text()
        assert ('"$program" "$part" --past-l1\n' in script) is option
        assert ('"$program" "$part"\n' in script) is not option


def test_all_loads_of_global_memory_in_ptx_are_changed() -> None:
    path = resources.folder("templates") / "launchers" / "cuda_run.py"
    (line,) = (line for line in path.read_text().splitlines() if line.startswith("LOAD = "))
    pattern = re.compile(re.search(r'r"(.+)"', line)[1])  # type: ignore[index]
    for old in ("ld.global.nc.v4.f32", "ld.global.f32", "ld.global.v2.u32", "ld.global.nc.u32"):
        operands = " {%f1, %f2}, [%rd1+16];"
        new = "ld.global.cg" + old.removeprefix("ld.global").removeprefix(".nc")
        assert pattern.sub("ld.global.cg", old + operands) == new + operands
    for line in (
        "ld.shared.f32 %f1, [a];",
        "ld.param.u64 %rd1, [k_param_0];",
        "st.global.f32 [a];",
    ):
        assert pattern.sub("ld.global.cg", line) == line


def test_mgpusim_says_that_it_reads_no_such_bits(tmp_path: Path) -> None:
    assert not any("cache policy" in line for line in MGPUSim().package.notes(tmp_path))
    assert any("cache policy" in line for line in MGPUSim(l1="bypass").package.notes(tmp_path))


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UsageError, match="--l1 'bypas': unknown; did you mean 'bypass'"):
        Gem5Se(l1="bypas")
