/* Floats of 16 bits. Sums and products are rounded once: of binary16 by the machine, of bfloat16
 * from float32, to the nearest, ties to even. */
template <class T> concept simgen_is_bfloat = __is_same(T, struct simgen_bfloat16);
#ifdef SIMGEN_NVIDIA
template <class T> concept simgen_is_half = __is_same(T, struct simgen_half);
struct alignas(2) simgen_half {
    unsigned short bits;
    simgen_half() = default;
    template <class T> __device__ constexpr simgen_half(T x)
        requires(simgen_integral<T> || __is_same(T, float) || __is_same(T, double))
        : bits(0)
    {
        if (__builtin_is_constant_evaluated())
            bits = simgen_nearest(__builtin_bit_cast(unsigned, static_cast<float>(x)));
        else if constexpr (__is_same(T, double))
            asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x));
        else
            asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(static_cast<float>(x)));
    }
    template <simgen_is_bfloat T> __device__ explicit simgen_half(T x)
        : simgen_half(static_cast<float>(x))
    {
    }
    __device__ constexpr operator float() const
    {
        const unsigned sign = (bits & 0x8000u) << 16, left = bits & 0x7fffu;
        if (!__builtin_is_constant_evaluated()) {
            float x;
            asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
            return x;
        }
        if (left < 0x400) /* below the least normal number, in steps of 2^-24 */
            return __builtin_bit_cast(
                float, sign | __builtin_bit_cast(unsigned, static_cast<float>(left) * 0x1p-24f));
        return __builtin_bit_cast(
            float, sign | (left << 13) + (left < 0x7c00 ? 0x38000000u : 0x70000000u));
    }
    __device__ constexpr simgen_half operator-() const
    {
        simgen_half r = *this;
        r.bits ^= 0x8000;
        return r;
    }
    __device__ simgen_half &operator++() { return *this = static_cast<float>(*this) + 1.0f; }
    __device__ simgen_half &operator--() { return *this = static_cast<float>(*this) - 1.0f; }
    static __device__ constexpr unsigned short simgen_nearest(
        unsigned word) /* of a float, ties to even */
    {
        const unsigned sign = word >> 16 & 0x8000, left = word & 0x7fffffff;
        if (left > 0x7f800000)
            return static_cast<unsigned short>(0x7e00 | sign);
        if (left >= 0x477ff000)
            return static_cast<unsigned short>(sign | 0x7c00);
        if (left < 0x38800000)
            return static_cast<unsigned short>(
                sign
                | (__builtin_bit_cast(unsigned, __builtin_bit_cast(float, left) + 0.5f)
                    - 0x3f000000));
        return static_cast<unsigned short>(
            sign | (left + 0xfff + (left >> 13 & 1) - 0x38000000) >> 13);
    }
};
/* With a whole number, as with another half; with wider floats, in their type. */
#define SIMGEN_HALF_OPERATOR(op, name)                                                             \
    template <class A, class B> static inline __device__ simgen_half operator op(A a, B b)         \
        requires((simgen_is_half<A> && (simgen_is_half<B> || simgen_integral<B>))                  \
                 || (simgen_integral<A> && simgen_is_half<B>))                                     \
    {                                                                                              \
        simgen_half r;                                                                             \
        asm(name                                                                                   \
            : "=h"(r.bits)                                                                         \
            : "h"(static_cast<simgen_half>(a).bits), "h"(static_cast<simgen_half>(b).bits));       \
        return r;                                                                                  \
    }                                                                                              \
    template <class T> static inline __device__ simgen_half& operator op## =                       \
        (simgen_half & a, T b)                                                                     \
    {                                                                                              \
        return a = a op b;                                                                         \
    }
SIMGEN_HALF_OPERATOR(+, "add.rn.f16 %0, %1, %2;")
SIMGEN_HALF_OPERATOR(-, "sub.rn.f16 %0, %1, %2;")
SIMGEN_HALF_OPERATOR(*, "mul.rn.f16 %0, %1, %2;")
SIMGEN_HALF_OPERATOR(/, "{.reg .f32 a, b; cvt.f32.f16 a, %1; cvt.f32.f16 b, %2; div.rn.f32 a, "
                        "a, b; cvt.rn.f16.f32 %0, a;}")
