/* clang for AMD GPUs, without ROCm's headers and device library. */
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
/* CUDA's: work-items of a work-group; and, where given, work-groups that a compute unit shall hold,
 * which bounds registers. A compute unit has 4 SIMDs, each of which runs waves of 64. */
#define __launch_bounds__(n, ...)                                                                  \
    __attribute__((amdgpu_flat_work_group_size(n, n)                                               \
            __VA_OPT__(, amdgpu_waves_per_eu(((n) * (__VA_ARGS__) + 255) / 256))))

/* threadIdx and blockIdx: never loaded from anywhere, each member is a register read. */
#define SIMGEN_INDEX(type, read)                                                                   \
    struct type {                                                                                  \
        __device__ __forceinline__ operator unsigned() const { return read(); }                    \
    }
SIMGEN_INDEX(simgen_item_x, __builtin_amdgcn_workitem_id_x);
SIMGEN_INDEX(simgen_group_x, __builtin_amdgcn_workgroup_id_x);
SIMGEN_INDEX(simgen_group_y, __builtin_amdgcn_workgroup_id_y);
SIMGEN_INDEX(simgen_group_z, __builtin_amdgcn_workgroup_id_z);
struct simgen_item {
    simgen_item_x x;
};
struct simgen_group {
    simgen_group_x x;
    simgen_group_y y;
    simgen_group_z z;
};
extern const __device__ __attribute__((weak)) simgen_item threadIdx;
extern const __device__ __attribute__((weak)) simgen_group blockIdx;

static __device__ __forceinline__ void __syncthreads()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/* Instructions stay on their side of scheduling_fence(): loads, stores, and what computes a pinned
 * value. Where an unrolled loop loads from LDS, the compiler would otherwise load everything first,
 * into more registers than there are. */
template <class Number>
static __device__ __forceinline__ void pin(Number& x)
{
    asm volatile("" : "+v"(x));
}
/* x, of which the compiler does not know how small it is: it would compute in 16 bits with it,
 * and rely on what such instructions leave in the upper half of a register. gem5 leaves
 * something else there. */
static __device__ __forceinline__ unsigned opaque(unsigned x)
{
    asm("" : "+v"(x));
    return x;
}
static __device__ __forceinline__ void scheduling_fence()
{
    asm volatile("" ::: "memory");
    __builtin_amdgcn_sched_barrier(0);
}

/* x, of which the compiler knows that it has no more bits: factors of the instruction that
 * multiplies in one step. */
static __device__ __forceinline__ int within_24_bits(int x)
{
    return static_cast<int>(static_cast<unsigned>(x) << 8) >> 8;
}

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};

static __device__ __forceinline__ float fast_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
static __device__ __forceinline__ float fast_log2(float x) { return __builtin_amdgcn_logf(x); }
static __device__ __forceinline__ float fast_rcp(float x) { return __builtin_amdgcn_rcpf(x); }
static __device__ __forceinline__ float fast_sqrt(float x) { return __builtin_amdgcn_sqrtf(x); }
static __device__ __forceinline__ float fused(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
/* One instruction each, which the compiler would not give: fmaxf() adds one to quieten NaNs, and a
 * minimum of a maximum becomes a clamp modifier, which gem5 ignores. */
static __device__ __forceinline__ float maximum(float a, float b)
{
    float c;
    asm("v_max_f32_e32 %0, %1, %2" : "=v"(c) : "v"(a), "v"(b));
    return c;
}
static __device__ __forceinline__ float minimum(float a, float b)
{
    float c;
    asm("v_min_f32_e32 %0, %1, %2" : "=v"(c) : "v"(a), "v"(b));
    return c;
}
static __device__ __forceinline__ unsigned as_uint(float x)
{
    return __builtin_bit_cast(unsigned, x);
}
static __device__ __forceinline__ float as_float(unsigned x)
{
    return __builtin_bit_cast(float, x);
}
