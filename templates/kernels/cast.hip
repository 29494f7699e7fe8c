/* Conversion of elements from one type to another: integers stand for a scale times themselves. */
#include "prelude.h"
#include "constants/cast.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

/* What is read, as numbers to compute with. */
template <class T>
static __device__ __forceinline__ float4 read4(const T* from)
{
    return load4(from);
}
static __device__ __forceinline__ float4 read4(const int* from)
{
    const int4 in = *reinterpret_cast<const int4*>(from);
    return float4{static_cast<float>(in.x), static_cast<float>(in.y), static_cast<float>(in.z),
        static_cast<float>(in.w)};
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Source* __restrict__ x, Target* __restrict__ y)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || at + VECTOR <= SIZE) {
        if constexpr (SCALE == 1) {
            store4(y + at, read4(x + at));
        } else {
            const float4 in = read4(x + at);
            store4(y + at, float4{in.x * SCALE, in.y * SCALE, in.z * SCALE, in.w * SCALE});
        }
    } else if (SIZE % VECTOR != 0 && at < SIZE) {
        float last[VECTOR] = {};
#pragma unroll
        for (unsigned k = 0; k < SIZE % VECTOR; k++)
            last[k] = SCALE == 1 ? static_cast<float>(load(x, at + k))
                                 : static_cast<float>(load(x, at + k)) * SCALE;
        if constexpr (sizeof(Target) < 4) {
            store4(y + at, float4{last[0], last[1], last[2], last[3]});
        } else {
#pragma unroll
            for (unsigned k = 0; k < SIZE % VECTOR; k++)
                store(y, at + k, last[k]);
        }
    }
}
