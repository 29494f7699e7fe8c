/* Layer normalisation, forward, by the statistics of rows: y = gamma (x - mean) invstd + beta.
 * Rows may end anywhere: neighbours in memory have each its own row. */
#include "prelude.h"
#include "constants/layer_norm_apply.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
    const float* __restrict__ mean, const float* __restrict__ invstd, Element* __restrict__ y)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (at >= SIZE)
        return;
    const float4 in = load4(x + at);
    float out[VECTOR] = {in.x, in.y, in.z, in.w};
#pragma unroll
    for (unsigned k = 0; k < VECTOR; k++) {
        const unsigned place = at + k < SIZE ? at + k : at;
        const unsigned row = place / AXIS;
        const unsigned column = place % AXIS;
        out[k] = fused((out[k] - mean[row]) * invstd[row], gamma[column], beta[column]);
    }
    store4(y + at, float4{out[0], out[1], out[2], out[3]});
}
