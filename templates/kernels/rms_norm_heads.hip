/* Rows are heads: those of queries and of keys by their root mean squares, times a gamma of each
 * kind; the rest is copied. */
#include "prelude.h"
#include "constants/layer_norm.h"
#include "constants/rms_norm_heads.h"
#include "rms_norm.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const float* __restrict__ gamma, Element* __restrict__ y)
{
    alignas(16) __shared__ float squares[BLOCK];
    const unsigned slice = threadIdx.x % SLICES;
    const unsigned row = blockIdx.x * GROUP_ROWS + threadIdx.x / SLICES;
    Share values(x, row);
    const unsigned head = row % HEADS;
    const bool is_query = head < QUERY_HEADS, is_normed = head < QUERY_HEADS + KEY_HEADS;
    const float scale = inverse_root(values, squares, slice);
    const float* of_head = gamma + (is_query ? 0 : AXIS);

#pragma unroll UNROLL
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        const unsigned at = place(k, slice);
        float part[VECTOR], weight[VECTOR];
        values.again(part, k, slice);
        if constexpr (LOOSE) /* the second gamma begins anywhere */
            fetch_each(weight, of_head, row, at);
        else
            fetch(weight, of_head, at, inside(row, at));
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            part[j] = is_normed ? part[j] * scale * weight[j] : part[j];
        put(y, row, at, part);
    }
}
