/* Local response normalisation, the second step of its gradient (lrn_ratio.hip is the first): dx
 * + MINUS x sum of `ratio` over the windows that hold the element. What the first step left of
 * dx is in its place, or in `term`, where dx has too few bits for it. */
#include "prelude.h"
#include "lrn.h"
#include "constants/lrn_gradient.h"

/* What a line adds to windows. */
static __device__ __forceinline__ void enter(float* sums, const float* value)
{
#pragma unroll
    for (unsigned v = 0; v < VECTOR; v++) {
        const float* const in = value + SHIFT + v;
        sums[v] = in[0];
#pragma unroll
        for (unsigned s = 1; s < SPAN; s++)
            sums[v] = sums[v] + in[s];
    }
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const float* __restrict__ ratio,
#if WITH_TERM
    const float* __restrict__ term,
#endif
    Result* __restrict__ dx)
{
#if !WITH_TERM
    const float* const term = dx; /* the first step left it there */
#endif
    const unsigned item = blockIdx.x * BLOCK + threadIdx.x;
    if (ITEMS % BLOCK != 0 && item >= ITEMS)
        return;
    const unsigned column = item % (INNER / VECTOR) * VECTOR;
    const unsigned base = item / (INNER / VECTOR) * (AXIS * INNER);
    const int begin = blockIdx.y * LENGTH;

    float sums[WINDOW][VECTOR]; /* across line begin - BEFORE + k in place k % WINDOW */
#pragma unroll
    for (int k = 0; k < WINDOW - 1; k++) {
        float value[COLUMNS];
        read_line(value, ratio + base, begin - BEFORE + k, column);
        enter(sums[k], value);
    }

    for (int first = begin; first < begin + LENGTH && first < AXIS; first += WINDOW) {
        float next[WINDOW][COLUMNS];
#pragma unroll
        for (int i = 0; i < WINDOW; i++) {
            const int at = first + i;
            const int newest = (i + WINDOW - 1) % WINDOW;
            read_line(next[i], ratio + base, at + AFTER, column);
            enter(sums[newest], next[i]);
            if (AXIS % WINDOW != 0 && at >= AXIS)
                continue;
            const unsigned place = base + at * INNER + column;
            float result[VECTOR];
#pragma unroll
            for (unsigned v = 0; v < VECTOR; v++) {
                float total = sums[0][v];
#pragma unroll
                for (int j = 1; j < WINDOW; j++)
                    total = total + sums[j][v];
                result[v] = fused(MINUS * load(x, place + v), total, term[place + v]);
            }
            write(dx + place, result);
        }
    }
}
