"""Kernels of users in simulators: two dimensions, LDS that launches ask for, OpenCL C, assembly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from called import CALLED
from called import TOML as CALLED_TOML

import simgen
from simgen.errors import SimgenError
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.mgpusim.target import MGPUSim

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "kernels"
LACKS = MGPUSim().needs.missing()
TIMEOUT = 600.0


@pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))
@pytest.mark.parametrize("name", ["transpose", "histogram", "scale"])
def test_right_in_mgpusim(tmp_path: Path, name: str) -> None:
    bundle = simgen.plan(str(EXAMPLES / f"{name}.toml")).build(tmp_path / name, "mgpusim")
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


@pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))
def test_ids_that_the_timing_model_does_not_give_are_refused(tmp_path: Path) -> None:
    plan = simgen.plan(str(EXAMPLES / "transpose.toml"))
    bundle = plan.build(tmp_path / "b", MGPUSim(arch="gfx942"))
    with pytest.raises(SimgenError, match="no ids of work-items in the second and third"):
        bundle.run(timeout=TIMEOUT, options={"mode": "timing"})
    assert not (tmp_path / "b" / "results" / "mgpusim").exists()


@pytest.mark.skipif(not os.environ.get("GEM5"), reason="GEM5 is not set")
@pytest.mark.parametrize("name", ["reduce", "histogram"])
def test_right_in_gem5(place: Path, name: str) -> None:
    bundle = simgen.plan(str(EXAMPLES / f"{name}.toml")).build(place / name, "gem5-se")
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


LANES = """
__constant__ int table[4];
__device__ __forceinline__ int total(int v)
{
    for (int by = 16; by > 0; by /= 2)
        v += __shfl_xor_sync(0xffffffff, v, by);
    return v;
}
__global__ void lanes(const int* x, int* sums, unsigned* votes, int* firsts, int n)
{
    namespace cg = cooperative_groups;
    const cg::thread_block_tile<8> tile = cg::tiled_partition<8>(cg::this_thread_block());
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    sums[i] = total(x[i]) + table[threadIdx.x / warpSize % 4];
    votes[i] = __ballot_sync(0xffffffff, x[i] & 1);
    const long long wide = tile.shfl((long long)x[i] << 32 | 1, 3);
    firsts[i] = (int)(wide >> 32) + cg::reduce(tile, x[i], cg::plus<int>());
}
"""
LANES_TOML = """
source = "lanes.cu"
parameters = { n = 256 }
inputs = { x = "i32[n] uniform(0, 1000)", table = "i32[4] uniform(0, 9)" }
outputs = { sums = "i32[n]", votes = "i32[n]", firsts = "i32[n]" }
args = ["x", "sums", "votes", "firsts", "i32 n"]
items = "n"
block = 128
[reference]
warps = "x.reshape(n // 32, 32)"
sums = "np.repeat(warps.sum(1) + np.tile(table, 2), 32)"
votes = "np.repeat(((warps & 1) << np.arange(32)).sum(1), 32)"
tiles = "x.reshape(n // 8, 8)"
firsts = "np.repeat(tiles[:, 3] + tiles.sum(1), 8)"
"""


@pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))
@pytest.mark.parametrize("mode", ["emu", "timing"])
def test_warps_of_cuda_are_halves_of_wavefronts(tmp_path: Path, mode: str) -> None:
    (tmp_path / "lanes.cu").write_text(LANES)
    (tmp_path / "lanes.toml").write_text(LANES_TOML)
    bundle = simgen.plan(tmp_path / "lanes.toml").build(tmp_path / "b", MGPUSim(arch="gfx942"))
    bundle.run(timeout=TIMEOUT, options={"mode": mode})
    assert bundle.diff(strict=True)


# As CUDA's threadFenceReduction: each group adds up its part, the one that ends last the sums.
LAST = """
__global__ void last(const int* x, int* sums, unsigned* done, long long* total, int groups)
{
    __shared__ bool is_last;
    atomicAdd(&sums[blockIdx.x], x[blockIdx.x * blockDim.x + threadIdx.x]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        is_last = atomicAdd(done, 1u) == (unsigned)groups - 1;
    __syncthreads();
    if (is_last && threadIdx.x < groups)
        atomicAdd((unsigned long long*)total, (unsigned long long)sums[threadIdx.x] * 1048576);
}
"""
LAST_TOML = """
source = "last.hip"
parameters = { groups = 8, n = 512 }
inputs = { x = "i32[n] uniform(-100000, 100000)" }
outputs = { sums = "i32[groups] zeros", done = "u32[1] zeros", total = "i64[1] zeros" }
args = ["x", "sums", "done", "total", "i32 groups"]
items = "n"
block = 64
[reference]
sums = "x.reshape(groups, 64).sum(1)"
done = "np.full(1, groups)"
total = "x.reshape(1, n).sum(1) * 1048576"
"""


@pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))
@pytest.mark.parametrize("arch", ["gfx942", "gfx803"])
def test_fences_atomics_of_64_bits_and_one_byte_of_lds(tmp_path: Path, arch: str) -> None:
    (tmp_path / "last.hip").write_text(LAST)
    (tmp_path / "last.toml").write_text(LAST_TOML)
    bundle = simgen.plan(tmp_path / "last.toml").build(tmp_path / "b", MGPUSim(arch=arch))
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)
    with pytest.raises(SimgenError, match=r"right in emulation only|its emulator needs none"):
        bundle.run(timeout=TIMEOUT, options={"mode": "timing"})


@pytest.mark.skipif(not os.environ.get("GEM5"), reason="GEM5 is not set")
@pytest.mark.parametrize("arch", ["gfx902", "gfx942"])
def test_warps_and_variables_in_gem5(tmp_path: Path, place: Path, arch: str) -> None:
    (tmp_path / "lanes.cu").write_text(LANES)
    (tmp_path / "lanes.toml").write_text(LANES_TOML)
    bundle = simgen.plan(tmp_path / "lanes.toml").build(place / "b", Gem5Se(arch=arch))
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


ASKED = """
__global__ void exchanged(const float* x, float* y, float* same, int n)
{
    extern __shared__ float row[];
    __shared__ float part[8];
    const int t = threadIdx.x;
    float s = 0, turned = 0;
    for (int i = t; i < n; i += blockDim.x) {
        const float v = x[blockIdx.x * n + i];
        row[i] = v;
        s += v * v;
    }
    for (int by = 16; by; by /= 2)
        s += __shfl_down(s, by, 32);
    if (t % 32 == 0)
        part[t / 32] = s;
    turned += __int_as_float(__builtin_amdgcn_ds_swizzle(__float_as_int(s), 0x041F));
    turned += __int_as_float(__builtin_amdgcn_mov_dpp(__float_as_int(s), 0xB1, 0xf, 0xf, true));
    turned += __int_as_float(__builtin_amdgcn_ds_permute(4 * (t ^ 1), __float_as_int(s)));
    __syncthreads();
    float total = 0;
    for (int j = 0; j < blockDim.x / 32; j++)
        total += part[j];
    for (int i = t; i < n; i += blockDim.x) {
        y[blockIdx.x * n + i] = row[i] * rsqrtf(total / n + 1e-6f);
        same[blockIdx.x * n + i] = row[i] + 0.0f * turned;
    }
}
"""
ASKED_TOML = """
source = "exchanged.hip"
parameters = { n = 300 }
inputs = { x = "f32[4, n]" }
outputs = { y = "f32[4, n]", same = "f32[4, n]" }
args = ["x", "y", "same", "i32 n"]
grid = 4
block = 128
lds = "4 * n"
[reference]
y = "x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6)"
same = "x + 0"
"""


@pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))
@pytest.mark.parametrize(("arch", "mode"), [("gfx803", "emu"), ("gfx942", "timing")])
def test_exchanges_of_lanes_leave_lds_that_launches_ask_for(
    tmp_path: Path, arch: str, mode: str
) -> None:
    """RMSNorm, whose row lies in it: words for exchanges lay there, at its beginning."""
    (tmp_path / "exchanged.hip").write_text(ASKED)
    (tmp_path / "exchanged.toml").write_text(ASKED_TOML)
    bundle = simgen.plan(tmp_path / "exchanged.toml").build(tmp_path / "b", MGPUSim(arch=arch))
    bundle.run(timeout=TIMEOUT, options={"mode": mode})
    assert bundle.diff(strict=True)


# Lanes are numbered with x as the fastest, whatever dimensions a work-group has.
GROUPS = """
__global__ void turned(const int* x, int* y, int* sums)
{
    const int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const int i = blockIdx.x * blockDim.x * blockDim.y * blockDim.z + t;
    int s = x[i];
    y[i] = __shfl(s, 63 - t % 64) + 1000 * (threadIdx.x + 100 * threadIdx.y + 10000 * threadIdx.z);
    for (int by = 32; by; by /= 2)
        s += __shfl_xor(s, by);
    sums[i] = s;
}
"""
GROUPS_TOML = """
source = "turned.hip"
parameters = {{ n = {n} }}
inputs = {{ x = "i32[n] uniform(0, 1000)" }}
outputs = {{ y = "i32[n]", sums = "i32[n]" }}
args = ["x", "y", "sums"]
grid = {grid}
block = [{x}, {y}, {z}]
[reference]
i = "np.arange(n) % {items}"
place = "i % {x} + 100 * (i // {x} % {y}) + 10000 * (i // ({x} * {y}))"
y = "np.flip(x.reshape(n // 64, 64), 1).reshape(n) + 1000 * place"
sums = "np.repeat(x.reshape(n // 64, 64).sum(1), 64)"
"""


@pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))
@pytest.mark.parametrize("arch", ["gfx803", "gfx942"])
@pytest.mark.parametrize("block", [(16, 8, 1), (4, 4, 8), (6, 8, 4)])
def test_exchanges_of_lanes_where_work_groups_have_several_dimensions(
    tmp_path: Path, arch: str, block: tuple[int, int, int]
) -> None:
    x, y, z = block
    items = x * y * z
    made = GROUPS_TOML.format(n=3 * items, grid=3, x=x, y=y, z=z, items=items)
    (tmp_path / "turned.hip").write_text(GROUPS)
    (tmp_path / "turned.toml").write_text(made)
    bundle = simgen.plan(tmp_path / "turned.toml").build(tmp_path / "b", MGPUSim(arch=arch))
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


@pytest.mark.skipif(not os.environ.get("GEM5"), reason="GEM5 is not set")
@pytest.mark.parametrize("arch", ["gfx902", "gfx942"])
@pytest.mark.parametrize("name", ["inline", "chosen", "recursion", "table"])
def test_functions_are_called_in_gem5(tmp_path: Path, place: Path, name: str, arch: str) -> None:
    source, reference = CALLED[name]
    (tmp_path / "k.hip").write_text(source)
    (tmp_path / "k.toml").write_text(CALLED_TOML.format(reference=reference))
    bundle = simgen.plan(tmp_path / "k.toml").build(place / "b", Gem5Se(arch=arch))
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


DOWN = """
__device__ __noinline__ int down(int n, const int* x)
{
    return n <= 0 ? x[0] : x[n & 63] - down(n - 1, x);
}
__global__ void deep(const int* x, int* out, int depth)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = down(depth, x) + i;
}
"""


@pytest.mark.skipif(not os.environ.get("GEM5"), reason="GEM5 is not set")
@pytest.mark.parametrize("depth", [20, 400])
def test_stacks_end_in_gem5(place: Path, depth: int) -> None:
    (place / "down.hip").write_text(DOWN)
    (place / "down.toml").write_text(
        f'source = "down.hip"\nparameters = {{ depth = {depth} }}\n'
        'inputs = { x = "i32[64] uniform(-50, 50)" }\noutputs = { out = "i32[128]" }\n'
        'args = ["x", "out", "i32 depth"]\nitems = 128\nblock = 64\n[reference]\n'
        'down = "sum([x[n % 64] * (1 - (depth - n) % 2 * 2) for n in range(depth + 1)])"\n'
        'out = "np.arange(128) + down"\n'
    )
    bundle = simgen.plan(str(place / "down.toml")).build(place / "b", "gem5-se")
    if depth == 20:
        bundle.run(timeout=TIMEOUT)
        assert bundle.diff(strict=True)
    else:
        with pytest.raises(SimgenError, match="touched an address that is not mapped"):
            bundle.run(timeout=TIMEOUT)


LANELESS = """
__global__ void added(const float* x, float* out, unsigned n)
{
    float s = 0;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        s += x[blockIdx.x * n + i];
    __shared__ float t[64];
    t[threadIdx.x] = s;
    __syncthreads();
    for (unsigned h = blockDim.x / 2; h > 0; h /= 2) {
        if (threadIdx.x < h)
            t[threadIdx.x] += t[threadIdx.x + h];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = t[0];
}
"""


@pytest.mark.skipif(not os.environ.get("GEM5"), reason="GEM5 is not set")
def test_scalar_loads_of_wavefronts_without_active_lanes_in_gem5(place: Path) -> None:
    """No lane leaves the loop at once, and clang loads the block's size in that branch too."""
    (place / "added.hip").write_text(LANELESS)
    (place / "added.toml").write_text(
        'source = "added.hip"\nparameters = { n = 1000 }\ninputs = { x = "f32[4, n]" }\n'
        'outputs = { out = "f32[4]" }\nargs = ["x", "out", "i32 n"]\ngrid = 4\nblock = 64\n'
        'reference = "x.sum(1)"\n'
    )
    bundle = simgen.plan(str(place / "added.toml")).build(place / "b", "gem5-se")
    replaced = (place / "b" / "gem5-se" / "kernels" / "replaced.json").read_text()
    assert '"s_load_dword": 1' in replaced
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


PRIVATE = """\
__global__ void indexed(const int* x, const int* at, int* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int words[20];
    double wide[5];
    unsigned char bytes[8];
    for (int j = 0; j < 20; j++)
        words[j] = x[j] * i;
    for (int j = 0; j < 5; j++)
        wide[j] = words[j] * 0.5;
    for (int j = 0; j < 8; j++)
        bytes[j] = words[j];
    for (int j = 0; j < 4; j++) {
        int t = at[(i + j) % n] % 20;
        words[t] += j;
        wide[t % 5] += 1;
        bytes[t % 8] ^= 3;
    }
    int t = at[i % n];
    if (i < n)
        out[i] = words[t % 20] + (int)wide[t % 5] + bytes[t % 8];
}

__global__ void __launch_bounds__(1024) spilling(const int* x, const int* at, int* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int held[90], sum = 0;
#pragma unroll
    for (int j = 0; j < 90; j++)
        held[j] = x[(i + j * at[j]) % n];
    asm volatile("" : : : "memory");
#pragma unroll
    for (int j = 0; j < 90; j++)
        sum += held[j] * held[89 - j] * (j + 1);
    if (i < n)
        out[i] = sum;
}
"""
OF_PRIVATE = """\
import numpy as np

def indexed(x, at, n):
    out = np.zeros(n, np.int32)
    for i in range(n):
        words = x[:20].astype(np.int64) * i
        wide, held = words[:5] * 0.5, words[:8].astype(np.uint8)
        for j in range(4):
            t = int(at[(i + j) % n]) % 20
            words[t] += j
            wide[t % 5] += 1
            held[t % 8] ^= 3
        t = int(at[i])
        out[i] = words[t % 20] + int(wide[t % 5]) + int(held[t % 8])
    return out

def spilling(x, at, n):
    j = np.arange(90)
    held = x[(np.arange(n)[:, None] + j * at[:90]) % n].astype(np.int64)
    return (held * held[:, ::-1] * (j + 1)).sum(1).astype(np.int32)
"""


@pytest.mark.skipif(not os.environ.get("GEM5"), reason="GEM5 is not set")
@pytest.mark.parametrize(
    ("name", "arch", "block"),
    [("indexed", "gfx902", 192), ("indexed", "gfx942", 100), ("spilling", "gfx902", 1024)],
)  # fmt: skip
def test_private_memory_in_gem5(place: Path, name: str, arch: str, block: int) -> None:
    """Arrays that data index, of words, bytes and doubles, and registers that do not suffice, in
    work-groups of several wavefronts, the last one not full; twice, in the same memory."""
    (place / "private.hip").write_text(PRIVATE)
    (place / "private.py").write_text(OF_PRIVATE)
    (place / "k.toml").write_text(
        f'source = "private.hip"\nkernel = "{name}"\nparameters = {{ n = 300 }}\n'
        'inputs = { x = "i32[n] uniform(-50, 50)", at = "i32[n] uniform(0, 1000)" }\n'
        'outputs = { out = "i32[n]" }\nscratch = { t = "i32[n]" }\n'
        f'reference = "private.py:{name}"\ntolerance = 0\n'
        f'[[launch]]\nargs = ["x", "at", "t", "i32 n"]\nitems = "n"\nblock = {block}\n'
        f'[[launch]]\nargs = ["x", "at", "out", "i32 n"]\nitems = "n"\nblock = {block}\n'
    )
    target = Gem5Se(gem5_version="24.1", arch=arch)
    bundle = simgen.plan(str(place / "k.toml")).build(place / "b", target)
    program = (place / "b" / "gem5-se" / "src" / "plan.h").read_text()
    assert "PRIVATE_NBYTES 0ul" not in program
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


@pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))
def test_launches_see_what_others_wrote(tmp_path: Path) -> None:
    """MGPUSim leaves lines in first-level caches that a launch from another unit writes over."""
    (tmp_path / "add.hip").write_text(
        'extern "C" __global__ void add(int* out) {\n'
        "  out[blockIdx.x * blockDim.x + threadIdx.x] += 1 + threadIdx.x;\n}\n"
    )
    file = tmp_path / "add.toml"
    file.write_text(
        'source = "add.hip"\noutputs = { out = "i32[6, 256] zeros" }\n'
        'reference = "np.broadcast_to(6 * (1 + np.arange(256)), (6, 256))"\n'
        '[[launch]]\nargs = ["out"]\ngrid = 6\nblock = 256\nfor = { time = "range(6)" }\n'
    )
    bundle = simgen.plan(str(file)).build(tmp_path / "add", "mgpusim")
    bundle.run(timeout=TIMEOUT, options={"mode": "timing", "num_compute_units": 8})
    assert bundle.diff(strict=True)
