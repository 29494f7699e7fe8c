/* im2col: windows[sample][group][k][pixel], k an input channel and a tap: what the tap of the
 * pixel meets. */
#include "prelude.h"
#include "vector.h"
#include "constants/conv_windows.h"

constexpr unsigned PIXELS = ROWS_COUNT * COLUMNS_COUNT;
constexpr unsigned TAPS = ROWS_TAPS * COLUMNS_TAPS;
constexpr unsigned TOTAL = BATCH * GROUPS * GROUP_IN * TAPS * PIXELS / WIDE;

static __device__ __forceinline__ float met(
    const SourceElement* plane, bool row_inside, unsigned column)
{
    const bool inside = COLUMNS_DIVIDE == 1
        ? row_inside && column < COLUMNS_SOURCE
        : row_inside && column / COLUMNS_DIVIDE < COLUMNS_SOURCE && column % COLUMNS_DIVIDE == 0;
    return inside ? fetched<float, 1>(plane + column / COLUMNS_DIVIDE) : 0;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const SourceElement* __restrict__ source, float* __restrict__ windows)
{
    const unsigned at = blockIdx.x * BLOCK + threadIdx.x;
    if (TOTAL % BLOCK != 0 && at >= TOTAL)
        return;
    const unsigned pixel = at * WIDE % PIXELS;
    const unsigned tap = at * WIDE / PIXELS % TAPS;
    const unsigned channel = at * WIDE / (PIXELS * TAPS); /* over samples and groups too */
    const unsigned row =
        pixel / COLUMNS_COUNT * ROWS_STRIDE + tap / COLUMNS_TAPS * ROWS_GAP + ROWS_START;
    const unsigned column =
        pixel % COLUMNS_COUNT * COLUMNS_STRIDE + tap % COLUMNS_TAPS * COLUMNS_GAP + COLUMNS_START;
    const bool row_inside = ROWS_DIVIDE == 1
                                ? row < ROWS_SOURCE
                                : row / ROWS_DIVIDE < ROWS_SOURCE && row % ROWS_DIVIDE == 0;
    const SourceElement* plane =
        source + (channel * (ROWS_SOURCE * COLUMNS_SOURCE) + row / ROWS_DIVIDE * COLUMNS_SOURCE);
    if constexpr (WIDE == 4)
        reinterpret_cast<float4*>(windows)[at] =
            float4{met(plane, row_inside, column), met(plane, row_inside, column + COLUMNS_STRIDE),
                met(plane, row_inside, column + 2 * COLUMNS_STRIDE),
                met(plane, row_inside, column + 3 * COLUMNS_STRIDE)};
    else
        windows[at] = met(plane, row_inside, column);
}
