/* A sum of two tensors, its rows by their root mean squares, times gamma, and these as 8-bit floats
 * with a scale of each row: s = x0 + x1, v = gamma s / rms(s), y = v / scale. */
#include "prelude.h"
#include "constants/layer_norm.h"
#include "constants/rms_norm_quantised.h"
#include "rms_norm.h"
#include "row_sum.h"
#include "reduce.h"
#include "scales.h"

constexpr float MOST = 448.0f; /* the largest number of y */

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x0, const Element* __restrict__ x1, const float* __restrict__ gamma,
    Number* __restrict__ y, float* __restrict__ scales, Element* __restrict__ s)
{
    alignas(16) __shared__ float squares[BLOCK];
    __shared__ float largest[BLOCK];
    const unsigned slice = threadIdx.x % SLICES, own = threadIdx.x - slice;
    const unsigned row = blockIdx.x * GROUP_ROWS + threadIdx.x / SLICES;
    Sum values{Share<Element>(x0, row), Share<Element>(x1, row)};
    const float root = inverse_root(values, squares, slice);

    const auto normal = [&](float(&part)[VECTOR], unsigned k) {
        const unsigned at = place(k, slice);
        float weight[VECTOR];
        values.again(part, k, slice);
        fetch_column(weight, gamma, row, at);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            part[j] = part[j] * root * weight[j];
    };
    float most = 0.0f;
#pragma unroll UNROLL
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        float part[VECTOR];
        normal(part, k);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            most = maximum(most, absolute(part[j]));
    }
    most = reduce<Maximum, SLICES, FINALS>(
        most, largest, slice, [&](unsigned other) { return own + other; });
    const auto scale = ScaleOf<float>::made(most, 1.0f / MOST, 0, 0.0f);
#pragma unroll UNROLL
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = place(k, slice);
        float part[VECTOR];
        values.again(part, k, slice);
        put(s, row, at, part);
        normal(part, k);
        if (inside(row, at)) {
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                part[j] = minimum(maximum(part[j] * scale.inverse, -MOST), MOST);
            store4(y + row * AXIS + at, float4{part[0], part[1], part[2], part[3]});
        }
    }
    if (slice == 0 && is_row(row))
        scales[row] = as_float(scale.bits);
}
