"""How many operations this machine's NVIDIA GPU does by mma.sync and nothing else.

    python benchmarks/native/rates.py

Every warp multiplies what it holds in registers, again and again: no kernel that also moves
something is faster than that. Factors are random, as zeros take less power and so clock higher.
Medians of ROUNDS launches.
"""

from __future__ import annotations

import cupy
import numpy as np

ROUNDS, LOOPS = 7, 20000
TEXT = r"""
extern "C" __global__ __launch_bounds__(WARPS * 32)
void mma(const unsigned* from, float* to, int loops)
{
    unsigned a[4], b[2];
    float sums[CHAINS][4] = {};
    for (int i = 0; i < 4; i++) a[i] = from[threadIdx.x * 8 + i];
    for (int i = 0; i < 2; i++) b[i] = from[threadIdx.x * 8 + 4 + i];
    for (int loop = 0; loop < loops; loop++)
#pragma unroll
        for (int i = 0; i < CHAINS; i++)
            asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." TYPE "." TYPE ".f32 "
                         "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    float sum = 0;
    for (int i = 0; i < CHAINS; i++) sum += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
    to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
INSTRUCTIONS = {
    "bf16": ("m16n8k16", "bf16", 16),
    "f16": ("m16n8k16", "f16", 16),
    "e4m3": ("m16n8k32", "e4m3", 32),
}


def main() -> None:
    print(f"GPU: {cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}\n")
    print("| instruction | warps of a unit | TFLOP/s |\n|---|---|---|")
    for name, (shape, dtype, depth) in INSTRUCTIONS.items():
        for warps in (4, 8, 16):
            rate = measured(shape, dtype, depth, warps)
            print(f"| mma.sync {shape} {name} | {warps} | {rate / 1e12:.0f} |", flush=True)


def measured(shape: str, dtype: str, depth: int, warps: int, chains: int = 16) -> float:
    """Operations per second."""
    options = (
        "--std=c++17",
        f'-DSHAPE="{shape}"',
        f'-DTYPE="{dtype}"',
        f"-DWARPS={warps}",
        f"-DCHAINS={chains}",
    )
    function = cupy.RawModule(code=TEXT, options=options).get_function("mma")
    values = cupy.asarray(np.random.default_rng(0).integers(0, 2**32, warps * 256, np.uint32))
    if dtype != "e4m3":  # no infinities, and sums that stay finite
        values = values & cupy.uint32(0x87FF87FF) | cupy.uint32(0x30003000)
    else:
        values = values & cupy.uint32(0x87878787) | cupy.uint32(0x30303030)
    units = cupy.cuda.Device().attributes["MultiProcessorCount"]
    to = cupy.empty(units * warps * 32, cupy.float32)
    times = []
    for _ in range(ROUNDS + 1):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        function((units,), (warps * 32,), (values, to, np.int32(LOOPS)))
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return units * warps * chains * LOOPS * 2 * 16 * 8 * depth / float(np.median(times[1:]))


if __name__ == "__main__":
    main()
