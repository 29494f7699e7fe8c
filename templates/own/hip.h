/* What HIP and CUDA give kernels, for the sources of users: clang for AMD GPUs without ROCm, this
 * CPU, and NVRTC. What is not here, a source cannot use. */
#ifndef SIMGEN_OWN_HIP_H
#define SIMGEN_OWN_HIP_H

/* Products and sums of sources become one instruction as their compilers do it, and so do those
 * of types and functions that vendors have in headers. Functions of numbers (maths.h) say
 * themselves what is fused. */
#ifndef SIMGEN_CONTRACT
#define SIMGEN_CONTRACT off
#endif
#define SIMGEN_PRAGMA(x) _Pragma(#x)
#define SIMGEN_FUSING(which) SIMGEN_PRAGMA(clang fp contract(which))
#if defined(__AMDGCN__)
#include "device.h"
#elif defined(__CUDACC_RTC__)
#include "nvidia.h"
#else
#include "host.h"
#endif

namespace nvcuda {} /* for sources that open it */
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
#ifndef HIP_DYNAMIC_SHARED
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#endif
#define HIP_KERNEL_NAME(...) __VA_ARGS__

#ifndef SIMGEN_NVIDIA
#define __align__(n) __attribute__((aligned(n)))
#define __noinline__ __attribute__((noinline))
#define assert(...) ((void)0)
#define __threadfence_system __threadfence
#define __nanosleep(ns) ((void)(ns))
__device__ void *operator new(unsigned long) __attribute__((unavailable));
__device__ void *operator new[](unsigned long) __attribute__((unavailable));
#define __grid_constant__
#define __cluster_dims__(...) _Pragma("GCC error \"clusters of work-groups are not here\"")
#endif
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
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define M_E 2.71828182845904523536
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_LOG2E 1.44269504088896340736
#define CUDART_PI_F 3.141592654f
#define CUDART_PI 3.14159265358979323846
#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define HUGE_VALF __builtin_inff()
#define DBL_MIN __DBL_MIN__
#define DBL_EPSILON __DBL_EPSILON__
#define CHAR_BIT 8
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define LONG_MAX __LONG_MAX__
#define LLONG_MAX __LONG_LONG_MAX__
#define ULONG_MAX (__LONG_MAX__ * 2ul + 1)
#define ULLONG_MAX (__LONG_LONG_MAX__ * 2ull + 1)
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX __INT_MAX__
#define INT64_MAX __LONG_MAX__
#define INT32_MIN (-__INT_MAX__ - 1)
#define INT64_MIN (-__LONG_MAX__ - 1)
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX (__INT_MAX__ * 2u + 1)
#define UINT64_MAX (__LONG_MAX__ * 2ul + 1)
#define SIZE_MAX __SIZE_MAX__
#define INT32_C(x) x
#define UINT32_C(x) x##u
#define INT64_C(x) x##l
#define UINT64_C(x) x##ul
#ifndef NULL
#define NULL nullptr
#endif

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
#ifdef SIMGEN_NVIDIA /* as in CUDA's headers for NVRTC */
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
#else
typedef long int64_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
#endif
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef long ssize_t;

#ifndef SIMGEN_NVIDIA
struct dim3 {
    unsigned x, y, z;
    __device__ constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
    template <simgen_is_index I> __device__ dim3(const I &at) : x(at.x), y(at.y), z(at.z) {}
};

