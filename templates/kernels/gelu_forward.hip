/* Gaussian error linear unit: y = x Phi(x), element by element. */
#include "prelude.h"
#include "gelu.h"
#include "constants/gelu.h"
#include "runs.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a run */

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, Element* __restrict__ y)
{
    const auto each = [&](unsigned at, const float4& in) {
        const float4 out{
            gelu<FUNCTION>(in.x), gelu<FUNCTION>(in.y), gelu<FUNCTION>(in.z), gelu<FUNCTION>(in.w)};
        store4(y + at, out);
    };
    in_runs<RUNS, GROUP, VECTOR, SIZE>(x, each, [&](unsigned at) {
        if (SIZE % GROUP == 0 || together<Element>(at, SIZE)) {
            each(at, load4(x + at));
        } else if (SIZE % VECTOR != 0 && at < SIZE) {
            for (unsigned k = at; k < SIZE; k++)
                store(y, k, gelu<FUNCTION>(load(x, k)));
        }
    });
}
