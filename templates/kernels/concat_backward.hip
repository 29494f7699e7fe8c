/* Concatenation, backward: dx0 is what lies in dy in the place of x0, and so on. */
#include "prelude.h"
#include "concat.h"

/* Input I, by its own work-groups. */
template <unsigned I>
static __device__ __forceinline__ void copy(
    const Element* __restrict__ whole, Element* __restrict__ part)
{
    constexpr unsigned ROW = ROWS[I];
#pragma unroll
    for (unsigned k = 0; k < GROUP; k += BLOCK * VECTOR) {
        const unsigned at = (blockIdx.x - GROUPS[I]) * GROUP + k + threadIdx.x * VECTOR;
        const unsigned from = at / ROW * SAMPLE + STARTS[I] + at % ROW;
        if (SAMPLES * ROW % GROUP == 0 || at < SAMPLES * ROW) {
            if constexpr (sizeof(Element) < 4) { /* of whatever rows */
                float each[4];
#pragma unroll
                for (unsigned j = 0; j < 4; j++) {
                    const unsigned place = at + j < SAMPLES * ROW ? at + j : at;
                    each[j] = load(whole, place / ROW * SAMPLE + STARTS[I] + place % ROW);
                }
                keep4(part + at, float4{each[0], each[1], each[2], each[3]});
            } else if constexpr (VECTOR == 4) {
                const float4& four = load4(whole + from);
                store4(part + at, four);
            } else {
                part[at] = whole[from];
            }
        }
    }
}

#define PARAMETER(i) , Element* __restrict__ dx##i
#define COPY(i)                                        \
    if (i + 1 == PARTS || blockIdx.x < GROUPS[i + 1]) \
        copy<i>(dy, dx##i);                            \
    else

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ dy EACH_INPUT(PARAMETER))
{
    EACH_INPUT(COPY) {}
}

#undef PARAMETER
#undef COPY
