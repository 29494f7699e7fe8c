/* A matrix product, y = x w^T, of numbers that share scales: M x N results, each a sum of K
 * products. Numbers become float32 as they are loaded, times their scales. Where k is cut into
 * chunks, work-groups leave partial sums. */
#include "prelude.h"
#include "fragment.h"
#include "scales.h"
#include "constants/scaled_fc.h"
#include "constants/tile.h"

constexpr const unsigned* left_scales = nullptr; /* stands for a parameter that it may lack */

/* EXTENT rows as an operand, of which a tile has PART. They lie along k, whatever the tile is: each
 * load takes four elements. */
template <class Number, class Scale, unsigned GROUP, unsigned ROWS_OF_SCALE, unsigned EXTENT,
    unsigned PART>
struct Scaled {
    using Element = float;
    static constexpr unsigned WIDTH = 4;
    static constexpr Along ALONG = Along::K;
    const unsigned* __restrict__ numbers;
    const Scale* __restrict__ scales;

    struct Line {
        const unsigned* numbers;
        const Scale* scales;
        unsigned row, k;

        __device__ __forceinline__ float4 load(unsigned step) const
        {
            if (K % TILE_K != 0 && step + k >= K)
                return {};
            const float4 four = numbers4<Number>(numbers, row * K + step + k);
            if constexpr (GROUP > 0)
                return scaled(four, scales, row / ROWS_OF_SCALE * (K / GROUP) + (step + k) / GROUP);
            return four;
        }
    };
    __device__ __forceinline__ Line line(unsigned at, unsigned apart, unsigned k) const
    {
        /* Beyond the end it loads the last row: those results are not stored. */
        const unsigned row = EXTENT % PART == 0 || at + apart < EXTENT ? at + apart : EXTENT - 1;
        return Line{numbers, scales, row, k};
    }
};
using Cut = Tile<TILE_M, TILE_N, TILE_K, ITEM_M, ITEM_N, AHEAD>;
using Left = Scaled<LeftNumber, LeftScale, LEFT_GROUP, 1, M, TILE_M>;
using Right = Scaled<RightNumber, RightScale, RIGHT_GROUP, SHARING, N, TILE_N>;
using Tiled = Product<Cut, Left, Right, Fragment<Cut>>;

extern "C" __global__ __launch_bounds__(BLOCK + MOVERS, LAUNCH_GROUPS) void KERNEL(
    const unsigned* __restrict__ x, const unsigned* __restrict__ w,
#if WITH_LEFT_SCALES
    const LeftScale* __restrict__ left_scales,
#endif
    const RightScale* __restrict__ right_scales, Element* __restrict__ y)
{
    alignas(16) __shared__ float a_tiles[Tiled::A_SIZE];
    alignas(16) __shared__ float b_tiles[Tiled::B_SIZE];
    const unsigned row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    const unsigned first = SPLITS > 1 ? blockIdx.z * CHUNK : 0;
    const unsigned last = K % CHUNK == 0 || first + CHUNK < K ? first + CHUNK : K;
    float sum[ITEM_M][ITEM_N] = {};
    Tiled::multiply(Left{x, reinterpret_cast<const LeftScale*>(left_scales)},
        Right{w, right_scales}, row, column, first, last, a_tiles, b_tiles, sum);
    Element* to = y + (SPLITS > 1 ? blockIdx.z : 0) * (M * N);
#pragma unroll
    for (unsigned i = 0; i < ITEM_M; i++) {
        const unsigned m = row + Tiled::row(i);
        if (M % TILE_M != 0 && m >= M)
            continue;
#pragma unroll
        for (unsigned j = 0; j < ITEM_N; j += STORE_WIDTH) {
            const unsigned n = column + Tiled::column(j);
            if (N % TILE_N == 0 || n < N)
                store_vector<STORE_WIDTH>(to + (m * N + n), sum[i] + j);
        }
    }
}
