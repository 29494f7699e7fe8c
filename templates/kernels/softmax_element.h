/* What softmax makes of an element, by its row's maximum and sum, in both passes. */
#pragma once
#include "prelude.h"
#include "constants/softmax_algo.h"

constexpr float LOG2_E = 1.44269504f;
constexpr float LN_2 = 0.693147181f;
constexpr bool LOG = ALGO == Algo::LOG;
constexpr bool CENTRED = ALGO != Algo::FAST;
constexpr bool MASKED = ALGO == Algo::MASKED; /* rows of nothing but hidden elements are 0 */

static __device__ __forceinline__ float exponential(float x, float most)
{
    return fast_exp2((CENTRED ? x - most : x) * LOG2_E);
}

/* What `x - most` (LOG), or its exponential, becomes; `scale` is the sum's logarithm (LOG), or
 * reciprocal. */
static __device__ __forceinline__ float scaled(float value, float scale)
{
    return LOG ? value - scale : value * scale;
}
static __device__ __forceinline__ float result(float x, float most, float scale)
{
    return scaled(LOG ? x - most : exponential(x, most), scale);
}

static __device__ __forceinline__ float gradient(float y, float dy, float sum)
{
    return LOG ? dy - fast_exp2(y * LOG2_E) * sum : y * (dy - sum);
}
