/* Pooling, backward: each element's dy of all windows that hold it, added up; of windows of
 * which the place of the maximum is given (WITH_PLACES), where that is the element; else of
 * means. */
#include "prelude.h"
#include "constants/pooling_backward.h"
#include "pooling.h"
#include "pooling_mean.h"
#include "side_by_side.h"

constexpr unsigned ITEMS = W / VECTOR; /* work-items of a row */
/* rows of windows that hold an element */
constexpr unsigned ROWS = (KERNEL_H + STRIDE_H - 1) / STRIDE_H;
/* Windows of a row that hold an element of a work-item, from the last one on. REACH is the
 * number of that for the first item, SHIFT the place in it of an item's first element, if there
 * are several. */
constexpr unsigned REACH = (PAD_W + VECTOR - 1) / STRIDE_W;
constexpr int SHIFT = static_cast<int>(PAD_W) - static_cast<int>(REACH * STRIDE_W);
constexpr int COLUMNS =
    VECTOR > 1 ? (static_cast<int>(KERNEL_W + STRIDE_W) - 1 - SHIFT) / static_cast<int>(STRIDE_W)
               : (KERNEL_W + STRIDE_W - 1) / STRIDE_W;
/* of the last item */
constexpr unsigned LAST_Q = VECTOR > 1 ? (ITEMS - 1) * (VECTOR / STRIDE_W) + REACH
                                       : (W - 1 + PAD_W) / STRIDE_W; /* of a row's last element */
constexpr bool MANY = ((KERNEL_H - 1) / STRIDE_H + 1) * ((KERNEL_W - 1) / STRIDE_W + VECTOR) > 64;
/* Narrow results, one of each work-item, that these store together. */
constexpr bool TOGETHER = sizeof(Element) < 4 && VECTOR == 1;
constexpr unsigned SIZE = PLANES * H * W;
constexpr unsigned UNROLL_ROWS = MANY ? 1 : ROWS;
constexpr unsigned UNROLL_COLUMNS = VECTOR == 1 && KERNEL_W > 16 * STRIDE_W ? 1 : COLUMNS;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ dy,
#if WITH_PLACES
    const int* __restrict__ first,
#endif
    Element* __restrict__ dx)
{
    unsigned item = blockIdx.x * BLOCK + threadIdx.x;
    if constexpr (TOGETHER)
        item = item < SIZE ? item : 0; /* the first result once more, which nobody stores */
    const unsigned line = item / ITEMS; /* row of dx, counted through all planes */
    if (!TOGETHER && PLANES * H * ITEMS % BLOCK != 0 && line >= PLANES * H)
        return;
    const unsigned down = line % H + PAD_H; /* from the top of the padding */
    const unsigned last_p = down / STRIDE_H; /* the last window that begins before the row's end */
    const unsigned right = item % ITEMS + PAD_W; /* of one element: from the left of the padding */
    const unsigned last_q =
        VECTOR > 1 ? item % ITEMS * (VECTOR / STRIDE_W) + REACH : right / STRIDE_W;
    const int shift = right % STRIDE_W; /* and in window last_q */
    const unsigned plane = line / H * P; /* first row of dy */

    float sum[VECTOR] = {};
#pragma unroll UNROLL_ROWS
    for (unsigned i = 0; i < ROWS; i++) {
        const unsigned p = last_p - i; /* a large number above the first window */
        const unsigned r = down % STRIDE_H + i * STRIDE_H; /* the row in window p */
        const bool holds = KERNEL_H % STRIDE_H == 0 || r < KERNEL_H;
        const bool exists = ((H - 1 + PAD_H) / STRIDE_H < P && i <= PAD_H / STRIDE_H) || p < P;
        if (!holds || !exists)
            continue;
        /* Pointers: NVRTC 13.0 makes wild loads of a sum of indices of which one counts down. */
        const Element* above = dy + (plane + p) * Q;
#if WITH_PLACES
        const int* places = first + (plane + p) * Q;
#else
        const unsigned rows = EVEN ? 0 : counted_rows(p * STRIDE_H - PAD_H);
#endif
#pragma unroll UNROLL_COLUMNS
        for (int j = 0; j < COLUMNS; j++) {
            const unsigned q = last_q - j;
            const bool there = (LAST_Q < Q && j <= static_cast<int>(REACH)) || q < Q;
            const unsigned safe = there ? q : 0;
#if WITH_PLACES
            const float share = load(above + safe);
            /* The maximum's s. Of a window that does not exist, none: a choice between loaded
             * values would become a branch around the load. */
            const int row = there ? static_cast<int>(r * KERNEL_W) : 0x40000000;
            const int place = places[safe] - row;
#else
            const float scale =
                EVEN ? 1.0f
                     : fast_rcp(static_cast<float>(rows * counted_columns(q * STRIDE_W - PAD_W)));
            const float part = EVEN ? load(above + safe) : load(above + safe) * scale;
            const float share = as_float(as_uint(part) & (there ? 0xffffffffu : 0));
            const int place = 0; /* not read */
#endif
            if constexpr (VECTOR == 1) {
                const int s = shift + j * static_cast<int>(STRIDE_W);
                if (KERNEL_W % STRIDE_W == 0 || s < static_cast<int>(KERNEL_W))
                    sum[0] += !WITH_PLACES || place == s ? share : 0.0f;
            } else {
#pragma unroll
                for (int k = 0; k < static_cast<int>(VECTOR); k++) {
                    const int s = SHIFT + k + j * static_cast<int>(STRIDE_W);
                    if (s >= 0 && s < static_cast<int>(KERNEL_W))
                        sum[k] += !WITH_PLACES || place == s ? share : 0.0f;
                }
            }
        }
    }
    constexpr bool SCALED = !WITH_PLACES && EVEN;
    if constexpr (VECTOR == 4) {
        const float4 out{SCALED ? sum[0] * SCALE : sum[0], SCALED ? sum[1] * SCALE : sum[1],
            SCALED ? sum[2] * SCALE : sum[2], SCALED ? sum[3] * SCALE : sum[3]};
        store4(dx + item * VECTOR, out);
    } else if constexpr (TOGETHER) {
        const float out = SCALED ? sum[0] * SCALE : sum[0];
        store_side_by_side<BLOCK, SIZE>(dx, blockIdx.x * BLOCK, threadIdx.x, true, out);
    } else {
        store(dx, item, SCALED ? sum[0] * SCALE : sum[0]);
    }
}
