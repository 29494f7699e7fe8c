/* Whole numbers, their bits, and conversions. */
#ifndef SIMGEN_NVIDIA /* CUDA has them built in */
static inline __device__ int __popc(unsigned x) { return __builtin_popcount(x); }
static inline __device__ int __popcll(unsigned long x) { return __builtin_popcountl(x); }
static inline __device__ int __clz(int x)
{
    return x ? __builtin_clz(static_cast<unsigned>(x)) : 32;
}
static inline __device__ int __clzll(long x)
{
    return x ? __builtin_clzl(static_cast<unsigned long>(x)) : 64;
}
template <class T> static inline __device__ int __ffs(T x)
{
    return sizeof(T) == 8 ? __builtin_ffsl(static_cast<long>(x))
                          : __builtin_ffs(static_cast<int>(x));
}
static inline __device__ int __ffsll(unsigned long x)
{
    return __builtin_ffsl(static_cast<long>(x));
}
static inline __device__ unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
static inline __device__ unsigned long __brevll(unsigned long x)
{
    return __builtin_bitreverse64(x);
}
#endif
static inline __device__ unsigned __bitextract_u32(unsigned x, unsigned from, unsigned bits)
{
    return bits < 32 ? x >> (from & 31) & ((1u << bits) - 1) : x >> (from & 31);
}
static inline __device__ unsigned long __bitextract_u64(
    unsigned long x, unsigned from, unsigned bits)
{
    return bits < 64 ? x >> (from & 63) & ((1ul << bits) - 1) : x >> (from & 63);
}
static inline __device__ unsigned __bitinsert_u32(
    unsigned x, unsigned y, unsigned from, unsigned bits)
{
    const unsigned mask = (bits < 32 ? (1u << bits) - 1 : ~0u) << (from & 31);
    return (x & ~mask) | (y << (from & 31) & mask);
}
#ifndef SIMGEN_NVIDIA
static inline __device__ int __mul24(int a, int b)
{
    return static_cast<int>(
        static_cast<unsigned>(a << 8 >> 8) * static_cast<unsigned>(b << 8 >> 8));
}
static inline __device__ unsigned __umul24(unsigned a, unsigned b)
{
    return (a & 0xffffff) * (b & 0xffffff);
}
static inline __device__ int __mulhi(int a, int b)
{
    return static_cast<int>(static_cast<long>(a) * b >> 32);
}
static inline __device__ unsigned __umulhi(unsigned a, unsigned b)
{
    return static_cast<unsigned>(static_cast<unsigned long>(a) * b >> 32);
}
static inline __device__ unsigned long __umul64hi(unsigned long a, unsigned long b)
{
    return static_cast<unsigned long>(static_cast<unsigned __int128>(a) * b >> 64);
}
static inline __device__ long __mul64hi(long a, long b)
{
    return static_cast<long>(static_cast<__int128>(a) * b >> 64);
}
static inline __device__ unsigned __sad(int a, int b, unsigned c)
{
    return c
           + (a > b ? static_cast<unsigned>(a) - static_cast<unsigned>(b)
                    : static_cast<unsigned>(b) - static_cast<unsigned>(a));
}
static inline __device__ unsigned __usad(unsigned a, unsigned b, unsigned c)
{
    return c + (a > b ? a - b : b - a);
}
static inline __device__ int __hadd(int a, int b)
{
    return static_cast<int>((static_cast<long>(a) + b) >> 1);
}
static inline __device__ int __rhadd(int a, int b)
{
    return static_cast<int>((static_cast<long>(a) + b + 1) >> 1);
}
static inline __device__ unsigned __uhadd(unsigned a, unsigned b)
{
    return static_cast<unsigned>((static_cast<unsigned long>(a) + b) >> 1);
}
static inline __device__ unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by)
{
    return static_cast<unsigned>(
        ((static_cast<unsigned long>(high) << 32 | low) << (by & 31)) >> 32);
}
static inline __device__ unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by)
{
    return static_cast<unsigned>((static_cast<unsigned long>(high) << 32 | low) >> (by & 31));
}
static inline __device__ unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by)
{
    return by < 32 ? __funnelshift_l(low, high, by) : low;
}
static inline __device__ unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by)
{
    return by < 32 ? __funnelshift_r(low, high, by) : high;
}
static inline __device__ unsigned __byte_perm(
    unsigned a, unsigned b, unsigned which) /* three bits of each four count */
{
    const unsigned long both = static_cast<unsigned long>(b) << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 32; i += 8)
        r |= (static_cast<unsigned>(both >> (8 * (which >> i / 2 & 7))) & 255) << i;
    return r;
}
static inline __device__ int __dp4a(int a, int b, int c) /* sums wrap around */
{
    unsigned sum = static_cast<unsigned>(c);
    for (int i = 0; i < 32; i += 8)
        sum += static_cast<unsigned>(
            static_cast<signed char>(a >> i) * static_cast<signed char>(b >> i));
    return static_cast<int>(sum);
}
static inline __device__ unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
    for (int i = 0; i < 32; i += 8)
        c += (a >> i & 255) * (b >> i & 255);
    return c;
}
#define SIMGEN_DP2A(end, from)                                                                     \
    static inline __device__ int __dp2a_##end(int a, int b, int c)                                 \
    {                                                                                              \
        return static_cast<int>(                                                                   \
            static_cast<unsigned>(c)                                                               \
            + static_cast<unsigned>(static_cast<short>(a) * static_cast<signed char>(b >> (from))  \
                                    + (a >> 16) * static_cast<signed char>(b >> ((from) + 8))));   \
    }                                                                                              \
    static inline __device__ unsigned __dp2a_##end(unsigned a, unsigned b, unsigned c)             \
    {                                                                                              \
        return c + (a & 0xffff) * (b >> (from) & 255) + (a >> 16) * (b >> ((from) + 8) & 255);     \
    }
