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
__global__ void d(const double* a, const double* b, int* out, double* s, long long* w,
                  unsigned long long* u, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const double x = a[i], y = b[i];
    out[i] = (x < y) | (x <= y) << 1 | (x == y) << 2 | (x != y) << 3 | (x > y) << 4 | (x >= y) << 5
        | __builtin_isunordered(x, y) << 6 | (fabs(x) < 0.5) << 7;
    s[i] = x < y ? x * 0.0625 : y;
    const double z = fabs(x) < 4 && fabs(y) < 4 ? x * y * 0x1p59 : 0;
    w[i] = static_cast<long long>(z);
    u[i] = static_cast<unsigned long long>(fabs(z) * 3);
}
"""
OF_DOUBLES = """
import h5py
import numpy as np
def expected(a, b):
    bits = [a < b, a <= b, a == b, a != b, a > b, a >= b, a != a, abs(a) < 0.5]
    small = (abs(a) < 4) & (abs(b) < 4)
    z = np.where(small, a, 0) * np.where(small, b, 0) * 2.0**59
    return {"out": sum(x.astype(int) << k for k, x in enumerate(bits)),
            "s": np.where(a < b, a * 0.0625, b), "w": z.astype(np.int64),
            "u": (abs(z) * 3).astype(np.uint64)}
"""


@pytest.mark.skipif(bool(MGPUSim().needs.missing()), reason="MGPUSim is not here")
@pytest.mark.parametrize("arch", ["gfx803", "gfx942"])
def test_doubles_are_compared_and_become_integers_in_mgpusim(arch: str) -> None:
    """Zeros of both signs, subnormal numbers, neighbours, numbers that differ in the lower half."""
    Path("d.hip").write_text(DOUBLES)
    Path("d.py").write_text(OF_DOUBLES)
    Path("d.toml").write_text(
        'source = "d.hip"\ninputs = { a = "f64[576]", b = "f64[576]" }\n'
        'outputs = { out = "i32[576]", s = "f64[576]", w = "i64[576]", u = "u64[576]" }\n'
        'args = ["a", "b", "out", "s", "w", "u", "i32 576"]\n'
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
        ("k.hip", "defined(__HIPCC__) && __HIP_ARCH_HAS_WARP_SHUFFLE__ && HIP_VERSION > 6", "", 64),
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


LANES = """// CUDA
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(const unsigned* x, unsigned* y)
{
    const int i = threadIdx.x, lane = i % 32;
    unsigned r[8];
    if (lane < 16) {
        r[0] = __reduce_min_sync(0xffff, x[i]);
        r[1] = __reduce_xor_sync(0xffff, x[i]);
    } else {
        r[0] = __reduce_add_sync(0xffff0000, x[i]);
        r[1] = __reduce_and_sync(0xffff0000, x[i] | 15u) | __reduce_or_sync(~0xffffu, x[i]) << 8;
    }
    int all;
    r[2] = __match_all_sync(~0u, lane < 40 ? 5 : i, &all) == ~0u && all;
    r[3] = __reduce_max_sync(~0u, x[i]);
    const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    r[4] = cg::inclusive_scan(tile, x[i], cg::plus<unsigned>());
    r[5] = cg::exclusive_scan(tile, x[i]);
    r[6] = lane % 3 ? cg::reduce(cg::coalesced_threads(), x[i], cg::greater<unsigned>()) : 1;
    r[7] = __reduce_add_sync(lane & 1 ? 0xaaaaaaaa : 0x55555555, x[i]);
    for (int j = 0; j < 8; j++)
        y[j * 64 + i] = r[j];
}
"""
OF_LANES = """
import numpy as np
def expected(x):
    r, t = x.reshape(2, 32).astype(np.int64), x.reshape(4, 16).astype(np.int64)
    y = np.ones((8, 2, 32), np.int64)
    y[0, :, :16] = r[:, :16].min(1)[:, None]
    y[0, :, 16:] = r[:, 16:].sum(1)[:, None]
    y[1, :, :16] = np.bitwise_xor.reduce(r[:, :16], 1)[:, None]
    y[1, :, 16:] = (np.bitwise_and.reduce(r[:, 16:] | 15, 1)
                    | np.bitwise_or.reduce(r[:, 16:], 1) << 8)[:, None]
    y[3] = r.max(1)[:, None]
    y[4] = t.cumsum(1).reshape(2, 32)
    y[5] = (t.cumsum(1) - t).reshape(2, 32)
    of = np.arange(32) % 3 > 0
    y[6][:, of] = r[:, of].max(1)[:, None]
    y[7, :, ::2] = r[:, ::2].sum(1)[:, None]
    y[7, :, 1::2] = r[:, 1::2].sum(1)[:, None]
    return y.reshape(512).astype(np.uint32)
