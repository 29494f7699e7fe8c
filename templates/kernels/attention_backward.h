/* What both kernels of the backward pass have: tiles of as many queries as keys, and of a score
 * its weight and its gradient. */
#pragma once
#include "prelude.h"
#include "attention.h"

#if WITH_LENGTHS
#define LENGTHS const int *__restrict__ lengths,
#define LENGTH_OF(sample) lengths[sample]
#else
#define LENGTHS
#define LENGTH_OF(sample) static_cast<int>(KEYS)
#endif

constexpr unsigned TILE = TILE_ROWS;
/* fours of a work-item in a row of queries or keys */
constexpr unsigned EACH_KEY = (FOURS + SLICES - 1) / SLICES;
static_assert(TILE_ROWS == TILE_KEYS && LANES == SLICES && R == C);

struct Slope {
    float weight, score; /* of a value; of a score: the loss's gradient */
};
/* The product of a query and a key, and that of a value with the gradient of what it is added
 * to. `total` is the same of what it is added to itself. */
static __device__ __forceinline__ Slope slope_of(
    float product, float of_value, float lse, float total, bool is_seen)
{
    const float weight = fast_exp2(is_seen ? score_of(product) - lse * LOG2_E : hidden());
    float score = weight * (of_value - total);
    if constexpr (CAP > 0.0f) {
        const float t = bent(product * (SCALE / (CAP > 0.0f ? CAP : 1.0f)));
        score *= fused(-t, t, 1.0f);
    }
    return Slope{weight, score};
}

/* Adds the product of a tile of slopes and a tile of rows: first by itself, so that sums stay
 * short. */
template <unsigned N, unsigned WIDE>
static __device__ __forceinline__ void add_product(
    float4 (&sum)[R][N], const float* slopes, const float* rows, unsigned lane, unsigned slice)
{
    float4 more[R][N] = {};
    multiply<R, N, TILE, WIDE>(more, slopes, lane, LANES, rows, slice, SLICES);
#pragma unroll
    for (unsigned i = 0; i < R; i++)
#pragma unroll
        for (unsigned j = 0; j < N; j++)
            add_multiple(sum[i][j], 1.0f, more[i][j]);
}
