/* An access of one element or of 4 neighbours, as a value. */
#pragma once
#include "prelude.h"

/* The element at a place. */
using ::load;
static __device__ __forceinline__ float load(const float* from) { return *from; }

static __device__ __forceinline__ void unpack(float* to, float value) { to[0] = value; }
static __device__ __forceinline__ void unpack(float* to, float4 values)
{
    to[0] = values.x;
    to[1] = values.y;
    to[2] = values.z;
    to[3] = values.w;
}

/* `value` in all elements. */
template <unsigned WIDTH>
static __device__ __forceinline__ auto all(float value)
{
    if constexpr (WIDTH == 4)
        return float4{value, value, value, value};
    else
        return value;
}
