/* Convolution as a matrix product, as conv_gemm.hip has it, of a source with channels last,
 * (sample, row, column, channel), and filters (tap, row, column), of 16 bits: k is a tap and a
 * channel, and tiles wait in LDS. The target has channels before pixels. Where k is cut into
 * chunks, work-groups leave partial sums, the first one with the bias. */
#include "prelude.h"
#include "fragment.h"
#include "warpgroups.h"
#include "constants/gather.h"
#include "constants/tile.h"
#include "constants/conv_last.h"
#include "epilogue.h"

constexpr const AddedElement* bias = nullptr; /* stands for a parameter that the kernel may lack */
constexpr unsigned PIXELS = ROWS_COUNT * COLUMNS_COUNT;
/* N; of a sample, where tiles do not go beyond it */
constexpr unsigned COUNT = PLANES ? PIXELS : BATCH * PIXELS;
constexpr unsigned TARGET_SIZE = ROWS_EXTENT * COLUMNS_EXTENT;
/* no phase of the target */
constexpr bool WHOLE = ROWS_COUNT == ROWS_EXTENT && COLUMNS_COUNT == COLUMNS_EXTENT;

#if STAGES
/* The taps of the sum; of TWINS, which are phases of neighbouring columns, those of the second
 * one. */
template <bool SECOND>
struct Taps {
    static constexpr unsigned ACROSS = SECOND ? TWIN_TAPS : COLUMNS_TAPS;
    static constexpr unsigned DEPTH = ROWS_TAPS * ACROSS * OF_TAP; /* K */
    static constexpr int START = SECOND ? TWIN_START : COLUMNS_START;
    static constexpr int FILTER_FIRST =
        static_cast<int>(SECOND ? TWIN_FILTER_FIRST : COLUMNS_FILTER_FIRST);

    /* That of the filters as they are stored. */
    static __device__ __forceinline__ unsigned stored(unsigned tap)
    {
        const int r =
            static_cast<int>(ROWS_FILTER_FIRST) + ROWS_FILTER_STEP * static_cast<int>(tap / ACROSS);
        const int s = FILTER_FIRST + COLUMNS_FILTER_STEP * static_cast<int>(tap % ACROSS);
        return static_cast<unsigned>(r) * KERNEL_W + static_cast<unsigned>(s);
    }
};

/* The filters. */
template <class Taps>
struct Left {
    using Element = FilterElement;
    static constexpr unsigned WIDTH = LEFT_WIDTH;
    static constexpr Along ALONG = LEFT_ALONG;
    static constexpr bool ALONG_K = ALONG == Along::K;
    static constexpr unsigned EXTENT = ALONG_K ? FILTER_ROWS : FILTER_COLUMNS; /* along m */
    static constexpr unsigned CHANNELS = ALONG_K ? FILTER_COLUMNS : FILTER_ROWS;
    static constexpr bool REGULAR =
        EXTENT % TILE_M == 0 && (ALONG_K || (OF_TAP % TILE_K == 0 && CHANNELS == OF_TAP));
    const FilterElement* __restrict__ filters;

    static constexpr __device__ __forceinline__ unsigned apart(unsigned at, unsigned k)
    {
        return sizeof(FilterElement)
               * (ALONG_K ? at * FILTER_COLUMNS + k : k * FILTER_COLUMNS + at);
    }
    struct Line {
        const FilterElement* first; /* of m */
        unsigned k;
        bool inside; /* whether there is such an m */

        __device__ __forceinline__ const char* place(unsigned step) const
        {
            const unsigned tap = (step + k) / OF_TAP, channel = (step + k) % OF_TAP;
            return reinterpret_cast<const char*>(
                first + Taps::stored(tap) * (FILTER_ROWS * FILTER_COLUMNS)
                + channel * (ALONG_K ? 1 : FILTER_COLUMNS));
        }
        __device__ __forceinline__ bool ends(unsigned step) const
        {
            return !inside || step + k >= Taps::DEPTH
                   || (OF_TAP != CHANNELS && (step + k) % OF_TAP >= CHANNELS);
        }
    };
    __device__ __forceinline__ Line line(unsigned m, unsigned dm, unsigned k) const
    {
        return Line{filters + (m + dm) * (ALONG_K ? FILTER_COLUMNS : 1), k,
            EXTENT % TILE_M == 0 || m + dm < EXTENT};
    }
};

