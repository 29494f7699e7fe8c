/* clang for AMD GPUs: the language's names, work-items and groups, and what waits, counts and
 * computes. */
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(n, ...) __attribute__((amdgpu_flat_work_group_size(1, n)))
#define __managed__ __device__
#ifndef SIMGEN_WARP
#define SIMGEN_WARP 64
#endif
#define warpSize SIMGEN_WARP /* of a source in CUDA 32: a wavefront has two of its warps */

/* What the launcher leaves behind the arguments (LLVM, "User Guide for AMDGPU Backend", Code Object
 * V5 Kernel Argument: hidden_block_count, hidden_group_size). */
static __device__ __forceinline__ unsigned simgen_hidden(unsigned at)
{
    return (
        (const __attribute__((address_space(4))) unsigned*)__builtin_amdgcn_implicitarg_ptr())[at];
}
/* Their members are unsigned, as HIP and CUDA declare them: each is read where it is named. */
#define SIMGEN_INDEX(type, name, of_x, of_y, of_z)                                                 \
    struct type {                                                                                  \
        static __device__ __forceinline__ unsigned simgen_x() { return of_x; }                     \
        static __device__ __forceinline__ unsigned simgen_y() { return of_y; }                     \
        static __device__ __forceinline__ unsigned simgen_z() { return of_z; }                     \
        __declspec(property(get = simgen_x)) unsigned x;                                           \
        __declspec(property(get = simgen_y)) unsigned y;                                           \
        __declspec(property(get = simgen_z)) unsigned z;                                           \
    };                                                                                             \
    extern const __device__ __attribute__((weak)) type name
SIMGEN_INDEX(simgen_item, threadIdx, __builtin_amdgcn_workitem_id_x(),
    __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z());
SIMGEN_INDEX(simgen_group, blockIdx, __builtin_amdgcn_workgroup_id_x(),
    __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z());
SIMGEN_INDEX(simgen_items, blockDim, simgen_hidden(3) & 0xffff, simgen_hidden(3) >> 16,
    simgen_hidden(4) & 0xffff);
SIMGEN_INDEX(simgen_groups, gridDim, simgen_hidden(0), simgen_hidden(1), simgen_hidden(2));
template <class T>
concept simgen_is_index = __is_same(T, simgen_item) || __is_same(T, simgen_group)
                          || __is_same(T, simgen_items) || __is_same(T, simgen_groups);

/* The tensor that a variable of the whole GPU stands for: the launcher leaves its address where no
 * runtime leaves anything. */
static __device__ __forceinline__ void *simgen_variable(unsigned at)
{
    typedef __attribute__((address_space(1))) void *global;
    return (void*)((const __attribute__((address_space(4)))
        global*)__builtin_amdgcn_implicitarg_ptr())[26 + at];
}

static __device__ __forceinline__ void __syncthreads()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
static __device__ __forceinline__ void __threadfence()
{
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
}
static __device__ __forceinline__ void __threadfence_block()
{
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
}
static __device__ __forceinline__ void __syncwarp(unsigned long = 0)
{
    __builtin_amdgcn_wave_barrier();
}

static __device__ __forceinline__ float simgen_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
static __device__ __forceinline__ float simgen_log2(float x) { return __builtin_amdgcn_logf(x); }
static __device__ __forceinline__ double simgen_rcp(double x) { return __builtin_amdgcn_rcp(x); }
static __device__ __forceinline__ float simgen_rsq(float x) { return __builtin_amdgcn_rsqf(x); }
/* The instructions count in turns. */
static __device__ __forceinline__ float simgen_sin(float x)
{
    return __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(x * 0.159154943f));
}
static __device__ __forceinline__ float simgen_cos(float x)
{
    return __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(x * 0.159154943f));
}

template <class T>
static __device__ __forceinline__ bool simgen_compare_swap(T* p, T& old, T wanted)
{
    return __hip_atomic_compare_exchange_strong(
        p, &old, wanted, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
static __device__ __forceinline__ T simgen_fetch_add(T* p, T v)
{
    return __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T, class F>
static __device__ __forceinline__ T simgen_update(T* p, F next)
{
    T old = *const_cast<volatile T*>(p);
    while (!simgen_compare_swap(p, old, static_cast<T>(next(old)))) {
    }
    return old;
}

/* Lanes of a wavefront, which may be cut into parts of `width`. In sources of CUDA, warps are
 * its halves. */
template <class T>
static __device__ __forceinline__ T simgen_lane(T v, int from)
{
    if constexpr (sizeof(T) < 4) {
        int word = 0;
        __builtin_memcpy(&word, &v, sizeof(T));
        word = __builtin_amdgcn_ds_bpermute(from << 2, word);
        __builtin_memcpy(&v, &word, sizeof(T));
    } else {
        static_assert(sizeof(T) % 4 == 0, "lanes exchange 1, 2, 4, 8, 12 or 16 bytes");
        int words[sizeof(T) / 4];
        __builtin_memcpy(words, &v, sizeof(T));
#pragma unroll
        for (unsigned i = 0; i < sizeof(T) / 4; i++)
            words[i] = __builtin_amdgcn_ds_bpermute(from << 2, words[i]);
        __builtin_memcpy(&v, words, sizeof(T));
    }
    return v;
}
static __device__ __forceinline__ int simgen_lane_number()
{
    return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}
static __device__ __forceinline__ int __lane_id()
{
    return simgen_lane_number() & (SIMGEN_WARP - 1);
}
#if SIMGEN_WARP == 64
typedef unsigned long simgen_lanes;
static __device__ __forceinline__ simgen_lanes __ballot(int x)
{
    return __builtin_amdgcn_ballot_w64(x != 0);
}
#else
typedef unsigned simgen_lanes;
static __device__ __forceinline__ simgen_lanes __ballot(int x)
{
    return static_cast<unsigned>(
        __builtin_amdgcn_ballot_w64(x != 0) >> (simgen_lane_number() & 32));
}
#endif
#define SIMGEN_LANES 64 /* that go together on this machine */
#define SIMGEN_OF_WAVE(x) __builtin_amdgcn_ballot_w64(x)
#define SIMGEN_MEET(mask) static_cast<void>(0)
#include "lanes.h"
