/* Local response normalisation, its gradient where windows extend along the axis alone:
 * dx = dy s^-BETA + MINUS x sum of dy y / s over the windows that hold the element. */
#include "prelude.h"
#include "lrn.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const Element* __restrict__ dy, Result* __restrict__ dx)
{
    const unsigned item = blockIdx.x * BLOCK + threadIdx.x;
    if (ITEMS % BLOCK != 0 && item >= ITEMS)
        return;
    const unsigned column = item % (INNER / VECTOR) * VECTOR;
    const unsigned base = item / (INNER / VECTOR) * (AXIS * INNER);
    const int begin = blockIdx.y * LENGTH;

    /* Of line begin - AFTER - BEFORE + k in place k % WINDOW: x. */
    float ring[WINDOW][VECTOR];
    float sums[WINDOW][VECTOR]; /* none */
    /* Of line begin - AFTER + k in place k % WINDOW: dy s^-beta, and dy y / s. */
    float term[WINDOW][VECTOR] = {};
    float ratio[WINDOW][VECTOR] = {};
#pragma unroll
    for (int k = 0; k < WINDOW - 1; k++) {
        float value[COLUMNS];
        read_line(value, x + base, begin - AFTER - BEFORE + k, column);
        enter(ring[k], sums[k], value);
    }

    for (int first = begin - AFTER; first < begin + LENGTH + BEFORE && first < AXIS + BEFORE;
        first += WINDOW) {
        float next[WINDOW][COLUMNS];
        float slope[WINDOW][VECTOR]; /* dy */
#pragma unroll
        for (int i = 0; i < WINDOW; i++) {
            read_line(next[i], x + base, first + i + AFTER, column);
            read_line(slope[i], dy + base, first + i, column);
        }
#pragma unroll
        for (int i = 0; i < WINDOW; i++) {
            const int at = first + i;
            const int newest = (i + WINDOW - 1) % WINDOW;
            enter(ring[newest], sums[newest], next[i]);
#pragma unroll
            for (unsigned v = 0; v < VECTOR; v++) {
                const float s = fused(ALPHA, energy(ring, sums, v), K);
                const float power = fast_exp2(fast_log2(s) * -BETA);
                term[i][v] = slope[i][v] * power;
                ratio[i][v] = term[i][v] * ring[(i + BEFORE) % WINDOW][v] * fast_rcp(s);
            }
            const int centre = at - BEFORE; /* all of its window has passed */
            if (centre >= begin && centre < begin + LENGTH && centre < AXIS) {
                float result[VECTOR];
#pragma unroll
                for (unsigned v = 0; v < VECTOR; v++) {
                    float total = ratio[0][v];
#pragma unroll
                    for (int j = 1; j < WINDOW; j++)
                        total += ratio[j][v];
                    result[v] =
                        fused(MINUS * ring[i][v], total, term[(i + WINDOW - BEFORE) % WINDOW][v]);
                }
                write(dx + base + centre * INNER + column, result);
            }
        }
    }
}
