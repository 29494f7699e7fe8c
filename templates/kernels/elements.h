/* Elements of tensors that are narrower than 32 bits. What is computed with is float32, of
 * integers int32.
 *
 * They move in words of 32 bits or more, since simulators are weak below. A tensor starts on a
 * word and is filled up to four elements, so that the last ones move as all others do; what lies
 * behind its end is nobody's. */
#pragma once
#include "prelude.h"

/* 16-bit floats by one instruction, where every machine that runs it is right. gem5's narrowing
 * takes ties up and is wrong for subnormal numbers: what it gets has no more places than a half
 * has. */
#if defined(__AMDGCN__)
#define SIMGEN_WIDENS_HALF
#define SIMGEN_KEEPS_HALF
static __device__ __forceinline__ float widen_half(unsigned word)
{
    float y = __builtin_bit_cast(_Float16, static_cast<unsigned short>(word));
#ifdef __AMDGCN__
    asm("" : "+v"(y)); /* else two of them are compared as halves, which gem5 cannot */
#endif
    return y;
}
static __device__ __forceinline__ unsigned keep_half(float x)
{
    return __builtin_bit_cast(unsigned short, static_cast<_Float16>(x));
}
#elif defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define SIMGEN_WIDENS_HALF
#define SIMGEN_NARROWS_HALF
static __device__ __forceinline__ float widen_half(unsigned word)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(static_cast<unsigned short>(word)));
    return y;
}
static __device__ __forceinline__ unsigned narrow_half(float x)
{
    unsigned short y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
#if __CUDA_ARCH__ >= 800
/* Two numbers as a word, the first one in its lower half. */
#define SIMGEN_NARROWS_TWO
template <bool IS_HALF>
static __device__ __forceinline__ unsigned narrow_two(float x, float y)
{
    unsigned word;
    if constexpr (IS_HALF)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(y), "f"(x));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(y), "f"(x));
    return word;
}
#endif
#if __CUDA_ARCH__ >= 890
/* Four numbers as a word, the first one in its lowest byte: OCP's 8-bit floats. What is too
 * large becomes the largest. */
#define SIMGEN_NARROWS_FOUR
#define NARROW_FOUR(TYPE)                                                                          \
    asm("{\n.reg .b16 low, high;\ncvt.rn.satfinite." TYPE                                          \
        "x2.f32 low, %2, %1;\ncvt.rn.satfinite." TYPE "x2.f32 high, %4, %3;\n"                     \
        "mov.b32 %0, {low, high};\n}"                                                              \
        : "=r"(word)                                                                               \
        : "f"(x), "f"(y), "f"(z), "f"(w))
template <bool FOUR_THREE>
static __device__ __forceinline__ unsigned narrow_four(float x, float y, float z, float w)
{
    unsigned word;
    if constexpr (FOUR_THREE)
        NARROW_FOUR("e4m3");
    else
        NARROW_FOUR("e5m2");
    return word;
}
#undef NARROW_FOUR
#endif
#endif

/* What the largest exponent stands for: infinity and NaNs; numbers, and NaN in all ones;
 * numbers, and NaN in the place of -0. */
enum class Special { IEEE, FINITE, UNSIGNED_ZERO };

/* A sign, EXPONENT bits of an exponent that is BIAS larger, MANTISSA bits of a fraction. */
template <unsigned EXPONENT, unsigned MANTISSA, int BIAS, Special SPECIAL>
struct Narrow {
    static constexpr unsigned BITS = 1 + EXPONENT + MANTISSA;
    static constexpr unsigned SIGN = 1u << (BITS - 1);
    static constexpr unsigned SHIFT = 23 - MANTISSA; /* to where a fraction lies in float32 */
    static constexpr unsigned REBIAS = (127u - BIAS) << 23;
    static constexpr unsigned LARGEST = (1u << EXPONENT) - 1; /* exponent */
    static constexpr unsigned INFINITE = LARGEST << MANTISSA;
    /* What a number that is too large becomes; and, as float32, from where on all are. */
    static constexpr unsigned OVERFLOW = SPECIAL == Special::IEEE     ? INFINITE
                                         : SPECIAL == Special::FINITE ? SIGN - 1
                                                                      : SIGN;
    static constexpr unsigned LIMIT =
        REBIAS + ((LARGEST + (SPECIAL == Special::IEEE ? 0 : 1)) << 23);
    /* As float32: the least normal number, the least of all, and a number whose last place is
     * that. */
    static constexpr unsigned NORMAL = REBIAS + (1u << 23);
    static constexpr unsigned LEAST = (128u - BIAS - MANTISSA) << 23;
    static constexpr unsigned MAGIC = (151u - BIAS - MANTISSA) << 23;
    /* Numbers of float32 with fewer places: subnormal ones too. */
    static constexpr bool SHORTENED = EXPONENT == 8 && SPECIAL == Special::IEEE;
    static constexpr bool HALF = EXPONENT == 5 && MANTISSA == 10 && SPECIAL == Special::IEEE;
    /* OCP's 8-bit floats. */
    static constexpr bool FOUR_THREE =
        EXPONENT == 4 && MANTISSA == 3 && BIAS == 7 && SPECIAL == Special::FINITE;
    static constexpr bool FIVE_TWO =
        EXPONENT == 5 && MANTISSA == 2 && BIAS == 15 && SPECIAL == Special::IEEE;

