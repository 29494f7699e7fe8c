/* Pooling: the gradient of the largest value of windows. A work-group makes TILE_PLANES planes
 * of TILE_H x TILE_W elements of dx. First it searches all windows that hold one of them, and
 * leaves in LDS where their maxima are. Then each work-item adds up dy for VECTOR neighbours at
 * a time. */
#include "prelude.h"
#include "constants/pooling_backward_max.h"
#include "pooling.h"

constexpr unsigned TILES_H = (H + TILE_H - 1) / TILE_H;
constexpr unsigned TILES_W = (W + TILE_W - 1) / TILE_W;
constexpr unsigned ITEMS = (WINDOWS_Q + RESULTS - 1) / RESULTS; /* searches of a row of windows */
constexpr unsigned SEARCHES = TILE_PLANES * WINDOWS_P * ITEMS;
/* The columns that a search reads: from a multiple of LOAD on, SHIFT before its first window. */
constexpr unsigned LEFT = (PAD_W + BEFORE_Q * STRIDE_W + LOAD - 1) / LOAD * LOAD;
constexpr unsigned SHIFT = LEFT - PAD_W - BEFORE_Q * STRIDE_W;
constexpr unsigned COLUMNS = (SHIFT + (RESULTS - 1) * STRIDE_W + KERNEL_W + LOAD - 1) / LOAD * LOAD;
/* LEFT after this, the last search's begin. */
constexpr unsigned LAST = (TILES_W - 1) * TILE_W + (ITEMS - 1) * RESULTS * STRIDE_W;
constexpr unsigned LAST_TOP = (P - 1) * STRIDE_H; /* PAD_H after this */
constexpr bool OVERHANG = (Q - 1) * STRIDE_W + KERNEL_W > W + PAD_W; /* of windows, to the right */
using Rows = Reader<LOAD, COLUMNS, LEFT, LAST, LAST_TOP, OVERHANG, true>;

constexpr unsigned PIECES = (TILE_W + VECTOR - 1) / VECTOR; /* of a row of the tile */
constexpr unsigned SUMS = TILE_PLANES * TILE_H * PIECES;
/* rows of windows that hold an element */
constexpr unsigned ROWS = (KERNEL_H + STRIDE_H - 1) / STRIDE_H;
/* Windows of a row that hold an element of a piece, from the last one on. REACH is the number of
 * that for the first piece, SKEW the place in it of a piece's first element, if there are
 * several. */
constexpr unsigned FOLD = VECTOR > 1 ? VECTOR / STRIDE_W : 1; /* windows that begin in a piece */
constexpr unsigned REACH = (PAD_W + VECTOR - 1) / STRIDE_W;
constexpr int SKEW = static_cast<int>(PAD_W) - static_cast<int>(REACH * STRIDE_W);
constexpr int ACROSS =
    VECTOR > 1 ? (static_cast<int>(KERNEL_W + STRIDE_W) - 1 - SKEW) / static_cast<int>(STRIDE_W)
               : (KERNEL_W + STRIDE_W - 1) / STRIDE_W;
/* the last windows, from the tile's first one */
constexpr unsigned LAST_P = (TILE_H - 1 + PAD_H) / STRIDE_H + BEFORE_P;
constexpr unsigned LAST_Q =
    (VECTOR > 1 ? (PIECES - 1) * FOLD + REACH : (TILE_W - 1 + PAD_W) / STRIDE_W) + BEFORE_Q;
constexpr unsigned PITCH = (ITEMS * RESULTS + FOLD - 1) / FOLD;
constexpr bool MANY = ((KERNEL_H - 1) / STRIDE_H + 1) * ((KERNEL_W - 1) / STRIDE_W + VECTOR) > 64;
constexpr bool LARGE = KERNEL_H * KERNEL_W > 16;
constexpr unsigned UNROLL_SEARCHES = LARGE ? 1 : (SEARCHES + BLOCK - 1) / BLOCK;
constexpr unsigned UNROLL_SUMS = LARGE ? 1 : (SUMS + BLOCK - 1) / BLOCK;
constexpr unsigned UNROLL_ROWS = MANY ? 1 : ROWS;
constexpr unsigned UNROLL_COLUMNS = VECTOR == 1 && KERNEL_W > 16 * STRIDE_W ? 1 : ACROSS;
constexpr unsigned NONE = 0x40000000; /* the place of the maximum of a window that does not exist */

/* Where the window q of a row of windows lies in LDS. Neighbouring work-items, whose windows are
 * FOLD apart, read neighbouring places: that is without bank conflicts. */
static __device__ __forceinline__ unsigned place_of(unsigned line, unsigned q)
{
    return (line * FOLD + q % FOLD) * PITCH + q / FOLD;
}

