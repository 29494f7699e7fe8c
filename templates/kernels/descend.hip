/* A step of gradient descent: y = x - RATE dx, element by element. */
#include "prelude.h"
#include "constants/descend.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

static __device__ __forceinline__ float step(float x, float dx) { return fused(-RATE, dx, x); }

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const Element* __restrict__ dx, Element* __restrict__ y)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || at + VECTOR <= SIZE) {
        const float4 in = load4(x + at);
        const float4 slope = load4(dx + at);
        const float4 out{step(in.x, slope.x), step(in.y, slope.y), step(in.z, slope.z), step(in.w, slope.w)};
        store4(y + at, out);
    } else if (SIZE % VECTOR != 0) {
        for (unsigned k = at; k < SIZE; k++)
            y[k] = step(x[k], dx[k]);
    }
}