    unsigned char bits[BITS / 8]; /* for the size: they are never read by themselves */

    /* The number in the low BITS bits of a word. */
    static __device__ __forceinline__ float widen(unsigned word)
    {
        if constexpr (SHORTENED)
            return as_float(word << SHIFT);
#ifdef SIMGEN_WIDENS_HALF
        if constexpr (HALF)
            return widen_half(word);
#endif
        /* Of a number that they know to be small, compilers would compare 16 bits. */
        const unsigned magnitude = opaque(word & (SIGN - 1));
        const float normal = as_float((magnitude << SHIFT) + REBIAS);
        const float subnormal = static_cast<float>(magnitude) * as_float(LEAST);
        float value = magnitude < (1u << MANTISSA) ? subnormal : normal;
        if constexpr (SPECIAL == Special::IEEE)
            value = magnitude >= INFINITE ? as_float(0x7f800000u | magnitude << SHIFT) : value;
        if constexpr (SPECIAL == Special::FINITE)
            value = magnitude == SIGN - 1 ? as_float(0x7fc00000u) : value;
        if constexpr (SPECIAL == Special::UNSIGNED_ZERO)
            value = opaque(word & (2 * SIGN - 1)) == SIGN ? as_float(0x7fc00000u) : value;
        return as_float(as_uint(value) | (word & SIGN) << (32 - BITS));
    }

    /* The nearest number, of two the even one; nothing above its bits. */
    static __device__ __forceinline__ unsigned narrow(float x)
    {
#ifdef SIMGEN_NARROWS_TWO
        if constexpr (SHORTENED && BITS == 16)
            return narrow_two<false>(x, 0.0f);
#endif
        const unsigned sign = as_uint(x) >> (32 - BITS) & SIGN;
        const unsigned magnitude = as_uint(x) & 0x7fffffffu;
        /* Half of the last place, less where the number is even: a carry goes into the exponent. */
        const unsigned half = (1u << (SHIFT - 1)) - 1 + (magnitude >> SHIFT & 1);
        if constexpr (SHORTENED) {
            const unsigned rounded = (magnitude + half) >> SHIFT;
            const unsigned quiet = magnitude >> SHIFT | 1u << (MANTISSA - 1);
            return (magnitude > 0x7f800000u ? quiet : rounded) | sign;
        }
#ifdef SIMGEN_NARROWS_HALF
        if constexpr (HALF)
            return narrow_half(x);
#endif
        unsigned rounded = (magnitude + half - REBIAS) >> SHIFT;
        if constexpr (SPECIAL == Special::FINITE)
            rounded = rounded < OVERFLOW ? rounded : OVERFLOW;
        /* The sum has no more places than the result: the addition rounds. */
        const unsigned small = as_uint(as_float(magnitude) + as_float(MAGIC)) - MAGIC;
        rounded = magnitude < NORMAL ? small : rounded;
        rounded = magnitude >= LIMIT ? OVERFLOW : rounded;
        if constexpr (SPECIAL == Special::IEEE)
            rounded = magnitude > 0x7f800000u ? INFINITE | 1u << (MANTISSA - 1) : rounded;
        if constexpr (SPECIAL == Special::UNSIGNED_ZERO)
            return rounded == 0 ? 0 : rounded | sign;
        return rounded | sign;
    }

#ifdef SIMGEN_NARROWS_FOUR
    /* Bits that are set if one of the numbers in a word is the largest, or none: narrow_four()
     * may have been wrong. */
    static __device__ __forceinline__ unsigned largest(unsigned word)
    {
        return ((word & 0x7f7f7f7fu) + (FOUR_THREE ? 0x02020202u : 0x05050505u)) & 0x80808080u;
    }
    /* The bits that such an instruction makes of x, unless that is too large, or no number: then
     * what narrow() makes of it. */
    static __device__ __forceinline__ unsigned beyond(unsigned made, float x)
    {
        const unsigned magnitude = as_uint(x) & 0x7fffffffu,
                       sign = as_uint(x) >> (32 - BITS) & SIGN;
        /* In the middle between the largest number and the next one, which is even where that is
         * infinity. */
        constexpr unsigned MIDDLE =
            LIMIT - (SPECIAL == Special::FINITE ? 3u << (SHIFT - 1) : 1u << (SHIFT - 1));
        if (magnitude > 0x7f800000u)
            return (SPECIAL == Special::FINITE ? OVERFLOW : INFINITE | 1u << (MANTISSA - 1)) | sign;
        return magnitude >= MIDDLE + (SPECIAL == Special::FINITE) ? OVERFLOW | sign : made;
    }
    /* The same of four numbers and a word. */
    static __device__ __forceinline__ unsigned all_beyond(
        unsigned word, float x, float y, float z, float w)
    {
        return beyond(word & 0xffu, x) | beyond(word >> 8 & 0xffu, y) << 8
               | beyond(word >> 16 & 0xffu, z) << 16 | beyond(word >> 24, w) << 24;
    }
#endif

