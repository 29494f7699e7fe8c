/* What is done to each sum of a channel before it is stored: the layers that follow, fused
 * (simgen/layers/epilogue.py). */
#pragma once
#include "activation.h"
#include "constants/epilogue.h"

constexpr bool WITH_EPILOGUE =
    WITH_BATCH_NORM || ACTIVATION != Activation::NONE || REQUANTISED || FACTOR != 1;

/* Where a kernel does not normalise, these stand for the parameters that it lacks. Nothing reads
 * them. */
constexpr const float* bn_w = nullptr;
constexpr const float* bn_b = nullptr;
constexpr const float* running_mean = nullptr;
constexpr const float* running_var = nullptr;
constexpr const float* channel_scales = nullptr;

/* Batch normalisation, with statistics that are given, and an activation: either may be there or
 * not. */
struct Epilogue {
    float mean, scale, shift; /* of the channel */

    __device__ __forceinline__ float operator()(float x) const
    {
        if constexpr (FACTOR != 1)
            x *= FACTOR;
        if constexpr (WITH_BATCH_NORM)
            x = fused(x - mean, scale, shift);
        return activate<ACTIVATION>(x, ACTIVATION_CEILING, ACTIVATION_ALPHA);
    }
    /* A sum of integers, scaled, shifted, and saturated to 8 bits. Adding 1.5 * 2^23 leaves a
     * number rounded to the nearest whole one, of two the even one, in the low bits of the sum. */
    __device__ __forceinline__ int operator()(int sum) const
    {
        constexpr float LOW = -128 - ZERO_POINT;
        constexpr float HIGH = 127 - ZERO_POINT;
        const float inside = minimum(maximum(static_cast<float>(sum) * scale, LOW), HIGH);
        return static_cast<int>(as_uint(inside + 12582912.0f) - 0x4b400000u) + ZERO_POINT;
    }
};
/* A sum times what its channel has, before anything else: of floats by integers. */
template <class Total>
static __device__ __forceinline__ Total scaled_by_channel(
    Total sum, unsigned channel, const float* __restrict__ channel_scales)
{
    if constexpr (WITH_CHANNEL_SCALES && !REQUANTISED)
        return sum * channel_scales[channel];
    else
        return sum;
}
static __device__ __forceinline__ Epilogue epilogue_of(unsigned channel,
    const float* __restrict__ bn_w, const float* __restrict__ bn_b,
    const float* __restrict__ running_mean, const float* __restrict__ running_var,
    const float* __restrict__ channel_scales = nullptr)
{
    if constexpr (WITH_BATCH_NORM) {
        const float invstd = fast_rcp(fast_sqrt(running_var[channel] + BN_EPSILON));
        return Epilogue{running_mean[channel], bn_w[channel] * invstd, bn_b[channel]};
    } else if constexpr (REQUANTISED) {
        return Epilogue{0,
            WITH_CHANNEL_SCALES ? channel_scales[channel] * REQUANTISATION_SCALE
                                : REQUANTISATION_SCALE,
            0};
    } else {
        return Epilogue{};
    }
}
