/* The filter's row and column that a tap takes: taps may go through a filter backwards. */
#pragma once
#include "prelude.h"

template <unsigned FIRST, int STEP>
static __device__ __forceinline__ unsigned counted(unsigned index)
{
    if constexpr (STEP < 0)
        return FIRST - static_cast<unsigned>(-STEP) * index;
    else
        return FIRST + static_cast<unsigned>(STEP) * index;
}
