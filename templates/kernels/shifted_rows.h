/* Rows of narrow elements that begin between accesses of VECTOR elements. Accesses lie where the
 * tensor has them: the first of a row begins `lead` elements before it, and the last may end behind
 * it. Where rows lie by VECTOR, nothing of this is there. */
#pragma once
#include "prelude.h"
#include "access.h"
#include "constants/shifted_rows.h"

constexpr bool SHIFTED = VECTOR > 1 && AXIS % VECTOR != 0;

/* Elements between the access in which a row begins and the row. */
static __device__ __forceinline__ unsigned lead(unsigned row)
{
    return SHIFTED ? row * AXIS % VECTOR : 0;
}

/* Whether an element of an access is the row's. */
static __device__ __forceinline__ bool of_row(unsigned row, unsigned at)
{
    return !SHIFTED || at - lead(row) < AXIS;
}

/* Elements [at, at + 4) of COUNT, with zeros behind them; `at` is a multiple of 4. */
template <unsigned COUNT>
static __device__ __forceinline__ void unpack_inside(float* to, const float* from, unsigned at)
{
    if (at + 4 <= COUNT) {
        unpack(to, load4(from + at));
        return;
    }
#pragma unroll
    for (unsigned j = 0; j < 4; j++)
        to[j] = at + j < COUNT ? from[at + j] : 0.0f;
}

/* Elements [at - behind, at - behind + 4) of COUNT, of two accesses that lie by 4; zeros before and
 * behind them. */
template <unsigned COUNT>
static __device__ __forceinline__ void fetch_shifted(
    float* to, const float* from, unsigned at, unsigned behind)
{
    float pair[8] = {}, odd[5];
    if (behind != 0 && at != 0)
        unpack_inside<COUNT>(pair, from, at - 4);
    unpack_inside<COUNT>(pair + 4, from, at);
#pragma unroll
    for (unsigned j = 0; j < 5; j++)
        odd[j] = behind & 2 ? pair[1 + j] : pair[3 + j];
#pragma unroll
    for (unsigned j = 0; j < 4; j++)
        to[j] = behind & 1 ? odd[j] : odd[1 + j];
}

/* An element by itself: the memory of machines with such rows takes 8 and 16 bits. */
template <class Stored>
static __device__ __forceinline__ void store_one(Stored* to, float value)
{
    if constexpr (sizeof(Stored) == 2)
        *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(Stored::narrow(value));
    else if constexpr (sizeof(Stored) == 1)
        *reinterpret_cast<unsigned char*>(to) = static_cast<unsigned char>(Stored::narrow(value));
    else
        *to = value;
}

/* The elements of an access that are the row's; `to` is where its first access begins. */
template <class Stored>
static __device__ __forceinline__ void store_piece(
    Stored* to, unsigned row, unsigned at, float4 value)
{
    if (of_row(row, at) && of_row(row, at + 3)) {
        store4(to + at, value);
        return;
    }
    float each[4];
    unpack(each, value);
#pragma unroll
    for (unsigned j = 0; j < 4; j++)
        if (of_row(row, at + j))
            store_one(to + at + j, each[j]);
}
