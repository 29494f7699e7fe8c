/* Attention of a tile of queries over tiles of keys: y = softmax(scale q k^T) v, in one pass
 * over the keys (FlashAttention-2, algorithm 1).
 *
 * Rows are the queries of all heads that share a head of keys. What is known of a row: `peak`,
 * the largest score so far; `sum`, the sum of exp(score - peak), each work-item's part of it;
 * `y`, the sum of exp(score - peak) v. Where a tile has a larger score, both sums are multiplied
 * by exp(old peak - new peak). Scores are in units of log 2. */
#include "prelude.h"
#include "attention.h"

#if WITH_LENGTHS
#define LENGTHS const int *__restrict__ lengths,
#define LENGTH_OF(sample) lengths[sample]
#else
#define LENGTHS
#define LENGTH_OF(sample) static_cast<int>(KEYS)
#endif
#if WITH_TABLE
#define TABLE const int *__restrict__ table,
#else
#define TABLE
#endif
#if WITH_MASK
#define MASK const Element *__restrict__ mask,
#else
#define MASK
#endif
#if WITH_SINKS
#define SINKS const float *__restrict__ sinks,
#else
#define SINKS
#endif
#if WITH_PARTS /* sums of this chunk of the keys, and the peaks that they have */
#define RESULTS float *__restrict__ peaks, float *__restrict__ sums, float *__restrict__ parts
#else
#define RESULTS float *__restrict__ lse, Element *__restrict__ results
#endif

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ q,
    const Cached* __restrict__ k, const Cached* __restrict__ v, LENGTHS TABLE MASK SINKS RESULTS)
{
    constexpr unsigned WIDER = FOURS > VALUE_FOURS ? FOURS : VALUE_FOURS;
    alignas(16) __shared__ float queries[TILE_ROWS * stride_of(FOURS)];
    alignas(16) __shared__ float tile[TILE_KEYS * stride_of(WIDER)]; /* of keys, then of values */
    alignas(16) __shared__ float weights[TILE_ROWS * WEIGHTS_STRIDE];
    alignas(16) __shared__ float partial[TILE_ROWS * SLICES];
#if !WITH_TABLE
    const int* table = nullptr;
#endif
    const unsigned lane = threadIdx.x / SLICES, slice = threadIdx.x % SLICES;
    const unsigned head = blockIdx.y, row0 = blockIdx.x * TILE_ROWS;
    const unsigned rows = ROWS - row0 < TILE_ROWS ? ROWS - row0 : TILE_ROWS;
    const int keys = LENGTH_OF(head / KV_HEADS);
    const Seen seen = Seen::of_rows(row0, rows, keys);
    const int begin = blockIdx.z * CHUNK;
    const int end =
        seen.last < begin + static_cast<int>(CHUNK) ? seen.last : begin + static_cast<int>(CHUNK);
    const int start = seen.first > begin
                          ? seen.first / static_cast<int>(TILE_KEYS) * static_cast<int>(TILE_KEYS)
                          : begin;

    fill<TILE_ROWS, DIM>(
        queries, q, rows, [&](unsigned row) { return (head * ROWS + row0 + row) * DIM; });
    float peak[R], sum[R];
    float4 y[R][EACH];
#pragma unroll
    for (unsigned i = 0; i < R; i++) {
        peak[i] = FLOOR;
        sum[i] = 0.0f;
#if WITH_SINKS /* a key without a value */
        const unsigned row = row0 + lane + i * LANES < ROWS ? row0 + lane + i * LANES : 0;
        if (begin == 0) {
            peak[i] = sinks[head % KV_HEADS * (ROWS / QUERIES) + row / QUERIES] * LOG2_E;
            sum[i] = slice == 0 ? 1.0f : 0.0f;
        }
#endif
#pragma unroll
        for (unsigned j = 0; j < EACH; j++)
            y[i][j] = float4{0.0f, 0.0f, 0.0f, 0.0f};
    }

    for (int key0 = start; key0 < end; key0 += TILE_KEYS) {
        const unsigned many = end - key0;
        __syncthreads(); /* nobody reads the values before any more */
        fill<TILE_KEYS, DIM>(
            tile, k, many, [&](unsigned key) { return key_at<DIM>(table, head, key0 + key); });
        __syncthreads();
        float score[R][C];
        multiply_rows<R, C, FOURS>(score, queries, lane, LANES, tile, slice, SLICES);
#pragma unroll
        for (unsigned i = 0; i < R; i++) {
            const unsigned row = row0 + lane + i * LANES, query = row % QUERIES;
            const Seen own(query, query, keys);
            float most = FLOOR;
#pragma unroll
            for (unsigned j = 0; j < C; j++) {
                const int key = key0 + slice + j * SLICES;
                float s = score_of(score[i][j]);
#if WITH_MASK
                if (row < ROWS && own.has(key)) {
                    const unsigned group = head % KV_HEADS * (ROWS / QUERIES) + row / QUERIES;
                    const float added = load(mask,
                        head / KV_HEADS * MASK_SAMPLE + group * MASK_HEAD + query * KEYS + key);
                    s = KEEPS ? (added != 0.0f ? s : hidden()) : fused(added, LOG2_E, s);
                }
#endif
                score[i][j] = own.has(key) ? s : hidden();
                most = maximum(most, score[i][j]);
            }
            partial[(lane + i * LANES) * SLICES + slice] = most;
        }
        __syncthreads(); /* all have read the keys, and left their largest scores */
        fill<TILE_KEYS, VALUE_DIM>(tile, v, many,
            [&](unsigned key) { return key_at<VALUE_DIM>(table, head, key0 + key); });
        float shrink[R];
#pragma unroll
        for (unsigned i = 0; i < R; i++) {
            const float before = peak[i];
#pragma unroll 4
            for (unsigned j = 0; j < SLICES; j += 4) {
                const float4 some = load4(partial + (lane + i * LANES) * SLICES + j);
                peak[i] =
                    maximum(peak[i], maximum(maximum(some.x, some.y), maximum(some.z, some.w)));
            }
            shrink[i] = peak[i] > before ? fast_exp2(before - peak[i]) : 1.0f;
            float added = 0.0f;
#pragma unroll
            for (unsigned j = 0; j < C; j++) {
                const float weight = fast_exp2(score[i][j] - peak[i]);
                weights[(lane + i * LANES) * WEIGHTS_STRIDE + slice + j * SLICES] = weight;
                added += weight;
            }
            sum[i] = fused(sum[i], shrink[i], added);
        }
        __syncthreads();
        float4 more[R][EACH] = {};
        multiply<R, EACH, TILE_KEYS, VALUE_FOURS>(more, weights, lane, LANES, tile, slice, SLICES);
#pragma unroll
        for (unsigned i = 0; i < R; i++)
#pragma unroll
            for (unsigned j = 0; j < EACH; j++) {
                const float4 old = y[i][j];
                y[i][j] = more[i][j];
                add_multiple(y[i][j], shrink[i], old);
            }
    }

    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < R; i++)
        partial[(lane + i * LANES) * SLICES + slice] = sum[i];
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < R; i++) {
        const unsigned row = row0 + lane + i * LANES;
        float total = 0.0f;
#pragma unroll 16
        for (unsigned j = 0; j < SLICES; j++)
            total += partial[(lane + i * LANES) * SLICES + j];
        if (row >= ROWS)
            continue;
        const unsigned at = head * ROWS + row;
#if WITH_PARTS
        const unsigned place = blockIdx.z * HEADS * ROWS + at;
        if (slice == 0) {
            peaks[place] = peak[i];
            sums[place] = total;
        }
        finish<VALUE_DIM>(parts, place, y[i], slice, 1.0f);
#else
        if (slice == 0)
            lse[at] = total > 0.0f ? (fast_log2(total) + peak[i]) * LN_2 : 0.0f;
        finish<VALUE_DIM>(results, at, y[i], slice, total > 0.0f ? fast_rcp(total) : 0.0f);
#endif
    }
}

#undef LENGTHS
#undef LENGTH_OF
#undef TABLE
#undef MASK
#undef SINKS
#undef RESULTS
