/* y = a b, where of each row of a (M, K) `values` has two of every four neighbours, and
 * `positions` says which, 2 bits each; b (K, N) and y (M, N) are dense, by rows: by matrix
 * instructions for such factors (structured_mma.h), whose steps wait in LDS (staged.h).
 *
 * A step is 128 columns of a: of both, rows of 128 bytes, and 4 words of positions of each row,
 * which go from memory to registers while the step before is multiplied. K is a multiple of 32,
 * and N of 8. */
#include "prelude.h"
#include "structured_mma.h"
#include "constants/structured_matrix.h"

#ifndef __AMDGCN__
constexpr unsigned WORDS = K / 32; /* of a row */
constexpr unsigned STEP = 256 / sizeof(LeftElement); /* 128 */
/* positions of what is not there: places 0 and 1 of each group */
constexpr unsigned NO_ORDER = 0x4444;

/* A matrix of EXTENT rows along k, or of ROWS rows along EXTENT, as an operand; ROWS is how long
 * k is, and a tile has PART of EXTENT. */
template <class Stored, unsigned EXTENT, unsigned ROWS, unsigned PART, unsigned DEEP, Along LIES>
struct Operand {
    using Element = Stored;
    static constexpr unsigned WIDTH = 16 / sizeof(Stored);
    static constexpr Along ALONG = LIES;
    static constexpr bool ALONG_K = ALONG == Along::K;
    static constexpr bool REGULAR = EXTENT % PART == 0;
    const Stored* __restrict__ matrix;

    static constexpr __device__ __forceinline__ unsigned long long apart(unsigned at, unsigned k)
    {
        return static_cast<unsigned long long>(sizeof(Stored))
               * (ALONG_K ? at * ROWS + k : k * EXTENT + at);
    }
    struct Line {
        const Stored* tile;
        unsigned offset; /* in bytes */
        Depth<ROWS, ROWS % DEEP != 0> depth;

        __device__ __forceinline__ const char* place(unsigned step) const
        {
            return reinterpret_cast<const char*>(tile + (ALONG_K ? step : step * EXTENT)) + offset;
        }
        __device__ __forceinline__ bool ends(unsigned step) const { return depth.ends(step); }
    };
    __device__ __forceinline__ Line line(unsigned at, unsigned apart, unsigned k) const
    {
        /* Beyond the end it loads what lies at the end: those results are not stored. */
        if (EXTENT % PART != 0 && at + apart >= EXTENT)
            apart = EXTENT - (ALONG_K ? 1 : WIDTH) - at;
        const unsigned offset = static_cast<unsigned>(sizeof(Stored))
                                * (ALONG_K ? apart * ROWS + k : k * EXTENT + apart);
        return Line{matrix + (ALONG_K ? at * ROWS : at), offset, decltype(Line::depth)::at(k)};
    }
};
using Cut = Tile<TILE_M, TILE_N, STEP, ITEM_M, ITEM_N, false>;
using Fragments = StructuredMma<Cut, LeftElement>;
using Left = Operand<LeftElement, M, K / 2, TILE_M, STEP / 2, Along::K>;
using Right = Operand<RightElement, N, K, TILE_N, STEP, Along::N>;
using A = Moved<Left, TILE_M, STEP / 2, BLOCK>;
using B = Moved<Right, TILE_N, STEP, BLOCK>;
constexpr unsigned STAGE = A::NBYTES + B::NBYTES;
constexpr unsigned PARTS = STEP / Fragments::DEPTH;
static_assert(Cut::ITEMS == BLOCK && K % 32 == 0 && N % 8 == 0 && PARTS % 2 == 0);

/* Positions of a lane's rows, for PARTS / 2 pairs of instructions. */
struct Positions {
    unsigned held[PARTS / 2][Fragments::DOWN];

