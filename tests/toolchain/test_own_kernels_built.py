"""Kernels of users on this CPU; and what is refused of them, in one line, before anything runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import simgen
from simgen.cli.main import cli
from simgen.errors import RefusedError, SimgenError, UsageError
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
    with pytest.raises(UsageError, match="it is there already; remove it"):
        runner.invoke(cli, ["new", "kernel", "mine"], catch_exceptions=False)


def test_a_python_reference_tensors_that_hold_values_and_numbers_of_all_sizes() -> None:
    bundle = simgen.plan("k.toml").build("made", ["host", "gem5-se"])
    bundle.run("host", timeout=TIMEOUT)
    assert bundle.diff("host", strict=True)
    made = (bundle.path / "gem5-se" / "src" / "plan.h").read_text()
    assert "struct area" in made
    assert "0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe0, 0x3f" in made, "0.5 of 64 bits, aligned"


def test_a_wrong_kernel_is_told() -> None:
    described(hip=HIP.replace("atomicAdd(count, 1)", "atomicAdd(count, 2)"))
    bundle = simgen.plan("k.toml").build("made", "host")
    bundle.run(timeout=TIMEOUT)
    assert "count" in bundle.diff("host").failure


@pytest.mark.parametrize(
    "written",
    [
        "",
        "template __global__ void k<float>(const float*, float*, int*, int, double);",
        "template __global__ void k(const float*, float*, int*, int, double);",
        "// template __global__ void k<float>(const float*, float*, int*, int, double);",
        "/* template __global__ void k<float>(const float*, float*); */",
    ],
)
def test_an_instance_of_a_template_that_the_source_makes_itself_or_not(written: str) -> None:
    hip = HIP.replace("__global__ void k(const float* x, float* y",
                      "template <class T> __global__ void k(const T* x, T* y")  # fmt: skip
    described(TOML.replace('"k"', '"k<float>"', 1), f"{hip}{written}\n")
    bundle = simgen.plan("k.toml").build("made", ["host", "gem5-se"])
    bundle.run("host", timeout=TIMEOUT)
    assert bundle.diff("host", strict=True)


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
    (
        "int i = blockIdx",
        "hipTextureObject_t t; int i = blockIdx",
        UsageError,
        "k.hip:7: unknown type name 'hipTextureObject_t'; textures and surfaces are not here",
    ),
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


FEATURES = """
#include <hip/hip_runtime.h>
#ifndef GUARD
#define GUARD
__constant__ float table[2][3];
__device__ int tickets;
struct Setting { float scale; int add[2]; };
namespace cg = cooperative_groups;
template <class T, int N> __device__ T turned(T v) { return v * T(N); }
__global__ void first(const float* x, const uchar4* bytes, float* y, __half* h, int n, Setting by)
{
    extern float __shared__ lds[];
    cg::thread_block block = cg::this_thread_block();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    volatile float* mine = lds;
    mine[threadIdx.x] = i < n ? x[i] : 0.0f;
    block.sync();
    const int found = __syncthreads_count(i < n && x[i] > 0);
    if (threadIdx.x == 0)
        atomicAdd(&tickets, found);
    if (i >= n)
        return;
    const float4 v = float4(mine[threadIdx.x ^ 1]) * 2.0f + make_float4(1, 2, 3, 4);
    y[i] = by.scale * v.z + by.add[1] + table[1][i % 3] + std::numeric_limits<short>::max() + bytes[i].w;
    h[i] = __float2half(turned<float, FACTOR>(v.x));
}
__global__ void second(float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] -= table[0][2];
}
#endif
"""  # noqa: E501
FEATURES_TOML = """
source = "f.hip"
parameters = { n = 200, factor = 3 }
defines = { FACTOR = "factor" }
inputs = { x = "f32[n]", bytes = "u8[n, 4]", table = "f32[2, 3]" }
outputs = { y = "f32[n] zeros", h = "f16[n] zeros", tickets = "i32[1] constant(5)" }
[reference]
other = "x.reshape(n // 2, 2)[:, ::-1].reshape(n)"
v = "2 * other + 3"
y = "0.5 * v + 7 + np.tile(table[1], 67)[:n] + 32767 + bytes[:, 3] - table[0, 2]"
h = "factor * (2 * other + 1)"
tickets = "5 + (x > 0).sum()"
[[launch]]
kernel = "first"
args = ["x", "bytes", "y", "h", "i32 n", "{ f32 0.5, i32 6, i32 7 }"]
items = "n"
block = 64
lds = 256
[[launch]]
kernel = "second"
args = ["y", "i32 n"]
items = "n"
block = 64
"""


def features() -> None:
    """A kernel in the ways of the samples of others."""
    Path("f.hip").write_text(FEATURES)
    Path("f.toml").write_text(FEATURES_TOML)


def test_variables_structures_groups_and_vectors() -> None:
    features()
    bundle = simgen.plan("f.toml").build("made", "host")
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


FUNCTIONS = """
__host__ __device__ {} int larger(int a, int b) {{ return a > b ? a : b; }}
__global__ void k(const float* x, float* y, int* count, int n, double half)
{{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[larger(i, 0) % n] = x[i % n];
}}
"""


@pytest.mark.parametrize("arch", ["gfx803", "gfx942"])
def test_functions_of_both_sides_are_left_out_where_they_were_inlined(arch: str) -> None:
    """Clang hides their symbols; what is called in spite of all is refused."""
    described(hip=FUNCTIONS.format(""))
    plan = simgen.plan("k.toml")
    plan.build("made", MGPUSim(arch=arch))
    described(hip=FUNCTIONS.format("__attribute__((noinline))"))
    with pytest.raises(RefusedError, match="it calls larger, or reads it, and MGPUSim"):
        simgen.plan("k.toml").build("called", MGPUSim(arch=arch))


WARP = """
__device__ void last(volatile float* s, int at) {{ s[at] += s[at + 16]; s[at] += s[at + 8]; }}
__global__ void k(const float* x, float* y, int* count, int n, double half)
{{
    __shared__ float s[128];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < {})
        last(s, threadIdx.x);
    y[threadIdx.x] = s[threadIdx.x];
}}
"""


@pytest.mark.parametrize("lanes", ["32", "warpSize"])
def test_lanes_that_go_together_are_refused_on_this_cpu(lanes: str) -> None:
    described(hip=WARP.format(lanes))
    with pytest.raises(RefusedError, match="lanes of a warp seem to read volatile LDS"):
        simgen.plan("k.toml").build("made", "host")


GENERIC = """
__global__ void g(const float* a, float* p, int n)
{
    __shared__ float l[64];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    l[threadIdx.x] = a[i];
    __syncthreads();
    const float* from = n > 50 && i % 2 ? a + i : l + threadIdx.x;
    p[i] = *from + gridDim.x;
}
"""


def test_pointers_to_lds_or_memory_are_refused_on_gfx803() -> None:
    """Where nobody asks for them, a base of LDS that compilers list is none that it needs."""
    Path("g.hip").write_text(GENERIC)
    Path("g.toml").write_text(
        'source = "g.hip"\ninputs = { a = "f32[64]" }\noutputs = { p = "f32[64]" }\n'
        'args = ["a", "p", "i32 64"]\ngrid = 1\nblock = 64\nreference = "a + 1"\n'
    )
    with pytest.raises(SimgenError, match=r"shared base.* keep pointers to LDS and to"):
        simgen.plan("g.toml").build("made", MGPUSim(arch="gfx803"))
    Path("g.hip").write_text(GENERIC.replace("? a + i", "? l + threadIdx.x"))
    simgen.plan("g.toml").build("right", MGPUSim(arch="gfx803"))


@pytest.mark.parametrize(
    ("suffix", "call", "words"),
    [
        ("hip", "y[0] = erfinvf(x[0]);", "HIP's and CUDA's `erfinvf` is not here; write it with"),
        ("hip", "__hip_fp8_e4m3 v;", "HIP's `__hip_fp8_e4m3` is not here"),
        ("cu", "y[0] = __fns(1, 2, 1);", "HIP's and CUDA's `__fns` is not here"),
        ("cu", "std::tuple<int> t;", "`std::tuple` is not here"),
        ("cu", "cuda::std::array<int, 2> t;", "CUDA's library of cuda:: names is not here"),
        ("cu", "try { y[0] = 1; } catch (...) {}", "kernels have no exceptions"),
        ("hip", "y[0] = *new float(1);", "kernels get no memory while they run; pass a tensor"),
        (
            "cu",
            "cooperative_groups::this_thread_block().barrier_wait();",
            "`barrier_wait` of cooperative groups is not here",
        ),
        ("cl", "y[0] = rootn(x[0], 3);", "OpenCL's `rootn` is not here"),
        ("hip", 'asm("mad.lo.f32 %0, %0, %0;" : "+r"(y[0]));', "mad.lo.f32 in its assembly is PTX"),
        ("hip", "y[0] = nothing(x[0]);", "'nothing'; correct it"),
    ],
)
def test_what_a_language_has_and_simgen_has_not(suffix: str, call: str, words: str) -> None:
    head = "__kernel void k(__global float* x, __global float* y)"
    head = head if suffix == "cl" else "__global__ void k(float* x, float* y)"
    Path(f"q.{suffix}").write_text(f"{head} {{ {call} }}")
    Path("q.toml").write_text(
        f'source = "q.{suffix}"\ninputs = {{ x = "f32[64]" }}\noutputs = {{ y = "f32[64]" }}\n'
        'args = ["x", "y"]\ngrid = 1\nblock = 64\nreference = "x"\n'
    )
    with pytest.raises(SimgenError, match=re.escape(words)):
        simgen.plan("q.toml").build("made", MGPUSim(arch="gfx942"))


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
    with pytest.raises(RefusedError, match="build with arch gfx942"):
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
    with pytest.raises(RefusedError, match=r"one dimension, or take arch gfx902$"):
        planned.build("made", Gem5Se(arch="gfx90a"))
    assert not Path("made").exists()
    simgen.plan(str(EXAMPLES / "reduce.toml")).build("flat", Gem5Se(arch="gfx90a"))


UNSET = """
__global__ void k(const float* x, float* y, int* count, int n, double half)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a[4]; a[0] = x[i]; a[1] = 2 * x[i];
    float s = 0; for (int j = 0; j < SET; j++) s += a[j];
    y[i] = s;
}
"""


def test_private_memory_that_nothing_has_set() -> None:
    """It is NaN on all targets; --sanitize ends there, and only there."""
    for terms, fine in (("3", False), ("2", True)):
        toml = TOML.replace("n = 300", "n = 320").replace("tolerance = 1e-6", "")
        toml = toml.replace('"k.py:expected"', '{ y = "3 * x", count = "count" }')
        described(toml, UNSET.replace("SET", terms))
        plain = simgen.plan("k.toml").build(f"plain{terms}", "host")
        plain.run(timeout=TIMEOUT)
        assert bool(plain.diff("host")) is fine
        if not fine:
            values = plain.result("host").outputs["k.y"].values
            assert (values != values).all(), "NaN"
        checked = simgen.plan("k.toml").build(f"checked{terms}", Host(sanitize=True))
        if fine:
            checked.run(timeout=TIMEOUT)
        else:
            with pytest.raises(SimgenError, match="a local variable or private array that no"):
                checked.run(timeout=TIMEOUT)


def test_an_input_that_a_function_writes_ends_the_run() -> None:
    called = "__device__ void bump(float* p) { *p += 1; }\n" + HIP.replace("const float* x, float* y", "float* x, float* y").replace("if (i < n) {", "if (i < n) { bump(x + i);")  # fmt: skip  # noqa: E501
    described(hip=called)
    bundle = simgen.plan("k.toml").build("made", "host")
    with pytest.raises(SimgenError, match="writes an input of the workload: invalid access"):
        bundle.run(timeout=TIMEOUT)