typedef simgen_half _Float16;
typedef simgen_half half;
typedef simgen_half __half;
struct alignas(4) half2 {
    half x, y;
};
typedef half2 __half2;
#else
typedef _Float16 half;
typedef _Float16 __half;
typedef _Float16 half2 __attribute__((ext_vector_type(2)));
typedef half2 __half2;
#endif
static inline __device__ half __float2half(float x) { return static_cast<half>(x); }
#define __float2half_rn __float2half
static inline __device__ float __half2float(half x) { return static_cast<float>(x); }
#define SIMGEN_HALF_DIRECTED(way, w)                                                               \
    static inline __device__ half __float2half_##way(float x)                                      \
    {                                                                                              \
        return simgen_directed<w>(                                                                 \
            static_cast<half>(x), x - static_cast<float>(static_cast<half>(x)));                   \
    }                                                                                              \
    static inline __device__ half __int2half_##way(int x)                                          \
    {                                                                                              \
        return __float2half_##way(static_cast<float>(x));                                          \
    }                                                                                              \
    static inline __device__ half __uint2half_##way(unsigned x)                                    \
    {                                                                                              \
        return __float2half_##way(static_cast<float>(x));                                          \
    }                                                                                              \
    static inline __device__ half __short2half_##way(short x)                                      \
    {                                                                                              \
        return __float2half_##way(static_cast<float>(x));                                          \
    }                                                                                              \
    static inline __device__ half __ushort2half_##way(unsigned short x)                            \
    {                                                                                              \
        return __float2half_##way(static_cast<float>(x));                                          \
    }
SIMGEN_HALF_DIRECTED(rz, 'z')
SIMGEN_HALF_DIRECTED(ru, 'u')
SIMGEN_HALF_DIRECTED(rd, 'd')
static inline __device__ half
    __int2half_rn(int x)
{
    return static_cast<half>(static_cast<float>(x));
}
static inline __device__ unsigned short __half_as_ushort(half x)
{
    return __builtin_bit_cast(unsigned short, x);
}
static inline __device__ half __ushort_as_half(unsigned short x)
{
    return __builtin_bit_cast(half, x);
}
static inline __device__ half2 __floats2half2_rn(float a, float b)
{
    return half2{static_cast<half>(a), static_cast<half>(b)};
}
static inline __device__ half2 __float2half2_rn(float a) { return __floats2half2_rn(a, a); }
static inline __device__ half2 __float22half2_rn(float2 a) { return __floats2half2_rn(a.x, a.y); }
static inline __device__ float2 __half22float2(half2 a)
{
    return float2(static_cast<float>(a.x), static_cast<float>(a.y));
}
static inline __device__ half2 __halves2half2(half a, half b) { return half2{ a, b }; }
static inline __device__ half2 __half2half2(half a) { return half2{ a, a }; }
static inline __device__ half2 make_half2(half a, half b) { return half2{ a, b }; }
static inline __device__ half __low2half(half2 a) { return a.x; }
static inline __device__ half __high2half(half2 a) { return a.y; }
static inline __device__ float __low2float(half2 a) { return static_cast<float>(a.x); }
static inline __device__ float __high2float(half2 a) { return static_cast<float>(a.y); }
struct __nv_bfloat16_raw {
    unsigned short x;
};
typedef __nv_bfloat16_raw __hip_bfloat16_raw;
struct alignas(2) simgen_bfloat16 {
    unsigned short bits;
    simgen_bfloat16() = default;
    __device__ constexpr simgen_bfloat16(__nv_bfloat16_raw of) : bits(of.x) {}
    __device__ constexpr simgen_bfloat16(float x)
        : bits(simgen_upper(__builtin_bit_cast(unsigned, x), x != x))
    {
    }
    __device__ constexpr operator float() const
    {
        return __builtin_bit_cast(float, static_cast<unsigned>(bits) << 16);
    }
    __device__ constexpr simgen_bfloat16 operator-() const
    {
        return __nv_bfloat16_raw{static_cast<unsigned short>(bits ^ 0x8000)};
    }
    __device__ simgen_bfloat16 &operator++() { return *this = static_cast<float>(*this) + 1.0f; }
    __device__ simgen_bfloat16 &operator--() { return *this = static_cast<float>(*this) - 1.0f; }
    static __device__ constexpr unsigned short simgen_upper(unsigned word, bool none)
    {
        return static_cast<unsigned short>(
            none ? word >> 16 | 64 : (word + 0x7fff + (word >> 16 & 1)) >> 16);
    }
};
struct alignas(4) simgen_bfloat162 {
    simgen_bfloat16 x, y;
};
/* Each operation of two of them is rounded, as in the headers of ROCm and CUDA. */
#ifdef SIMGEN_NVIDIA
template <class T>
concept simgen_is_bfloats = __is_same(T, simgen_bfloat162) || __is_same(T, half2);
template <class T> static inline __device__ half2 operator*(half2 a, T b)
    requires(simgen_is_half<T> || simgen_integral<T>)
{
    return {a.x * b, a.y * b};
}
template <class T> static inline __device__ half2 operator*(T a, half2 b)
    requires(simgen_is_half<T> || simgen_integral<T>)
{
    return {a * b.x, a * b.y};
}
#else
template <class T> concept simgen_is_bfloats = __is_same(T, simgen_bfloat162);
#endif
#define SIMGEN_BFLOAT_OPERATOR(op)                                                                 \
    template <simgen_is_bfloat A, simgen_is_bfloat B> static inline __device__ simgen_bfloat16     \
    operator op(A a, B b)                                                                          \
    {                                                                                              \
        return static_cast<float>(a) op static_cast<float>(b);                                     \
    }                                                                                              \
    static inline __device__ simgen_bfloat16& operator op## =                                      \
        (simgen_bfloat16 & a, simgen_bfloat16 b)                                                   \
    {                                                                                              \
        return a = a op b;                                                                         \
    }                                                                                              \
    template <simgen_is_bfloats V> static inline __device__ V operator op(V a, V b)                \
    {                                                                                              \
        return {a.x op b.x, a.y op b.y};                                                           \
    }                                                                                              \
    template <simgen_is_bfloats V> static inline __device__ V& operator op## = (V & a, V b)        \
    {                                                                                              \
        return a = a op b;                                                                         \
    }
