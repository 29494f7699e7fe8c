/* States of the gated delta rule from chunk to chunk. A work-group has COLUMNS columns of a head's
 * state in LDS: of each chunk, what its tokens add, and then the state without what fades. */
#include "prelude.h"
#include "constants/delta_heads.h"
#include "constants/chunk_state.h"
#include "delta_heads.h"

constexpr unsigned COLUMNS = 16, QUADS = COLUMNS / VECTOR;
constexpr unsigned CHUNKS = (TOKENS + CHUNK - 1) / CHUNK;
constexpr unsigned HELD = TOKENS < CHUNK ? TOKENS : CHUNK;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ k,
    const Element* __restrict__ w, const Element* __restrict__ u, const float* __restrict__ g,
    const float* __restrict__ state, Element* __restrict__ y, Element* __restrict__ h,
    float* __restrict__ last)
{
    __shared__ float held[KEY_SIZE * COLUMNS], added[HELD * COLUMNS];
    const Head head;
    if (!head.is_there())
        return;
    /* column `own` of LDS, and in memory */
    const unsigned own = threadIdx.x % QUADS * VECTOR, column = blockIdx.x * COLUMNS + own;
    const bool is_column = VALUE_SIZE % COLUMNS == 0 || column < VALUE_SIZE;
    constexpr unsigned STEP = BLOCK / QUADS;
    const unsigned first = threadIdx.x / QUADS;
    for (unsigned row = first; row < KEY_SIZE; row += STEP) {
        float part[VECTOR] = {};
        if (is_column)
            get(part, state + head.state_at(0, 1) + row * VALUE_SIZE + column);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            held[row * COLUMNS + own + j] = part[j];
    }
    for (unsigned chunk = 0; chunk < CHUNKS; chunk++) {
        const unsigned begin = chunk * CHUNK;
        const unsigned tokens = TOKENS - begin < CHUNK ? TOKENS - begin : CHUNK;
        const float end = g[head.at(begin + tokens - 1)];
        __syncthreads();
        for (unsigned row = first; row < KEY_SIZE; row += STEP)
            if (is_column)
                put(h + head.state_at(chunk, CHUNKS) + row * VALUE_SIZE + column,
                    held + row * COLUMNS + own);
        for (unsigned token = first; token < tokens; token += STEP) {
            const unsigned at = head.at(begin + token);
            float sums[VECTOR] = {};
            if (is_column)
                get(sums, u + at * VALUE_SIZE + column);
            for (unsigned row = 0; row < KEY_SIZE; row += VECTOR) {
                float factors[VECTOR];
                get(factors, w + at * KEY_SIZE + row);
#pragma unroll
                for (unsigned i = 0; i < VECTOR; i++)
#pragma unroll
                    for (unsigned j = 0; j < VECTOR; j++)
                        sums[j] = fused(-factors[i], held[(row + i) * COLUMNS + own + j], sums[j]);
            }
            if (is_column)
                put(y + at * VALUE_SIZE + column, sums);
            const float fade = fast_exp2((end - g[at]) * LOG2_E);
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                added[token * COLUMNS + own + j] = sums[j] * fade;
        }
        __syncthreads();
        const float keep = fast_exp2(end * LOG2_E);
        for (unsigned row = first * VECTOR; row < KEY_SIZE; row += STEP * VECTOR) {
            float sums[VECTOR][VECTOR];
#pragma unroll
            for (unsigned i = 0; i < VECTOR; i++)
#pragma unroll
                for (unsigned j = 0; j < VECTOR; j++)
                    sums[i][j] = keep * held[(row + i) * COLUMNS + own + j];
            for (unsigned token = 0; token < tokens; token++) {
                float factors[VECTOR];
                get(factors, k + head.key_at(begin + token) + row);
#pragma unroll
                for (unsigned i = 0; i < VECTOR; i++)
#pragma unroll
                    for (unsigned j = 0; j < VECTOR; j++)
                        sums[i][j] =
                            fused(factors[i], added[token * COLUMNS + own + j], sums[i][j]);
            }
#pragma unroll
            for (unsigned i = 0; i < VECTOR; i++)
#pragma unroll
                for (unsigned j = 0; j < VECTOR; j++)
                    held[(row + i) * COLUMNS + own + j] = sums[i][j];
        }
    }
    __syncthreads();
    for (unsigned row = first; row < KEY_SIZE; row += STEP)
        if (is_column)
            put(last + head.state_at(0, 1) + row * VALUE_SIZE + column,
                held + row * COLUMNS + own);
}
