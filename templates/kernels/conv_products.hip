/* The products of convolutions that transform tiles: for each of PLACES places of a transformed
 * tile and each group, products (m, n) = the sum over k of left (m, k) and right (k, n), which
 * lies as [k][n] or [n][k]. Where k is cut into chunks, the products of one chunk lie behind
 * those of the one before. BY_COMPLEX: M and K count real and imaginary parts, and left has half
 * as many rows (complex.h). */
#include "prelude.h"
#include "fragment.h"
#include "complex.h"
#include "constants/tile.h"
#include "constants/conv_products.h"

/* A matrix as an operand: EXTENT rows along k, or K rows along EXTENT; a tile has PART of it. */
template <unsigned EXTENT, unsigned PART, Along LIES, unsigned ELEMENTS>
struct Matrix {
    using Element = float;
    static constexpr unsigned WIDTH = ELEMENTS;
    static constexpr Along ALONG = LIES;
    static constexpr bool ALONG_K = ALONG == Along::K;
    const float* __restrict__ matrix;

    struct Line {
        const float* first;
        unsigned k;

        __device__ __forceinline__ Vector<float, WIDTH> load(unsigned step) const
        {
            if (K % TILE_K != 0 && step + k >= K)
                return {};
            if constexpr (ALONG_K)
                return vector_at<WIDTH>(first + step + k);
            else
                return vector_at<WIDTH>(first + (step + k) * EXTENT);
        }
    };
    __device__ __forceinline__ Line line(unsigned at, unsigned apart, unsigned k) const
    {
        unsigned place = at + apart;
        if constexpr (EXTENT % PART != 0)
            place = place < EXTENT ? place : EXTENT - (ALONG_K ? 1 : WIDTH); /* not stored */
        return Line{matrix + (ALONG_K ? place * K : place), k};
    }
};
constexpr unsigned ROWS = BY_COMPLEX ? M / 2 : M; /* of left */
using Left = Matrix<ROWS, BY_COMPLEX ? TILE_M / 2 : TILE_M, LEFT_ALONG, LEFT_WIDTH>;
using Right = Matrix<N, TILE_N, RIGHT_ALONG, RIGHT_WIDTH>;
using Cut = Either<BY_COMPLEX, ComplexTile<TILE_M, TILE_N, TILE_K, ITEM_M, ITEM_N, AHEAD>,
    Tile<TILE_M, TILE_N, TILE_K, ITEM_M, ITEM_N, AHEAD>>;
using Multiplied = Either<BY_COMPLEX, ComplexScalars<Cut>, Fragment<Cut>>;
using Tiled = Product<Cut, Left, Right, Multiplied>;
/* of a work-item's columns, so many at once */
constexpr unsigned STORED = ITEM_N / STORE_WIDTH * STORE_WIDTH;

extern "C" __global__ __launch_bounds__(BLOCK, LAUNCH_GROUPS) void KERNEL(
    const float* __restrict__ left, const float* __restrict__ right, float* __restrict__ products)
{
    alignas(16) __shared__ Tiled::A::Element a_tiles[Tiled::A_SIZE];
    alignas(16) __shared__ Tiled::B::Element b_tiles[Tiled::B_SIZE];
    const unsigned row = blockIdx.y * TILE_M;
    const unsigned column = blockIdx.x * TILE_N;
    const unsigned place = SPLITS > 1 ? blockIdx.z % (PLACES * GROUPS) : blockIdx.z; /* and group */
    const unsigned first = SPLITS > 1 ? blockIdx.z / (PLACES * GROUPS) * CHUNK : 0;
    const unsigned last = K % CHUNK == 0 || first + CHUNK < K ? first + CHUNK : K;
    float sum[ITEM_M][ITEM_N] = {};
    Tiled::multiply(Left{left + place * (ROWS * K)}, Right{right + place * (K * N)},
        BY_COMPLEX ? row / 2 : row, column, first, last, a_tiles, b_tiles, sum);

#pragma unroll
    for (unsigned i = 0; i < ITEM_M; i++) {
        const unsigned m = row + Tiled::row(i);
        if (M % TILE_M != 0 && m >= M)
            continue;
        float* out = products + (blockIdx.z * M + m) * N;
#pragma unroll
        for (unsigned j = 0; j < STORED; j += STORE_WIDTH) {
            const unsigned n = column + Tiled::column(j);
            if (N % TILE_N != 0 && n >= N)
                continue;
            store_vector<STORE_WIDTH>(out + n, sum[i] + j);
        }
#pragma unroll
        for (unsigned j = STORED; j < ITEM_N; j++) {
            const unsigned n = column + Tiled::column(j);
            if (N % TILE_N == 0 || n < N)
                out[n] = sum[i][j];
        }
    }
}
