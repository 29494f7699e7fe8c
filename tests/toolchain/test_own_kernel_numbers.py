"""Kernels of users with whole numbers of all sizes, doubles and pairs of halves, to the bit: on
this CPU, and in MGPUSim, which has hardly any of their instructions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import simgen
from simgen.targets.host import Host
from simgen.targets.mgpusim.target import MGPUSim

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)
TIMEOUT = 300.0


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


WHOLE = """
#include <cstdint>
__global__ void whole(const int64_t* a, const uint64_t* b, const uint32_t* c, const int16_t* d,
                      const uint16_t* e, int64_t* p, uint64_t* q, uint32_t* r, int16_t* s,
                      uint16_t* t, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    p[i] = a[i] * 6364136223846793005LL + d[i];
    q[i] = b[i] * 6364136223846793005ULL + c[i];
    r[i] = c[i] * 2654435761u + e[i];
    s[i] = static_cast<int16_t>(d[i] * 300 + 7);
    t[i] = static_cast<uint16_t>(e[i] + 65000);
}
"""
WHOLE_TOML = """
source = "whole.hip"
parameters = { n = 500 }
inputs = { a = "i64[n]", b = "u64[n] uniform(0, 2**53)", c = "u32[n] uniform(2**31, 2**32)", \
d = "i16[n]", e = "u16[n] uniform(0, 2**16)" }
outputs = { p = "i64[n]", q = "u64[n]", r = "u32[n]", s = "i16[n]", t = "u16[n]" }
args = ["a", "b", "c", "d", "e", "p", "q", "r", "s", "t", "i32 n"]
items = "n"
block = 64
[reference]
p = "a * 6364136223846793005 + d"
q = "b * 6364136223846793005 + c"
r = "c * 2654435761 + e"
s = "d * 300 + 7"
t = "e + 65000"
"""


@pytest.mark.parametrize(
    ("target", "arch"), [("host", ""), ("mgpusim", "gfx803"), ("mgpusim", "gfx942")]
)
def test_whole_numbers_of_all_sizes(target: str, arch: str) -> None:
    """All bits of them: products wrap around, in the reference too."""
    if target == "mgpusim" and MGPUSim().needs.missing():
        pytest.skip("MGPUSim is not here")
    Path("whole.hip").write_text(WHOLE)
    text = WHOLE_TOML.replace("\\\n", "")
    Path("whole.toml").write_text(text)
    on = MGPUSim(arch=arch) if arch else target
    bundle = simgen.plan("whole.toml").build("made", on)
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)
    if target == "host":  # one unit of 2^64 is seen
        Path("whole.toml").write_text(text.replace("3005 + c", "3005 + c + (c == c[5])"))
        other = simgen.plan("whole.toml").build("other", on)
        other.run(timeout=TIMEOUT)
        (report,) = other.diff(strict=False).reports
        (wrong,) = [each for each in report.verdicts if not each.passed]
        assert (wrong.tensor, wrong.comparison.outside) == ("whole.q", 1)


def test_a_function_gets_and_gives_whole_numbers() -> None:
    Path("w.hip").write_text(
        "__global__ void w(const unsigned long long* b, unsigned long long* q)\n"
        "{ q[threadIdx.x] = b[threadIdx.x] * 3; }\n"
    )
    Path("w.py").write_text("def expected(b):\n    return b * 3\n")
    Path("w.toml").write_text(
        'source = "w.hip"\ninputs = { b = "u64[64]" }\noutputs = { q = "u64[64]" }\n'
        'args = ["b", "q"]\ngrid = 1\nblock = 64\ntolerance = 0\nreference = "w.py:expected"\n'
    )
    given = np.random.default_rng(1).integers(0, 2**64, 64, np.uint64)
    np.savez("w.npz", **{"w.b": given})
    bundle = simgen.plan("w.toml", values=["w.npz"]).build("made", "host")
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


DOUBLES = """
__global__ void d(const double* a, const double* b, int* out, double* s, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const double x = a[i], y = b[i];
    out[i] = (x < y) | (x <= y) << 1 | (x == y) << 2 | (x != y) << 3 | (x > y) << 4 | (x >= y) << 5
        | __builtin_isunordered(x, y) << 6 | (fabs(x) < 0.5) << 7;
    s[i] = x < y ? x * 0.0625 : y;
}
"""
OF_DOUBLES = """
import numpy as np
def expected(a, b):
    bits = [a < b, a <= b, a == b, a != b, a > b, a >= b, a != a, abs(a) < 0.5]
    return {"out": sum(x.astype(int) << k for k, x in enumerate(bits)),
            "s": np.where(a < b, a * 0.0625, b)}
