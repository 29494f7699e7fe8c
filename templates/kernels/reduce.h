/* Reductions over some of a work-group's work-items. */
#pragma once
#include "prelude.h"

struct Add {
    __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};
struct Maximum {
    __device__ __forceinline__ float operator()(float a, float b) const { return maximum(a, b); }
};

/* What `Combine` makes of `value` over SLICES work-items, in each of them. `place` says where
 * the result of a slice lies in `partial`, which has room for the whole work-group. Two barriers
 * at most, where a tree of halves would need one for each: FINALS results, or fewer, are added
 * up by every work-item itself. `partial` is written once, so nobody waits after reading it. */
template <class Combine, unsigned SLICES, unsigned FINALS, class Place>
static __device__ __forceinline__ float reduce(
    float value, float* partial, unsigned slice, Place place)
{
    constexpr unsigned LAST = SLICES < FINALS ? SLICES : FINALS;
    constexpr Combine combine;
    partial[place(slice)] = value;
    __syncthreads();
    if constexpr (SLICES > FINALS) {
        if (slice < LAST) {
#pragma unroll
            for (unsigned k = LAST; k < SLICES; k += LAST)
                value = combine(value, partial[place(slice + k)]);
            partial[place(slice)] = value;
        }
        __syncthreads();
    }
    float result = partial[place(0)];
#pragma unroll
    for (unsigned k = 1; k < LAST; k++)
        result = combine(result, partial[place(k)]);
    return result;
}
