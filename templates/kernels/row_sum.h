/* A sum of two tensors by rows, as one tensor. */
#pragma once
#include "layer_norm.h"

/* A work-item's elements of a row of the sum. */
struct Sum {
    Share<Element> one, other;

    __device__ __forceinline__ void first(float (&part)[VECTOR], unsigned k, unsigned slice)
    {
        float more[VECTOR];
        one.first(part, k, slice);
        other.first(more, k, slice);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            part[j] += more[j];
    }
    __device__ __forceinline__ void again(float (&part)[VECTOR], unsigned k, unsigned slice) const
    {
        float more[VECTOR];
        one.again(part, k, slice);
        other.again(more, k, slice);
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            part[j] += more[j];
    }
};
