/* NVRTC, which has CUDA's functions built in: its headers where they are, and what HIP has
 * besides. */
#define SIMGEN_NVIDIA 1
#undef SIMGEN_FUSING
#define SIMGEN_FUSING(which) /* an option of NVRTC */
#ifndef SIMGEN_CUDA
/* whether the source is in CUDA; otherwise it is in HIP, whose types these headers have */
#define SIMGEN_CUDA 0
#endif
template <class A, class B> inline constexpr bool simgen_same = false;
template <class A> inline constexpr bool simgen_same<A, A> = true;
template <class T>
concept simgen_is_index = simgen_same<T, simgen_uint3_of_cuda> || simgen_same<T, dim3>;

/* What clang has built in. */
#define __linux__ 1
#define __FLT_MAX__ 3.402823466e+38f
#define __FLT_MIN__ 1.175494351e-38f
#define __FLT_EPSILON__ 1.192092896e-07f
#define __DBL_MAX__ 1.7976931348623158e+308
#define __DBL_MIN__ 2.2250738585072014e-308
#define __DBL_EPSILON__ 2.2204460492503131e-16
#define __INT_MAX__ 2147483647
#define __LONG_MAX__ 9223372036854775807l
#define __LONG_LONG_MAX__ 9223372036854775807ll
#define __SIZE_MAX__ 18446744073709551615ul
#define __SIZE_TYPE__ unsigned long
#define __PTRDIFF_TYPE__ long
#define __builtin_inff() __builtin_bit_cast(float, 0x7f800000u)
#define __builtin_inf() __builtin_bit_cast(double, 0x7ff0000000000000ul)
#define __builtin_nanf(text) __builtin_bit_cast(float, 0x7fc00000u)
#define __builtin_nan(text) __builtin_bit_cast(double, 0x7ff8000000000000ul)
#define __builtin_memcpy memcpy
#define __builtin_popcount(x) __popc(x)
#define __builtin_popcountl(x) __popcll(x)
#define __builtin_popcountll(x) __popcll(x)
#define __builtin_clz(x) __clz(static_cast<int>(x))
#define __builtin_clzl(x) __clzll(static_cast<long long>(x))
#define __builtin_clzll(x) __clzll(static_cast<long long>(x))
#define __builtin_ctz(x) (__ffs(static_cast<int>(x)) - 1)
#define __builtin_ctzl(x) (__ffsll(static_cast<long long>(x)) - 1)
#define __builtin_ctzll(x) (__ffsll(static_cast<long long>(x)) - 1)
#define __builtin_bitreverse32 __brev
#define __builtin_elementwise_fma fma
#define __builtin_elementwise_sqrt sqrt
#define __builtin_nontemporal_load(p) (*(p))
#define __builtin_nontemporal_store(v, p) (*(p) = (v))
#define __is_same(...) simgen_same<__VA_ARGS__>
template <class T> struct simgen_plain { typedef T type; };
template <class T> struct simgen_plain<const T> : simgen_plain<T> {};
template <class T> struct simgen_plain<volatile T> : simgen_plain<T> {};
template <class T> struct simgen_plain<const volatile T> : simgen_plain<T> {};
template <class T> struct simgen_referred { typedef T type; };
template <class T> struct simgen_referred<T &> { typedef T type; };
template <class T> struct simgen_referred<T &&> { typedef T type; };
template <class T> struct simgen_pointed { typedef T type; };
template <class T> struct simgen_pointed<T *> { typedef T type; };
template <class T> struct simgen_changed { typedef T type; };
template <class T> struct simgen_changed<const T> { typedef T type; };
#define __remove_cv(...) typename simgen_plain<__VA_ARGS__>::type
#define __remove_const(...) typename simgen_changed<__VA_ARGS__>::type
#define __remove_reference_t(...) typename simgen_referred<__VA_ARGS__>::type
#define __remove_pointer(...) typename simgen_pointed<__VA_ARGS__>::type
template <class T>
concept simgen_integral = !__is_class(T) && !__is_enum(T) && requires(T x) { x % x; };
template <class T>
concept simgen_floating = simgen_same<__remove_cv(T), float> || simgen_same<__remove_cv(T), double>;
template <class T> inline constexpr bool simgen_signed = false;
template <class T>
    requires(simgen_integral<T> || simgen_floating<T>)
inline constexpr bool simgen_signed<T> = T(-1) < T(0);
#define __is_integral(...) simgen_integral<__VA_ARGS__>
#define __is_floating_point(...) simgen_floating<__VA_ARGS__>
#define __is_arithmetic(...) (simgen_integral<__VA_ARGS__> || simgen_floating<__VA_ARGS__>)
#define __is_signed(...) simgen_signed<__VA_ARGS__>
#define __is_unsigned(...) (simgen_integral<__VA_ARGS__> && !simgen_signed<__VA_ARGS__>)

