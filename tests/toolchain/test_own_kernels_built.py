"""Kernels of users on this CPU; and what is refused of them, in one line, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import simgen
from simgen.cli.main import cli
from simgen.errors import RefusedError, UsageError
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.host import Host
from simgen.targets.mgpusim.target import MGPUSim

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "kernels"
TIMEOUT = 300.0
TOML = """
source = "k.hip"
kernel = "k"
inputs = { x = "f32[n]" }
outputs = { y = "f32[n] constant(2)", count = "i32[1] zeros" }
args = ["x", "y", "count", "i32 n", "f64 0.5"]
items = "n"
block = 64
parameters = { n = 300 }
reference = "k.py:expected"
tolerance = 1e-6
"""
HIP = """
#include <hip/hip_runtime.h>
#include "add.h"
__global__ void unused(float* x) { float far[400]; for (int i = 0; i < x[0]; i++) far[i & 255] = x[i]; x[1] = far[(int)x[2] & 255]; }
__global__ void k(const float* x, float* y, int* count, int n, double half)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = add(y[i], x[i] * (float)half);
        if (x[i] > 0)
            atomicAdd(count, 1);
    }
}
int main() { return hipDeviceSynchronize(); }
"""  # noqa: E501
PYTHON = """
def expected(x, y):
    return {"y": y + x.astype(float) * 0.5, "count": (x > 0).sum()}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    described()


def described(toml: str = TOML, hip: str = HIP) -> None:
    Path("k.toml").write_text(toml)
    Path("k.hip").write_text(hip)
    Path("k.py").write_text(PYTHON)
    Path("add.h").write_text("__device__ float add(float a, float b) { return a + b; }\n")


@pytest.mark.parametrize("name", ["transpose", "reduce"])
def test_examples_are_right(name: str) -> None:
    for target in (Host(), Host(sanitize=True)):
        bundle = simgen.plan(str(EXAMPLES / f"{name}.toml")).build(f"made{target.sanitize}", target)
        bundle.run(timeout=TIMEOUT)
        verdict = bundle.diff(strict=True)
        assert verdict, verdict.failure


def test_the_template_is_right_as_it_is() -> None:
    runner = CliRunner()
    assert runner.invoke(cli, ["new", "kernel", "mine"]).exit_code == 0
    bundle = simgen.plan("mine.toml", set={"n": 700}).build("made", "host")
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)
    swept = bundle.sweep("host", {"n": [64, 900]}, timeout=TIMEOUT)
    assert [each.outputs["mine.out"].values.size for each in swept.values()] == [64, 900]
    with pytest.raises(UsageError, match="such a file already"):
        runner.invoke(cli, ["new", "kernel", "mine"], catch_exceptions=False)


def test_a_python_reference_tensors_that_hold_values_and_numbers_of_all_sizes() -> None:
    bundle = simgen.plan("k.toml").build("made", ["host", "gem5-se"])
    bundle.run("host", timeout=TIMEOUT)
    assert bundle.diff("host", strict=True)
    made = (bundle.path / "gem5-se" / "src" / "table.h").read_text()
    assert "struct area" in made
    assert "0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe0, 0x3f" in made, "0.5 of 64 bits, aligned"


def test_a_wrong_kernel_is_told() -> None:
    described(hip=HIP.replace("atomicAdd(count, 1)", "atomicAdd(count, 2)"))
    bundle = simgen.plan("k.toml").build("made", "host")
    bundle.run(timeout=TIMEOUT)
    assert "count" in bundle.diff("host").failure


REFUSED = [
    ("x[i] * (float)half", "missing(x[i])", UsageError, "k.hip:9: use of undeclared"),
    ("void k(", "void other(", UsageError, "no such kernel"),
    (
        "n, double half)\n{",
        "n)\n{ const double half = 0.5;",
        RefusedError,
        "takes 4 arguments, and the launch gives 5",
    ),
    ("double half", "float half", RefusedError, "argument 4 takes 4 bytes"),
    ("__global__ void k", "__constant__ float c[3];\n__global__ void k", UsageError, "pass it as"),
    ("int i = blockIdx", 'printf("%d", n); int i = blockIdx', UsageError, "printf"),
    (
        "int i = blockIdx",
        "__builtin_amdgcn_s_sendmsg(1, 0); int i = blockIdx",
        RefusedError,
        "s_sendmsg .*; leave out printf and asserts$",
    ),
    ("void unused", "void k", UsageError, "several kernels are called so"),
]


