/* The same on every machine. */

/* |x| by the sign bit: a modifier on a compare instruction would be ignored by gem5. */
static __device__ __forceinline__ float absolute(float x)
{
    return as_float(as_uint(x) & 0x7fffffffu);
}

/* a + b and a b + c, of what sums are made of: those of integers wrap around. Integer factors
 * have 24 bits at most. */
static __device__ __forceinline__ float plus(float a, float b) { return a + b; }
static __device__ __forceinline__ int plus(int a, int b)
{
    return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
}
/* value + factor x, of any x; of integers, the factor is 1. */
static __device__ __forceinline__ float plus_multiple(float value, float factor, float x)
{
    return fused(factor, x, value);
}
static __device__ __forceinline__ int plus_multiple(int value, float, int x)
{
    return plus(value, x);
}
static __device__ __forceinline__ int fused(int a, int b, int c)
{
    return plus(within_24_bits(a) * within_24_bits(b), c);
}

/* Element `at` of a tensor. */
static __device__ __forceinline__ float load(const float* tensor, unsigned at)
{
    return tensor[at];
}
static __device__ __forceinline__ void store(float* tensor, unsigned at, float value)
{
    tensor[at] = value;
}
static __device__ __forceinline__ int load(const int* tensor, unsigned at) { return tensor[at]; }
static __device__ __forceinline__ void store(int* tensor, unsigned at, int value)
{
    tensor[at] = value;
}

/* 4 neighbours in memory, in one access: their place is a multiple of 4 elements. */
static __device__ __forceinline__ const float4& load4(const float* from)
{
    return *reinterpret_cast<const float4*>(from);
}
static __device__ __forceinline__ void store4(float* to, const float4& value)
{
    *reinterpret_cast<float4*>(to) = value;
}
static __device__ __forceinline__ void store4(int* to, const int4& value)
{
    *reinterpret_cast<int4*>(to) = value;
}
/* The same of numbers that were loaded, or are 0: of narrow types, nothing is rounded
 * (elements.h). */
static __device__ __forceinline__ void keep4(float* to, const float4& value) { store4(to, value); }
/* Whether 4 elements of a tensor move together: narrow ones do if the first is in it. */
template <class T>
static __device__ __forceinline__ bool together(unsigned at, unsigned size)
{
    return sizeof(T) < 4 ? at < size : at + 4 <= size;
}
