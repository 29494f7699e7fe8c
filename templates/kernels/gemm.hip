/* A matrix product: y = ALPHA A B [+ BETA c] [+ bias], M x N results, each a sum of K products, and
 * what follows. A lies in memory as (M, K) or (K, M), B as (K, N) or (N, K), y and c as (M, N), all
 * of them by rows. There may be BATCH of them, one behind the other. Where k is cut into chunks,
 * work-groups leave partial sums, and nothing else.
 *
 * A, B, y and what is added have element types of their own; what is multiplied and added up is
 * float32, or int32 of integers. */
#include "prelude.h"
#include "fragment.h"
#include "warpgroups.h"
#include "grouped.h"
#include "constants/gemm.h"
#include "constants/tile.h"
#include "epilogue.h"

/* these two stand for parameters that the kernel may lack */
constexpr const AddedElement* c = nullptr;
constexpr const AddedElement* bias = nullptr;
constexpr const ScaleElement* group_scales = nullptr; /* and this one for scales of groups of B */

/* A matrix of Stored as an operand: EXTENT rows along k, or K rows along EXTENT, PITCH elements
 * from one to the next; a tile has PART of it. Loads give Held: Total, or Stored as it is. */
template <class Stored, class Held, unsigned EXTENT, unsigned PART, Along LIES, unsigned ELEMENTS,
    unsigned PITCH>
struct Matrix {
    using Element = Held;
    static constexpr unsigned WIDTH = ELEMENTS;
    static constexpr Along ALONG = LIES;
    static constexpr bool ALONG_K = ALONG == Along::K;
    static constexpr unsigned END = ALONG_K ? EXTENT : PITCH;
    static constexpr bool REGULAR = END % PART == 0; /* all rows of all tiles are there */
    const Stored* __restrict__ matrix;

    /* Bytes between elements that are so far apart, along m or n and along k. */
    static constexpr __device__ __forceinline__ unsigned long long apart(unsigned at, unsigned k)
    {
        return static_cast<unsigned long long>(sizeof(Stored))
               * (ALONG_K ? at * PITCH + k : k * PITCH + at);
    }

    struct Line {
        const Stored* tile; /* the same for all work-items */
        unsigned offset; /* in bytes */
        Depth<K, K % TILE_K != 0> depth;

        __device__ __forceinline__ Vector<Element, WIDTH> load(unsigned step) const
        {
            const char* start =
                reinterpret_cast<const char*>(tile + (ALONG_K ? step : step * PITCH));
            if (depth.ends(step))
                return {};
            /* the same, but for how compilers order instructions */
            if constexpr (sizeof(Stored) == 4)
                return *reinterpret_cast<const Vector<Element, WIDTH>*>(start + offset);
            else
                return fetched<Held, WIDTH>(reinterpret_cast<const Stored*>(start + offset));
        }
        /* For products whose tiles wait in LDS (staged.h). */
        __device__ __forceinline__ const char* place(unsigned step) const
        {
            return reinterpret_cast<const char*>(tile + (ALONG_K ? step : step * PITCH)) + offset;
        }
        __device__ __forceinline__ bool ends(unsigned step) const { return depth.ends(step); }
    };
    __device__ __forceinline__ Line line(unsigned at, unsigned apart, unsigned k) const
    {
        /* Beyond the end it loads what lies at the end: those results are not stored. */
        if (END % PART != 0 && at + apart >= END)
            apart = END - (ALONG_K ? 1 : WIDTH) - at;
        const unsigned offset = static_cast<unsigned>(sizeof(Stored))
                                * (ALONG_K ? apart * PITCH + k : k * PITCH + apart);
        return Line{matrix + (ALONG_K ? at * PITCH : at), offset, decltype(Line::depth)::at(k)};
    }
};
constexpr unsigned RESULT_ROW = RESULT_PITCH > 0 ? RESULT_PITCH : N; /* elements of y */
using Cut = Tile<TILE_M, TILE_N, TILE_K, ITEM_M, ITEM_N, AHEAD, Total>;
/* tiles below each other that work-groups side by side compute */
constexpr unsigned PAIR = PAIRED ? 2 : 1;
constexpr bool ROWS_FILL = M % (PAIR * TILE_M) == 0; /* no tile goes beyond M */
/* Rows that a tile of a pair loads, which may lie beyond the end: nothing of those is stored. */
static __device__ __forceinline__ unsigned loaded(unsigned row)
{
    return PAIRED && row >= M ? 0 : row;
}
#if STAGES
/* Whether lanes store 16 bytes of a row at once (Run). */
constexpr bool BY_RUNS = !WITH_C && sizeof(Element) < 4 && RESULT_ROW % (16 / sizeof(Element)) == 0
                         && ITEM_N % (16 / sizeof(Element)) == 0;