    /* The same of what is a number of this type already, as what is chosen among loaded ones. */
    static __device__ __forceinline__ unsigned keep(float x)
    {
        if constexpr (SHORTENED)
            return as_uint(x) >> SHIFT;
#ifdef SIMGEN_KEEPS_HALF
        if constexpr (HALF)
            return keep_half(x);
#endif
        return narrow(x);
    }
};

/* A two's complement of 8 bits, of which ZERO stands for 0: what is computed with is the
 * difference. */
template <int ZERO>
struct Whole {
    static constexpr unsigned BITS = 8;

    unsigned char bits[BITS / 8]; /* for the size: they are never read by themselves */

    /* The number in the low BITS bits of a word. */
    static __device__ __forceinline__ int widen(unsigned word)
    {
        return (static_cast<int>(word << (32 - BITS)) >> (32 - BITS)) - ZERO;
    }
    /* The bits of a number, which is in range. */
    static __device__ __forceinline__ unsigned narrow(int x)
    {
        return static_cast<unsigned>(x) & ((1u << BITS) - 1);
    }
};

/* The same where what is computed with is float32. */
template <int ZERO>
struct Counted {
    static constexpr unsigned BITS = 8;
    static constexpr float WHOLE =
        12582912.0f; /* 1.5 * 2^23: adding it leaves a number rounded to the nearest whole one, of
                      * two the even one, in the low bits of the sum */

    unsigned char bits[BITS / 8]; /* for the size: they are never read by themselves */

    static __device__ __forceinline__ float widen(unsigned word)
    {
        return static_cast<float>(Whole<ZERO>::widen(word));
    }
    /* Rounded, shifted, and saturated to 8 bits. */
    static __device__ __forceinline__ unsigned narrow(float x)
    {
        constexpr float LOW = -128 - ZERO;
        constexpr float HIGH = 127 - ZERO;
        return keep(minimum(maximum(x, LOW), HIGH));
    }
    /* The same of what is in range. */
    static __device__ __forceinline__ unsigned keep(float x)
    {
        return (as_uint(x + WHOLE) + ZERO) & ((1u << BITS) - 1);
    }
};

/* A two's complement of 4 bits, of which ZERO stands for 0: two in each byte, the first one in
 * its lower half. There are eight of them wherever one is read (grouped.h). */
template <int ZERO>
struct Nibbles {
    static constexpr unsigned BITS = 4;

    unsigned char bits[1]; /* two */

    static __device__ __forceinline__ float widen(unsigned word)
    {
        return static_cast<float>((static_cast<int>(word << (32 - BITS)) >> (32 - BITS)) - ZERO);
    }
};

/* Together with those of float (common.h), wherever this is included. */
using ::keep4;
using ::load;
using ::load4;
using ::store;
using ::store4;

/* Element `at` of a tensor, which begins on a word. */
template <class T>
static __device__ __forceinline__ auto load(const T* tensor, unsigned at) -> decltype(T::widen(0))
{
    constexpr unsigned SHARED = 32 / T::BITS; /* elements of a word */
    return T::widen(
        reinterpret_cast<const unsigned*>(tensor)[at / SHARED] >> at % SHARED * T::BITS);
}

/* The element at a place, wherever in a word that is. */
template <class T>
static __device__ __forceinline__ auto load(const T* from) -> decltype(T::widen(0))
{
    /* bytes */
    const unsigned behind = static_cast<unsigned>(reinterpret_cast<unsigned long long>(from)) % 4;
    const unsigned word =
        *reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(from) - behind);
    return T::widen(word >> behind * 8);
}

/* One of a narrow type by itself, for machines that store as little as that (rows.h). */
template <class T>
static __device__ __forceinline__ void store_alone(T* tensor, unsigned at, float value)
{
    if constexpr (T::BITS == 16)
        reinterpret_cast<unsigned short*>(tensor)[at] =
            static_cast<unsigned short>(T::narrow(value));
    else
        reinterpret_cast<unsigned char*>(tensor)[at] = static_cast<unsigned char>(T::narrow(value));
}

