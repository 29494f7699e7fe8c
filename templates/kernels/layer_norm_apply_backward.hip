/* Layer normalisation, the gradient of x by what there is of each row (layer_norm_backward.hip):
 * dx = invstd (dy gamma - shift + (x - mean) tilt). Rows may end anywhere, as in
 * layer_norm_apply.hip. */
#include "prelude.h"
#include "constants/layer_norm_apply.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ x,
    const Element* __restrict__ dy, const float* __restrict__ gamma, const float* __restrict__ mean,
    const float* __restrict__ invstd, const float* __restrict__ shifts,
    const float* __restrict__ tilts, Element* __restrict__ dx)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (at >= SIZE)
        return;
    const float4 in = load4(x + at);
    const float4 slope = load4(dy + at);
    float out[VECTOR] = {in.x, in.y, in.z, in.w};
    const float slopes[VECTOR] = {slope.x, slope.y, slope.z, slope.w};
#pragma unroll
    for (unsigned k = 0; k < VECTOR; k++) {
        const unsigned place = at + k < SIZE ? at + k : at;
        const unsigned row = place / AXIS;
        const unsigned column = place % AXIS;
        const float inner =
            fused(out[k] - mean[row], tilts[row], slopes[k] * gamma[column] - shifts[row]);
        out[k] = invstd[row] * inner;
    }
    store4(dx + at, float4{out[0], out[1], out[2], out[3]});
}
