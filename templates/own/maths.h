/* Functions of one or two numbers. In float32 they are made of the machine's instructions; in
 * float64 of series, to a few units in the last place. Whole numbers count as float64, as in
 * C++. */
template <class T> concept simgen_whole = requires(T x) { x % x; };
#define SIMGEN_WHOLE1(name)                                                                        \
    template <simgen_whole T> static inline __device__ double name(T x)                            \
    {                                                                                              \
        return name(static_cast<double>(x));                                                       \
    }
static inline __device__ float simgen_fma(float a, float b, float c)
{
    return __builtin_elementwise_fma(a, b, c);
}
static inline __device__ double simgen_fma(double a, double b, double c)
{
    return __builtin_elementwise_fma(a, b, c);
}
#define SIMGEN_NUMBER static inline __device__
#define SIMGEN_WORD(x) __builtin_bit_cast(unsigned, x)
#define SIMGEN_FLOAT(x) __builtin_bit_cast(float, x)
#define SIMGEN_LONG_BITS(x) __builtin_bit_cast(unsigned long, x)
#define SIMGEN_DOUBLE(x) __builtin_bit_cast(double, x)
#include "numbers.h"
/* Those that a source demands. */
#if SIMGEN_ROUNDED
#define SIMGEN_HERE static inline __device__
#define SIMGEN_AS(type, x) __builtin_bit_cast(type, x)
#define SIMGEN_HIDE(x) __asm__("" : "+v"(x))
#include "fused.h"
#define SIMGEN_FUSED(type) simgen_fused_##type
#else
#define SIMGEN_FUSED(type) simgen_fma
#endif
static inline __device__ float fmaf(float a, float b, float c)
{
    return SIMGEN_FUSED(float)(a, b, c);
}
static inline __device__ float fma(float a, float b, float c)
{
    return SIMGEN_FUSED(float)(a, b, c);
}
static inline __device__ double fma(double a, double b, double c)
{
    return SIMGEN_FUSED(double)(a, b, c);
}
#if SIMGEN_ROUNDED
template <class T> static inline __device__ T simgen_elementwise_fma(T a, T b, T c)
{
    if constexpr (__is_same(T, float) || __is_same(T, double))
        return fma(a, b, c);
    else
        return __builtin_elementwise_fma(a, b, c);
}
#define __builtin_elementwise_fma simgen_elementwise_fma
#define __builtin_fmaf fmaf
#define __builtin_fma fma
#endif

