/* Elements in RUNS of a work-group, GROUP of them each: what a work-item reads of all is on its
 * way before it does anything with it. One read of 8 bytes for each leaves the memory of a large
 * GPU idle. */
#pragma once
#include "prelude.h"

/* each(at, elements) for those at the VECTOR places that are read, one(at) where there is one
 * run, or the tensor of SIZE elements ends. */
template <unsigned RUNS, unsigned GROUP, unsigned VECTOR, unsigned SIZE, class Element, class Each,
    class One>
static __device__ __forceinline__ void in_runs(const Element* x, const Each& each, const One& one)
{
    if constexpr (RUNS == 1) {
        one(blockIdx.x * GROUP + threadIdx.x * VECTOR);
    } else {
        const unsigned first = blockIdx.x * (RUNS * GROUP) + threadIdx.x * VECTOR;
        if (SIZE % (RUNS * GROUP) == 0 || blockIdx.x < SIZE / (RUNS * GROUP)) {
            float4 in[RUNS];
#pragma unroll
            for (unsigned run = 0; run < RUNS; run++)
                in[run] = load4(x + first + run * GROUP);
#pragma unroll
            for (unsigned run = 0; run < RUNS; run++)
                each(first + run * GROUP, in[run]);
        } else {
            for (unsigned run = 0; run < RUNS; run++)
                one(first + run * GROUP);
        }
    }
}
