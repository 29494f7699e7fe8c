/* Batch normalisation, element by element: which feature elements have. */
#pragma once
#include "prelude.h"
#include "constants/batch_norm_apply.h"

constexpr unsigned GROUP = BLOCK * EACH; /* elements of a work-group */
/* A vector of elements has one feature, or one each from a vector of features. Else narrow
 * elements, which move by vectors all the same, have each its own. */
constexpr bool SHARED = INNER % EACH == 0;
constexpr bool APART = INNER == 1 && FEATURES % EACH == 0;
constexpr bool MIXED = sizeof(Element) < 4 && !SHARED && !APART;

/* That of the elements from `at` on; the first one, if they are APART; `at` itself, if they are
 * MIXED. */
static __device__ __forceinline__ unsigned feature_of(unsigned at)
{
    if constexpr (MIXED)
        return at;
    else if constexpr (APART)
        return at % FEATURES;
    else if constexpr (INNER % GROUP == 0)
        return blockIdx.x / (INNER / GROUP) % FEATURES;
    else
        return at / INNER % FEATURES;
}

/* What a vector of elements needs of a tensor of features; and the part of it that is the
 * I-th's. */
template <bool VECTOR = APART>
static __device__ __forceinline__ auto of_feature(const float* tensor, unsigned feature)
{
    if constexpr (MIXED)
        return float4{
            tensor[feature / INNER % FEATURES], tensor[(feature + 1) / INNER % FEATURES],
            tensor[(feature + 2) / INNER % FEATURES], tensor[(feature + 3) / INNER % FEATURES]};
    else if constexpr (VECTOR)
        return load4(tensor + feature);
    else
        return load(tensor, feature);
}
template <unsigned I>
static __device__ __forceinline__ float part(float value)
{
    return value;
}
template <unsigned I>
static __device__ __forceinline__ float part(float4 value)
{
    return I == 0 ? value.x : I == 1 ? value.y : I == 2 ? value.z : value.w;
}
