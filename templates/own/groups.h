/* Cooperative groups of a work-group, and tiles of its wavefronts. */
namespace cooperative_groups {
struct thread_block {
    __device__ static void sync() { __syncthreads(); }
    __device__ static unsigned thread_rank() { return simgen_item_number(); }
    __device__ static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    __device__ static unsigned num_threads() { return size(); }
    __device__ static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    __device__ static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    __device__ static dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
    __device__ static dim3 dim_threads() { return group_dim(); }
};
static inline __device__ thread_block this_thread_block() { return {}; }
template <class G> static inline __device__ void sync(const G &group) { group.sync(); }
template <class G, class F, class... A> static inline __device__ void invoke_one(
    const G& group, F&& f, A&&... a)
{
    if (group.thread_rank() == 0)
        f(a...);
}
/* Copies that a simulator does at once. */
template <class G, class T> static inline __device__ void memcpy_async(
    const G& group, T* to, const T* from, unsigned long bytes)
{
    for (unsigned long i = group.thread_rank(); i < bytes / sizeof(T); i += group.size())
        to[i] = from[i];
}
template <class G> static inline __device__ void wait(const G &group) { group.sync(); }
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
/* What groups of lanes make of shuffles and ballots. */
template <class G> struct simgen_votes {
    __device__ const G &group() const { return static_cast<const G &>(*this); }
    __device__ int any(int x) const { return group().ballot(x) != 0; }
    __device__ int all(int x) const { return group().ballot(!x) == 0; }
    template <class T> __device__ simgen_lanes match_any(T v) const
    {
        simgen_lanes same = 0;
        for (unsigned i = 0; i < group().size(); i++)
            same |= static_cast<simgen_lanes>(group().shfl(v, static_cast<int>(i)) == v) << i;
        return same & group().ballot(1);
    }
    template <class T> __device__ simgen_lanes match_all(T v, int &all) const
    {
        const simgen_lanes here = group().ballot(1);
        all = match_any(v) == here;
        return all ? here : 0;
    }
};
template <unsigned n, class Parent = void> struct thread_block_tile
    : simgen_votes<thread_block_tile<n, Parent>> {
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
    __device__ simgen_lanes ballot(int x) const
    {
        const unsigned first = simgen_lane_number() & ~(n - 1);
        SIMGEN_MEET(simgen_tile(n));
        return static_cast<simgen_lanes>(
            SIMGEN_OF_WAVE(x != 0) >> first & (n == 64 ? ~0ul : (1ul << (n & 63)) - 1));
    }
    __device__ unsigned long simgen_members() const
    {
        return SIMGEN_OF_WAVE(true)
               & (n == 64 ? ~0ul : ((1ul << (n & 63)) - 1) << (simgen_lane_number() & ~(n - 1)));
    }
};
static inline __device__ thread_block_tile<1> this_thread() { return {}; }
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
template <class G> concept simgen_lane_group = requires(const G &group) { group.simgen_members(); };
template <simgen_lane_group G, class T, class F = plus<T>> static inline __device__ T
inclusive_scan(const G& group, T v, F f = {})
{
    for (unsigned by = 1; by < group.size(); by *= 2) {
        const T before = group.shfl_up(v, by);
        if (group.thread_rank() >= by)
            v = f(before, v);
    }
    return v;
}
template <simgen_lane_group G, class T, class F = plus<T>> static inline __device__ T
exclusive_scan(const G& group, T v, F f = {})
{
    v = group.shfl_up(inclusive_scan(group, v, f), 1);
    return group.thread_rank() ? v : T();
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
struct coalesced_group : simgen_votes<coalesced_group> {
    unsigned long members;
    __device__ explicit coalesced_group(unsigned long lanes) : members(lanes) {}
    __device__ void sync() const { __syncwarp(members); }
    __device__ unsigned size() const { return static_cast<unsigned>(__builtin_popcountl(members)); }
    __device__ unsigned num_threads() const { return size(); }
    __device__ unsigned thread_rank() const
    {
        return static_cast<unsigned>(
            __builtin_popcountl(members & ((1ul << simgen_lane_number()) - 1)));
    }
    __device__ unsigned long simgen_members() const { return members; }
    __device__ simgen_lanes ballot(int x) const
    {
        const unsigned long lanes = SIMGEN_OF_WAVE(x != 0);
        simgen_lanes r = 0;
        unsigned at = 0;
        for (unsigned long left = members; left; left &= left - 1)
            r |= static_cast<simgen_lanes>(lanes >> __builtin_ctzl(left) & 1) << at++;
        return r;
    }
    template <class T> __device__ T shfl(T v, int from) const
    {
        unsigned long left = members;
        for (; from > 0; from--)
            left &= left - 1;
        return simgen_lane(v, left ? static_cast<int>(__builtin_ctzl(left)) : simgen_lane_number());
    }
    template <class T> __device__ T shfl_down(T v, unsigned by) const
    {
        return shfl(
            v, static_cast<int>(thread_rank() + by < size() ? thread_rank() + by : thread_rank()));
    }
    template <class T> __device__ T shfl_up(T v, unsigned by) const
    {
        return shfl(v, static_cast<int>(thread_rank() >= by ? thread_rank() - by : thread_rank()));
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
    return coalesced_group(SIMGEN_OF_WAVE(true) & own);
}
/* The members of a group that have the same label, or answer. */
template <simgen_lane_group G, class T> static inline __device__ coalesced_group labeled_partition(
    const G& group, T label)
{
    unsigned long same = 0;
    for (unsigned long left = group.simgen_members(); left; left &= left - 1)
        same |= static_cast<unsigned long>(
                    simgen_lane(label, static_cast<int>(__builtin_ctzl(left))) == label)
                << __builtin_ctzl(left);
    return coalesced_group(same);
}
template <simgen_lane_group G> static inline __device__ coalesced_group binary_partition(
    const G& group, bool answer)
{
    const unsigned long yes = SIMGEN_OF_WAVE(answer);
    return coalesced_group(group.simgen_members() & (answer ? yes : ~yes));
}
#endif
}