SIMGEN_DP2A(lo, 0)
SIMGEN_DP2A(hi, 16)
#define SIMGEN_DOT(name, A, B, I)                                                                  \
    static inline __device__ I name(A a, B b, I c)                                                 \
    {                                                                                              \
        return name(__builtin_bit_cast(I, a), __builtin_bit_cast(I, b), c);                        \
    }
SIMGEN_DOT(__dp4a, char4, char4, int)
SIMGEN_DOT(__dp4a, uchar4, uchar4, unsigned)
SIMGEN_DOT(__dp2a_lo, short2, char4, int)
SIMGEN_DOT(__dp2a_lo, ushort2, uchar4, unsigned)
SIMGEN_DOT(__dp2a_hi, short2, char4, int)
SIMGEN_DOT(__dp2a_hi, ushort2, uchar4, unsigned)
    /* The halves of a word, or its bytes, each by itself. */
    template <class T, class F> static inline __device__
    unsigned simgen_parts(unsigned a, unsigned b, F f)
{
    constexpr int bits = 8 * sizeof(T);
    unsigned r = 0;
    for (int i = 0; i < 32; i += bits)
        r |= (static_cast<unsigned>(f(static_cast<int>(static_cast<T>(a >> i)),
                  static_cast<int>(static_cast<T>(b >> i)), bits))
                 & ((1u << bits) - 1))
             << i;
    return r;
}
static inline __device__ int simgen_within(int x, int least, int most)
{
    return x < least ? least : x > most ? most : x;
}
#define SIMGEN_SATURATED(x) simgen_within(x, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
#define SIMGEN_UNSIGNED(x) simgen_within(x, 0, (1 << bits) - 1)
#define SIMGEN_PARTS(name, S, value)                                                               \
    static inline __device__ unsigned __v##name##2(unsigned x, unsigned y)                         \
    {                                                                                              \
        return simgen_parts<S short>(                                                              \
            x, y, [](int a, int b, int bits) { return static_cast<void>(bits), value; });          \
    }                                                                                              \
    static inline __device__ unsigned __v##name##4(unsigned x, unsigned y)                         \
    {                                                                                              \
        return simgen_parts<S char>(                                                               \
            x, y, [](int a, int b, int bits) { return static_cast<void>(bits), value; });          \
    }
