/* Softmax over rows, backward, by the sum of each row (softmax_backward.hip). */
#include "prelude.h"
#include "softmax_apply.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ y, const Element* __restrict__ dy, const float* __restrict__ totals,
    Element* __restrict__ dx)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (at >= SIZE)
        return;
    const float4 in = load4(y + at);
    const float4 slope = load4(dy + at);
    float out[VECTOR] = {in.x, in.y, in.z, in.w};
    const float slopes[VECTOR] = {slope.x, slope.y, slope.z, slope.w};
#pragma unroll
    for (unsigned k = 0; k < VECTOR; k++)
        out[k] = gradient(out[k], slopes[k], totals[row_of(at + k)]);
    store4(dx + at, float4{out[0], out[1], out[2], out[3]});
}
