/* y = a / b, element by element: a product with the reciprocal. */
#include "prelude.h"
#include "constants/divide.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ a, const Element* __restrict__ b, Element* __restrict__ y)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || together<Element>(at, SIZE)) {
        const float4 left = load4(a + at), right = load4(b + at);
        store4(y + at, float4{left.x * fast_rcp(right.x), left.y * fast_rcp(right.y),
                           left.z * fast_rcp(right.z), left.w * fast_rcp(right.w)});
    } else if (SIZE % VECTOR != 0) {
        for (unsigned k = at; k < SIZE; k++)
            store(y, k, load(a, k) * fast_rcp(load(b, k)));
    }
}
