/* The sum of x over the places where a candidate stands, in their order; or its logarithm. A
 * work-item has VECTOR candidates. */
#include "prelude.h"
#include "constants/attention_sum.h"

#if WITH_LOG
#define TOTAL float *__restrict__ total,
#define KEEP(at, value) total[at] = value
#else
#define TOTAL
#define KEEP(at, value)
#endif

/* Of the candidate at a place of y. */
static __device__ __forceinline__ float total_of(
    const Element* x, const int* ids, const int* candidates, unsigned at)
{
    const int word = candidates[at];
    const unsigned first = at / CANDIDATES * PLACES;
    float sum = EPSILON;
    for (unsigned k = first; k < first + PLACES; k++)
        if (ids[k] == word)
            sum += load(x, k);
    return sum;
}

static __device__ __forceinline__ float result_of(float total)
{
    return WITH_LOG ? 0.69314718f * fast_log2(total) : total;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ x,
    const int* __restrict__ ids, const int* __restrict__ candidates, TOTAL Element* __restrict__ y)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (SIZE % (BLOCK * VECTOR) != 0 && at >= SIZE)
        return;
    if constexpr (VECTOR == 4) { /* narrow elements move by fours */
        float results[4];
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            const unsigned place = at + k < SIZE ? at + k : at;
            const float sum = total_of(x, ids, candidates, place);
            KEEP(place, sum);
            results[k] = result_of(sum);
        }
        store4(y + at, float4{results[0], results[1], results[2], results[3]});
    } else {
        const float sum = total_of(x, ids, candidates, at);
        KEEP(at, sum);
        store(y, at, result_of(sum));
    }
}

#undef TOTAL
#undef KEEP
