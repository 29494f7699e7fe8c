/* Where the pairs of each expert lie: among the sorted keys, and in blocks of ROWS places of
 * which each has one expert's. Keys are e PAIRS + i. */
#pragma once
#include "prelude.h"

/* The first of the keys that is not less than a number; PAIRS where there is none. */
template <unsigned PAIRS>
static __device__ __forceinline__ unsigned first_key(const unsigned* keys, unsigned least)
{
    unsigned low = 0, high = PAIRS;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (keys[middle] < least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Each expert has, and so has all behind the last: its first key, its first place, and how many
 * before it have some. All work-items get here. */
template <unsigned PAIRS, unsigned EXPERTS, unsigned ROWS, unsigned BLOCK>
static __device__ __forceinline__ void find_runs(
    const unsigned* keys, unsigned* firsts, unsigned* starts, unsigned* slots)
{
    for (unsigned e = threadIdx.x; e <= EXPERTS; e += BLOCK)
        firsts[e] = e < EXPERTS ? first_key<PAIRS>(keys, e * PAIRS) : PAIRS;
    __syncthreads();
    for (unsigned e = threadIdx.x; e <= EXPERTS; e += BLOCK) {
        unsigned start = 0, some = 0;
        for (unsigned before = 0; before < e; before++) {
            const unsigned count = firsts[before + 1] - opaque(firsts[before]);
            start += (count + (ROWS - 1)) / ROWS * ROWS;
            some += count > 0;
        }
        starts[e] = start;
        slots[e] = some;
    }
    __syncthreads();
}
