/* Products of complex numbers in tiles of real ones, by multiply-adds:
 *
 *     C(m, n) = sum over k of (a - i b)(m, k) (x + i y)(k, n)
 *
 * The real and the imaginary part of row m are rows 2 m and 2 m + 1 of what a kernel stores. As
 * a product of real matrices this were (a, b; -b, a) (x; y), two rows and two k for one: of the
 * left factor, a lies at 2 k and b at 2 k + 1 and neither is stored or read twice. What is added
 * to a sum, and in which order, is what the real product would add. */
#pragma once
#include "tile.h"

/* A tile of REAL_ROWS rows, two for each complex number: M, ITEM_M and what an operand loads of
 * the left factor are complex ones. */
template <unsigned REAL_ROWS, unsigned TILE_COLUMNS, unsigned TILE_DEPTH, unsigned ITEM_REAL_ROWS,
    unsigned ITEM_COLUMNS, bool READ_AHEAD>
struct ComplexTile
    : Tile<REAL_ROWS / 2, TILE_COLUMNS, TILE_DEPTH, ITEM_REAL_ROWS / 2, ITEM_COLUMNS, READ_AHEAD> {
    using Sum = float[ITEM_REAL_ROWS][ITEM_COLUMNS];
};

/* A fragment (tile.h). */
template <class Tile>
struct ComplexScalars {
    template <class Stored>
    using Held = float;
    static constexpr bool BY_ROW = false;
    static constexpr unsigned DEPTH = 2;
    using Lanes = Scalars<Tile>; /* which work-items take which places */

    /* Of the rows and columns of a work-item, RUN of which lie side by side: of columns by
     * fours, and what is left of them. */
    static constexpr unsigned RUN = Tile::ITEM_M < 4 ? Tile::ITEM_M : 4;
    static constexpr unsigned FOURS = Tile::ITEM_N / 4 * 4;
    static constexpr unsigned REST = Tile::ITEM_N % 4;
    static_assert(Tile::ITEM_M % RUN == 0 && REST != 3);

    float left[DEPTH][Tile::ITEM_M];
    float right[DEPTH][Tile::ITEM_N];

    static __device__ __forceinline__ unsigned complex_row(unsigned i)
    {
        return i / RUN * RUN * Tile::ITEMS_M + Lanes::item_row() * RUN + i % RUN;
    }
    static __device__ __forceinline__ unsigned row(unsigned i)
    {
        return 2 * complex_row(i / 2) + i % 2;
    }
    static __device__ __forceinline__ unsigned column(unsigned j)
    {
        return j < FOURS ? Lanes::column(j)
                         : FOURS * Tile::ITEMS_N + Lanes::item_column() * REST + j - FOURS;
    }

    static __device__ __forceinline__ unsigned first_left(unsigned) { return complex_row(0); }
    static __device__ __forceinline__ unsigned first_right(unsigned) { return column(0); }

    template <unsigned A_STRIDE, unsigned B_STRIDE>
    __device__ __forceinline__ void read(const float* a, const float* b)
    {
#pragma unroll
        for (unsigned k = 0; k < DEPTH; k++) {
#pragma unroll
            for (unsigned i = 0; i < Tile::ITEM_M; i += RUN)
                unpack(vector_at<RUN>(a + k * A_STRIDE + i * Tile::ITEMS_M), left[k] + i);
#pragma unroll
            for (unsigned j = 0; j < FOURS; j += 4)
                unpack(vector_at<4>(b + k * B_STRIDE + j * Tile::ITEMS_N), right[k] + j);
            if constexpr (REST != 0) {
                const unsigned rest = column(FOURS) - column(0);
                unpack(vector_at<REST>(b + k * B_STRIDE + rest), right[k] + FOURS);
            }
        }
    }
    __device__ __forceinline__ void multiply(typename Tile::Sum& sum) const
    {
#pragma unroll
        for (unsigned k = 0; k < DEPTH; k++) {
#pragma unroll
            for (unsigned part = 0; part < 2; part++)
#pragma unroll
                for (unsigned i = 0; i < Tile::ITEM_M; i++) {
                    const float factor = part == 0 ? left[k][i] : k == 0 ? -left[1][i] : left[0][i];
#pragma unroll
                    for (unsigned j = 0; j < Tile::ITEM_N; j++) {
                        float& total = sum[2 * i + part][j];
                        total = fused(factor, right[k][j], total);
                        pin(total);
                    }
                }
        }
        scheduling_fence();
    }
};
