/* Batch normalisation, forward, where a work-group has all elements of its features:
 * y = w (x - mean) / sqrt(variance + EPSILON) + b, with the statistics of the batch. */
#include "prelude.h"
#include "batch_norm.h"
#include "constants/batch_norm_update.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b,
#if WITH_HISTORY
    const float* __restrict__ running_mean, const float* __restrict__ running_var,
#endif
    Element* __restrict__ y,
#if WITH_STATISTICS
    float* __restrict__ mean, float* __restrict__ invstd,
#endif
    float* __restrict__ new_running_mean, float* __restrict__ new_running_var)
{
    alignas(16) __shared__ float sums[BLOCK];
    alignas(16) __shared__ float squares[BLOCK];
    const unsigned lane = own_lane();
    const unsigned slice = own_slice();
    const unsigned feature = blockIdx.x * LANES + lane;
    const unsigned start = slice * VECTOR;

    float value[HELD]; /* x, and then its distance to the mean */
#pragma unroll
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = start + k * SLICES;
        unpack(value + k, inside(feature, at) ? read(x, feature, at) : all<VECTOR>(0.0f));
    }

    float sum = 0;
#pragma unroll
    for (unsigned k = 0; k < HELD; k++)
        sum += value[k];
    const float centre = feature_sum(sum, sums, lane, slice) * RECIPROCAL;

    float square = 0;
#pragma unroll
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = start + k * SLICES;
        for (unsigned j = 0; j < VECTOR; j++) {
            value[k + j] = inside(feature, at) ? value[k + j] - centre : 0.0f;
            square = fused(value[k + j], value[k + j], square);
        }
    }
    const float variance = feature_sum(square, squares, lane, slice) * RECIPROCAL;
    const float scale = fast_rcp(fast_sqrt(variance + EPSILON));
    if (slice == 0 && is_feature(feature)) {
#if WITH_STATISTICS
        mean[feature] = centre;
        invstd[feature] = scale;
#endif
#if WITH_HISTORY
        new_running_mean[feature] = fused(FACTOR, centre, KEEP * running_mean[feature]);
        new_running_var[feature] = fused(UNBIASED, variance, KEEP * running_var[feature]);
#else
        new_running_mean[feature] = centre;
        new_running_var[feature] = UNBIASED * variance;
#endif
    }

    const float weight = (is_feature(feature) ? w[feature] : 0.0f) * scale;
    const float shift = is_feature(feature) ? b[feature] : 0.0f;
#pragma unroll
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = start + k * SLICES;
        if (!inside(feature, at))
            continue;
        if constexpr (VECTOR == 4) {
            const float4 four{
                fused(value[k], weight, shift), fused(value[k + 1], weight, shift),
                fused(value[k + 2], weight, shift), fused(value[k + 3], weight, shift)};
            store4(y + address(feature, at), four);
        } else {
            store(y, address(feature, at), fused(value[k], weight, shift));
        }
    }
}
