/* Convolution as a matrix product, as conv_gemm.hip has it, of a source with channels last, (sample, row, column, channel), and filters
 * (tap, row, column), of 16 bits: k is a tap and a channel, and tiles wait in LDS. The target has channels before pixels. Where k is
 * cut into chunks, work-groups leave partial sums, the first one with the bias. */
#include "prelude.h"
#include "fragment.h"
#include "warpgroups.h"
#include "constants/gather.h"
#include "constants/tile.h"
#include "constants/conv_last.h"
#include "epilogue.h"

constexpr const AddedElement* bias = nullptr; /* stands for a parameter that the kernel may lack */
constexpr unsigned TAPS = ROWS_TAPS * COLUMNS_TAPS;
constexpr unsigned DEPTH = TAPS * OF_TAP; /* K */
constexpr unsigned PIXELS = ROWS_COUNT * COLUMNS_COUNT;
constexpr unsigned COUNT = BATCH * PIXELS; /* N */
constexpr unsigned TARGET_SIZE = ROWS_EXTENT * COLUMNS_EXTENT;
constexpr bool WHOLE = ROWS_COUNT == ROWS_EXTENT && COLUMNS_COUNT == COLUMNS_EXTENT; /* no phase of the target */

#if STAGES
/* The tap of the filters as they are stored that a tap of the sum takes. */
static __device__ __forceinline__ unsigned stored_tap(unsigned tap)
{
    const int r = static_cast<int>(ROWS_FILTER_FIRST) + ROWS_FILTER_STEP * static_cast<int>(tap / COLUMNS_TAPS);
    const int s = static_cast<int>(COLUMNS_FILTER_FIRST) + COLUMNS_FILTER_STEP * static_cast<int>(tap % COLUMNS_TAPS);
    return static_cast<unsigned>(r) * KERNEL_W + static_cast<unsigned>(s);
}

/* The filters. */
struct Left {
    using Element = FilterElement;
    static constexpr unsigned WIDTH = LEFT_WIDTH;
    static constexpr Along ALONG = LEFT_ALONG;
    static constexpr bool ALONG_K = ALONG == Along::K;
    static constexpr unsigned EXTENT = ALONG_K ? FILTER_ROWS : FILTER_COLUMNS; /* along m */
    static constexpr unsigned CHANNELS = ALONG_K ? FILTER_COLUMNS : FILTER_ROWS;
    static constexpr bool REGULAR = EXTENT % TILE_M == 0 && (ALONG_K || (OF_TAP % TILE_K == 0 && CHANNELS == OF_TAP));
    const FilterElement* __restrict__ filters;

    static constexpr __device__ __forceinline__ unsigned apart(unsigned at, unsigned k)
    {
        return sizeof(FilterElement) * (ALONG_K ? at * FILTER_COLUMNS + k : k * FILTER_COLUMNS + at);
    }
    struct Line {
        const FilterElement* first; /* of m */
        unsigned k;
        bool inside; /* whether there is such an m */

        __device__ __forceinline__ const char* place(unsigned step) const
        {
            const unsigned tap = (step + k) / OF_TAP, channel = (step + k) % OF_TAP;
            return reinterpret_cast<const char*>(
                first + stored_tap(tap) * (FILTER_ROWS * FILTER_COLUMNS) + channel * (ALONG_K ? 1 : FILTER_COLUMNS));
        }
        __device__ __forceinline__ bool ends(unsigned step) const
        {
            return !inside || step + k >= DEPTH || (OF_TAP != CHANNELS && (step + k) % OF_TAP >= CHANNELS);
        }
    };
    __device__ __forceinline__ Line line(unsigned m, unsigned dm, unsigned k) const
    {
        return Line{filters + (m + dm) * (ALONG_K ? FILTER_COLUMNS : 1), k, EXTENT % TILE_M == 0 || m + dm < EXTENT};
    }
};

/* The windows, from the source. */
struct Right {
    using Element = SourceElement;
    static constexpr unsigned WIDTH = RIGHT_WIDTH;
    static constexpr Along ALONG = RIGHT_ALONG;
    static constexpr bool REGULAR = false;
    const SourceElement* __restrict__ source;

    struct Line {
        const SourceElement* first; /* what the first tap meets, if that is inside of the image */
        int row, column;
        unsigned k;

        __device__ __forceinline__ const char* place(unsigned step) const
        {
            const unsigned tap = (step + k) / OF_TAP, channel = (step + k) % OF_TAP;
            const unsigned r = tap / COLUMNS_TAPS * ROWS_GAP, s = tap % COLUMNS_TAPS * COLUMNS_GAP;
            return reinterpret_cast<const char*>(first + ((r * COLUMNS_SOURCE + s) * SOURCE_HELD + channel));
        }
        __device__ __forceinline__ bool ends(unsigned step) const
        {
            const unsigned tap = (step + k) / OF_TAP;
            const unsigned r = row + tap / COLUMNS_TAPS * ROWS_GAP, s = column + tap % COLUMNS_TAPS * COLUMNS_GAP;
            const bool padded = OF_TAP != SOURCE_HELD && (step + k) % OF_TAP >= SOURCE_HELD;
            return r >= ROWS_SOURCE || s >= COLUMNS_SOURCE || step + k >= DEPTH || padded;
        }
    };
    __device__ __forceinline__ Line line(unsigned n, unsigned dn, unsigned k) const
    {
        unsigned at = n + dn;
        if constexpr (COUNT % TILE_N != 0)
            at = at < COUNT ? at : COUNT - 1; /* not stored */
        const unsigned sample = at / PIXELS, pixel = at % PIXELS;
        const int row = static_cast<int>(pixel / COLUMNS_COUNT) * ROWS_STRIDE + ROWS_START;
        const int column = static_cast<int>(pixel % COLUMNS_COUNT) * COLUMNS_STRIDE + COLUMNS_START;
        const int place = (static_cast<int>(sample * ROWS_SOURCE) + row) * static_cast<int>(COLUMNS_SOURCE) + column;
        return Line{source + place * static_cast<int>(SOURCE_HELD), row, column, k};
    }
};