/* Elsewhere, a narrow element is never stored by itself. Nothing defines this: what needs it does
 * not link. */
template <unsigned E, unsigned M, int B, Special S>
__device__ void store(Narrow<E, M, B, S>* tensor, unsigned at, float value);
template <int ZERO>
__device__ void store(Whole<ZERO>* tensor, unsigned at, int value);
template <int ZERO>
__device__ void store(Counted<ZERO>* tensor, unsigned at, float value);

template <int ZERO>
static __device__ __forceinline__ int4 load4(const Whole<ZERO>* from)
{
    using T = Whole<ZERO>;
    const unsigned word = *reinterpret_cast<const unsigned*>(from);
    return int4{T::widen(word), T::widen(word >> 8), T::widen(word >> 16), T::widen(word >> 24)};
}

template <int ZERO>
static __device__ __forceinline__ float4 load4(const Counted<ZERO>* from)
{
    using T = Counted<ZERO>;
    const unsigned word = *reinterpret_cast<const unsigned*>(from);
    return float4{T::widen(word), T::widen(word >> 8), T::widen(word >> 16), T::widen(word >> 24)};
}

template <unsigned E, unsigned M, int B, Special S>
static __device__ __forceinline__ float4 load4(const Narrow<E, M, B, S>* from)
{
    using T = Narrow<E, M, B, S>;
    if constexpr (T::BITS == 8) {
        const unsigned word = *reinterpret_cast<const unsigned*>(from);
        return float4{
            T::widen(word), T::widen(word >> 8), T::widen(word >> 16), T::widen(word >> 24)};
    } else {
        const int2 words = *reinterpret_cast<const int2*>(from);
        const unsigned x = words.x, y = words.y;
        return float4{T::widen(x), T::widen(x >> 16), T::widen(y), T::widen(y >> 16)};
    }
}

/* The bits of 4 elements of T in memory. */
template <class T>
static __device__ __forceinline__ void put4(T* to, unsigned x, unsigned y, unsigned z, unsigned w)
{
    if constexpr (T::BITS == 8)
        *reinterpret_cast<unsigned*>(to) =
            opaque(x) | opaque(y) << 8 | opaque(z) << 16 | opaque(w) << 24;
    else
        *reinterpret_cast<int2*>(to) = int2{static_cast<int>(opaque(x) | opaque(y) << 16),
            static_cast<int>(opaque(z) | opaque(w) << 16)};
}
template <int ZERO>
static __device__ __forceinline__ void store4(Whole<ZERO>* to, int4 value)
{
    using T = Whole<ZERO>;
    put4(to, T::narrow(value.x), T::narrow(value.y), T::narrow(value.z), T::narrow(value.w));
}
template <unsigned E, unsigned M, int B, Special S>
static __device__ __forceinline__ void store4(Narrow<E, M, B, S>* to, float4 value)
{
    using T = Narrow<E, M, B, S>;
#ifdef SIMGEN_NARROWS_TWO
    if constexpr (T::HALF || (T::SHORTENED && T::BITS == 16)) {
        const unsigned low = narrow_two<T::HALF>(value.x, value.y),
                       high = narrow_two<T::HALF>(value.z, value.w);
        *reinterpret_cast<int2*>(to) = int2{static_cast<int>(low), static_cast<int>(high)};
        return;
    }
#endif
#ifdef SIMGEN_NARROWS_FOUR
    if constexpr (T::FOUR_THREE || T::FIVE_TWO) {
        unsigned word = narrow_four<T::FOUR_THREE>(value.x, value.y, value.z, value.w);
        if (T::largest(word))
            word = T::all_beyond(word, value.x, value.y, value.z, value.w);
        *reinterpret_cast<unsigned*>(to) = word;
        return;
    }
#endif
    put4(to, T::narrow(value.x), T::narrow(value.y), T::narrow(value.z), T::narrow(value.w));
}

template <int ZERO>
static __device__ __forceinline__ void store4(Counted<ZERO>* to, float4 value)
{
    using T = Counted<ZERO>;
    put4(to, T::narrow(value.x), T::narrow(value.y), T::narrow(value.z), T::narrow(value.w));
}

/* The same of numbers that the type has: nothing is rounded. */
template <int ZERO>
static __device__ __forceinline__ void keep4(Counted<ZERO>* to, float4 value)
{
    using T = Counted<ZERO>;
    put4(to, T::keep(value.x), T::keep(value.y), T::keep(value.z), T::keep(value.w));
}
template <unsigned E, unsigned M, int B, Special S>
static __device__ __forceinline__ void keep4(Narrow<E, M, B, S>* to, float4 value)
{
    using T = Narrow<E, M, B, S>;
    put4(to, T::keep(value.x), T::keep(value.y), T::keep(value.z), T::keep(value.w));
}
