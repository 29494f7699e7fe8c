/* Gated linear units, backward: dx0 = dy x1 f'(x0), dx1 = dy f(x0), element by element. */
#include "prelude.h"
#include "gate_unit.h"
#include "constants/gate.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

/* Where x1 may lie behind x0 in each row, so may their gradients. */
static __device__ __forceinline__ float steep(float x, float up, float dy)
{
    return dy * up * unit_slope<FUNCTION>(x);
}
static __device__ __forceinline__ float gated(float x, float dy) { return dy * unit<FUNCTION>(x); }

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x0, const Element* __restrict__ x1, const Element* __restrict__ dy,
    Element* __restrict__ dx0, Element* __restrict__ dx1)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    const unsigned from = at + (OTHER != 0 ? at / ROW * ROW : 0);
    if (VECTOR == 4 && (SIZE % GROUP == 0 || together<Element>(at, SIZE))) {
        const float4 gate = load4(x0 + from), up = load4(x1 + from + OTHER), d = load4(dy + at);
        store4(dx0 + from, float4{steep(gate.x, up.x, d.x), steep(gate.y, up.y, d.y),
                               steep(gate.z, up.z, d.z), steep(gate.w, up.w, d.w)});
        store4(dx1 + from + OTHER,
            float4{gated(gate.x, d.x), gated(gate.y, d.y), gated(gate.z, d.z), gated(gate.w, d.w)});
    } else if constexpr (sizeof(Element) == 4 && (SIZE % VECTOR != 0 || VECTOR == 1)) {
        for (unsigned k = at; k < SIZE && k < at + VECTOR; k++) {
            const unsigned there = from + k - at;
            const float gate = load(x0, there), d = load(dy, k);
            store(dx0, there, steep(gate, load(x1, there + OTHER), d));
            store(dx1, there + OTHER, gated(gate, d));
        }
    }
}
