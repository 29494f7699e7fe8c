/* The mean of losses from PARTS sums of them, in one work-group: y = sum SHARE, or, WITH_COUNTS,
 * the sum by the number of all that count. */
#include "prelude.h"
#include "constants/loss_mean.h"
#include "reduce.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ sums,
#if WITH_COUNTS
    const float* __restrict__ counts, float* __restrict__ y, float* __restrict__ share)
#else
    float* __restrict__ y)
#endif
{
    alignas(16) __shared__ float partial[BLOCK];
    const auto place = [](unsigned k) { return k; };
    float sum = 0;
    for (unsigned at = threadIdx.x; at < PARTS; at += BLOCK)
        sum += sums[at];
    sum = reduce<Add, BLOCK, FINALS>(sum, partial, threadIdx.x, place);
#if WITH_COUNTS
    alignas(16) __shared__ float counted[BLOCK];
    float count = 0;
    for (unsigned at = threadIdx.x; at < PARTS; at += BLOCK)
        count += counts[at];
    count = reduce<Add, BLOCK, FINALS>(count, counted, threadIdx.x, place);
    const float each = count > 0 ? fast_rcp(count) : 0.0f;
    if (threadIdx.x == 0) {
        share[0] = each;
        y[0] = sum * each;
    }
#else
    if (threadIdx.x == 0)
        y[0] = sum * SHARE;
#endif
}