"""


@pytest.mark.skipif(bool(MGPUSim().needs.missing()), reason="MGPUSim is not here")
@pytest.mark.parametrize("arch", ["gfx803", "gfx942"])
def test_doubles_are_compared_in_mgpusim(arch: str) -> None:
    """Zeros of both signs, subnormal numbers, neighbours, numbers that differ in the lower half."""
    Path("d.hip").write_text(DOUBLES)
    Path("d.py").write_text(OF_DOUBLES)
    Path("d.toml").write_text(
        'source = "d.hip"\ninputs = { a = "f64[576]", b = "f64[576]" }\n'
        'outputs = { out = "i32[576]", s = "f64[576]" }\nargs = ["a", "b", "out", "s", "i32 576"]\n'
        'items = 576\nblock = 64\nreference = "d.py:expected"\ntolerance = 0\n'
    )
    some = [0.0, 5e-324, 1.0, 1 + 2**-52, 1 - 2**-53, 1e308, 2.0**-1022, 1 + 2**-40, 1 + 2**-33,
            0.5, 2.0**-1018, 3.0]  # fmt: skip
    values = np.array([*some, *(-np.array(some))])
    a, b = np.meshgrid(values, values)
    np.savez("d.npz", **{"d.a": a.ravel(), "d.b": b.ravel()})
    bundle = simgen.plan("d.toml", values=["d.npz"]).build("made", MGPUSim(arch=arch))
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


PAIRS = """
#include <hip/hip_fp16.h>
__global__ void h(const half2* a, const half2* b, half2* s, half2* p, half2* f)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[i] = __hadd2(a[i], b[i]);
    p[i] = __hmul2(a[i], b[i]);
    f[i] = __hfma2(a[i], b[i], __hsub2(a[i], b[i]));
}
"""
OF_PAIRS = """
import numpy as np
def expected(a, b):
    half = lambda x: x.astype(np.float16).astype(np.float64)
    a, b = a.astype(np.float64), b.astype(np.float64)
    return {"s": half(a + b), "p": half(a * b), "f": half(a * b + half(a - b))}
