/* The gradients of a difference: da = dy, db = -dy, by the sign bit. */
#include "prelude.h"
#include "constants/subtract_backward.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

static __device__ __forceinline__ float opposite(float x)
{
    return as_float(as_uint(x) ^ 0x80000000u);
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ dy, Element* __restrict__ da, Element* __restrict__ db)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || together<Element>(at, SIZE)) {
        const float4 in = load4(dy + at);
        keep4(da + at, in);
        keep4(db + at, float4{opposite(in.x), opposite(in.y), opposite(in.z), opposite(in.w)});
    } else if (SIZE % VECTOR != 0) {
        for (unsigned k = at; k < SIZE; k++) {
            const float in = load(dy, k);
            store(da, k, in);
            store(db, k, opposite(in));
        }
    }
}
