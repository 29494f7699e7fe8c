/* Winograd F(2x2, 3x3), the results: 2 x 2 pixels of the target = A^T p A for the products
 * p[16][channel][tile]; and what follows. */
#include "prelude.h"
#include "constants/conv_winograd_target.h"
#include "epilogue.h"

constexpr const float* bias = nullptr; /* stands for a parameter that the kernel may lack */
constexpr unsigned DOWN = (ROWS_COUNT + 1) / 2; /* tiles of a plane */
constexpr unsigned ACROSS = (COLUMNS_COUNT + 1) / 2;
constexpr unsigned TILES = BATCH * DOWN * ACROSS; /* of all samples */
constexpr unsigned CHANNELS = GROUPS * GROUP_OUT;
constexpr unsigned TOTAL = CHANNELS * TILES;

/* A row of two results at out + at; `a` is A^T p. */
static __device__ __forceinline__ void store(const float* a, const float* __restrict__ bias,
    unsigned channel, const Epilogue& epilogue, float* out, unsigned at, unsigned column)
{
    float left = a[0] + a[1] + a[2];
    float right = a[1] - a[2] - a[3];
    if constexpr (WITH_BIAS) {
        left += bias[channel];
        right += bias[channel];
    }
    if constexpr (COLUMNS_COUNT % 2 == 0) {
        *reinterpret_cast<float2*>(out + at) = float2{epilogue(left), epilogue(right)};
    } else {
        out[at] = epilogue(left);
        if (column + 1 < COLUMNS_COUNT)
            out[at + 1] = epilogue(right);
    }
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const float* __restrict__ products,
#if WITH_BIAS
    const float* __restrict__ bias,
#endif
#if WITH_BATCH_NORM
    const float* __restrict__ bn_w, const float* __restrict__ bn_b,
    const float* __restrict__ running_mean, const float* __restrict__ running_var,
#endif
    float* __restrict__ target)
{
    const unsigned at = blockIdx.x * BLOCK + threadIdx.x;
    if (TOTAL % BLOCK != 0 && at >= TOTAL)
        return;
    const unsigned tile = at % TILES;
    const unsigned channel = at / TILES;
    const unsigned sample = tile / (DOWN * ACROSS);
    const unsigned row = tile / ACROSS % DOWN * 2;
    const unsigned column = tile % ACROSS * 2;
    float upper[4];
    float lower[4];
#pragma unroll
    for (unsigned j = 0; j < 4; j++) {
        const float a = products[j * TOTAL + at];
        const float b = products[(4 + j) * TOTAL + at];
        const float c = products[(8 + j) * TOTAL + at];
        const float d = products[(12 + j) * TOTAL + at];
        upper[j] = a + b + c;
        lower[j] = b - c - d;
    }
    const Epilogue epilogue = epilogue_of(channel, bn_w, bn_b, running_mean, running_var);
    float* out =
        target + ((sample * CHANNELS + channel) * ROWS_COUNT + row) * COLUMNS_COUNT + column;
    store(upper, bias, channel, epilogue, out, 0, column);
    if (ROWS_COUNT % 2 != 0 && row + 1 == ROWS_COUNT)
        return;
    store(lower, bias, channel, epilogue, out, COLUMNS_COUNT, column);
}