"""


@pytest.mark.parametrize("target", ["host", "mgpusim"])
def test_pairs_of_halves_are_rounded_once(target: str) -> None:
    """Sums, products and fused multiply-adds, to the bit."""
    if target == "mgpusim" and MGPUSim().needs.missing():
        pytest.skip("MGPUSim is not here")
    Path("h.hip").write_text(PAIRS)
    Path("h.py").write_text(OF_PAIRS)
    Path("h.toml").write_text(
        'source = "h.hip"\ninputs = { a = "f16[4096]", b = "f16[4096]" }\n'
        'outputs = { s = "f16[4096]", p = "f16[4096]", f = "f16[4096]" }\n'
        'args = ["a", "b", "s", "p", "f"]\nitems = 2048\nblock = 64\n'
        'reference = "h.py:expected"\ntolerance = 0\n'
    )
    bundle = simgen.plan("h.toml").build("made", target)
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


def _judged(name: str, hip: str, toml: str, target: object, python: str = "") -> None:
    """Build, run and compare a kernel to the bit, where the target is here."""
    if target != "host" and MGPUSim().needs.missing():
        pytest.skip("MGPUSim is not here")
    suffix = "cu" if "// CUDA" in hip else "hip"
    Path(f"{name}.{suffix}").write_text(hip)
    Path(f"{name}.py").write_text(python)
    Path(f"{name}.toml").write_text(f'source = "{name}.{suffix}"\n{toml}')
    bundle = simgen.plan(f"{name}.toml").build("made", target)
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


INDICES = """
template <class T> __device__ int of_type(T) { return __is_same(T, unsigned); }
__device__ unsigned first(uint3 at) { return at.x; }
__global__ void i(unsigned* y)
{
    auto i = threadIdx.x;
    i += blockDim.x * blockIdx.x;
    auto left = gridDim.x;
    left -= 3;
    const dim3 at = threadIdx;
    y[i] = i + 1000 * of_type(threadIdx.x) + 10000 * first(threadIdx) + (left > 5 ? 2000 : 0)
        + 100000 * (at.x - blockDim.x < 0) + min(threadIdx.x, 3);
}
"""


@pytest.mark.parametrize("target", ["host", "mgpusim"])
def test_indices_are_unsigned(target: str) -> None:
    """As the headers of HIP and CUDA declare them: 2 - 3 is a large number."""
    toml = (
        'outputs = { y = "u32[128]" }\nargs = ["y"]\ngrid = 2\nblock = 64\n'
        "reference = 'np.arange(128) + 3000 + 10000 * (np.arange(128) % 64)"
        " + np.minimum(np.arange(128) % 64, 3)'\n"
    )
    _judged("i", INDICES, toml, target)


KINDS = """// {name}: CUDA or hipLaunchKernelGGL, "hip/hip_runtime.h"
#if {condition}
#include <hip/hip_runtime.h>
#define LANES 64
#elif CUDART_VERSION >= 11000 && !defined(FAR)
#include <cuda_runtime.h>
#define LANES 32
#endif
#ifdef __CUDACC__
#define BOTH __host__ __device__
#elif defined(__HIPCC__) && defined(__HIP_PLATFORM_AMD__)
#define BOTH __device__
#endif
BOTH inline int twice(int x) {{ return 2 * x; }}
__global__ void k(int* y)
{{
    y[threadIdx.x] = 1000 * warpSize + LANES + threadIdx.x
#ifdef __CUDA_ARCH__
        + twice(100000)
#endif
#ifdef __HIP_DEVICE_COMPILE__
        + 100000
#endif
        ;
}}
"""


@pytest.mark.parametrize("target", ["host", "mgpusim"])
@pytest.mark.parametrize(
    ("name", "condition", "defines", "lanes"),
    [
        ("k.cu", "defined(USE_ROCM)", "", 32),
        ("k.cu", "defined __HIP_PLATFORM_AMD__ || (__CUDACC__ + 0 == 7u)", "", 32),
        ("k.cu", "defined(USE_ROCM)", 'USE_ROCM = "1"', 64),
        ("k.cu", "1", "", 64),
        ("k.hip", "defined(__HIPCC__) && !defined(__CUDACC__)", "", 64),
        ("k.hip", "defined(USE_ROCM)", "", 64),
    ],
)
def test_macros_and_lanes_go_together(
    target: str, name: str, condition: str, defines: str, lanes: int
) -> None:
    """A file is of CUDA or of HIP by what its conditions take, and by no comment."""
    if target != "host" and MGPUSim().needs.missing():
        pytest.skip("MGPUSim is not here")
    Path(name).write_text(KINDS.format(name=name, condition=condition))
    macros = {32: 200000, 64: 100000}
    Path("k.toml").write_text(
        f'source = "{name}"\ndefines = {{ {defines} }}\noutputs = {{ y = "i32[64]" }}\n'
        'args = ["y"]\ngrid = 1\nblock = 64\n'
        f'reference = "np.arange(64) + {1001 * lanes + macros[lanes]}"\n'
    )
    bundle = simgen.plan("k.toml").build("made", target)
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)