"""


def test_functions_of_warps_keep_their_masks() -> None:
    toml = (
        'inputs = { x = "u32[64] uniform(10, 1000)" }\noutputs = { y = "u32[512]" }\n'
        'args = ["x", "y"]\ngrid = 1\nblock = 64\ntolerance = 0\nreference = "l.py:expected"\n'
    )
    _judged("l", LANES, toml, "mgpusim", OF_LANES)


GROUPS = """// CUDA
namespace cg = cooperative_groups;
__global__ void k(const int* x, int* y)
{
    extern __shared__ int held[];
    const auto block = cg::this_thread_block();
    cg::memcpy_async(block, held, x, 64 * sizeof(int));
    cg::wait(block);
    const auto warp = cg::tiled_partition<32>(block);
    const int i = cg::thread_block::thread_rank(), v = held[i];
    const auto same = cg::labeled_partition(warp, v), half = cg::binary_partition(warp, v > 1);
    y[i] = same.size() * 100 + same.thread_rank() + 10000 * half.size() + 1000000 * half.thread_rank();
    y[64 + i] = warp.match_any(v);
    y[128 + i] = cg::reduce(same, i, cg::plus<int>()) + 10000 * cg::exclusive_scan(half, 1);
    int all = 7, r = 0;
    if (v & 1) {
        const auto g = cg::coalesced_threads();
        r = g.match_any(v) + g.any(v == 3) * 3 + g.all(v > 0) * 5 + g.shfl_down(i, 1) * 7 + g.shfl_up(i, 2) * 11;
        r += cg::inclusive_scan(g, v, cg::plus<int>()) * 13 + (int)g.ballot(v == 1) * 17 + (int)g.match_all(v, all) * 19 + all;
    }
    y[192 + i] = r;
}
"""  # noqa: E501
OF_GROUPS = """
import numpy as np
def expected(x):
    y = np.zeros((4, 64), np.int64)
    for i, v in enumerate(x):
        warp = range(i & 32, (i & 32) + 32)
        same, half = [j for j in warp if x[j] == v], [j for j in warp if (x[j] > 1) == (v > 1)]
        k = half.index(i)
        y[0, i] = len(same) * 100 + same.index(i) + 10000 * len(half) + 1000000 * k
        y[1, i] = sum(1 << (j & 31) for j in same)
        y[2, i] = sum(same) + 10000 * k
        if v & 1:
            odd = [j for j in warp if x[j] & 1]
            at, of = odd.index(i), [x[j] for j in odd]
            bits = [sum((w == to) << j for j, w in enumerate(of)) for to in (v, 1)]
            y[3, i] = bits[0] + 3 * (3 in of) + 5 + odd[min(at + 1, len(odd) - 1)] * 7
            y[3, i] += odd[at - 2 if at > 1 else at] * 11 + sum(of[:at + 1]) * 13 + bits[1] * 17
            every = all(w == v for w in of)
            y[3, i] += ((1 << len(odd)) - 1) * 19 * every + every
    return y.ravel().astype(np.int32)
"""


def test_groups_vote_and_part() -> None:
    toml = (
        'inputs = { x = "i32[64]" }\noutputs = { y = "i32[256]" }\nargs = ["x", "y"]\n'
        'grid = 1\nblock = 64\nlds = 256\ntolerance = 0\nreference = "l.py:expected"\n'
    ).replace('"i32[64]"', '"i32[64] uniform(0, 3)"')
    _judged("l", GROUPS, toml, "mgpusim", OF_GROUPS)


WAVES = "".join(
    f"y[{64 * k} + i] = __builtin_amdgcn_update_dpp(-7, x[i], {control}, 15, 15, false);"
    for k, control in enumerate((0x130, 0x134, 0x138, 0x13C, 0x153))
)
OF_WAVES = """
import numpy as np
def expected(x):
    left, right = np.roll(x, -1), np.roll(x, 1)
    lost = [np.where(np.arange(64) == end, -7, turned) for end, turned in ((63, left), (0, right))]
    return np.concatenate([lost[0], left, lost[1], right, np.repeat(x[3::16], 16)]).astype(np.int32)
