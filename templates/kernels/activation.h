/* Activation functions, for all kernels that have one. */
#pragma once
#include "prelude.h"

enum class Activation { RELU, CLIPPED_RELU, ELU, SIGMOID, TANH, SOFT_RELU, NONE };

static constexpr float LOG2_E = 1.44269504f;

/* `ceiling` is of CLIPPED_RELU, `alpha` of ELU. */
template <Activation FUNCTION>
static __device__ __forceinline__ float activate(float x, float ceiling, float alpha)
{
    if constexpr (FUNCTION == Activation::RELU) {
        return maximum(x, 0.0f);
    } else if constexpr (FUNCTION == Activation::CLIPPED_RELU) {
        return minimum(maximum(x, 0.0f), ceiling);
    } else if constexpr (FUNCTION == Activation::ELU) {
        /* Near zero exp(x) - 1 would cancel: its Taylor polynomial there. */
        const float far = fast_exp2(x * LOG2_E) - 1.0f;
        const float tail =
            fused(x, fused(x, fused(x, 1.0f / 720, 1.0f / 120), 1.0f / 24), 1.0f / 6);
        const float near = x * fused(x, fused(x, tail, 0.5f), 1.0f);
        const float negative = alpha * (x < -0.25f ? far : near);
        return x > 0.0f ? x : negative;
    } else if constexpr (FUNCTION == Activation::SIGMOID) {
        return fast_rcp(1.0f + fast_exp2(x * -LOG2_E));
    } else if constexpr (FUNCTION == Activation::TANH) {
        /* Near zero the difference would cancel: its Taylor polynomial there. The squares are
         * compared, because an absolute value in a comparison is one of the modifiers that gem5
         * ignores. */
        const float square = x * x;
        const float far = fused(-2.0f, fast_rcp(1.0f + fast_exp2(x * (2.0f * LOG2_E))), 1.0f);
        const float series = fused(square,
            fused(square, fused(square, fused(square, 62.0f / 2835, -17.0f / 315), 2.0f / 15),
                -1.0f / 3),
            1.0f);
        return square < 0.0625f ? x * series : far;
    } else if constexpr (FUNCTION == Activation::SOFT_RELU) {
        /* max(x, 0) + log(1 + e), e = exp(-|x|): adding e to 1 would lose it where it is small,
         * so the logarithm is 2 artanh(s), s = e / (2 + e) <= 1/3: a polynomial in s^2, off by
         * 2^-27 at most. */
        const float e = fast_exp2(absolute(x) * -LOG2_E);
        const float s = e * fast_rcp(2.0f + e);
        const float square = s * s;
        const float tail = fused(square, fused(square, 0.281783342f, 0.279606014f), 0.400249094f);
        return fused(s, fused(square, fused(square, tail, 0.66666317f), 2.0f), maximum(x, 0.0f));
    } else {
        return x;
    }
}
