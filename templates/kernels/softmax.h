/* How a work-group's items lie over rows, in both passes of softmax. */
#pragma once
#include "prelude.h"
#include "constants/softmax.h"
#include "shifted_rows.h"
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

/* Where a row begins. */
static __device__ __forceinline__ unsigned start(unsigned row)
{
    return row / INNER * (AXIS * INNER) + row % INNER;
}

/* False beyond the last row and beyond the end of a row; no test where the sizes fit. */
static __device__ __forceinline__ bool inside(unsigned row, unsigned at)
{
    return (ROWS % GROUP_ROWS == 0 || row < ROWS)
           && ((!SHIFTED && AXIS == SLICES * HELD) || at < AXIS + lead(row));
}

/* VECTOR elements of a row, from `at` on, as one access; those of its neighbours are `beyond`. */
template <unsigned WIDTH = VECTOR>
static __device__ __forceinline__ auto read(
    const Element* x, unsigned row, unsigned at, float beyond)
{
    const unsigned base = start(row);
    if constexpr (WIDTH == 4) {
        if constexpr (!SHIFTED)
            return load4(x + base + at);
        float each[4];
        unpack(each, load4(x + (base - lead(row)) + at));
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
            each[j] = of_row(row, at + j) ? each[j] : beyond;
        return float4{each[0], each[1], each[2], each[3]};
    } else {
        return load(x, base + at * INNER);
    }
}
static __device__ __forceinline__ void write(Element* y, unsigned row, unsigned at, float value)
{
    store(y, start(row) + at * INNER, value);
}
static __device__ __forceinline__ void write(Element* y, unsigned row, unsigned at, float4 value)
{
    if constexpr (SHIFTED)
        store_piece(y + (start(row) - lead(row)), row, at, value);
    else
        store4(y + start(row) + at, value);
}
