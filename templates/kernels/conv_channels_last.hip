/* Images (BATCH, CHANNELS, PIXELS) of elements of 16 bits become (BATCH, PIXELS, HELD), with
 * zeros behind their channels, so that factors of matrix instructions are whole runs of 16 bytes
 * (conv_last.hip). In the same launch others do, or by themselves or with them filters (filters,
 * channels, taps) become (taps, filters, HELD). For machines whose memory takes 16 bits. */
#include "prelude.h"
#include "constants/channels_last.h"

#ifndef __AMDGCN__
using Half = unsigned short; /* the bits of an element: nothing is computed */
struct alignas(16) Eight {
    Half part[8];
};
constexpr unsigned TILE = 4096; /* elements */

/* A tile of PART channels, by work-group `group`. */
template <unsigned BATCH, unsigned CHANNELS, unsigned PIXELS, unsigned HELD, unsigned PART>
static __device__ __forceinline__ void turn_images(
    unsigned group, const Half* __restrict__ from, Half* __restrict__ to, Half* lds)
{
    constexpr unsigned ACROSS = TILE / PART; /* pixels */
    constexpr unsigned PITCH = ACROSS + 2;
    constexpr unsigned OF_PIXELS = (PIXELS + ACROSS - 1) / ACROSS,
                       OF_CHANNELS = (HELD + PART - 1) / PART;
    /* elements that a work-item puts into LDS, in whole words */
    constexpr unsigned WIDE = PIXELS % 4 == 0 ? 4 : 2;
    const unsigned sample = group / (OF_PIXELS * OF_CHANNELS);
    const unsigned channel = group / OF_PIXELS % OF_CHANNELS * PART,
                   pixel = group % OF_PIXELS * ACROSS;
    const Half* const image = from + sample * (CHANNELS * PIXELS);
#pragma unroll
    for (unsigned at = 0; at < TILE / WIDE / BLOCK; at++) {
        const unsigned piece = at * BLOCK + threadIdx.x;
        const unsigned c = piece / (ACROSS / WIDE), p = piece % (ACROSS / WIDE) * WIDE;
        const bool there = channel + c < CHANNELS && pixel + p < PIXELS;
        const Half* const place = image + (channel + c) * PIXELS + pixel + p;
        int* const held = reinterpret_cast<int*>(lds + c * PITCH + p);
        if constexpr (WIDE == 4) {
            const int2 words = there ? *reinterpret_cast<const int2*>(place) : int2{0, 0};
            held[0] = words.x;
            held[1] = words.y;
        } else {
            const unsigned low = there ? place[0] : 0,
                           high = there && pixel + p + 1 < PIXELS ? place[1] : 0;
            held[0] = static_cast<int>(low | high << 16);
        }
    }
    __syncthreads();
#pragma unroll
    for (unsigned at = 0; at < TILE / 8 / BLOCK; at++) {
        const unsigned piece = at * BLOCK + threadIdx.x;
        const unsigned c = piece % (PART / 8) * 8, p = piece / (PART / 8);
        Eight held;
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            held.part[i] = lds[(c + i) * PITCH + p];
        if (channel + c < HELD && pixel + p < PIXELS)
            *reinterpret_cast<Eight*>(to + (sample * PIXELS + pixel + p) * HELD + channel + c) =
                held;
    }
}

/* 8 channels of a filter's tap, by each work-item: taps side by side, as they are stored. */
template <unsigned FILTERS, unsigned CHANNELS, unsigned TAPS, unsigned HELD>
static __device__ __forceinline__ void turn_filters(
    unsigned group, const Half* __restrict__ from, Half* __restrict__ to)
{
    const unsigned item = group * BLOCK + threadIdx.x;
    const unsigned tap = item % TAPS, c = item / TAPS % (HELD / 8) * 8,
                   filter = item / (TAPS * (HELD / 8));
    if (filter >= FILTERS)
        return;
    const Half* const first = from + (filter * CHANNELS + c) * TAPS + tap;
    Eight held;
#pragma unroll
    for (unsigned i = 0; i < 8; i++)
        held.part[i] = c + i < CHANNELS ? first[i * TAPS] : Half(0);
    *reinterpret_cast<Eight*>(to + (tap * FILTERS + filter) * HELD + c) = held;
}
#endif

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const unsigned short* __restrict__ from,
#if SECOND
    const unsigned short* __restrict__ second_from, unsigned short* __restrict__ second,
#endif
    unsigned short* __restrict__ to)
{
#ifndef __AMDGCN__
    alignas(16) __shared__ Half lds[TILE + 2 * 64];
#if SECOND
    if (blockIdx.x >= GROUPS_OF_FIRST) {
        if constexpr (SECOND_IS_IMAGES)
            turn_images<SECOND_BATCH, SECOND_CHANNELS, SECOND_PIXELS, SECOND_HELD, SECOND_PART>(
                blockIdx.x - GROUPS_OF_FIRST, second_from, second, lds);
        else
            turn_filters<SECOND_BATCH, SECOND_CHANNELS, SECOND_PIXELS, SECOND_HELD>(
                blockIdx.x - GROUPS_OF_FIRST, second_from, second);
        return;
    }
#endif
    if constexpr (FIRST_IS_IMAGES)
        turn_images<BATCH, CHANNELS, PIXELS, HELD, PART>(blockIdx.x, from, to, lds);
    else
        turn_filters<BATCH, CHANNELS, PIXELS, HELD>(blockIdx.x, from, to);
#endif
}
