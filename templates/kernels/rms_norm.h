/* The root mean square of a row, whose elements a work-item has in `Row`. */
#pragma once
#include "layer_norm.h"

/* 1 / sqrt(INVERSE sum(x^2) + EPSILON), in each of the row's work-items. */
template <class Row>
static __device__ __forceinline__ float inverse_root(Row& values, float* squares, unsigned slice)
{
    float square = 0;
#pragma unroll UNROLL
    for (unsigned k = 0; k < HELD; k += VECTOR) {
        float part[VECTOR];
        values.first(part, k, slice);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            square = fused(part[j], part[j], square);
    }
    return fast_rcp(fast_sqrt(row_sum(square, squares) * INVERSE + EPSILON));
}