/* The windows, from the source. */
template <class Taps>
struct Windows {
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
            const unsigned r = tap / Taps::ACROSS * ROWS_GAP, s = tap % Taps::ACROSS * COLUMNS_GAP;
            return reinterpret_cast<const char*>(
                first + ((r * COLUMNS_SOURCE + s) * SOURCE_HELD + channel));
        }
        __device__ __forceinline__ bool ends(unsigned step) const
        {
            const unsigned tap = (step + k) / OF_TAP;
            const unsigned r = row + tap / Taps::ACROSS * ROWS_GAP,
                           s = column + tap % Taps::ACROSS * COLUMNS_GAP;
            const bool padded = OF_TAP != SOURCE_HELD && (step + k) % OF_TAP >= SOURCE_HELD;
            return r >= ROWS_SOURCE || s >= COLUMNS_SOURCE || step + k >= Taps::DEPTH || padded;
        }
    };
    __device__ __forceinline__ Line line(unsigned n, unsigned dn, unsigned k) const
    {
        unsigned at = n + dn;
        if constexpr (COUNT % TILE_N != 0)
            at = at < COUNT ? at : COUNT - 1; /* not stored */
        const unsigned sample = at / PIXELS, pixel = at % PIXELS;
        const int row = static_cast<int>(pixel / COLUMNS_COUNT) * ROWS_STRIDE + ROWS_START;
        const int column = static_cast<int>(pixel % COLUMNS_COUNT) * COLUMNS_STRIDE + Taps::START;
        const int place =
            (static_cast<int>(sample * ROWS_SOURCE) + row) * static_cast<int>(COLUMNS_SOURCE)
            + column;
        return Line{source + place * static_cast<int>(SOURCE_HELD), row, column, k};
    }
};

/* The pixels of a sample whose channels are planes: windows of one tap that meets all of them. */
struct Planes {
    using Element = SourceElement;
    static constexpr unsigned WIDTH = RIGHT_WIDTH;
    static constexpr Along ALONG = RIGHT_ALONG;
    static constexpr bool REGULAR = PIXELS % TILE_N == 0 && SOURCE_HELD % TILE_K == 0;
    const SourceElement* __restrict__ source;

    static constexpr __device__ __forceinline__ unsigned apart(unsigned at, unsigned k)
    {
        return sizeof(SourceElement) * (k * PIXELS + at);
    }
    struct Line {
        const SourceElement* pixel;
        unsigned k;
        bool inside;

        __device__ __forceinline__ const char* place(unsigned step) const
        {
            return reinterpret_cast<const char*>(pixel + (step + k) * PIXELS);
        }
        __device__ __forceinline__ bool ends(unsigned step) const
        {
            return !inside || step + k >= SOURCE_HELD;
        }
    };
    __device__ __forceinline__ Line line(unsigned n, unsigned dn, unsigned k) const
    {
        return Line{source + n + dn, k, PIXELS % TILE_N == 0 || n + dn < PIXELS};
    }
};
template <class Taps>
using Right = Either<PLANES, Planes, Windows<Taps>>;

using Cut = Tile<TILE_M, TILE_N, TILE_K, ITEM_M, ITEM_N, AHEAD, Total>;
#if TENSOR_MAPS && (defined(__CUDACC__) || defined(__CUDACC_RTC__))
#define BY_WARPGROUPS 1
template <class Taps>
using TiledOf =
    WarpgroupProduct<Cut, Left<Taps>, Right<Taps>, STAGES, LAUNCH_GROUPS, MOVERS, false>;
#else
template <class Taps>
using TiledOf =
    StagedProduct<Cut, Left<Taps>, Right<Taps>, StagedMma<Cut, FilterElement, false>, STAGES>;
#endif
using Tiled = TiledOf<Taps<false>>;