@pytest.mark.parametrize(("old", "new", "error", "words"), REFUSED, ids=[e[1] for e in REFUSED])
def test_what_cannot_run_is_refused(old: str, new: str, error: type, words: str) -> None:
    described(hip=HIP.replace(old, new))
    with pytest.raises(error, match=words) as refused:
        simgen.plan("k.toml").build("made", "gem5-se")
    assert "\n" not in str(refused.value)
    assert not Path("made").exists()


def test_scratch_memory_is_refused() -> None:
    described(TOML.replace('kernel = "k"', 'kernel = "unused"').replace(
        '"x", "y", "count", "i32 n", "f64 0.5"', '"y"').replace('x = "f32[n]"', "").replace(
        ', count = "i32[1] zeros"', "").replace("k.py:expected", "y").replace(
        "n = 300", "n = 300000"))  # fmt: skip
    plan = simgen.plan("k.toml")
    with pytest.raises(RefusedError, match=r"scratch_store.*index them by constants") as refused:
        plan.build("made", MGPUSim(arch="gfx942"))
    assert "\n" not in str(refused.value)
    with pytest.raises(RefusedError, match="of 256 MiB; make arrays in it smaller"):
        plan.build("made", "gem5-se")  # which could, of fewer work-items
    with pytest.raises(RefusedError, match=r"needs \d+ bytes of scratch memory"):
        plan.build("made", Gem5Se(legalise=False))


def test_other_targets_and_several_gpus_are_refused() -> None:
    with pytest.raises(RefusedError, match="runs no kernels of your own"):
        simgen.plan("k.toml").build("made", "gem5-fs")
    with pytest.raises(UsageError, match="one GPU"):
        simgen.plan("k.toml").build("made", MGPUSim(gpus=2))
    with pytest.raises(RefusedError, match="runs no opencl"):
        simgen.plan(str(EXAMPLES / "histogram.toml")).build("made", "host")
    with pytest.raises(RefusedError, match="build with --arch gfx942"):
        simgen.plan(str(EXAMPLES / "scale.toml")).build("made", "gem5-se")


@pytest.mark.parametrize(
    ("data", "refused"),
    [("0xdc700000, 0x00000402", True),  # flat_store_dword v[2:3], v4
     ("0xbf800000, 0xbf800000", False)],
)  # fmt: skip
def test_instructions_written_as_data_are_looked_at_for_mgpusim(data: str, refused: bool) -> None:
    body = f'{{ asm volatile(".long {data}" ::: "memory"); y[threadIdx.x] = x[threadIdx.x]; }}'
    hip = f"__global__ void k(const float* x, float* y) {body}\n"
    toml = TOML.replace(', count = "i32[1] zeros"', "").replace(
        '"y", "count", "i32 n", "f64 0.5"', '"y"'
    )
    described(toml.replace('"k.py:expected"', '"x"'), hip)
    plan, target = simgen.plan("k.toml"), MGPUSim(arch="gfx942")
    if not refused:
        plan.build("made", target)
        return
    with pytest.raises(RefusedError, match=r"flat_store_dword: .* adds s\[0:1\] to the address"):
        plan.build("made", target)


def test_gem5_gives_code_for_other_gpus_one_dimension() -> None:
    """apu_se.py runs code for gfx90a as gfx902, whose ids of work-items lie elsewhere."""
    planned = simgen.plan(str(EXAMPLES / "transpose.toml"))
    with pytest.raises(RefusedError, match=r"one dimension, or take --arch gfx902$"):
        planned.build("made", Gem5Se(arch="gfx90a"))
    assert not Path("made").exists()
    simgen.plan(str(EXAMPLES / "reduce.toml")).build("flat", Gem5Se(arch="gfx90a"))
