/* This CPU. One work-item is a call of the kernel; host_fibers.h sets threadIdx and blockIdx before
 * the call and switches to another work-item at a barrier. */
#define __global__
#define __device__
/* A process runs one work-group at a time and shares nothing but the arena with others, so a static
 * variable is LDS. `used` keeps the compiler from thinking that nobody else touches it. */
#define __shared__ static __attribute__((used))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct simgen_index {
    unsigned x, y, z;
};
inline struct {
    char before[4096]; /* so that a step over the end of LDS does not lead here */
    simgen_index item, group;
} simgen_indices;
#define threadIdx simgen_indices.item
#define blockIdx simgen_indices.group

/* All work-items of a work-group must come to the barrier of the same line. */
extern "C" void simgen_barrier(unsigned line);
#define __syncthreads() simgen_barrier(__LINE__)

template <class Number>
static __device__ __forceinline__ void pin(Number&)
{
}
static __device__ __forceinline__ unsigned opaque(unsigned x) { return x; }
static __device__ __forceinline__ void scheduling_fence() {}

static __device__ __forceinline__ int within_24_bits(int x) { return x; }

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

/* In double precision and without branches, so that a loop over it becomes vector code. The result
 * is within 0.51 ulp of float32, for subnormal results too. */
static __device__ __forceinline__ float fast_exp2(float x)
{
    /* Beyond these the result is inf and 0; a NaN fails both comparisons and passes through. */
    double v = x > 129.0f ? 129.0 : x < -151.0f ? -151.0 : x;
    /* Adding 1.5 * 2^52 leaves v, rounded to a whole number, in the low bits of the sum. */
    const double shifted = v + 0x1.8p52;
    const double f = v - (shifted - 0x1.8p52); /* -0.5 to 0.5 */
    /* Taylor series of exp(f * ln 2): the terms left out are below 2.1e-10 of the result. */
    double p = 0x1.62c0223a5c824p-20;
    p = p * f + 0x1.ffcbfc588b0c7p-17;
    p = p * f + 0x1.430912f86c787p-13;
    p = p * f + 0x1.5d87fe78a6731p-10;
    p = p * f + 0x1.3b2ab6fba4e77p-7;
    p = p * f + 0x1.c6b08d704a0c0p-5;
    p = p * f + 0x1.ebfbdff82c58fp-3;
    p = p * f + 0x1.62e42fefa39efp-1;
    p = p * f + 1.0;
    const unsigned long power = __builtin_bit_cast(unsigned long, shifted) + 1023;
    return static_cast<float>(p * __builtin_bit_cast(double, power << 52));
}

/* Within 0.51 ulp: x = m * 2^e with m from sqrt(1/2) to sqrt(2): near x = 1 nothing cancels. */
static __device__ __forceinline__ float fast_log2(float x)
{
    const double v = x; /* every float32 is a normal double */
    const unsigned long bits = __builtin_bit_cast(unsigned long, v);
    const unsigned long fraction = bits & 0xfffffffffffff;
    const unsigned high = fraction > 0x6a09e667f3bcc; /* m would be above sqrt(2): halve it */
    const int e = static_cast<int>(bits >> 52) - 1023 + static_cast<int>(high);
    const unsigned long one = 1023ul - high;
    const double m = __builtin_bit_cast(double, fraction | one << 52);
    /* ln(m) = 2 artanh(s): the terms left out are below 6e-11 of it. */
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double p = 2.0 / 11;
    p = p * z + 2.0 / 9;
    p = p * z + 2.0 / 7;
    p = p * z + 2.0 / 5;
    p = p * z + 2.0 / 3;
    p = p * z + 2.0;
    float y = static_cast<float>(e + p * s * 0x1.71547652b82fep+0); /* 1 / ln 2 */
    y = x == __builtin_inff() ? x : y;
    y = x == 0.0f ? -__builtin_inff() : y;
    return x >= 0.0f ? y : __builtin_nanf("");
}

static __device__ __forceinline__ float fast_rcp(float x) { return 1.0f / x; }
static __device__ __forceinline__ float fast_sqrt(float x) { return __builtin_elementwise_sqrt(x); }
static __device__ __forceinline__ float fused(float a, float b, float c)
{
    return __builtin_elementwise_fma(a, b, c); /* one instruction: the launcher asks for FMA */
}
static __device__ __forceinline__ float maximum(float a, float b) { return a > b ? a : b; }
static __device__ __forceinline__ float minimum(float a, float b) { return a < b ? a : b; }
static __device__ __forceinline__ unsigned as_uint(float x)
{
    return __builtin_bit_cast(unsigned, x);
}
static __device__ __forceinline__ float as_float(unsigned x)
{
    return __builtin_bit_cast(float, x);
}
