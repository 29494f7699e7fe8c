/* The rows of each token's pairs, times their weights, added up in their order. */
#include "prelude.h"
#include "constants/expert_sum.h"
#include "expert_runs.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ rows, const float* __restrict__ weights, const int* __restrict__ ids,
    const int* __restrict__ sorted, const int* __restrict__ begins, Element* __restrict__ y)
{
    __shared__ unsigned places[TOP_K];
    const unsigned* keys = reinterpret_cast<const unsigned*>(sorted);
    const unsigned token = blockIdx.x;
    if (threadIdx.x < TOP_K) {
        const unsigned pair = token * TOP_K + threadIdx.x,
                       base = static_cast<unsigned>(ids[pair]) * PAIRS;
        const unsigned behind =
            first_key<PAIRS>(keys, base + pair) - opaque(first_key<PAIRS>(keys, base));
        places[threadIdx.x] = static_cast<unsigned>(begins[ids[pair]]) + behind;
    }
    __syncthreads();
    const unsigned at = (blockIdx.y * BLOCK + threadIdx.x) * 4;
    if (at >= WIDTH)
        return;
    float4 sum{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (unsigned k = 0; k < TOP_K; k++) {
        const float weight = weights[token * TOP_K + k];
        const float4 row = load4(rows + places[k] * WIDTH + at);
        sum = float4{fused(weight, row.x, sum.x), fused(weight, row.y, sum.y),
            fused(weight, row.z, sum.z), fused(weight, row.w, sum.w)};
    }
    store4(y + token * WIDTH + at, sum);
}
