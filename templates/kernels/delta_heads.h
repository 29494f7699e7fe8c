/* Where a head of a sample lies, and accesses of VECTOR elements. */
#pragma once
#include "prelude.h"
#include "constants/delta_heads.h"
#include "access.h"

constexpr float LOG2_E = 1.44269504f;

/* Of a work-group's head of values. */
struct Head {
    unsigned sample, value, key;

    __device__ __forceinline__ Head()
        : sample(blockIdx.y / VALUE_HEADS), value(blockIdx.y % VALUE_HEADS),
          key(value / (VALUE_HEADS / KEY_HEADS))
    {
    }
    __device__ __forceinline__ bool is_there() const { return sample < SAMPLES; }
    __device__ __forceinline__ unsigned key_at(unsigned token) const
    {
        return ((sample * TOKENS + token) * KEY_HEADS + key) * KEY_SIZE;
    }
    /* the place in tensors of one number for a token and a head of values */
    __device__ __forceinline__ unsigned at(unsigned token) const
    {
        return (sample * TOKENS + token) * VALUE_HEADS + value;
    }
    __device__ __forceinline__ unsigned state_at(unsigned chunk, unsigned chunks) const
    {
        return ((sample * chunks + chunk) * VALUE_HEADS + value) * KEY_SIZE * VALUE_SIZE;
    }
};

template <class Stored>
static __device__ __forceinline__ void get(float* to, const Stored* from)
{
    if constexpr (VECTOR == 4)
        unpack(to, load4(from));
    else
        to[0] = load(from, 0);
}
template <class Stored>
static __device__ __forceinline__ void put(Stored* to, const float* from)
{
    if constexpr (VECTOR == 4)
        store4(to, float4{from[0], from[1], from[2], from[3]});
    else
        store(to, 0, from[0]);
}