    __device__ __forceinline__ void read(
        const unsigned short* positions, unsigned row, unsigned step)
    {
        const unsigned lane = Fragments::lane();
#pragma unroll
        for (unsigned pair = 0; pair < PARTS / 2; pair++) {
            const unsigned word = step / 32 + pair * 2 + lane % 4 / 2;
#pragma unroll
            for (unsigned i = 0; i < Fragments::DOWN; i++) {
                const unsigned above = half_of(positions, row + Fragments::row(2 * i), word);
                const unsigned below = half_of(positions, row + Fragments::row(2 * i + 1), word);
                held[pair][i] = above | below << 16;
            }
        }
    }
    static __device__ __forceinline__ unsigned half_of(
        const unsigned short* positions, unsigned row, unsigned word)
    {
        if (K % STEP != 0 && word >= WORDS)
            return NO_ORDER;
        const unsigned there = M % TILE_M == 0 || row < M ? row : M - 1;
        return positions[(there * WORDS + word) * 2 + threadIdx.x % 2];
    }
};

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const LeftElement* __restrict__ values,
    const int* __restrict__ positions, const RightElement* __restrict__ b, Element* __restrict__ y)
{
    ASKED_LDS(lds, STAGES * STAGE);
    constexpr unsigned ACROSS = (N + TILE_N - 1) / TILE_N, DOWN = (M + TILE_M - 1) / TILE_M;
    const unsigned row = banded<ACROSS, DOWN>(blockIdx.x, blockIdx.y, true) * TILE_M;
    const unsigned column = banded<ACROSS, DOWN>(blockIdx.x, blockIdx.y, false) * TILE_N;
    const unsigned short* const halves = reinterpret_cast<const unsigned short*>(positions);
    const A left(Left{values}, row);
    const B right(Right{b}, column);
#pragma unroll 1
    for (unsigned stage = 0; stage + 1 < STAGES; stage++) {
        if (stage * STEP < K) {
            left.move(stage * (STEP / 2), lds + stage * STAGE);
            right.move(stage * STEP, lds + stage * STAGE + A::NBYTES);
        }
        end_group();
    }
    Positions places, coming;
    places.read(halves, row, 0);
    coming = places;
    arrived<STAGES - 2>();
    __syncthreads();
    Fragments held[2];
    held[0].template read<A, B>(lds, lds + A::NBYTES, 0);
    float sum[ITEM_M][ITEM_N] = {};
    unsigned now = 0;                     /* the stage that is multiplied, as an offset */
    unsigned free = (STAGES - 1) * STAGE; /* that which the step before was multiplied from */
    for (unsigned step = 0; step < K; step += STEP) {
        if (step + STEP < K)
            coming.read(halves, row, step + STEP);
#pragma unroll
        for (unsigned part = 0; part < PARTS; part++) {
            if (part + 1 < PARTS) {
                held[(part + 1) % 2].template read<A, B>(
                    lds + now, lds + now + A::NBYTES, part + 1);
            } else {
                arrived<STAGES - 2>();
                __syncthreads();
                free = now;
                now = now + STAGE == STAGES * STAGE ? 0 : now + STAGE;
                if (step + STEP < K)
                    held[0].template read<A, B>(lds + now, lds + now + A::NBYTES, 0);
            }
            if (part == 0) {
                const unsigned next = step + (STAGES - 1) * STEP;
                if (next < K) {
                    left.move(next / 2, lds + free);
                    right.move(next, lds + free + A::NBYTES);
                }
                end_group();
            }
            if (part % 2 == 0)
                held[0].template multiply<0>(places.held[part / 2], sum);
            else
                held[1].template multiply<1>(places.held[part / 2], sum);
        }
        places = coming;
    }
    Fragments::settle(sum);
#pragma unroll
    for (unsigned i = 0; i < ITEM_M; i++) {
        const unsigned m = row + Fragments::row(i);
        if (M % TILE_M != 0 && m >= M)
            continue;
#pragma unroll
        for (unsigned j = 0; j < ITEM_N; j += 4) {
            const unsigned n = column + Fragments::column(j);
            if (N % TILE_N == 0 || n < N)
                put_four(y + (m * N + n), sum[i] + j);
        }
    }
}
#endif
