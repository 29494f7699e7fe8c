/* Fourier transforms of tiles of SIZE x SIZE pixels of the source, of which TAKEN_H x TAKEN_W are taken and the others 0:
 * spectrum[SIZE SIZE / 2][channel][2][tile], the real and the imaginary part of each frequency; or, as FACTORS, [2][2][tile], for each
 * frequency d the matrix that multiplies the real and the imaginary part of another one with the conjugate of d. */
#include "prelude.h"
#include "conv_fft.h"
#include "constants/conv_fft_source.h"

constexpr unsigned TILES = HELD; /* of all samples; those behind them are zeros */
constexpr bool BEHIND = HELD > BATCH * DOWN * ACROSS;
constexpr unsigned TOTAL = CHANNELS * TILES;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const float* __restrict__ source, float* __restrict__ spectrum)
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
    if constexpr (FACTORS) {
        const float scale = item == 0 ? SCALE / 4 : SCALE;
        const float minus = item == 0 ? -SCALE / 4 : -SCALE;
        float* out = spectrum + (item * CHANNELS + channel) * (4 * TILES) + tile;
#pragma unroll
        for (unsigned u = 0; u < T; u++) {
            const bool apart = u % HALF == 0 && item == 0; /* two real numbers */
            float* place = out + u * (HALF * 4 * TOTAL);
            place[0] = re[u] * scale;
            place[TILES] = apart ? 0 : im[u] * scale;
            place[2 * TILES] = apart ? 0 : im[u] * minus;
            place[3 * TILES] = (apart ? im[u] : re[u]) * scale;
        }
    } else {
        float* out = spectrum + (item * CHANNELS + channel) * (2 * TILES) + tile;
#pragma unroll
        for (unsigned u = 0; u < T; u++) {
            out[u * (HALF * 2 * TOTAL)] = re[u];
            out[u * (HALF * 2 * TOTAL) + TILES] = im[u];
        }
    }
}
