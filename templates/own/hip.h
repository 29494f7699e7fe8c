/* What HIP and CUDA give kernels, for the sources of users: clang for AMD GPUs without ROCm, this
 * CPU, and the names of HIP for NVRTC. What is not here, a source cannot use. */
#ifndef SIMGEN_OWN_HIP_H
#define SIMGEN_OWN_HIP_H

#if defined(__AMDGCN__)
#include "device.h"
#elif defined(__CUDACC_RTC__)
#define SIMGEN_NVIDIA 1
#else
#include "host.h"
#endif

#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define HIP_KERNEL_NAME(...) __VA_ARGS__

#ifndef SIMGEN_NVIDIA
/* On this CPU too: what is written for AMD GPUs alone does not compile there, and is not left out. */
#define __HIP_PLATFORM_AMD__ 1
#define __HIPCC__ 1
#define __align__(n) __attribute__((aligned(n)))
#define __noinline__ __attribute__((noinline))
#define assert(...) ((void)0)
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define DBL_MAX __DBL_MAX__
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2u + 1)
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define M_PI 3.14159265358979323846
#define NULL nullptr

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;

struct dim3 {
    unsigned x, y, z;
    __device__ constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

#define SIMGEN_VECTOR1(type, name) struct name##1 { type x; }; static inline __device__ name##1 make_##name##1(type x) { return { x }; }
#define SIMGEN_VECTOR2(type, name, n) struct alignas(n) name##2 { type x, y; };
#define SIMGEN_VECTOR3(type, name) struct name##3 { type x, y, z; };
#define SIMGEN_VECTOR4(type, name, n) struct alignas(n) name##4 { type x, y, z, w; };
#define SIMGEN_MAKE(type, name)                                                                                  \
    static inline __device__ name##2 make_##name##2(type x, type y) { return { x, y }; }                         \
    static inline __device__ name##3 make_##name##3(type x, type y, type z) { return { x, y, z }; }              \
    static inline __device__ name##4 make_##name##4(type x, type y, type z, type w) { return { x, y, z, w }; }
#ifndef SIMGEN_HOST /* whose prelude has these */
SIMGEN_VECTOR2(float, float, 8) SIMGEN_VECTOR4(float, float, 16)
SIMGEN_VECTOR2(int, int, 8) SIMGEN_VECTOR4(int, int, 16)
#endif
SIMGEN_VECTOR3(float, float) SIMGEN_VECTOR3(int, int)
SIMGEN_VECTOR2(unsigned, uint, 8) SIMGEN_VECTOR3(unsigned, uint) SIMGEN_VECTOR4(unsigned, uint, 16)
SIMGEN_VECTOR2(double, double, 16) SIMGEN_VECTOR3(double, double) SIMGEN_VECTOR4(double, double, 16)
SIMGEN_VECTOR2(unsigned char, uchar, 2) SIMGEN_VECTOR3(unsigned char, uchar) SIMGEN_VECTOR4(unsigned char, uchar, 4)
SIMGEN_VECTOR2(signed char, char, 2) SIMGEN_VECTOR3(signed char, char) SIMGEN_VECTOR4(signed char, char, 4)
SIMGEN_MAKE(float, float) SIMGEN_MAKE(int, int) SIMGEN_MAKE(unsigned, uint) SIMGEN_MAKE(double, double)
SIMGEN_MAKE(unsigned char, uchar) SIMGEN_MAKE(signed char, char)

/* As C++ finds the type of a mixed minimum, and CUDA that of a mixed one of integers. */
template <class A, class B> static inline __device__ auto max(A a, B b) -> decltype(a + b) { return a > b ? a : b; }
template <class A, class B> static inline __device__ auto min(A a, B b) -> decltype(a + b) { return a < b ? a : b; }
static inline __device__ int abs(int x) { return x < 0 ? -x : x; }
static inline __device__ float abs(float x) { return __builtin_fabsf(x); }
static inline __device__ float fabsf(float x) { return __builtin_fabsf(x); }
static inline __device__ float fabs(float x) { return __builtin_fabsf(x); }
static inline __device__ double fabs(double x) { return __builtin_fabs(x); }
static inline __device__ float floorf(float x) { return __builtin_floorf(x); }
static inline __device__ float floor(float x) { return __builtin_floorf(x); }
static inline __device__ float ceilf(float x) { return __builtin_ceilf(x); }
static inline __device__ float ceil(float x) { return __builtin_ceilf(x); }
static inline __device__ float truncf(float x) { return __builtin_truncf(x); }
static inline __device__ float rintf(float x) { return __builtin_rintf(x); }
static inline __device__ float fmaxf(float a, float b) { return a >= b || b != b ? a : b; }
static inline __device__ float fminf(float a, float b) { return a <= b || b != b ? a : b; }
static inline __device__ float fmax(float a, float b) { return fmaxf(a, b); }
static inline __device__ float fmin(float a, float b) { return fminf(a, b); }
static inline __device__ float copysignf(float a, float b) { return __builtin_copysignf(a, b); }
static inline __device__ float fmaf(float a, float b, float c) { return __builtin_elementwise_fma(a, b, c); }
static inline __device__ float fma(float a, float b, float c) { return __builtin_elementwise_fma(a, b, c); }
static inline __device__ double fma(double a, double b, double c) { return __builtin_elementwise_fma(a, b, c); }
static inline __device__ float sqrtf(float x) { return __builtin_elementwise_sqrt(x); }
static inline __device__ float sqrt(float x) { return __builtin_elementwise_sqrt(x); }
static inline __device__ double sqrt(double x) { return __builtin_elementwise_sqrt(x); }
static inline __device__ float rsqrtf(float x) { return 1.0f / __builtin_elementwise_sqrt(x); }
static inline __device__ float rsqrt(float x) { return rsqrtf(x); }
static inline __device__ float expf(float x) { return simgen_exp2(x * 1.44269504f); }
static inline __device__ float exp(float x) { return expf(x); }
static inline __device__ float exp2f(float x) { return simgen_exp2(x); }
static inline __device__ float logf(float x) { return simgen_log2(x) * 0.693147181f; }
static inline __device__ float log(float x) { return logf(x); }
static inline __device__ float log2f(float x) { return simgen_log2(x); }
static inline __device__ float log2(float x) { return simgen_log2(x); }
static inline __device__ float log10f(float x) { return simgen_log2(x) * 0.301029996f; }
static inline __device__ float sinf(float x) { return simgen_sin(x); }
static inline __device__ float sin(float x) { return simgen_sin(x); }
static inline __device__ float cosf(float x) { return simgen_cos(x); }
static inline __device__ float cos(float x) { return simgen_cos(x); }
static inline __device__ float tanhf(float x)
{
    const float e = simgen_exp2(-2.88539008f * __builtin_fabsf(x));
    return __builtin_copysignf((1.0f - e) / (1.0f + e), x);
}
static inline __device__ float tanh(float x) { return tanhf(x); }
/* Of a negative base, whole exponents alone have a power. */
static inline __device__ float powf(float x, float y)
{
    if (y == 0.0f)
        return 1.0f;
    const float r = simgen_exp2(y * simgen_log2(__builtin_fabsf(x)));
    if (x >= 0.0f)
        return r;
    return y != __builtin_floorf(y) ? NAN : static_cast<long>(y) & 1 ? -r : r;
}
static inline __device__ float pow(float x, float y) { return powf(x, y); }
static inline __device__ bool isnan(float x) { return x != x; }
static inline __device__ bool isinf(float x) { return __builtin_fabsf(x) == INFINITY; }
#define __expf expf
#define __logf logf
#define __sinf sinf
#define __cosf cosf
#define __powf powf
#define __fsqrt_rn sqrtf
#define __fmaf_rn fmaf
#define __fdividef(a, b) ((a) / (b))
#define __fadd_rn(a, b) ((a) + (b))
#define __fmul_rn(a, b) ((a) * (b))
#define __mul24(a, b) ((a) * (b))
#define __umul24(a, b) ((a) * (b))
static inline __device__ int __popc(unsigned x) { return __builtin_popcount(x); }
static inline __device__ int __popcll(unsigned long x) { return __builtin_popcountl(x); }
static inline __device__ int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
static inline __device__ int __ffs(int x) { return __builtin_ffs(x); }
static inline __device__ unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
static inline __device__ unsigned __bitextract_u32(unsigned x, unsigned from, unsigned bits) { return x >> from & ((1u << bits) - 1); }
static inline __device__ float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
static inline __device__ int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
static inline __device__ float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
static inline __device__ unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
template <class T> static inline __device__ T __ldg(const T* p) { return *p; }

template <class T, class V> static inline __device__ T atomicAdd(T* p, V v) { return simgen_fetch_add(p, static_cast<T>(v)); }
template <class T, class V> static inline __device__ T atomicSub(T* p, V v) { return simgen_fetch_add(p, static_cast<T>(-v)); }
template <class T, class V> static inline __device__ T atomicMax(T* p, V v) { return simgen_update(p, [=](T old) { return old > static_cast<T>(v) ? old : static_cast<T>(v); }); }
template <class T, class V> static inline __device__ T atomicMin(T* p, V v) { return simgen_update(p, [=](T old) { return old < static_cast<T>(v) ? old : static_cast<T>(v); }); }
template <class T, class V> static inline __device__ T atomicAnd(T* p, V v) { return simgen_update(p, [=](T old) { return old & static_cast<T>(v); }); }
template <class T, class V> static inline __device__ T atomicOr(T* p, V v) { return simgen_update(p, [=](T old) { return old | static_cast<T>(v); }); }
template <class T, class V> static inline __device__ T atomicXor(T* p, V v) { return simgen_update(p, [=](T old) { return old ^ static_cast<T>(v); }); }
template <class T, class V> static inline __device__ T atomicExch(T* p, V v) { return simgen_update(p, [=](T) { return static_cast<T>(v); }); }
template <class T, class A, class B> static inline __device__ T atomicCAS(T* p, A expected, B wanted)
{
    T old = static_cast<T>(expected);
    simgen_compare_swap(p, old, static_cast<T>(wanted));
    return old;
}
#endif
#endif
