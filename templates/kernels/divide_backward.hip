/* The gradients of a quotient a / b: da = dy / b, db = -da (a / b). */
#include "prelude.h"
#include "constants/divide_backward.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

static __device__ __forceinline__ float2 gradients(float a, float b, float dy)
{
    const float r = fast_rcp(b), da = dy * r;
    return float2{da, -(da * (a * r))};
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ a, const Element* __restrict__ b, const Element* __restrict__ dy,
    Element* __restrict__ da, Element* __restrict__ db)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || together<Element>(at, SIZE)) {
        const float4 left = load4(a + at), right = load4(b + at), slope = load4(dy + at);
        const float2 x = gradients(left.x, right.x, slope.x),
                     y = gradients(left.y, right.y, slope.y);
        const float2 z = gradients(left.z, right.z, slope.z),
                     w = gradients(left.w, right.w, slope.w);
        store4(da + at, float4{x.x, y.x, z.x, w.x});
        store4(db + at, float4{x.y, y.y, z.y, w.y});
    } else if (SIZE % VECTOR != 0) {
        for (unsigned k = at; k < SIZE; k++) {
            const float2 made = gradients(load(a, k), load(b, k), load(dy, k));
            store(da, k, made.x);
            store(db, k, made.y);
        }
    }
}
