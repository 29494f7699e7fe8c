/* dw(v, :) is the sum of dy(i, :) over the places i of the word v, in their order. Keys are v
 * PLACES + i, sorted. */
#include "prelude.h"
#include "constants/embedding_backward.h"

/* The first of the keys that is not less than a number; PLACES where there is none. */
static __device__ __forceinline__ unsigned first_of(const unsigned* keys, unsigned least)
{
    unsigned low = 0, high = PLACES;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (keys[middle] < least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* An element of dw. */
static __device__ __forceinline__ float sum_of(const unsigned* keys, const Element* dy, unsigned at)
{
    const unsigned base = at / ROW * PLACES, column = at % ROW;
    float sum = 0.0f;
    for (unsigned k = first_of(keys, base); k < PLACES && keys[k] - base < PLACES; k++)
        sum += load(dy, (keys[k] - base) * ROW + column);
    return sum;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const int* __restrict__ sorted, const Element* __restrict__ dy, Element* __restrict__ dw)
{
    const unsigned* keys = reinterpret_cast<const unsigned*>(sorted);
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (SIZE % (BLOCK * VECTOR) != 0 && at >= SIZE)
        return;
    if constexpr (TOGETHER) {
        const unsigned base = at / ROW * PLACES, column = at % ROW;
        float4 sum{0.0f, 0.0f, 0.0f, 0.0f};
        for (unsigned k = first_of(keys, base); k < PLACES && keys[k] - base < PLACES; k++) {
            const float4 term = load4(dy + ((keys[k] - base) * ROW + column));
            sum = float4{sum.x + term.x, sum.y + term.y, sum.z + term.z, sum.w + term.w};
        }
        store4(dw + at, sum);
    } else if constexpr (VECTOR == 4) { /* narrow elements move by fours, of whatever rows */
        float sums[4];
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
            sums[k] = sum_of(keys, dy, at + k < SIZE ? at + k : at);
        store4(dw + at, float4{sums[0], sums[1], sums[2], sums[3]});
    } else {
        store(dw, at, sum_of(keys, dy, at));
    }
}
