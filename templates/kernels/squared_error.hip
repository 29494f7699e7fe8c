/* Mean squared error: the mean of the squares of each of SAMPLES, a work-group for each. */
#include "prelude.h"
#include "constants/squared_error.h"
#include "access.h"
#include "reduce.h"

template <unsigned WIDTH>
static __device__ __forceinline__ auto read(const Element* x, unsigned at)
{
    if constexpr (WIDTH == 4)
        return load4(x + at);
    else
        return load(x, at);
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const Element* __restrict__ target, float* __restrict__ losses)
{
    alignas(16) __shared__ float partial[BLOCK];
    const unsigned base = blockIdx.x * SIZE;
    float sum = 0;
    for (unsigned at = threadIdx.x * VECTOR; at < SIZE; at += BLOCK * VECTOR) {
        float is[VECTOR], should[VECTOR];
        unpack(is, read<VECTOR>(x, base + at));
        unpack(should, read<VECTOR>(target, base + at));
#pragma unroll
        for (unsigned k = 0; k < VECTOR; k++)
            sum = fused(is[k] - should[k], is[k] - should[k], sum);
    }
    sum = reduce<Add, BLOCK, FINALS>(sum, partial, threadIdx.x, [](unsigned k) { return k; });
    if (threadIdx.x == 0)
        losses[blockIdx.x] = sum * SHARE;
}
