/* Conversion of elements from one type to another. */
#include "prelude.h"
#include "constants/cast.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Source* __restrict__ x, Target* __restrict__ y)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || at + VECTOR <= SIZE) {
        store4(y + at, load4(x + at));
    } else if (SIZE % VECTOR != 0 && at < SIZE) {
        float last[VECTOR] = {};
#pragma unroll
        for (unsigned k = 0; k < SIZE % VECTOR; k++)
            last[k] = load(x, at + k);
        if constexpr (sizeof(Target) < 4) {
            store4(y + at, float4{last[0], last[1], last[2], last[3]});
        } else {
#pragma unroll
            for (unsigned k = 0; k < SIZE % VECTOR; k++)
                store(y, at + k, last[k]);
        }
    }
}
