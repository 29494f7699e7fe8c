/* Scales of groups of elements, and elements of less than a byte side by side. */
#pragma once
#include "prelude.h"

/* A power of two: the byte is its exponent, 127 larger; 255 is no number (e8m0). */
struct Power {
    static constexpr unsigned BITS = 8;

    unsigned char bits[1]; /* for the size: they are never read by themselves */

    static __device__ __forceinline__ float widen(unsigned word)
    {
        const unsigned exponent = opaque(word & 255u);
        const float least = as_float(0x00400000u);
        const float value = exponent == 0 ? least : as_float(exponent << 23);
        return exponent == 255u ? as_float(0x7fc00000u) : value;
    }
};

/* A sign, EXPONENT bits of an exponent that is BIAS larger, MANTISSA bits of a fraction: less than
 * a byte, of which all patterns are numbers. */
template <unsigned EXPONENT, unsigned MANTISSA, int BIAS>
struct Small {
    static constexpr unsigned BITS = 1 + EXPONENT + MANTISSA;
    static constexpr unsigned SIGN = 1u << (BITS - 1);
    static constexpr unsigned SHIFT = 23 - MANTISSA; /* to where a fraction lies in float32 */
    static constexpr unsigned REBIAS = (127u - BIAS) << 23;
    /* As float32: the least number, and one whose last place is that. */
    static constexpr unsigned LEAST = (128u - BIAS - MANTISSA) << 23;
    static constexpr unsigned MAGIC = (151u - BIAS - MANTISSA) << 23;

    static __device__ __forceinline__ float widen(unsigned word)
    {
        const unsigned magnitude = opaque(word & (SIGN - 1));
        const float small = static_cast<float>(magnitude) * as_float(LEAST);
        const float normal = as_float((magnitude << SHIFT) + REBIAS);
        const float value = magnitude < (1u << MANTISSA) ? small : normal;
        return as_float(as_uint(value) | (word & SIGN) << (32 - BITS));
    }
    /* The nearest number, of two the even one, of one that is not beyond the largest. */
    static __device__ __forceinline__ unsigned narrow(float x)
    {
        const unsigned sign = as_uint(x) >> (32 - BITS) & SIGN;
        const unsigned magnitude = as_uint(x) & 0x7fffffffu;
        const unsigned half = (1u << (SHIFT - 1)) - 1 + (magnitude >> SHIFT & 1);
        const unsigned normal = (magnitude + half - REBIAS) >> SHIFT;
        /* The sum has no more places than the result: the addition rounds. */
        const unsigned small = as_uint(as_float(magnitude) + as_float(MAGIC)) - MAGIC;
        return (magnitude < REBIAS + (1u << 23) ? small : normal) | sign;
    }
};

using F4E2M1 = Small<2, 1, 1>;
using F6E2M3 = Small<2, 3, 1>;
using F6E3M2 = Small<3, 2, 3>;

/* A two's complement of 4 bits. */
struct I4 {
    static constexpr unsigned BITS = 4;

    static __device__ __forceinline__ float widen(unsigned word)
    {
        return static_cast<float>(static_cast<int>(word << (32 - BITS)) >> (32 - BITS));
    }
    static __device__ __forceinline__ unsigned narrow(float x)
    {
        return as_uint(x + 12582912.0f) & ((1u << BITS) - 1); /* 1.5 * 2^23 */
    }
};

/* Numbers `at` to `at` + 3 of a tensor, `at` a multiple of four. */
template <class T>
static __device__ __forceinline__ float4 numbers4(const unsigned* tensor, unsigned at)
{
    if constexpr (sizeof(T) == 4) {
        return *reinterpret_cast<const float4*>(tensor + at);
    } else if constexpr (T::BITS == 16) {
        const int2 two = *reinterpret_cast<const int2*>(tensor + at / 2);
        const unsigned low = two.x, high = two.y;
        return float4{T::widen(low), T::widen(low >> 16), T::widen(high), T::widen(high >> 16)};
    } else {
        const unsigned bit = at % 16 * T::BITS, place = at / 16 * (T::BITS / 2) + bit / 32;
        unsigned word = tensor[place] >> bit % 32;
        if constexpr (T::BITS == 6)
            if (bit % 32 > 8)
                word |= tensor[place + 1] << (32 - bit % 32);
        return float4{T::widen(word), T::widen(word >> T::BITS), T::widen(word >> 2 * T::BITS),
            T::widen(word >> 3 * T::BITS)};
    }
}

/* Four numbers times a scale. */
template <class Scale>
static __device__ __forceinline__ float4 scaled(float4 four, const Scale* scales, unsigned at)
{
    const float scale = load(scales, at);
    return float4{four.x * scale, four.y * scale, four.z * scale, four.w * scale};
}

/* The nearest number of so many bits. Of 21, an error of a quotient is gone where that has
 * fewer. */
template <unsigned BITS = 21>
static __device__ __forceinline__ float settled(float x)
{
    constexpr unsigned LOST = 24 - BITS;
    return as_float((as_uint(x) + (1u << (LOST - 1))) & ~((1u << LOST) - 1));
}

/* The bits of the scale of a group, and its inverse, where the largest magnitude is known; of the
 * largest number of elements the inverse and the exponent, `top`; of scales the largest, `most`. */
template <class Scale>
struct ScaleOf {
    unsigned bits;
    float inverse;

    static __device__ __forceinline__ ScaleOf made(
        float magnitude, float inverse, unsigned top, float most)
    {
        if constexpr (sizeof(Scale) == 4) {
            const float scale = maximum(magnitude, 1e-10f) * inverse;
            return {as_uint(scale), fast_rcp(scale)};
        } else {
            const float exact = settled(settled<14>(magnitude) * inverse);
            const unsigned bits = Scale::narrow(minimum(exact, most));
            const float scale = Scale::widen(bits);
            return {bits, scale > 0.0f ? fast_rcp(scale) : 0.0f};
        }
    }
};
template <>
struct ScaleOf<Power> {
    unsigned bits;
    float inverse;

    static __device__ __forceinline__ ScaleOf made(float magnitude, float, unsigned top, float)
    {
        const unsigned exponent = as_uint(magnitude) >> 23;
        const unsigned bits = exponent > top ? exponent - top : 0u;
        return {bits, as_float((254u - bits) << 23)};
    }
};

/* 16 numbers to memory, one behind the other, of which T has so many bits. */
template <class T>
static __device__ __forceinline__ void store16(unsigned* to, const float (&numbers)[16])
{
    unsigned words[T::BITS / 2] = {};
#pragma unroll
    for (unsigned i = 0; i < 16; i++) {
        const unsigned at = i * T::BITS, code = opaque(T::narrow(numbers[i]));
        words[at / 32] |= code << at % 32;
        if (at % 32 + T::BITS > 32)
            words[at / 32 + 1] |= code >> (32 - at % 32);
    }
#pragma unroll
    for (unsigned i = 0; i < T::BITS / 2; i++)
        to[i] = words[i];
}
