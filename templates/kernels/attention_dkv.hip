/* The gradients of a tile of keys and their values, over tiles of the queries that see one of
 * them. */
#include "prelude.h"
#include "attention_backward.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ q,
    const Cached* __restrict__ k, const Cached* __restrict__ v,
    LENGTHS const Element* __restrict__ dy, const float* __restrict__ lse,
    const float* __restrict__ totals, Cached* __restrict__ dk, Cached* __restrict__ dv)
{
    alignas(16) __shared__ float queries[TILE * stride_of(FOURS)];
    alignas(16) __shared__ float slopes[TILE * stride_of(VALUE_FOURS)]; /* dy */
    alignas(16) __shared__ float keys[TILE * stride_of(FOURS)];
    alignas(16) __shared__ float values[TILE * stride_of(VALUE_FOURS)];
    alignas(16) __shared__ float weights[TILE * WEIGHTS_STRIDE]; /* by keys */
    alignas(16) __shared__ float scores[TILE * WEIGHTS_STRIDE]; /* their gradients, by keys */
    const unsigned lane = threadIdx.x / SLICES, slice = threadIdx.x % SLICES;
    const unsigned head = blockIdx.y, key0 = blockIdx.x * TILE;
    const unsigned many = KEYS - key0 < TILE ? KEYS - key0 : TILE;
    const int have = LENGTH_OF(head / KV_HEADS);

    fill<TILE, DIM>(keys, k, many, [&](unsigned key) { return (head * KEYS + key0 + key) * DIM; });
    fill<TILE, VALUE_DIM>(
        values, v, many, [&](unsigned key) { return (head * KEYS + key0 + key) * VALUE_DIM; });
    float4 of_keys[R][EACH_KEY] = {}, of_values[R][EACH] = {};

    for (unsigned row0 = 0; row0 < ROWS; row0 += TILE) {
        const unsigned rows = ROWS - row0 < TILE ? ROWS - row0 : TILE;
        const Seen seen = Seen::of_rows(row0, rows, have);
        if (seen.last <= static_cast<int>(key0) || seen.first >= static_cast<int>(key0 + TILE))
            continue;
        __syncthreads();
        fill<TILE, DIM>(
            queries, q, rows, [&](unsigned row) { return (head * ROWS + row0 + row) * DIM; });
        fill<TILE, VALUE_DIM>(
            slopes, dy, rows, [&](unsigned row) { return (head * ROWS + row0 + row) * VALUE_DIM; });
        __syncthreads();
        float product[R][C], of_value[R][C];
        multiply_rows<R, C, FOURS>(product, keys, lane, LANES, queries, slice, SLICES);
        multiply_rows<R, C, VALUE_FOURS>(of_value, values, lane, LANES, slopes, slice, SLICES);
#pragma unroll
        for (unsigned j = 0; j < C; j++) {
            const unsigned row = row0 + slice + j * SLICES,
                           at = head * ROWS + (row < ROWS ? row : 0), query = row % QUERIES;
            const Seen these(query, query, have);
            const float own = lse[at], total = totals[at];
#pragma unroll
            for (unsigned i = 0; i < R; i++) {
                const bool is_seen = row < ROWS && these.has(key0 + lane + i * LANES);
                const Slope made = slope_of(product[i][j], of_value[i][j], own, total, is_seen);
                weights[(lane + i * LANES) * WEIGHTS_STRIDE + slice + j * SLICES] = made.weight;
                scores[(lane + i * LANES) * WEIGHTS_STRIDE + slice + j * SLICES] = made.score;
            }
        }
        __syncthreads();
        add_product<EACH, VALUE_FOURS>(of_values, weights, slopes, lane, slice);
        add_product<EACH_KEY, FOURS>(of_keys, scores, queries, lane, slice);
    }
#pragma unroll
    for (unsigned i = 0; i < R; i++)
        if (lane + i * LANES < many) {
            finish<DIM>(dk, head * KEYS + key0 + lane + i * LANES, of_keys[i], slice, SCALE);
            finish<VALUE_DIM>(dv, head * KEYS + key0 + lane + i * LANES, of_values[i], slice, 1.0f);
        }
}

#undef LENGTHS
#undef LENGTH_OF
