/* Floats of 16 bits. Sums and products are rounded once: of binary16 by the machine, of bfloat16 from
 * float32, to the nearest, ties to even. */
typedef _Float16 half;
typedef _Float16 __half;
typedef _Float16 half2 __attribute__((ext_vector_type(2)));
typedef half2 __half2;
static inline __device__ half __float2half(float x) { return static_cast<half>(x); }
#define __float2half_rn __float2half
static inline __device__ float __half2float(half x) { return static_cast<float>(x); }
static inline __device__ half __int2half_rn(int x) { return static_cast<half>(static_cast<float>(x)); }
static inline __device__ unsigned short __half_as_ushort(half x) { return __builtin_bit_cast(unsigned short, x); }
static inline __device__ half __ushort_as_half(unsigned short x) { return __builtin_bit_cast(half, x); }
static inline __device__ half2 __floats2half2_rn(float a, float b) { return half2{ static_cast<half>(a), static_cast<half>(b) }; }
static inline __device__ half2 __float2half2_rn(float a) { return __floats2half2_rn(a, a); }
static inline __device__ half2 __float22half2_rn(float2 a) { return __floats2half2_rn(a.x, a.y); }
static inline __device__ float2 __half22float2(half2 a) { return float2(static_cast<float>(a.x), static_cast<float>(a.y)); }
static inline __device__ half2 __halves2half2(half a, half b) { return half2{ a, b }; }
static inline __device__ half2 __half2half2(half a) { return half2{ a, a }; }
static inline __device__ half2 make_half2(half a, half b) { return half2{ a, b }; }
static inline __device__ half __low2half(half2 a) { return a.x; }
static inline __device__ half __high2half(half2 a) { return a.y; }
static inline __device__ float __low2float(half2 a) { return static_cast<float>(a.x); }
static inline __device__ float __high2float(half2 a) { return static_cast<float>(a.y); }
static inline __device__ half __hadd(half a, half b) { return a + b; }
static inline __device__ half __hsub(half a, half b) { return a - b; }
static inline __device__ half __hmul(half a, half b) { return a * b; }
static inline __device__ half __hdiv(half a, half b) { return static_cast<half>(static_cast<float>(a) / static_cast<float>(b)); }
static inline __device__ half __hneg(half a) { return -a; }
static inline __device__ half __hfma(half a, half b, half c) { return __builtin_elementwise_fma(a, b, c); }
static inline __device__ half __hmax(half a, half b) { return a > b ? a : b; }
static inline __device__ half __hmin(half a, half b) { return a < b ? a : b; }
static inline __device__ bool __hgt(half a, half b) { return a > b; }
static inline __device__ bool __hge(half a, half b) { return a >= b; }
static inline __device__ bool __hlt(half a, half b) { return a < b; }
static inline __device__ bool __hle(half a, half b) { return a <= b; }
static inline __device__ bool __heq(half a, half b) { return a == b; }
static inline __device__ half2 __hadd2(half2 a, half2 b) { return a + b; }
static inline __device__ half2 __hsub2(half2 a, half2 b) { return a - b; }
static inline __device__ half2 __hmul2(half2 a, half2 b) { return a * b; }
static inline __device__ half2 __hfma2(half2 a, half2 b, half2 c) { return __builtin_elementwise_fma(a, b, c); }
static inline __device__ half hexp(half a) { return static_cast<half>(expf(static_cast<float>(a))); }
static inline __device__ half hlog(half a) { return static_cast<half>(logf(static_cast<float>(a))); }
static inline __device__ half hsqrt(half a) { return static_cast<half>(sqrtf(static_cast<float>(a))); }
static inline __device__ half hrcp(half a) { return static_cast<half>(1.0f / static_cast<float>(a)); }

struct __nv_bfloat16_raw {
    unsigned short x;
};
typedef __nv_bfloat16_raw __hip_bfloat16_raw;
struct alignas(2) simgen_bfloat16 {
    unsigned short bits;
    simgen_bfloat16() = default;
    __device__ simgen_bfloat16(__nv_bfloat16_raw of) : bits(of.x) {}
    __device__ simgen_bfloat16(float x)
    {
        const unsigned word = __builtin_bit_cast(unsigned, x);
        bits = static_cast<unsigned short>(x != x ? word >> 16 | 64 : (word + 0x7fff + (word >> 16 & 1)) >> 16);
    }
    __device__ operator float() const { return __builtin_bit_cast(float, static_cast<unsigned>(bits) << 16); }
    __device__ simgen_bfloat16 &operator+=(float x) { return *this = static_cast<float>(*this) + x; }
    __device__ simgen_bfloat16 &operator-=(float x) { return *this = static_cast<float>(*this) - x; }
    __device__ simgen_bfloat16 &operator*=(float x) { return *this = static_cast<float>(*this) * x; }
};
typedef simgen_bfloat16 __nv_bfloat16;
typedef simgen_bfloat16 __hip_bfloat16;
typedef simgen_bfloat16 hip_bfloat16;
typedef simgen_bfloat16 nv_bfloat16;
struct alignas(4) simgen_bfloat162 {
    simgen_bfloat16 x, y;
};
typedef simgen_bfloat162 __nv_bfloat162;
typedef simgen_bfloat162 __hip_bfloat162;
static inline __device__ simgen_bfloat16 __float2bfloat16(float x) { return x; }
#define __float2bfloat16_rn __float2bfloat16
static inline __device__ float __bfloat162float(simgen_bfloat16 x) { return x; }
static inline __device__ float2 __bfloat1622float2(simgen_bfloat162 a) { return float2(a.x, a.y); }
static inline __device__ simgen_bfloat162 __floats2bfloat162_rn(float a, float b) { return { a, b }; }
static inline __device__ simgen_bfloat162 __float22bfloat162_rn(float2 a) { return { a.x, a.y }; }
static inline __device__ simgen_bfloat16 __hadd(simgen_bfloat16 a, simgen_bfloat16 b) { return static_cast<float>(a) + static_cast<float>(b); }
static inline __device__ simgen_bfloat16 __hmul(simgen_bfloat16 a, simgen_bfloat16 b) { return static_cast<float>(a) * static_cast<float>(b); }
static inline __device__ unsigned short __bfloat16_as_ushort(simgen_bfloat16 a) { return a.bits; }
static inline __device__ simgen_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16_raw{ bits }; }
