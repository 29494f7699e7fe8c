/* OpenCL C for AMD GPUs without ROCm's device library: types, work-items and groups, barriers,
 * atomics and the functions that clang makes instructions of. What is not here, a source cannot
 * use. */
#ifndef SIMGEN_CONTRACT
#define SIMGEN_CONTRACT off
#endif
#define SIMGEN_PRAGMA(x) _Pragma(#x)
#define SIMGEN_FUSING(which) SIMGEN_PRAGMA(clang fp contract(which))
#define SIMGEN_VECTORS(type, name)                                          \
    typedef type name##2 __attribute__((ext_vector_type(2)));               \
    typedef type name##3 __attribute__((ext_vector_type(3)));               \
    typedef type name##4 __attribute__((ext_vector_type(4)));               \
    typedef type name##8 __attribute__((ext_vector_type(8)));               \
    typedef type name##16 __attribute__((ext_vector_type(16)));
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
SIMGEN_VECTORS(char, char)
SIMGEN_VECTORS(uchar, uchar)
SIMGEN_VECTORS(short, short)
SIMGEN_VECTORS(ushort, ushort)
SIMGEN_VECTORS(int, int)
SIMGEN_VECTORS(uint, uint)
SIMGEN_VECTORS(long, long)
SIMGEN_VECTORS(ulong, ulong)
SIMGEN_VECTORS(float, float)
SIMGEN_VECTORS(double, double)

#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2u + 1)
#define MAXFLOAT __FLT_MAX__
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define M_PI 3.14159265358979323846
#define M_PI_F 3.14159274101257f
#define NULL ((void *)0)
#define OVERLOADED static inline __attribute__((overloadable, always_inline))
#define INLINED static inline __attribute__((always_inline))

    /* What the launcher leaves behind the arguments (LLVM, "User Guide for AMDGPU Backend", Code
     * Object V5). */
    INLINED uint simgen_hidden(uint at)
{
    return ((__constant uint*)__builtin_amdgcn_implicitarg_ptr())[at];
}
INLINED uint get_work_dim(void) { return simgen_hidden(16) & 0xffff; }
INLINED size_t get_local_id(uint d)
{
    return d == 0 ? __builtin_amdgcn_workitem_id_x() : d == 1 ? __builtin_amdgcn_workitem_id_y()
         : d == 2 ? __builtin_amdgcn_workitem_id_z() : 0;
}
INLINED size_t get_group_id(uint d)
{
    return d == 0 ? __builtin_amdgcn_workgroup_id_x() : d == 1 ? __builtin_amdgcn_workgroup_id_y()
         : d == 2 ? __builtin_amdgcn_workgroup_id_z() : 0;
}
INLINED size_t get_local_size(uint d)
{
    return d == 0   ? simgen_hidden(3) & 0xffff
           : d == 1 ? simgen_hidden(3) >> 16
           : d == 2 ? simgen_hidden(4) & 0xffff
                    : 1;
}
INLINED size_t get_num_groups(uint d) { return d < 3 ? simgen_hidden(d) : 1; }
INLINED size_t get_global_offset(uint d) { return 0; }
INLINED size_t get_global_id(uint d)
{
    return (uint)get_group_id(d) * (uint)get_local_size(d) + (uint)get_local_id(d);
}
INLINED size_t get_local_linear_id(void)
{
    return get_local_id(0)
           + get_local_size(0) * (get_local_id(1) + get_local_size(1) * get_local_id(2));
}
#define get_enqueued_local_size get_local_size
INLINED size_t get_global_size(uint d) { return (uint)get_num_groups(d) * (uint)get_local_size(d); }
INLINED size_t get_global_linear_id(void)
{
    return get_global_id(0)
           + get_global_size(0) * (get_global_id(1) + get_global_size(1) * get_global_id(2));
}

INLINED void mem_fence(uint flags)
{
    if (flags & CLK_GLOBAL_MEM_FENCE)
        __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent");
    else
        __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "workgroup");
}
#define read_mem_fence mem_fence
#define write_mem_fence mem_fence
INLINED void barrier(uint flags)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#define work_group_barrier barrier

/* Elements of vectors are registers: no loop may stay that counts them. */
#define SIMGEN_ALL(n) _Pragma("unroll") for (int i = 0; i < n; i++)

/* Of numbers and vectors: what has an element-wise instruction, or a sequence that the compiler
 * knows. */
#define SIMGEN_FLOATS(DO)                                                                          \
    DO(float) DO(float2) DO(float3) DO(float4) DO(float8) DO(float16) DO(double)
#define SIMGEN_ALL_SIZES(DO, T) DO(T) DO(T##2) DO(T##3) DO(T##4) DO(T##8) DO(T##16)
#define SIMGEN_INTEGERS(DO)                                                                        \
    SIMGEN_ALL_SIZES(DO, int)                                                                      \
    SIMGEN_ALL_SIZES(DO, uint) SIMGEN_ALL_SIZES(DO, long) SIMGEN_ALL_SIZES(DO, ulong)              \
        SIMGEN_ALL_SIZES(DO, short) SIMGEN_ALL_SIZES(DO, ushort) SIMGEN_ALL_SIZES(DO, char)        \
            SIMGEN_ALL_SIZES(DO, uchar)
#define SIMGEN_OF_FLOATS(T)                                                                        \
    OVERLOADED T fabs(T x) { return __builtin_elementwise_abs(x); }                                \
    OVERLOADED T floor(T x) { return __builtin_elementwise_floor(x); }                             \
    OVERLOADED T ceil(T x) { return __builtin_elementwise_ceil(x); }                               \
    OVERLOADED T trunc(T x) { return __builtin_elementwise_trunc(x); }                             \
    OVERLOADED T rint(T x) { return __builtin_elementwise_rint(x); }                               \
    OVERLOADED T sqrt(T x) { return __builtin_elementwise_sqrt(x); }                               \
    OVERLOADED T rsqrt(T x) { return (T)1 / __builtin_elementwise_sqrt(x); }                       \
    OVERLOADED T mad(T a, T b, T c) { return a * b + c; }                                          \
    OVERLOADED T fmax(T a, T b) { return __builtin_elementwise_max(a, b); }                        \
    OVERLOADED T fmin(T a, T b) { return __builtin_elementwise_min(a, b); }                        \
    OVERLOADED T mix(T a, T b, T t) { return a + (b - a) * t; }
