/* The gated delta rule, token by token. A work-group has COLUMNS columns of a head's state in
 * registers, of each column a work-item every SLICES-th element. What a token needs are five sums
 * over the elements of a key, and they need one barrier: the next token's lie elsewhere. */
#include "prelude.h"
#include "constants/delta_heads.h"
#include "constants/delta_rule.h"
#include "delta_heads.h"

#if WITH_STATE
#define STATE const float *__restrict__ state,
#else
#define STATE
#endif

constexpr unsigned SLICES = 16, COLUMNS = BLOCK / SLICES;
constexpr unsigned HELD = (KEY_SIZE + SLICES - 1) / SLICES;
constexpr unsigned SUMS = 5;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ q,
    const Element* __restrict__ k, const Element* __restrict__ v, const Element* __restrict__ a,
    const Element* __restrict__ b, STATE const float* __restrict__ decays,
    const float* __restrict__ dt, Element* __restrict__ y, float* __restrict__ last)
{
    __shared__ float parts[2 * SUMS * BLOCK], outs[2 * COLUMNS];
    const Head head;
    if (!head.is_there())
        return;
    const unsigned own = threadIdx.x % COLUMNS, slice = threadIdx.x / COLUMNS;
    const unsigned column = blockIdx.x * COLUMNS + own;
    const bool is_column = VALUE_SIZE % COLUMNS == 0 || column < VALUE_SIZE;
    const unsigned place = head.state_at(0, 1) + column;
    const auto is_held = [&](unsigned i) {
        return KEY_SIZE % SLICES == 0 || i * SLICES + slice < KEY_SIZE;
    };
    float held[HELD];
#pragma unroll
    for (unsigned i = 0; i < HELD; i++) {
        held[i] = 0.0f;
#if WITH_STATE
        if (is_column && is_held(i))
            held[i] = state[place + (i * SLICES + slice) * VALUE_SIZE];
#endif
    }
    /* VECTOR columns of a token that was computed before the last barrier */
    const auto finish = [&](unsigned token) {
        const unsigned first = threadIdx.x * VECTOR, at = blockIdx.x * COLUMNS + first;
        if (first < COLUMNS && at < VALUE_SIZE)
            put(y + head.at(token) * VALUE_SIZE + at, outs + token % 2 * COLUMNS + first);
    };
    const float rate = fast_exp2(decays[head.value] * LOG2_E), shift = dt[head.value];
    for (unsigned token = 0; token < TOKENS; token++) {
        float query[HELD], key[HELD], sums[SUMS];
#pragma unroll
        for (unsigned j = 0; j < SUMS; j++)
            sums[j] = 0.0f;
#pragma unroll
        for (unsigned i = 0; i < HELD; i++) {
            const unsigned at = head.key_at(token) + i * SLICES + slice;
            query[i] = is_held(i) ? load(q, at) : 0.0f;
            key[i] = is_held(i) ? load(k, at) : 0.0f;
            sums[0] = fused(key[i], held[i], sums[0]);
            sums[1] = fused(query[i], held[i], sums[1]);
            sums[2] = fused(query[i], key[i], sums[2]);
            if constexpr (NORMALISED) {
                sums[3] = fused(query[i], query[i], sums[3]);
                sums[4] = fused(key[i], key[i], sums[4]);
            }
        }
        float* of_token = parts + token % 2 * SUMS * BLOCK;
#pragma unroll
        for (unsigned j = 0; j < SUMS; j++)
            of_token[j * BLOCK + threadIdx.x] = sums[j];
        __syncthreads();
        if (token > 0)
            finish(token - 1);
#pragma unroll
        for (unsigned j = 0; j < SUMS; j++) {
            sums[j] = of_token[j * BLOCK + own];
#pragma unroll
            for (unsigned s = 1; s < SLICES; s++)
                sums[j] += of_token[j * BLOCK + s * COLUMNS + own];
        }
        const float shifted = load(a, head.at(token)) + shift;
        const float tail = fast_exp2(absolute(shifted) * -LOG2_E);
        const float soft = fused(0.693147181f, fast_log2(1.0f + tail), maximum(shifted, 0.0f));
        const float keep = fast_exp2(-rate * soft * LOG2_E);
        const float beta = fast_rcp(1.0f + fast_exp2(load(b, head.at(token)) * -LOG2_E));
        const float of_query = NORMALISED ? fast_rcp(fast_sqrt(sums[3] + 1e-6f)) : 1.0f;
        const float of_key = NORMALISED ? fast_rcp(fast_sqrt(sums[4] + 1e-6f)) : 1.0f;
        const float value = is_column ? load(v, head.at(token) * VALUE_SIZE + column) : 0.0f;
        const float added = beta * (value - keep * (sums[0] * of_key));
        if (slice == 0)
            outs[token % 2 * COLUMNS + own] =
                SCALE
                * fused(keep, sums[1] * of_query, sums[2] * of_query * of_key * added);
#pragma unroll
        for (unsigned i = 0; i < HELD; i++)
            held[i] = fused(key[i] * of_key, added, keep * held[i]);
    }
    __syncthreads();
    finish(TOKENS - 1);
#pragma unroll
    for (unsigned i = 0; i < HELD; i++)
        if (is_column && is_held(i))
            last[place + (i * SLICES + slice) * VALUE_SIZE] = held[i];
}

#undef STATE
