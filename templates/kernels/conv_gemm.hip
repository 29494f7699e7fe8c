/* Convolution as a matrix product: the target (m, n), m an output channel and n a pixel of a
 * sample, is the sum over k of filters (m, k) and windows (k, n), k an input channel and a tap;
 * and what follows. Groups of channels are a batch of products. The windows are nowhere but in
 * the source itself, or, UNROLLED, in memory as [sample][group][k][pixel]. Where k is cut into
 * chunks, work-groups leave partial sums, the first one with the bias. */
#include "prelude.h"
#include "fragment.h"
#include "constants/gather.h"
#include "constants/tile.h"
#include "constants/conv_gemm.h"
#include "epilogue.h"

constexpr const AddedElement* bias = nullptr; /* stands for a parameter that the kernel may lack */
constexpr unsigned TAPS = ROWS_TAPS * COLUMNS_TAPS;
constexpr unsigned DEPTH = GROUP_IN * TAPS; /* K */
constexpr unsigned PIXELS = ROWS_COUNT * COLUMNS_COUNT;
constexpr unsigned COUNT = BATCH * PIXELS; /* N */
constexpr unsigned SOURCE_SIZE = ROWS_SOURCE * COLUMNS_SOURCE;
constexpr unsigned TARGET_SIZE = ROWS_EXTENT * COLUMNS_EXTENT;
/* no phase of the target */
constexpr bool WHOLE = ROWS_COUNT == ROWS_EXTENT && COLUMNS_COUNT == COLUMNS_EXTENT;
constexpr bool RAGGED = DEPTH % TILE_K != 0; /* the last step goes beyond the end of k */

using Cut = Tile<TILE_M, TILE_N, TILE_K, ITEM_M, ITEM_N, AHEAD, Total>;
using Multiplied = Fragment<Cut, FilterElement>;
/* of both factors, which are of one type, or held as Total */
using Held = Multiplied::Held<FilterElement>;

/* The filters. */
struct Left {
    using Element = Held;
    static constexpr unsigned WIDTH = LEFT_WIDTH;
    static constexpr Along ALONG = LEFT_ALONG;
    const FilterElement* __restrict__ filters; /* of the group */

    struct Line {
        const FilterElement* filter;
        unsigned k;

        __device__ __forceinline__ Vector<Held, WIDTH> load(unsigned step) const
        {
            const unsigned at = step + k;
            if (RAGGED && at >= DEPTH)
                return {};
            if constexpr (STRAIGHT) {
                return fetched<Held, WIDTH>(filter + at);
            } else if constexpr (ALONG == Along::M) {
                return fetched<Held, WIDTH>(filter + at * IN_STRIDE);
            } else {
                const unsigned tap = at % TAPS;
                /* Steps back are subtracted: NVRTC 13.0 makes wild loads where it adds what
                 * counts down as an unsigned number. */
                const unsigned r =
                    ROWS_FILTER_STEP < 0
                        ? ROWS_FILTER_FIRST - -ROWS_FILTER_STEP * (tap / COLUMNS_TAPS)
                        : ROWS_FILTER_FIRST + ROWS_FILTER_STEP * (tap / COLUMNS_TAPS);
                const unsigned s =
                    COLUMNS_FILTER_STEP < 0
                        ? COLUMNS_FILTER_FIRST - -COLUMNS_FILTER_STEP * (tap % COLUMNS_TAPS)
                        : COLUMNS_FILTER_FIRST + COLUMNS_FILTER_STEP * (tap % COLUMNS_TAPS);
                /* WIDTH is 1 */
                return fetched<Held, WIDTH>(filter + (at / TAPS * IN_STRIDE + r * KERNEL_W + s));
            }
        }
    };
    __device__ __forceinline__ Line line(unsigned m, unsigned dm, unsigned k) const
    {
        unsigned channel = m + dm;
        if constexpr (GROUP_OUT % TILE_M != 0)
            /* not stored */
            channel = channel < GROUP_OUT ? channel : GROUP_OUT - (ALONG == Along::M ? WIDTH : 1);
        return Line{filters + channel * OUT_STRIDE, k};
    }
};

