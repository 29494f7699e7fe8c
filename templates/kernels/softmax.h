/* How a work-group's items lie over rows, in both passes of softmax. */
#pragma once
#include "prelude.h"
#include "constants/softmax.h"
#include "rows.h"
#include "softmax_element.h"
#include "reduce.h"

constexpr bool CONTIGUOUS = INNER == 1; /* a row's elements lie side by side */

/* Where a work-item's partial result lies: neighbours in LDS are neighbours in a wavefront. */
static __device__ __forceinline__ unsigned partial_place(unsigned lane, unsigned slice)
{
    return CONTIGUOUS ? lane * SLICES + slice : slice * GROUP_ROWS + lane;
}

/* Over the work-items of a row. */
template <class Combine>
static __device__ __forceinline__ float row_reduce(
    float value, float* partial, unsigned lane, unsigned slice)
{
    return reduce<Combine, SLICES, FINALS>(
        value, partial, slice, [lane](unsigned k) { return partial_place(lane, k); });
}

/* VECTOR elements of the row that begins at `base`, from `at` on, as one access. */
template <unsigned WIDTH = VECTOR, class T>
static __device__ __forceinline__ auto read(const T* x, unsigned base, unsigned at)
{
    if constexpr (WIDTH == 4)
        return load4(x + base + at);
    else
        return load(x, base + at * INNER);
}
/* The same, and `other` in place of what is not the row's own. */
template <class T>
static __device__ __forceinline__ auto own(
    const T* x, unsigned base, unsigned row, unsigned at, float other)
{
    auto some = read(x, base, at);
    if constexpr (LOOSE) {
        const unsigned skewed = skew(row);
        some = float4{is_own(skewed, at) ? some.x : other, is_own(skewed, at + 1) ? some.y : other,
            is_own(skewed, at + 2) ? some.z : other, is_own(skewed, at + 3) ? some.w : other};
    }
    return some;
}
/* The same of any place. */
static __device__ __forceinline__ auto own_or(
    const Element* x, unsigned base, unsigned row, unsigned at, float other)
{
    return inside(row, at) ? own(x, base, row, at, other) : all<VECTOR>(other);
}
static __device__ __forceinline__ void write(
    Element* y, unsigned base, unsigned, unsigned at, float value)
{
    store(y, base + at * INNER, value);
}
static __device__ __forceinline__ void write(
    Element* y, unsigned base, unsigned row, unsigned at, float4 value)
{
    const float four[] = {value.x, value.y, value.z, value.w};
    store_own(y + base, skew(row), at, four);
}