SIMGEN_BFLOAT_OPERATOR(+)
SIMGEN_BFLOAT_OPERATOR(-)
SIMGEN_BFLOAT_OPERATOR(*)
SIMGEN_BFLOAT_OPERATOR(/)
template <simgen_is_bfloats V> static inline __device__ V operator-(V a)
{
    return {-a.x, -a.y};
}
template <simgen_is_bfloats V> static inline __device__ bool operator==(V a, V b)
{
    return a.x == b.x && a.y == b.y;
}
typedef simgen_bfloat16 __nv_bfloat16;
typedef simgen_bfloat16 __hip_bfloat16;
typedef simgen_bfloat16 hip_bfloat16;
typedef simgen_bfloat16 nv_bfloat16;
typedef simgen_bfloat162 __nv_bfloat162;
typedef simgen_bfloat162 __hip_bfloat162;
typedef simgen_bfloat162 nv_bfloat162;
static inline __device__ simgen_bfloat16 __float2bfloat16(float x) { return x; }
#define __float2bfloat16_rn __float2bfloat16
#define SIMGEN_BFLOAT_DIRECTED(way, w)                                                             \
    static inline __device__ __hip_bfloat16 __float2bfloat16_##way(float x)                        \
    {                                                                                              \
        return simgen_directed<w>(static_cast<__hip_bfloat16>(x),                                  \
            x - static_cast<float>(static_cast<__hip_bfloat16>(x)));                               \
    }
