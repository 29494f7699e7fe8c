"""The same on a GPU of NVIDIA: CUDA's own functions of float32 beside its own of float64."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import simgen

if TYPE_CHECKING:
    from pathlib import Path

JUDGE = """
typedef unsigned long long u64;
__device__ int rank_of(float x) { int b = __float_as_int(x); return b < 0 ? (int)(0x80000000u - (unsigned)b) : b; }
__device__ u64 judged(float got, double right, unsigned at)
{
    const float near = (float)right;
    long long off = (long long)rank_of(got) - rank_of(near);
    off = off < 0 ? -off : off;
    if (near != near || got != got)
        off = near != near && got != got ? 0 : 0x7fffffff;
    return (u64)off << 32 | at;
}
__device__ u64 mixed(u64 x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}
"""  # noqa: E501
KERNEL = """
extern "C" __global__ void {kernel}(u64* most)
{{
    u64 worst = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < {count}ull; i += gridDim.x * (u64)blockDim.x) {{
        {arguments}
        const u64 found = {unless}judged({call}, {truth}, (unsigned)i);
        worst = found > worst ? found : worst;
    }}
    atomicMax(most + {at}, worst);
}}
"""  # noqa: E501
SINGLE = "const float f = __uint_as_float((unsigned)i); const double x = f;"
PAIR = """const u64 a = mixed(i);
        const unsigned p = (unsigned)a, q = (unsigned)(a >> 32);
        const float f = __uint_as_float(i & 2 ? (p & 0x81ffffff) + 0x3f000000 : p);
        const float g = __uint_as_float(i & 1 ? (q & 0x83ffffff) + 0x3e000000 : q);
        const double x = f, y = g;"""
OTHER = {"cosine_of_half_turns": "cospi", "sine_of_half_turns": "sinpi", "scaled_erfc": "erfcx"}
UNBOUNDED = {"lgammaf": "-10.001 < x && x < -2.264 ? 0 : "}  # where CUDA documents no error
WIDE = re.compile(r"lib_(sqrt|cbrt|erfc|hypot)l")


def source(rows: list[dict[str, str]], singles: int, pairs: int) -> str:
    made = JUDGE
    for at, row in enumerate(rows):
        truth = re.sub(r"lib_", "", WIDE.sub(r"\1", row["truth"]))
        truth = re.sub(r"(\d)L\b", r"\1", truth)
        for name, its in OTHER.items():
            truth = truth.replace(name, its)
        single = row["of"] == "single"
        made += KERNEL.format(
            kernel=f"k{at}", at=at, count=singles if single else pairs, truth=truth,
            arguments=SINGLE if single else PAIR,
            unless=UNBOUNDED.get(row["name"], ""),
            call=f"{row['name']}({'f' if single else 'f, g'})",
        )  # fmt: skip
    return made


def found(
    rows: list[dict[str, str]], folder: Path, singles: int, pairs: int
) -> list[tuple[int, int]]:
    """How many numbers each is off where it is farthest, and its argument's bits there."""
    n = len(rows)
    (folder / "f.cu").write_text(source(rows, singles, pairs))
    launches = "".join(
        f'[[launch]]\nkernel = "k{at}"\nargs = ["most"]\ngrid = 2112\nblock = 256\n'
        for at in range(n)
    )
    (folder / "f.toml").write_text(
        f'source = "f.cu"\noutputs = {{ most = "u64[{n}] zeros" }}\n'
        f'[reference]\nmost = "np.zeros({n})"\n{launches}'
    )
    bundle = simgen.plan(str(folder / "f.toml")).build(str(folder / "made"), "cuda")
    bundle.run(timeout=540.0)
    values = bundle.result("cuda").outputs["f.most"].values
    return [(int(value) >> 32, int(value) & 0xFFFFFFFF) for value in values]