using Multiplied = StagedMma<Cut, LeftElement, !BY_RUNS>;
#else
constexpr bool BY_RUNS = false;
using Multiplied = Fragment<Cut, LeftElement>; /* both factors are of one type, or held as Total */
#endif
constexpr bool LEFT_ALONG_K = LEFT_ALONG == Along::K, RIGHT_ALONG_K = RIGHT_ALONG == Along::K;
constexpr unsigned LEFT_ROW = LEFT_PITCH > 0 ? LEFT_PITCH
                              : LEFT_ALONG_K ? K
                                             : M,
                   LEFT_SIZE = (LEFT_ALONG_K ? M : K) * LEFT_ROW;
constexpr unsigned RIGHT_ROW = RIGHT_PITCH > 0 ? RIGHT_PITCH
                               : RIGHT_ALONG_K ? K
                                               : N,
                   RIGHT_SIZE = (RIGHT_ALONG_K ? N : K) * RIGHT_ROW;
using Left =
    Matrix<LeftElement, Multiplied::Held<LeftElement>, M, TILE_M, LEFT_ALONG, LEFT_WIDTH, LEFT_ROW>;
using Right = Either<WITH_GROUPS,
    GroupedRows<Multiplied::Held<RightElement>, RightElement, ScaleElement, N, TILE_N, K, GROUP,
        K % TILE_K != 0>,
    Matrix<RightElement, Multiplied::Held<RightElement>, N, TILE_N, RIGHT_ALONG, RIGHT_WIDTH,
        RIGHT_ROW>>;
#if TENSOR_MAPS && (defined(__CUDACC__) || defined(__CUDACC_RTC__))
#define BY_WARPGROUPS 1
using Tiled = WarpgroupProduct<Cut, Left, Right, STAGES, LAUNCH_GROUPS, MOVERS, !BY_RUNS, PAIRED>;
#elif STAGES
using Tiled = StagedProduct<Cut, Left, Right, Multiplied, STAGES>;
#else
using Tiled = Product<Cut, Left, Right, Multiplied>;
#endif

/* Of a tensor that need not begin on a word. */
template <class Stored>
static __device__ __forceinline__ Total element_of(const Stored* tensor, unsigned at)
{
    if constexpr (sizeof(Stored) == 4)
        return tensor[at];
    else
        return fetched<Total, 1>(tensor + at);
}

#if PAIRED && defined(BY_WARPGROUPS)
#define IN_CLUSTERS __cluster_dims__(2, 1, 1)
#else
#define IN_CLUSTERS
#endif

