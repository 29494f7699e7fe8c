/* Batch normalisation, backward, where a work-group has all elements of its features. */
#include "prelude.h"
#include "batch_norm.h"
#include "constants/batch_norm_backward.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const Element* __restrict__ dy, const float* __restrict__ w,
#if WITH_GIVEN
    /* the variance, or 1 / sqrt() */
    const float* __restrict__ mean, const float* __restrict__ spread,
#endif
    Element* __restrict__ dx, float* __restrict__ dw, float* __restrict__ db)
{
#if !WITH_GIVEN
    alignas(16) __shared__ float sums[BLOCK];
    alignas(16) __shared__ float squares[BLOCK];
#endif
    alignas(16) __shared__ float slopes[BLOCK];
    alignas(16) __shared__ float products[BLOCK];
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
    float slope[HELD]; /* dy */
#pragma unroll
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = start + k * SLICES;
        unpack(slope + k, inside(feature, at) ? read(dy, feature, at) : all<VECTOR>(0.0f));
    }

#if WITH_GIVEN
    const float centre = is_feature(feature) ? mean[feature] : 0.0f;
    const float given = is_feature(feature) ? spread[feature] : 0.0f;
    const float scale = FROZEN ? fast_rcp(fast_sqrt(given + EPSILON)) : given;
#else
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
#endif

    float dot = 0;
    float sum_dy = 0;
#pragma unroll
    for (unsigned k = 0; k < HELD; k++) {
        if constexpr (WITH_GIVEN)
            value[k] -= centre;
        dot = fused(slope[k], value[k], dot);
        sum_dy += slope[k];
    }
    dot = feature_sum(dot, products, lane, slice);
    sum_dy = feature_sum(sum_dy, slopes, lane, slice);
    dot *= scale;
    if (slice == 0 && is_feature(feature)) {
        dw[feature] = dot;
        db[feature] = sum_dy;
    }

    const float weight = (is_feature(feature) ? w[feature] : 0.0f) * scale;
    const float shift = sum_dy * RECIPROCAL;
    const float tilt = dot * scale * static_cast<float>(-1.0 / ELEMENTS);
#pragma unroll
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = start + k * SLICES;
        if (!inside(feature, at))
            continue;
        if constexpr (VECTOR == 4) {
            const float4 four{
                FROZEN ? weight * slope[k] : weight * fused(value[k], tilt, slope[k] - shift),
                FROZEN ? weight * slope[k + 1]
                       : weight * fused(value[k + 1], tilt, slope[k + 1] - shift),
                FROZEN ? weight * slope[k + 2]
                       : weight * fused(value[k + 2], tilt, slope[k + 2] - shift),
                FROZEN ? weight * slope[k + 3]
                       : weight * fused(value[k + 3], tilt, slope[k + 3] - shift)};
            store4(dx + address(feature, at), four);
        } else {
            const float out =
                FROZEN ? weight * slope[k] : weight * fused(value[k], tilt, slope[k] - shift);
            store(dx, address(feature, at), out);
        }
    }
}
