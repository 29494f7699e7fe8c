/* Inverse Fourier transforms of products[PLACES][filter][2][channel]: of each tile, KERNEL_H x
 * KERNEL_W taps of the target. */
#include "prelude.h"
#include "conv_fft.h"
#include "constants/conv_fft_gradient.h"

constexpr unsigned TOTAL = FILTERS * GROUP_CHANNELS;

/* A row of a tile; that of a tap goes to memory. */
static __device__ __forceinline__ void store(const float (&row)[T], unsigned r, float* target)
{
    if (r < (KERNEL_H - 1) * DILATION_H + 1 && (DILATION_H == 1 || r % DILATION_H == 0)) {
        float* out = target + (FLIPPED ? KERNEL_H - 1 - r / DILATION_H : r / DILATION_H) * KERNEL_W;
#pragma unroll
        for (unsigned s = 0; s < KERNEL_W; s++)
            out[FLIPPED ? KERNEL_W - 1 - s : s] = row[s * DILATION_W];
    }
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ products, float* __restrict__ target)
{
    const unsigned item = threadIdx.x / LINES;
    const unsigned line = blockIdx.x * LINES + threadIdx.x % LINES;
    const unsigned at = TOTAL % LINES == 0 || line < TOTAL ? line : TOTAL - 1; /* not stored */
    float re[T];
    float im[T];
    take_places<2 * TOTAL, GROUP_CHANNELS, true>(
        re, im, products + at / GROUP_CHANNELS * (2 * GROUP_CHANNELS) + at % GROUP_CHANNELS);
    __shared__ float lds[TILE_LDS];
    tile_of(re, im, lds);
    if (TOTAL % LINES != 0 && line >= TOTAL)
        return;
    store(re, 2 * item, target + at * (KERNEL_H * KERNEL_W));
    store(im, 2 * item + 1, target + at * (KERNEL_H * KERNEL_W));
}
