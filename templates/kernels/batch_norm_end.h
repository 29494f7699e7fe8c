/* Batch normalisation: how work-items lie over features and their chunks, of which they add up
 * results. */
#pragma once
#include "prelude.h"
#include "constants/batch_norm_end.h"
#include "reduce.h"

/* The sum over the work-items of a feature, in each of them. */
static __device__ __forceinline__ float feature_sum(
    float value, float* partial, unsigned lane, unsigned slice)
{
    return reduce<Add, SLICES, FINALS>(
        value, partial, slice, [lane](unsigned k) { return k * LANES + lane; });
}
