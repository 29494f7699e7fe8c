/* VECTOR neighbours of a row, whose elements a work-group reads in turn; and their order. */
#pragma once
#include "prelude.h"
#include "constants/row_elements.h"
#include "access.h"

constexpr float LOWEST = -3.4028234663852886e38f;

template <class Stored>
static __device__ __forceinline__ void get(float* to, const Stored* from)
{
    if constexpr (VECTOR == 4)
        unpack(to, load4(from));
    else
        to[0] = load(from, 0);
    /* no number is the lowest one */
#pragma unroll
    for (unsigned j = 0; j < VECTOR; j++)
        to[j] = to[j] >= LOWEST ? to[j] : LOWEST;
}

/* What each work-item takes of a row: calls `take(at, values)`. */
template <class Stored, class Take>
static __device__ __forceinline__ void for_row(const Stored* row, Take take)
{
    for (unsigned at = threadIdx.x * VECTOR; at < ROW; at += BLOCK * VECTOR) {
        float part[VECTOR];
        get(part, row + at);
        take(at, part);
    }
}
