/* What is done to each sum of a channel before it is stored: the layers that follow, fused (simgen/layers/epilogue.py). */
#pragma once
#include "activation.h"
#include "constants/epilogue.h"

constexpr bool WITH_EPILOGUE = WITH_BATCH_NORM || ACTIVATION != Activation::NONE;

/* Where a kernel does not normalise, these stand for the parameters that it lacks. Nothing reads them. */
constexpr const float* bn_w = nullptr;
constexpr const float* bn_b = nullptr;
constexpr const float* running_mean = nullptr;
constexpr const float* running_var = nullptr;

/* Batch normalisation, with statistics that are given, and an activation: either may be there or not. */
struct Epilogue {
    float mean, scale, shift; /* of the channel */

    __device__ __forceinline__ float operator()(float x) const
    {
        if constexpr (WITH_BATCH_NORM)
            x = fused(x - mean, scale, shift);
        return activate<ACTIVATION>(x, ACTIVATION_CEILING, ACTIVATION_ALPHA);
    }
};
static __device__ __forceinline__ Epilogue epilogue_of(
    unsigned channel, const float* __restrict__ bn_w, const float* __restrict__ bn_b, const float* __restrict__ running_mean,
    const float* __restrict__ running_var)
{
    if constexpr (WITH_BATCH_NORM) {
        const float invstd = fast_rcp(fast_sqrt(running_var[channel] + BN_EPSILON));
        return Epilogue{running_mean[channel], bn_w[channel] * invstd, bn_b[channel]};
    } else {
        return Epilogue{};
    }
}
