/* Gated linear units: y = f(x0) x1, element by element. x1 may lie behind x0 in each row. */
#include "prelude.h"
#include "gate_unit.h"
#include "constants/gate.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x0, const Element* __restrict__ x1, Element* __restrict__ y)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    /* x0 has as much between its rows */
    const unsigned from = at + (OTHER != 0 ? at / ROW * ROW : 0);
    if (VECTOR == 4 && (SIZE % GROUP == 0 || together<Element>(at, SIZE))) {
        const float4 gate = load4(x0 + from), up = load4(x1 + from + OTHER);
        store4(y + at, float4{unit<FUNCTION>(gate.x) * up.x, unit<FUNCTION>(gate.y) * up.y,
                           unit<FUNCTION>(gate.z) * up.z, unit<FUNCTION>(gate.w) * up.w});
    } else if constexpr (sizeof(Element) == 4 && (SIZE % VECTOR != 0 || VECTOR == 1)) {
        for (unsigned k = at; k < SIZE && k < at + VECTOR; k++)
            store(y, k, unit<FUNCTION>(load(x0, from + k - at)) * load(x1, from + OTHER + k - at));
    }
}
