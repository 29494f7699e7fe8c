/* Gradient of the filters: target[k][c][r][s], each the sum over BATCH x RESULT_H x RESULT_W
 * pixels of the result of their products with what the tap meets in the image. A work-item sums
 * FILTERS filters x SPAN neighbouring s; lines are rows of the result, or parts of rows.
 * Work-groups share them, and with SPLITS > 1 leave partial sums. */
#include "prelude.h"
#include "vector.h"
#include "constants/geometry.h"
#include "constants/conv_direct_filters.h"

constexpr unsigned TILE_FILTERS = FILTERS * OCTETS; /* of a work-group */
constexpr unsigned ALL_PAIRS = GROUP_CHANNELS * KERNEL_H;
constexpr unsigned PAIR_TILES = (ALL_PAIRS + PAIRS - 1) / PAIRS;
constexpr unsigned RUNS = PAIRS * SPANS;
constexpr unsigned ALL_LINES = BATCH * RESULT_H * SEGMENTS;
/* elements of all filters */
constexpr unsigned SIZE = GROUPS * GROUP_FILTERS * ALL_PAIRS * KERNEL_W;
/* sums of a slice, for one filter */
constexpr unsigned SHARED = RUNS * OCTETS * SPAN;
/* of all slices but one */
constexpr unsigned REDUCED = (SLICES - 1) * SHARED;
constexpr unsigned PIXELS = PAIRS * IMAGE_PITCH;
constexpr bool LEFT_OVER = OCTETS * RUNS * SLICES < BLOCK; /* work-items that have no slice */

/* Where a line of the result is. Lines beyond the work-group's share are empty. */
struct Line {
    unsigned image, row, column;
    bool inside;

