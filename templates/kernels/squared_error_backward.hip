/* Mean squared error, backward, element by element: dx = dy SHARE (x - target). */
#include "prelude.h"
#include "constants/squared_error_backward.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const Element* __restrict__ target, const float* __restrict__ dy,
    Element* __restrict__ dx)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (at >= SIZE)
        return;
    const float factor = dy[0] * SHARE;
    if (SIZE % VECTOR == 0 || WITH_NARROW || at + VECTOR <= SIZE) {
        /* Behind the last element, narrow tensors are filled up. */
        const float4 is = load4(x + at);
        const float4 should = load4(target + at);
        const float4 d{is.x - should.x, is.y - should.y, is.z - should.z, is.w - should.w};
        store4(dx + at, float4{factor * d.x, factor * d.y, factor * d.z, factor * d.w});
    } else if constexpr (!WITH_NARROW) {
        for (unsigned k = at; k < SIZE; k++)
            store(dx, k, factor * (load(x, k) - load(target, k)));
    }
}
