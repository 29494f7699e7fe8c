/* Attention of a tile of queries over tiles of keys, as attention.hip says, by matrix
 * instructions (attention_matrix.h, attention_warpgroups.h):
 *
 *     s = q k^T;  m' = max(m, max of s);  p = exp(s - m')
 *     l = exp(m - m') l + sum of p;  y = exp(m - m') y + p v;  m = m'
 *
 * Scores are in units of log 2 behind FACTOR: `peak` is m, `sum` a lane's part of l. */
#include "prelude.h"
#include "attention.h"
#include "attention_matrix.h"
#include "attention_warpgroups.h"

#ifndef __AMDGCN__
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

/* Products become scores by a factor alone, where nothing bends them and nothing is added. */
constexpr bool PLAIN = CAP == 0.0f && (!WITH_MASK || KEEPS);
constexpr float FACTOR = PLAIN ? SCALE * LOG2_E : 1.0f;

/* Keys that each row of a tile sees: nothing of these is hidden. */
static __device__ __forceinline__ Seen seen_by_all(unsigned row0, unsigned rows, int keys)
{
    const unsigned end = row0 + rows - 1;
    const bool one = row0 / QUERIES == end / QUERIES;
    return Seen(one ? end % QUERIES : QUERIES - 1, one ? row0 % QUERIES : 0, keys);
}

#ifdef BY_WARPGROUPS
#define MAPS , const __grid_constant__ TensorMaps tensor_maps
#else
#define MAPS
#endif

