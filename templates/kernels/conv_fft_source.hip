/* Fourier transforms of tiles of SIZE x SIZE pixels of the source, of which TAKEN_H x TAKEN_W
 * are taken and the others 0: spectrum[PLACES][channel][2][tile], the real and the imaginary
 * part of each frequency; or, with PAIRS, [tile][2]. FACTORS: scaled, as those of filters are. */
#include "prelude.h"
#include "conv_fft.h"
#include "constants/conv_fft_source.h"

constexpr unsigned TILES = HELD; /* of all samples; those behind them are zeros */
constexpr bool BEHIND = HELD > BATCH * DOWN * ACROSS;
constexpr unsigned TOTAL = CHANNELS * TILES;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ source, float* __restrict__ spectrum)
{
    const unsigned item = threadIdx.x / LINES;
    const unsigned line = blockIdx.x * LINES + threadIdx.x % LINES;
    const unsigned at = TOTAL % LINES == 0 || line < TOTAL ? line : TOTAL - 1; /* not stored */
    const unsigned tile = at % TILES;
    const unsigned channel = at / TILES;
    const unsigned sample = tile / (DOWN * ACROSS);
    const unsigned row = tile / ACROSS % DOWN * STEP_H + 2 * item + START_H;
    const unsigned column = tile % ACROSS * STEP_W + START_W;
    const bool there = !BEHIND || sample < BATCH;
    const bool upper = there && row < HEIGHT && (TAKEN_H == T || 2 * item < TAKEN_H);
    const bool lower = there && row + 1 < HEIGHT && (TAKEN_H == T || 2 * item + 1 < TAKEN_H);
    const float* plane = source + ((there ? sample : 0) * CHANNELS + channel) * (HEIGHT * WIDTH);
    const float* first = plane + (upper ? row * WIDTH : 0);
    const float* second = plane + (lower ? (row + 1) * WIDTH : 0);
    float re[T];
    float im[T];
#pragma unroll
    for (unsigned s = 0; s < T; s++) {
        /* Loads that all work-items make are all under way at once. */
        const bool inside = column + s < WIDTH && (TAKEN_W == T || s < TAKEN_W);
        const unsigned place = inside ? column + s : 0;
        const float a = first[place];
        const float b = second[place];
        re[s] = inside && upper ? a : 0;
        im[s] = inside && lower ? b : 0;
    }
    spectrum_of(re, im);
    if (TOTAL % LINES != 0 && line >= TOTAL)
        return;
    const float scale = FACTORS ? (item == 0 ? SCALE / 4 : SCALE) : 1.0f;
    float* out = spectrum + channel * (2 * TILES) + (PAIRS ? 2 * tile : tile);
    put_places<2 * TOTAL>(re, im, out, [&](float* to, float real, float imaginary) {
        if constexpr (PAIRS) {
            *reinterpret_cast<float2*>(to) = float2{real * scale, imaginary * scale};
        } else {
            to[0] = real * scale;
            to[TILES] = imaginary * scale;
        }
    });
}
