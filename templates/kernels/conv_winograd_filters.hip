/* Winograd F(2x2, 3x3), the filters: transformed[16][group][m][k] = G f G^T for the filter f of
 * output channel m and input channel k. */
#include "prelude.h"
#include "constants/conv_winograd_filters.h"

constexpr unsigned TOTAL = GROUPS * GROUP_OUT * GROUP_IN; /* filters */

/* G times a column. */
static __device__ __forceinline__ void transform(float a, float b, float c, float* to)
{
    const float ends = (a + c) * 0.5f;
    const float middle = b * 0.5f;
    to[0] = a;
    to[1] = ends + middle;
    to[2] = ends - middle;
    to[3] = c;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ filters, float* __restrict__ transformed)
{
    const unsigned at = blockIdx.x * BLOCK + threadIdx.x;
    if (TOTAL % BLOCK != 0 && at >= TOTAL)
        return;
    const unsigned k = at % GROUP_IN;
    const unsigned m = at / GROUP_IN % GROUP_OUT;
    const unsigned group = at / (GROUP_IN * GROUP_OUT);
    const float* filter = filters + group * GROUP_STRIDE + m * OUT_STRIDE + k * IN_STRIDE;
    float columns[3][4];
#pragma unroll
    for (unsigned s = 0; s < 3; s++) {
        const unsigned column =
            COLUMNS_FILTER_STEP < 0 ? COLUMNS_FILTER_FIRST - s : COLUMNS_FILTER_FIRST + s;
        constexpr unsigned FIRST = ROWS_FILTER_FIRST * KERNEL_W; /* of the rows */
        constexpr int STEP = ROWS_FILTER_STEP * static_cast<int>(KERNEL_W);
        transform(filter[FIRST + column], filter[FIRST + STEP + column],
            filter[FIRST + 2 * STEP + column], columns[s]);
    }
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        float row[4];
        transform(columns[0][i], columns[1][i], columns[2][i], row);
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
            transformed[(i * 4 + j) * TOTAL + at] = row[j];
    }
}
