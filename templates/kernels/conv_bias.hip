/* The gradient of a bias: db[k] = the sum of dy over BATCH samples and PIXELS pixels, for
 * FILTERS channels k. Where the elements of a channel are shared out, work-group x leaves a
 * partial sum. */
#include "prelude.h"
#include "vector.h"
#include "constants/conv_bias.h"

constexpr unsigned TOTAL = BATCH * PIXELS;

static __device__ __forceinline__ float total_of(float x) { return x; }
static __device__ __forceinline__ float total_of(float4 x) { return x.x + x.y + (x.z + x.w); }

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const ResultElement* __restrict__ dy, float* __restrict__ db)
{
    __shared__ float sums[BLOCK];
    const unsigned channel = blockIdx.y;
    const unsigned first = blockIdx.x * CHUNK;
    const unsigned end = TOTAL % CHUNK == 0 || first + CHUNK < TOTAL ? first + CHUNK : TOTAL;
    float sum = 0;
    for (unsigned i = first + threadIdx.x * VECTOR; i < end; i += BLOCK * VECTOR) {
        const ResultElement* from = dy + (i / PIXELS * FILTERS + channel) * PIXELS + i % PIXELS;
        sum += total_of(fetched<float, VECTOR>(from));
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
#pragma unroll
    for (unsigned half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        db[SPLITS > 1 ? blockIdx.x * FILTERS + channel : channel] = sums[0];
}
