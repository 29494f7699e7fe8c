/* A step of gradient descent: y = x - RATE dx, element by element. WITH_COPY, y is stored in the
 * type of a working copy too. */
#include "prelude.h"
#include "constants/descend.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

static __device__ __forceinline__ float step(float x, float dx) { return fused(-RATE, dx, x); }

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ x, const Gradient* __restrict__ dx, float* __restrict__ y
#if WITH_COPY
    , Copy* __restrict__ copy
#endif
)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || at + VECTOR <= SIZE) {
        const float4 in = load4(x + at);
        const float4 slope = load4(dx + at);
        const float4 out{
            step(in.x, slope.x), step(in.y, slope.y), step(in.z, slope.z), step(in.w, slope.w)};
        store4(y + at, out);
#if WITH_COPY
        store4(copy + at, out);
#endif
    } else if (SIZE % VECTOR != 0) {
#if WITH_NARROW
        float last[VECTOR] = {};
        if (at < SIZE) {
#pragma unroll
            for (unsigned k = 0; k < SIZE % VECTOR; k++) {
                last[k] = step(x[at + k], load(dx, at + k));
                y[at + k] = last[k];
            }
#if WITH_COPY
            store4(copy + at, float4{last[0], last[1], last[2], last[3]});
#endif
        }
#else
        for (unsigned k = at; k < SIZE; k++)
            y[k] = step(x[k], dx[k]);
#endif
    }
}
