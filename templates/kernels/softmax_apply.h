/* Softmax, element by element: which row elements have. Rows may end anywhere: neighbours in
 * memory have each its own row. */
#pragma once
#include "prelude.h"
#include "constants/softmax_apply.h"
#include "softmax_element.h"

/* That of element `at`; of the one before, behind the last element. */
static __device__ __forceinline__ unsigned row_of(unsigned at)
{
    const unsigned place = at < SIZE ? at : SIZE - 1;
    return place / (AXIS * INNER) * INNER + place % INNER;
}
