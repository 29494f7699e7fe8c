/* Activation: y = f(x), element by element. */
#include "prelude.h"
#include "activation.h"
#include "constants/activation.h"
#include "runs.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a run */

static __device__ __forceinline__ float activate(float x)
{
    return activate<FUNCTION>(x, CEILING, ALPHA);
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, Element* __restrict__ y)
{
    const auto each = [&](unsigned at, const float4& in) {
        const float4 out{activate(in.x), activate(in.y), activate(in.z), activate(in.w)};
        if constexpr (FUNCTION == Activation::RELU)
            keep4(y + at, out);
        else
            store4(y + at, out);
    };
    in_runs<RUNS, GROUP, VECTOR, SIZE>(x, each, [&](unsigned at) {
        if (SIZE % GROUP == 0 || together<Element>(at, SIZE)) {
            each(at, load4(x + at));
        } else if (SIZE % VECTOR != 0 && at < SIZE) {
            for (unsigned k = at; k < SIZE; k++)
                store(y, k, activate(load(x, k)));
        }
    });
}
