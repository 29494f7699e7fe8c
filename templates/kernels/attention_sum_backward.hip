/* A place has the gradients of all candidates that stand there, in their order. A work-item has
 * VECTOR places. */
#include "prelude.h"
#include "constants/attention_sum_backward.h"

#if WITH_LOG
#define TOTAL const float *__restrict__ total,
#define GRADIENT(k) load(dy, k) * fast_rcp(total[k])
#else
#define TOTAL
#define GRADIENT(k) load(dy, k)
#endif

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ dy,
    const int* __restrict__ ids, const int* __restrict__ candidates, TOTAL Element* __restrict__ dx)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (SIZE % (BLOCK * VECTOR) != 0 && at >= SIZE)
        return;
    float sums[VECTOR];
#pragma unroll
    for (unsigned i = 0; i < VECTOR; i++) {
        const unsigned place = at + i < SIZE ? at + i : at;
        const int word = ids[place];
        const unsigned first = place / PLACES * CANDIDATES;
        sums[i] = 0.0f;
        for (unsigned k = first; k < first + CANDIDATES; k++)
            if (candidates[k] == word)
                sums[i] += GRADIENT(k);
    }
    if constexpr (VECTOR == 4) /* narrow elements move by fours */
        store4(dx + at, float4{sums[0], sums[1], sums[2], sums[3]});
    else
        store(dx, at, sums[0]);
}

#undef TOTAL
#undef GRADIENT
