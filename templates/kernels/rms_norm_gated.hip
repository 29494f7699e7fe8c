/* Rows by their root mean squares, times gamma and times z / (1 + exp(-z)). */
#include "prelude.h"
#include "constants/layer_norm.h"
#include "gelu.h"
#include "rms_norm.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ x,
    const Element* __restrict__ z, const float* __restrict__ gamma, Element* __restrict__ y)
{
    alignas(16) __shared__ float squares[BLOCK];
    const unsigned slice = threadIdx.x % SLICES;
    const unsigned row = blockIdx.x * GROUP_ROWS + threadIdx.x / SLICES;
    Share values(x, row);
    const float scale = inverse_root(values, squares, slice);

#pragma unroll UNROLL
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = place(k, slice);
        float part[VECTOR], weight[VECTOR], gate[VECTOR];
        values.again(part, k, slice);
        fetch_column(weight, gamma, row, at);
        fetch(gate, z + row * AXIS - skew(row), at, inside(row, at));
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            part[j] = part[j] * scale * weight[j] * gelu<Gelu::SILU>(gate[j]);
        put(y, row, at, part);
    }
}
