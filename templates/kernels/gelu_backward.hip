/* Gaussian error linear unit, backward: dx = dy (Phi(x) + x Phi'(x)), element by element. */
#include "prelude.h"
#include "gelu.h"
#include "constants/gelu.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

static __device__ __forceinline__ float gradient(float x, float dy)
{
    return dy * gelu_slope<FUNCTION>(x);
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const Element* __restrict__ dy, Element* __restrict__ dx)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || together<Element>(at, SIZE)) {
        const float4 in = load4(x + at);
        const float4 slope = load4(dy + at);
        const float4 out{
            gradient(in.x, slope.x), gradient(in.y, slope.y), gradient(in.z, slope.z),
            gradient(in.w, slope.w)};
        store4(dx + at, out);
    } else if (SIZE % VECTOR != 0 && at < SIZE) {
        for (unsigned k = at; k < SIZE; k++)
            store(dx, k, gradient(load(x, k), load(dy, k)));
    }
}