/* The place r * KERNEL_W + s of the first maximum of each of RESULTS windows. */
static __device__ __forceinline__ void search(
    const Element* plane, unsigned top, unsigned left, unsigned (&place)[RESULTS])
{
    float best[RESULTS];
#pragma unroll
    for (unsigned r = 0; r < KERNEL_H; r++) {
        float value[COLUMNS];
        Rows::read(plane, r, top + r, left, value);
#pragma unroll
        for (unsigned k = 0; k < RESULTS; k++) {
#pragma unroll
            for (unsigned s = 0; s < KERNEL_W; s++) {
                const float candidate = value[SHIFT + k * STRIDE_W + s];
                if (r == 0 && s == 0) {
                    best[k] = candidate;
                    place[k] = first_inside(top, left + SHIFT + k * STRIDE_W);
                } else {
                    const bool better = candidate > best[k];
                    best[k] = better ? candidate : best[k];
                    place[k] = better ? r * KERNEL_W + s : place[k];
                }
            }
        }
    }
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const Element* __restrict__ dy, Element* __restrict__ dx)
{
    /* dy, and the maximum's place */
    alignas(16) __shared__ float2 window[TILE_PLANES * WINDOWS_P * FOLD * PITCH];
    const unsigned tile_column = blockIdx.x % TILES_W * TILE_W;
    const unsigned tile_row = blockIdx.x / TILES_W % TILES_H * TILE_H;
    const unsigned tile_plane = blockIdx.x / (TILES_W * TILES_H) * TILE_PLANES;

#pragma unroll UNROLL_SEARCHES
    for (unsigned done = 0; done < SEARCHES; done += BLOCK) {
        const unsigned item = done + threadIdx.x;
        if (done + BLOCK > SEARCHES && item >= SEARCHES)
            break;
        const unsigned line = item / ITEMS; /* row of windows, counted through the tile's planes */
        const unsigned begin = item % ITEMS * RESULTS;
        /* Numbers of windows before the first one are large, without a sign. */
        const unsigned p = tile_row / STRIDE_H - BEFORE_P + line % WINDOWS_P;
        const unsigned q = tile_column / STRIDE_W - BEFORE_Q + begin;
        const unsigned number = tile_plane + line / WINDOWS_P; /* of the plane */
        float share[RESULTS] = {};
        unsigned place[RESULTS];
        if ((TILES_H == 1 || p < P) && (PLANES % TILE_PLANES == 0 || number < PLANES)) {
#pragma unroll
            for (unsigned k = 0; k < RESULTS; k++) {
                if ((TILES_W == 1 && Q % RESULTS == 0) || q + k < Q)
                    share[k] = load(dy, (number * P + p) * Q + q + k);
            }
            search(x + number * (H * W), p * STRIDE_H - PAD_H,
                tile_column + begin * STRIDE_W - LEFT, place);
            if constexpr (TILE_W < W || Q % RESULTS != 0) {
#pragma unroll
                for (unsigned k = 0; k < RESULTS; k++)
                    place[k] = q + k < Q ? place[k] : NONE;
            }
        } else {
#pragma unroll
            for (unsigned k = 0; k < RESULTS; k++)
                place[k] = NONE;
        }
#pragma unroll
        for (unsigned k = 0; k < RESULTS; k++)
            window[place_of(line, begin + k)] = float2{share[k], as_float(place[k])};
    }
    __syncthreads();

#pragma unroll UNROLL_SUMS
    for (unsigned done = 0; done < SUMS; done += BLOCK) {
        const unsigned item = done + threadIdx.x;
        if (done + BLOCK > SUMS && item >= SUMS)
            break;
        const unsigned line = item / PIECES; /* row of dx, counted through the tile's planes */
        const unsigned row = tile_row + line % TILE_H;
        const unsigned number = tile_plane + line / TILE_H; /* of the plane */
        const unsigned column = tile_column + item % PIECES * VECTOR;
        if ((H % TILE_H != 0 && row >= H) || (PLANES % TILE_PLANES != 0 && number >= PLANES)
            || (W % TILE_W != 0 && column >= W))
            continue;
        const unsigned down = line % TILE_H + PAD_H;
        /* the last window that begins before the row's end */
        const unsigned last_p = down / STRIDE_H + BEFORE_P;
        const unsigned right = item % PIECES + PAD_W; /* of one element */
        const unsigned last_q =
            (VECTOR > 1 ? item % PIECES * FOLD + REACH : right / STRIDE_W) + BEFORE_Q;
        const int shift = right % STRIDE_W; /* and in window last_q */

        float sum[VECTOR] = {};
#pragma unroll UNROLL_ROWS
        for (unsigned i = 0; i < ROWS; i++) {
            const unsigned p = last_p - i;
            const unsigned r = down % STRIDE_H + i * STRIDE_H; /* the row in window p */
            const bool holds = KERNEL_H % STRIDE_H == 0 || r < KERNEL_H;
            const bool exists =
                (LAST_P < WINDOWS_P && i <= PAD_H / STRIDE_H + BEFORE_P) || p < WINDOWS_P;
            if (!holds || !exists)
                continue;
#pragma unroll UNROLL_COLUMNS
            for (int j = 0; j < ACROSS; j++) {
                const unsigned q = last_q - j;
                const bool there = (LAST_Q < WINDOWS_Q && j <= static_cast<int>(REACH + BEFORE_Q))
                                   || q < WINDOWS_Q;
                const float2 found = window[place_of(line / TILE_H * WINDOWS_P + p, there ? q : 0)];
                /* The maximum's s. Of a window that does not exist, none: a choice between
                 * loaded values would become a branch around the load. */
                const int place = as_uint(found.y) - (there ? r * KERNEL_W : NONE / 2);
                if constexpr (VECTOR == 1) {
                    const int s = shift + j * static_cast<int>(STRIDE_W);
                    if (KERNEL_W % STRIDE_W == 0 || s < static_cast<int>(KERNEL_W))
                        sum[0] += place == s ? found.x : 0.0f;
                } else {
#pragma unroll
                    for (int k = 0; k < static_cast<int>(VECTOR); k++) {
                        const int s = SKEW + k + j * static_cast<int>(STRIDE_W);
                        if (s >= 0 && s < static_cast<int>(KERNEL_W))
                            sum[k] += place == s ? found.x : 0.0f;
                    }
                }
            }
        }
        Element* const target = dx + (number * H + row) * W + column;
        if constexpr (VECTOR == 4 && W % 4 == 0) {
            store4(target, float4{sum[0], sum[1], sum[2], sum[3]});
        } else {
#pragma unroll
            for (unsigned k = 0; k < VECTOR; k++) {
                if (W % VECTOR == 0 || column + k < W)
                    store(target, k, sum[k]);
            }
        }
    }
}