    __device__ __forceinline__ Line(unsigned line, unsigned end)
        : image(line / (RESULT_H * SEGMENTS)), row(line / SEGMENTS % RESULT_H),
          column(line % SEGMENTS * WIDTH), inside(line < end)
    {
    }
};

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const SourceElement* __restrict__ image,
    const ResultElement* __restrict__ result, float* __restrict__ target)
{
    alignas(16) __shared__ float gradients[TILE_FILTERS * RESULT_PITCH];
    alignas(16) __shared__ float pixels[PIXELS >= REDUCED ? PIXELS : REDUCED];
    const unsigned run = threadIdx.x % RUNS;
    const unsigned octet = threadIdx.x / RUNS % OCTETS;
    const unsigned slice = threadIdx.x / (RUNS * OCTETS);
    const unsigned tile_pair = blockIdx.y % PAIR_TILES * PAIRS;
    const unsigned tile_filter = blockIdx.y / PAIR_TILES * TILE_FILTERS;
    const unsigned group = blockIdx.z;
    const unsigned first = blockIdx.x * CHUNK;
    const unsigned end =
        ALL_LINES % CHUNK == 0 || first + CHUNK < ALL_LINES ? first + CHUNK : ALL_LINES;

    float sum[FILTERS][SPAN] = {};
    for (unsigned line = first; line < end; line += LINES) {
        if (line > first)
            __syncthreads();
        for (unsigned piece = threadIdx.x; piece < TILE_FILTERS * LINES * (WIDTH / RESULT_VECTOR);
            piece += BLOCK) {
            const unsigned i = opaque(piece);
            const unsigned at = i % (WIDTH / RESULT_VECTOR) * RESULT_VECTOR;
            const unsigned of = i / (WIDTH / RESULT_VECTOR) % LINES;
            const unsigned k = i / (WIDTH / RESULT_VECTOR * LINES);
            const Line place(line + of, end);
            const unsigned column = place.column + at;
            const bool inside =
                place.inside
                && (GROUP_FILTERS % TILE_FILTERS == 0 || tile_filter + k < GROUP_FILTERS)
                && (RESULT_W % WIDTH == 0 || column < RESULT_W);
            const unsigned from =
                (((place.image * GROUPS + group) * GROUP_FILTERS + tile_filter + k) * RESULT_H
                    + place.row)
                    * RESULT_W
                + column;
            vector_at<RESULT_VECTOR>(gradients + k * RESULT_PITCH + of * WIDTH + at) =
                inside ? fetched<float, RESULT_VECTOR>(result + from)
                       : Vector<float, RESULT_VECTOR>{};
        }
        for (unsigned piece = threadIdx.x; piece < PAIRS * LINES * (IMAGE_WIDTH / VECTOR);
            piece += BLOCK) {
            const unsigned i = opaque(piece);
            const unsigned at = i % (IMAGE_WIDTH / VECTOR) * VECTOR;
            const unsigned of = i / (IMAGE_WIDTH / VECTOR) % LINES;
            const unsigned pair = i / (IMAGE_WIDTH / VECTOR * LINES);
            const unsigned channel = (tile_pair + pair) / KERNEL_H;
            const unsigned r = (tile_pair + pair) % KERNEL_H;
            const Line place(line + of, end);
            const unsigned row = place.row * STRIDE_H + r * DILATION_H - PAD_H;
            const unsigned column = place.column * STRIDE_W + at - (PAD_W + LEAD);
            const bool inside = place.inside
                                && (ALL_PAIRS % PAIRS == 0 || tile_pair + pair < ALL_PAIRS)
                                && row < IMAGE_H && column < IMAGE_W;
            const unsigned from =
                (((place.image * GROUPS + group) * GROUP_CHANNELS + channel) * IMAGE_H + row)
                    * IMAGE_W
                + column;
            vector_at<VECTOR>(pixels + pair * IMAGE_PITCH + of * IMAGE_WIDTH + at) =
                inside ? fetched<float, VECTOR>(image + from) : Vector<float, VECTOR>{};
        }
        __syncthreads();

        const float* gradient = gradients + octet * FILTERS * RESULT_PITCH;
        const float* pixel = pixels + run / SPANS * IMAGE_PITCH + run % SPANS * (SPAN * DILATION_W);
        const unsigned fours = !LEFT_OVER || slice < SLICES ? LINES * (WIDTH / 4) : 0;
#pragma unroll 1
        for (unsigned four = slice; four < fours; four += SLICES) {
            const unsigned of = four / (WIDTH / 4);
            const unsigned at = four % (WIDTH / 4) * 4;
            float held[HELD];
            if constexpr (SPARSE) {
#pragma unroll
                for (unsigned i = 0; i < 4; i++)
                    held[i] = pixel[of * IMAGE_WIDTH + (at + i) * STRIDE_W + LEAD];
            } else {
#pragma unroll
                for (unsigned i = 0; i < HELD; i += 4)
                    unpack(vector_at<4>(pixel + of * IMAGE_WIDTH + at * STRIDE_W + i), held + i);
            }
#pragma unroll
            for (unsigned k = 0; k < FILTERS; k++) {
                const float4 slope = vector_at<4>(gradient + k * RESULT_PITCH + of * WIDTH + at);
#pragma unroll
                for (unsigned s = 0; s < SPAN; s++) {
                    /* Of 4 neighbouring pixels, the first one's in `held`, and from one to the
                     * next. */
                    const unsigned own = SPARSE ? 0 : LEAD + DILATION_W * s;
                    constexpr unsigned NEXT = SPARSE ? 1 : STRIDE_W;
                    sum[k][s] = fused(held[own], slope.x, sum[k][s]);
                    sum[k][s] = fused(held[own + NEXT], slope.y, sum[k][s]);
                    sum[k][s] = fused(held[own + 2 * NEXT], slope.z, sum[k][s]);
                    sum[k][s] = fused(held[own + 3 * NEXT], slope.w, sum[k][s]);
                }
            }
        }
    }

    if constexpr (SLICES > 1) {
        /* The slices' sums, for one filter after the other, through LDS. */
        float* sums = pixels;
#pragma unroll
        for (unsigned k = 0; k < FILTERS; k++) {
            __syncthreads();
            if (slice > 0 && (!LEFT_OVER || slice < SLICES)) {
#pragma unroll
                for (unsigned s = 0; s < SPAN; s++)
                    sums[(slice - 1) * SHARED + (octet * RUNS + run) * SPAN + s] = sum[k][s];
            }
            __syncthreads();
            if (slice == 0) {
#pragma unroll
                for (unsigned other = 0; other < SLICES - 1; other++)
#pragma unroll
                    for (unsigned s = 0; s < SPAN; s++)
                        sum[k][s] += sums[other * SHARED + (octet * RUNS + run) * SPAN + s];
            }
        }
    }

    const unsigned pair = tile_pair + run / SPANS;
    if (slice > 0 || (ALL_PAIRS % PAIRS != 0 && pair >= ALL_PAIRS))
        return;
    const unsigned channel = pair / KERNEL_H;
    const unsigned r = FLIPPED ? KERNEL_H - 1 - pair % KERNEL_H : pair % KERNEL_H;
#pragma unroll
    for (unsigned k = 0; k < FILTERS; k++) {
        const unsigned filter = tile_filter + octet * FILTERS + k;
        if (GROUP_FILTERS % TILE_FILTERS != 0 && filter >= GROUP_FILTERS)
            continue;
        const unsigned to =
            (((group * GROUP_FILTERS + filter) * GROUP_CHANNELS + channel) * KERNEL_H + r)
            * KERNEL_W;
        float* const all = SPLITS > 1 ? target + blockIdx.x * SIZE : target;
        /* A pointer, for NVRTC 13.0 makes wild stores of an unsigned index that counts down. */
        float* const row = FLIPPED ? all + to + (KERNEL_W - 1) - run % SPANS * SPAN
                                   : all + to + run % SPANS * SPAN;
#pragma unroll
        for (unsigned i = 0; i < SPAN; i++)
            if (KERNEL_W % SPAN == 0 || run % SPANS * SPAN + i < KERNEL_W)
                row[FLIPPED ? -static_cast<int>(i) : static_cast<int>(i)] = sum[k][i];
    }
}