SIMGEN_BFLOAT_DIRECTED(rz, 'z')
SIMGEN_BFLOAT_DIRECTED(ru, 'u')
SIMGEN_BFLOAT_DIRECTED(rd, 'd')
static inline __device__ float __bfloat162float(simgen_bfloat16 x) { return x; }
static inline __device__ float2 __bfloat1622float2(simgen_bfloat162 a) { return float2(a.x, a.y); }
static inline __device__ simgen_bfloat162 __floats2bfloat162_rn(float a, float b) { return {a, b}; }
static inline __device__ simgen_bfloat162 __float2bfloat162_rn(float a) { return { a, a }; }
static inline __device__ simgen_bfloat162 __float22bfloat162_rn(float2 a) { return { a.x, a.y }; }
static inline __device__ simgen_bfloat162 __bfloat162bfloat162(simgen_bfloat16 a) { return {a, a}; }
static inline __device__ simgen_bfloat162 __halves2bfloat162(simgen_bfloat16 a, simgen_bfloat16 b)
{
    return {a, b};
}
static inline __device__ simgen_bfloat162 make_bfloat162(simgen_bfloat16 a, simgen_bfloat16 b)
{
    return {a, b};
}
static inline __device__ simgen_bfloat16 __low2bfloat16(simgen_bfloat162 a) { return a.x; }
static inline __device__ simgen_bfloat16 __high2bfloat16(simgen_bfloat162 a) { return a.y; }
static inline __device__ simgen_bfloat162 __low2bfloat162(simgen_bfloat162 a) { return {a.x, a.x}; }
static inline __device__ simgen_bfloat162 __high2bfloat162(simgen_bfloat162 a)
{
    return {a.y, a.y};
}
static inline __device__ float __low2float(simgen_bfloat162 a) { return a.x; }
static inline __device__ float __high2float(simgen_bfloat162 a) { return a.y; }
static inline __device__ unsigned short __bfloat16_as_ushort(simgen_bfloat16 a) { return a.bits; }
static inline __device__ simgen_bfloat16 __ushort_as_bfloat16(unsigned short bits)
{
    return __nv_bfloat16_raw{bits};
}
static inline __device__ short __bfloat16_as_short(simgen_bfloat16 a)
{
    return static_cast<short>(a.bits);
}
static inline __device__ simgen_bfloat16 __short_as_bfloat16(short bits)
{
    return __nv_bfloat16_raw{static_cast<unsigned short>(bits)};
}

/* The functions of both types, of one number or two: where the machine has no operation of the
 * type, of float32. */
