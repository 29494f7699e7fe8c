/* A row's largest element, or the one at which the sum of probabilities exceeds a random number.
 * A work-group has a row; of sums, a work-item has neighbours. */
#include "prelude.h"
#include "constants/row_elements.h"
#include "constants/sample.h"
#include "reduce.h"
#include "row_elements.h"

#if GREEDY
#define RANDOM
#else
#define RANDOM const float *__restrict__ u,
#endif

constexpr unsigned PIECES = (ROW + VECTOR - 1) / VECTOR;
constexpr unsigned EACH = (PIECES + BLOCK - 1) / BLOCK * VECTOR; /* elements of a work-item */
constexpr unsigned RUN = 16; /* work-items whose sums are added up first */

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, RANDOM int* __restrict__ y)
{
    __shared__ float peaks[BLOCK], sums[BLOCK];
    const Element* row = x + blockIdx.x * ROW;
    const unsigned item = threadIdx.x;
    if (blockIdx.x >= ROWS)
        return;
    float best = LOWEST;
    for_row(row, [&](unsigned, const float* part) {
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            best = maximum(best, part[j]);
    });
    const auto place = [](unsigned at) { return at; };
    best = reduce<Maximum, BLOCK, 16>(best, peaks, item, place);
#if GREEDY
    /* the first one: its number is exact in a float */
    float first = LOWEST;
    for_row(row, [&](unsigned at, const float* part) {
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            if (part[j] == best)
                first = maximum(first, -static_cast<float>(at + j));
    });
    first = reduce<Maximum, BLOCK, 16>(first, sums, item, place);
    if (item == 0)
        y[blockIdx.x] = static_cast<int>(-first);
#else
    __shared__ float runs[BLOCK / RUN], edges[BLOCK + 1];
    const unsigned begin = item * EACH, end = begin + EACH < ROW ? begin + EACH : ROW;
    const auto weight = [&](float value) { return fast_exp2((value - best) * 1.44269504f); };
    float sum = 0.0f;
    for (unsigned at = begin; at < end; at += VECTOR) {
        float part[VECTOR];
        get(part, row + at);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            sum += weight(part[j]);
    }
    sums[item] = sum;
    __syncthreads();
    /* sums of those before each work-item: none is below the one before it */
    float before = 0.0f;
    for (unsigned k = item / RUN * RUN; k < item; k++)
        before += sums[k];
    if (item % RUN == RUN - 1)
        runs[item / RUN] = before + sum;
    __syncthreads();
    float of_runs = 0.0f, total = 0.0f;
#pragma unroll
    for (unsigned k = 0; k < BLOCK / RUN; k++) {
        total += runs[k];
        of_runs = k + 1 == item / RUN ? total : of_runs;
    }
    edges[item] = of_runs + before;
    __syncthreads();
    const float wanted = u[blockIdx.x] * total;
    const bool is_last = end == ROW;
    /* One of them is it for any number, NaN too. */
    const bool is_behind = item == 0 || !(edges[item] > wanted);
    if (begin < ROW && is_behind && (is_last || edges[item + 1] > wanted)) {
        float reached = edges[item];
        unsigned chosen = end - 1;
        bool open = true;
        for (unsigned at = begin; at < end; at += VECTOR) {
            float part[VECTOR];
            get(part, row + at);
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++) {
                reached += weight(part[j]);
                if (open && reached > wanted) {
                    chosen = at + j;
                    open = false;
                }
            }
        }
        y[blockIdx.x] = static_cast<int>(chosen);
    }
#endif
}

#undef RANDOM
