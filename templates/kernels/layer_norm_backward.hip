/* Layer normalisation, the gradient of x: of each row of dy times gamma, less what the mean and
 * the variance make of it. Without WITH_RESULT, what there is of each row alone: then
 * layer_norm_apply_backward.hip makes the rest. */
#include "prelude.h"
#include "constants/layer_norm.h"
#include "layer_norm.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const Element* __restrict__ dy, const float* __restrict__ gamma,
    const float* __restrict__ mean, const float* __restrict__ invstd,
#if WITH_RESULT
    Element* __restrict__ dx)
#else
    float* __restrict__ shifts, float* __restrict__ tilts)
#endif
{
    alignas(16) __shared__ float sums[BLOCK];
    alignas(16) __shared__ float dots[BLOCK];
    const unsigned slice = threadIdx.x % SLICES;
    const unsigned row = blockIdx.x * GROUP_ROWS + threadIdx.x / SLICES;
    const float centre = is_row(row) ? mean[row] : 0.0f;
    const float scale = is_row(row) ? invstd[row] : 0.0f;
    Share values(x, row), slopes(dy, row);

    float sum = 0, dot = 0;
#pragma unroll UNROLL
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        float part[VECTOR], slope[VECTOR], weight[VECTOR];
        values.first(part, k, slice);
        slopes.first(slope, k, slice);
        fetch_column(weight, gamma, row, place(k, slice));
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++) {
            const float g = slope[j] * weight[j]; /* 0 beyond the end of the row */
            sum += g;
            dot = fused(g, part[j] - centre, dot);
        }
    }
    const float shift = row_sum(sum, sums) * INVERSE;
    const float tilt = row_sum(dot, dots) * -INVERSE * scale * scale;
#if !WITH_RESULT
    if (slice == 0 && is_row(row)) {
        shifts[row] = shift;
        tilts[row] = tilt;
    }
#else

#pragma unroll UNROLL
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = place(k, slice);
        float part[VECTOR], slope[VECTOR], weight[VECTOR];
        values.again(part, k, slice);
        slopes.again(slope, k, slice);
        fetch_column(weight, gamma, row, at);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            part[j] = scale * fused(part[j] - centre, tilt, slope[j] * weight[j] - shift);
        put(dx, row, at, part);
    }
#endif
}
