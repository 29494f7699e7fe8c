/* Fourier transforms of filters in the corner of SIZE x SIZE pixels:
 * spectrum[PLACES][group][m][k][2], m an output channel and k an input channel, the real and the
 * imaginary part of each frequency, scaled. */
#include "prelude.h"
#include "conv_fft.h"
#include "constants/conv_fft_filters.h"

constexpr unsigned TOTAL = GROUPS * GROUP_OUT * GROUP_IN; /* filters */
constexpr unsigned REACH = (ROWS_TAPS - 1) * ROWS_GAP + 1; /* rows of a filter with its gaps */

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ filters, float* __restrict__ spectrum)
{
    const unsigned item = threadIdx.x / LINES;
    const unsigned line = blockIdx.x * LINES + threadIdx.x % LINES;
    const unsigned at = TOTAL % LINES == 0 || line < TOTAL ? line : TOTAL - 1; /* not stored */
    const unsigned k = at % GROUP_IN;
    const unsigned m = at / GROUP_IN; /* over groups too */
    const unsigned of_group =
        GROUPS > 1 ? m / GROUP_OUT * GROUP_STRIDE + m % GROUP_OUT * OUT_STRIDE : m * OUT_STRIDE;
    const float* filter = filters + of_group + k * IN_STRIDE + COLUMNS_FILTER_FIRST;
    const unsigned row = 2 * item;
    const unsigned next = row + 1;
    const bool upper = row < REACH && (ROWS_GAP == 1 || row % ROWS_GAP == 0);
    const bool lower = next < REACH && (ROWS_GAP == 1 || next % ROWS_GAP == 0);
    constexpr bool BACK = ROWS_FILTER_STEP < 0;
    const float* first =
        filter
        + (upper ? (BACK ? ROWS_FILTER_FIRST - row / ROWS_GAP : ROWS_FILTER_FIRST + row / ROWS_GAP)
                       * KERNEL_W
                 : 0);
    const float* second = filter
                          + (lower ? (BACK ? ROWS_FILTER_FIRST - next / ROWS_GAP
                                           : ROWS_FILTER_FIRST + next / ROWS_GAP)
                                         * KERNEL_W
                                   : 0);
    float re[T] = {};
    float im[T] = {};
#pragma unroll
    for (unsigned s = 0; s < COLUMNS_TAPS; s++) {
        const int column = COLUMNS_FILTER_STEP * static_cast<int>(s);
        const float a = first[column];
        const float b = second[column];
        re[s * COLUMNS_GAP] = upper ? a : 0;
        im[s * COLUMNS_GAP] = lower ? b : 0;
    }
    spectrum_of(re, im);
    if (TOTAL % LINES != 0 && line >= TOTAL)
        return;
    const float scale = item == 0 ? SCALE / 4 : SCALE;
    put_places<2 * TOTAL>(re, im, spectrum + 2 * at, [&](float* to, float real, float imaginary) {
        *reinterpret_cast<float2*>(to) = float2{real * scale, imaginary * scale};
    });
}
