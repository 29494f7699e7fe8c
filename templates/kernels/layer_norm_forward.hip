/* Layer normalisation, forward: each row less its mean, by its standard deviation, times gamma,
 * plus beta. Without WITH_RESULT, the statistics of rows alone: then layer_norm_apply.hip makes
 * the rest. */
#include "prelude.h"
#include "constants/layer_norm.h"
#include "layer_norm.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x,
#if WITH_RESULT
    const float* __restrict__ gamma, const float* __restrict__ beta, Element* __restrict__ y,
#endif
    float* __restrict__ mean, float* __restrict__ invstd)
{
    alignas(16) __shared__ float sums[BLOCK];
    alignas(16) __shared__ float squares[BLOCK];
    const unsigned slice = threadIdx.x % SLICES;
    const unsigned row = blockIdx.x * GROUP_ROWS + threadIdx.x / SLICES;
    Share values(x, row);

    float sum = 0;
#pragma unroll UNROLL
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        float part[VECTOR];
        values.first(part, k, slice);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            sum += part[j];
    }
    const float centre = row_sum(sum, sums) * INVERSE;

    float square = 0;
#pragma unroll UNROLL
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = place(k, slice);
        const bool there = inside(row, at);
        float part[VECTOR];
        values.again(part, k, slice);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++) {
            const bool own = there && (!is_edge(k) || is_own(skew(row), at + j));
            const float d = own ? part[j] - centre : 0.0f;
            square = fused(d, d, square);
        }
    }
    const float scale = fast_rcp(fast_sqrt(row_sum(square, squares) * INVERSE + EPSILON));
    if (slice == 0 && is_row(row)) {
        mean[row] = centre;
        invstd[row] = scale;
    }

#if WITH_RESULT
#pragma unroll UNROLL
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = place(k, slice);
        float part[VECTOR], weight[VECTOR], shift[VECTOR];
        values.again(part, k, slice);
        fetch_column(weight, gamma, row, at);
        fetch_column(shift, beta, row, at);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            part[j] = fused((part[j] - centre) * scale, weight[j], shift[j]);
        put(y, row, at, part);
    }
#endif
}
