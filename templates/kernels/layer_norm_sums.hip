/* Layer normalisation, the gradients of gamma and beta: sums over rows, or over each of CHUNKS chunks of them. */
#include "prelude.h"
#include "constants/layer_norm_sums.h"

/* The sum of `value` over the work-items of a column, in the first of them. */
static __device__ __forceinline__ float column_sum(float value, float* partial, unsigned lane, unsigned slice)
{
    partial[slice * LANES + lane] = value;
    __syncthreads();
    if constexpr (SLICES > FINALS) {
        if (slice < FINALS) {
#pragma unroll
            for (unsigned k = FINALS; k < SLICES; k += FINALS)
                value += partial[(slice + k) * LANES + lane];
            partial[slice * LANES + lane] = value;
        }
        __syncthreads();
    }
    float result = partial[lane];
#pragma unroll
    for (unsigned k = 1; k < FINALS; k++)
        result += partial[k * LANES + lane];
    return result;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const Element* __restrict__ dy, const float* __restrict__ mean,
    const float* __restrict__ invstd, float* __restrict__ dgamma, float* __restrict__ dbeta)
{
    alignas(16) __shared__ float dots[BLOCK];
    alignas(16) __shared__ float sums[BLOCK];
    const unsigned lane = threadIdx.x % LANES;
    const unsigned slice = threadIdx.x / LANES;
    const unsigned chunk = blockIdx.x % CHUNKS;
    const unsigned column = blockIdx.x / CHUNKS * LANES + lane;
    const bool is_column = AXIS % LANES == 0 || column < AXIS;

    float dot = 0, sum = 0;
#pragma unroll 4
    for (unsigned k = 0; k < HELD; k++) {
        const unsigned row = (chunk * HELD + k) * SLICES + slice;
        if (is_column && (ROWS % (HELD * SLICES) == 0 || row < ROWS)) {
            const float slope = load(dy, row * AXIS + column);
            dot = fused(slope, (load(x, row * AXIS + column) - mean[row]) * invstd[row], dot);
            sum += slope;
        }
    }
    dot = column_sum(dot, dots, lane, slice);
    sum = column_sum(sum, sums, lane, slice);
    if (slice == 0 && is_column) {
        dgamma[chunk * AXIS + column] = dot;
        dbeta[chunk * AXIS + column] = sum;
    }
}
