/* Batch normalisation: the statistics of features, from those of their chunks. */
#include "prelude.h"
#include "batch_norm_end.h"
#include "constants/batch_norm_update.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ part_mean, const float* __restrict__ part_squares,
#if WITH_HISTORY
    const float* __restrict__ running_mean, const float* __restrict__ running_var,
#endif
    float* __restrict__ mean, float* __restrict__ invstd
#if WITH_UPDATE
    , float* __restrict__ new_running_mean, float* __restrict__ new_running_var
#endif
)
{
    alignas(16) __shared__ float means[BLOCK];
    alignas(16) __shared__ float squares[BLOCK];
    const unsigned lane = threadIdx.x % LANES; /* feature within the work-group */
    const unsigned slice = threadIdx.x / LANES;
    const unsigned feature = blockIdx.x * LANES + lane;
    const unsigned chunks = FEATURES % LANES == 0 || feature < FEATURES ? CHUNKS : 0;

    float centre = 0;
    for (unsigned k = slice; k < chunks; k += SLICES)
        centre = fused(part_mean[k * FEATURES + feature],
            k < CHUNKS - 1 ? static_cast<float>(double(TILE) / ELEMENTS)
                           : static_cast<float>(double(LAST) / ELEMENTS),
            centre);
    centre = feature_sum(centre, means, lane, slice);

    /* Chan et al.: squares about the common mean from those about the chunks' own. */
    float square = 0;
    for (unsigned k = slice; k < chunks; k += SLICES) {
        const float d = part_mean[k * FEATURES + feature] - centre;
        square += fused(
            d * (k < CHUNKS - 1 ? static_cast<float>(TILE) : static_cast<float>(LAST)), d,
            part_squares[k * FEATURES + feature]);
    }
    const float variance =
        feature_sum(square, squares, lane, slice) * static_cast<float>(1.0 / ELEMENTS);
    const float scale = fast_rcp(fast_sqrt(variance + EPSILON));
    if (slice == 0 && chunks > 0) {
#if WITH_STATISTICS
        mean[feature] = centre;
        invstd[feature] = scale;
#endif
#if WITH_HISTORY
        new_running_mean[feature] = fused(FACTOR, centre, KEEP * running_mean[feature]);
        new_running_var[feature] = fused(UNBIASED, variance, KEEP * running_var[feature]);
#elif WITH_UPDATE
        new_running_mean[feature] = centre;
        new_running_var[feature] = UNBIASED * variance;
#endif
    }
}
