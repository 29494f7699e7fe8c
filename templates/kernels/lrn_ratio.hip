/* Local response normalisation, the first step of its gradient where windows extend over
 * neighbours in a line: dx = dy s^-BETA, and what the second step adds up, ratio = dx x / s. */
#include "prelude.h"
#include "lrn.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const Element* __restrict__ dy, float* __restrict__ ratio,
    float* __restrict__ dx)
{
    const unsigned item = blockIdx.x * BLOCK + threadIdx.x;
    if (ITEMS % BLOCK != 0 && item >= ITEMS)
        return;
    const unsigned column = item % (INNER / VECTOR) * VECTOR;
    const unsigned base = item / (INNER / VECTOR) * (AXIS * INNER);
    const int begin = blockIdx.y * LENGTH;

    /* Of line begin - BEFORE + k in place k % WINDOW: x, and the sum across the line. */
    float ring[WINDOW][VECTOR];
    float sums[WINDOW][VECTOR];
#pragma unroll
    for (int k = 0; k < WINDOW - 1; k++) {
        float value[COLUMNS];
        read_line(value, x + base, begin - BEFORE + k, column);
        enter(ring[k], sums[k], value);
    }

    for (int first = begin; first < begin + LENGTH && first < AXIS; first += WINDOW) {
        float next[WINDOW][COLUMNS];
        if constexpr (!ACROSS) {
#pragma unroll
            for (int i = 0; i < WINDOW; i++)
                read_line(next[i], x + base, first + i + AFTER, column);
        }
#pragma unroll
        for (int i = 0; i < WINDOW; i++) {
            const int at = first + i;
            const int newest = (i + WINDOW - 1) % WINDOW;
            if constexpr (ACROSS)
                read_line(next[i], x + base, at + AFTER, column);
            enter(ring[newest], sums[newest], next[i]);
            if (AXIS % WINDOW != 0 && at >= AXIS)
                continue;
            const unsigned place = base + at * INNER + column;
            float result[VECTOR];
            float term[VECTOR];
#pragma unroll
            for (unsigned v = 0; v < VECTOR; v++) {
                const float s = fused(ALPHA, energy(ring, sums, v), K);
                const float power = fast_exp2(fast_log2(s) * -BETA);
                term[v] = load(dy, place + v) * power;
                result[v] = term[v] * ring[(i + BEFORE) % WINDOW][v] * fast_rcp(s);
            }
            write(dx + place, term);
            write(ratio + place, result);
        }
    }
}
