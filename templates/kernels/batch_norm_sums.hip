/* Batch normalisation: of each chunk of a feature the sums of dy, and of dy (x - mean). */
#include "prelude.h"
#include "batch_norm.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const Element* __restrict__ dy, const float* __restrict__ mean,
    float* __restrict__ part_db, float* __restrict__ part_dot)
{
    alignas(16) __shared__ float slopes[BLOCK];
    alignas(16) __shared__ float products[BLOCK];
    const unsigned lane = own_lane();
    const unsigned slice = own_slice();
    const unsigned chunk = blockIdx.x % CHUNKS;
    const unsigned feature = blockIdx.x / CHUNKS * LANES + lane;
    const unsigned start = chunk * TILE + slice * VECTOR;

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
    const float centre = is_feature(feature) ? mean[feature] : 0.0f;

    float dot = 0;
    float sum_dy = 0;
#pragma unroll
    for (unsigned k = 0; k < HELD; k++) {
        value[k] -= centre;
        dot = fused(slope[k], value[k], dot);
        sum_dy += slope[k];
    }
    dot = feature_sum(dot, products, lane, slice);
    sum_dy = feature_sum(sum_dy, slopes, lane, slice);
    if (slice == 0 && is_feature(feature)) {
        part_dot[chunk * FEATURES + feature] = dot;
        part_db[chunk * FEATURES + feature] = sum_dy;
    }
}
