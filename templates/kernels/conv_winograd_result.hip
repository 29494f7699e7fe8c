/* Winograd F(3x3, 2x2), the gradients of results: transformed[16][channel][tile] = G d G^T for
 * the 2 x 2 pixels d of the source in a tile. */
#include "prelude.h"
#include "constants/conv_winograd_result.h"

constexpr unsigned DOWN = (ROWS_COUNT + 1) / 2; /* tiles of a plane */
constexpr unsigned ACROSS = (COLUMNS_COUNT + 1) / 2;
constexpr unsigned TILES = BATCH * DOWN * ACROSS; /* of all samples */
constexpr unsigned TOTAL = CHANNELS * TILES;

/* G times a column. */
static __device__ __forceinline__ void transform(float a, float b, float* to)
{
    to[0] = a;
    to[1] = (a + b) * 0.5f;
    to[2] = (a - b) * 0.5f;
    to[3] = b;
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
    const unsigned row = tile / ACROSS % DOWN * 2;
    const unsigned column = tile % ACROSS * 2;
    const float* first =
        source + ((sample * CHANNELS + channel) * ROWS_COUNT + row) * COLUMNS_COUNT + column;
    float2 upper;
    float2 lower;
    if constexpr (COLUMNS_COUNT % 2 == 0) {
        upper = *reinterpret_cast<const float2*>(first);
        const bool below = ROWS_COUNT % 2 == 0 || row + 1 < ROWS_COUNT;
        lower = below ? *reinterpret_cast<const float2*>(first + COLUMNS_COUNT) : float2{0, 0};
    } else {
        const bool right = column + 1 < COLUMNS_COUNT;
        const bool below = row + 1 < ROWS_COUNT;
        upper = float2{first[0], right ? first[1] : 0};
        lower =
            float2{below ? first[COLUMNS_COUNT] : 0, below && right ? first[COLUMNS_COUNT + 1] : 0};
    }
    float left_column[4];
    float right_column[4];
    transform(upper.x, lower.x, left_column);
    transform(upper.y, lower.y, right_column);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        float row_of_it[4];
        transform(left_column[i], right_column[i], row_of_it);
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
            transformed[(i * 4 + j) * TOTAL + at] = row_of_it[j];
    }
}
