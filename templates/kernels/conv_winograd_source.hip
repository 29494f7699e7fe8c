/* Winograd F(2x2, 3x3), the source: transformed[16][channel][tile] = B^T d B for the 4 x 4
 * pixels d of the source that the 2 x 2 results of a tile meet. */
#include "prelude.h"
#include "constants/conv_winograd_source.h"

constexpr unsigned DOWN = (ROWS_COUNT + 1) / 2; /* tiles of a plane */
constexpr unsigned ACROSS = (COLUMNS_COUNT + 1) / 2;
constexpr unsigned TILES = BATCH * DOWN * ACROSS; /* of all samples */
constexpr unsigned CHANNELS = GROUPS * GROUP_IN;
constexpr unsigned TOTAL = CHANNELS * TILES;

/* B^T times a column. */
static __device__ __forceinline__ void transform(float a, float b, float c, float d, float* to)
{
    to[0] = a - c;
    to[1] = b + c;
    to[2] = c - b;
    to[3] = b - d;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ source, float* __restrict__ transformed)
{
    const unsigned at = blockIdx.x * BLOCK + threadIdx.x;
    if (TOTAL % BLOCK != 0 && at >= TOTAL)
        return;
    const unsigned tile = at % TILES;
    const unsigned channel = at / TILES;
    const unsigned sample = tile / (DOWN * ACROSS);
    const int row = static_cast<int>(tile / ACROSS % DOWN * 2) + ROWS_START;
    const int column = static_cast<int>(tile % ACROSS * 2) + COLUMNS_START;
    const float* plane = source + (sample * CHANNELS + channel) * (ROWS_SOURCE * COLUMNS_SOURCE);
    const float* first = plane + (row * static_cast<int>(COLUMNS_SOURCE) + column);
    float columns[4][4];
#pragma unroll
    for (unsigned s = 0; s < 4; s++) {
        float pixel[4];
#pragma unroll
        for (unsigned r = 0; r < 4; r++) {
            const bool inside = row + r < ROWS_SOURCE && column + s < COLUMNS_SOURCE;
            pixel[r] = inside ? first[r * COLUMNS_SOURCE + s] : 0;
        }
        transform(pixel[0], pixel[1], pixel[2], pixel[3], columns[s]);
    }
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        float to[4];
        transform(columns[0][i], columns[1][i], columns[2][i], columns[3][i], to);
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
            transformed[(i * 4 + j) * TOTAL + at] = to[j];
    }
}