/* What a work-group multiplies. */
struct Place {
    unsigned row, column; /* of the product */
    unsigned sample;      /* of PLANES */
    unsigned first, last; /* of k */
};
#ifdef BY_WARPGROUPS
/* Has a step of both factors moved, from k on. `maps` are of the filters and of the windows. */
template <bool SECOND>
static __device__ __forceinline__ void bring(
    const char* maps, const Place& at, unsigned k, unsigned a, unsigned b, unsigned barrier)
{
    using Of = Taps<SECOND>;
    using Product = TiledOf<Of>;
    const char* const windows = maps + (SECOND ? 256 : 128);
    const unsigned tap = k / OF_TAP, channel = k % OF_TAP;
    Product::template move_all<typename Product::A, TILE_M>(
        a, maps, at.row, channel, Of::stored(tap), barrier);
    if constexpr (PLANES) {
        Product::template move_all<typename Product::B, TILE_N>(
            b, windows, at.column, k, at.sample, barrier);
    } else {
        const unsigned sample = at.column / PIXELS, pixel = at.column % PIXELS;
        const int y = static_cast<int>(pixel / COLUMNS_COUNT) * ROWS_STRIDE + ROWS_START;
        const int x = static_cast<int>(pixel % COLUMNS_COUNT) * COLUMNS_STRIDE + Of::START;
        Product::move_windows(b, windows, channel, x, y, sample, tap % Of::ACROSS * COLUMNS_GAP,
            tap / Of::ACROSS * ROWS_GAP, barrier);
    }
}
#endif
/* Whether this work-item has results. */
template <bool SECOND>
static __device__ __forceinline__ bool multiply(const SourceElement* source,
    const FilterElement* filters, const char* maps, const Place& at, unsigned char* lds,
    typename Cut::Sum& sum)
{
    using Of = Taps<SECOND>;
    using Product = TiledOf<Of>;
#ifdef BY_WARPGROUPS
    return Product::multiply_moved(
        [&](unsigned k, unsigned a, unsigned b, unsigned barrier) {
            bring<SECOND>(maps, at, k, a, b, barrier);
        },
        at.first, at.last, lds, sum);
#else
    Product::multiply(Left<Of>{filters},
        Right<Of>{source + (PLANES ? at.sample * (SOURCE_HELD * PIXELS) : 0)}, at.row, at.column,
        at.first, at.last, lds, sum);
    return true;
#endif
}

/* The same of the second phase, if there is one; after the first. */
template <bool THERE>
static __device__ __forceinline__ void multiply_twin(const SourceElement* source,
    const FilterElement* filters, const char* maps, unsigned row, unsigned column,
    unsigned char* lds, typename Cut::Sum& sum)
{
    if constexpr (THERE) {
        Tiled::forget(lds);
        multiply<THERE>(
            source, filters, maps, Place{row, column, 0, 0, Taps<THERE>::DEPTH}, lds, sum);
    }
}

/* Results go through LDS, a warp's 8 rows at a time, and from there to memory in runs, by lanes
 * side by side: as far as runs of so many neighbours lie together there. Of TWINS, what lies
 * beside each result is one too. */
constexpr unsigned TIMES = TWINS ? 2 : 1;
constexpr unsigned PART = ITEM_N * 4; /* columns of a warp */
constexpr unsigned PITCH = TIMES * PART + 16 / sizeof(Element);
constexpr unsigned LONGEST = 16 / sizeof(Element);
constexpr unsigned LYING = TWINS ? COLUMNS_EXTENT : WHOLE ? PIXELS : 1;
constexpr unsigned RUN = LYING % 8 == 0 && LONGEST >= 8 ? 8
                         : LYING % 4 == 0               ? 4
                         : LYING % 2 == 0               ? 2
                                                        : 1;
/* Where steps come meanwhile, they have a place behind these. */
constexpr unsigned RESULTS_NBYTES = BLOCK / 32 * 8 * PITCH * sizeof(Element),
                   RESULTS_AT = STREAMS ? Tiled::NBYTES : 0;
static_assert(STREAMS || RESULTS_NBYTES <= Tiled::NBYTES);

/* Where result n of a channel lies, of TWINS its first half, in the image that begins at 0. */
static __device__ __forceinline__ unsigned place_of(unsigned n)
{
    const unsigned sample = n / PIXELS * (GROUP_OUT * TARGET_SIZE), pixel = n % PIXELS;
    if constexpr (WHOLE)
        return sample + pixel;
    else
        return sample + (ROWS_FIRST + ROWS_STEP * (pixel / COLUMNS_COUNT)) * COLUMNS_EXTENT
               + COLUMNS_FIRST + COLUMNS_STEP * (pixel % COLUMNS_COUNT);
}

