/* A sum of two tensors, and its rows by their root mean squares, times gamma: s = x0 + x1, y =
 * gamma s / rms(s). Of narrow elements, the sum is not rounded before it is normalised. */
#include "prelude.h"
#include "constants/layer_norm.h"
#include "rms_norm.h"
#include "row_sum.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x0, const Element* __restrict__ x1, const float* __restrict__ gamma,
    Element* __restrict__ y, Element* __restrict__ s)
{
    alignas(16) __shared__ float squares[BLOCK];
    const unsigned slice = threadIdx.x % SLICES;
    const unsigned row = blockIdx.x * GROUP_ROWS + threadIdx.x / SLICES;
    Sum values{Share<Element>(x0, row), Share<Element>(x1, row)};
    const float scale = inverse_root(values, squares, slice);

#pragma unroll UNROLL
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = place(k, slice);
        float part[VECTOR], weight[VECTOR];
        values.again(part, k, slice);
        put(s, row, at, part);
        fetch_column(weight, gamma, row, at);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            part[j] = part[j] * scale * weight[j];
        put(y, row, at, part);
    }
}
