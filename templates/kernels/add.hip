/* y = x0 + x1 + ..., element by element, one addition after the other. */
#include "prelude.h"
#include "constants/add.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

#define PARAMETER(i) const Element* __restrict__ x##i,
#define LOAD4(i) const float4 in##i = load4(x##i + at);
#define LOAD(i) const float in##i = load(x##i, k);
#define PLUS(i) +term<i>(in##i)
#define PLUS_X(i) +term<i>(in##i.x)
#define PLUS_Y(i) +term<i>(in##i.y)
#define PLUS_Z(i) +term<i>(in##i.z)
#define PLUS_W(i) +term<i>(in##i.w)

/* What an element of input I adds. */
template <unsigned I>
static __device__ __forceinline__ float term(float x)
{
    if constexpr (SCALED)
        return (x - static_cast<float>(I ? ZERO1 : ZERO0)) * (I ? FACTOR1 : FACTOR0);
    else
        return x;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    EACH_INPUT(PARAMETER) Element* __restrict__ y)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || together<Element>(at, SIZE)) {
        EACH_INPUT(LOAD4)
        const float4 sum{
            EACH_INPUT(PLUS_X), EACH_INPUT(PLUS_Y), EACH_INPUT(PLUS_Z), EACH_INPUT(PLUS_W)};
        store4(y + at, sum);
    } else if (SIZE % VECTOR != 0) {
        for (unsigned k = at; k < SIZE; k++) {
            EACH_INPUT(LOAD)
            store(y, k, EACH_INPUT(PLUS));
        }
    }
}

#undef PARAMETER
#undef LOAD4
#undef LOAD
#undef PLUS
#undef PLUS_X
#undef PLUS_Y
#undef PLUS_Z
#undef PLUS_W
