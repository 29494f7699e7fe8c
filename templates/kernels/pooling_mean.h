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
    /* From what it knows of the range, the compiler would make differences that stop at zero, by
     * the clamp bit that gem5 ignores: let it know nothing. */
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

/* Whether elements are whole numbers. */
template <class T>
constexpr bool COUNTED = requires { T::WHOLE; };

/* The mean of a window of which so many elements count, unless it is EVEN. Of whole numbers, the
 * nearest one to the quotient, of two the even one, by however exact a reciprocal: what it gives
 * is off by 1 at most, which the rest tells. */
template <class T = Element>
static __device__ __forceinline__ float mean_of(float sum, unsigned counted)
{
    const float reciprocal = EVEN ? SCALE : fast_rcp(static_cast<float>(counted));
    if constexpr (COUNTED<T>) {
        const float count = EVEN ? KERNEL_H * KERNEL_W : static_cast<float>(counted);
        const float shifted = sum * reciprocal + T::WHOLE;
        const bool odd = as_uint(shifted) & 1;
        const float near = shifted - T::WHOLE;
        const float twice = 2.0f * (sum - near * count);
        const float over = twice - count;
        const float under = twice + count;
        const float more = over > 0.0f || (over == 0.0f && odd) ? 1.0f : 0.0f;
        const float less = under < 0.0f || (under == 0.0f && odd) ? 1.0f : 0.0f;
        return near + (more - less);
    } else {
        return sum * reciprocal;
    }
}
