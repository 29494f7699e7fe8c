/* How a work-group's items lie over rows, and a work-item's elements of one: accesses of VECTOR
 * neighbours, SLICES work-items apart.
 *
 * Rows of narrow elements may begin anywhere within an access (LOOSE). Work-items read whole
 * accesses all the same, from the one on in which a row begins: what is of another row counts as
 * nothing, and is not written. */
#pragma once
#include "prelude.h"
#include "constants/rows.h"
#include "access.h"

constexpr bool LOOSE = AXIS % VECTOR != 0;

/* Elements by which a row begins behind its first access. */
static __device__ __forceinline__ unsigned skew(unsigned row)
{
    return LOOSE ? row * AXIS % VECTOR : 0;
}

/* Whether element `at` of a row's accesses is one of the row; at less than it, `at` is as large as
 * can be. */
static __device__ __forceinline__ bool is_own(unsigned skewed, unsigned at)
{
    return !LOOSE || at - skewed < AXIS;
}

/* No tests where the sizes fit. */
static __device__ __forceinline__ bool is_row(unsigned row)
{
    return ROWS % GROUP_ROWS == 0 || row < ROWS;
}
static __device__ __forceinline__ bool inside(unsigned row, unsigned at)
{
    return is_row(row) && (AXIS == SLICES * HELD || at < AXIS + skew(row));
}

/* Where in the row a work-item's elements from its k-th on lie: neighbours have neighbours. */
static __device__ __forceinline__ unsigned place(unsigned k, unsigned slice)
{
    return k * SLICES + slice * VECTOR;
}

/* Whether the accesses of all work-items from their k-th element on may reach beyond a row. */
static __device__ __forceinline__ constexpr bool is_edge(unsigned k)
{
    return LOOSE && (k == 0 || (k + VECTOR) * SLICES > AXIS);
}

/* VECTOR elements from `at` on, or others. */
template <class T>
static __device__ __forceinline__ void fetch(
    float (&to)[VECTOR], const T* from, unsigned at, bool there, float other = 0.0f)
{
    if constexpr (VECTOR == 4) {
        const float4 four = there ? load4(from + at) : float4{other, other, other, other};
        to[0] = four.x;
        to[1] = four.y;
        to[2] = four.z;
        to[3] = four.w;
    } else {
        to[0] = there ? load(from + at) : other;
    }
}

/* Of the accesses that begin at `row`: those of WIDTH elements from `at` on that are its own. */
template <class T, unsigned WIDTH>
static __device__ __forceinline__ void store_own(
    T* row, unsigned skewed, unsigned at, const float (&from)[WIDTH])
{
    if constexpr (WIDTH == 1) {
        store(row, at, from[0]);
    } else if (!LOOSE || (at >= skewed && at + WIDTH <= skewed + AXIS)) {
        store4(row + at, float4{from[0], from[1], from[2], from[3]});
    } else if constexpr (LOOSE) {
#pragma unroll
        for (unsigned j = 0; j < WIDTH; j++)
            if (is_own(skewed, at + j))
                store_alone(row, at + j, from[j]);
    }
}
template <class T>
static __device__ __forceinline__ void put(
    T* to, unsigned row, unsigned at, const float (&from)[VECTOR])
{
    if (inside(row, at))
        store_own(to + row * AXIS - skew(row), skew(row), at, from);
}

/* How often loops over a work-item's elements are unrolled: wholly, where registers keep them, else
 * so often that NVIDIA's compiler has several loads on their way. */
#if defined(__AMDGCN__)
static constexpr unsigned UNROLL = KEPT ? HELD / VECTOR : 1;
#else
static constexpr unsigned UNROLL = KEPT ? HELD / VECTOR : 4;
#endif

/* A work-item's elements of a row of a tensor, and `other` in place of what is not the row's: kept
 * in registers, those of 16 bits as they are stored where there are many, or read each time. */
template <class T>
struct Share {
    static constexpr bool STORED = KEPT && sizeof(T) == 2 && HELD > 16;

    const T* tensor;
    unsigned row;
    float other;
    float held[KEPT && !STORED ? HELD : 1];
    unsigned words[STORED ? HELD / 2 : 1];

    __device__ __forceinline__ Share(const T* from, unsigned at, float other = 0.0f)
        : tensor(from + at * AXIS - skew(at)), row(at), other(other)
    {
        if constexpr (STORED && LOOSE) /* at once: nothing is moved over what has branches */
#pragma unroll
            for (unsigned k = 0; k < HELD; k += VECTOR)
                keep(k, threadIdx.x % SLICES);
    }
    __device__ __forceinline__ void keep(unsigned k, unsigned slice)
    {
        const unsigned at = place(k, slice);
        const int2 two = inside(row, at) ? *reinterpret_cast<const int2*>(tensor + at) : int2{0, 0};
        words[k / 2] = static_cast<unsigned>(two.x);
        words[k / 2 + 1] = static_cast<unsigned>(two.y);
    }
    __device__ __forceinline__ void first(float (&part)[VECTOR], unsigned k, unsigned slice)
    {
        if constexpr (STORED) {
            if constexpr (!LOOSE)
                keep(k, slice);
            again(part, k, slice);
        } else {
            read(part, k, slice);
            if constexpr (KEPT)
#pragma unroll
                for (unsigned j = 0; j < VECTOR; j++)
                    held[k + j] = part[j];
        }
    }
    __device__ __forceinline__ void again(float (&part)[VECTOR], unsigned k, unsigned slice) const
    {
        if constexpr (STORED) {
            const unsigned at = place(k, slice);
            const bool there = inside(row, at);
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                part[j] = there && (!is_edge(k) || is_own(skew(row), at + j))
                              ? T::widen(words[(k + j) / 2] >> 16 * (j % 2))
                              : other;
        } else if constexpr (KEPT) {
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                part[j] = held[k + j];
        } else {
            read(part, k, slice);
        }
    }
    __device__ __forceinline__ void read(float (&part)[VECTOR], unsigned k, unsigned slice) const
    {
        const unsigned at = place(k, slice);
        fetch(part, tensor, at, inside(row, at), other);
        if (is_edge(k))
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                part[j] = is_own(skew(row), at + j) ? part[j] : other;
    }
};
