/* Means along the middle axis of (outer, EXTENT, INNER), and their gradients: y(at) is FACTOR
 * times the sum of its terms in order, of which a gradient has one. */
#include "prelude.h"
#include "constants/reduce_mean.h"

constexpr unsigned TERMS = BACKWARD ? 1 : EXTENT;

/* The first term of an element of y. */
static __device__ __forceinline__ unsigned first_of(unsigned at)
{
    constexpr unsigned FROM = BACKWARD ? 1 : EXTENT, TO = BACKWARD ? EXTENT : 1;
    return at / (TO * INNER) * (FROM * INNER) + at % INNER;
}

static __device__ __forceinline__ float mean_of(const Element* x, unsigned at)
{
    float sum = load(x, first_of(at));
    for (unsigned k = 1; k < TERMS; k++)
        sum += load(x, first_of(at) + k * INNER);
    return FACTOR * sum;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, Element* __restrict__ y)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (SIZE % (BLOCK * VECTOR) != 0 && at >= SIZE)
        return;
    if constexpr (TOGETHER) {
        float4 sum = load4(x + first_of(at));
        for (unsigned k = 1; k < TERMS; k++) {
            const float4 term = load4(x + (first_of(at) + k * INNER));
            sum = float4{sum.x + term.x, sum.y + term.y, sum.z + term.z, sum.w + term.w};
        }
        store4(y + at, float4{FACTOR * sum.x, FACTOR * sum.y, FACTOR * sum.z, FACTOR * sum.w});
    } else if constexpr (VECTOR == 4) { /* narrow elements move by fours, of whatever rows */
        float means[4];
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
            means[k] = mean_of(x, at + k < SIZE ? at + k : at);
        store4(y + at, float4{means[0], means[1], means[2], means[3]});
    } else {
        store(y, at, mean_of(x, at));
    }
}
