/* This CPU. The prelude has the rest; a wavefront there is none, so lanes exchange nothing. */
#define SIMGEN_HOST 1
#define __host__
#define __constant__
#define __managed__
/* Attributes of GPUs' kernels, which a CPU's functions cannot have; launches were checked
 * against them. */
#define amdgpu_flat_work_group_size(...)
#define amdgpu_waves_per_eu(...)
#define amdgpu_num_vgpr(...)
#define amdgpu_num_sgpr(...)
#define amdgpu_max_num_work_groups(...)
inline simgen_index simgen_block, simgen_grid; /* host_kernels.cpp sets them */
#define blockDim simgen_block
#define gridDim simgen_grid
template <class T> concept simgen_is_index = __is_same(T, simgen_index);
/* LDS that launches ask for, behind `extern __shared__`. */
#define SIMGEN_DYNAMIC_LDS(type, name)                                                             \
    type* const name = reinterpret_cast<type*>(simgen_dynamic_lds)
#define HIP_DYNAMIC_SHARED(type, name) SIMGEN_DYNAMIC_LDS(type, name);
/* Tensors that variables of the whole GPU stand for, of the launch that runs. */
inline void *simgen_variables[6];
static inline void *simgen_variable(unsigned at) { return simgen_variables[at]; }
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() {}

/* What clang calls for fused multiply-adds of halves, and nothing here is linked with: to odd in
 * float32, and then rounded. */
extern "C" __attribute__((weak, used)) _Float16 __truncdfhf2(double x)
{
    const float near = static_cast<float>(x);
    unsigned bits = __builtin_bit_cast(unsigned, near);
    if (near != x && x == x && !(bits & 1))
        bits += __builtin_fabs(x) > __builtin_fabs(static_cast<double>(near)) ? 1 : -1;
    return static_cast<_Float16>(__builtin_bit_cast(float, bits));
}

static inline float simgen_exp2(float x) { return fast_exp2(x); }
static inline float simgen_log2(float x) { return fast_log2(x); }
static inline double simgen_rcp(double x) { return 1.0 / x; }
static inline float simgen_rsq(float x)
{
    return static_cast<float>(1.0 / __builtin_elementwise_sqrt(static_cast<double>(x)));
}
/* Work-groups are in several processes, which share the arena. */
template <class T>
static inline bool simgen_compare_swap(T *p, T &old, T wanted)
{
    return __atomic_compare_exchange(p, &old, &wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
template <class T, class F>
static inline T simgen_update(T *p, F next)
{
    T old;
    __atomic_load(p, &old, __ATOMIC_RELAXED);
    while (!simgen_compare_swap(p, old, static_cast<T>(next(old)))) {
    }
    return old;
}
template <class T>
static inline T simgen_fetch_add(T *p, T v)
{
    return simgen_update(p, [=](T old) { return static_cast<T>(old + v); });
}
