/* The Gaussian error linear unit, the sigmoid linear unit, and their slopes, for all kernels
 * that have them. */
#pragma once
#include "prelude.h"

enum class Gelu { GELU, GELU_TANH, SILU };

/* Phi(x) = 1 - Phi(-x), so that only the tail Phi(-a), a = |x|, is computed: a product with
 * exp(-w), which keeps its relative error. Beyond 16, of SILU 128, it is less than any float32.
 * Of a NaN, the square stays one. gem5 ignores an absolute value in comparisons and selections. */
struct Tail {
    float a, square; /* |x| and x^2; at most that limit and its square */
    float e; /* exp(-w) */
    float rest; /* Phi(-a) = rest e */
};

/* Phi(-a) exp(a^2 / 2) in t = 1 / (1 + a / 4): the variable of Shepherd and Laframboise, 1981. */
static __device__ __forceinline__ float mills(float a)
{
    const float t = fast_rcp(fused(a, 0.25f, 1.0f));
    const float tail = fused(t,
        fused(t,
            fused(
                t, fused(t, fused(t, 0.0176738352f, -0.0688617378f), 0.0662595332f), 0.0084551191f),
            0.0297984313f),
        0.0772021785f);
    return t
           * fused(t,
               fused(t, fused(t, fused(t, tail, 0.0753782317f), 0.0947650596f), 0.0995864943f),
               0.0997428671f);
}

template <Gelu FUNCTION>
static __device__ __forceinline__ Tail tail_of(float x)
{
    const float whole = x * x;
    constexpr float MOST = FUNCTION == Gelu::SILU ? 128.0f : 16.0f;
    const float a = minimum(absolute(x), MOST), square = whole > MOST * MOST ? MOST * MOST : whole;
    if constexpr (FUNCTION == Gelu::GELU) {
        /* w = a^2 / 2 */
        return Tail{a, square, fast_exp2(square * -0.721347520f), mills(a)};
    } else {
        /* w = sqrt(8 / pi) (a + 0.044715 a^3) or, of SILU, a; (1 + tanh(-w / 2)) / 2 = e / (1 +
         * e) */
        constexpr float CUBE = FUNCTION == Gelu::SILU ? 0.0f : -0.102943240f,
                        LINE = FUNCTION == Gelu::SILU ? -1.44269504f : -2.30220820f;
        const float e = fast_exp2(a * fused(square, CUBE, LINE));
        return Tail{a, square, e, fast_rcp(1.0f + e)};
    }
}

/* x Phi(x) = max(x, 0) - a Phi(-a) */
template <Gelu FUNCTION>
static __device__ __forceinline__ float gelu(float x)
{
    const Tail tail = tail_of<FUNCTION>(x);
    return maximum(x, 0.0f) - tail.a * tail.rest * tail.e;
}

/* The slope at -a; at a, it is 1 less this. */
template <Gelu FUNCTION>
static __device__ __forceinline__ float gelu_slope(float x)
{
    const Tail tail = tail_of<FUNCTION>(x);
    float low;
    if constexpr (FUNCTION == Gelu::GELU) {
        low = tail.e * fused(tail.a, -0.398942280f, tail.rest); /* Phi(-a) - a phi(a) */
    } else {
        /* dw/da */
        const float steep =
            FUNCTION == Gelu::SILU ? 1.0f : fused(tail.square, 0.214064499f, 1.59576912f);
        low = tail.e * tail.rest * (1.0f - tail.a * tail.rest * steep);
    }
    return x > 0.0f ? 1.0f - low : low;
}
