/* Names that NVIDIA's compilers have built in, for clang, which makes PTX of a kernel without
 * NVIDIA's headers. Stands before the kernel's text, and has the prelude take the branch of
 * those compilers. */
#define __CUDACC__ 1
/* Simulators read no instruction that later architectures have. */
#if __CUDA_ARCH__ > 750
#undef __CUDA_ARCH__
#define __CUDA_ARCH__ 750
#endif
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ inline __attribute__((always_inline))
/* Work-items of a work-group. How many work-groups a multiprocessor shall hold bounds the registers
 * that ptxas gives, which PTX has without bound. */
#define __launch_bounds__(n, ...) __attribute__((launch_bounds(n)))

/* threadIdx, blockIdx and gridDim: never loaded from anywhere, each member is a register read. */
#define SIMGEN_INDEX(type, read)                                                                   \
    struct type {                                                                                  \
        __device__ __forceinline__ operator unsigned() const                                       \
        {                                                                                          \
            return static_cast<unsigned>(read());                                                  \
        }                                                                                          \
    }
SIMGEN_INDEX(simgen_item_x, __nvvm_read_ptx_sreg_tid_x);
SIMGEN_INDEX(simgen_group_x, __nvvm_read_ptx_sreg_ctaid_x);
SIMGEN_INDEX(simgen_group_y, __nvvm_read_ptx_sreg_ctaid_y);
SIMGEN_INDEX(simgen_group_z, __nvvm_read_ptx_sreg_ctaid_z);
SIMGEN_INDEX(simgen_groups_x, __nvvm_read_ptx_sreg_nctaid_x);
SIMGEN_INDEX(simgen_groups_y, __nvvm_read_ptx_sreg_nctaid_y);
SIMGEN_INDEX(simgen_groups_z, __nvvm_read_ptx_sreg_nctaid_z);
struct simgen_item {
    simgen_item_x x;
};
struct simgen_group {
    simgen_group_x x;
    simgen_group_y y;
    simgen_group_z z;
};
struct simgen_groups {
    simgen_groups_x x;
    simgen_groups_y y;
    simgen_groups_z z;
};
extern const __device__ __attribute__((weak)) simgen_item threadIdx;
extern const __device__ __attribute__((weak)) simgen_group blockIdx;
extern const __device__ __attribute__((weak)) simgen_groups gridDim;

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

static __device__ __forceinline__ float __fmaf_rn(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
static __device__ __forceinline__ float fabsf(float x) { return __builtin_fabsf(x); }
static __device__ __forceinline__ float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
static __device__ __forceinline__ float fminf(float a, float b) { return __builtin_fminf(a, b); }
static __device__ __forceinline__ unsigned __float_as_uint(float x)
{
    return __builtin_bit_cast(unsigned, x);
}
static __device__ __forceinline__ float __uint_as_float(unsigned x)
{
    return __builtin_bit_cast(float, x);
}
static __device__ __forceinline__ unsigned long __cvta_generic_to_shared(const void* at)
{
    return reinterpret_cast<unsigned long>((const __attribute__((address_space(3))) void*)at);
}
static __device__ __forceinline__ void __syncwarp() { __nvvm_bar_warp_sync(~0u); }

