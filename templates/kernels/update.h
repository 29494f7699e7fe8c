/* Elements of a parameter and its states: VECTOR neighbours by a work-item, fewer behind the
 * last whole ones. */
#pragma once
#include "prelude.h"
#include "access.h"
#include "constants/update.h"

/* Whether all VECTOR elements from `at` on are there. */
static __device__ __forceinline__ bool whole(unsigned at)
{
    return SIZE % (BLOCK * VECTOR) == 0 || at + VECTOR <= SIZE;
}

template <class T>
static __device__ __forceinline__ void fetch(float (&to)[VECTOR], const T* from, unsigned at)
{
    if (whole(at)) {
        unpack(to, load4(from + at));
    } else {
#pragma unroll
        for (unsigned k = 0; k < SIZE % VECTOR; k++)
            to[k] = load(from, at + k);
    }
}

static __device__ __forceinline__ void put(float* to, unsigned at, const float (&values)[VECTOR])
{
    if (whole(at)) {
        store4(to + at, float4{values[0], values[1], values[2], values[3]});
    } else {
#pragma unroll
        for (unsigned k = 0; k < SIZE % VECTOR; k++)
            to[at + k] = values[k];
    }
}

/* Tensors of narrow elements are filled up behind their end. */
template <class T>
static __device__ __forceinline__ void put(T* to, unsigned at, const float (&values)[VECTOR])
{
    store4(to + at, float4{values[0], values[1], values[2], values[3]});
}