/* A warp's 8 rows, from `row` and `column` on; behind each lies what is stored where no tap
 * meets, below and beside. */
static __device__ __forceinline__ void store_rows(
    Element* to, unsigned row, unsigned column, const Element* lds)
{
    constexpr unsigned PIECES = TIMES * PART / RUN; /* of a row */
    /* lanes, of a row and of a column */
    constexpr unsigned BESIDE = PIECES < 32 ? PIECES : 32, ABOVE = BESIDE > 4 ? 32 / BESIDE : 8;
    static_assert(32 % BESIDE == 0 && PIECES % BESIDE == 0);
    const unsigned lane = threadIdx.x % 32, first_row = row + lane / BESIDE;
    if (BESIDE * ABOVE < 32 && lane / BESIDE >= ABOVE)
        return;
#pragma unroll
    for (unsigned down = 0; down < 8; down += ABOVE) {
        if (GROUP_OUT % TILE_M != 0 && first_row + down >= GROUP_OUT)
            continue;
        const Element* from = lds + (lane / BESIDE + down) * PITCH;
#pragma unroll
        for (unsigned first = 0; first < PIECES; first += BESIDE) {
            const unsigned across = (first + lane % BESIDE) * RUN, n = column + across / TIMES;
            if (COUNT % TILE_N != 0 && n >= COUNT)
                continue;
            Element* const place =
                to + (first_row * TARGET_SIZE + place_of(n) + across % TIMES) + down * TARGET_SIZE;
            copy_run<RUN>(place, from + across);
#pragma unroll
            for (unsigned below = 0; below < ROWS_FILL; below++)
#pragma unroll
                for (unsigned beside = 0; beside < COLUMNS_FILL; beside++)
                    if (below + beside > 0)
                        copy_run<RUN>(place + below * COLUMNS_EXTENT + beside, from + TIMES * PART);
        }
    }
}
#endif

