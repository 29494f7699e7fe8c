/* Pooling: the largest value, or the mean, of windows. A work-item makes ROWS x RESULTS of the P
 * x Q results of a plane. */
#include "prelude.h"
#include "constants/pooling.h"
#include "pooling.h"
#include "pooling_mean.h"
#include "side_by_side.h"

constexpr unsigned ITEMS = (Q + RESULTS - 1) / RESULTS; /* work-items of a row */
constexpr unsigned STRIPS = (P + ROWS - 1) / ROWS; /* of a plane, ROWS rows of results each */
constexpr unsigned TALL = (ROWS - 1) * STRIDE_H + KERNEL_H; /* rows that a work-item reads */
/* The columns that a work-item reads: from a multiple of LOAD on, SHIFT before its first window. */
constexpr unsigned LEFT = (PAD_W + LOAD - 1) / LOAD * LOAD;
constexpr unsigned SHIFT = LEFT - PAD_W;
constexpr unsigned COLUMNS = (SHIFT + (RESULTS - 1) * STRIDE_W + KERNEL_W + LOAD - 1) / LOAD * LOAD;
/* LEFT after this, the last item's begin */
constexpr unsigned LAST = (ITEMS - 1) * RESULTS * STRIDE_W;
constexpr unsigned LAST_TOP = (STRIPS - 1) * ROWS * STRIDE_H; /* PAD_H after this */
constexpr bool OVERHANG = (Q - 1) * STRIDE_W + KERNEL_W > W + PAD_W; /* of windows, to the right */
using Rows = Reader<LOAD, COLUMNS, LEFT, LAST, LAST_TOP, OVERHANG, OP == Op::MAX>;

constexpr unsigned SIZE = PLANES * P * Q;
/* Narrow results that do not lie by fours in a row: work-items have one each, and store them
 * together. */
constexpr bool TOGETHER = sizeof(Element) < 4 && !(RESULTS == 4 && Q % 4 == 0);

static __device__ __forceinline__ float combine(float a, float b)
{
    return OP == Op::MAX ? maximum(a, b) : a + b;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, Element* __restrict__ y)
{
    unsigned item = blockIdx.x * BLOCK + threadIdx.x;
    if constexpr (TOGETHER)
        item = item < SIZE ? item : 0; /* the first result once more, which nobody stores */
    const unsigned strip = item / ITEMS; /* counted through all planes */
    if (!TOGETHER && PLANES * STRIPS * ITEMS % BLOCK != 0 && strip >= PLANES * STRIPS)
        return;
    const unsigned begin = item % ITEMS * RESULTS; /* first column of y */
    const unsigned first = strip % STRIPS * ROWS; /* first row of y */
    const unsigned top = first * STRIDE_H - PAD_H;
    const unsigned left = begin * STRIDE_W - LEFT;
    const Element* const plane = x + strip / STRIPS * (H * W);

    float column[ROWS][COLUMNS]; /* what the columns of the windows come to */
#pragma unroll
    for (unsigned r = 0; r < TALL; r++) {
        float value[COLUMNS];
        Rows::read(plane, r, top + r, left, value);
#pragma unroll
        for (unsigned i = 0; i < ROWS; i++) {
            if (r < i * STRIDE_H || r >= i * STRIDE_H + KERNEL_H)
                continue;
#pragma unroll
            for (unsigned c = 0; c < COLUMNS; c++)
                column[i][c] = r == i * STRIDE_H ? value[c] : combine(column[i][c], value[c]);
        }
    }

#pragma unroll
    for (unsigned i = 0; i < ROWS; i++) {
        if (P % ROWS != 0 && first + i >= P)
            break;
        float result[RESULTS];
        const unsigned rows = OP == Op::MEAN && !EVEN ? counted_rows(top + i * STRIDE_H) : 0;
#pragma unroll
        for (unsigned k = 0; k < RESULTS; k++) {
            const unsigned c = SHIFT + k * STRIDE_W;
            result[k] = column[i][c];
#pragma unroll
            for (unsigned s = 1; s < KERNEL_W; s++)
                result[k] = combine(result[k], column[i][c + s]);
            if constexpr (OP == Op::MEAN)
                result[k] = mean_of(result[k], EVEN ? 0 : rows * counted_columns(left + c));
        }
        Element* const line = y + (strip / STRIPS * P + first + i) * Q + begin;
        if constexpr (TOGETHER) {
            static_assert(
                !TOGETHER || (ROWS == 1 && RESULTS == 1), "items do not lie side by side");
            store_side_by_side<BLOCK, SIZE>(y, blockIdx.x * BLOCK, threadIdx.x, true, result[0]);
        } else if constexpr (RESULTS == 4 && Q % 4 == 0) {
            store4(line, float4{result[0], result[1], result[2], result[3]});
        } else if constexpr (RESULTS == 2 && Q % 2 == 0) {
            *reinterpret_cast<float2*>(line) = float2{result[0], result[1]};
        } else {
#pragma unroll
            for (unsigned k = 0; k < RESULTS; k++) {
                if (Q % RESULTS == 0 || begin + k < Q)
                    store(line, k, result[k]);
            }
        }
    }
}