"""


def test_lanes_of_whole_wavefronts() -> None:
    """Shifts and turns by one lane, and a lane of each row."""
    text = f"__global__ void k(const int* x, int* y) {{ const int i = threadIdx.x; {WAVES} }}"
    toml = (
        'inputs = { x = "i32[64] uniform(0, 1000)" }\noutputs = { y = "i32[320]" }\n'
        'args = ["x", "y"]\ngrid = 1\nblock = 64\ntolerance = 0\nreference = "w.py:expected"\n'
    )
    _judged("w", text, toml, MGPUSim(arch="gfx942"), OF_WAVES)


PACKED = """
struct __attribute__((packed)) P { unsigned char a; unsigned short b; short c; int d; };
__global__ void k(const unsigned char* x, unsigned char* y, int* sums)
{
    extern __shared__ unsigned char raw[];
    P* all = (P*)raw;
    const int i = threadIdx.x, far = 63 - i;
    for (int j = 0; j < 9; j++)
        raw[9 * i + j] = x[9 * i + j];
    __syncthreads();
    sums[i] = all[far].a + all[far].b * 3 - all[far].c + all[far].d;
    __syncthreads();
    all[i].b += 77, all[i].c -= 5, all[i].d ^= 0x1234567, all[i].a++;
    __syncthreads();
    ((P*)y)[i] = all[far];
}
"""
OF_PACKED = """
import numpy as np
def expected(x):
    p = np.frombuffer(x.tobytes(), [("a", "u1"), ("b", "<u2"), ("c", "<i2"), ("d", "<i4")]).copy()
    q = p[::-1].copy()
    p["b"] += 77; p["c"] -= 5; p["d"] ^= 0x1234567; p["a"] += 1
    return {"y": np.frombuffer(p[::-1].tobytes(), np.uint8),
            "sums": (q["a"].astype(int) + q["b"].astype(int) * 3 - q["c"] + q["d"]).astype(np.int32)}
