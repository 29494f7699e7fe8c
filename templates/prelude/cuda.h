/* NVIDIA's compilers. NVRTC has the language's names built in, float4 too. */
/* ptxas counts registers itself. */
template <class Number>
static __device__ __forceinline__ void pin(Number&)
{
}
static __device__ __forceinline__ unsigned opaque(unsigned x) { return x; }
static __device__ __forceinline__ void scheduling_fence() {}

static __device__ __forceinline__ float fast_exp2(float x)
{
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static __device__ __forceinline__ float fast_log2(float x)
{
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static __device__ __forceinline__ float fast_rcp(float x)
{
    float y;
    asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static __device__ __forceinline__ float fast_sqrt(float x)
{
    float y;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static __device__ __forceinline__ int within_24_bits(int x) { return x; }
static __device__ __forceinline__ float fused(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}
static __device__ __forceinline__ float maximum(float a, float b) { return fmaxf(a, b); }
static __device__ __forceinline__ float minimum(float a, float b) { return fminf(a, b); }
static __device__ __forceinline__ unsigned as_uint(float x) { return __float_as_uint(x); }
static __device__ __forceinline__ float as_float(unsigned x) { return __uint_as_float(x); }
