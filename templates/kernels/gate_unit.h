/* The functions of gated linear units and their slopes. */
#pragma once
#include "prelude.h"
#include "gelu.h"

enum class Gate { SWIGLU, GEGLU, GEGLU_TANH, GLU };

template <Gate FUNCTION>
static constexpr Gelu UNIT = FUNCTION == Gate::SWIGLU  ? Gelu::SILU
                             : FUNCTION == Gate::GEGLU ? Gelu::GELU
                                                       : Gelu::GELU_TANH;

template <Gate FUNCTION>
static __device__ __forceinline__ float unit(float x)
{
    if constexpr (FUNCTION == Gate::GLU)
        return fast_rcp(1.0f + fast_exp2(x * -1.44269504f));
    else
        return gelu<UNIT<FUNCTION>>(x);
}

template <Gate FUNCTION>
static __device__ __forceinline__ float unit_slope(float x)
{
    if constexpr (FUNCTION == Gate::GLU) {
        const float e = fast_exp2(absolute(x) * -1.44269504f), r = fast_rcp(1.0f + e);
        return e * r * r;
    } else {
        return gelu_slope<UNIT<FUNCTION>>(x);
    }
}
