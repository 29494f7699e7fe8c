/* Layer normalisation: how a work-group's items lie over rows. */
#pragma once
#include "prelude.h"
#include "constants/layer_norm.h"
#include "access.h"

/* How often loops over a work-item's elements are unrolled: wholly, where registers hold these. */
static constexpr unsigned UNROLL = IN_REGISTERS ? HELD / VECTOR : 1;

/* No tests where the sizes fit. */
static __device__ __forceinline__ bool is_row(unsigned row)
{
    return ROWS % GROUP_ROWS == 0 || row < ROWS;
}
static __device__ __forceinline__ bool inside(unsigned row, unsigned at)
{
    return is_row(row) && (AXIS == SLICES * HELD || at < AXIS);
}

/* Where in the row a work-item's elements from its k-th on lie: neighbours have neighbours. */
static __device__ __forceinline__ unsigned place(unsigned k, unsigned slice)
{
    return k * SLICES + slice * VECTOR;
}

/* VECTOR elements from `at` on, or zeros. */
template <class T>
static __device__ __forceinline__ void fetch(
    float (&to)[VECTOR], const T* from, unsigned at, bool there)
{
    if constexpr (VECTOR == 4) {
        const float4 four = there ? load4(from + at) : float4{0, 0, 0, 0};
        to[0] = four.x;
        to[1] = four.y;
        to[2] = four.z;
        to[3] = four.w;
    } else {
        to[0] = there ? load(from + at) : 0.0f;
    }
}
static __device__ __forceinline__ void put(
    Element* to, unsigned at, const float (&from)[VECTOR], bool there)
{
    if (!there)
        return;
    if constexpr (VECTOR == 4)
        store4(to + at, float4{from[0], from[1], from[2], from[3]});
    else
        store(to, at, from[0]);
}

/* A work-item's elements of a row of a tensor: held in registers, or read each time. */
struct Share {
    const Element* tensor;
    unsigned row;
    float held[IN_REGISTERS ? HELD : 1];

    __device__ __forceinline__ Share(const Element* from, unsigned at)
        : tensor(from + at * AXIS), row(at)
    {
    }
    __device__ __forceinline__ void first(float (&part)[VECTOR], unsigned k, unsigned slice)
    {
        const unsigned at = place(k, slice);
        fetch(part, tensor, at, inside(row, at));
        if constexpr (IN_REGISTERS)
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                held[k + j] = part[j];
    }
    __device__ __forceinline__ void again(float (&part)[VECTOR], unsigned k, unsigned slice) const
    {
        const unsigned at = place(k, slice);
        if constexpr (IN_REGISTERS)
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                part[j] = held[k + j];
        else
            fetch(part, tensor, at, inside(row, at));
    }
};

/* The sum of `value` over the work-items of a row, in each of them. Two barriers at most: a tree of
 * halves would need more. `partial` is written once, so nobody waits after reading it. */
static __device__ __forceinline__ float row_sum(float value, float* partial)
{
    const unsigned slice = threadIdx.x % SLICES;
    float* own = partial + (threadIdx.x - slice);
    own[slice] = value;
    __syncthreads();
    if constexpr (SLICES > FINALS) {
        if (slice < FINALS) {
#pragma unroll
            for (unsigned k = FINALS; k < SLICES; k += FINALS)
                value += own[slice + k];
            own[slice] = value;
        }
        __syncthreads();
    }
    float result = own[0];
#pragma unroll
    for (unsigned k = 1; k < FINALS; k++)
        result += own[k];
    return result;
}
