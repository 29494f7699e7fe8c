/* sum += factor * of, element by element, each rounded once. */
#pragma once
#include "prelude.h"

static __device__ __forceinline__ void add_multiple(float& sum, float factor, float of)
{
    sum = fused(factor, of, sum);
}
static __device__ __forceinline__ void add_multiple(float2& sum, float factor, float2 of)
{
    sum.x = fused(factor, of.x, sum.x);
    sum.y = fused(factor, of.y, sum.y);
}
static __device__ __forceinline__ void add_multiple(float4& sum, float factor, float4 of)
{
    sum.x = fused(factor, of.x, sum.x);
    sum.y = fused(factor, of.y, sum.y);
    sum.z = fused(factor, of.z, sum.z);
    sum.w = fused(factor, of.w, sum.w);
}
