/* Products of attention's tiles by matrix instructions of 16-bit factors: scores of queries and
 * keys, and sums of weighted values. Results lie as mma.sync has them: a lane has of the rows
 * l / 4 and 8 + l / 4 of each 16 the columns 2 (l % 4) and 2 (l % 4) + 1 of each 8. Weights are
 * the first factor of the second product where the scores were, rounded to the type of values. */
#pragma once
#include "staged.h"
#include "attention.h"
#include "constants/attention_matrix.h"

#ifndef __AMDGCN__
/* A tile of rows in LDS: panels of 64 columns, in rows of 128 bytes, whose pieces of 16 bytes
 * lie as staged.h says. Columns are filled up with zeros to so many AT_ONCE. */
template <unsigned ROW_COUNT, unsigned LENGTH, unsigned AT_ONCE = 16>
struct Panels {
    static constexpr unsigned COLUMNS = (LENGTH + AT_ONCE - 1) / AT_ONCE * AT_ONCE;
    static constexpr unsigned PANEL = ROW_COUNT * 128, NBYTES = (COLUMNS + 63) / 64 * PANEL;
    static constexpr unsigned PIECES = COLUMNS / 8; /* of a row */
    static_assert(LENGTH % 8 == 0);

    static __device__ __forceinline__ unsigned place(unsigned row, unsigned column)
    {
        return column / 64 * PANEL + row * 128 + (column % 64 / 8 ^ row % 8) * 16;
    }
    /* The same of a lane's row and one of the first 16 columns, and then of columns `further` on,
     * a multiple of 16 that the compiler knows: one instruction. */
    static __device__ __forceinline__ unsigned further(unsigned first, unsigned further)
    {
        return (first ^ further % 64 * 2) + further / 64 * PANEL;
    }
    /* Has the rows moved there of which there are `rows`; `at` says where one begins. */
    template <class Stored, class At>
    static __device__ __forceinline__ void bring(
        unsigned char* tile, const Stored* tensor, unsigned rows, At at)
    {
        constexpr unsigned ALL = ROW_COUNT * PIECES;
#pragma unroll
        for (unsigned first = 0; first < ALL; first += BLOCK) {
            const unsigned i = first + threadIdx.x, row = i / PIECES, column = i % PIECES * 8;
            if (ALL % BLOCK != 0 && i >= ALL)
                continue;
            const bool zeros = row >= rows || (COLUMNS != LENGTH && column >= LENGTH);
            const unsigned from = at(zeros ? 0 : row) + (zeros ? 0 : column);
            move_piece(
                tile + place(row, column), reinterpret_cast<const char*>(tensor + from), zeros);
        }
    }
};
using QueryPanels = Panels<TILE_ROWS, DIM>;
using KeyPanels = Panels<TILE_KEYS, DIM>;
/* columns that wgmma multiplies at once are 64, 128 or 256 */
using ValuePanels =
    Panels<TILE_KEYS, VALUE_DIM, (!TENSOR_MAPS ? 16 : VALUE_DIM > 128 ? 256 : 64)>;
constexpr unsigned VALUE_COLUMNS = ValuePanels::COLUMNS;
constexpr unsigned OF_ROW = TILE_KEYS / 4, OF_VALUE = VALUE_COLUMNS / 4; /* results of a lane */
static_assert(
    sizeof(Element) == 4 || (SLICES == 4 && R == 2 * DOWN && BLOCK == TILE_ROWS / DOWN * 2));

static __device__ __forceinline__ unsigned matrix_row(unsigned i)
{
    return threadIdx.x / 32 * (16 * DOWN) + i / 2 * 16 + i % 2 * 8 + threadIdx.x % 32 / 4;
}
static __device__ __forceinline__ unsigned matrix_column(unsigned j)
{
    return j / 2 * 8 + threadIdx.x % 4 * 2 + j % 2;
}

/* The value of another of the 4 lanes that share a row. */
static __device__ __forceinline__ float of_lane(float value, unsigned apart)
{
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
    float other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=f"(other) : "f"(value), "r"(apart));
    return other;
#else
    __shared__ float given[BLOCK];
    given[threadIdx.x] = value;
    __syncthreads();
    const float other = given[threadIdx.x ^ apart];
    __syncthreads();
    return other;
#endif
}

/* Weights of a lane as factors: of each 16 keys, row l / 4, row 8 + l / 4, and both further on. */
struct Weights {
    unsigned words[DOWN][TILE_KEYS / 16][4];

    __device__ __forceinline__ void round(const float (&weights)[R][OF_ROW])
    {
#pragma unroll
        for (unsigned i = 0; i < DOWN; i++)
#pragma unroll
            for (unsigned j = 0; j < TILE_KEYS / 16; j++)
#pragma unroll
                for (unsigned word = 0; word < 4; word++)
                    put_two(reinterpret_cast<Element*>(&words[i][j][word]),
                        weights[2 * i + word % 2] + 4 * j + word / 2 * 2);
    }
};

