/* A step of gradient descent with weight decay and momentum, element by element. WITH_COPY, y is
 * stored in the type of a working copy too. */
#include "prelude.h"
#include "constants/momentum.h"
#include "update.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ x, const Gradient* __restrict__ dx,
#if WITH_VELOCITY
    const float* __restrict__ v,
#endif
    float* __restrict__ y
#if WITH_VELOCITY
    , float* __restrict__ new_v
#endif
#if WITH_COPY
    , Copy* __restrict__ copy
#endif
)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (at >= SIZE)
        return;
    float value[VECTOR] = {}, slope[VECTOR] = {};
    fetch(value, x, at);
    fetch(slope, dx, at);
#if WITH_VELOCITY
    float velocity[VECTOR] = {};
    fetch(velocity, v, at);
#endif
#pragma unroll
    for (unsigned k = 0; k < VECTOR; k++) {
        float way = fused(DECAY, value[k], slope[k] * SCALE);
#if WITH_VELOCITY
        velocity[k] = fused(MOMENTUM, velocity[k], way);
        way = NESTEROV ? fused(MOMENTUM, velocity[k], way) : velocity[k];
#endif
        value[k] = fused(-RATE, way, value[k]);
    }
    put(y, at, value);
#if WITH_VELOCITY
    put(new_v, at, velocity);
#endif
#if WITH_COPY
    put(copy, at, value);
#endif
}