"""  # noqa: E501


@pytest.mark.parametrize("target", ["host", "mgpusim", MGPUSim(arch="gfx803")], ids=str)
def test_shorts_at_odd_addresses(target: str | MGPUSim) -> None:
    """In memory and in LDS, across the ends of words."""
    toml = (
        'inputs = { x = "u8[576] whole(255)" }\noutputs = { y = "u8[576]", sums = "i32[64]" }\n'
        'args = ["x", "y", "sums"]\ngrid = 1\nblock = 64\nlds = 576\ntolerance = 0\n'
        'reference = "p.py:expected"\n'
    )
    _judged("p", PACKED, toml, target, OF_PACKED)


NARROW = """
__global__ void k(const __hip_bfloat16* a, const __hip_bfloat16* b, const float2* z, int* wrong,
                  __hip_bfloat162* c, float2* q, unsigned long long* left)
{
    const int i = threadIdx.x;
    __hip_bfloat16 sum = a[i], product = a[i];
    sum += b[i];
    product *= b[i];
    wrong[i] = i + ((a[i] + b[i]) != __hadd(a[i], b[i])) + (sum != __float2bfloat16((float)a[i] + (float)b[i]))
        + (product != a[i] * b[i]) + !__is_same(decltype(a[i] / b[i]), __hip_bfloat16)
        + ((float)std::numeric_limits<__hip_bfloat16>::lowest() > -3.3e38f);
    const __hip_bfloat162 pair = __halves2bfloat162(a[i], b[i]);
    c[i] = __hfma2(pair, pair, __float2bfloat162_rn(0.5f)) - __hmax2(pair, -pair);
    q[i] = hipCdivf(hipCmulf(z[i], make_hipFloatComplex(3.0f, 4.0f)), make_hipFloatComplex(0.0f, 1e30f));
    q[i].x += hipCabsf(make_hipFloatComplex(3e-30f, 4e-30f)) * 1e30f;
    atomicSub(left, 1u + (blockIdx.x & 0u));
}
"""  # noqa: E501
OF_NARROW = """
import numpy as np
def bf16(x):
    w = np.asarray(x, np.float32).view(np.uint32).astype(np.int64)
    return ((w + 0x7fff + (w >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
def expected(a, b, z):
    p = np.stack([a, b], 1).ravel().astype(np.float32)
    q = (z[::2].astype(float) + 1j * z[1::2]) * (3 + 4j) / 1e30j + 5
    return {"wrong": np.arange(64), "c": bf16(bf16(p * p + np.float32(0.5)) - abs(p)),
            "q": np.stack([q.real, q.imag], 1).ravel(), "left": np.array([936], np.uint64)}
"""


def test_bfloat16_complex_numbers_and_mixed_atomics() -> None:
    """Operators of bfloat16 are rounded as ROCm's; 64 of 1,000 are taken by an unsigned 1."""
    toml = (
        'inputs = { a = "bf16[64]", b = "bf16[64]", z = "f32[128]" }\n'
        'outputs = { wrong = "i32[64]", c = "bf16[128]", q = "f32[128]", '
        'left = "u64[1] constant(1000)" }\nargs = ["a", "b", "z", "wrong", "c", "q", "left"]\n'
        'grid = 1\nblock = 64\ntolerance = 1e-6\nreference = "b.py:expected"\n'
    )
    _judged("b", NARROW, toml, "host", OF_NARROW)


SPACES = """
namespace app { namespace {
__constant__ float w[3] = { 1, 2, 3 };
__constant__ float v[2] = { 1, 1 };
#define BOTH __host__ __device__
BOTH float f(float x) { return 2.0f * x; }
} namespace inner {
__global__ void k(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
} __global__ void k(const float* x, float* y)
{
    float s = 0;
    for (int j = 0; j < 3; j++)
        s += w[j] * f(x[threadIdx.x]);
    y[threadIdx.x] = s + v[0] - v[1];
} }
"""


@pytest.mark.parametrize("target", ["host", "mgpusim"])
def test_kernels_in_namespaces_and_constants_of_the_source(target: str) -> None:
    """A constant that is a tensor, too, has the tensor's values."""
    toml = (
        'kernel = "app::k"\ninputs = { x = "f32[64]", v = "f32[2]" }\noutputs = { y = "f32[64]" }\n'
        'args = ["x", "y"]\ngrid = 1\nblock = 64\nreference = "12 * x + v[0] - v[1]"\n'
    )
    _judged("a", SPACES, toml, target)


OPENCL = """
__kernel void k(__global const float* x, __global const int* v, __global float* y, __global int* w,
                __global half* h)
{
    __local float part[256];
    const int i = get_global_id(0);
    event_t e = async_work_group_copy(part, x, 256, 0);
    wait_group_events(1, &e);
    const float4 a = vload4(63 - i, part);
    vstore4(a * 2.0f + vload4(i, x).wzyx, i, y);
    const int4 b = (int4)(v[i], i, -i, 5);
    w[i] = shuffle(b, as_uint4(b)).x + vload3(i % 20, v).z;
    w[64 + i] = 3 * shuffle2(b, b * 7, (uint8)(7, 2, 9, 0, 4, 4, 1, 6)).s0 + vec_step(b);
    vstore_half4_rte(vload4(i, x) * 9e3f, i, h);
    vstorea_half3(vload_half4(i, h).wzy, i, h + 256);
    vstore_half_rtz(x[i] * 1e5f, i, h + 512);
    vstore_half_rtp(x[i] * 1e-6, i, h + 576);
    vstore_half_rtn(x[i], i, h + 640);
}
"""
OF_OPENCL = """
import numpy as np
@np.errstate(over="ignore")
def expected(x, v):
    t, i = x.reshape(64, 4).astype(float), np.arange(64)
    b = np.stack([v, i, -i, np.full(64, 5)])
    def half(v, to):
        h = v.astype(np.float16)
        wrong = abs(h) > abs(v) if to == 0 else h < v if to > 0 else h > v
        return np.where(wrong, np.nextafter(h, np.float16(to)), h)
    h = (x * np.float32(9e3)).astype(np.float16)
    turned = np.pad(h.reshape(64, 4)[:, :0:-1], [(0, 0), (0, 1)])
    z, p = x[:64] * np.float32(1e5), x[:64] * 1e-6
    halves = [h, turned.ravel(), half(z, 0), half(p, np.inf), half(x[:64], -np.inf)]
    return {"y": (2 * t[::-1] + t[:, ::-1]).ravel().astype(np.float32),
            "h": np.concatenate(halves),
            "w": np.concatenate([b[v & 3, i] + v[i % 20 * 3 + 2], np.full(64, 109)])}
"""


@pytest.mark.skipif(bool(MGPUSim().needs.missing()), reason="MGPUSim is not here")
def test_copies_and_shuffles_of_opencl() -> None:
    Path("o.cl").write_text(OPENCL)
    Path("o.py").write_text(OF_OPENCL)
    Path("o.toml").write_text(
        'source = "o.cl"\ninputs = { x = "f32[256]", v = "i32[64] uniform(-99, 99)" }\n'
        'outputs = { y = "f32[256]", w = "i32[128]", h = "f16[704] zeros" }\n'
        'args = ["x", "v", "y", "w", "h"]\ngrid = 1\n'
        'block = 64\ntolerance = 0\nreference = "o.py:expected"\n'
    )
    bundle = simgen.plan("o.toml").build("made", "mgpusim")
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


ASKED = """
typedef float Row[2];
extern __shared__ __align__(16) char pool[]; /* of all */
__global__ void l(const float* x, float* y)
{
    const int t = threadIdx.x;
    ((float*)pool)[t] = x[t];
    float s = 0;
    %s
    y[t] = s;
}
"""
WAYS = (
    "extern __shared__ float a[];",
    "__shared__ extern float a[];",
    "extern float __shared__ a[];",
    "extern __shared__ __attribute__((aligned(16))) float a[];",
    "HIP_DYNAMIC_SHARED(float, a)",
    "extern __shared__ float a[] __attribute__((aligned(16)));",
    "extern volatile __shared__ float a[];",
    "alignas(16) extern __shared__ float a[];",
    "extern\n__shared__ // ;\n float /* ; */ a [ ];",
    "extern __shared__ float rows[][2]; float* a = rows[0];",
    "extern __shared__ struct { float a, b; } pair[]; float* a = &pair[0].a;",
)


def test_lds_that_launches_ask_for_is_declared_in_any_way() -> None:
    """Each names the same memory."""
    toml = (
        'inputs = { x = "f32[64]" }\noutputs = { y = "f32[64]" }\nargs = ["x", "y"]\n'
        f'lds = 256\ngrid = 1\nblock = 64\nreference = "{len(WAYS)} * x"\ntolerance = 1e-6\n'
    )
    body = "\n".join(f"{{ {way} s += a[t]; }}" for way in WAYS)
    _judged("l", ASKED % body, toml, "host")


STRUCTURES = """
__constant__ float w[2];
struct View { const float* data; int stride; float by; const float* other; };
struct Out { float* to; };
__global__ void s(View a, int n, Out out, View b)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out.to[i] = a.data[i * a.stride] * a.by + b.other[i] - b.data[n - 1 - i] * w[1];
}
"""
OF_STRUCTURES = """
source = "s.hip"
inputs = { x = "f32[128]", y = "f32[64]", w = "f32[2]" }
outputs = { p = "f32[64]", q = "f32[64]" }
block = 64
grid = 1
[[launch]]
args = ["{ x, i32 2, f32 0.5, y }", "i32 64", "{ p }", "{ y, i32 0, f32 0, x }"]
grid = 1
block = 64
[[launch]]
args = ["{ y, i32 1, f32 2, y }", "i32 64", "{ q }", "{ p, i32 0, f32 0, y }"]
grid = 1
block = 64
[reference]
p = "x[::2] * 0.5 + x[:64] - y[::-1] * w[1]"
q = "2 * y + y - p[::-1] * w[1]"
"""


@pytest.mark.parametrize("target", ["host", "mgpusim"])
def test_structures_hold_addresses(target: str) -> None:
    """By value, several, with others of the whole GPU, and other tensors in another launch."""
    toml = OF_STRUCTURES.replace('source = "s.hip"\n', "").replace("block = 64\ngrid = 1\n[[", "[[")
    _judged("s", STRUCTURES, toml, target)


NAMED = """
namespace g { __device__ float x[64], x2[2]; }
__device__ int y;
#define READ(i) (::g::x[i])
struct P { float x, y; };
__device__ float local(float x) { float y = x + 1.0f; return y * x; }
__global__ void v(float* out)
{
    P p { READ(threadIdx.x), 2.0f }, *q = &p;
    q->y += local(p.x);
    atomicAdd(&y, 1);
    out[threadIdx.x] = p.x * blockDim.x + q->y + g::x[63];
}
"""


@pytest.mark.parametrize("target", ["host", "mgpusim"])
def test_variables_have_names_of_members_and_parameters(target: str) -> None:
    toml = (
        'inputs = { x = "f32[64]" }\noutputs = { out = "f32[64]", y = "i32[1] zeros" }\n'
        'args = ["out"]\ngrid = 1\nblock = 64\n[reference]\n'
        'out = "x * 64 + 2 + (x + 1) * x + x[63]"\ny = "np.zeros(1) + 64"\n'
    )
    _judged("v", NAMED, toml, target)


GEOMETRY = """
__kernel void k(__global const float *x, __global const int *v, __global float *out,
                __global int *w, __global ulong *n)
{
    const int i = get_global_id(0);
    const float3 a = vload3(i, x), b = (float3)(1.0f, -2.0f, 0.5f);
    float whole;
    const float part = fract(a.x, &whole);
    const float3 r = clamp(normalize(a) * dot(a, b) + cross(a, b), -1.5f, 1.25f) / (1.0f + a * a);
    vstore3(r, i, out);
    out[192 + i] = smoothstep(-1.0f, 1.0f, a.y) + distance(a, b)
                   + mix((float2)(a.x), (float2)(1.0f), 0.25f).y;
    out[256 + i] = whole + part + round(a.z * 4.0f) + ldexp(a.x, 3) + maxmag(a.x, a.y) - 3.0f / a.x;
    const int4 c = (int4)(v[i], -v[i], v[i] << 3, 7);
    w[i] = any(c < 0) + 2 * all(c > -9);
    atom_add(n, (ulong)(v[i] + 100) << 33);
}
"""
OF_GEOMETRY = """
import numpy as np
def expected(x, v):
    a, b, v = x.reshape(64, 3).astype(float), np.array([1, -2, 0.5]), v.astype(int)
    size = np.linalg.norm(a, axis=1, keepdims=True)
    r = np.clip(a / size * (a @ b)[:, None] + np.cross(a, b), -1.5, 1.25) / (1 + a * a)
    t = np.clip((a[:, 1] + 1) / 2, 0, 1)
    one = t * t * (3 - 2 * t) + np.linalg.norm(a - b, axis=1) + a[:, 0] * 0.75 + 0.25
    z = np.float32(x.reshape(64, 3)[:, 2]) * np.float32(4)
    most = np.where(abs(a[:, 0]) > abs(a[:, 1]), a[:, 0], a[:, 1])
    two = a[:, 0] + np.trunc(z + np.copysign(0.5, z)) + 8 * a[:, 0] + most - 3 / a[:, 0]
    w = 1 - (v == 0) + 2 * ((abs(v) < 9) & (v * 8 > -9))
    return {"out": np.concatenate([r.ravel(), one, two]), "w": w,
            "n": np.array([int((v + 100).sum()) << 33], np.uint64)}
"""


@pytest.mark.skipif(bool(MGPUSim().needs.missing()), reason="MGPUSim is not here")
def test_geometry_of_opencl() -> None:
    """Quotients among them: clang makes those of OpenCL C with mantissas and exponents."""
    Path("k.cl").write_text(GEOMETRY)
    Path("k.py").write_text(OF_GEOMETRY)
    Path("k.toml").write_text(
        'source = "k.cl"\ninputs = { x = "f32[192]", v = "i32[64] uniform(-40, 40)" }\n'
        'outputs = { out = "f32[320]", w = "i32[64]", n = "u64[1] zeros" }\n'
        'args = ["x", "v", "out", "w", "n"]\ngrid = 1\nblock = 64\ntolerance = 1e-6\n'
        'reference = "k.py:expected"\n'
    )
    bundle = simgen.plan("k.toml").build("made", "mgpusim")
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


@pytest.mark.parametrize(("error", "right"), [(0, True), (1, False)])
def test_a_tolerance_is_for_floats(error: int, right: bool) -> None:
    """A count beside them is right or wrong, whatever share of it the difference is."""
    Path("c.hip").write_text(
        "__global__ void c(const float* x, float* y, unsigned long long* n) "
        "{ y[threadIdx.x] = x[threadIdx.x] * 1.000001f; if (threadIdx.x == 0) n[0] = 1000000; }\n"
    )
    Path("c.py").write_text(
        f"def expected(x):\n    return {{'y': x, 'n': 0 * x[:1].astype(int) + {10**6 + error}}}\n"
    )
    Path("c.toml").write_text(
        'source = "c.hip"\ninputs = { x = "f32[64]" }\noutputs = { y = "f32[64]", n = "u64[1]" }\n'
        'args = ["x", "y", "n"]\ngrid = 1\nblock = 64\ntolerance = 1e-5\n'
        'reference = "c.py:expected"\n'
    )
    bundle = simgen.plan("c.toml").build("made", "host")
    bundle.run(timeout=TIMEOUT)
    assert bool(bundle.diff(strict=False)) is right
