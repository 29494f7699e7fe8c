/* Batch normalisation: how a work-group has elements of its features in registers. */
#pragma once
#include "prelude.h"
#include "constants/batch_norm.h"
#include "access.h"
#include "reduce.h"

constexpr unsigned TILE = SLICES * HELD; /* elements of a feature that a work-group has */
constexpr float RECIPROCAL = static_cast<float>(1.0 / ELEMENTS);

/* Where an element of a feature lies. */
static __device__ __forceinline__ unsigned address(unsigned feature, unsigned at)
{
    return INNER == 1 ? at * FEATURES + feature
                      : at / INNER * (FEATURES * INNER) + feature * INNER + at % INNER;
}

/* No test where the sizes fit. */
static __device__ __forceinline__ bool is_feature(unsigned feature)
{
    return FEATURES % LANES == 0 || feature < FEATURES;
}
static __device__ __forceinline__ bool inside(unsigned feature, unsigned at)
{
    return is_feature(feature) && (ELEMENTS % (SLICES * HELD) == 0 || at < ELEMENTS);
}

/* VECTOR elements of a feature from `at` on. */
template <unsigned WIDTH = VECTOR>
static __device__ __forceinline__ auto read(const Element* x, unsigned feature, unsigned at)
{
    if constexpr (WIDTH == 4)
        return load4(x + address(feature, at));
    else
        return load(x, address(feature, at));
}

/* This work-item's feature within the work-group, and its number among the feature's work-items. */
static __device__ __forceinline__ unsigned own_lane()
{
    return INNER == 1 ? threadIdx.x % LANES : threadIdx.x / SLICES;
}
static __device__ __forceinline__ unsigned own_slice()
{
    return INNER == 1 ? threadIdx.x / LANES : threadIdx.x % SLICES;
}

/* Where a work-item's partial result lies: neighbours in LDS are neighbours in a wavefront. */
static __device__ __forceinline__ unsigned place(unsigned lane, unsigned slice)
{
    return INNER == 1 ? slice * LANES + lane : lane * SLICES + slice;
}

/* The sum over the work-items of a feature, in each of them. */
static __device__ __forceinline__ float feature_sum(
    float value, float* partial, unsigned lane, unsigned slice)
{
    if constexpr (SLICES == 1)
        return value;
    else
        return reduce<Add, SLICES, FINALS>(
            value, partial, slice, [lane](unsigned k) { return place(lane, k); });
}
