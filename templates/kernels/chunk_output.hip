/* Results of the gated delta rule in a chunk: from the state before it, and from its own tokens. A
 * work-group has WIDE columns of a head's results in a chunk. */
#include "prelude.h"
#include "constants/delta_heads.h"
#include "constants/chunk_output.h"
#include "delta_heads.h"

constexpr unsigned WIDE = 64, QUADS = WIDE / VECTOR;
constexpr unsigned CHUNKS = (TOKENS + CHUNK - 1) / CHUNK;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ q,
    const Element* __restrict__ k, const Element* __restrict__ v, const Element* __restrict__ h,
    const float* __restrict__ g, Element* __restrict__ y)
{
    __shared__ float scores[CHUNK * CHUNK];
    const Head head;
    if (!head.is_there())
        return;
    const unsigned begin = blockIdx.z * CHUNK;
    const unsigned tokens = TOKENS - begin < CHUNK ? TOKENS - begin : CHUNK;
    for (unsigned pair = threadIdx.x; pair < CHUNK * CHUNK; pair += BLOCK) {
        const unsigned token = pair / CHUNK, other = pair % CHUNK;
        if (token >= tokens || other > token)
            continue;
        float sum = 0.0f;
        for (unsigned at = 0; at < KEY_SIZE; at += VECTOR) {
            float query[VECTOR], key[VECTOR];
            get(query, q + head.key_at(begin + token) + at);
            get(key, k + head.key_at(begin + other) + at);
#pragma unroll
            for (unsigned i = 0; i < VECTOR; i++)
                sum = fused(query[i], key[i], sum);
        }
        const float apart = g[head.at(begin + token)] - g[head.at(begin + other)];
        scores[pair] = sum * fast_exp2(apart * LOG2_E);
    }
    __syncthreads();
    const unsigned column = blockIdx.x * WIDE + threadIdx.x % QUADS * VECTOR;
    if (VALUE_SIZE % WIDE != 0 && column >= VALUE_SIZE)
        return;
    for (unsigned token = threadIdx.x / QUADS; token < tokens; token += BLOCK / QUADS) {
        float sums[VECTOR] = {};
        for (unsigned row = 0; row < KEY_SIZE; row++) {
            const float query = load(q, head.key_at(begin + token) + row);
            float part[VECTOR];
            get(part, h + head.state_at(blockIdx.z, CHUNKS) + row * VALUE_SIZE + column);
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                sums[j] = fused(query, part[j], sums[j]);
        }
        const float fade = fast_exp2(g[head.at(begin + token)] * LOG2_E);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            sums[j] *= fade;
        /* Up to a number that they know to be small, compilers would count in 16 bits. */
        const unsigned last = opaque(token);
        for (unsigned other = 0; other <= last; other++) {
            float part[VECTOR];
            get(part, v + head.at(begin + other) * VALUE_SIZE + column);
            const float score = scores[token * CHUNK + other];
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                sums[j] = fused(score, part[j], sums[j]);
        }
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            sums[j] *= SCALE;
        put(y + head.at(begin + token) * VALUE_SIZE + column, sums);
    }
}
