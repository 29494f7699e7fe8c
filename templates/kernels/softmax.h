/* How a work-group's items lie over rows, in both passes of softmax. */
#pragma once
#include "prelude.h"
#include "constants/softmax.h"
#include "access.h"
#include "softmax_element.h"
#include "reduce.h"

constexpr bool CONTIGUOUS = INNER == 1; /* a row's elements lie side by side */

/* Where a work-item's partial result lies: neighbours in LDS are neighbours in a wavefront. */
static __device__ __forceinline__ unsigned place(unsigned lane, unsigned slice)
{
    return CONTIGUOUS ? lane * SLICES + slice : slice * GROUP_ROWS + lane;
}

/* Over the work-items of a row. */
template <class Combine>
static __device__ __forceinline__ float row_reduce(
    float value, float* partial, unsigned lane, unsigned slice)
{
    return reduce<Combine, SLICES, FINALS>(
        value, partial, slice, [lane](unsigned k) { return place(lane, k); });
}

/* False beyond the last row and beyond the end of a row; no test where the sizes fit. */
static __device__ __forceinline__ bool inside(unsigned row, unsigned at)
{
    return (ROWS % GROUP_ROWS == 0 || row < ROWS) && (AXIS == SLICES * HELD || at < AXIS);
}

/* VECTOR elements of the row that begins at `base`, from `at` on, as one access. */
template <unsigned WIDTH = VECTOR>
static __device__ __forceinline__ auto read(const Element* x, unsigned base, unsigned at)
{
    if constexpr (WIDTH == 4)
        return load4(x + base + at);
    else
        return load(x, base + at * INNER);
}
static __device__ __forceinline__ void write(Element* y, unsigned base, unsigned at, float value)
{
    store(y, base + at * INNER, value);
}
static __device__ __forceinline__ void write(Element* y, unsigned base, unsigned at, float4 value)
{
    store4(y + base + at, value);
}
