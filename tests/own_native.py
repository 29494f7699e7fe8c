"""Kernels of users that run natively, each with the result that its language documents: what HIP
has and CUDA has not, and what CUDA's own headers have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

N = 512
KERNEL = "__global__ void k(const {x}* x, {y}* y)\n{{\n    int i = {at};\n{body}\n}}\n"
AT = "blockIdx.x * blockDim.x + threadIdx.x"
NARROW = {"f16": "__half", "bf16": "__hip_bfloat16", "i32": "int", "f32": "float"}


@dataclass(frozen=True)
class Own:
    """The body of a kernel, or a whole source, and the lines of its description."""

    body: str
    reference: str
    x: str = "f32[n]"
    y: str = "f32[n]"
    types: tuple[str, str] = ("", "")  # of the parameters, where they are not the tensors'
    ahead: str = ""
    args: str = '"x", "y"'
    name: str = "x"  # the input's
    more: str = ""

    def write(self, folder: Path, suffix: str) -> Path:
        kinds = [each.partition("[")[0] for each in (self.x, self.y)]
        x, y = (mine or NARROW.get(kind, kind) for mine, kind in zip(self.types, kinds))
        text = self.body
        if "__global__" not in text:
            text = KERNEL.format(x=x, y=y, at=AT, body=text)
        (folder / f"k{suffix}").write_text(self.ahead + text)
        path = folder / "k.toml"
        path.write_text(
            f'source = "k{suffix}"\nparameters = {{ n = {N} }}\n'
            f'inputs = {{ {self.name} = "{self.x}" }}\noutputs = {{ y = "{self.y}" }}\n'
            f'args = [{self.args}]\nitems = "n"\nblock = 128\n{self.more}\n'
            f'reference = "{self.reference}"\n'
        )
        return path


RMS = """
    extern __shared__ float row[];
    __shared__ float sums[32];
    const int t = threadIdx.x;
    row[t] = x[i];
    float s = row[t] * row[t];
    for (int o = warpSize / 2; o > 0; o >>= 1)
        s += SHUFFLE;
    if (t % warpSize == 0)
        sums[t / warpSize] = s;
    __syncthreads();
    s = 0;
    for (int w = 0; w < (blockDim.x + warpSize - 1) / warpSize; w++)
        s += sums[w];
    y[i] = row[t] * rsqrtf(s / blockDim.x + 1e-5f);"""
SOFTMAX = """
    float most = x[i];
    for (int o = 16; o > 0; o /= 2)
        most = fmaxf(most, __shfl_xor(most, o));
    const float e = expf(x[i] - most);
    float sum = e;
    for (int o = 16; o > 0; o /= 2)
        sum += __shfl_xor(sum, o, 32);
    y[i] = e / sum;"""
MASKS = """
    const unsigned long long m = __ballot(x[i] > 0), others = __ballot(x[i] <= 0);
    const int lane = threadIdx.x % warpSize;
    y[i] = (m >> lane & 1) + 2 * (__any(x[i] > 9) != 0)
        + 4 * (__popcll(m) + __popcll(others) == warpSize)
        + 8 * (__ffsll(__ballot(lane == 7)) == 8);"""
NAN = """
    const float none = __int_as_float(0x7fc00000);
    y[i] = max(x[i], none) + fmaxf(none, x[i]) + min(none, x[i]);"""
LARGEST = """
    TYPE m = std::numeric_limits<TYPE>::lowest();
    for (int j = 0; j < 4; j++)
        m = x[i & ~3 | j] > m ? x[i & ~3 | j] : m;
    y[i] = m * m + x[i];"""
COMPLEX = """
    const auto a = make_LANGFloatComplex(x[i], 2.0f), b = make_LANGFloatComplex(0.5f, x[i]);
    y[i] = LANGCrealf(LANGCmulf(a, b)) + LANGCimagf(LANGConjf(a));"""
VECTORS = """
    float4 a = x[i & 127] * 2.0f, b(1.0f);
    a += b;
    if (i < 128)
        y[i] = a - float4(1, 2, 3, 4);"""
GROUPS = """
    auto tile = cooperative_groups::tiled_partition<16>(cooperative_groups::this_thread_block());
    const float all = cooperative_groups::reduce(tile, x[i], cooperative_groups::plus<float>());
    y[i] = all + tile.shfl(x[i], 3) + (tile.ballot(x[i] > 0) >> tile.thread_rank() & 1);"""
SWIZZLES = """
    y[i] = __builtin_amdgcn_ds_swizzle(x[i], 0x041F)
        + 3 * __builtin_amdgcn_mov_dpp(x[i], 0xB1, 0xf, 0xf, true)
        + 5 * __builtin_amdgcn_update_dpp(7, x[i], 0x111, 0xf, 0xf, false);"""
ATOMICS = """
    atomicSub(&y[0], 1u);
    atomicMax(&y[1], 2 * i);
    atomicMin((long*)&y[2], i);
    atomicAdd(&y[3], 1);
    unsafeAtomicAdd((int*)&y[4], 2u);
    atomicXor(&y[5], x[i] ^ x[i] ^ 1);"""
PAIRS = """
    if (i < 256)
        y[i] = __hfma2(x[i], ONE2(2.0f), x[i]);"""
ROWS, WARPS, TILES = (f"x.reshape(n // {n}, {n})" for n in (128, 32, 16))
NORM = f"({ROWS} / np.sqrt(({ROWS} * {ROWS}).sum(1, keepdims=True) / 128 + 1e-5)).reshape(n)"
SOFT = f"np.exp({WARPS} - {WARPS}.max(1, keepdims=True))"
SUMS = f"({TILES}.sum(1, keepdims=True) + {TILES}[:, 3:4] + np.where({TILES} > 0, 1, 0)).reshape(n)"
SQUARES = "np.repeat(x.reshape(n // 4, 4).max(1), 4) ** 2 + x"
SWAPPED = "x.reshape(n // 2, 2)[:, ::-1].reshape(n)"
COUNTED = (488, 1022, 0, 1512, 2024)
COUNTS = "".join(f"np.where(np.arange(n) == {at}, {now}, " for at, now in enumerate(COUNTED))
BF16 = {"x": "bf16[n]", "y": "bf16[n]"}
F16 = {"x": "f16[n]", "y": "f16[n]"}
I32 = {"x": "i32[n]", "y": "i32[n]"}
HIP = {
    "rms": Own(RMS.replace("SHUFFLE", "__shfl_xor(s, o)"), NORM, more="lds = 512"),
    "softmax": Own(SOFTMAX, f"({SOFT} / {SOFT}.sum(1, keepdims=True)).reshape(n)"),
    "masks": Own(MASKS, "np.where(x > 0, 1, 0) + 12", y="i32[n]"),
    "nan": Own(NAN, "3 * x"),
    "sine": Own(
        "    y[i] = sinf((float)x[i]) * cosf((float)x[i]);", "np.sin(x * 1.0) * np.cos(x * 1.0)",
        x="i32[n] uniform(0, 200000)", more="tolerance = 1e-6",
    ),
    "half": Own(
        LARGEST.replace("TYPE", "_Float16"), SQUARES, ahead="#include <hip/hip_fp16.h>\n", **F16
    ),
    "bfloat": Own(LARGEST.replace("TYPE", "__hip_bfloat16"), SQUARES, **BF16),
    "half2": Own(
        PAIRS.replace("ONE2", "__float2half2_rn"), "3 * x", types=("__half2", "__half2"), **F16
    ),
    "complex": Own(COMPLEX.replace("LANG", "hip"), "0.5 * x - 2 * x - 2"),
    "vectors": Own(VECTORS, "2 * x + 1 - (np.arange(n) % 4 + 1)", types=("float4", "float4")),
    "groups": Own(GROUPS, SUMS, ahead="#include <hip/hip_cooperative_groups.h>\n"),
    "swizzles": Own(
        SWIZZLES, f"4 * {SWAPPED} + 5 * np.where(np.arange(n) % 16 == 0, 7, np.roll(x, 1))", **I32
    ),
    "atomics": Own(
        ATOMICS, f"{COUNTS}1000)))))", x="i32[n]", y="u64[n] constant(1000)",
        types=("int", "unsigned long long"),
    ),
    "structure": Own(
        f"__global__ void k(View v, float* y) {{ int i = {AT}; y[i] = v.data[i] * v.by; }}\n",
        "2.5 * x", ahead="struct View { const float* data; float by; int n; };\n",
        args='"{ x, f32 2.5, i32 n }", "y"',
    ),
    "variable": Own(
        f"__global__ void k(float* y) {{ int i = {AT}; y[i] = 3 * mask[i]; }}\n",
        "3 * mask", ahead=f"__constant__ float mask[{N}];\n", args='"y"', name="mask",
    ),
}  # fmt: skip
CUDA = {
    "rms": Own(RMS.replace("SHUFFLE", "__shfl_xor_sync(~0u, s, o)"), NORM, more="lds = 512"),
    "half": Own(
        "    y[i] = __hmul(x[i], __float2half(2.0f)) + x[i];", "3 * x",
        ahead="#include <cuda_fp16.h>\n", **F16,
    ),
    "bfloat2": Own(
        PAIRS.replace("ONE2", "__float2bfloat162_rn"), "3 * x", ahead="#include <cuda_bf16.h>\n",
        types=("__nv_bfloat162", "__nv_bfloat162"), **BF16,
    ),
    "complex": Own(
        COMPLEX.replace("LANG", "cu"), "0.5 * x - 2 * x - 2", ahead="#include <cuComplex.h>\n"
    ),
    "groups": Own(GROUPS, SUMS, ahead="#include <cooperative_groups.h>\n"),
    "masks": Own(MASKS, "np.where(x > 0, 1, 0) + 12", y="i32[n]"),
}  # fmt: skip
CASES = [(name, suffix) for suffix, table in ((".hip", HIP), (".cu", CUDA)) for name in table]


def write(name: str, suffix: str, folder: Path) -> Path:
    """The description of one of them, beside its source."""
    return (CUDA if suffix == ".cu" else HIP)[name].write(folder, suffix)
