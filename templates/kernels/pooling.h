/* What the kernels of pooling share: sizes, padding, and the rows that a work-item reads. */
#pragma once
#include "prelude.h"
#include "constants/pooling_sizes.h"
#include "access.h"

/* -inf, for the padding: it is greater than nothing. */
static __device__ __forceinline__ float lowest() { return as_float(0xff800000u); }

/* The first element inside the image of a window that begins in `row` and `column`, which are large
 * numbers, without a sign, in the padding. */
static __device__ __forceinline__ int first_inside(unsigned row, unsigned column)
{
    const unsigned r = PAD_H == 0 || row < H ? 0 : 0 - row;
    const unsigned s = PAD_W == 0 || column < W ? 0 : 0 - column;
    return r * KERNEL_W + s;
}

/* What a work-item reads of a row: COLUMNS elements, in loads of LOAD, and LEFT of the padding
 * before the image. LAST: where the last work-item of a row begins, LEFT after this; LAST_TOP:
 * where the last one of a plane does, PAD_H after this. OVERHANG: windows extend beyond the
 * padding to the right. LARGEST: the padding is less than all elements; else it is zero. */
template <unsigned LOAD, unsigned COLUMNS, unsigned LEFT, unsigned LAST, unsigned LAST_TOP,
    bool OVERHANG, bool LARGEST>
struct Reader {
    /* Whether row r of what a work-item reads is inside the image; no test where it always is. Rows
     * above the image are large numbers, without a sign. */
    static __device__ __forceinline__ bool row_inside(unsigned r, unsigned row)
    {
        return (r >= PAD_H && LAST_TOP + r < H + PAD_H) || row < H;
    }

    /* The same for the columns from c on. What no window needs counts as inside. */
    static __device__ __forceinline__ bool column_inside(unsigned c, unsigned column)
    {
        return (c >= LEFT && (!OVERHANG || LAST + c < W + LEFT)) || column < W;
    }

    /* Columns that no window needs may lie behind the row: a place inside for them. */
    static __device__ __forceinline__ unsigned safe(unsigned c, unsigned column)
    {
        return OVERHANG || LAST + c < W + LEFT || column < W ? column : W - LOAD;
    }

    /* Row r, from the column `left` on. */
    static __device__ __forceinline__ void read(
        const Element* plane, unsigned r, unsigned row, unsigned left, float (&value)[COLUMNS])
    {
#pragma unroll
        for (unsigned c = 0; c < COLUMNS; c += LOAD) {
            const unsigned column = left + c;
            const bool inside = row_inside(r, row) && column_inside(c, column);
            if constexpr (LOAD == 4) {
                const float4 four = inside    ? load4(plane + row * W + safe(c, column))
                                    : LARGEST ? float4{lowest(), lowest(), lowest(), lowest()}
                                              : float4{};
                value[c] = four.x;
                value[c + 1] = four.y;
                value[c + 2] = four.z;
                value[c + 3] = four.w;
            } else {
                value[c] = inside    ? load(plane + (row * W + safe(c, column)))
                           : LARGEST ? lowest()
                                     : 0.0f;
            }
        }
    }
};
