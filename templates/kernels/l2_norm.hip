/* Rows by their Euclidean norm. */
#include "prelude.h"
#include "constants/layer_norm.h"
#include "rms_norm.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, Element* __restrict__ y)
{
    alignas(16) __shared__ float squares[BLOCK];
    const unsigned slice = threadIdx.x % SLICES;
    const unsigned row = blockIdx.x * GROUP_ROWS + threadIdx.x / SLICES;
    Share values(x, row);
    const float scale = inverse_root(values, squares, slice);

#pragma unroll UNROLL
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = place(k, slice);
        float part[VECTOR];
        values.again(part, k, slice);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            part[j] *= scale;
        put(y, row, at, part);
    }
}
