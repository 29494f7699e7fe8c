/* OpenCL C for AMD GPUs without ROCm's device library: types, work-items and groups, barriers, atomics
 * and the functions that clang makes instructions of. What is not here, a source cannot use. */
#define SIMGEN_VECTORS(type, name)                                          \
    typedef type name##2 __attribute__((ext_vector_type(2)));               \
    typedef type name##3 __attribute__((ext_vector_type(3)));               \
    typedef type name##4 __attribute__((ext_vector_type(4)));               \
    typedef type name##8 __attribute__((ext_vector_type(8)));               \
    typedef type name##16 __attribute__((ext_vector_type(16)));
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
SIMGEN_VECTORS(char, char) SIMGEN_VECTORS(uchar, uchar) SIMGEN_VECTORS(short, short) SIMGEN_VECTORS(ushort, ushort)
SIMGEN_VECTORS(int, int) SIMGEN_VECTORS(uint, uint) SIMGEN_VECTORS(long, long) SIMGEN_VECTORS(ulong, ulong)
SIMGEN_VECTORS(float, float) SIMGEN_VECTORS(double, double)

#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2u + 1)
#define MAXFLOAT __FLT_MAX__
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define M_PI 3.14159265358979323846
#define M_PI_F 3.14159274101257f
#define NULL ((void *)0)
#define OVERLOADED static inline __attribute__((overloadable, always_inline))
#define INLINED static inline __attribute__((always_inline))

/* What the launcher leaves behind the arguments (LLVM, "User Guide for AMDGPU Backend", Code Object V5). */
INLINED uint simgen_hidden(uint at) { return ((__constant uint *)__builtin_amdgcn_implicitarg_ptr())[at]; }
INLINED uint get_work_dim(void) { return simgen_hidden(16) & 0xffff; }
INLINED size_t get_local_id(uint d)
{
    return d == 0 ? __builtin_amdgcn_workitem_id_x() : d == 1 ? __builtin_amdgcn_workitem_id_y()
         : d == 2 ? __builtin_amdgcn_workitem_id_z() : 0;
}
INLINED size_t get_group_id(uint d)
{
    return d == 0 ? __builtin_amdgcn_workgroup_id_x() : d == 1 ? __builtin_amdgcn_workgroup_id_y()
         : d == 2 ? __builtin_amdgcn_workgroup_id_z() : 0;
}
INLINED size_t get_local_size(uint d)
{
    return d == 0 ? simgen_hidden(3) & 0xffff : d == 1 ? simgen_hidden(3) >> 16 : d == 2 ? simgen_hidden(4) & 0xffff : 1;
}
INLINED size_t get_num_groups(uint d) { return d < 3 ? simgen_hidden(d) : 1; }
INLINED size_t get_global_offset(uint d) { return 0; }
INLINED size_t get_global_id(uint d) { return (uint)get_group_id(d) * (uint)get_local_size(d) + (uint)get_local_id(d); }
INLINED size_t get_global_size(uint d) { return (uint)get_num_groups(d) * (uint)get_local_size(d); }

INLINED void mem_fence(uint flags)
{
    if (flags & CLK_GLOBAL_MEM_FENCE)
        __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent");
    else
        __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "workgroup");
}
#define read_mem_fence mem_fence
#define write_mem_fence mem_fence
INLINED void barrier(uint flags)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#define work_group_barrier barrier

/* Of numbers and vectors: what has an element-wise instruction, or a sequence that the compiler knows. */
#define SIMGEN_FLOATS(DO) DO(float) DO(float2) DO(float3) DO(float4) DO(float8) DO(float16) DO(double)
#define SIMGEN_INTEGERS(DO) DO(int) DO(uint) DO(long) DO(ulong) DO(short) DO(ushort) DO(char) DO(uchar) \
    DO(int2) DO(int4) DO(uint2) DO(uint4) DO(uchar4) DO(char4)
#define SIMGEN_OF_FLOATS(T)                                                                             \
    OVERLOADED T fabs(T x) { return __builtin_elementwise_abs(x); }                                     \
    OVERLOADED T floor(T x) { return __builtin_elementwise_floor(x); }                                  \
    OVERLOADED T ceil(T x) { return __builtin_elementwise_ceil(x); }                                    \
    OVERLOADED T trunc(T x) { return __builtin_elementwise_trunc(x); }                                  \
    OVERLOADED T rint(T x) { return __builtin_elementwise_rint(x); }                                    \
    OVERLOADED T sqrt(T x) { return __builtin_elementwise_sqrt(x); }                                    \
    OVERLOADED T rsqrt(T x) { return (T)1 / __builtin_elementwise_sqrt(x); }                            \
    OVERLOADED T fma(T a, T b, T c) { return __builtin_elementwise_fma(a, b, c); }                      \
    OVERLOADED T mad(T a, T b, T c) { return a * b + c; }                                               \
    OVERLOADED T fmax(T a, T b) { return __builtin_elementwise_max(a, b); }                             \
    OVERLOADED T fmin(T a, T b) { return __builtin_elementwise_min(a, b); }                             \
    OVERLOADED T mix(T a, T b, T t) { return a + (b - a) * t; }