using Cut = Tile<TILE_M, TILE_N, TILE_K, ITEM_M, ITEM_N, AHEAD, Total>;
#if TENSOR_MAPS && (defined(__CUDACC__) || defined(__CUDACC_RTC__))
#define BY_WARPGROUPS 1
using Tiled = WarpgroupProduct<Cut, Left, Right, STAGES>;
#else
using Tiled = StagedProduct<Cut, Left, Right, StagedMma<Cut, FilterElement>, STAGES>;
#endif

/* 4 neighbours among the results of a channel, the first of number n, to the image that begins at `to`. */
static __device__ __forceinline__ void store_pixels(Element* to, unsigned n, const float* values)
{
    if constexpr (WHOLE && PIXELS % 4 == 0) {
        if (COUNT % TILE_N == 0 || n < COUNT)
            store_vector<4>(to + n / PIXELS * (GROUP_OUT * TARGET_SIZE) + n % PIXELS, values);
        return;
    }
#pragma unroll
    for (unsigned part = 0; part < 4; part++) {
        if (n + part >= COUNT)
            continue;
        const unsigned pixel = (n + part) % PIXELS;
        const unsigned row = ROWS_FIRST + ROWS_STEP * (pixel / COLUMNS_COUNT), column = COLUMNS_FIRST + COLUMNS_STEP * (pixel % COLUMNS_COUNT);
        Element* const place = to + (n + part) / PIXELS * (GROUP_OUT * TARGET_SIZE) + row * COLUMNS_EXTENT + column;
#pragma unroll
        for (unsigned down = 0; down < ROWS_FILL; down++)
#pragma unroll
            for (unsigned across = 0; across < COLUMNS_FILL; across++)
                put(place + down * COLUMNS_EXTENT + across, down + across == 0 ? values[part] : 0.0f);
    }
}
#endif

extern "C" __global__ __launch_bounds__(BLOCK, LAUNCH_GROUPS) void KERNEL(
    const SourceElement* __restrict__ source, const FilterElement* __restrict__ filters,
#if WITH_BIAS
    const AddedElement* __restrict__ bias,
#endif
#if WITH_BATCH_NORM
    const float* __restrict__ bn_w, const float* __restrict__ bn_b, const float* __restrict__ running_mean,
    const float* __restrict__ running_var,
#endif
    Element* __restrict__ target
#ifdef BY_WARPGROUPS
    , const char* __restrict__ maps
#endif
)
{
#if STAGES
    ASKED_LDS(lds, Tiled::NBYTES);
    constexpr unsigned ACROSS = (COUNT + TILE_N - 1) / TILE_N, DOWN = (GROUP_OUT + TILE_M - 1) / TILE_M;
    const unsigned row = banded<ACROSS, DOWN>(blockIdx.x, blockIdx.y, true) * TILE_M;
    const unsigned column = banded<ACROSS, DOWN>(blockIdx.x, blockIdx.y, false) * TILE_N;
    const unsigned split = SPLITS > 1 ? blockIdx.z : 0;
    const unsigned first = split * CHUNK;
    const unsigned last = DEPTH % CHUNK == 0 || first + CHUNK < DEPTH ? first + CHUNK : DEPTH;
    Element* to = SPLITS > 1 ? target + split * (BATCH * GROUP_OUT * TARGET_SIZE) : target;
    Total sum[ITEM_M][ITEM_N] = {};
#ifdef BY_WARPGROUPS
    const unsigned sample = column / PIXELS, pixel = column % PIXELS;
    const int y = static_cast<int>(pixel / COLUMNS_COUNT) * ROWS_STRIDE + ROWS_START;
    const int x = static_cast<int>(pixel % COLUMNS_COUNT) * COLUMNS_STRIDE + COLUMNS_START;
    Tiled::multiply_moved(
        [&](unsigned k, unsigned a, unsigned b, unsigned barrier) {
            const unsigned tap = k / OF_TAP, channel = k % OF_TAP;
            Tiled::move_all<Tiled::A, TILE_M>(a, maps, row, channel, stored_tap(tap), barrier);
            Tiled::move_windows(
                b, maps + 128, channel, x, y, sample, tap % COLUMNS_TAPS * COLUMNS_GAP, tap / COLUMNS_TAPS * ROWS_GAP, barrier);
        },
        first, last, lds, sum);
#else
    Tiled::multiply(Left{filters}, Right{source}, row, column, first, last, lds, sum);
#endif

#pragma unroll
    for (unsigned i = 0; i < ITEM_M; i++) {
        const unsigned m = row + Tiled::row(i);
        if (GROUP_OUT % TILE_M != 0 && m >= GROUP_OUT)
            continue;
        const Total shift = WITH_BIAS && (SPLITS == 1 || split == 0) ? load(bias, m) : 0;
        const Epilogue epilogue = epilogue_of(m, bn_w, bn_b, running_mean, running_var);
#pragma unroll
        for (unsigned j = 0; j < ITEM_N; j++) {
            if constexpr (WITH_BIAS)
                sum[i][j] = plus(sum[i][j], shift);
            if constexpr (WITH_EPILOGUE)
                sum[i][j] = epilogue(sum[i][j]);
        }
#pragma unroll
        for (unsigned j = 0; j < ITEM_N; j += 4)
            store_pixels(to + m * TARGET_SIZE, column + Tiled::column(j), sum[i] + j);
    }
#endif
}