/* The windows, from memory. */
struct Windows {
    using Element = Held;
    static constexpr unsigned WIDTH = RIGHT_WIDTH;
    static constexpr Along ALONG = RIGHT_ALONG;
    const SourceElement* __restrict__ windows;
    unsigned group;

    struct Line {
        const SourceElement* column;
        unsigned k;

        __device__ __forceinline__ Vector<Held, WIDTH> load(unsigned step) const
        {
            const unsigned at = step + k;
            if (RAGGED && at >= DEPTH)
                return {};
            return fetched<Held, WIDTH>(column + at * PIXELS);
        }
    };
    __device__ __forceinline__ Line line(unsigned n, unsigned dn, unsigned k) const
    {
        unsigned at = n + dn;
        if constexpr (COUNT % TILE_N != 0)
            at = at < COUNT ? at : COUNT - WIDTH; /* not stored */
        const unsigned sample = at / PIXELS;
        const unsigned pixel = at % PIXELS;
        return Line{windows + (sample * GROUPS + group) * (DEPTH * PIXELS) + pixel, k};
    }
};

/* The windows, from the source. */
struct Source {
    using Element = Held;
    static constexpr unsigned WIDTH = 1;
    static constexpr Along ALONG = RIGHT_ALONG;
    static constexpr bool DIVIDED = ROWS_DIVIDE > 1 || COLUMNS_DIVIDE > 1;
    const SourceElement* __restrict__ source;
    unsigned group;

    struct Line {
        /* what the first tap meets, if that is inside of the image; DIVIDED, the image */
        const SourceElement* first;
        int row, column;    /* of the first tap, before the division */
        unsigned k;

        __device__ __forceinline__ Vector<Held, 1> load(unsigned step) const
        {
            const unsigned at = step + k;
            const unsigned channel = at / TAPS;
            const unsigned tap = at % TAPS;
            const unsigned r = tap / COLUMNS_TAPS * ROWS_GAP;
            const unsigned s = tap % COLUMNS_TAPS * COLUMNS_GAP;
            if constexpr (DIVIDED) {
                const unsigned y = (row + r) / ROWS_DIVIDE;
                const unsigned x = (column + s) / COLUMNS_DIVIDE;
                const bool whole = y < ROWS_SOURCE && x < COLUMNS_SOURCE
                                   && (row + r) % ROWS_DIVIDE == 0
                                   && (column + s) % COLUMNS_DIVIDE == 0;
                const bool inside = RAGGED ? whole && at < DEPTH : whole;
                return inside ? fetched<Held, 1>(
                                    first + (channel * SOURCE_SIZE + y * COLUMNS_SOURCE + x))
                              : Vector<Held, 1>{};
            } else {
                const bool inside =
                    RAGGED ? row + r < ROWS_SOURCE && column + s < COLUMNS_SOURCE && at < DEPTH
                           : row + r < ROWS_SOURCE && column + s < COLUMNS_SOURCE;
                return inside ? fetched<Held, 1>(
                                    first + (channel * SOURCE_SIZE + r * COLUMNS_SOURCE + s))
                              : Vector<Held, 1>{};
            }
        }
    };
    __device__ __forceinline__ Line line(unsigned n, unsigned dn, unsigned k) const
    {
        unsigned at = n + dn;
        if constexpr (COUNT % TILE_N != 0)
            at = at < COUNT ? at : COUNT - WIDTH; /* not stored */
        const unsigned sample = at / PIXELS;
        const unsigned pixel = at % PIXELS;
        const SourceElement* image = source + (sample * GROUPS + group) * (GROUP_IN * SOURCE_SIZE);
        const int row = static_cast<int>(pixel / COLUMNS_COUNT) * ROWS_STRIDE + ROWS_START;
        const int column = static_cast<int>(pixel % COLUMNS_COUNT) * COLUMNS_STRIDE + COLUMNS_START;
        return Line{DIVIDED ? image : image + (row * static_cast<int>(COLUMNS_SOURCE) + column),
            row, column, k};
    }
};