#ifdef SIMGEN_NVIDIA
static inline __device__ half simgen_fused(half a, half b, half c)
{
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(a.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
    return a;
}
#else
static inline __device__ half simgen_fused(half a, half b, half c)
{
    return __builtin_elementwise_fma(a, b, c);
}
#endif
static inline __device__ simgen_bfloat16 simgen_fused(
    simgen_bfloat16 a, simgen_bfloat16 b, simgen_bfloat16 c)
{
    return fmaf(a, b, c);
}
#define SIMGEN_NARROW1(H, V, name, value)                                                          \
    static inline __device__ H h##name(H h)                                                        \
    {                                                                                              \
        const float a = static_cast<float>(h);                                                     \
        return static_cast<H>(value);                                                              \
    }                                                                                              \
    static inline __device__ V h2##name(V v) { return V{h##name(v.x), h##name(v.y)}; }
#define SIMGEN_NARROW2(H, V, name, value)                                                          \
    static inline __device__ H __h##name(H a, H b) { return static_cast<H>(value); }               \
    static inline __device__ V __h##name##2(V a, V b)                                              \
    {                                                                                              \
        return V{__h##name(a.x, b.x), __h##name(a.y, b.y)};                                        \
    }
#define SIMGEN_NARROW_TEST(H, V, name, value)                                                      \
    static inline __device__ bool __h##name(H a, H b) { return value; }                            \
    static inline __device__ bool __h##name##u(H a, H b) { return a != a || b != b || (value); }   \
    static inline __device__ bool __hb##name##2(V a, V b)                                          \
    {                                                                                              \
        return __h##name(a.x, b.x) && __h##name(a.y, b.y);                                         \
    }                                                                                              \
    static inline __device__ V __h##name##2(V a, V b)                                              \
    {                                                                                              \
        return V{static_cast<H>(__h##name(a.x, b.x) * 1.0f),                                       \
            static_cast<H>(__h##name(a.y, b.y) * 1.0f)};                                           \
    }
#define SIMGEN_WITHIN_1(H, x)                                                                      \
    (x) > static_cast<H>(0.0f) ? (x) < static_cast<H>(1.0f) ? (x) : static_cast<H>(1.0f)           \
                               : static_cast<H>(0.0f)
#define SIMGEN_NARROW(H, V)                                                                        \
    SIMGEN_NARROW2(H, V, sub, a - b)                                                               \
    SIMGEN_NARROW2(H, V, mul, a* b) SIMGEN_NARROW2(H, V, add_sat, SIMGEN_WITHIN_1(H, a + b))       \
        SIMGEN_NARROW2(H, V, sub_sat, SIMGEN_WITHIN_1(H, a - b)) SIMGEN_NARROW2(H, V, mul_sat,     \
            SIMGEN_WITHIN_1(H, a* b)) SIMGEN_NARROW2(H, V, max, a >= b || b != b ? a : b)          \
            SIMGEN_NARROW2(H, V, min, a <= b || b != b ? a : b)                                    \
                SIMGEN_NARROW2(H, V, max_nan, a >= b || a != a ? a : b) SIMGEN_NARROW2(            \
                    H, V, min_nan, a <= b || a != a ? a : b) SIMGEN_NARROW_TEST(H, V, eq, a == b)  \
                    SIMGEN_NARROW_TEST(H, V, ne, a<b || a> b) SIMGEN_NARROW_TEST(H, V, lt, a < b)  \
                        SIMGEN_NARROW_TEST(H, V, le, a <= b) SIMGEN_NARROW_TEST(H, V, gt, a > b)   \
                            SIMGEN_NARROW_TEST(H, V, ge, a >= b) static inline __device__ H        \
                            __hadd(H a, H b)                                                       \
    {                                                                                              \
        return a + b;                                                                              \
    }                                                                                              \
    static inline __device__ V __hadd2(V a, V b) { return a + b; }                                 \
    static inline __device__ H __hdiv(H a, H b)                                                    \
    {                                                                                              \
        return static_cast<H>(static_cast<float>(a) / static_cast<float>(b));                      \
    }                                                                                              \
    static inline __device__ V __h2div(V a, V b) { return V{__hdiv(a.x, b.x), __hdiv(a.y, b.y)}; } \
    static inline __device__ H __hneg(H a) { return -a; }                                          \
    static inline __device__ V __hneg2(V a)                                                        \
    {                                                                                              \
        return V{static_cast<H>(-a.x), static_cast<H>(-a.y)};                                      \
    }                                                                                              \
    static inline __device__ H __habs(H a)                                                         \
    {                                                                                              \
        return static_cast<H>(fabsf(static_cast<float>(a)));                                       \
    }                                                                                              \
    static inline __device__ V __habs2(V a) { return V{__habs(a.x), __habs(a.y)}; }                \
    static inline __device__ bool __hisnan(H a) { return a != a; }                                 \
    static inline __device__ V __hisnan2(V a)                                                      \
    {                                                                                              \
        return V{static_cast<H>((a.x != a.x) * 1.0f), static_cast<H>((a.y != a.y) * 1.0f)};        \
    }                                                                                              \
    static inline __device__ int __hisinf(H h)                                                     \
    {                                                                                              \
        const float a = static_cast<float>(h);                                                     \
        return a == __builtin_inff() ? 1 : a == -__builtin_inff() ? -1 : 0;                        \
    }                                                                                              \
    static inline __device__ H __hfma(H a, H b, H c) { return simgen_fused(a, b, c); }             \
    static inline __device__ H __hfma_sat(H a, H b, H c)                                           \
    {                                                                                              \
        const H r = simgen_fused(a, b, c);                                                         \
        return SIMGEN_WITHIN_1(H, r);                                                              \
    }                                                                                              \
    static inline __device__ H __hfma_relu(H a, H b, H c)                                          \
    {                                                                                              \
        const H r = simgen_fused(a, b, c);                                                         \
        return r < static_cast<H>(0.0f) ? static_cast<H>(0.0f) : r;                                \
    }                                                                                              \
    static inline __device__ V __hfma2_sat(V a, V b, V c)                                          \
    {                                                                                              \
        return V{__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)};                            \
    }                                                                                              \
    static inline __device__ V __hfma2_relu(V a, V b, V c)                                         \
    {                                                                                              \
        return V{__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)};                          \
    }                                                                                              \
    static inline __device__ V __lowhigh2highlow(V a) { return V{a.y, a.x}; }                      \
    SIMGEN_NARROW1(H, V, exp, expf(a))                                                             \
    SIMGEN_NARROW1(H, V, exp2, exp2f(a)) SIMGEN_NARROW1(H, V, exp10, exp10f(a))                    \
        SIMGEN_NARROW1(H, V, log, logf(a)) SIMGEN_NARROW1(H, V, log2, log2f(a))                    \
            SIMGEN_NARROW1(H, V, log10, log10f(a)) SIMGEN_NARROW1(H, V, sin, sinf(a))              \
                SIMGEN_NARROW1(H, V, cos, cosf(a)) SIMGEN_NARROW1(H, V, tanh, tanhf(a))            \
                    SIMGEN_NARROW1(H, V, sqrt, sqrtf(a)) SIMGEN_NARROW1(H, V, rsqrt, rsqrtf(a))    \
                        SIMGEN_NARROW1(H, V, rcp, 1.0f / a) SIMGEN_NARROW1(H, V, floor, floorf(a)) \
                            SIMGEN_NARROW1(H, V, ceil, ceilf(a))                                   \
                                SIMGEN_NARROW1(H, V, trunc, truncf(a))                             \
                                    SIMGEN_NARROW1(H, V, rint, rintf(a))
SIMGEN_NARROW(half, half2)
SIMGEN_NARROW(simgen_bfloat16, simgen_bfloat162)
#define SIMGEN_NARROW_RN(V, name, op)                                                              \
    static inline __device__ V __h##name##_rn(V a, V b) { SIMGEN_FUSING(off) return a op b; }
#define SIMGEN_NARROWS_RN(H, V)                                                                    \
    SIMGEN_NARROW_RN(H, add, +)                                                                    \
    SIMGEN_NARROW_RN(H, sub, -) SIMGEN_NARROW_RN(H, mul, *) SIMGEN_NARROW_RN(V, add2, +)           \
        SIMGEN_NARROW_RN(V, sub2, -) SIMGEN_NARROW_RN(V, mul2, *)
SIMGEN_NARROWS_RN(half, half2)
SIMGEN_NARROWS_RN(simgen_bfloat16, simgen_bfloat162)
#ifdef SIMGEN_NVIDIA
        static inline __device__ half2 __hfma2(half2 a, half2 b, half2 c)
{
    return {simgen_fused(a.x, b.x, c.x), simgen_fused(a.y, b.y, c.y)};
}
#else
        static inline __device__ half2 __hfma2(half2 a, half2 b, half2 c)
{
    return __builtin_elementwise_fma(a, b, c);
}
#endif
static inline __device__ simgen_bfloat162 __hfma2(
    simgen_bfloat162 a, simgen_bfloat162 b, simgen_bfloat162 c)
{
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
static inline __device__ half2 __lows2half2(half2 a, half2 b) { return half2{ a.x, b.x }; }
static inline __device__ half2 __highs2half2(half2 a, half2 b) { return half2{ a.y, b.y }; }
static inline __device__ half2 __low2half2(half2 a) { return half2{ a.x, a.x }; }
static inline __device__ half2 __high2half2(half2 a) { return half2{ a.y, a.y }; }
static inline __device__ short __half_as_short(half x) { return __builtin_bit_cast(short, x); }
static inline __device__ half __short_as_half(short x) { return __builtin_bit_cast(half, x); }
SIMGEN_TO_WHOLE(half, int, float, int)
SIMGEN_TO_WHOLE(half, uint, float, unsigned)
SIMGEN_TO_WHOLE(half, ll, float, long long)
SIMGEN_TO_WHOLE(half, ull, float, unsigned long long)
SIMGEN_TO_WHOLE(half, short, float, short)
SIMGEN_TO_WHOLE(half, ushort, float, unsigned short)
static inline __device__ half
    __uint2half_rn(unsigned x)
{
    return static_cast<half>(static_cast<float>(x));
}
static inline __device__ half __short2half_rn(short x)
{
    return static_cast<half>(static_cast<float>(x));
}
static inline __device__ half __ushort2half_rn(unsigned short x)
{
    return static_cast<half>(static_cast<float>(x));
}
namespace std {
SIMGEN_LIMITS(half, half(65504.0f), half(0x1p-14f), half(0x1p-10f), half(__builtin_inff()),
    half(__builtin_nanf("")), half(0x1p-24f), 11)
SIMGEN_LIMITS(simgen_bfloat16, simgen_bfloat16(0x1.fep127f), simgen_bfloat16(0x1p-126f),
    simgen_bfloat16(0x1p-7f), simgen_bfloat16(__builtin_inff()),
    simgen_bfloat16(__builtin_nanf("")), simgen_bfloat16(0x1p-133f), 8)
}
