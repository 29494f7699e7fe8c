/* The gradient of a tile of queries, over tiles of keys; and of each query dy . y, for the
 * gradients of keys. */
#include "prelude.h"
#include "attention_backward.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ q,
    const Cached* __restrict__ k, const Cached* __restrict__ v,
    LENGTHS const Element* __restrict__ dy, const Element* __restrict__ y,
    const float* __restrict__ lse, float* __restrict__ totals, Element* __restrict__ dq)
{
    alignas(16) __shared__ float queries[TILE * stride_of(FOURS)];
    alignas(16) __shared__ float slopes[TILE * stride_of(VALUE_FOURS)]; /* dy */
    alignas(16) __shared__ float keys[TILE * stride_of(FOURS)];
    alignas(16) __shared__ float values[TILE * stride_of(VALUE_FOURS)];
    alignas(16) __shared__ float scores[TILE * WEIGHTS_STRIDE]; /* their gradients */
    const unsigned lane = threadIdx.x / SLICES, slice = threadIdx.x % SLICES;
    const unsigned head = blockIdx.y, row0 = blockIdx.x * TILE;
    const unsigned rows = ROWS - row0 < TILE ? ROWS - row0 : TILE;
    const int have = LENGTH_OF(head / KV_HEADS);
    const Seen seen = Seen::of_rows(row0, rows, have);

    const auto value_row = [&](unsigned row) { return (head * ROWS + row0 + row) * VALUE_DIM; };
    fill<TILE, DIM>(
        queries, q, rows, [&](unsigned row) { return (head * ROWS + row0 + row) * DIM; });
    fill<TILE, VALUE_DIM>(slopes, dy, rows, value_row);
    fill<TILE, VALUE_DIM>(values, y, rows, value_row);
    __syncthreads();
    float total[R], own[R];
    float4 sum[R][EACH_KEY] = {};
#pragma unroll
    for (unsigned i = 0; i < R; i++) {
        const unsigned row = lane + i * LANES;
        float one[1][1]; /* every work-item of a row has it */
        multiply_rows<1, 1, VALUE_FOURS>(one, slopes, row, 1, values, row, 1);
        total[i] = one[0][0];
        own[i] = row < rows ? lse[head * ROWS + row0 + row] : 0.0f;
        if (slice == 0 && row < rows)
            totals[head * ROWS + row0 + row] = total[i];
    }

    const int start =
        seen.first > 0 ? seen.first / static_cast<int>(TILE) * static_cast<int>(TILE) : 0;
    for (int key0 = start; key0 < seen.last; key0 += TILE) {
        const unsigned many = seen.last - key0;
        __syncthreads();
        fill<TILE, DIM>(
            keys, k, many, [&](unsigned key) { return (head * KEYS + key0 + key) * DIM; });
        fill<TILE, VALUE_DIM>(
            values, v, many, [&](unsigned key) { return (head * KEYS + key0 + key) * VALUE_DIM; });
        __syncthreads();
        float product[R][C], of_value[R][C];
        multiply_rows<R, C, FOURS>(product, queries, lane, LANES, keys, slice, SLICES);
        multiply_rows<R, C, VALUE_FOURS>(of_value, slopes, lane, LANES, values, slice, SLICES);
#pragma unroll
        for (unsigned i = 0; i < R; i++) {
            const unsigned query = (row0 + lane + i * LANES) % QUERIES;
            const Seen these(query, query, have);
#pragma unroll
            for (unsigned j = 0; j < C; j++) {
                const Slope made = slope_of(product[i][j], of_value[i][j], own[i], total[i],
                    these.has(key0 + slice + j * SLICES));
                scores[(lane + i * LANES) * WEIGHTS_STRIDE + slice + j * SLICES] = made.score;
            }
        }
        __syncthreads();
        add_product<EACH_KEY, FOURS>(sum, scores, keys, lane, slice);
    }
#pragma unroll
    for (unsigned i = 0; i < R; i++)
        if (lane + i * LANES < rows)
            finish<DIM>(dq, head * ROWS + row0 + lane + i * LANES, sum[i], slice, SCALE);
}

#undef LENGTHS
#undef LENGTH_OF