using Right = Either<UNROLLED, Windows, Source>;
using Tiled = Product<Cut, Left, Right, Multiplied>;

extern "C" __global__ __launch_bounds__(BLOCK, LAUNCH_GROUPS) void KERNEL(
    const SourceElement* __restrict__ source, const FilterElement* __restrict__ filters,
#if WITH_BIAS
    const AddedElement* __restrict__ bias,
#endif
#if WITH_BATCH_NORM
    const float* __restrict__ bn_w, const float* __restrict__ bn_b,
    const float* __restrict__ running_mean, const float* __restrict__ running_var,
#endif
#if WITH_CHANNEL_SCALES
    const float* __restrict__ channel_scales,
#endif
    Element* __restrict__ target)
{
    alignas(16) __shared__ Tiled::A::Element a_tiles[Tiled::A_SIZE];
    alignas(16) __shared__ Tiled::B::Element b_tiles[Tiled::B_SIZE];
    const unsigned row = blockIdx.y * TILE_M;
    const unsigned column = blockIdx.x * TILE_N;
    const unsigned group = SPLITS > 1 ? blockIdx.z / SPLITS : GROUPS > 1 ? blockIdx.z : 0;
    const unsigned split = SPLITS > 1 ? blockIdx.z % SPLITS : 0;
    const unsigned first = split * CHUNK;
    const unsigned last = DEPTH % CHUNK == 0 || first + CHUNK < DEPTH ? first + CHUNK : DEPTH;
    Element* to = SPLITS > 1 ? target + split * (BATCH * GROUPS * GROUP_OUT * TARGET_SIZE) : target;
    Total sum[ITEM_M][ITEM_N] = {};
    Tiled::multiply(Left{filters + group * GROUP_STRIDE}, Right{source, group}, row, column, first,
        last, a_tiles, b_tiles, sum);

    if constexpr (WITH_BIAS) {
#pragma unroll
        for (unsigned i = 0; i < ITEM_M; i++) {
            const unsigned m = row + Tiled::row(i);
            const Total shift =
                GROUP_OUT % TILE_M == 0 || m < GROUP_OUT ? load(bias, group * GROUP_OUT + m) : 0;
#pragma unroll
            for (unsigned j = 0; j < ITEM_N; j++)
                sum[i][j] = plus(sum[i][j], SPLITS == 1 || split == 0 ? shift : 0);
        }
    }
    if constexpr (WITH_EPILOGUE) {
#pragma unroll
        for (unsigned i = 0; i < ITEM_M; i++) {
            const unsigned m = row + Tiled::row(i);
            const unsigned channel =
                group * GROUP_OUT + (GROUP_OUT % TILE_M == 0 || m < GROUP_OUT ? m : GROUP_OUT - 1);
            const Epilogue epilogue =
                epilogue_of(channel, bn_w, bn_b, running_mean, running_var, channel_scales);
#pragma unroll
            for (unsigned j = 0; j < ITEM_N; j++)
                sum[i][j] = epilogue(sum[i][j]);
        }
    }
#pragma unroll
    for (unsigned j = 0; j < ITEM_N; j += STORE_WIDTH) {
        const unsigned n = column + Tiled::column(j);
        if (COUNT % TILE_N != 0 && n >= COUNT)
            continue;
        const unsigned pixel = WHOLE ? n % PIXELS : opaque(n % PIXELS);
        const unsigned place =
            WHOLE ? pixel
                  : (ROWS_FIRST + ROWS_STEP * (pixel / COLUMNS_COUNT)) * COLUMNS_EXTENT
                        + COLUMNS_FIRST + COLUMNS_STEP * (pixel % COLUMNS_COUNT);
        Element* out = to + (n / PIXELS * GROUPS + group) * (GROUP_OUT * TARGET_SIZE) + place;
#pragma unroll
        for (unsigned i = 0; i < ITEM_M; i++) {
            const unsigned m = row + Tiled::row(i);
            if (GROUP_OUT % TILE_M != 0 && m >= GROUP_OUT)
                continue;
            store_vector<STORE_WIDTH>(out + m * TARGET_SIZE, sum[i] + j);
        }
    }
}
