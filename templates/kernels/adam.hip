/* A step of Adam, element by element; the last work-group leaves the next bias corrections.
 * WITH_COPY, y is stored in the type of a working copy too. */
#include "prelude.h"
#include "constants/adam.h"
#include "update.h"

constexpr unsigned GROUPS = (SIZE + BLOCK * VECTOR - 1) / (BLOCK * VECTOR); /* that have elements */

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const float* __restrict__ x,
    const Gradient* __restrict__ dx, const float* __restrict__ m, const float* __restrict__ v,
    const float* __restrict__ c, float* __restrict__ y, float* __restrict__ new_m,
    float* __restrict__ new_v,
#if WITH_COPY
    Copy* __restrict__ copy,
#endif
    float* __restrict__ new_c)
{
    const float c1 = fused(BETA1, c[0], REST1);
    const float c2 = fused(BETA2, c[1], REST2);
    if (blockIdx.x == GROUPS) {
        if (threadIdx.x == 0) {
            new_c[0] = c1;
            new_c[1] = c2;
        }
        return;
    }
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (at >= SIZE)
        return;
    const float of_first = fast_rcp(c1);
    const float of_root = fast_sqrt(fast_rcp(c2));
    float value[VECTOR] = {}, slope[VECTOR] = {}, first[VECTOR] = {}, second[VECTOR] = {};
    fetch(value, x, at);
    fetch(slope, dx, at);
    fetch(first, m, at);
    fetch(second, v, at);
#pragma unroll
    for (unsigned k = 0; k < VECTOR; k++) {
        const float g = fused(DECAY, value[k], slope[k] * SCALE);
        first[k] = fused(BETA1, first[k], REST1 * g);
        second[k] = fused(BETA2, second[k], REST2 * (g * g));
        const float root = fused(fast_sqrt(second[k]), of_root, EPSILON);
        value[k] = fused(-RATE, first[k] * of_first * fast_rcp(root), KEPT * value[k]);
    }
    put(y, at, value);
    put(new_m, at, first);
    put(new_v, at, second);
#if WITH_COPY
    put(copy, at, value);
#endif
}
