/* The part of C++'s library that kernels use: nothing of the host's is here. */
namespace std {
using ::size_t;
using ::ptrdiff_t;
using ::int8_t;
using ::uint8_t;
using ::int16_t;
using ::uint16_t;
using ::int32_t;
using ::uint32_t;
using ::int64_t;
using ::uint64_t;
using ::uintptr_t;
template <class T> static inline __device__ constexpr const T& max(const T& a, const T& b)
{
    return a < b ? b : a;
}
template <class T> static inline __device__ constexpr const T& min(const T& a, const T& b)
{
    return b < a ? b : a;
}
using ::abs;
using ::fabs;
using ::sqrt;
using ::exp;
using ::exp2;
using ::expm1;
using ::log;
using ::log2;
using ::log1p;
using ::pow;
using ::sin;
using ::cos;
using ::tan;
using ::atan;
using ::atan2;
using ::tanh;
using ::erf;
using ::floor;
using ::ceil;
using ::round;
using ::trunc;
using ::fmax;
using ::fmin;
using ::fmod;
using ::fma;
using ::hypot;
using ::remainder;
using ::nearbyint;
using ::rint;
using ::ldexp;
using ::copysign;
using ::tgamma;
using ::lgamma;
using ::erfc;
using ::cbrt;
using ::atanh;
using ::acosh;
using ::asinh;
using ::acos;
using ::asin;
using ::cosh;
using ::sinh;
using ::log10;
using ::isnan;
using ::isinf;
using ::isfinite;
using ::signbit;
template <class T, T v> struct integral_constant {
    static constexpr T value = v;
    typedef T value_type;
    __device__ constexpr operator T() const { return v; }
};
template <bool v> using bool_constant = integral_constant<bool, v>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;
template <class A, class B> struct is_same : bool_constant<__is_same(A, B)> {};
template <class A, class B> inline constexpr bool is_same_v = __is_same(A, B);
template <bool, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool c, class T = void> using enable_if_t = typename enable_if<c, T>::type;
template <bool, class A, class> struct conditional { typedef A type; };
template <class A, class B> struct conditional<false, A, B> { typedef B type; };
template <bool c, class A, class B> using conditional_t = typename conditional<c, A, B>::type;
template <class...> using void_t = void;
template <class T> T&& declval();
template <class T, T... i> struct integer_sequence {
    static __device__ constexpr size_t size() { return sizeof...(i); }
};
template <size_t... i> using index_sequence = integer_sequence<size_t, i...>;
template <size_t n, size_t... i> struct simgen_counted : simgen_counted<n - 1, n - 1, i...> {};
template <size_t... i> struct simgen_counted<0, i...> { typedef index_sequence<i...> type; };
template <size_t n> using make_index_sequence = typename simgen_counted<n>::type;
template <class T> static inline __device__ constexpr const T& clamp(
    const T& x, const T& low, const T& high)
{
    return x < low ? low : high < x ? high : x;
}
template <class T> using remove_cv_t = __remove_cv(T);
template <class T> using remove_const_t = __remove_const(T);
template <class T> using remove_reference_t = __remove_reference_t(T);
template <class T> using remove_pointer_t = __remove_pointer(T);
template <class T> struct remove_reference { typedef __remove_reference_t(T) type; };
template <class T> struct remove_const { typedef __remove_const(T) type; };
template <class T> struct is_integral : bool_constant<__is_integral(T)> {};
template <class T> struct is_floating_point : bool_constant<__is_floating_point(T)> {};
template <class T> struct is_arithmetic : bool_constant<__is_arithmetic(T)> {};
template <class T> struct is_signed : bool_constant<__is_signed(T)> {};
template <class T> struct is_unsigned : bool_constant<__is_unsigned(T)> {};
template <class T> inline constexpr bool is_integral_v = __is_integral(T);
template <class T> inline constexpr bool is_floating_point_v = __is_floating_point(T);
template <class T> inline constexpr bool is_arithmetic_v = __is_arithmetic(T);
template <class T> inline constexpr bool is_signed_v = __is_signed(T);
template <class T> inline constexpr bool is_unsigned_v = __is_unsigned(T);
#ifndef SIMGEN_NVIDIA /* which has these built in */
template <class T> __device__ constexpr remove_reference_t<T>&& move(T&& x)
{
    return static_cast<remove_reference_t<T>&&>(x);
}
template <class T> __device__ constexpr T&& forward(remove_reference_t<T>& x)
{
    return static_cast<T&&>(x);
}
#endif
template <class T> __device__ constexpr void swap(T& a, T& b) { T c = a; a = b; b = c; }
template <class T, size_t n> struct array {
    T elements[n];
    __device__ constexpr T& operator[](size_t i) { return elements[i]; }
    __device__ constexpr const T& operator[](size_t i) const { return elements[i]; }
    __device__ constexpr size_t size() const { return n; }
    __device__ constexpr T* begin() { return elements; }
    __device__ constexpr T* end() { return elements + n; }
};
template <class A, class B> struct pair { A first; B second; };
template <class A, class B> __device__ constexpr pair<A, B> make_pair(A a, B b) { return { a, b }; }
template <class T> struct numeric_limits {
    static constexpr bool is_specialized = true, is_integer = true, has_infinity = false;
    static constexpr bool is_signed = static_cast<T>(-1) < T(0);
    static constexpr int radix = 2, digits = __is_same(T, bool) ? 1 : 8 * sizeof(T) - is_signed,
                         digits10 = digits * 30103 / 100000;
    static __device__ constexpr T max()
    {
        return is_signed ? static_cast<T>((1ul << (8 * sizeof(T) - 1)) - 1) : static_cast<T>(-1);
    }
    static __device__ constexpr T min()
    {
        return is_signed ? static_cast<T>(1ul << (8 * sizeof(T) - 1)) : T(0);
    }
    static __device__ constexpr T lowest() { return min(); }
    static __device__ constexpr T epsilon() { return T(0); }
    static __device__ constexpr T denorm_min() { return T(0); }
};
#define SIMGEN_LIMITS(T, most, least, step, infinite, not_a_number, smallest, bits)                \
    template <> struct numeric_limits<T> {                                                         \
        static constexpr bool is_specialized = true, is_integer = false, has_infinity = true,      \
                              has_quiet_NaN = true, is_signed = true, is_iec559 = true;            \
        static constexpr int radix = 2, digits = bits, digits10 = (bits - 1) * 30103 / 100000,     \
                             max_digits10 = 2 + bits * 30103 / 100000;                             \
        static __device__ constexpr T max() { return most; }                                       \
        static __device__ constexpr T min() { return least; }                                      \
        static __device__ constexpr T lowest() { return -(most); }                                 \
        static __device__ constexpr T epsilon() { return step; }                                   \
        static __device__ constexpr T infinity() { return infinite; }                              \
        static __device__ constexpr T quiet_NaN() { return not_a_number; }                         \
        static __device__ constexpr T denorm_min() { return smallest; }                            \
    };
SIMGEN_LIMITS(float, __FLT_MAX__, __FLT_MIN__, __FLT_EPSILON__, __builtin_inff(),
    __builtin_nanf(""), 0x1p-149f, 24)
SIMGEN_LIMITS(double, __DBL_MAX__, __DBL_MIN__, __DBL_EPSILON__, __builtin_inf(), __builtin_nan(""),
    0x1p-1074, 53)
}
