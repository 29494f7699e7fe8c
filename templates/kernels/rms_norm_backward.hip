/* Rows by their root mean square, the gradient of x: r (g - x r sum(g x r) / D), g = dy gamma, r
 * = 1 / rms(x). Without WITH_RESULT, r alone, of which the gradient of gamma is made
 * (layer_norm_sums.hip). */
#include "prelude.h"
#include "constants/layer_norm.h"
#include "rms_norm.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
#if WITH_RESULT
    const Element* __restrict__ x, const Element* __restrict__ dy, const float* __restrict__ gamma,
    Element* __restrict__ dx)
#else
    const Element* __restrict__ x, float* __restrict__ invstd)
#endif
{
    alignas(16) __shared__ float squares[BLOCK];
    const unsigned slice = threadIdx.x % SLICES;
    const unsigned row = blockIdx.x * GROUP_ROWS + threadIdx.x / SLICES;
    Share values(x, row);
    const float scale = inverse_root(values, squares, slice);
#if !WITH_RESULT
    if (slice == 0 && is_row(row))
        invstd[row] = scale;
#else
    alignas(16) __shared__ float dots[BLOCK];
    Share slopes(dy, row);
    float dot = 0;
#pragma unroll UNROLL
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        float part[VECTOR], slope[VECTOR], weight[VECTOR];
        values.again(part, k, slice);
        slopes.first(slope, k, slice);
        fetch_column(weight, gamma, row, place(k, slice));
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            /* where r is 0, x may be anything */
            dot = fused(slope[j] * weight[j], part[j] * scale, dot);
    }
    const float tilt = row_sum(dot, dots) * -INVERSE * scale;

#pragma unroll UNROLL
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = place(k, slice);
        float part[VECTOR], slope[VECTOR], weight[VECTOR];
        values.again(part, k, slice);
        slopes.again(slope, k, slice);
        fetch_column(weight, gamma, row, at);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            part[j] = scale * fused(part[j], tilt, slope[j] * weight[j]);
        put(dx, row, at, part);
    }
#endif
}