/* ---- Atomics of any type: those of the machine where it has them, else by comparison ---- */
template <class T>
static __device__ __forceinline__ bool simgen_compare_swap(T *p, T &old, T wanted)
{
    const auto swap = [&](auto *place) {
        typedef __remove_reference_t(decltype(*place)) W;
        const W had = __builtin_bit_cast(W, old),
                found = atomicCAS(place, had, __builtin_bit_cast(W, wanted));
        old = __builtin_bit_cast(T, found);
        return found == had;
    };
    if constexpr (sizeof(T) == 2)
        return swap(reinterpret_cast<unsigned short *>(p));
    else if constexpr (sizeof(T) == 4)
        return swap(reinterpret_cast<unsigned *>(p));
    else
        return swap(reinterpret_cast<unsigned long long *>(p));
}
template <class T, class F>
static __device__ __forceinline__ T simgen_update(T *p, F next)
{
    T old = *const_cast<volatile T *>(p);
    while (!simgen_compare_swap(p, old, static_cast<T>(next(old)))) {
    }
    return old;
}
template <class T>
static __device__ __forceinline__ T simgen_fetch_add(T *p, T v)
{
    if constexpr (simgen_same<T, float> || simgen_same<T, double>)
        return atomicAdd(p, v);
    else if constexpr (__is_integral(T) && sizeof(T) == 4)
        return static_cast<T>(atomicAdd(reinterpret_cast<unsigned *>(p), static_cast<unsigned>(v)));
    else if constexpr (__is_integral(T) && sizeof(T) == 8)
        return static_cast<T>(atomicAdd(
            reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(v)));
    else
        return simgen_update(p, [=](T old) { return old + v; });
}

/* ---- Lanes ---- */
#define SIMGEN_WARP 32
#define warpSize SIMGEN_WARP
typedef unsigned simgen_lanes;
static __device__ __forceinline__ int simgen_lane_number()
{
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return static_cast<int>(lane);
}
#define __lane_id simgen_lane_number
#define SIMGEN_LANES SIMGEN_WARP
#define SIMGEN_OF_WAVE(x) static_cast<unsigned long>(__ballot(x))
#define SIMGEN_MEET(mask) __syncwarp(static_cast<unsigned>(mask))
template <class T>
static __device__ __forceinline__ T simgen_lane(T v, int from)
{
    const unsigned here = __activemask();
    constexpr unsigned count = (sizeof(T) + 3) / 4;
    int words[count] = {};
    memcpy(words, &v, sizeof(T));
#pragma unroll
    for (unsigned i = 0; i < count; i++)
        words[i] = __shfl_sync(here, words[i], from);
    memcpy(&v, words, sizeof(T));
    return v;
}
#define __ballot simgen_ballot
#define __any simgen_any
#define __all simgen_all
#if SIMGEN_CUDA
static __device__ __forceinline__ unsigned simgen_ballot(int x)
{
    return __ballot_sync(__activemask(), x);
}
#else
static __device__ __forceinline__ unsigned long long simgen_ballot(int x)
{
    return __ballot_sync(__activemask(), x);
}
#endif
#include "lanes.h"

#if !SIMGEN_CUDA
static __device__ __forceinline__ float powif(float x, int y)
{
    return static_cast<float>(pow(static_cast<double>(x), y));
}
#define __builtin_fabsf16(x) __habs(x)
#define __builtin_sqrtf16(x) hsqrt(x)
#define __builtin_fmaf16(a, b, c) __hfma(a, b, c)
/* ---- Instructions of AMD's GPUs, of those whose result does not depend on the lanes of a
 * wavefront ---- */
#define __builtin_amdgcn_workitem_id_x() threadIdx.x
#define __builtin_amdgcn_workitem_id_y() threadIdx.y
#define __builtin_amdgcn_workitem_id_z() threadIdx.z
#define __builtin_amdgcn_workgroup_id_x() blockIdx.x
#define __builtin_amdgcn_workgroup_id_y() blockIdx.y
#define __builtin_amdgcn_workgroup_id_z() blockIdx.z
#define __builtin_amdgcn_workgroup_size_x() blockDim.x
#define __builtin_amdgcn_workgroup_size_y() blockDim.y
#define __builtin_amdgcn_workgroup_size_z() blockDim.z
#define __builtin_amdgcn_grid_size_x() (gridDim.x * blockDim.x)
#define __builtin_amdgcn_s_barrier() __syncthreads()
#define __builtin_amdgcn_wave_barrier() __syncwarp(__activemask())
#define __builtin_amdgcn_fence(order, ...) __threadfence()
#define __builtin_amdgcn_s_waitcnt(what) static_cast<void>(0)
#define __builtin_amdgcn_sched_barrier(what) static_cast<void>(0)
#define __builtin_amdgcn_s_setprio(what) static_cast<void>(0)
#define __builtin_amdgcn_s_sleep(what) static_cast<void>(0)
#define __builtin_amdgcn_rcpf(x) __frcp_rn(x)
#define __builtin_amdgcn_rsqf(x) rsqrtf(x)
#define __builtin_amdgcn_sqrtf(x) __fsqrt_rn(x)
#define __builtin_amdgcn_exp2f(x) exp2f(x)
#define __builtin_amdgcn_logf(x) __log2f(x)
#define __builtin_amdgcn_sinf(x) sinpif(2.0f * (x))
#define __builtin_amdgcn_cosf(x) cospif(2.0f * (x))
#define __builtin_amdgcn_ldexpf(x, by) ldexpf(x, by)
#define __builtin_amdgcn_alignbit(high, low, by) __funnelshift_r(low, high, by)
#define __builtin_amdgcn_alignbyte(high, low, by) __funnelshift_r(low, high, 8 * ((by) & 3))
#define __builtin_amdgcn_sdot4(a, b, c, limited) __dp4a(a, b, c)
#define __builtin_amdgcn_udot4(a, b, c, limited)                                                   \
    __dp4a(static_cast<unsigned>(a), static_cast<unsigned>(b), static_cast<unsigned>(c))
