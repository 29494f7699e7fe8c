/* Cooperative groups of a work-group, and tiles of its wavefronts. */
namespace cooperative_groups {
struct thread_block {
    __device__ void sync() const { __syncthreads(); }
    __device__ unsigned thread_rank() const { return simgen_item_number(); }
    __device__ unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
    __device__ unsigned num_threads() const { return size(); }
    __device__ dim3 group_index() const { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    __device__ dim3 thread_index() const { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    __device__ dim3 group_dim() const { return dim3(blockDim.x, blockDim.y, blockDim.z); }
    __device__ dim3 dim_threads() const { return group_dim(); }
};
static inline __device__ thread_block this_thread_block() { return {}; }
template <class G> static inline __device__ void sync(const G &group) { group.sync(); }
template <class T> struct plus { __device__ T operator()(T a, T b) const { return a + b; } };
template <class T> struct less {
    __device__ T operator()(T a, T b) const { return a < b ? a : b; }
};
template <class T> struct greater {
    __device__ T operator()(T a, T b) const { return a > b ? a : b; }
};
template <class T> struct bit_and { __device__ T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_xor { __device__ T operator()(T a, T b) const { return a ^ b; } };
template <class T> struct bit_or { __device__ T operator()(T a, T b) const { return a | b; } };
#ifndef SIMGEN_HOST
template <unsigned n, class Parent = void> struct thread_block_tile {
    static_assert(n <= 64 && (n & (n - 1)) == 0, "a tile has 1 to 64 work-items, a power of two");
    thread_block_tile() = default;
    template <class P> __device__ thread_block_tile(const thread_block_tile<n, P> &) {}
    __device__ void sync() const { __syncwarp(simgen_tile(n)); }
    __device__ unsigned thread_rank() const { return simgen_item_number() & (n - 1); }
    __device__ static constexpr unsigned size() { return n; }
    __device__ static constexpr unsigned num_threads() { return n; }
    __device__ unsigned meta_group_rank() const { return simgen_item_number() / n; }
    __device__ unsigned meta_group_size() const { return (this_thread_block().size() + n - 1) / n; }
    template <class T> __device__ T shfl(T v, int from) const
    {
        return __shfl_sync(simgen_tile(n), v, from, n);
    }
    template <class T> __device__ T shfl_down(T v, unsigned by) const
    {
        return __shfl_down_sync(simgen_tile(n), v, by, n);
    }
    template <class T> __device__ T shfl_up(T v, unsigned by) const
    {
        return __shfl_up_sync(simgen_tile(n), v, by, n);
    }
    template <class T> __device__ T shfl_xor(T v, int mask) const
    {
        return __shfl_xor_sync(simgen_tile(n), v, mask, n);
    }
    __device__ unsigned long ballot(int x) const
    {
        const unsigned first = simgen_lane_number() & ~(n - 1);
        SIMGEN_MEET(simgen_tile(n));
        return SIMGEN_OF_WAVE(x != 0) >> first & (n == 64 ? ~0ul : (1ul << (n & 63)) - 1);
    }
    __device__ int any(int x) const { return ballot(x) != 0; }
    __device__ int all(int x) const { return ballot(!x) == 0; }
};
template <unsigned n, class P> static inline __device__ thread_block_tile<n, P> tiled_partition(
    const P&)
{
    return {};
}
template <unsigned n, class T, class P, class F> static inline __device__ T reduce(
    const thread_block_tile<n, P>& group, T v, F f)
{
    for (int by = n / 2; by > 0; by /= 2)
        v = f(v, group.shfl_xor(v, by));
    return v;
}
template <unsigned n, class T, class P, class F> static inline __device__ T inclusive_scan(
    const thread_block_tile<n, P>& group, T v, F f)
{
    for (unsigned by = 1; by < n; by *= 2) {
        const T before = group.shfl_up(v, by);
        if (group.thread_rank() >= by)
            v = f(before, v);
    }
    return v;
}
template <unsigned n, class T, class P, class F> static inline __device__ T exclusive_scan(
    const thread_block_tile<n, P>& group, T v, F f)
{
    v = group.shfl_up(inclusive_scan(group, v, f), 1);
    return group.thread_rank() ? v : T();
}
template <unsigned n, class T, class P> static inline __device__ T inclusive_scan(
    const thread_block_tile<n, P>& group, T v)
{
    return inclusive_scan(group, v, plus<T>());
}
template <unsigned n, class T, class P> static inline __device__ T exclusive_scan(
    const thread_block_tile<n, P>& group, T v)
{
    return exclusive_scan(group, v, plus<T>());
}
/* Of a size that is known when it runs: 0 is a whole work-group. */
struct thread_group {
    unsigned tile;
    __device__ thread_group(unsigned n) : tile(n) {}
    __device__ thread_group(const thread_block &) : tile(0) {}
    template <unsigned n, class P> __device__ thread_group(const thread_block_tile<n, P>&) : tile(n)
    {
    }
    __device__ void sync() const
    {
        if (tile)
            __syncwarp(simgen_tile(tile));
        else
            __syncthreads();
    }
    __device__ unsigned size() const { return tile ? tile : this_thread_block().size(); }
    __device__ unsigned num_threads() const { return size(); }
    __device__ unsigned thread_rank() const
    {
        return tile ? simgen_item_number() & (tile - 1) : simgen_item_number();
    }
    template <class T> __device__ T shfl(T v, int from) const
    {
        return __shfl_sync(simgen_tile(tile), v, from, static_cast<int>(tile));
    }
    template <class T> __device__ T shfl_down(T v, unsigned by) const
    {
        return __shfl_down_sync(simgen_tile(tile), v, by, static_cast<int>(tile));
    }
};
template <class P> static inline __device__ thread_group tiled_partition(const P&, unsigned n)
{
    return thread_group(n);
}
/* The work-items of a wavefront, or of a warp, that are here now. */
struct coalesced_group {
    unsigned long members;
    __device__ void sync() const { __syncwarp(members); }
    __device__ unsigned size() const { return static_cast<unsigned>(__builtin_popcountl(members)); }
    __device__ unsigned num_threads() const { return size(); }
    __device__ unsigned thread_rank() const
    {
        return static_cast<unsigned>(
            __builtin_popcountl(members & ((1ul << simgen_lane_number()) - 1)));
    }
    template <class T> __device__ T shfl(T v, int from) const
    {
        unsigned long left = members;
        for (; from > 0; from--)
            left &= left - 1;
        return simgen_lane(v, static_cast<int>(__builtin_ctzl(left)));
    }
};
template <class T, class F> static inline __device__ T reduce(
    const coalesced_group& group, T v, F f)
{
    T r = group.shfl(v, 0);
    for (unsigned i = 1; i < group.size(); i++)
        r = f(r, group.shfl(v, static_cast<int>(i)));
    return r;
}
static inline __device__ coalesced_group coalesced_threads()
{
    const unsigned long own =
        SIMGEN_LANES == SIMGEN_WARP ? ~0ul : 0xfffffffful << (simgen_lane_number() & 32);
    return { SIMGEN_OF_WAVE(true) & own };
}
#endif
}
