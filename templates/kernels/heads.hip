/* Two axes of a tensor change places: (FIRST, SECOND, INNER) becomes (SECOND, FIRST, INNER), in
 * each sample. */
#include "prelude.h"
#include "constants/heads.h"

/* Where in x the element `at` of y lies. */
static __device__ __forceinline__ unsigned source(unsigned at)
{
    const unsigned row = at / INNER; /* of y: sample, second, first */
    const unsigned first = row % FIRST;
    const unsigned second = row / FIRST % SECOND;
    const unsigned sample = row / (FIRST * SECOND);
    return ((sample * FIRST + first) * SECOND + second) * INNER + at % INNER;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, Element* __restrict__ y)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (SIZE % (BLOCK * VECTOR) != 0 && at >= SIZE)
        return;
    if constexpr (sizeof(Element) < 4) { /* of whatever rows */
        float four[4];
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
            four[k] = load(x, source(at + k < SIZE ? at + k : at));
        keep4(y + at, float4{four[0], four[1], four[2], four[3]});
    } else if constexpr (VECTOR == 4) {
        const unsigned from = source(at);
        store4(y + at, load4(x + from));
    } else {
        store(y, at, load(x, source(at)));
    }
}