extern "C" __global__ IN_CLUSTERS __launch_bounds__(BLOCK + MOVERS, LAUNCH_GROUPS) void KERNEL(
    const LeftElement* __restrict__ a, const RightElement* __restrict__ b,
#if WITH_GROUPS
    const ScaleElement* __restrict__ group_scales,
#endif
#if WITH_C
    const AddedElement* __restrict__ c,
#endif
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
    Element* __restrict__ y
#ifdef BY_WARPGROUPS
    ,
    const __grid_constant__ TensorMaps tensor_maps
#endif
)
{
#if STAGES
    ASKED_LDS(lds, Tiled::NBYTES);
#ifdef BY_WARPGROUPS
    const char* const maps = tensor_maps.bytes;
#endif
    constexpr unsigned ACROSS = (N + TILE_N - 1) / TILE_N,
                       DOWN = (M + PAIR * TILE_M - 1) / (PAIR * TILE_M);
    const unsigned place = blockIdx.x / PAIR, lower = blockIdx.x % PAIR;
#else
    alignas(16) __shared__ Tiled::A::Element a_tiles[Tiled::A_SIZE];
    alignas(16) __shared__ Tiled::B::Element b_tiles[Tiled::B_SIZE];
#endif
#if GROUPS
    /* Of the tiles that this work-group computes, steps of the next one are on their way while one
     * is stored. */
    constexpr unsigned TILES = ACROSS * DOWN;
    const unsigned sharing = SHARING(GROUPS) / PAIR,
                   count = (TILES * BATCH - place + sharing - 1) / sharing;
#ifdef BY_WARPGROUPS
    constexpr unsigned TILE_STEPS = (K + TILE_K - 1) / TILE_K;
    const auto bring = [&](unsigned step, unsigned to_a, unsigned to_b, unsigned barrier) {
        const unsigned tile = place + step / TILE_STEPS * sharing, across = tile % ACROSS,
                       down = tile / ACROSS % DOWN;
        const unsigned row = (banded<ACROSS, DOWN>(across, down, true) * PAIR + lower) * TILE_M;
        const unsigned column = banded<ACROSS, DOWN>(across, down, false) * TILE_N,
                       k = step % TILE_STEPS * TILE_K;
        if (PAIRED && step >= STAGES)
            Tiled::bring_shared(maps, tile / TILES, row, column, k, to_a, to_b, barrier);
        else
            Tiled::bring_both(maps, tile / TILES, row, column, k, to_a, to_b, barrier);
    };
    Tiled::Steps steps(lds);
    steps.begin(bring, count * TILE_STEPS);
    if (steps.moves(bring, count * TILE_STEPS))
        return;
#endif
#ifndef BY_WARPGROUPS
    const auto begin = [&](unsigned turn) {
        const unsigned tile = place + turn * sharing, item = tile / TILES, across = tile % ACROSS,
                       down = tile / ACROSS % DOWN;
        const unsigned row = (banded<ACROSS, DOWN>(across, down, true) * PAIR + lower) * TILE_M;
        const Tiled::A left(Left{a + item * LEFT_SIZE}, loaded(row));
        const Tiled::B right(
            Right{b + item * RIGHT_SIZE}, banded<ACROSS, DOWN>(across, down, false) * TILE_N);
        Tiled::begin(left, right, 0, K, lds);
    };
    begin(0);
#endif
#pragma unroll 1
    for (unsigned turn = 0; turn < count; turn++)
#endif
    {
#if GROUPS
        const unsigned tile = place + turn * sharing, item = tile / TILES;
        const unsigned row =
            (banded<ACROSS, DOWN>(tile % ACROSS, tile / ACROSS % DOWN, true) * PAIR + lower)
            * TILE_M;
        const unsigned column =
            banded<ACROSS, DOWN>(tile % ACROSS, tile / ACROSS % DOWN, false) * TILE_N;
        constexpr unsigned first = 0, last = K;
#else
#if STAGES
        const unsigned row =
            (banded<ACROSS, DOWN>(place, blockIdx.y, true) * PAIR + lower) * TILE_M;
        const unsigned column = banded<ACROSS, DOWN>(place, blockIdx.y, false) * TILE_N;
#else
        const unsigned row = blockIdx.y * TILE_M;
        const unsigned column = blockIdx.x * TILE_N;
#endif
        const unsigned item = BATCH > 1 ? blockIdx.z % BATCH : 0;
        const unsigned first = SPLITS > 1 ? blockIdx.z / BATCH * CHUNK : 0;
        const unsigned last = K % CHUNK == 0 || first + CHUNK < K ? first + CHUNK : K;
#endif
        Total sum[ITEM_M][ITEM_N] = {};
#if GROUPS && defined(BY_WARPGROUPS)
        steps.multiply(bring, (turn + 1) * TILE_STEPS, count * TILE_STEPS, sum);
        Tiled::Fragment::settle(sum);
#elif defined(BY_WARPGROUPS)
        if (!Tiled::multiply(maps, item, row, column, first, last, lds, sum))
            return;
#elif GROUPS
        Tiled::multiply_begun(Tiled::A(Left{a + item * LEFT_SIZE}, loaded(row)),
            Tiled::B(Right{b + item * RIGHT_SIZE}, column), first, last, lds, sum);
        if (turn + 1 < count)
            begin(turn + 1);
#elif STAGES
        Tiled::multiply(Left{a + item * LEFT_SIZE}, Right{b + item * RIGHT_SIZE}, loaded(row),
            column, first, last, lds, sum);
#else
        Tiled::multiply(Left{a + item * LEFT_SIZE},
            operand_of<Right, WITH_GROUPS, K * N, GROUP>(b, group_scales, item), row, column, first,
            last, a_tiles, b_tiles, sum);
#endif

        const AddedElement* added = c + item * (M * N);
        Element* to = y + (SPLITS > 1 ? blockIdx.z : item) * (M * RESULT_ROW);
        const auto finish = [&](Total& value, unsigned m, unsigned n) {
            if constexpr (ALPHA != 1)
                value *= ALPHA;
            if constexpr (WITH_CHANNEL_SCALES)
                value = scaled_by_channel(value, n, channel_scales);
            if constexpr (WITH_C)
                value = plus_multiple(value, BETA, element_of(added, m * N + n));
            if constexpr (WITH_EPILOGUE)
                value = epilogue_of(n, bn_w, bn_b, running_mean, running_var, channel_scales)(
                    WITH_BIAS ? plus(value, load(bias, n)) : value);
            else if constexpr (WITH_BIAS) {
                const auto shift = load(bias, n);
                value = plus(value, shift);
            }
        };
#if STAGES
        if constexpr (BY_RUNS) {
            constexpr unsigned RUN = Run<Element>::LENGTH;
            const unsigned origin = column + Multiplied::warp_column();
            Run<Element> runs[ITEM_M][BY_RUNS ? ITEM_N / RUN : 1];
            unsigned wrong = 0;
#pragma unroll
            for (unsigned i = 0; i < ITEM_M; i++)
#pragma unroll
                for (unsigned j = 0; j < ITEM_N; j += RUN) {
#pragma unroll
                    for (unsigned part = 0; part < RUN; part++) {
                        const unsigned n = column + Tiled::column(j + part);
                        if (N % TILE_N == 0 || n < N)
                            finish(sum[i][j + part], row + Tiled::row(i), n);
                    }
                    wrong |= runs[i][j / RUN].round(sum[i] + j);
                }
            if (wrong)
#pragma unroll
                for (unsigned i = 0; i < ITEM_M; i++)
#pragma unroll
                    for (unsigned j = 0; j < ITEM_N; j += RUN)
                        runs[i][j / RUN].mend(sum[i] + j);
#pragma unroll
            for (unsigned i = 0; i < ITEM_M; i++) {
                const unsigned m = row + Tiled::row(i);
#pragma unroll
                for (unsigned j = 0; j < ITEM_N; j += RUN) {
                    const unsigned n = origin + Run<Element>::column(j);
                    runs[i][j / RUN].share();
                    if ((ROWS_FILL || m < M) && (N % TILE_N == 0 || n < N))
                        runs[i][j / RUN].store(to + (m * RESULT_ROW + n));
                }
            }
        }
#endif
        constexpr unsigned ROWS = BY_RUNS ? 0 : ITEM_M;
#pragma unroll
        for (unsigned i = 0; i < ROWS; i++) {
            const unsigned m = row + Tiled::row(i);
            if (!ROWS_FILL && m >= M)
                continue;
#pragma unroll
            for (unsigned j = 0; j < ITEM_N; j += STORE_WIDTH) {
                const unsigned n = column + Tiled::column(j);
                const unsigned at = m * RESULT_ROW + n;
                if (N % TILE_N == 0 || n < N) {
#pragma unroll
                    for (unsigned part = 0; part < STORE_WIDTH; part++)
                        finish(sum[i][j + part], m, n + part);
#if STAGES
                    if constexpr (STORE_WIDTH == 4)
                        put_four(to + at, sum[i] + j);
                    else if constexpr (sizeof(Element) == 2)
#pragma unroll
                        for (unsigned part = 0; part < STORE_WIDTH; part++)
                            put(to + at + part, sum[i][j + part]);
                    else
#endif
                        store_vector<STORE_WIDTH>(to + at, sum[i] + j);
                }
            }
            if constexpr (WITH_C)
                scheduling_fence(); /* or it would read all of C first */
        }
    }
}
