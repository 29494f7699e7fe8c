/* Concatenation: of each sample, the elements of x0, then those of x1, and so on. */
#include "prelude.h"
#include "concat.h"

/* Input I, by its own work-groups. */
template <unsigned I>
static __device__ __forceinline__ void copy(
    const Element* __restrict__ part, Element* __restrict__ whole)
{
    constexpr unsigned ROW = ROWS[I];
#pragma unroll
    for (unsigned k = 0; k < GROUP; k += BLOCK * VECTOR) {
        const unsigned at = (blockIdx.x - GROUPS[I]) * GROUP + k + threadIdx.x * VECTOR;
        const unsigned to = at / ROW * SAMPLE + STARTS[I] + at % ROW;
        if (SAMPLES * ROW % GROUP == 0 || at < SAMPLES * ROW) {
            if constexpr (VECTOR == 4) {
                const float4& four = load4(part + at);
                store4(whole + to, four);
            } else {
                whole[to] = part[at];
            }
        }
    }
}

#define PARAMETER(i) const Element* __restrict__ x##i,
#define COPY(i)                                        \
    if (i + 1 == PARTS || blockIdx.x < GROUPS[i + 1]) \
        copy<i>(x##i, y);                              \
    else

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    EACH_INPUT(PARAMETER) Element* __restrict__ y)
{
    EACH_INPUT(COPY) {}
}

#undef PARAMETER
#undef COPY