#define SIMGEN_OF_ALL(T)                                                                                \
    OVERLOADED T max(T a, T b) { return __builtin_elementwise_max(a, b); }                              \
    OVERLOADED T min(T a, T b) { return __builtin_elementwise_min(a, b); }                              \
    OVERLOADED T clamp(T x, T low, T high) { return min(max(x, low), high); }
#define SIMGEN_OF_SINGLES(T)                                                                            \
    OVERLOADED T exp2(T x) { return __builtin_elementwise_exp2(x); }                                    \
    OVERLOADED T log2(T x) { return __builtin_elementwise_log2(x); }                                    \
    OVERLOADED T exp(T x) { return __builtin_elementwise_exp(x); }                                      \
    OVERLOADED T log(T x) { return __builtin_elementwise_log(x); }                                      \
    OVERLOADED T sin(T x) { return __builtin_elementwise_sin(x); }                                      \
    OVERLOADED T cos(T x) { return __builtin_elementwise_cos(x); }
SIMGEN_FLOATS(SIMGEN_OF_FLOATS)
SIMGEN_FLOATS(SIMGEN_OF_ALL)
SIMGEN_INTEGERS(SIMGEN_OF_ALL)
SIMGEN_OF_SINGLES(float) SIMGEN_OF_SINGLES(float2) SIMGEN_OF_SINGLES(float4)
OVERLOADED float tanh(float x)
{
    const float e = exp2(-2.88539008f * fabs(x));
    return __builtin_copysignf((1.0f - e) / (1.0f + e), x);
}
OVERLOADED float pow(float x, float y)
{
    if (y == 0.0f)
        return 1.0f;
    const float r = exp2(y * log2(fabs(x)));
    return x >= 0.0f ? r : y != floor(y) ? NAN : (long)y & 1 ? -r : r;
}
OVERLOADED int abs(int x) { return x < 0 ? -x : x; }
OVERLOADED int mad24(int a, int b, int c) { return a * b + c; }
OVERLOADED int mul24(int a, int b) { return a * b; }
OVERLOADED uint mul24(uint a, uint b) { return a * b; }
OVERLOADED float dot(float2 a, float2 b) { return a.x * b.x + a.y * b.y; }
OVERLOADED float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
OVERLOADED int isnan(float x) { return x != x; }
OVERLOADED float select(float a, float b, int c) { return c ? b : a; }
OVERLOADED int select(int a, int b, int c) { return c ? b : a; }
#define native_exp exp
#define native_exp2 exp2
#define native_log log
#define native_log2 log2
#define native_sqrt sqrt
#define native_rsqrt rsqrt
#define native_sin sin
#define native_cos cos
#define native_divide(a, b) ((a) / (b))
#define native_recip(a) (1.0f / (a))
#define native_powr pow
#define powr pow
#define as_int(x) __builtin_astype((x), int)
#define as_uint(x) __builtin_astype((x), uint)
#define as_float(x) __builtin_astype((x), float)
#define as_float4(x) __builtin_astype((x), float4)
#define as_uint4(x) __builtin_astype((x), uint4)
#define convert_int(x) ((int)(x))
#define convert_uint(x) ((uint)(x))
#define convert_float(x) ((float)(x))
#define convert_uchar(x) ((uchar)(x))
#define convert_float4(x) __builtin_convertvector((x), float4)
#define convert_int4(x) __builtin_convertvector((x), int4)
#define convert_uint4(x) __builtin_convertvector((x), uint4)
#define convert_uchar4(x) __builtin_convertvector((x), uchar4)

#define SIMGEN_ATOMICS(space, T)                                                                        \
    OVERLOADED T atomic_add(volatile space T *p, T v) { return __scoped_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE); } \
    OVERLOADED T atomic_sub(volatile space T *p, T v) { return __scoped_atomic_fetch_sub(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE); } \
    OVERLOADED T atomic_min(volatile space T *p, T v) { return __scoped_atomic_fetch_min(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE); } \
    OVERLOADED T atomic_max(volatile space T *p, T v) { return __scoped_atomic_fetch_max(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE); } \
    OVERLOADED T atomic_and(volatile space T *p, T v) { return __scoped_atomic_fetch_and(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE); } \
    OVERLOADED T atomic_or(volatile space T *p, T v) { return __scoped_atomic_fetch_or(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE); } \
    OVERLOADED T atomic_xchg(volatile space T *p, T v) { return __scoped_atomic_exchange_n(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE); } \
    OVERLOADED T atomic_inc(volatile space T *p) { return atomic_add(p, (T)1); }                         \
    OVERLOADED T atomic_dec(volatile space T *p) { return atomic_sub(p, (T)1); }                         \
    OVERLOADED T atomic_cmpxchg(volatile space T *p, T old, T v)                                        \
    {                                                                                                   \
        __scoped_atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE); \
        return old;                                                                                     \
    }
SIMGEN_ATOMICS(__global, int) SIMGEN_ATOMICS(__global, uint) SIMGEN_ATOMICS(__local, int) SIMGEN_ATOMICS(__local, uint)
#define atom_add atomic_add
#define atom_inc atomic_inc
#define atom_max atomic_max
#define atom_min atomic_min
#define atom_cmpxchg atomic_cmpxchg
