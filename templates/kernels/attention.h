/* Tiles of attention in LDS, and products of them. A tile has rows of the same length, filled up
 * with zeros to fours; STRIDE lies between them, so that neighbouring rows begin in other banks. */
#pragma once
#include "prelude.h"
#include "constants/attention.h"

constexpr float LOG2_E = 1.44269504f;
constexpr float LN_2 = 0.69314718f;
constexpr unsigned FOURS = (DIM + 3) / 4, VALUE_FOURS = (VALUE_DIM + 3) / 4;
constexpr unsigned LANES = BLOCK / SLICES;
constexpr unsigned R = TILE_ROWS / LANES; /* rows of a work-item: lane, lane + LANES, ... */
constexpr unsigned C = TILE_KEYS / SLICES; /* its keys: slice, slice + SLICES, ... */
constexpr unsigned EACH = (VALUE_FOURS + SLICES - 1) / SLICES; /* fours of its results in a row */
constexpr unsigned WEIGHTS_STRIDE = TILE_KEYS + 4;
static constexpr __device__ __forceinline__ unsigned stride_of(unsigned fours)
{
    return 4 * fours + 4;
}

/* -inf: its exponential is 0 */
static __device__ __forceinline__ float hidden() { return as_float(0xff800000u); }
constexpr float FLOOR = -1e30f; /* peak of a row that has seen no key */

/* Where a key's or value's row begins. Pages have the heads of a token side by side, and a
 * sample's table says which are its own. */
template <unsigned LENGTH>
static __device__ __forceinline__ unsigned key_at(const int* table, unsigned head, unsigned key)
{
    constexpr unsigned SIZE = PAGE > 0 ? PAGE : KEYS;
    if constexpr (PAGE == 0)
        return (head * KEYS + key) * LENGTH;
    const unsigned page = table[head / KV_HEADS * (KEYS / SIZE) + key / SIZE];
    return ((page * SIZE + key % SIZE) * KV_HEADS + head % KV_HEADS) * LENGTH;
}

/* Four elements of a row, of which there are LENGTH. */
template <unsigned LENGTH, class T>
static __device__ __forceinline__ float4 four_of(const T* tensor, unsigned row, unsigned column)
{
    if constexpr (LENGTH % 4 == 0)
        return load4(tensor + row + column);
    float values[4];
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        values[i] =
            column + i < LENGTH ? load(tensor, row + (column + i < LENGTH ? column + i : 0)) : 0.0f;
    return float4{values[0], values[1], values[2], values[3]};
}

/* Fills a tile with TILE rows; those from `rows` on are 0. `at` says where a row begins. */
template <unsigned TILE, unsigned LENGTH, class T, class At>
static __device__ __forceinline__ void fill(float* tile, const T* tensor, unsigned rows, At at)
{
    constexpr unsigned WIDE = (LENGTH + 3) / 4, SIZE = TILE * WIDE;
    constexpr unsigned AT_ONCE = LENGTH % 4 == 0 ? 16 : 2; /* what registers hold */
#pragma unroll AT_ONCE
    for (unsigned first = 0; first < SIZE; first += BLOCK) {
        const unsigned i = first + threadIdx.x, row = i / WIDE, column = i % WIDE * 4;
        if (SIZE % BLOCK == 0 || i < SIZE)
            store4(tile + row * stride_of(WIDE) + column,
                row < rows ? four_of<LENGTH>(tensor, at(row), column)
                           : float4{0.0f, 0.0f, 0.0f, 0.0f});
    }
}

/* Stores `factor` times a work-item's part of a row of LENGTH results. */
template <unsigned LENGTH, unsigned N, class T>
static __device__ __forceinline__ void finish(
    T* to, unsigned row, const float4 (&y)[N], unsigned slice, float factor)
{
#pragma unroll
    for (unsigned j = 0; j < N; j++) {
        const unsigned column = (slice + j * SLICES) * 4;
        const float4 made{y[j].x * factor, y[j].y * factor, y[j].z * factor, y[j].w * factor};
        if constexpr (LENGTH % 4 == 0) {
            if (column < LENGTH)
                store4(to + row * LENGTH + column, made);
        } else {
            const float values[4] = {made.x, made.y, made.z, made.w};
#pragma unroll
            for (unsigned i = 0; i < 4; i++)
                if (column + i < LENGTH)
                    store(to, row * LENGTH + column + i, values[i]);
        }
    }
}