#define __builtin_amdgcn_mbcnt_lo(mask, x)                                                         \
    (static_cast<unsigned>(x) + __popc((mask) & ((1u << simgen_lane_number()) - 1)))
#define __builtin_amdgcn_mbcnt_hi(mask, x) static_cast<unsigned>(x)
#define __builtin_amdgcn_ballot_w64(x) __ballot(x)
#define __builtin_amdgcn_wavefrontsize() SIMGEN_WARP
#define __builtin_amdgcn_readfirstlane(x) __shfl(x, __ffs(static_cast<int>(__activemask())) - 1)
#define __builtin_amdgcn_readlane(x, lane) __shfl(x, lane)
#define __builtin_amdgcn_ds_bpermute(address, x) __shfl(x, (address) >> 2)
#define __builtin_amdgcn_mov_dpp(x, how, rows, banks, bound)                                       \
    simgen_dpp(0, x, how, rows, banks, bound)
#define __builtin_amdgcn_update_dpp simgen_dpp
static __device__ __forceinline__ float __builtin_amdgcn_fractf(float x)
{
    return fminf(x - floorf(x), 0x1.fffffep-1f);
}
static __device__ __forceinline__ float __builtin_amdgcn_fmed3f(float a, float b, float c)
{
    return fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
}
static __device__ __forceinline__ unsigned __builtin_amdgcn_ubfe(
    unsigned x, unsigned from, unsigned bits)
{
    return bits & 31 ? x >> (from & 31) & ((1u << (bits & 31)) - 1) : 0;
}
static __device__ __forceinline__ int __builtin_amdgcn_sbfe(int x, unsigned from, unsigned bits)
{
    const unsigned left = bits & 31;
    return left ? static_cast<int>(static_cast<unsigned>(x >> (from & 31)) << (32 - left))
                      >> (32 - left)
                : 0;
}
static __device__ __forceinline__ unsigned __builtin_amdgcn_perm(
    unsigned high, unsigned low, unsigned which)
{
    unsigned r = 0;
    for (int i = 0; i < 32; i += 8) {
        const unsigned pick = which >> i & 255,
                       part = (pick & 4 ? high : low) >> (8 * (pick & 3)) & 255;
        const unsigned sign = (pick - 8 < 2 ? low : high) >> (pick & 1 ? 31 : 15) & 1 ? 255 : 0;
        r |= (pick < 8 ? part : pick < 12 ? sign : pick == 12 ? 0 : 255) << i;
    }
    return r;
}
/* Among 32 lanes, by the manual's modes: four lanes of any order, or masks of the number's bits. */
static __device__ __forceinline__ int __builtin_amdgcn_ds_swizzle(int x, int how)
{
    const int own = simgen_lane_number();
    if (how & 0x8000)
        return __shfl(x, (own & ~3) | (how >> (2 * (own & 3)) & 3));
    return __shfl(x, (((own & how) | how >> 5) ^ how >> 10) & 31);
}
/* Within rows of 16 lanes: four lanes of any order, shifts, turns, mirrors, one lane; other rows
 * keep `old`. */
static __device__ __forceinline__ int simgen_dpp(
    int old, int x, int how, int rows, int banks, bool bound)
{
    const int own = simgen_lane_number(), in_row = own & 15, by = how & 15;
    int from = in_row;
    if (how < 0x100)
        from = (in_row & ~3) | (how >> (2 * (in_row & 3)) & 3);
    else if (how < 0x110)
        from = in_row + by;
    else if (how < 0x120)
        from = in_row - by;
    else if (how < 0x130)
        from = (in_row - by) & 15;
    else if (how < 0x150)
        from = in_row ^ (how == 0x140 ? 15 : 7);
    else
        from = by;
    const int found = __shfl(x, (own & ~15) | (from & 15));
    if (!(rows >> (own >> 4) & 1) || !(banks >> (in_row >> 2) & 1))
        return old;
    return from >= 0 && from < 16 ? found : bound ? 0 : old;
}
#endif
