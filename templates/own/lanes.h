/* What lanes of a warp, or of a wavefront, exchange: made of `simgen_lane`, `simgen_lane_number`
 * and `__ballot`, which each machine has. Those of a mask meet first where lanes do not go
 * together by themselves. */
template <class T> static __device__ __forceinline__ T __shfl(
    T v, int from, int width = SIMGEN_WARP)
{
    const int own = simgen_lane_number();
    return simgen_lane(v, (own & -width) | (from & (width - 1)));
}
template <class T> static __device__ __forceinline__ T __shfl_down(
    T v, unsigned by, int width = SIMGEN_WARP)
{
    const int own = simgen_lane_number(), from = own + static_cast<int>(by);
    return simgen_lane(v, (own & (width - 1)) + static_cast<int>(by) < width ? from : own);
}
template <class T> static __device__ __forceinline__ T __shfl_up(
    T v, unsigned by, int width = SIMGEN_WARP)
{
    const int own = simgen_lane_number(), from = own - static_cast<int>(by);
    return simgen_lane(v, from >= (own & -width) ? from : own);
}
template <class T> static __device__ __forceinline__ T __shfl_xor(
    T v, int mask, int width = SIMGEN_WARP)
{
    const int own = simgen_lane_number(), from = own ^ mask;
    return simgen_lane(v, from < (own & -width) + width ? from : own);
}
static __device__ __forceinline__ int __any(int x) { return __ballot(x) != 0; }
static __device__ __forceinline__ int __all(int x) { return __ballot(!x) == 0; }
#ifndef SIMGEN_NVIDIA
static __device__ __forceinline__ simgen_lanes __activemask() { return __ballot(1); }
#endif

/* Those that say which lanes take part: a mask of a warp of CUDA has 32 bits, one of a wavefront
 * 64. */
template <class M> concept simgen_mask = SIMGEN_WARP == 32 || sizeof(M) == 8;
template <simgen_mask M, class T> static __device__ __forceinline__ T __shfl_sync(
    M here, T v, int from, int width = SIMGEN_WARP)
{
    SIMGEN_MEET(here);
    return __shfl(v, from, width);
}
template <simgen_mask M, class T> static __device__ __forceinline__ T __shfl_down_sync(
    M here, T v, unsigned by, int width = SIMGEN_WARP)
{
    SIMGEN_MEET(here);
    return __shfl_down(v, by, width);
}
template <simgen_mask M, class T> static __device__ __forceinline__ T __shfl_up_sync(
    M here, T v, unsigned by, int width = SIMGEN_WARP)
{
    SIMGEN_MEET(here);
    return __shfl_up(v, by, width);
}
template <simgen_mask M, class T> static __device__ __forceinline__ T __shfl_xor_sync(
    M here, T v, int mask, int width = SIMGEN_WARP)
{
    SIMGEN_MEET(here);
    return __shfl_xor(v, mask, width);
}
template <simgen_mask M> static __device__ __forceinline__ simgen_lanes __ballot_sync(M mask, int x)
{
    SIMGEN_MEET(mask);
    return __ballot(x) & static_cast<simgen_lanes>(mask);
}
template <simgen_mask M> static __device__ __forceinline__ int __any_sync(M mask, int x)
{
    return __ballot_sync(mask, x) != 0;
}
template <simgen_mask M> static __device__ __forceinline__ int __all_sync(M mask, int x)
{
    return __ballot_sync(mask, !x) == 0;
}
/* The lanes of the tile of so many in which this one is. */
static __device__ __forceinline__ simgen_lanes simgen_tile(unsigned n)
{
    return n >= SIMGEN_WARP ? static_cast<simgen_lanes>(~0ul)
                            : ((static_cast<simgen_lanes>(1) << n) - 1)
                                  << (static_cast<unsigned>(__lane_id()) & ~(n - 1));
}
template <simgen_mask M, class T> static __device__ __forceinline__ simgen_lanes __match_any_sync(
    M mask, T v)
{
    SIMGEN_MEET(mask);
    simgen_lanes same = 0;
    for (int lane = 0; lane < SIMGEN_WARP; lane++)
        same |= static_cast<simgen_lanes>(__shfl(v, lane) == v) << lane;
    return same & __activemask() & static_cast<simgen_lanes>(mask);
}
template <simgen_mask M, class T> static __device__ __forceinline__ simgen_lanes __match_all_sync(
    M mask, T v, int* all)
{
    const simgen_lanes own = __activemask() & static_cast<simgen_lanes>(mask);
    *all = __match_any_sync(mask, v) == own;
    return *all ? own : 0;
}
/* Over those of a mask that are here; of a whole warp by halves. */
template <class T, class F> static __device__ __forceinline__ T simgen_over_lanes(
    simgen_lanes mask, T v, F f)
{
    simgen_lanes left = mask & __activemask();
    if (left == static_cast<simgen_lanes>(~0ul)) {
        for (int by = SIMGEN_WARP / 2; by > 0; by /= 2)
            v = f(v, __shfl_xor(v, by));
        return v;
    }
    T r = __shfl(v, __builtin_ctzl(left));
    while (left &= left - 1)
        r = f(r, __shfl(v, __builtin_ctzl(left)));
    return r;
}
#define SIMGEN_REDUCE(name, value)                                                                 \
    template <simgen_mask M, class T> static __device__ __forceinline__ T __reduce_##name##_sync(  \
        M mask, T v)                                                                               \
    {                                                                                              \
        SIMGEN_MEET(mask);                                                                         \
        return simgen_over_lanes(                                                                  \
            static_cast<simgen_lanes>(mask), v, [](T a, T b) { return static_cast<T>(value); });   \
    }
SIMGEN_REDUCE(add, a + b)
SIMGEN_REDUCE(min, a < b ? a : b)
SIMGEN_REDUCE(max, a > b ? a : b)
SIMGEN_REDUCE(and, a & b)
SIMGEN_REDUCE(or, a | b)
SIMGEN_REDUCE(xor, a ^ b)
