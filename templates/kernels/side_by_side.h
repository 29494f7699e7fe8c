/* Narrow results of a work-group's work-items that lie side by side in memory, one from each. */
#pragma once
#include "prelude.h"

/* Item `item` < ITEMS has element first + item, unless that is beyond SIZE. They are stored by
 * fours, each by one work-item: so all of these must come here, with an element or without
 * (`there`), and `first` and ITEMS are multiples of 4. */
template <unsigned ITEMS, unsigned SIZE, class T>
static __device__ __forceinline__ void store_side_by_side(
    T* to, unsigned first, unsigned item, bool there, float value)
{
    static_assert(ITEMS % 4 == 0, "work-groups would share a word");
    alignas(16) __shared__ float values[ITEMS];
    if (there)
        values[item] = value;
    __syncthreads();
    const unsigned at = threadIdx.x * 4;
    if (at < ITEMS && first + at < SIZE)
        store4(to + first + at, float4{values[at], values[at + 1], values[at + 2], values[at + 3]});
}
