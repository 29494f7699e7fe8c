/* The gradient of filters, (filter, channel, tap): sums of TERMS partial ones, (filter, tap,
 * channel) each, in order. A work-item adds 4 neighbours of the result. */
#include "prelude.h"
#include "vector.h"
#include "constants/conv_last_sum.h"

constexpr unsigned SIZE = FILTERS * CHANNELS * TAPS;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ partial, Element* __restrict__ target)
{
    const unsigned item = blockIdx.x * (BLOCK / SLICES) + threadIdx.x % (BLOCK / SLICES);
    const unsigned slice = threadIdx.x / (BLOCK / SLICES);
    const unsigned at = item * 4;
    float sums[4] = {};
    unsigned from[4];
#pragma unroll
    for (unsigned part = 0; part < 4; part++) {
        const unsigned place = at + part < SIZE ? at + part : SIZE - 1;
        const unsigned tap = place % TAPS, channel = place / TAPS % CHANNELS,
                       filter = place / (TAPS * CHANNELS);
        from[part] = (filter * TAPS + (FLIPPED ? TAPS - 1 - tap : tap)) * CHANNELS + channel;
    }
    for (unsigned term = slice; term < TERMS; term += SLICES)
#pragma unroll
        for (unsigned part = 0; part < 4; part++)
            sums[part] += partial[term * SIZE + from[part]];
    if constexpr (SLICES > 1) {
        __shared__ float held[SLICES][4][BLOCK / SLICES];
#pragma unroll
        for (unsigned part = 0; part < 4; part++)
            held[slice][part][threadIdx.x % (BLOCK / SLICES)] = sums[part];
        __syncthreads();
        if (slice != 0)
            return;
#pragma unroll
        for (unsigned part = 0; part < 4; part++)
            for (unsigned other = 1; other < SLICES; other++)
                sums[part] += held[other][part][threadIdx.x];
    }
    if (at < SIZE)
        store_vector<4>(target + at, sums); /* narrow tensors are filled up to fours */
}
