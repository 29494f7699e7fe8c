/* Vector types of HIP and CUDA, with HIP's operators: templates, so that those of a source come
 * first. */
#ifdef SIMGEN_HOST /* whose prelude has some of these; sources get them under these names */
#define float2 simgen_float2
#define float4 simgen_float4
#define int2 simgen_int2
#define int4 simgen_int4
#endif
template <class V> struct simgen_vector { static constexpr int size = 0; };
template <class V> concept simgen_is_vector = simgen_vector<V>::size > 0;
template <class T> concept simgen_is_number = requires(T x) { x * 1; } && !simgen_is_vector<T>;
#define SIMGEN_VECTOR_OF(name, type, n)                                                            \
    template <> struct simgen_vector<name> {                                                       \
        static constexpr int size = n;                                                             \
        typedef type element;                                                                      \
    };
#define SIMGEN_VECTORS_ARE(type, name)                                                             \
    SIMGEN_VECTOR_OF(name##2, type, 2)                                                             \
    SIMGEN_VECTOR_OF(name##3, type, 3) SIMGEN_VECTOR_OF(name##4, type, 4)
#if defined(SIMGEN_NVIDIA) && SIMGEN_CUDA /* whose types are CUDA's own */
#define SIMGEN_VECTORS_OF(type, name, align2, align4) SIMGEN_VECTORS_ARE(type, name)
#else
#define SIMGEN_VECTORS_OF(type, name, align2, align4)                                              \
    struct name##1 { type x; };                                                                    \
    struct alignas(align2) name##2                                                                 \
    {                                                                                              \
        type x, y;                                                                                 \
        name##2() = default;                                                                       \
        __device__ constexpr name##2(type a) : x(a), y(a) {}                                       \
        __device__ constexpr name##2(type a, type b) : x(a), y(b) {}                               \
    };                                                                                             \
    struct name##3                                                                                 \
    {                                                                                              \
        type x, y, z;                                                                              \
        name##3() = default;                                                                       \
        __device__ constexpr name##3(type a) : x(a), y(a), z(a) {}                                 \
        __device__ constexpr name##3(type a, type b, type c) : x(a), y(b), z(c) {}                 \
        template <simgen_is_index I> __device__ name##3(const I& at)                               \
            : x(at.x), y(at.y), z(at.z) {}                                                         \
    };                                                                                             \
    struct alignas(align4) name##4                                                                 \
    {                                                                                              \
        type x, y, z, w;                                                                           \
        name##4() = default;                                                                       \
        __device__ constexpr name##4(type a) : x(a), y(a), z(a), w(a) {}                           \
        __device__ constexpr name##4(type a, type b, type c, type d) : x(a), y(b), z(c), w(d) {}   \
    };                                                                                             \
    SIMGEN_VECTORS_ARE(type, name)                                                                 \
    static inline __device__ name##1 make_##name##1(type x) { return {x}; }                        \
    static inline __device__ name##2 make_##name##2(type x, type y) { return {x, y}; }             \
    static inline __device__ name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }  \
    static inline __device__ name##4 make_##name##4(type x, type y, type z, type w)                \
    {                                                                                              \
        return {x, y, z, w};                                                                       \
    }
#endif
SIMGEN_VECTORS_OF(float, float, 8, 16)
SIMGEN_VECTORS_OF(double, double, 16, 16)
SIMGEN_VECTORS_OF(int, int, 8, 16)
SIMGEN_VECTORS_OF(unsigned, uint, 8, 16)
SIMGEN_VECTORS_OF(signed char, char, 2, 4)
SIMGEN_VECTORS_OF(unsigned char, uchar, 2, 4)
SIMGEN_VECTORS_OF(short, short, 4, 8)
SIMGEN_VECTORS_OF(unsigned short, ushort, 4, 8)
SIMGEN_VECTORS_OF(long, long, 16, 16)
SIMGEN_VECTORS_OF(unsigned long, ulong, 16, 16)
SIMGEN_VECTORS_OF(long long, longlong, 16, 16)
SIMGEN_VECTORS_OF(unsigned long long, ulonglong, 16, 16)

    /* Each element by itself; a number is one of each element. */
    template <class V, class A, class B, class F> static inline __device__ V
    simgen_each(A a, B b, F f)
{
    V r;
    r.x = f(a.x, b.x);
    r.y = f(a.y, b.y);
    if constexpr (simgen_vector<V>::size > 2)
        r.z = f(a.z, b.z);
    if constexpr (simgen_vector<V>::size > 3)
        r.w = f(a.w, b.w);
    return r;
}
template <class V, class T> static inline __device__ V simgen_of_each(T x)
{
    const auto element = static_cast<simgen_vector<V>::element>(x);
    return simgen_each<V>(V(), V(), [=](auto, auto) { return element; });
}
#define SIMGEN_OPERATOR(op)                                                                        \
    template <simgen_is_vector V> static inline __device__ V operator op(V a, V b)                 \
    {                                                                                              \
        return simgen_each<V>(                                                                     \
            a, b, [](auto x, auto y) { return static_cast<simgen_vector<V>::element>(x op y); });  \
    }                                                                                              \
    template <simgen_is_vector V, simgen_is_number T> static inline __device__ V operator op(      \
        V a, T b)                                                                                  \
    {                                                                                              \
        return a op simgen_of_each<V>(b);                                                          \
    }                                                                                              \
    template <simgen_is_vector V, simgen_is_number T> static inline __device__ V operator op(      \
        T a, V b)                                                                                  \
    {                                                                                              \
        return simgen_of_each<V>(a) op b;                                                          \
    }                                                                                              \
    template <simgen_is_vector V, class T> static inline __device__ V& operator op## =             \
        (V & a, T b)                                                                               \
        requires(simgen_is_number<T> || __is_same(V, T))                                           \
    {                                                                                              \
        return a = a op b;                                                                         \
    }
SIMGEN_OPERATOR(+)
SIMGEN_OPERATOR(-)
SIMGEN_OPERATOR(*)
SIMGEN_OPERATOR(/)
SIMGEN_OPERATOR(%)
SIMGEN_OPERATOR(&)
SIMGEN_OPERATOR(|)
SIMGEN_OPERATOR(^)
template <simgen_is_vector V> static inline __device__ V operator-(V a)
{
    return simgen_each<V>(
        a, a, [](auto x, auto) { return static_cast<simgen_vector<V>::element>(-x); });
}
template <simgen_is_vector V> static inline __device__ bool operator==(V a, V b)
{
    bool same = a.x == b.x && a.y == b.y;
    if constexpr (simgen_vector<V>::size > 2)
        same = same && a.z == b.z;
    if constexpr (simgen_vector<V>::size > 3)
        same = same && a.w == b.w;
    return same;
}

/* Toward zero, up and down: the nearest number, or the next one on the side where the result lies.
 * `off` has the sign of what rounding took, exactly. */
template <int bytes> struct simgen_bits_of { typedef short type; };
template <> struct simgen_bits_of<4> { typedef int type; };
template <> struct simgen_bits_of<8> { typedef long type; };
template <char way, class T, class E> static inline __device__ T simgen_directed(T r, E off)
{
    typedef typename simgen_bits_of<sizeof(T)>::type bits;
    const bool above = off > 0 && (way == 'u' || (way == 'z' && r < T(0))),
               below = off < 0 && (way == 'd' || (way == 'z' && r > T(0)));
    if (!above && !below)
        return r;
    bits word = __builtin_bit_cast(bits, r);
    if (!(r < T(0)) && !(r > T(0)))
        word = static_cast<bits>(above ? 1 : (static_cast<bits>(1) << (8 * sizeof(T) - 1)) + 1);
    else
        word = static_cast<bits>(word + ((r > T(0)) == above ? 1 : -1));
    return __builtin_bit_cast(T, word);
}