#define SIMGEN_SCALED(T)                                                                           \
    OVERLOADED T smoothstep(T low, T high, T x)                                                    \
    {                                                                                              \
        const T t = __builtin_elementwise_min(                                                     \
            __builtin_elementwise_max((x - low) / (high - low), (T)0), (T)1);                      \
        return t * t * ((T)3 - (T)2 * t);                                                          \
    }
#define SIMGEN_OF_ALL(T)                                                                           \
    OVERLOADED T max(T a, T b) { return __builtin_elementwise_max(a, b); }                         \
    OVERLOADED T min(T a, T b) { return __builtin_elementwise_min(a, b); }                         \
    OVERLOADED T clamp(T x, T low, T high) { return min(max(x, low), high); }
/* mad, mix and dot may round once or twice: as the source's own products and sums do. */
SIMGEN_FUSING(SIMGEN_CONTRACT)
SIMGEN_FLOATS(SIMGEN_OF_FLOATS)
#define SIMGEN_DOTS(T)                                                                             \
    OVERLOADED T dot(T a, T b) { return a * b; }                                                   \
    OVERLOADED T dot(T##2 a, T##2 b) { return a.x * b.x + a.y * b.y; }                             \
    OVERLOADED T dot(T##3 a, T##3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }                 \
    OVERLOADED T dot(T##4 a, T##4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }     \
    OVERLOADED T##3 cross(T##3 a, T##3 b) { return a.yzx * b.zxy - a.zxy * b.yzx; }                \
    OVERLOADED T##4 cross(T##4 a, T##4 b) { return (T##4)(cross(a.xyz, b.xyz), (T)0); }
SIMGEN_DOTS(float)
SIMGEN_DOTS(double)
SIMGEN_FLOATS(SIMGEN_SCALED)
SIMGEN_FUSING(off)
#if SIMGEN_ROUNDED
#define SIMGEN_HERE INLINED
#define SIMGEN_AS(type, x) __builtin_astype((x), type)
#define SIMGEN_HIDE(x) __asm__("" : "+v"(x))
#include "fused.h"
OVERLOADED float fma(float a, float b, float c) { return simgen_fused_float(a, b, c); }
OVERLOADED double fma(double a, double b, double c) { return simgen_fused_double(a, b, c); }
#define SIMGEN_FMAS(n)                                                                             \
    OVERLOADED float##n fma(float##n a, float##n b, float##n c)                                    \
    {                                                                                              \
        float##n r;                                                                                \
        SIMGEN_ALL(n)                                                                              \
        r[i] = simgen_fused_float(a[i], b[i], c[i]);                                               \
        return r;                                                                                  \
    }
SIMGEN_FMAS(2)
SIMGEN_FMAS(3)
SIMGEN_FMAS(4)
SIMGEN_FMAS(8)
SIMGEN_FMAS(16)
#define __builtin_fmaf fma
#define __builtin_fma fma
#else
#define SIMGEN_FMA(T) OVERLOADED T fma(T a, T b, T c) { return __builtin_elementwise_fma(a, b, c); }
SIMGEN_FLOATS(SIMGEN_FMA)
#endif
SIMGEN_FLOATS(SIMGEN_OF_ALL)
SIMGEN_INTEGERS(SIMGEN_OF_ALL)
/* A vector beside one number, which stands for all elements. */
#define SIMGEN_BESIDE(T, n)                                                                        \
    OVERLOADED T##n max(T##n a, T b) { return max(a, (T##n)b); }                                   \
    OVERLOADED T##n min(T##n a, T b) { return min(a, (T##n)b); }                                   \
    OVERLOADED T##n clamp(T##n x, T low, T high) { return clamp(x, (T##n)low, (T##n)high); }
#define SIMGEN_BESIDE_FLOATS(T, n)                                                                 \
    SIMGEN_BESIDE(T, n)                                                                            \
    OVERLOADED T##n fmax(T##n a, T b) { return fmax(a, (T##n)b); }                                 \
    OVERLOADED T##n fmin(T##n a, T b) { return fmin(a, (T##n)b); }                                 \
    OVERLOADED T##n mix(T##n a, T##n b, T t) { return mix(a, b, (T##n)t); }                        \
    OVERLOADED T##n smoothstep(T low, T high, T##n x)                                              \
    {                                                                                              \
        return smoothstep((T##n)low, (T##n)high, x);                                               \
    }
#define SIMGEN_SIZES(DO, ...)                                                                      \
    DO(__VA_ARGS__, 2) DO(__VA_ARGS__, 3) DO(__VA_ARGS__, 4) DO(__VA_ARGS__, 8) DO(__VA_ARGS__, 16)
SIMGEN_SIZES(SIMGEN_BESIDE_FLOATS, float)
SIMGEN_SIZES(SIMGEN_BESIDE, int)
SIMGEN_SIZES(SIMGEN_BESIDE, uint)
SIMGEN_SIZES(SIMGEN_BESIDE, char)
SIMGEN_SIZES(SIMGEN_BESIDE, uchar)
SIMGEN_SIZES(SIMGEN_BESIDE, short)
SIMGEN_SIZES(SIMGEN_BESIDE, ushort)
SIMGEN_SIZES(SIMGEN_BESIDE, long)
SIMGEN_SIZES(SIMGEN_BESIDE, ulong)
#define SIMGEN_NUMBER INLINED
#define SIMGEN_WORD(x) __builtin_astype(x, uint)
#define SIMGEN_FLOAT(x) __builtin_astype(x, float)
#define SIMGEN_LONG_BITS(x) __builtin_astype(x, ulong)
#define SIMGEN_DOUBLE(x) __builtin_astype(x, double)
                            INLINED float simgen_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
INLINED float simgen_log2(float x) { return __builtin_amdgcn_logf(x); }
INLINED double simgen_rcp(double x) { return __builtin_amdgcn_rcp(x); }
INLINED float simgen_rsq(float x) { return __builtin_amdgcn_rsqf(x); }
INLINED float simgen_turns(float x) { return __builtin_amdgcn_fractf(x * 0.159154943f); }
#include "numbers.h"
#define SIMGEN_EACH1(R, T, n, name)                                                                \
    OVERLOADED R##n name(T##n x)                                                                   \
    {                                                                                              \
        R##n r;                                                                                    \
        SIMGEN_ALL(n) r[i] = name((T)x[i]);                                                        \
        return r;                                                                                  \
    }
#define SIMGEN_EACH2(R, T, n, name)                                                                \
    OVERLOADED R##n name(T##n a, T##n b)                                                           \
    {                                                                                              \
        R##n r;                                                                                    \
        SIMGEN_ALL(n) r[i] = name((T)a[i], (T)b[i]);                                               \
        return r;                                                                                  \
    }
#define SIMGEN_EACH_FLOAT(name, n) SIMGEN_EACH1(float, float, n, name)
#define SIMGEN_EACH_PAIR(name, n) SIMGEN_EACH2(float, float, n, name)
#define SIMGEN_FLOAT1(name, value)                                                                 \
    OVERLOADED float name(float x) { return value; }                                               \
    SIMGEN_SIZES(SIMGEN_EACH_FLOAT, name)
#define SIMGEN_FLOAT2(name, value)                                                                 \
    OVERLOADED float name(float x, float y) { return value; }                                      \
    SIMGEN_SIZES(SIMGEN_EACH_PAIR, name)
/* NaN where pow takes a limit. */
INLINED float simgen_powr(float x, float y)
{
    const bool none = x < 0.0f || x != x || y != y || (y == 0.0f && (x == 0.0f || x == INFINITY))
                      || (x == 1.0f && __builtin_fabsf(y) == INFINITY);
    return none ? NAN : simgen_f_pow(__builtin_fabsf(x), y);
}
#define SIMGEN_SINGLE(name) SIMGEN_FLOAT1(name, simgen_f_##name(x))
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
SIMGEN_SINGLE(cbrt)
SIMGEN_SINGLE(erf)
SIMGEN_SINGLE(erfc)
SIMGEN_SINGLE(lgamma)
SIMGEN_SINGLE(tgamma)
SIMGEN_FLOAT2(pow, simgen_f_pow(x, y))
SIMGEN_FLOAT2(powr, simgen_powr(x, y))
SIMGEN_FLOAT2(fmod, simgen_f_fmod(x, y))
SIMGEN_FLOAT2(remainder, simgen_f_remainder(x, y))
SIMGEN_FLOAT2(atan2, simgen_f_atan2(x, y))
SIMGEN_FLOAT2(hypot, simgen_f_length(x, y, 0.0f, 0.0f))
SIMGEN_FLOAT2(copysign, __builtin_copysignf(x, y))
SIMGEN_FLOAT2(fdim, x <= y ? 0.0f : x - y)
SIMGEN_FLOAT1(sign, x != x ? 0.0f : x == 0.0f ? x : __builtin_copysignf(1.0f, x))
SIMGEN_FLOAT2(step, y < x ? 0.0f : 1.0f)
#define SIMGEN_STEP(T, n) OVERLOADED T##n step(T edge, T##n x) { return step((T##n)edge, x); }
SIMGEN_SIZES(SIMGEN_STEP, float)
SIMGEN_FLOAT1(radians, x * 0.0174532925f)
SIMGEN_FLOAT1(degrees, x * 57.2957795f)
#define SIMGEN_LENGTHS(T, x, y, z, w)                                                              \
    OVERLOADED float length(T a) { return simgen_f_length(x, y, z, w); }                           \
    OVERLOADED float distance(T a, T b) { return length(a - b); }                                  \
    OVERLOADED T normalize(T a)                                                                    \
    {                                                                                              \
        const float n = length(a);                                                                 \
        return n == 0.0f || n == INFINITY ? a : a / n;                                             \
    }
SIMGEN_LENGTHS(float, a, 0.0f, 0.0f, 0.0f)
SIMGEN_LENGTHS(float2, a.x, a.y, 0.0f, 0.0f)
SIMGEN_LENGTHS(float3, a.x, a.y, a.z, 0.0f)
SIMGEN_LENGTHS(float4, a.x, a.y, a.z, a.w)
#define fast_length length
#define fast_distance distance
#define fast_normalize normalize
    /* Of ties, the number farther from 0. */
SIMGEN_FLOAT1(round, __builtin_copysignf(__builtin_truncf(x) + (__builtin_fabsf(x -
    __builtin_truncf(x)) >= 0.5f ? 1.0f : 0.0f) * (x < 0.0f ? -1.0f : 1.0f), x))
SIMGEN_FLOAT2(maxmag, __builtin_fabsf(x) > __builtin_fabsf(y) ? x : __builtin_fabsf(x) <
    __builtin_fabsf(y) ? y : fmax(x, y))
SIMGEN_FLOAT2(minmag, __builtin_fabsf(x) < __builtin_fabsf(y) ? x : __builtin_fabsf(x) >
    __builtin_fabsf(y) ? y : fmin(x, y))
OVERLOADED
    float ldexp(float x, int by)
{
    by = min(max(by, -400), 400);
    const int half_by = by / 2;
    const double a = __builtin_astype((ulong)(1023 + half_by) << 52, double),
                 b = __builtin_astype((ulong)(1023 + by - half_by) << 52, double);
    return (float)((double)x * a * b);
}
#define SIMGEN_PARTS(space)                                                                        \
    OVERLOADED float fract(float x, space float* whole)                                            \
    {                                                                                              \
        *whole = __builtin_floorf(x);                                                              \
        return x != x                           ? x                                                \
               : __builtin_fabsf(x) == INFINITY ? __builtin_copysignf(0.0f, x)                     \
                                                : fmin(x - *whole, 0x1.fffffep-1f);                \
    }                                                                                              \
    OVERLOADED float modf(float x, space float* whole)                                             \
    {                                                                                              \
        *whole = __builtin_truncf(x);                                                              \
        return __builtin_copysignf(__builtin_fabsf(x) == INFINITY ? 0.0f : x - *whole, x);         \
    }                                                                                              \
    OVERLOADED float sincos(float x, space float* cosine)                                          \
    {                                                                                              \
        *cosine = cos(x);                                                                          \
        return sin(x);                                                                             \
    }
SIMGEN_PARTS(__private)
SIMGEN_PARTS(__local)
SIMGEN_PARTS(__global)
OVERLOADED float pown(float x, int y) { return simgen_whole_power(x, y); }
#define SIMGEN_BY_WHOLE(name, n)                                                                   \
    OVERLOADED float##n name(float##n x, int##n y)                                                 \
    {                                                                                              \
        float##n r;                                                                                \
        SIMGEN_ALL(n) r[i] = name((float)x[i], (int)y[i]);                                         \
        return r;                                                                                  \
    }
#define SIMGEN_BY_ONE(name, n)                                                                     \
    OVERLOADED float##n name(float##n x, int y) { return name(x, (int##n)y); }
SIMGEN_SIZES(SIMGEN_BY_WHOLE, pown)
SIMGEN_SIZES(SIMGEN_BY_WHOLE, ldexp)
SIMGEN_SIZES(SIMGEN_BY_ONE, ldexp)
#define SIMGEN_PARTED(name, space, n)                                                              \
    OVERLOADED float##n name(float##n x, space float##n* p)                                        \
    {                                                                                              \
        float##n r, whole;                                                                         \
        SIMGEN_ALL(n)                                                                              \
        {                                                                                          \
            float w;                                                                               \
            r[i] = name((float)x[i], &w);                                                          \
            whole[i] = w;                                                                          \
        }                                                                                          \
        *p = whole;                                                                                \
        return r;                                                                                  \
    }
#define SIMGEN_PARTED_IN(space)                                                                    \
    SIMGEN_SIZES(SIMGEN_PARTED, fract, space)                                                      \
    SIMGEN_SIZES(SIMGEN_PARTED, modf, space) SIMGEN_SIZES(SIMGEN_PARTED, sincos, space)
SIMGEN_PARTED_IN(__private)
SIMGEN_PARTED_IN(__local)
SIMGEN_PARTED_IN(__global)
/* The instructions. */
#define SIMGEN_FAST(name, value)                                                                   \
    SIMGEN_FLOAT1(native_##name, value) SIMGEN_FLOAT1(half_##name, value)
SIMGEN_FAST(exp, simgen_exp2(x * 1.44269504f))
SIMGEN_FAST(exp2, simgen_exp2(x))
SIMGEN_FAST(exp10, simgen_exp2(x * 3.32192809f))
SIMGEN_FAST(log, simgen_log2(x) * 0.693147181f)
SIMGEN_FAST(log2, simgen_log2(x))
SIMGEN_FAST(log10, simgen_log2(x) * 0.301029996f)
SIMGEN_FAST(sqrt, __builtin_elementwise_sqrt(x))
SIMGEN_FAST(rsqrt, simgen_rsq(x))
SIMGEN_FAST(recip, 1.0f / x)
SIMGEN_FAST(sin, __builtin_amdgcn_sinf(simgen_turns(x)))
SIMGEN_FAST(cos, __builtin_amdgcn_cosf(simgen_turns(x)))
SIMGEN_FAST(tan, __builtin_amdgcn_sinf(simgen_turns(x)) / __builtin_amdgcn_cosf(simgen_turns(x)))
SIMGEN_FLOAT2(native_divide, x / y)
SIMGEN_FLOAT2(native_powr, simgen_exp2(y* simgen_log2(x)))

/* Whole numbers of all sizes: of one, and each element of a vector by itself. */
#define SIMGEN_BITS(T) (8 * (int)sizeof(T))
#define SIMGEN_WHOLE(T, U, W)                                                                      \
    OVERLOADED U abs(T x) { return x < 0 ? (U)0 - (U)x : (U)x; }                                   \
    OVERLOADED U abs_diff(T a, T b) { return a > b ? (U)a - (U)b : (U)b - (U)a; }                  \
    OVERLOADED T add_sat(T a, T b) { return __builtin_elementwise_add_sat(a, b); }                 \
    OVERLOADED T sub_sat(T a, T b) { return __builtin_elementwise_sub_sat(a, b); }                 \
    OVERLOADED T hadd(T a, T b) { return (T)((a & b) + ((a ^ b) >> 1)); }                          \
    OVERLOADED T rhadd(T a, T b) { return (T)((a | b) - ((a ^ b) >> 1)); }                         \
    OVERLOADED T rotate(T x, T by)                                                                 \
    {                                                                                              \
        const int n = (int)by & (SIMGEN_BITS(T) - 1);                                              \
        return (T)((U)x << n | (U)x >> (SIMGEN_BITS(T) - n & SIMGEN_BITS(T) - 1));                 \
    }                                                                                              \
    OVERLOADED T clz(T x)                                                                          \
    {                                                                                              \
        return (U)x ? __builtin_clzl((ulong)(U)x) - 64 + SIMGEN_BITS(T) : SIMGEN_BITS(T);          \
    }                                                                                              \
    OVERLOADED T ctz(T x) { return (U)x ? __builtin_ctzl((ulong)(U)x) : SIMGEN_BITS(T); }          \
    OVERLOADED T popcount(T x) { return (T)__builtin_popcountl((ulong)(U)x); }                     \
    SIMGEN_WIDER(T, W)
#define SIMGEN_NARROWER(T, W)                                                                      \
    OVERLOADED T mul_hi(T a, T b) { return (T)((W)a * (W)b >> SIMGEN_BITS(T)); }                   \
    OVERLOADED T mad_sat(T a, T b, T c)                                                            \
    {                                                                                              \
        const W r = (W)a * (W)b + (W)c,                                                            \
                least = (T) - 1 < 0 ? (W)((ulong) - 1 << SIMGEN_BITS(T) - 1) : 0;                  \
        const W most = (T) - 1 < 0 ? ~least : (W)(T) - 1;                                          \
        return (T)(r < least ? least : r > most ? most : r);                                       \
    }
#define SIMGEN_WIDER SIMGEN_NARROWER
SIMGEN_WHOLE(char, uchar, int)
SIMGEN_WHOLE(uchar, uchar, uint)
SIMGEN_WHOLE(short, ushort, int)
SIMGEN_WHOLE(ushort, ushort, uint)
SIMGEN_WHOLE(int, uint, long)
SIMGEN_WHOLE(uint, uint, ulong)
#undef SIMGEN_WIDER
#define SIMGEN_WIDER(T, W)
SIMGEN_WHOLE(long, ulong, long)
SIMGEN_WHOLE(ulong, ulong, ulong)
OVERLOADED ulong
    mul_hi(ulong a, ulong b)
{
    const ulong low = (a & 0xffffffff) * (b & 0xffffffff),
                cross = (a >> 32) * (b & 0xffffffff) + (low >> 32);
    const ulong other = (a & 0xffffffff) * (b >> 32) + (cross & 0xffffffff);
    return (a >> 32) * (b >> 32) + (cross >> 32) + (other >> 32);
}
OVERLOADED long mul_hi(long a, long b)
{
    return (long)mul_hi((ulong)a, (ulong)b) - (a < 0 ? b : 0) - (b < 0 ? a : 0);
}
#define SIMGEN_MAD_HI(T, n)                                                                        \
    OVERLOADED T##n mad_hi(T##n a, T##n b, T##n c) { return mul_hi(a, b) + c; }
#define SIMGEN_WHOLES(T, U, n)                                                                     \
    SIMGEN_EACH1(U, T, n, abs)                                                                     \
    SIMGEN_EACH2(U, T, n, abs_diff) SIMGEN_EACH2(T, T, n, add_sat) SIMGEN_EACH2(T, T, n, sub_sat)  \
        SIMGEN_EACH2(T, T, n, hadd) SIMGEN_EACH2(T, T, n, rhadd) SIMGEN_EACH2(T, T, n, rotate)     \
            SIMGEN_EACH1(T, T, n, clz) SIMGEN_EACH1(T, T, n, ctz) SIMGEN_EACH1(T, T, n, popcount)  \
                SIMGEN_EACH2(T, T, n, mul_hi) SIMGEN_MAD_HI(T, n)
#define SIMGEN_LOAD(space, T, n)                                                                   \
    OVERLOADED T##n vload##n(size_t at, const space T* p)                                          \
    {                                                                                              \
        T##n r;                                                                                    \
        SIMGEN_ALL(n) r[i] = p[at * n + i];                                                        \
        return r;                                                                                  \
    }
#define SIMGEN_STORE(space, T, n)                                                                  \
    OVERLOADED void vstore##n(T##n v, size_t at, space T* p) { SIMGEN_ALL(n) p[at * n + i] = v[i]; }
#define SIMGEN_MOVED(T, n)                                                                         \
    SIMGEN_LOAD(__global, T, n)                                                                    \
    SIMGEN_LOAD(__local, T, n) SIMGEN_LOAD(__private, T, n) SIMGEN_LOAD(__constant, T, n)          \
        SIMGEN_LOAD(, T, n) SIMGEN_STORE(__global, T, n) SIMGEN_STORE(__local, T, n)               \
            SIMGEN_STORE(__private, T, n) SIMGEN_STORE(, T, n)
#define SIMGEN_VECTOR_TYPES(T, U)                                                                  \
    SIMGEN_MAD_HI(T, ) SIMGEN_SIZES(SIMGEN_WHOLES, T, U) SIMGEN_SIZES(SIMGEN_MOVED, T)
SIMGEN_VECTOR_TYPES(char, uchar)
SIMGEN_VECTOR_TYPES(uchar, uchar)
SIMGEN_VECTOR_TYPES(short, ushort)
SIMGEN_VECTOR_TYPES(ushort, ushort)
SIMGEN_VECTOR_TYPES(int, uint)
SIMGEN_VECTOR_TYPES(uint, uint)
SIMGEN_VECTOR_TYPES(long, ulong)
SIMGEN_VECTOR_TYPES(ulong, ulong)
SIMGEN_SIZES(SIMGEN_MOVED, float)
SIMGEN_SIZES(SIMGEN_MOVED, double)
/* Halves in memory, whose bits are numbers here; pointers to any address space become generic ones,
 * but for constant memory. */
OVERLOADED float simgen_of_half(ushort bits)
{
    return __builtin_load_halff((__private half*)&bits);
}
OVERLOADED ushort simgen_beside_half(ushort bits, bool up)
{
    return bits & 0x7fff ? bits + (bits >> 15 == up ? -1 : 1) : up ? 1 : 0x8001;
}
#define SIMGEN_HALF_BITS(T, store)                                                                 \
    OVERLOADED ushort simgen_half_rte(T x)                                                         \
    {                                                                                              \
        ushort bits;                                                                               \
        store(x, (__private half*)&bits);                                                          \
        return bits;                                                                               \
    }                                                                                              \
    OVERLOADED ushort simgen_half_rtp(T x)                                                         \
    {                                                                                              \
        const ushort bits = simgen_half_rte(x);                                                    \
        return simgen_of_half(bits) < x ? simgen_beside_half(bits, true) : bits;                   \
    }                                                                                              \
    OVERLOADED ushort simgen_half_rtn(T x)                                                         \
    {                                                                                              \
        const ushort bits = simgen_half_rte(x);                                                    \
        return simgen_of_half(bits) > x ? simgen_beside_half(bits, false) : bits;                  \
    }                                                                                              \
    OVERLOADED ushort simgen_half_rtz(T x)                                                         \
    {                                                                                              \
        return x < 0 ? simgen_half_rtp(x) : simgen_half_rtn(x);                                    \
    }
SIMGEN_HALF_BITS(float, __builtin_store_halff)
SIMGEN_HALF_BITS(double, __builtin_store_half)
#define SIMGEN_LOAD_HALF(name, n, step, space)                                                     \
    OVERLOADED float##n name##n(size_t at, const space half* p)                                    \
    {                                                                                              \
        float##n r;                                                                                \
        SIMGEN_ALL(n) r[i] = __builtin_load_halff(p + at * step + i);                              \
        return r;                                                                                  \
    }
#define SIMGEN_STORE_HALF(name, T, n, step, mode, as)                                              \
    OVERLOADED void name##n##mode(T##n v, size_t at, half* p)                                      \
    {                                                                                              \
        SIMGEN_ALL(n)((ushort*)p)[at * step + i] = simgen_half_##as(v[i]);                         \
    }
#define SIMGEN_HALF_MODES(DO, ...)                                                                 \
    DO(__VA_ARGS__, , rte) DO(__VA_ARGS__, _rte, rte) DO(__VA_ARGS__, _rtz, rtz)                   \
        DO(__VA_ARGS__, _rtp, rtp) DO(__VA_ARGS__, _rtn, rtn)
#define SIMGEN_HALVES(n, step)                                                                     \
    SIMGEN_LOAD_HALF(vload_half, n, n, ) SIMGEN_LOAD_HALF(vload_half, n, n, __constant)            \
        SIMGEN_LOAD_HALF(vloada_half, n, step, ) SIMGEN_LOAD_HALF(vloada_half, n, step, __constant)\
            SIMGEN_HALF_MODES(SIMGEN_STORE_HALF, vstore_half, float, n, n)                         \
                SIMGEN_HALF_MODES(SIMGEN_STORE_HALF, vstore_half, double, n, n)                    \
                    SIMGEN_HALF_MODES(SIMGEN_STORE_HALF, vstorea_half, float, n, step)             \
                        SIMGEN_HALF_MODES(SIMGEN_STORE_HALF, vstorea_half, double, n, step)
SIMGEN_HALVES(2, 2)
SIMGEN_HALVES(3, 4)
SIMGEN_HALVES(4, 4)
SIMGEN_HALVES(8, 8)
SIMGEN_HALVES(16, 16)
#define SIMGEN_ONE_HALF(T, mode, as)                                                               \
    OVERLOADED void vstore_half##mode(T x, size_t at, half* p)                                     \
    {                                                                                              \
        ((ushort*)p)[at] = simgen_half_##as(x);                                                    \
    }
SIMGEN_HALF_MODES(SIMGEN_ONE_HALF, float)
SIMGEN_HALF_MODES(SIMGEN_ONE_HALF, double)
OVERLOADED float vload_half(size_t at, const half* p) { return __builtin_load_halff(p + at); }
OVERLOADED
    float vload_half(size_t at, const __constant half* p)
{
    return __builtin_load_halff(p + at);
}
OVERLOADED int mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
OVERLOADED uint mul24(uint a, uint b) { return (a & 0xffffff) * (b & 0xffffff); }
OVERLOADED int mad24(int a, int b, int c) { return mul24(a, b) + c; }
OVERLOADED uint mad24(uint a, uint b, uint c) { return mul24(a, b) + c; }
/* With 128 bits of the sum: what does not fit becomes the largest or the least number. */
OVERLOADED ulong mad_sat(ulong a, ulong b, ulong c)
{
    return mul_hi(a, b) + (a * b + c < c) ? ~0ul : a * b + c;
}
OVERLOADED long mad_sat(long a, long b, long c)
{
    const ulong low = (ulong)a * (ulong)b, sum = low + (ulong)c;
    const long high = mul_hi(a, b) + (c >> 63) + (sum < low);
    return high == (long)sum >> 63 ? (long)sum : high < 0 ? (long)(1ul << 63) : (long)(~0ul >> 1);
}
#define SIMGEN_EACH3(T, n, name)                                                                   \
    OVERLOADED T##n name(T##n a, T##n b, T##n c)                                                   \
    {                                                                                              \
        T##n r;                                                                                    \
        SIMGEN_ALL(n) r[i] = name((T)a[i], (T)b[i], (T)c[i]);                                      \
        return r;                                                                                  \
    }
#define SIMGEN_MAD_SAT(T, n) SIMGEN_EACH3(T, n, mad_sat)
#define SIMGEN_OF_24(T, n) SIMGEN_EACH2(T, T, n, mul24) SIMGEN_EACH3(T, n, mad24)
SIMGEN_SIZES(SIMGEN_OF_24, int)
SIMGEN_SIZES(SIMGEN_OF_24, uint)
SIMGEN_SIZES(SIMGEN_MAD_SAT, char)
SIMGEN_SIZES(SIMGEN_MAD_SAT, uchar)
SIMGEN_SIZES(SIMGEN_MAD_SAT, short)
SIMGEN_SIZES(SIMGEN_MAD_SAT, ushort)
SIMGEN_SIZES(SIMGEN_MAD_SAT, int)
SIMGEN_SIZES(SIMGEN_MAD_SAT, uint)
SIMGEN_SIZES(SIMGEN_MAD_SAT, long)
SIMGEN_SIZES(SIMGEN_MAD_SAT, ulong)
/* Elements of one vector or two, by the low bits of a mask's elements. */
#define SIMGEN_SHUFFLE(T, U, m, n)                                                                 \
    OVERLOADED T##n shuffle(T##m x, U##n at)                                                       \
    {                                                                                              \
        T##n r;                                                                                    \
        SIMGEN_ALL(n) r[i] = x[at[i] & (m - 1)];                                                   \
        return r;                                                                                  \
    }                                                                                              \
    OVERLOADED T##n shuffle2(T##m x, T##m y, U##n at)                                              \
    {                                                                                              \
        T##n r;                                                                                    \
        SIMGEN_ALL(n)                                                                              \
        r[i] = at[i] & m ? y[at[i] & (m - 1)] : x[at[i] & (m - 1)];                                \
        return r;                                                                                  \
    }
#define SIMGEN_SHUFFLED(T, U, m)                                                                   \
    SIMGEN_SHUFFLE(T, U, m, 2)                                                                     \
    SIMGEN_SHUFFLE(T, U, m, 4) SIMGEN_SHUFFLE(T, U, m, 8) SIMGEN_SHUFFLE(T, U, m, 16)
#define SIMGEN_SHUFFLES(T, U)                                                                      \
    SIMGEN_SHUFFLED(T, U, 2)                                                                       \
    SIMGEN_SHUFFLED(T, U, 4) SIMGEN_SHUFFLED(T, U, 8) SIMGEN_SHUFFLED(T, U, 16)
SIMGEN_SHUFFLES(char, uchar)
SIMGEN_SHUFFLES(uchar, uchar)
SIMGEN_SHUFFLES(short, ushort)
SIMGEN_SHUFFLES(ushort, ushort)
SIMGEN_SHUFFLES(int, uint)
SIMGEN_SHUFFLES(uint, uint)
SIMGEN_SHUFFLES(float, uint)
SIMGEN_SHUFFLES(long, ulong)
SIMGEN_SHUFFLES(ulong, ulong)
SIMGEN_SHUFFLES(double, ulong)
OVERLOADED
    short upsample(char high, uchar low)
{
    return (short)((ushort)high << 8 | low);
}
OVERLOADED ushort upsample(uchar high, uchar low) { return (ushort)(high << 8 | low); }
OVERLOADED int upsample(short high, ushort low) { return (int)((uint)high << 16 | low); }
OVERLOADED uint upsample(ushort high, ushort low) { return (uint)high << 16 | low; }
OVERLOADED long upsample(int high, uint low) { return (long)((ulong)high << 32 | low); }
OVERLOADED ulong upsample(uint high, uint low) { return (ulong)high << 32 | low; }
#define SIMGEN_UPSAMPLED(R, T, U, n)                                                               \
    OVERLOADED R##n upsample(T##n high, U##n low)                                                  \
    {                                                                                              \
        R##n r;                                                                                    \
        SIMGEN_ALL(n) r[i] = upsample((T)high[i], (U)low[i]);                                      \
        return r;                                                                                  \
    }
SIMGEN_SIZES(SIMGEN_UPSAMPLED, short, char, uchar)
SIMGEN_SIZES(SIMGEN_UPSAMPLED, ushort, uchar, uchar)
SIMGEN_SIZES(SIMGEN_UPSAMPLED, int, short, ushort)
SIMGEN_SIZES(SIMGEN_UPSAMPLED, uint, ushort, ushort)
SIMGEN_SIZES(SIMGEN_UPSAMPLED, long, int, uint)
SIMGEN_SIZES(SIMGEN_UPSAMPLED, ulong, uint, uint)

    /* Copies of a whole work-group: each work-item takes its part, and all wait for the end. */
    INLINED void wait_group_events(int n, event_t* events)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}
#define SIMGEN_COPY(T, to, from)                                                                   \
    OVERLOADED event_t async_work_group_strided_copy_(                                             \
        to T* p, const from T* q, size_t n, size_t by_p, size_t by_q, event_t e)                   \
    {                                                                                              \
        const size_t items = get_local_size(0) * get_local_size(1) * get_local_size(2);            \
        for (size_t i =                                                                            \
                 get_local_id(0)                                                                   \
                 + get_local_size(0) * (get_local_id(1) + get_local_size(1) * get_local_id(2));    \
            i < n; i += items)                                                                     \
            p[i * by_p] = q[i * by_q];                                                             \
        return e;                                                                                  \
    }                                                                                              \
    OVERLOADED event_t async_work_group_copy(to T* p, const from T* q, size_t n, event_t e)        \
    {                                                                                              \
        return async_work_group_strided_copy_(p, q, n, 1, 1, e);                                   \
    }
#define SIMGEN_COPIES(T)                                                                           \
    SIMGEN_COPY(T, __local, __global)                                                              \
    SIMGEN_COPY(T, __global, __local) OVERLOADED event_t async_work_group_strided_copy(            \
        __local T* p, const __global T* q, size_t n, size_t by, event_t e)                         \
    {                                                                                              \
        return async_work_group_strided_copy_(p, q, n, 1, by, e);                                  \
    }                                                                                              \
    OVERLOADED event_t async_work_group_strided_copy(                                              \
        __global T* p, const __local T* q, size_t n, size_t by, event_t e)                         \
    {                                                                                              \
        return async_work_group_strided_copy_(p, q, n, by, 1, e);                                  \
    }
SIMGEN_COPIES(char)
SIMGEN_COPIES(uchar)
SIMGEN_COPIES(short)
SIMGEN_COPIES(ushort)
SIMGEN_COPIES(int)
SIMGEN_COPIES(uint)
SIMGEN_COPIES(long)
SIMGEN_COPIES(ulong)
SIMGEN_COPIES(float)
SIMGEN_COPIES(double)
SIMGEN_COPIES(float2)
SIMGEN_COPIES(float4)
SIMGEN_COPIES(int2)
SIMGEN_COPIES(int4)
SIMGEN_COPIES(uint4)
/* Answers are 1 of numbers, and all bits of elements. */
#define SIMGEN_TOLD_EACH(name, n)                                                                  \
    OVERLOADED int##n name(float##n x)                                                             \
    {                                                                                              \
        int##n r;                                                                                  \
        SIMGEN_ALL(n) r[i] = -name((float)x[i]);                                                   \
        return r;                                                                                  \
    }
#define SIMGEN_TOLD(name, value)                                                                   \
    OVERLOADED int name(float x) { return (value) != 0; }                                          \
    SIMGEN_SIZES(SIMGEN_TOLD_EACH, name)
SIMGEN_TOLD(isnan, x != x)
SIMGEN_TOLD(isinf, fabs(x) == INFINITY)
SIMGEN_TOLD(isfinite, fabs(x) < INFINITY)
SIMGEN_TOLD(isnormal, fabs(x) < INFINITY && fabs(x) >= FLT_MIN)
SIMGEN_TOLD(signbit, __builtin_astype(x, int) < 0)
#define SIMGEN_COMPARED_EACH(name, n)                                                              \
    OVERLOADED int##n name(float##n a, float##n b)                                                 \
    {                                                                                              \
        int##n r;                                                                                  \
        SIMGEN_ALL(n) r[i] = -name((float)a[i], (float)b[i]);                                      \
        return r;                                                                                  \
    }
#define SIMGEN_COMPARED(name, value)                                                               \
    OVERLOADED int name(float a, float b) { return value; }                                        \
    SIMGEN_SIZES(SIMGEN_COMPARED_EACH, name)
SIMGEN_COMPARED(isequal, a == b)
SIMGEN_COMPARED(isnotequal, a != b)
SIMGEN_COMPARED(isless, a < b)
SIMGEN_COMPARED(isgreater, a > b)
SIMGEN_COMPARED(islessequal, a <= b)
SIMGEN_COMPARED(isgreaterequal, a >= b)
SIMGEN_COMPARED(islessgreater, a<b || a> b)
SIMGEN_COMPARED(isordered, a == a && b == b)
SIMGEN_COMPARED(isunordered, a != a || b != b)
#define SIMGEN_SELECT(T, I, U)                                                                     \
    OVERLOADED T select(T a, T b, I c) { return c ? b : a; }                                       \
    OVERLOADED T select(T a, T b, U c) { return c ? b : a; }                                       \
    OVERLOADED T bitselect(T a, T b, T c)                                                          \
    {                                                                                              \
        return __builtin_astype((U)((__builtin_astype(a, U) & ~__builtin_astype(c, U))             \
                                    | (__builtin_astype(b, U) & __builtin_astype(c, U))),          \
            T);                                                                                    \
    }                                                                                              \
    SIMGEN_SELECTS(T, I, U, 2)                                                                     \
    SIMGEN_SELECTS(T, I, U, 3) SIMGEN_SELECTS(T, I, U, 4) SIMGEN_SELECTS(T, I, U, 8)               \
        SIMGEN_SELECTS(T, I, U, 16)
#define SIMGEN_SELECTS(T, I, U, n)                                                                 \
    OVERLOADED T##n bitselect(T##n a, T##n b, T##n c)                                              \
    {                                                                                              \
        return __builtin_astype((__builtin_astype(a, U##n) & ~__builtin_astype(c, U##n))           \
                                    | (__builtin_astype(b, U##n) & __builtin_astype(c, U##n)),     \
            T##n);                                                                                 \
    }                                                                                              \
    OVERLOADED T##n select(T##n a, T##n b, I##n c)                                                 \
    {                                                                                              \
        return bitselect(a, b, __builtin_astype(c >> (I)(8 * sizeof(I) - 1), T##n));               \
    }                                                                                              \
    OVERLOADED T##n select(T##n a, T##n b, U##n c)                                                 \
    {                                                                                              \
        return select(a, b, __builtin_astype(c, I##n));                                            \
    }
SIMGEN_SELECT(float, int, uint)
SIMGEN_SELECT(int, int, uint)
SIMGEN_SELECT(uint, int, uint)
SIMGEN_SELECT(char, char, uchar)
SIMGEN_SELECT(uchar, char, uchar)
SIMGEN_SELECT(short, short, ushort)
SIMGEN_SELECT(ushort, short, ushort)
SIMGEN_SELECT(long, long, ulong)
SIMGEN_SELECT(ulong, long, ulong)
#define SIMGEN_ANY(T)                                                                              \
    OVERLOADED int any(T x) { return x < 0; }                                                      \
    OVERLOADED int all(T x) { return x < 0; }                                                      \
    SIMGEN_ANYS(T, 2) SIMGEN_ANYS(T, 3) SIMGEN_ANYS(T, 4) SIMGEN_ANYS(T, 8) SIMGEN_ANYS(T, 16)
#define SIMGEN_ANYS(T, n)                                                                          \
    OVERLOADED int any(T##n x)                                                                     \
    {                                                                                              \
        int r = 0;                                                                                 \
        SIMGEN_ALL(n) r |= x[i] < 0;                                                               \
        return r;                                                                                  \
    }                                                                                              \
    OVERLOADED int all(T##n x)                                                                     \
    {                                                                                              \
        int r = 1;                                                                                 \
        SIMGEN_ALL(n) r &= x[i] < 0;                                                               \
        return r;                                                                                  \
    }
SIMGEN_ANY(int)
SIMGEN_ANY(char)
SIMGEN_ANY(short)
SIMGEN_ANY(long)
/* The nearest number of a narrower type; 0 of NaN. */
#define SIMGEN_SATURATED(T, F, W, least, most)                                                     \
    OVERLOADED T convert_##T##_sat(F x)                                                            \
    {                                                                                              \
        return x != x               ? (T)0                                                         \
               : (W)x <= (W)(least) ? (T)(least)                                                   \
               : (W)x >= (W)(most)  ? (T)(most)                                                    \
                                    : (T)x;                                                        \
    }                                                                                              \
    SIMGEN_SIZES(SIMGEN_SATURATED_EACH, T, F)
#define SIMGEN_SATURATED_EACH(T, F, n)                                                             \
    OVERLOADED T##n convert_##T##n##_sat(F##n x)                                                   \
    {                                                                                              \
        T##n r;                                                                                    \
        SIMGEN_ALL(n) r[i] = convert_##T##_sat((F)x[i]);                                           \
        return r;                                                                                  \
    }
#define SIMGEN_SATURATES(T, least, most)                                                           \
    SIMGEN_SATURATED(T, float, float, least, most)                                                 \
    SIMGEN_SATURATED(T, double, double, least, most) SIMGEN_SATURATED(T, int, long, least, most)   \
        SIMGEN_SATURATED(T, uint, long, least, most) SIMGEN_SATURATED(T, short, long, least, most) \
            SIMGEN_SATURATED(T, ushort, long, least, most)                                         \
                SIMGEN_SATURATED(T, char, long, least, most)                                       \
                    SIMGEN_SATURATED(T, uchar, long, least, most)                                  \
                        SIMGEN_SATURATED(T, long, long, least, most)
SIMGEN_SATURATES(char, -128, 127)
SIMGEN_SATURATES(uchar, 0, 255)
SIMGEN_SATURATES(short, -32768, 32767)
SIMGEN_SATURATES(ushort, 0, 65535)
SIMGEN_SATURATES(int, INT_MIN, INT_MAX)
SIMGEN_SATURATES(uint, 0, UINT_MAX)

#define SIMGEN_ATOMICS(space, T)                                                                   \
    OVERLOADED T atomic_add(volatile space T* p, T v)                                              \
    {                                                                                              \
        return __scoped_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);           \
    }                                                                                              \
    OVERLOADED T atomic_sub(volatile space T* p, T v)                                              \
    {                                                                                              \
        return __scoped_atomic_fetch_sub(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);           \
    }                                                                                              \
    OVERLOADED T atomic_min(volatile space T* p, T v)                                              \
    {                                                                                              \
        return __scoped_atomic_fetch_min(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);           \
    }                                                                                              \
    OVERLOADED T atomic_max(volatile space T* p, T v)                                              \
    {                                                                                              \
        return __scoped_atomic_fetch_max(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);           \
    }                                                                                              \
    OVERLOADED T atomic_and(volatile space T* p, T v)                                              \
    {                                                                                              \
        return __scoped_atomic_fetch_and(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);           \
    }                                                                                              \
    OVERLOADED T atomic_or(volatile space T* p, T v)                                               \
    {                                                                                              \
        return __scoped_atomic_fetch_or(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);            \
    }                                                                                              \
    OVERLOADED T atomic_xor(volatile space T* p, T v)                                              \
    {                                                                                              \
        return __scoped_atomic_fetch_xor(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);           \
    }                                                                                              \
    OVERLOADED T atomic_xchg(volatile space T* p, T v)                                             \
    {                                                                                              \
        return __scoped_atomic_exchange_n(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);          \
    }                                                                                              \
    OVERLOADED T atomic_inc(volatile space T* p) { return atomic_add(p, (T)1); }                   \
    OVERLOADED T atomic_dec(volatile space T* p) { return atomic_sub(p, (T)1); }                   \
    OVERLOADED T atomic_cmpxchg(volatile space T* p, T old, T v)                                   \
    {                                                                                              \
        __scoped_atomic_compare_exchange_n(                                                        \
            p, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);             \
        return old;                                                                                \
    }
SIMGEN_ATOMICS(__global, int)
SIMGEN_ATOMICS(__global, uint)
SIMGEN_ATOMICS(__local, int)
SIMGEN_ATOMICS(__local, uint)
SIMGEN_ATOMICS(__global, long)
SIMGEN_ATOMICS(__global, ulong)
SIMGEN_ATOMICS(__local, long)
SIMGEN_ATOMICS(__local, ulong)
OVERLOADED
    float atomic_xchg(volatile __global float* p, float v)
{
    return __builtin_astype(
        atomic_xchg((volatile __global uint*)p, __builtin_astype(v, uint)), float);
}
OVERLOADED float atomic_xchg(volatile __local float* p, float v)
{
    return __builtin_astype(
        atomic_xchg((volatile __local uint*)p, __builtin_astype(v, uint)), float);
}
#define atom_add atomic_add
#define atom_sub atomic_sub
#define atom_inc atomic_inc
#define atom_dec atomic_dec
#define atom_max atomic_max
#define atom_min atomic_min
#define atom_and atomic_and
#define atom_or atomic_or
#define atom_xor atomic_xor
#define atom_xchg atomic_xchg
#define atom_cmpxchg atomic_cmpxchg