#define SIMGEN_PART(name, S, value)                                                                \
    static inline __device__ unsigned __v##name##2(unsigned x)                                     \
    {                                                                                              \
        return simgen_parts<S short>(                                                              \
            x, 0, [](int a, int, int bits) { return static_cast<void>(bits), value; });            \
    }                                                                                              \
    static inline __device__ unsigned __v##name##4(unsigned x)                                     \
    {                                                                                              \
        return simgen_parts<S char>(                                                               \
            x, 0, [](int a, int, int bits) { return static_cast<void>(bits), value; });            \
    }
#define SIMGEN_COMPARED(name, S, how)                                                              \
    SIMGEN_PARTS(cmp##name, S, -(a how b)) SIMGEN_PARTS(set##name, S, a how b)
SIMGEN_PARTS(add, unsigned, a + b)
SIMGEN_PARTS(addss, signed, SIMGEN_SATURATED(a + b))
SIMGEN_PARTS(addus, unsigned, SIMGEN_UNSIGNED(a + b))
SIMGEN_PARTS(sub, unsigned, a - b)
SIMGEN_PARTS(subss, signed, SIMGEN_SATURATED(a - b))
SIMGEN_PARTS(subus, unsigned, SIMGEN_UNSIGNED(a - b))
SIMGEN_PARTS(absdiffs, signed, a > b ? a - b : b - a)
SIMGEN_PARTS(absdiffu, unsigned, a > b ? a - b : b - a)
SIMGEN_PARTS(maxs, signed, a > b ? a : b)
SIMGEN_PARTS(maxu, unsigned, a > b ? a : b)
SIMGEN_PARTS(mins, signed, a < b ? a : b)
SIMGEN_PARTS(minu, unsigned, a < b ? a : b)
SIMGEN_PARTS(avgs, signed, (a + b + (a + b >= 0)) >> 1)
SIMGEN_PARTS(avgu, unsigned, (a + b + 1) >> 1)
SIMGEN_PARTS(haddu, unsigned, (a + b) >> 1)
SIMGEN_PART(abs, signed, a < 0 ? -a : a)
SIMGEN_PART(absss, signed, SIMGEN_SATURATED(a < 0 ? -a : a))
SIMGEN_PART(neg, signed, -a)
SIMGEN_PART(negss, signed, SIMGEN_SATURATED(-a))
SIMGEN_COMPARED(eq, unsigned, ==)
SIMGEN_COMPARED(ne, unsigned, !=)
SIMGEN_COMPARED(ges, signed, >=)
SIMGEN_COMPARED(gts, signed, >)
SIMGEN_COMPARED(les, signed, <=)
SIMGEN_COMPARED(lts, signed, <)
SIMGEN_COMPARED(geu, unsigned, >=)
SIMGEN_COMPARED(gtu, unsigned, >)
SIMGEN_COMPARED(leu, unsigned, <=)
SIMGEN_COMPARED(ltu, unsigned, <)
#define SIMGEN_SUMMED(name)                                                                        \
    static inline __device__ unsigned __vsad##name##2(unsigned a, unsigned b)                      \
    {                                                                                              \
        const unsigned d = __vabsdiff##name##2(a, b);                                              \
        return (d & 0xffff) + (d >> 16);                                                           \
    }                                                                                              \
    static inline __device__ unsigned __vsad##name##4(unsigned a, unsigned b)                      \
    {                                                                                              \
        const unsigned d = __vabsdiff##name##4(a, b);                                              \
        return (d & 255) + (d >> 8 & 255) + (d >> 16 & 255) + (d >> 24);                           \
    }
SIMGEN_SUMMED(s)
SIMGEN_SUMMED(u)
static inline __device__
    unsigned umin(unsigned a, unsigned b)
{
    return a < b ? a : b;
}
static inline __device__ unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
static inline __device__ long long llmin(long long a, long long b) { return a < b ? a : b; }
static inline __device__ long long llmax(long long a, long long b) { return a > b ? a : b; }
static inline __device__ float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
static inline __device__ int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
static inline __device__ float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
static inline __device__ unsigned __float_as_uint(float x)
{
    return __builtin_bit_cast(unsigned, x);
}
static inline __device__ long long __double_as_longlong(double x)
{
    return __builtin_bit_cast(long long, x);
}
static inline __device__ double __longlong_as_double(long long x)
{
    return __builtin_bit_cast(double, x);
}
static inline __device__ int __double2hiint(double x)
{
    return static_cast<int>(__builtin_bit_cast(long, x) >> 32);
}
static inline __device__ int __double2loint(double x)
{
    return static_cast<int>(__builtin_bit_cast(long, x));
}
static inline __device__ double __hiloint2double(int high, int low)
{
    return __builtin_bit_cast(double, static_cast<long>(high) << 32 | static_cast<unsigned>(low));
}
#endif
/* To nearest, toward zero, up and down; numbers beyond the type become its ends, and NaN 0. */
template <class I, class F> static inline __device__ I simgen_to_whole(F x)
{
    constexpr bool has_sign = static_cast<I>(-1) < 0;
    constexpr I most =
        has_sign ? static_cast<I>(~(static_cast<I>(1) << (8 * sizeof(I) - 1))) : static_cast<I>(-1);
    constexpr F end = static_cast<F>(1ul << (8 * sizeof(I) - has_sign - 1)) * 2;
    if (!(x == x))
        return 0;
    return x >= end   ? most
           : has_sign ? x < -end ? static_cast<I>(-most - 1) : static_cast<I>(x)
           : x > 0    ? static_cast<I>(x)
                      : 0;
}
#define SIMGEN_TO_WHOLE(from, to, F, I)                                                            \
    static inline __device__ I __##from##2##to##_rn(F x) { return simgen_to_whole<I>(rint(x)); }   \
    static inline __device__ I __##from##2##to##_rz(F x) { return simgen_to_whole<I>(trunc(x)); }  \
    static inline __device__ I __##from##2##to##_ru(F x) { return simgen_to_whole<I>(ceil(x)); }   \
    static inline __device__ I __##from##2##to##_rd(F x) { return simgen_to_whole<I>(floor(x)); }
#ifndef SIMGEN_NVIDIA
SIMGEN_TO_WHOLE(float, int, float, int)
SIMGEN_TO_WHOLE(float, uint, float, unsigned)
SIMGEN_TO_WHOLE(float, ll, float, long long)
SIMGEN_TO_WHOLE(float, ull, float, unsigned long long)
SIMGEN_TO_WHOLE(double, int, double, int)
SIMGEN_TO_WHOLE(double, uint, double, unsigned)
SIMGEN_TO_WHOLE(double, ll, double, long long)
SIMGEN_TO_WHOLE(double, ull, double, unsigned long long)
static inline __device__
    float __int2float_rn(int x)
{
    return static_cast<float>(x);
}
static inline __device__ float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
static inline __device__ float __ll2float_rn(long long x) { return static_cast<float>(x); }
static inline __device__ float __ull2float_rn(unsigned long long x)
{
    return static_cast<float>(x);
}
static inline __device__ double __int2double_rn(int x) { return x; }
static inline __device__ double __uint2double_rn(unsigned x) { return x; }
static inline __device__ float __double2float_rn(double x) { return static_cast<float>(x); }

/* Hints of caches, which change no value. */
template <class T> static inline __device__ T __ldg(const T* p) { return *p; }
#define __ldcs __ldg
#define __ldcg __ldg
#define __ldca __ldg
#define __ldlu __ldg
#define __ldcv __ldg
template <class T> static inline __device__ void __stcs(T* p, T v) { *p = v; }
#define __stcg __stcs
#define __stwb __stcs
#define __stwt __stcs
#ifndef SIMGEN_HOST /* whose prelude has these */
static inline __device__ void *memcpy(void *to, const void *from, unsigned long n)
{
    for (unsigned long i = 0; i < n; i++)
        static_cast<char *>(to)[i] = static_cast<const char *>(from)[i];
    return to;
}
static inline __device__ void *memset(void *to, int value, unsigned long n)
{
    for (unsigned long i = 0; i < n; i++)
        static_cast<char *>(to)[i] = static_cast<char>(value);
    return to;
}
#endif
#endif
