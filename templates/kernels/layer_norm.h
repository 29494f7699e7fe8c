/* Layer normalisation: tensors of one row, and sums over a row. */
#pragma once
#include "prelude.h"
#include "constants/layer_norm.h"
#include "rows.h"

/* VECTOR elements from `at` on of a tensor of one row, which is `row` of others; or zeros. Those
 * that begin within an access are what two have, and a warp that has one row agrees where. */
template <unsigned SKEW>
static __device__ __forceinline__ void joined(float (&to)[VECTOR], const float* from, unsigned at)
{
    float both[2 * VECTOR];
    unpack(both, SKEW ? load4(from + at - VECTOR) : float4{0, 0, 0, 0});
    unpack(both + VECTOR, load4(from + at));
#pragma unroll
    for (unsigned j = 0; j < VECTOR; j++)
        to[j] = both[VECTOR + j - SKEW];
}
static __device__ __forceinline__ void fetch_each(
    float (&to)[VECTOR], const float* from, unsigned row, unsigned at)
{
    const unsigned skewed = skew(row);
#pragma unroll
    for (unsigned j = 0; j < VECTOR; j++)
        to[j] = is_row(row) && is_own(skewed, at + j) ? from[at + j - skewed] : 0.0f;
}
static __device__ __forceinline__ void fetch_column(
    float (&to)[VECTOR], const float* from, unsigned row, unsigned at)
{
    if constexpr (!LOOSE) {
        fetch(to, from, at, inside(row, at));
    } else {
        const unsigned skewed = skew(row);
        if (SLICES >= 32 && is_row(row) && at > 0 && at + VECTOR <= AXIS) {
            if (skewed == 0)
                joined<0>(to, from, at);
            else if (skewed == 1)
                joined<1>(to, from, at);
            else if (skewed == 2)
                joined<2>(to, from, at);
            else
                joined<3>(to, from, at);
        } else {
            fetch_each(to, from, row, at);
        }
    }
}

/* The sum of `value` over the work-items of a row, in each of them. Two barriers at most: a tree of
 * halves would need more. `partial` is written once, so nobody waits after reading it. */
static __device__ __forceinline__ float row_sum(float value, float* partial)
{
    const unsigned slice = threadIdx.x % SLICES;
    float* own = partial + (threadIdx.x - slice);
    own[slice] = value;
    __syncthreads();
    if constexpr (SLICES > FINALS) {
        if (slice < FINALS) {
#pragma unroll
            for (unsigned k = FINALS; k < SLICES; k += FINALS)
                value += own[slice + k];
            own[slice] = value;
        }
        __syncthreads();
    }
    float result = own[0];
#pragma unroll
    for (unsigned k = 1; k < FINALS; k++)
        result += own[k];
    return result;
}
