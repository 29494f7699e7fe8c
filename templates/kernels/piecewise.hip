/* Functions of straight pieces, and x by a sigmoid: y = f(x), element by element. */
#include "prelude.h"

enum class Piecewise { LEAKY_RELU, CLIP, HARD_SIGMOID, HARD_SWISH, LINEAR, SWISH };
#include "constants/piecewise.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

static __device__ __forceinline__ float function(float x)
{
    if constexpr (FUNCTION == Piecewise::LEAKY_RELU)
        return x > 0.0f ? x : SLOPE * x;
    if constexpr (FUNCTION == Piecewise::CLIP)
        return minimum(maximum(x, LOW), HIGH);
    if constexpr (FUNCTION == Piecewise::LINEAR)
        return OFFSET == 0.0f ? SLOPE * x : fused(SLOPE, x, OFFSET);
    if constexpr (FUNCTION == Piecewise::SWISH)
        return x * fast_rcp(1.0f + fast_exp2(x * (SLOPE * -1.44269504f)));
    const float line = minimum(maximum(fused(SLOPE, x, OFFSET), 0.0f), 1.0f);
    return FUNCTION == Piecewise::HARD_SWISH ? x * line : line;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, Element* __restrict__ y)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || together<Element>(at, SIZE)) {
        const float4 in = load4(x + at);
        store4(y + at, float4{function(in.x), function(in.y), function(in.z), function(in.w)});
    } else if (SIZE % VECTOR != 0 && at < SIZE) {
        for (unsigned k = at; k < SIZE; k++)
            store(y, k, function(load(x, k)));
    }
}
