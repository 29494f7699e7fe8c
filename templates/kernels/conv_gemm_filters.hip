/* Gradient of the filters as a matrix product: the target (m, n), m a filter and n an input
 * channel and a tap, is the sum over k of the result's gradient (m, k) and windows (k, n), k a
 * pixel of a sample. Groups of channels are a batch of products. The windows are nowhere but in
 * the image itself, or, UNROLLED, in memory as [sample][group][n][pixel]. Where k is cut into
 * chunks, work-groups leave partial sums. */
#include "prelude.h"
#include "fragment.h"
#include "constants/geometry.h"
#include "constants/tile.h"
#include "constants/conv_gemm_filters.h"

constexpr unsigned TAPS = KERNEL_H * KERNEL_W;
constexpr unsigned COLUMNS = GROUP_CHANNELS * TAPS; /* N */
constexpr unsigned PIXELS = RESULT_H * RESULT_W;
constexpr unsigned COUNT = BATCH * PIXELS; /* K */
constexpr unsigned IMAGE_SIZE = IMAGE_H * IMAGE_W;
constexpr bool RAGGED = COUNT % TILE_K != 0; /* the last step goes beyond the end of k */

using Cut = Tile<TILE_M, TILE_N, TILE_K, ITEM_M, ITEM_N, AHEAD>;
using Multiplied = Fragment<Cut, ResultElement>;
/* of both factors, which are of one type, or held as float */
using Held = Multiplied::Held<ResultElement>;

/* The gradients of the result. */
struct Left {
    using Element = Held;
    static constexpr unsigned WIDTH = LEFT_WIDTH;
    static constexpr Along ALONG = LEFT_ALONG;
    const ResultElement* __restrict__ result; /* of the group */

    struct Line {
        const ResultElement* channel;
        unsigned k;

        __device__ __forceinline__ Vector<Held, WIDTH> load(unsigned step) const
        {
            const unsigned at = step + k;
            if (RAGGED && at >= COUNT)
                return {};
            return fetched<Held, WIDTH>(
                channel + at / PIXELS * (GROUPS * GROUP_FILTERS * PIXELS) + at % PIXELS);
        }
    };
    __device__ __forceinline__ Line line(unsigned m, unsigned dm, unsigned k) const
    {
        unsigned filter = m + dm;
        if constexpr (GROUP_FILTERS % TILE_M != 0)
            filter = filter < GROUP_FILTERS ? filter : GROUP_FILTERS - 1; /* not stored */
        return Line{result + filter * PIXELS, k};
    }
};

/* The windows, from memory. */
struct Windows {
    using Element = Held;
    static constexpr unsigned WIDTH = RIGHT_WIDTH;
    static constexpr Along ALONG = RIGHT_ALONG;
    const SourceElement* __restrict__ windows; /* of the group */

    struct Line {
        const SourceElement* column;
        unsigned k;

        __device__ __forceinline__ Vector<Held, WIDTH> load(unsigned step) const
        {
            const unsigned at = step + k;
            const unsigned sample = at / PIXELS;
            const unsigned pixel = at % PIXELS;
            if (RAGGED && at >= COUNT)
                return {};
            return fetched<Held, WIDTH>(column + sample * (GROUPS * COLUMNS * PIXELS) + pixel);
        }
    };
    __device__ __forceinline__ Line line(unsigned n, unsigned dn, unsigned k) const
    {
        unsigned at = n + dn;
        if constexpr (COLUMNS % TILE_N != 0)
            at = at < COLUMNS ? at : COLUMNS - 1; /* not stored */
        return Line{windows + at * PIXELS, k};
    }
};

/* The windows, from the image. */
struct Image {
    using Element = Held;
    static constexpr unsigned WIDTH = 1;
    static constexpr Along ALONG = RIGHT_ALONG;
    const SourceElement* __restrict__ image; /* of the group */

    struct Line {
        /* what the first pixel's tap meets, if that is inside of the image */
        const SourceElement* first;
        int row, column;
        unsigned k;

