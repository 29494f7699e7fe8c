/* Complex numbers of HIP and CUDA: pairs with functions. */
#define SIMGEN_COMPLEX(lang, name, V, T, f)                                                        \
    typedef V lang##name;                                                                          \
    static inline __device__ V make_##lang##name(T a, T b) { return V(a, b); }                     \
    static inline __device__ T lang##Creal##f(V a) { return a.x; }                                 \
    static inline __device__ T lang##Cimag##f(V a) { return a.y; }                                 \
    static inline __device__ V lang##Conj##f(V a) { return V(a.x, -a.y); }                         \
    static inline __device__ V lang##Cadd##f(V a, V b) { return V(a.x + b.x, a.y + b.y); }         \
    static inline __device__ V lang##Csub##f(V a, V b) { return V(a.x - b.x, a.y - b.y); }         \
    static inline __device__ V lang##Cmul##f(V a, V b)                                             \
    {                                                                                              \
        return V(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);                                    \
    }                                                                                              \
    static inline __device__ V lang##Cdiv##f(V a, V b)                                             \
    {                                                                                              \
        const T s = T(1) / (fabs(b.x) + fabs(b.y)), p = b.x * s, q = b.y * s,                      \
                r = T(1) / (p * p + q * q);                                                        \
        a.x *= s, a.y *= s;                                                                        \
        return V((a.x * p + a.y * q) * r, (a.y * p - a.x * q) * r);                                \
    }                                                                                              \
    static inline __device__ T lang##Cabs##f(V a) { return hypot(a.x, a.y); }                      \
    static inline __device__ V lang##Cfma##f(V a, V b, V c)                                        \
    {                                                                                              \
        return lang##Cadd##f(lang##Cmul##f(a, b), c);                                              \
    }
SIMGEN_COMPLEX(hip, FloatComplex, float2, float, f)
SIMGEN_COMPLEX(hip, DoubleComplex, double2, double, )
SIMGEN_COMPLEX(cu, FloatComplex, float2, float, f)
SIMGEN_COMPLEX(cu, DoubleComplex, double2, double, )
typedef float2 hipComplex;
typedef float2 cuComplex;
static inline __device__ float2 make_hipComplex(float a, float b) { return float2(a, b); }
static inline __device__ float2 make_cuComplex(float a, float b) { return float2(a, b); }
static inline __device__ float hipCsqabsf(float2 a) { return a.x * a.x + a.y * a.y; }
static inline __device__ double hipCsqabs(double2 a) { return a.x * a.x + a.y * a.y; }
static inline __device__ double2 hipComplexFloatToDouble(float2 a) { return double2(a.x, a.y); }
static inline __device__ float2 hipComplexDoubleToFloat(double2 a)
{
    return float2(static_cast<float>(a.x), static_cast<float>(a.y));
}
static inline __device__ double2 cuComplexFloatToDouble(float2 a) { return double2(a.x, a.y); }
static inline __device__ float2 cuComplexDoubleToFloat(double2 a)
{
    return float2(static_cast<float>(a.x), static_cast<float>(a.y));
}
