/* Winograd F(3x3, 2x2), the gradients of filters: 3 x 3 taps of the target = A^T p A for the
 * products p[16][filter][channel], each the sum of SPLITS partial ones, which lie one behind the
 * other. */
#include "prelude.h"
#include "constants/conv_winograd_gradient.h"

/* A^T times a column. */
static __device__ __forceinline__ void transform(float a, float b, float c, float d, float* to)
{
    to[0] = a + b + c;
    to[1] = b - c;
    to[2] = b + c - d;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ products, float* __restrict__ target)
{
    const unsigned at = blockIdx.x * BLOCK + threadIdx.x;
    if (TOTAL % BLOCK != 0 && at >= TOTAL)
        return;
    float p[16];
#pragma unroll
    for (unsigned place = 0; place < 16; place++)
        p[place] = products[place * TOTAL + at];
    if constexpr (SPLITS > 1)
        for (unsigned split = 1; split < SPLITS; split++)
#pragma unroll
            for (unsigned place = 0; place < 16; place++)
                p[place] += products[(split * 16 + place) * TOTAL + at];
    float columns[4][3];
#pragma unroll
    for (unsigned j = 0; j < 4; j++)
        transform(p[j], p[4 + j], p[8 + j], p[12 + j], columns[j]);
    float* out = target + at * 9;
#pragma unroll
    for (unsigned r = 0; r < 3; r++) {
        float row[3];
        transform(columns[0][r], columns[1][r], columns[2][r], columns[3][r], row);
#pragma unroll
        for (unsigned s = 0; s < 3; s++)
            out[FLIPPED ? 8 - (r * 3 + s) : r * 3 + s] = row[s];
    }
}
