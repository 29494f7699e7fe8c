/* Batch normalisation: of each chunk of a feature the mean, and the sum of squares about it. */
#include "prelude.h"
#include "batch_norm.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, float* __restrict__ part_mean, float* __restrict__ part_squares)
{
    alignas(16) __shared__ float sums[BLOCK];
    alignas(16) __shared__ float squares[BLOCK];
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

    float sum = 0;
#pragma unroll
    for (unsigned k = 0; k < HELD; k++)
        sum += value[k];
    const float centre =
        feature_sum(sum, sums, lane, slice)
        * (chunk < CHUNKS - 1 ? static_cast<float>(1.0 / TILE) : static_cast<float>(1.0 / LAST));

    float square = 0;
#pragma unroll
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = start + k * SLICES;
        for (unsigned j = 0; j < VECTOR; j++) {
            value[k + j] = inside(feature, at) ? value[k + j] - centre : 0.0f;
            square = fused(value[k + j], value[k + j], square);
        }
    }
    square = feature_sum(square, squares, lane, slice);
    if (slice == 0 && is_feature(feature)) {
        part_mean[chunk * FEATURES + feature] = centre;
        part_squares[chunk * FEATURES + feature] = square;
    }
}