extern "C" __global__ __launch_bounds__(BLOCK + MOVERS, LAUNCH_GROUPS) void KERNEL(
    const Element* __restrict__ q, const Cached* __restrict__ k, const Cached* __restrict__ v,
    LENGTHS TABLE MASK SINKS RESULTS MAPS)
{
    ASKED_LDS(lds, OF_WARPS_NBYTES);
#if !WITH_TABLE
    const int* table = nullptr;
#endif
    /* The last rows see most keys, and begin first. */
    constexpr unsigned TILES = (ROWS + TILE_ROWS - 1) / TILE_ROWS;
    const unsigned head = blockIdx.x, row0 = (TILES - 1 - blockIdx.y) * TILE_ROWS;
    const unsigned rows = ROWS - row0 < TILE_ROWS ? ROWS - row0 : TILE_ROWS;
    const int keys = LENGTH_OF(head / KV_HEADS), step = TILE_KEYS;
    const Seen seen = Seen::of_rows(row0, rows, keys), by_all = seen_by_all(row0, rows, keys);
    const int begin = blockIdx.z * CHUNK, chunk_end = begin + static_cast<int>(CHUNK);
    const int end = seen.last < chunk_end ? seen.last : chunk_end;
    const int start = seen.first > begin ? seen.first / step * step : begin;

#ifdef BY_WARPGROUPS
    OfWarpgroups products(lds);
    if (products.moves(tensor_maps.bytes, head, row0, start, end))
        return;
#else
    const auto bring_keys = [&](int key0, unsigned char* to) {
        KeyPanels::bring(to, k, end - key0,
            [&](unsigned key) { return key_at<DIM>(table, head, key0 + key); });
    };
    const auto bring_values = [&](int key0, unsigned char* to) {
        ValuePanels::bring(to, v, end - key0,
            [&](unsigned key) { return key_at<VALUE_DIM>(table, head, key0 + key); });
    };
    OfWarps products(lds, start, bring_keys, bring_values);
    QueryPanels::bring(products.queries, q, rows,
        [&](unsigned row) { return (head * ROWS + row0 + row) * DIM; });
    if (start < end)
        bring_keys(start, products.keys);
    end_group();
#endif

    float peak[R], sum[R], y[R][OF_VALUE];
#pragma unroll
    for (unsigned i = 0; i < R; i++) {
        peak[i] = FLOOR;
        sum[i] = 0.0f;
#if WITH_SINKS /* a key without a value */
        const unsigned row = row0 + matrix_row(i) < ROWS ? row0 + matrix_row(i) : 0;
        if (begin == 0) {
            peak[i] = sinks[head % KV_HEADS * (ROWS / QUERIES) + row / QUERIES] * LOG2_E;
            sum[i] = threadIdx.x % 4 == 0 ? 1.0f : 0.0f;
        }
#endif
#pragma unroll
        for (unsigned j = 0; j < OF_VALUE; j++)
            y[i][j] = 0.0f;
    }

    float scores[R][OF_ROW], shrink[R];
    Weights weights;
    /* Scores of keys from key0 on become weights, by the new peaks. */
    const auto weigh = [&](int key0) __attribute__((always_inline)) {
        if (!PLAIN || WITH_MASK || key0 < by_all.first || key0 + step > by_all.last) {
#pragma unroll
            for (unsigned i = 0; i < R; i++) {
                const unsigned row = row0 + matrix_row(i), query = row % QUERIES;
                const Seen own(query, query, keys);
#pragma unroll
                for (unsigned j = 0; j < OF_ROW; j++) {
                    const int key = key0 + matrix_column(j);
                    float s = PLAIN ? scores[i][j] : score_of(scores[i][j]);
#if WITH_MASK
                    if (row < ROWS && own.has(key)) {
                        const unsigned group = head % KV_HEADS * (ROWS / QUERIES) + row / QUERIES;
                        const float added = load(mask,
                            head / KV_HEADS * MASK_SAMPLE + group * MASK_HEAD + query * KEYS + key);
                        s = KEEPS ? (added != 0.0f ? s : hidden()) : fused(added, LOG2_E, s);
                    }
#endif
                    scores[i][j] = own.has(key) ? s : hidden();
                }
            }
        }
#pragma unroll
        for (unsigned i = 0; i < R; i++) {
            float most = scores[i][0];
#pragma unroll
            for (unsigned j = 1; j < OF_ROW; j++)
                most = maximum(most, scores[i][j]);
            most = maximum(most, of_lane(most, 1));
            most = maximum(most, of_lane(most, 2));
            const float before = peak[i];
            peak[i] = maximum(before, most * FACTOR);
            shrink[i] = fast_exp2(before - peak[i]);
            float added = 0.0f;
#pragma unroll
            for (unsigned j = 0; j < OF_ROW; j++) {
                scores[i][j] = fast_exp2(fused(scores[i][j], FACTOR, -peak[i]));
                added += scores[i][j];
            }
            sum[i] = fused(sum[i], shrink[i], added);
        }
    };
    const auto shrink_sums = [&]() __attribute__((always_inline)) {
#pragma unroll
        for (unsigned i = 0; i < R; i++)
#pragma unroll
            for (unsigned j = 0; j < OF_VALUE; j++)
                y[i][j] *= shrink[i];
        weights.round(scores);
    };
    if (start < end) {
        products.begin(scores);
        weigh(start);
        weights.round(scores);
        for (int key0 = start + step; key0 < end; key0 += step) {
            products.next(scores, y, weights);
            weigh(key0);
            products.added(y);
            shrink_sums();
        }
        products.end(y, weights);
    }

#pragma unroll
    for (unsigned i = 0; i < R; i++) {
        const unsigned row = row0 + matrix_row(i);
        float total = sum[i] + of_lane(sum[i], 1);
        total += of_lane(total, 2);
        if (row >= ROWS)
            continue;
        const unsigned at = head * ROWS + row;
#if WITH_PARTS
        const unsigned place = blockIdx.z * HEADS * ROWS + at;
        if (threadIdx.x % 4 == 0) {
            peaks[place] = peak[i];
            sums[place] = total;
        }
        float* const to = parts + place * VALUE_DIM;
        const float factor = 1.0f;
#else
        if (threadIdx.x % 4 == 0)
            lse[at] = total > 0.0f ? (fast_log2(total) + peak[i]) * LN_2 : 0.0f;
        Element* const to = results + at * VALUE_DIM;
        const float factor = total > 0.0f ? fast_rcp(total) : 0.0f;
#endif
#pragma unroll
        for (unsigned j = 0; j < OF_VALUE; j += 2) {
            const float values[2] = {y[i][j] * factor, y[i][j + 1] * factor};
            if (VALUE_COLUMNS == VALUE_DIM || matrix_column(j) < VALUE_DIM)
                put_two(to + matrix_column(j), values);
        }
    }
}

#undef LENGTHS
#undef LENGTH_OF
#undef TABLE
#undef MASK
#undef SINKS
#undef RESULTS
#undef MAPS
#undef BY_WARPGROUPS
#endif
