/* Gaussian error linear unit: y = x Phi(x), element by element. */
#include "prelude.h"
#include "gelu.h"
#include "constants/gelu.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, Element* __restrict__ y)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || together<Element>(at, SIZE)) {
        const float4 in = load4(x + at);
        const float4 out{
            gelu<FUNCTION>(in.x), gelu<FUNCTION>(in.y), gelu<FUNCTION>(in.z), gelu<FUNCTION>(in.w)};
        store4(y + at, out);
    } else if (SIZE % VECTOR != 0 && at < SIZE) {
        for (unsigned k = at; k < SIZE; k++)
            store(y, k, gelu<FUNCTION>(load(x, k)));
    }
}