extern "C" __global__ __launch_bounds__(BLOCK + MOVERS, LAUNCH_GROUPS) void KERNEL(
    const SourceElement* __restrict__ source, const FilterElement* __restrict__ filters,
#if WITH_BIAS
    const AddedElement* __restrict__ bias,
#endif
#if WITH_BATCH_NORM
    const float* __restrict__ bn_w, const float* __restrict__ bn_b,
    const float* __restrict__ running_mean, const float* __restrict__ running_var,
#endif
    Element* __restrict__ target
#ifdef BY_WARPGROUPS
    ,
    const __grid_constant__ TensorMaps tensor_maps
#endif
)
{
#if STAGES
    ASKED_LDS(lds, STREAMS ? RESULTS_AT + RESULTS_NBYTES : Tiled::NBYTES);
#ifdef BY_WARPGROUPS
    const char* const maps = tensor_maps.bytes;
#else
    const char* const maps = nullptr;
#endif
    constexpr unsigned OF_SAMPLE = (COUNT + TILE_N - 1) / TILE_N; /* tiles, or of all samples */
    constexpr unsigned ACROSS = (PLANES ? BATCH : 1) * OF_SAMPLE,
                       DOWN = (GROUP_OUT + TILE_M - 1) / TILE_M;
    const unsigned split = SPLITS > 1 ? blockIdx.z : 0;
    const unsigned first = split * CHUNK;
    constexpr unsigned DEPTH = Taps<false>::DEPTH;
    const unsigned last = DEPTH % CHUNK == 0 || first + CHUNK < DEPTH ? first + CHUNK : DEPTH;
    const auto place = [&](unsigned across, unsigned down) {
        const unsigned row = banded<ACROSS, DOWN>(across, down, true) * TILE_M,
                       tile = banded<ACROSS, DOWN>(across, down, false);
        return Place{row, (PLANES ? tile % OF_SAMPLE : tile) * TILE_N,
            PLANES ? tile / OF_SAMPLE : 0, first, last};
    };
    Element* const written = target + (SPLITS > 1 ? split * (BATCH * GROUP_OUT * TARGET_SIZE) : 0);
#if STREAMS
    /* Of the tiles that this work-group computes, steps of the next one are on their way while
     * one is stored. */
    static_assert(SPLITS == 1 && !TWINS);
    const unsigned sharing = SHARING(STREAMS);
    const auto place_of_turn = [&](unsigned turn) {
        const unsigned tile = blockIdx.x + turn * sharing;
        return place(tile % ACROSS, tile / ACROSS);
    };
    const unsigned count = (ACROSS * DOWN - blockIdx.x + sharing - 1) / sharing;
#ifdef BY_WARPGROUPS
    constexpr unsigned STEPS = (DEPTH + TILE_K - 1) / TILE_K;
    const auto bring_step = [&](unsigned step, unsigned a, unsigned b, unsigned barrier) {
        bring<false>(maps, place_of_turn(step / STEPS), step % STEPS * TILE_K, a, b, barrier);
    };
    Tiled::Steps steps(lds);
    steps.begin(bring_step, count * STEPS);
    if (steps.moves(bring_step, count * STEPS))
        return;
#endif
#pragma unroll 1
    for (unsigned turn = 0; turn < count; turn++)
#endif
    {
        Total sum[ITEM_M][ITEM_N] = {};
        Total beside[ITEM_M][ITEM_N] = {};
#if STREAMS
        const Place at = place_of_turn(turn);
#ifdef BY_WARPGROUPS
        steps.multiply(bring_step, (turn + 1) * STEPS, count * STEPS, sum);
#else
        multiply<false>(source, filters, maps, at, lds, sum);
        Tiled::forget(lds);
#endif
#else
        const Place at = place(blockIdx.x, blockIdx.y);
        if (!multiply<false>(source, filters, maps, at, lds, sum))
            return;
        static_assert(!TWINS || MOVERS == 0); /* which are gone */
        multiply_twin<(TWINS && TWIN_TAPS > 0)>(
            source, filters, maps, at.row, at.column, lds, beside);
        __syncthreads(); /* nothing is multiplied any more */
#endif
        const unsigned row = at.row, column = at.column;
        Element* const to = written + at.sample * (GROUP_OUT * TARGET_SIZE);
        Element* const own =
            reinterpret_cast<Element*>(lds + RESULTS_AT) + threadIdx.x / 32 * (8 * PITCH);
        const unsigned lane = threadIdx.x % 32, first_row = row + Tiled::row(0) - lane / 4,
                       first_column = Tiled::column(0) / PART * PART;
#pragma unroll
        for (unsigned i = 0; i < ITEM_M; i++) {
            const unsigned m = row + Tiled::row(i),
                           known = GROUP_OUT % TILE_M == 0 || m < GROUP_OUT ? m : GROUP_OUT - 1;
            const Total shift = WITH_BIAS && (SPLITS == 1 || split == 0) ? load(bias, known) : 0;
            const Epilogue epilogue = epilogue_of(known, bn_w, bn_b, running_mean, running_var);
            const auto finish = [&](Total value) {
                const Total shifted = WITH_BIAS ? plus(value, shift) : value;
                return WITH_EPILOGUE ? epilogue(shifted) : shifted;
            };
#pragma unroll
            for (unsigned j = 0; j < ITEM_N; j += 2) {
                Element* const to_lds =
                    own + lane / 4 * PITCH + (Tiled::column(j) - first_column) * TIMES;
                Total made[2 * TIMES];
#pragma unroll
                for (unsigned part = 0; part < 2; part++) {
                    made[TIMES * part] = finish(sum[i][j + part]);
                    if constexpr (TWINS)
                        made[TIMES * part + 1] = finish(beside[i][j + part]);
                }
                if constexpr (TWINS)
                    put_four(to_lds, made);
                else
                    put_two(to_lds, made);
            }
            if (ROWS_FILL * COLUMNS_FILL > 1 && lane % 4 == 0) {
                const Total none = finish(0), nothing[4] = {none, none, none, none};
#pragma unroll
                for (unsigned at = 0; at < LONGEST; at += 4)
                    put_four(own + lane / 4 * PITCH + TIMES * PART + at, nothing);
            }
            warp_barrier();
            store_rows(to, first_row + Tiled::row(i) - Tiled::row(0), column + first_column, own);
            warp_barrier();
        }
    }
#endif
}