/* By mma.sync: warps multiply their own rows by what all have moved to LDS. While one product is
 * made, the factor of the next is on its way: bring_keys(key0, to) and bring_values(key0, to) have
 * a tile moved. */
constexpr unsigned OF_WARPS_NBYTES =
    QueryPanels::NBYTES + KeyPanels::NBYTES + ValuePanels::NBYTES;
template <class BringKeys, class BringValues>
struct OfWarps {
    using Cut = Tile<TILE_ROWS, 16, 16, 2 * DOWN, 4, false>;
    using Fragment = StagedMma<Cut, Element, false>;

    unsigned char *queries, *keys, *values;
    unsigned query, key, value; /* where a lane's rows begin that it reads */
    int key0;
    const BringKeys& bring_keys;
    const BringValues& bring_values;

    __device__ __forceinline__ OfWarps(
        unsigned char* lds, int first, const BringKeys& keys_of, const BringValues& values_of)
        : queries(lds), keys(lds + QueryPanels::NBYTES), values(keys + KeyPanels::NBYTES),
          key0(first), bring_keys(keys_of), bring_values(values_of)
    {
        const unsigned lane = Fragment::lane();
        query = QueryPanels::place(Fragment::warp_row() + lane % 16, lane / 16 * 8);
        key = KeyPanels::place(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
        value = ValuePanels::place(lane / 8 % 2 * 8 + lane % 8, lane / 16 * 8);
    }
    template <unsigned N>
    static __device__ __forceinline__ void multiply_into(
        float (&sums)[R][N], unsigned first, const Fragment& factors)
    {
        Cut::Sum sum;
#pragma unroll
        for (unsigned i = 0; i < R; i++)
#pragma unroll
            for (unsigned j = 0; j < 4; j++)
                sum[i][j] = sums[i][first + j];
        factors.multiply(sum);
#pragma unroll
        for (unsigned i = 0; i < R; i++)
#pragma unroll
            for (unsigned j = 0; j < 4; j++)
                sums[i][first + j] = sum[i][j];
    }
    /* The scores of a tile; then more of them by next(). The keys are on their way. */
    __device__ __forceinline__ void begin(float (&scores)[R][OF_ROW])
    {
        arrived<0>();
        __syncthreads(); /* all have used the values before */
        bring_values(key0, values);
        end_group();
#pragma unroll
        for (unsigned i = 0; i < R; i++)
#pragma unroll
            for (unsigned j = 0; j < OF_ROW; j++)
                scores[i][j] = 0.0f;
#pragma unroll
        for (unsigned k = 0; k < KeyPanels::COLUMNS; k += 16) {
            Fragment factors;
#pragma unroll
            for (unsigned i = 0; i < DOWN; i++)
                factors.left[i] = Fragment::rows_at(reinterpret_cast<const Element*>(
                    queries + QueryPanels::further(query, k) + i * (16 * 128)));
#pragma unroll
            for (unsigned j = 0; j < TILE_KEYS; j += 16) {
                factors.right[0] = Fragment::rows_at(reinterpret_cast<const Element*>(
                    keys + KeyPanels::further(key, k) + j * 128));
                multiply_into(scores, j / 4, factors);
            }
        }
    }
    /* Adds weighted values to y, and makes the next scores. */
    __device__ __forceinline__ void next(
        float (&scores)[R][OF_ROW], float (&y)[R][OF_VALUE], const Weights& weights)
    {
        arrived<0>();
        __syncthreads(); /* all have used the keys before */
        key0 += TILE_KEYS;
        bring_keys(key0, keys);
        end_group();
        add_values(y, weights);
        begin(scores);
    }
    __device__ __forceinline__ void added(float (&)[R][OF_VALUE]) const {}
    /* As next(), without more scores. */
    __device__ __forceinline__ void end(float (&y)[R][OF_VALUE], const Weights& weights)
    {
        arrived<0>();
        __syncthreads();
        add_values(y, weights);
    }
    __device__ __forceinline__ void add_values(
        float (&y)[R][OF_VALUE], const Weights& weights)
    {
#pragma unroll
        for (unsigned k = 0; k < TILE_KEYS; k += 16) {
            Fragment factors;
#pragma unroll
            for (unsigned i = 0; i < DOWN; i++)
#pragma unroll
                for (unsigned word = 0; word < 4; word++)
                    factors.left[i].words[word] = weights.words[i][k / 16][word];
#pragma unroll
            for (unsigned j = 0; j < VALUE_COLUMNS; j += 16) {
                factors.right[0] =
                    Fragment::turned(values + ValuePanels::further(value, j) + k * 128);
                multiply_into(y, j / 4, factors);
            }
        }
    }
};
#endif
