/* Elements of a row that are not below a threshold: its TOP_K-th largest element, or the largest
 * one that SHARE of the probability is not below. A work-group has a row. */
#include "prelude.h"
#include "constants/row_elements.h"
#include "constants/top_filter.h"
#include "reduce.h"
#include "row_elements.h"

constexpr unsigned BITS = 4, BINS = 1u << BITS; /* of a number that a sweep finds */
constexpr unsigned SLICES = BLOCK / BINS;

/* A number of the same order as x; both zeros are one. */
static __device__ __forceinline__ unsigned ordered(float x)
{
    const unsigned bits = opaque(as_uint(x)); /* not what compilers know of float32's sign */
    if (bits << 1 == 0)
        return 1u << 31;
    return bits >> 31 ? ~bits : bits | 1u << 31;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, Element* __restrict__ y)
{
    /* how much of each bin each work-item has found; then in sum of so many, and of all */
    __shared__ float found[BINS * BLOCK], parts[BLOCK], sums[BINS], peaks[BLOCK];
    const Element* row = x + blockIdx.x * ROW;
    const unsigned item = threadIdx.x;
    if (blockIdx.x >= ROWS)
        return;
    float best = 0.0f;
    if constexpr (TOP_K == 0) {
        best = LOWEST;
        for_row(row, [&](unsigned, const float* part) {
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                best = maximum(best, part[j]);
        });
        best = reduce<Maximum, BLOCK, 16>(best, peaks, item, [](unsigned at) { return at; });
    }
    unsigned threshold = 0;
    float left = static_cast<float>(TOP_K);
    for (unsigned shift = 32; shift > 0;) {
        const unsigned known = shift;
        shift -= BITS;
#pragma unroll
        for (unsigned bin = 0; bin < BINS; bin++)
            found[bin * BLOCK + item] = 0.0f;
        for_row(row, [&](unsigned, const float* part) {
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++) {
                const unsigned number = ordered(part[j]), differs = number ^ threshold;
                if (known == 32 || differs >> (known & 31) == 0) {
                    const unsigned at = (number >> shift & (BINS - 1)) * BLOCK + item;
                    found[at] += TOP_K ? 1.0f : fast_exp2((part[j] - best) * 1.44269504f);
                }
            }
        });
        __syncthreads();
        float part = 0.0f;
#pragma unroll
        for (unsigned k = 0; k < BLOCK; k += SLICES)
            part += found[item / SLICES * BLOCK + k + item % SLICES];
        parts[item] = part;
        __syncthreads();
        if (item < BINS) {
            part = parts[item * SLICES];
#pragma unroll
            for (unsigned k = 1; k < SLICES; k++)
                part += parts[item * SLICES + k];
            sums[item] = part;
        }
        __syncthreads();
        if (TOP_K == 0 && known == 32) {
            left = sums[0];
#pragma unroll
            for (unsigned bin = 1; bin < BINS; bin++)
                left += sums[bin];
            left = SHARE < 1.0f ? left * SHARE : -LOWEST;
        }
        /* the largest bin with which there is enough, or the smallest one */
        unsigned chosen = 0;
        float above = 0.0f, before = 0.0f;
        bool open = true;
#pragma unroll
        for (unsigned k = BINS; k > 0; k--) {
            const float with = above + sums[k - 1];
            if (open) {
                before = above;
                chosen = k - 1;
                open = with < left;
            }
            above = with;
        }
        left -= before;
        threshold |= chosen << shift;
    }
    for_row(row, [&](unsigned at, const float* part) {
        float kept[VECTOR];
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            kept[j] = ordered(part[j]) >= threshold ? part[j] : HIDDEN;
        if constexpr (VECTOR == 4)
            store4(y + blockIdx.x * ROW + at, float4{kept[0], kept[1], kept[2], kept[3]});
        else
            store(y, blockIdx.x * ROW + at, kept[0]);
    });
}