/* c[i][j] = the product of row `first + i apart` of a with row `begin + j distance` of b. */
template <unsigned M, unsigned N, unsigned WIDE>
static __device__ __forceinline__ void multiply_rows(float (&c)[M][N], const float* a,
    unsigned first, unsigned apart, const float* b, unsigned begin, unsigned distance)
{
#pragma unroll
    for (unsigned i = 0; i < M; i++)
#pragma unroll
        for (unsigned j = 0; j < N; j++)
            c[i][j] = 0.0f;
#pragma unroll 2
    for (unsigned k = 0; k < 4 * WIDE; k += 4) {
        float4 rows[M];
#pragma unroll
        for (unsigned i = 0; i < M; i++)
            rows[i] = load4(a + (first + i * apart) * stride_of(WIDE) + k);
#pragma unroll
        for (unsigned j = 0; j < N; j++) {
            const float4 row = load4(b + (begin + j * distance) * stride_of(WIDE) + k);
#pragma unroll
            for (unsigned i = 0; i < M; i++)
                c[i][j] = fused(rows[i].w, row.w,
                    fused(rows[i].z, row.z,
                        fused(rows[i].y, row.y, fused(rows[i].x, row.x, c[i][j]))));
        }
    }
}

static __device__ __forceinline__ void add_multiple(float4& sum, float factor, const float4& x)
{
    sum = float4{fused(factor, x.x, sum.x), fused(factor, x.y, sum.y), fused(factor, x.z, sum.z),
        fused(factor, x.w, sum.w)};
}

/* sum[i][j] += row `first + i apart` of a, of LENGTH elements, times fours `begin + j distance`
 * of b's rows. */
template <unsigned M, unsigned N, unsigned LENGTH, unsigned WIDE>
static __device__ __forceinline__ void multiply(float4 (&sum)[M][N], const float* a, unsigned first,
    unsigned apart, const float* b, unsigned begin, unsigned distance)
{
    /* what registers hold */
    constexpr unsigned AT_ONCE = N > 4 ? 1 : N > 1 || LENGTH > 32 ? 2 : LENGTH / 4;
#pragma unroll AT_ONCE
    for (unsigned k = 0; k < LENGTH; k += 4) {
        float4 factors[M];
#pragma unroll
        for (unsigned i = 0; i < M; i++)
            factors[i] = load4(a + (first + i * apart) * (LENGTH + 4) + k);
#pragma unroll
        for (unsigned j = 0; j < N; j++) {
            if (WIDE % distance != 0 && begin + j * distance >= WIDE)
                continue;
            const float* from = b + k * stride_of(WIDE) + (begin + j * distance) * 4;
            const float4 rows[4] = {load4(from), load4(from + stride_of(WIDE)),
                load4(from + 2 * stride_of(WIDE)), load4(from + 3 * stride_of(WIDE))};
#pragma unroll
            for (unsigned i = 0; i < M; i++) {
                add_multiple(sum[i][j], factors[i].x, rows[0]);
                add_multiple(sum[i][j], factors[i].y, rows[1]);
                add_multiple(sum[i][j], factors[i].z, rows[2]);
                add_multiple(sum[i][j], factors[i].w, rows[3]);
            }
        }
    }
}

/* tanh, by its Taylor polynomial where the difference would cancel. */
static __device__ __forceinline__ float bent(float x)
{
    const float square = x * x;
    const float far = fused(-2.0f, fast_rcp(1.0f + fast_exp2(x * (2.0f * LOG2_E))), 1.0f);
    const float series = fused(square,
        fused(
            square, fused(square, fused(square, 62.0f / 2835, -17.0f / 315), 2.0f / 15), -1.0f / 3),
        1.0f);
    return square < 0.0625f ? x * series : far;
}

/* The score that a product of a query and a key makes, in units of log 2; or the same hidden. */
static __device__ __forceinline__ float score_of(float product)
{
    if constexpr (CAP > 0.0f)
        return bent(product * (SCALE / (CAP > 0.0f ? CAP : 1.0f))) * (CAP * LOG2_E);
    return product * (SCALE * LOG2_E);
}

/* Keys that queries see: from `first`, or from 0 if that is less, to `last` - 1. Of the last
 * query, the last key is its own. */
struct Seen {
    int first, last;
    /* From the query `low` to the query `high`, of so many keys. */
    __device__ __forceinline__ Seen(int low, int high, int keys)
    {
        const int before = keys - static_cast<int>(QUERIES); /* keys that all queries see */
        first = WINDOW ? low + before + 1 - static_cast<int>(WINDOW) : 0;
        last = CAUSAL && high + before + 1 < keys ? high + before + 1 : keys;
    }
    /* What a tile of `rows` rows sees: of one head its queries, of several all queries. */
    static __device__ __forceinline__ Seen of_rows(unsigned row0, unsigned rows, int keys)
    {
        const unsigned end = row0 + rows - 1;
        const bool one = row0 / QUERIES == end / QUERIES;
        return Seen(one ? row0 % QUERIES : 0, one ? end % QUERIES : QUERIES - 1, keys);
    }
    __device__ __forceinline__ bool has(int key) const { return key >= first && key < last; }
};
