/* Softmax over rows, forward, by the maximum and the scale of each row (softmax_forward.hip). */
#include "prelude.h"
#include "softmax_apply.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ x,
    const float* __restrict__ peaks, const float* __restrict__ scales, Element* __restrict__ y)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (at >= SIZE)
        return;
    const float4 in = load4(x + at);
    float out[VECTOR] = {in.x, in.y, in.z, in.w};
#pragma unroll
    for (unsigned k = 0; k < VECTOR; k++) {
        const unsigned row = row_of(at + k);
        out[k] = result(out[k], CENTRED ? peaks[row] : 0.0f, scales[row]);
    }
    store4(y + at, float4{out[0], out[1], out[2], out[3]});
}
