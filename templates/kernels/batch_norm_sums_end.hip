/* Batch normalisation: the gradients of the parameters, from the sums of chunks. */
#include "prelude.h"
#include "batch_norm_end.h"
#include "constants/batch_norm_given.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ part_db, const float* __restrict__ part_dot,
    const float* __restrict__ spread, /* the variance, or 1 / sqrt(variance + EPSILON) */
    float* __restrict__ dw, float* __restrict__ db)
{
    alignas(16) __shared__ float products[BLOCK];
    alignas(16) __shared__ float slopes[BLOCK];
    const unsigned lane = threadIdx.x % LANES; /* feature within the work-group */
    const unsigned slice = threadIdx.x / LANES;
    const unsigned feature = blockIdx.x * LANES + lane;
    const unsigned chunks = FEATURES % LANES == 0 || feature < FEATURES ? CHUNKS : 0;

    float dot = 0;
    float sum_dy = 0;
    for (unsigned k = slice; k < chunks; k += SLICES) {
        dot += part_dot[k * FEATURES + feature];
        sum_dy += part_db[k * FEATURES + feature];
    }
    dot = feature_sum(dot, products, lane, slice);
    sum_dy = feature_sum(sum_dy, slopes, lane, slice);
    if (slice == 0 && chunks > 0) {
        dw[feature] =
            dot * (FROZEN ? fast_rcp(fast_sqrt(spread[feature] + EPSILON)) : spread[feature]);
        db[feature] = sum_dy;
    }
}