/* ---- Signs and whole numbers ---- */
static inline __device__ int abs(int x) { return x < 0 ? -x : x; }
static inline __device__ long abs(long x) { return x < 0 ? -x : x; }
static inline __device__ long long abs(long long x) { return x < 0 ? -x : x; }
static inline __device__ long labs(long x) { return abs(x); }
static inline __device__ long long llabs(long long x) { return abs(x); }
#define SIMGEN_BUILTIN1(name)                                                                      \
    static inline __device__ float name##f(float x) { return __builtin_##name##f(x); }             \
    static inline __device__ float name(float x) { return __builtin_##name##f(x); }                \
    static inline __device__ double name(double x) { return __builtin_##name(x); }                 \
    SIMGEN_WHOLE1(name)
SIMGEN_BUILTIN1(fabs)
SIMGEN_BUILTIN1(floor)
SIMGEN_BUILTIN1(ceil)
SIMGEN_BUILTIN1(trunc)
SIMGEN_BUILTIN1(rint)
static inline __device__ float abs(float x)
{
    return __builtin_fabsf(x);
}
static inline __device__ double abs(double x) { return __builtin_fabs(x); }
static inline __device__ float nearbyintf(float x) { return __builtin_rintf(x); }
static inline __device__ double nearbyint(double x) { return __builtin_rint(x); }
static inline __device__ float copysignf(float a, float b) { return __builtin_copysignf(a, b); }
static inline __device__ float copysign(float a, float b) { return __builtin_copysignf(a, b); }
static inline __device__ double copysign(double a, double b) { return __builtin_copysign(a, b); }
/* Halves away from zero. */
template <class T> static inline __device__ T simgen_round(T x)
{
    const T whole = trunc(x);
    return whole + (fabs(x - whole) >= T(0.5) ? copysign(T(1), x) : T(0));
}
static inline __device__ float roundf(float x) { return simgen_round(x); }
static inline __device__ float round(float x) { return simgen_round(x); }
static inline __device__ double round(double x) { return simgen_round(x); }
static inline __device__ long lroundf(float x) { return static_cast<long>(simgen_round(x)); }
static inline __device__ long lround(float x) { return lroundf(x); }
static inline __device__ long lround(double x) { return static_cast<long>(simgen_round(x)); }
static inline __device__ long lrintf(float x) { return static_cast<long>(__builtin_rintf(x)); }
static inline __device__ bool signbit(float x) { return __builtin_bit_cast(int, x) < 0; }
static inline __device__ bool signbit(double x) { return __builtin_bit_cast(long, x) < 0; }
static inline __device__ bool isnan(float x) { return x != x; }
static inline __device__ bool isnan(double x) { return x != x; }
static inline __device__ bool isinf(float x) { return __builtin_fabsf(x) == __builtin_inff(); }
static inline __device__ bool isinf(double x) { return __builtin_fabs(x) == __builtin_inf(); }
static inline __device__ bool isfinite(float x) { return __builtin_fabsf(x) < __builtin_inff(); }
static inline __device__ bool isfinite(double x) { return __builtin_fabs(x) < __builtin_inf(); }

/* ---- Two numbers ---- */
/* As C++ finds the type of a mixed minimum, and CUDA that of a mixed one of integers. */
/* of NaN and a number, the number */
template <class T> static inline __device__ T simgen_larger(T a, T b)
{
    return a >= b || b != b ? a : b;
}
template <class T> static inline __device__ T simgen_smaller(T a, T b)
{
    return a <= b || b != b ? a : b;
}
template <class A, class B> static inline __device__ auto max(A a, B b) -> decltype(a + b)
{
    return simgen_larger<decltype(a + b)>(a, b);
}
template <class A, class B> static inline __device__ auto min(A a, B b) -> decltype(a + b)
{
    return simgen_smaller<decltype(a + b)>(a, b);
}
static inline __device__ float max(float a, float b) { return simgen_larger(a, b); }
static inline __device__ float min(float a, float b) { return simgen_smaller(a, b); }
static inline __device__ double max(double a, double b) { return simgen_larger(a, b); }
static inline __device__ double min(double a, double b) { return simgen_smaller(a, b); }
static inline __device__ float fmaxf(float a, float b) { return simgen_larger(a, b); }
static inline __device__ float fminf(float a, float b) { return simgen_smaller(a, b); }
template <class T> concept simgen_single = __is_same(T, float);
#define SIMGEN_FUNCTION2(name, single, twice)                                                      \
    static inline __device__ float name(float a, float b) { return single(a, b); }                 \
    template <class A, class B> static inline __device__ double name(A a, B b)                     \
        requires(!(simgen_single<A> && simgen_single<B>) && requires {                             \
            a + 1.0;                                                                               \
            b + 1.0;                                                                               \
        })                                                                                         \
    {                                                                                              \
        return twice(static_cast<double>(a), static_cast<double>(b));                              \
    }
SIMGEN_FUNCTION2(fmax, fmaxf, simgen_larger<double>)
SIMGEN_FUNCTION2(fmin, fminf, simgen_smaller<double>)
static inline __device__
    float fdimf(float a, float b)
{
    return a <= b ? 0.0f : a - b;
}
static inline __device__ float fdividef(float a, float b) { return a / b; }
/* The remainder is exact: by steps of at most so many bits as a quotient has. */
static inline __device__ double simgen_modulo(double a, double b)
{
    double left = fabs(a);
    const double by = fabs(b);
    if (!(by > 0) || !(left < __builtin_inf()))
        return __builtin_nan("");
    while (left >= by) {
        double step = by;
        while (left / step >= 0x1p50)
            step *= 0x1p50;
        left = simgen_fma(-trunc(left / step), step, left);
        if (left < 0)
            left += step;
    }
    return copysign(left, a);
}
static inline __device__ float fmodf(float a, float b) { return simgen_f_fmod(a, b); }
SIMGEN_FUNCTION2(fmod, fmodf, simgen_modulo)
static inline __device__ float remainderf(float a, float b) { return simgen_f_remainder(a, b); }
static inline __device__ double simgen_remainder(double a, double b)
{
    /* exact where it is taken */
    const double by = fabs(b), left = simgen_modulo(fabs(a), 2.0 * by), less = left - by;
    const double r = left + left <= by ? left : less + less < by ? less : less - by;
    return by == by ? signbit(a) ? -r : r : by;
}
SIMGEN_FUNCTION2(remainder, remainderf, simgen_remainder)
static inline __device__ float remquof(float a, float b, int* quotient)
{
    return simgen_nearest_rest(a, b, quotient);
}
template <simgen_single T> static inline __device__ float remquo(T a, T b, int* quotient)
{
    return simgen_nearest_rest(a, b, quotient);
}

/* ---- Roots ---- */
static inline __device__ float sqrtf(float x) { return __builtin_elementwise_sqrt(x); }
static inline __device__ float sqrt(float x) { return __builtin_elementwise_sqrt(x); }
static inline __device__ double sqrt(double x) { return __builtin_elementwise_sqrt(x); }
SIMGEN_WHOLE1(sqrt)
static inline __device__ double rsqrt(double x) { return 1.0 / __builtin_elementwise_sqrt(x); }
/* Of numbers whose squares are none, after a step by a power of two. */
template <class T> static inline __device__ T simgen_norm(
    T by, T low, T high, T a, T b, T c = 0, T d = 0)
{
    const T largest = fmax(fmax(fabs(a), fabs(b)), fmax(fabs(c), fabs(d)));
    const T down = largest >= high ? 1 / by
                   : largest < low ? by
                                   : T(1),
            up = largest >= high ? by
                 : largest < low ? 1 / by
                                 : T(1);
    a *= down, b *= down, c *= down, d *= down;
    const T length = up * sqrt(simgen_fma(a, a, simgen_fma(b, b, simgen_fma(c, c, d * d))));
    return isinf(a) || isinf(b) || isinf(c) || isinf(d) ? T(__builtin_inf()) : length;
}
static inline __device__ float norm4df(float a, float b, float c, float d)
{
    return simgen_f_length(a, b, c, d);
}
static inline __device__ double norm4d(double a, double b, double c, double d)
{
    return simgen_norm(0x1p600, 0x1p-450, 0x1p500, a, b, c, d);
}
static inline __device__ float norm3df(float a, float b, float c) { return norm4df(a, b, c, 0.0f); }
static inline __device__ double norm3d(double a, double b, double c)
{
    return norm4d(a, b, c, 0.0);
}
static inline __device__ float hypotf(float a, float b)
{
    return simgen_f_length(a, b, 0.0f, 0.0f);
}
static inline __device__ double simgen_hypot(double a, double b) { return norm4d(a, b, 0.0, 0.0); }
SIMGEN_FUNCTION2(hypot, hypotf, simgen_hypot)
static inline __device__ float rhypotf(float a, float b)
{
    return simgen_f_length_inverse(a, b, 0.0f, 0.0f);
}
static inline __device__ float rnorm3df(float a, float b, float c)
{
    return simgen_f_length_inverse(a, b, c, 0.0f);
}
static inline __device__ float rnorm4df(float a, float b, float c, float d)
{
    return simgen_f_length_inverse(a, b, c, d);
}

/* ---- Powers of two ---- */
static inline __device__ double simgen_scaled(double x, int by) /* by -1022 to 1023 */
{
    return x * __builtin_bit_cast(double, static_cast<long>(by + 1023) << 52);
}
static inline __device__ double ldexp(double x, int by)
{
    const int limited = by < -2200 ? -2200 : by > 2200 ? 2200 : by, part = limited / 3;
    return simgen_scaled(simgen_scaled(simgen_scaled(x, part), part), limited - 2 * part);
}
static inline __device__ float ldexpf(float x, int by)
{
    return static_cast<float>(ldexp(static_cast<double>(x), by));
}
static inline __device__ float ldexp(float x, int by) { return ldexpf(x, by); }
static inline __device__ float scalbnf(float x, int by) { return ldexpf(x, by); }
static inline __device__ double scalbn(double x, int by) { return ldexp(x, by); }
static inline __device__ double frexp(double x, int *exponent)
{
    *exponent = 0;
    if (x == 0.0 || !isfinite(x))
        return x;
    const bool small = __builtin_fabs(x) < 0x1p-1022;
    const unsigned long bits = __builtin_bit_cast(unsigned long, small ? x * 0x1p54 : x);
    *exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1022 - (small ? 54 : 0);
    return __builtin_bit_cast(double, (bits & 0x800ffffffffffffful) | 0x3fe0000000000000ul);
}
static inline __device__ float frexpf(float x, int* exponent)
{
    return static_cast<float>(frexp(static_cast<double>(x), exponent));
}
static inline __device__ float frexp(float x, int *exponent) { return frexpf(x, exponent); }
static inline __device__ int ilogbf(float x) { int e; frexpf(x, &e); return e - 1; }
static inline __device__ float modff(float x, float* whole)
{
    *whole = __builtin_truncf(x);
    return copysignf(x - *whole, x);
}
static inline __device__ double modf(double x, double* whole)
{
    *whole = __builtin_trunc(x);
    return copysign(x - *whole, x);
}

#include "doubles.h"
/* ---- float32 ---- */
#define SIMGEN_SINGLE(name)                                                                        \
    static inline __device__ float name##f(float x) { return simgen_f_##name(x); }                 \
    template <simgen_single T> static inline __device__ float name(T x)                            \
    {                                                                                              \
        return simgen_f_##name(x);                                                                 \
    }
SIMGEN_SINGLE(exp)
SIMGEN_SINGLE(exp2)
SIMGEN_SINGLE(exp10)
SIMGEN_SINGLE(expm1)
SIMGEN_SINGLE(cosh)
SIMGEN_SINGLE(sinh)
SIMGEN_SINGLE(tanh)
SIMGEN_SINGLE(log)
SIMGEN_SINGLE(log2)
SIMGEN_SINGLE(log10)
SIMGEN_SINGLE(log1p)
SIMGEN_SINGLE(asinh)
SIMGEN_SINGLE(acosh)
SIMGEN_SINGLE(atanh)
SIMGEN_SINGLE(sin)
SIMGEN_SINGLE(cos)
SIMGEN_SINGLE(tan)
SIMGEN_SINGLE(sinpi)
SIMGEN_SINGLE(cospi)
SIMGEN_SINGLE(asin)
SIMGEN_SINGLE(acos)
SIMGEN_SINGLE(atan)
SIMGEN_SINGLE(rsqrt)
SIMGEN_SINGLE(cbrt)
SIMGEN_SINGLE(rcbrt)
SIMGEN_SINGLE(erf)
SIMGEN_SINGLE(erfc)
SIMGEN_SINGLE(erfcx)
SIMGEN_SINGLE(normcdf)
SIMGEN_SINGLE(lgamma)
SIMGEN_SINGLE(tgamma)
static inline __device__
    void sincosf(float x, float* s, float* c)
{
    *s = sinf(x), *c = cosf(x);
}
static inline __device__ void sincos(float x, float *s, float *c) { sincosf(x, s, c); }
static inline __device__ void sincospif(float x, float* s, float* c)
{
    *s = sinpif(x), *c = cospif(x);
}
static inline __device__ float atan2f(float y, float x) { return simgen_f_atan2(y, x); }
static inline __device__ float powf(float x, float y) { return simgen_f_pow(x, y); }
static inline __device__ float powif(float x, int y) { return simgen_whole_power(x, y); }
static inline __device__ float pow(float x, float y) { return powf(x, y); }
template <simgen_whole T> static inline __device__ float pow(float x, T y)
{
    return simgen_whole_power(x, static_cast<int>(y));
}
static inline __device__ double pow(double x, double y) { return simgen_power(x, y); }
static inline __device__ double pow(double x, float y) { return simgen_power(x, y); }
static inline __device__ double pow(float x, double y) { return simgen_power(x, y); }
template <simgen_whole T> static inline __device__ double pow(double x, T y)
{
    return simgen_power(x, static_cast<double>(y));
}
template <simgen_whole S, class T> static inline __device__ double pow(S x, T y)
{
    return simgen_power(static_cast<double>(x), static_cast<double>(y));
}
SIMGEN_WHOLE1(exp)
SIMGEN_WHOLE1(log)
SIMGEN_WHOLE1(log2)
SIMGEN_WHOLE1(log10)
SIMGEN_WHOLE1(sin)
SIMGEN_WHOLE1(cos)
SIMGEN_WHOLE1(tan)
SIMGEN_WHOLE1(atan)
SIMGEN_WHOLE1(tanh)
SIMGEN_FUNCTION2(atan2, atan2f, simgen_angle)
static inline __device__
    float __saturatef(float x)
{
    return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f;
}

static inline __device__ float __expf(float x) { return simgen_exp2(x * 1.44269504f); }
static inline __device__ float __exp10f(float x) { return simgen_exp2(x * 3.32192809f); }
static inline __device__ float __logf(float x) { return simgen_log2(x) * 0.693147181f; }
static inline __device__ float __log2f(float x) { return simgen_log2(x); }
static inline __device__ float __log10f(float x) { return simgen_log2(x) * 0.301029996f; }
#ifdef SIMGEN_HOST /* which has no such instructions */
#define __sinf sinf
#define __cosf cosf
#else
#define __sinf simgen_sin
#define __cosf simgen_cos
#endif
static inline __device__ float __tanf(float x) { return __sinf(x) / __cosf(x); }
static inline __device__ void __sincosf(float x, float* s, float* c)
{
    *s = __sinf(x), *c = __cosf(x);
}
static inline __device__ float __powf(float x, float y) { return simgen_exp2(y * simgen_log2(x)); }
#define __fsqrt_rn sqrtf
#define __dsqrt_rn sqrt
#define __frsqrt_rn rsqrtf
static inline __device__ float __frcp_rn(float x) { return 1.0f / x; }
/* As CUDA has them: no sum is fused with such a product. */
#define SIMGEN_OPERATION_RN(name, op)                                                              \
    static inline __device__ float __f##name##_rn(float a, float b) { return a op b; }             \
    static inline __device__ double __d##name##_rn(double a, double b) { return a op b; }
SIMGEN_OPERATION_RN(add, +)
SIMGEN_OPERATION_RN(sub, -)
SIMGEN_OPERATION_RN(mul, *)
SIMGEN_OPERATION_RN(div, /)
static inline __device__ float __fdividef(float a, float b)
{
    return a / b;
}
#define __fmaf_rn fmaf
#define __fma_rn fma

#ifndef SIMGEN_NVIDIA
/* What rounding takes from a sum of float64, as far as it is one (Knuth). An exact 0 that is
 * rounded down is -0. */
template <char way> static inline __device__ float simgen_sum(double a, double b, float r)
{
    const double d = a + b, part = d - a, off = d - r;
    if (way == 'd' && d == 0)
        return (__builtin_bit_cast(unsigned long, a) | __builtin_bit_cast(unsigned long, b)) >> 63
                   ? -0.0f
                   : 0.0f;
    return simgen_directed<way>(r, off == 0 ? (a - (d - part)) + (b - part) : off);
}
#define SIMGEN_DIRECTED(way, w)                                                                    \
    static inline __device__ float __fadd_##way(float a, float b)                                  \
    {                                                                                              \
        return simgen_sum<w>(a, b, a + b);                                                         \
    }                                                                                              \
    static inline __device__ float __fsub_##way(float a, float b)                                  \
    {                                                                                              \
        return simgen_sum<w>(a, -b, a - b);                                                        \
    }                                                                                              \
    static inline __device__ float __fmul_##way(float a, float b)                                  \
    {                                                                                              \
        return simgen_directed<w>(a * b, static_cast<double>(a) * b - a * b);                      \
    }                                                                                              \
    static inline __device__ float __fmaf_##way(float a, float b, float c)                         \
    {                                                                                              \
        return simgen_sum<w>(static_cast<double>(a) * b, c, fmaf(a, b, c));                        \
    }                                                                                              \
    static inline __device__ float __fdiv_##way(float a, float b)                                  \
    {                                                                                              \
        const float r = a / b;                                                                     \
        const double off = a - static_cast<double>(r) * b;                                         \
        return simgen_directed<w>(r, b < 0 ? -off : off);                                          \
    }                                                                                              \
    static inline __device__ float __frcp_##way(float x) { return __fdiv_##way(1.0f, x); }         \
    static inline __device__ float __fsqrt_##way(float x)                                          \
    {                                                                                              \
        const float r = sqrtf(x);                                                                  \
        return simgen_directed<w>(r, x - static_cast<double>(r) * r);                              \
    }                                                                                              \
    static inline __device__ float __double2float_##way(double x)                                  \
    {                                                                                              \
        return simgen_directed<w>(static_cast<float>(x), x - static_cast<float>(x));               \
    }                                                                                              \
    static inline __device__ float __int2float_##way(int x)                                        \
    {                                                                                              \
        return simgen_directed<w>(                                                                 \
            static_cast<float>(x), x - static_cast<double>(static_cast<float>(x)));                \
    }                                                                                              \
    static inline __device__ float __uint2float_##way(unsigned x)                                  \
    {                                                                                              \
        return simgen_directed<w>(                                                                 \
            static_cast<float>(x), x - static_cast<double>(static_cast<float>(x)));                \
    }                                                                                              \
    static inline __device__ float __ll2float_##way(long long x)                                   \
    {                                                                                              \
        const float r = static_cast<float>(x);                                                     \
        return simgen_directed<w>(r, r >= 0x1p63f ? -1 : x - static_cast<long long>(r));           \
    }                                                                                              \
    static inline __device__ float __ull2float_##way(unsigned long long x)                         \
    {                                                                                              \
        const float r = static_cast<float>(x);                                                     \
        return simgen_directed<w>(r,                                                               \
            r >= 0x1p64f ? -1 : static_cast<long long>(x - static_cast<unsigned long long>(r)));   \
    }
SIMGEN_DIRECTED(rz, 'z')
SIMGEN_DIRECTED(ru, 'u')
SIMGEN_DIRECTED(rd, 'd')
#endif