#endif
SIMGEN_FUSING(SIMGEN_CONTRACT)
#include "vectors.h"
SIMGEN_FUSING(off)
#ifndef SIMGEN_NVIDIA
#include "maths.h"
#endif
#include "bits.h"
template <class T, class V> static inline __device__ T atomicAdd(T* p, V v)
{
    return simgen_fetch_add(p, static_cast<T>(v));
}
template <class T, class V> static inline __device__ T atomicSub(T* p, V v)
{
    return simgen_fetch_add(p, static_cast<T>(-static_cast<T>(v)));
}
template <class T, class V> static inline __device__ T atomicMax(T* p, V v)
{
    return simgen_update(
        p, [=](T old) { return old > static_cast<T>(v) ? old : static_cast<T>(v); });
}
template <class T, class V> static inline __device__ T atomicMin(T* p, V v)
{
    return simgen_update(
        p, [=](T old) { return old < static_cast<T>(v) ? old : static_cast<T>(v); });
}
template <class T, class V> static inline __device__ T atomicAnd(T* p, V v)
{
    return simgen_update(p, [=](T old) { return old & static_cast<T>(v); });
}
template <class T, class V> static inline __device__ T atomicOr(T* p, V v)
{
    return simgen_update(p, [=](T old) { return old | static_cast<T>(v); });
}
template <class T, class V> static inline __device__ T atomicXor(T* p, V v)
{
    return simgen_update(p, [=](T old) { return old ^ static_cast<T>(v); });
}
template <class T, class V> static inline __device__ T atomicExch(T* p, V v)
{
    return simgen_update(p, [=](T) { return static_cast<T>(v); });
}
template <class T, class A, class B> static inline __device__ T atomicCAS(
    T* p, A expected, B wanted)
{
    T old = static_cast<T>(expected);
    simgen_compare_swap(p, old, static_cast<T>(wanted));
    return old;
}
template <class T, class V> static inline __device__ T atomicInc(T* p, V most)
{
    return simgen_update(p, [=](T old) { return old >= static_cast<T>(most) ? T(0) : old + 1; });
}
template <class T, class V> static inline __device__ T atomicDec(T* p, V most)
{
    return simgen_update(p, [=](T old) {
        return old == 0 || old > static_cast<T>(most) ? static_cast<T>(most) : old - 1;
    });
}
#define unsafeAtomicAdd atomicAdd
#define atomicAddNoRet atomicAdd
#define atomicAdd_system atomicAdd
#define atomicSub_system atomicSub
#define atomicMax_system atomicMax
#define atomicMin_system atomicMin
#define atomicAnd_system atomicAnd
#define atomicOr_system atomicOr
#define atomicXor_system atomicXor
#define atomicExch_system atomicExch
#define atomicCAS_system atomicCAS
#define atomicInc_system atomicInc
#define atomicDec_system atomicDec
#define atomicAdd_block atomicAdd
#define atomicSub_block atomicSub
#define atomicMax_block atomicMax
#define atomicMin_block atomicMin
#define atomicAnd_block atomicAnd
#define atomicOr_block atomicOr
#define atomicXor_block atomicXor
#define atomicExch_block atomicExch
#define atomicCAS_block atomicCAS
#define atomicInc_block atomicInc
#define atomicDec_block atomicDec

/* Barriers that count: all work-items of the group must come. */
#ifndef SIMGEN_FLAT
#define SIMGEN_FLAT 0 /* whether work-groups have one dimension */
#endif
static inline __device__ unsigned simgen_item_number()
{
    if constexpr (SIMGEN_FLAT)
        return threadIdx.x;
    else
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
#ifndef SIMGEN_NVIDIA
static inline __device__ int __syncthreads_count(int x)
{
    __shared__ int count;
    __syncthreads();
    if (simgen_item_number() == 0)
        count = 0;
    __syncthreads();
    if (x)
        atomicAdd(&count, 1);
    __syncthreads();
    const int found = count;
    __syncthreads();
    return found;
}
static inline __device__ int __syncthreads_or(int x) { return __syncthreads_count(x != 0) != 0; }
static inline __device__ int __syncthreads_and(int x) { return __syncthreads_count(x == 0) == 0; }
#endif
#include "standard.h"
SIMGEN_FUSING(SIMGEN_CONTRACT)
/* CUDA's own ones come first. */
#if !defined(__CUDA_FP16_H__) || !defined(__CUDA_BF16_H__)
#include "halves.h"
#endif
#ifndef CU_COMPLEX_H_
#include "complex.h"
#endif
SIMGEN_FUSING(off)
#ifndef _COOPERATIVE_GROUPS_H_
#include "groups.h"
#endif
#ifdef SIMGEN_HOST
#undef float2
#undef float4
#undef int2
#undef int4
#endif
#endif