        __device__ __forceinline__ Vector<Held, 1> load(unsigned step) const
        {
            const unsigned at = step + k;
            const unsigned sample = at / PIXELS;
            const unsigned pixel = at % PIXELS;
            const unsigned y = pixel / RESULT_W * STRIDE_H;
            const unsigned x = pixel % RESULT_W * STRIDE_W;
            const bool inside = RAGGED ? row + y < IMAGE_H && column + x < IMAGE_W && at < COUNT
                                       : row + y < IMAGE_H && column + x < IMAGE_W;
            return inside
                       ? fetched<Held, 1>(
                             first
                             + (sample * (GROUPS * GROUP_CHANNELS * IMAGE_SIZE) + y * IMAGE_W + x))
                       : Vector<Held, 1>{};
        }
    };
    __device__ __forceinline__ Line line(unsigned n, unsigned dn, unsigned k) const
    {
        unsigned at = n + dn;
        if constexpr (COLUMNS % TILE_N != 0)
            at = at < COLUMNS ? at : COLUMNS - 1; /* not stored */
        const unsigned tap = at % TAPS;
        const int row = static_cast<int>(tap / KERNEL_W) * DILATION_H - PAD_H;
        const int column = static_cast<int>(tap % KERNEL_W) * DILATION_W - PAD_W;
        return Line{image + at / TAPS * IMAGE_SIZE + (row * static_cast<int>(IMAGE_W) + column),
            row, column, k};
    }
};

using Right = Either<UNROLLED, Windows, Image>;
using Tiled = Product<Cut, Left, Right, Multiplied>;

extern "C" __global__ __launch_bounds__(BLOCK, LAUNCH_GROUPS) void KERNEL(
    const SourceElement* __restrict__ source, const ResultElement* __restrict__ result,
    Element* __restrict__ target)
{
    alignas(16) __shared__ Tiled::A::Element a_tiles[Tiled::A_SIZE];
    alignas(16) __shared__ Tiled::B::Element b_tiles[Tiled::B_SIZE];
    const unsigned row = blockIdx.y * TILE_M;
    const unsigned column = blockIdx.x * TILE_N;
    const unsigned group = SPLITS > 1 ? blockIdx.z / SPLITS : GROUPS > 1 ? blockIdx.z : 0;
    const unsigned split = SPLITS > 1 ? blockIdx.z % SPLITS : 0;
    const unsigned first = split * CHUNK;
    const unsigned last = COUNT % CHUNK == 0 || first + CHUNK < COUNT ? first + CHUNK : COUNT;
    Element* to = SPLITS > 1 ? target + split * (GROUPS * GROUP_FILTERS * COLUMNS) : target;
    float sum[ITEM_M][ITEM_N] = {};
    Tiled::multiply(Left{result + group * (GROUP_FILTERS * PIXELS)},
        Right{source + group * (UNROLLED ? COLUMNS * PIXELS : GROUP_CHANNELS * IMAGE_SIZE)}, row,
        column, first, last, a_tiles, b_tiles, sum);

#pragma unroll
    for (unsigned j = 0; j < ITEM_N; j += STORE_WIDTH) {
        const unsigned n = column + Tiled::column(j);
        if (COLUMNS % TILE_N != 0 && n >= COLUMNS)
            continue;
        Element* const of_group = to + group * (GROUP_FILTERS * COLUMNS);
        /* Two steps, for NVRTC 13.0 makes wild stores of a sum of unsigned indices of which one
         * counts down. */
        Element* const out =
            FLIPPED && TAPS > 1 ? of_group + n / TAPS * TAPS + (TAPS - 1 - n % TAPS) : of_group + n;
#pragma unroll
        for (unsigned i = 0; i < ITEM_M; i++) {
            const unsigned m = row + Tiled::row(i);
            if (GROUP_FILTERS % TILE_M != 0 && m >= GROUP_FILTERS)
                continue;
            store_vector<STORE_WIDTH>(out + m * COLUMNS, sum[i] + j);
        }
    }
}
