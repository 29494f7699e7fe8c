/* How many elements count in the mean of a window. */
#pragma once
#include "prelude.h"
#include "pooling.h"
#include "constants/pooling_mean.h"

constexpr float SCALE = 1.0f / (KERNEL_H * KERNEL_W); /* where it is EVEN */

/* How many rows, or columns, of a window that begins at `begin` count. Starts in the padding are
 * negative, without a sign. */
static __device__ __forceinline__ unsigned counted(unsigned begin, int kernel, int extent)
{
    /* From what it knows of the range, the compiler would make differences that stop at zero, by the
     * clamp bit that gem5 ignores: let it know nothing. */
    float opaque = as_float(begin);
    pin(opaque);
    const int start = as_uint(opaque);
    const int end = start + kernel < extent ? start + kernel : extent;
    return end - (start > 0 ? start : 0);
}
static __device__ __forceinline__ unsigned counted_rows(unsigned start)
{
    return counted(start + MARGIN_H, KERNEL_H, H + 2 * MARGIN_H);
}
static __device__ __forceinline__ unsigned counted_columns(unsigned start)
{
    return counted(start + MARGIN_W, KERNEL_W, W + 2 * MARGIN_W);
}
