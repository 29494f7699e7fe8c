/* Functions of float64 numbers, by float64 with fused multiply-adds: values in two parts where
 * one would not do. */
template <class... T> static inline __device__ double simgen_series(
    double x, double first, T... more)
{
    ((first = simgen_fma(first, x, more)), ...);
    return first;
}

/* ---- Exponentials: of x + low, 2^k e^r with |r| <= ln 2 / 2; t is e^r - 1 ---- */
struct simgen_power_parts {
    double t;
    int k;
};
static inline __device__ simgen_power_parts simgen_exp_parts(double x, double low)
{
    const double limited = x > 720.0    ? 720.0
                           : x < -750.0 ? -750.0
                                        : x,
                 k = __builtin_rint(limited * 1.4426950408889634);
    const double a = simgen_fma(k, -0x1.62e42fefa3800p-1, limited), b = k * 0x1.ef35793c76730p-45,
                 r = a - b;
    const double rest = ((a - r) - b) + low;
    const double p = simgen_series(r, 1.0 / 87178291200.0, 1.0 / 6227020800.0, 1.0 / 479001600.0,
        1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0,
        1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 1.0 / 2.0);
    return {r + simgen_fma(r * r, p, simgen_fma(simgen_fma(r * r, p, r), rest, rest)),
        static_cast<int>(k)};
}
/* e^(x + low) 2^more */
static inline __device__ double simgen_exp(double x, double low, int more)
{
    const simgen_power_parts e = simgen_exp_parts(x, low);
    return x != x ? x : x > 720.0 ? __builtin_inf() : ldexp(1.0 + e.t, e.k + more);
}
static inline __device__ double exp(double x) { return simgen_exp(x, 0.0, 0); }
static inline __device__ double exp2(double x)
{
    const double k = __builtin_rint(x < -1100.0  ? -1100.0
                                    : x > 1100.0 ? 1100.0
                                                 : x),
                 r = x - k, y = r * 0x1.62e42fefa39efp-1;
    const double low = simgen_fma(r, 0x1.62e42fefa39efp-1, -y) + r * 0x1.abc9e3b39803fp-56;
    return x != x        ? x
           : x > 1024.0  ? __builtin_inf()
           : x < -1080.0 ? 0.0
                         : simgen_exp(y, low, static_cast<int>(k));
}
static inline __device__ double exp10(double x)
{
    const double limited = x > 310.0    ? 310.0
                           : x < -330.0 ? -330.0
                                        : x,
                 k = __builtin_rint(limited * 0x1.a934f0979a371p+1);
    const double r = simgen_fma(k, -0x1.34413509f7000p-2, limited),
                 a = r - k * 0x1.3fde623e2566bp-43, b = (r - a) - k * 0x1.3fde623e2566bp-43;
    const double y = a * 0x1.26bb1bbb55516p+1, low = simgen_fma(a, 0x1.26bb1bbb55516p+1, -y)
                                                     - a * 0x1.f48ad494ea3e9p-53
                                                     + b * 2.302585092994046;
    return x != x ? x : x > 309.0 ? __builtin_inf() : simgen_exp(y, low, static_cast<int>(k));
}
static inline __device__ double expm1(double x)
{
    const simgen_power_parts e = simgen_exp_parts(x, 0.0);
    const double scale = simgen_scaled(1.0, e.k < -60 ? -60 : e.k > 1000 ? 1000 : e.k);
    return x != x || x == 0.0 ? x : x > 690.0 ? exp(x) : simgen_fma(scale, e.t, scale - 1.0);
}
/* Half of e^a, its inverse's half taken or given. */
static inline __device__ double simgen_half_exp_and(double a, double sign)
{
    const simgen_power_parts e = simgen_exp_parts(a, 0.0);
    const double y = 1.0 + e.t, high = ldexp(y, e.k - 1), q = sign * 0.25 / high, sum = high + q;
    return sum > 1.7e308 ? sum : sum + (((high - sum) + q) + ldexp((1.0 - y) + e.t, e.k - 1));
}
static inline __device__ double sinh(double x)
{
    const double a = __builtin_fabs(x), z = a * a;
    const double p = simgen_series(z, 1.0 / 51090942171709440000.0, 1.0 / 121645100408832000.0,
        1.0 / 355687428096000.0, 1.0 / 1307674368000.0, 1.0 / 6227020800.0, 1.0 / 39916800.0,
        1.0 / 362880.0, 1.0 / 5040.0, 1.0 / 120.0, 1.0 / 6.0);
    return x != x ? x
                  : copysign(a < 1.0     ? simgen_fma(a * z, p, a)
                             : a > 720.0 ? __builtin_inf()
                                         : simgen_half_exp_and(a, -1.0),
                        x);
}
static inline __device__ double cosh(double x)
{
    const double a = __builtin_fabs(x);
    return a > 720.0 ? __builtin_inf() : simgen_half_exp_and(a, 1.0);
}
static inline __device__ double tanh(double x)
{
    const double a = __builtin_fabs(x), e = expm1(2.0 * (a < 20.0 ? a : 20.0)), d = e + 2.0;
    const double q = (a < 0.55 ? e : 2.0) / d,
                 rest = (simgen_fma(-q, d, a < 0.55 ? e : 2.0) - q * ((2.0 - d) + e)) / d;
    return x != x ? x : copysign(a < 0.55 ? q + rest : 1.0 - (q + rest), x);
}

/* ---- Logarithms: x = (1 + f) 2^k, and ln(1 + f) = f - (half - s (half + r)), s = f / (2 + f)
 * ---- */
struct simgen_log_parts {
    double f, half, s, r, k;
};
static inline __device__ simgen_log_parts simgen_parts_of_log(double f, double k)
{
    const double s = f / (2.0 + f), z = s * s;
    const double p = simgen_series(z, 2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13,
        2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3);
    return { f, 0.5 * f * f, s, z * p, k };
}
static inline __device__ simgen_log_parts simgen_parts_of(double x) /* above 0 */
{
    const bool small = x < 0x1p-1022;
    const unsigned long bits = SIMGEN_LONG_BITS(small ? x * 0x1p54 : x) - 0x3fe6a09e00000000ul;
    const double m = SIMGEN_DOUBLE((bits & 0xffffffffffffful) + 0x3fe6a09e00000000ul);
    return simgen_parts_of_log(
        m - 1.0, static_cast<int>(static_cast<long>(bits) >> 52) - (small ? 54 : 0));
}
/* What logarithms of 0, of infinity and of what has none are. */
static inline __device__ double simgen_log_or(double x, double y)
{
    return x > 0.0 && x < __builtin_inf() ? y
           : x == 0.0                     ? -__builtin_inf()
           : x > 0.0                      ? x
                                          : __builtin_nan("");
}
static inline __device__ double simgen_log_of_parts(simgen_log_parts a, double low)
{
    return a.k * 0x1.62e42fefa3800p-1
           - ((a.half - (a.s * (a.half + a.r) + (a.k * 0x1.ef35793c76730p-45 + low))) - a.f);
}
static inline __device__ double log(double x)
{
    return simgen_log_or(x, simgen_log_of_parts(simgen_parts_of(x), 0.0));
}
/* ln(1 + x + low) */
static inline __device__ double simgen_log1p(double x, double low)
{
    if (x > -0.29 && x < 0.41)
        return x == 0.0 ? x : simgen_log_of_parts(simgen_parts_of_log(x, 0.0), low / (1.0 + x));
    const double u = 1.0 + x, lost = (x < 1.0 ? x - (u - 1.0) : 1.0 - (u - x)) + low;
    return simgen_log_or(u, simgen_log_of_parts(simgen_parts_of(u), lost / u));
}
static inline __device__ double log1p(double x) { return simgen_log1p(x, 0.0); }
/* To a base whose logarithm's inverse is high + low; so is that of 2. */
static inline __device__ double simgen_log_to_base(
    double x, double high, double low, double two_high, double two_low)
{
    const simgen_log_parts a = simgen_parts_of(x);
    const double upper = SIMGEN_DOUBLE(SIMGEN_LONG_BITS(a.f - a.half) & 0xffffffff00000000ul);
    const double lower = ((a.f - upper) - a.half) + a.s * (a.half + a.r), first = a.k * two_high,
                 v = upper * high, w = first + v;
    return simgen_log_or(
        x, (((first - w) + v) + (a.k * two_low + ((lower + upper) * low + lower * high))) + w);
}
static inline __device__ double log2(double x)
{
    return simgen_log_to_base(x, 1.44269504072144627571, 1.67517131648865118353e-10, 1.0, 0.0);
}
static inline __device__ double log10(double x)
{
    return simgen_log_to_base(x, 4.34294481878168880939e-01, 2.50829467116452752298e-11,
        3.01029995663611771306e-01, 3.69423907715893078616e-13);
}
static inline __device__ double asinh(double x)
{
    const double a = __builtin_fabs(x), z = a * a;
    const double w = z / (1.0 + sqrt(1.0 + z)), u = a + w;
    const double y = a > 0x1p28 ? log(a) + 0.69314718055994531
                                : simgen_log1p(u, a > w ? (a - u) + w : (w - u) + a);
    return x != x || x == 0.0 ? x : copysign(y, x);
}
static inline __device__ double acosh(double x)
{
    const double t = x - 1.0, p = t * t, h = 2.0 * t + p,
                 h_rest = (t < 2.0 ? (2.0 * t - h) + p : (p - h) + 2.0 * t) + simgen_fma(t, t, -p);
    const double s = sqrt(h), s_rest = s > 0.0 ? (simgen_fma(-s, s, h) + h_rest) * 0.5 / s : 0.0,
                 u = s + t;
    return x < 1.0      ? __builtin_nan("")
           : x > 0x1p28 ? log(x) + 0.69314718055994531
                        : simgen_log1p(u, ((s - u) + t) + s_rest);
}
static inline __device__ double atanh(double x)
{
    const double a = __builtin_fabs(x), t = 2.0 * a, d = 1.0 - a, q = t / d,
                 rest = (simgen_fma(-q, d, t) - q * ((1.0 - d) - a)) / d;
    return x == 0.0 ? x : copysign(0.5 * simgen_log1p(q, a < 1.0 ? rest : 0.0), x);
}

/* ---- Powers: ln |x| in two parts ---- */
static inline __device__ double simgen_power(double x, double y)
{
    const double a = __builtin_fabs(x), endless = __builtin_inf();
    const bool whole = y == __builtin_rint(y), odd = whole && 0.5 * y != __builtin_rint(0.5 * y);
    if (y == 0.0 || x == 1.0)
        return 1.0;
    if (x != x || y != y)
        return x + y;
    if (x < 0.0 && a < endless && !whole)
        return __builtin_nan("");
    double r = a == 1.0 ? 1.0 : (a > 1.0) == (y > 0.0) ? endless : 0.0;
    if (a > 0.0 && a < endless && a != 1.0 && __builtin_fabs(y) < 0x1p80) {
        const simgen_log_parts parts = simgen_parts_of(a);
        const double m = 1.0 + parts.f, d = m + 1.0, f = parts.f;
        const double s = f / d, rest = (simgen_fma(-s, d, f) - s * (m - (d - 1.0))) / d;
        const double z = s * s, z_rest = simgen_fma(s, s, -z) + 2.0 * s * rest;
        const double tail = z * z
                            * simgen_series(z, 2.0 / 25, 2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17,
                                2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5);
        const double w = z * 0x1.5555555555555p-1,
                     w_rest = simgen_fma(z, 0x1.5555555555555p-1, -w)
                              + (z * 0x1.5555555555555p-55 + z_rest * 0x1.5555555555555p-1) + tail;
        const double p = s * w, p_rest = simgen_fma(s, w, -p) + (s * w_rest + rest * w);
        const double v = 2.0 * s + p, v_rest = (2.0 * s - v) + p + (p_rest + 2.0 * rest);
        const double h = v + v_rest, l = (v - h) + v_rest, e = parts.k * 0x1.62e42fefa3800p-1;
        const double high = e + h, low = (e - high) + h + (l + parts.k * 0x1.ef35793c76730p-45);
        const double t = y * high, t_rest = simgen_fma(y, high, -t) + y * low;
        r = t > 720.0 ? endless : t < -760.0 ? 0.0 : simgen_exp(t, t_rest, 0);
    }
    return odd ? copysign(r, x) : r;
}
static inline __device__ double cbrt(double x)
{
    const double a = __builtin_fabs(x);
    if (!(a > 0.0) || !(a < __builtin_inf()))
        return x;
    const bool small = a < 0x1p-1000;
    const double b = small ? a * 0x1p600 : a, first = exp(log(b) * 0.33333333333333333),
                 y = first - (first - b / (first * first)) * 0.33333333333333333;
    const double p = y * y, c = p * y, rest = simgen_fma(p, y, -c) + simgen_fma(y, y, -p) * y;
    return copysign((y - ((c - b) + rest) / (3.0 * p)) * (small ? 0x1p-200 : 1.0), x);
}
static inline __device__ double rcbrt(double x) { return 1.0 / cbrt(x); }

/* ---- Angles: the argument less a multiple of pi / 2, in two parts ---- */
struct simgen_rest_of_angle {
    double r, rest;
    unsigned quarters;
};
/* Of large numbers: the 53 bits of x by those of 2 / pi whose product is no whole number of
 * turns. */
static inline __device__ simgen_rest_of_angle simgen_far_rest(double x)
{
    static constexpr unsigned long bits_of[] = {
        0,
        0xa2f9836e4e441529ul,
        0xfc2757d1f534ddc0ul,
        0xdb6295993c439041ul,
        0xfe5163abdebbc561ul,
        0xb7246e3a424dd2e0ul,
        0x06492eea09d1921cul,
        0xfe1deb1cb129a73eul,
        0xe88235f52ebb4484ul,
        0xe99c7026b45f7e41ul,
        0x3991d639835339f4ul,
        0x9c845f8bbdf9283bul,
        0x1ff897ffde05980ful,
        0xef2f118b5a0a6d1ful,
        0x6d367ecf27cb09b7ul,
        0x4f463f669e5fea2dul,
        0x7527bac7ebe5f17bul,
        0x3d0739f78a5292eaul,
        0x6bfb5fb11f8d5d08ul,
        0x56033046fc7b6babul,
        0xf0cfbc209af4361dul,
    };
    const unsigned long bits = SIMGEN_LONG_BITS(x), m = (bits & 0xffffffffffffful) | 1ul << 52;
    const unsigned from = static_cast<unsigned>(bits >> 52) - 1075 + 62, word = from >> 6,
                   by = from & 63;
    unsigned long part[3];
    for (unsigned i = 0; i < 3; i++)
        part[i] = bits_of[word + i] << by | (by ? bits_of[word + i + 1] >> (64 - by) : 0);
    typedef unsigned __int128 wide;
    const wide all = (static_cast<wide>(m * part[0]) << 64) + static_cast<wide>(m) * part[1]
                     + (static_cast<wide>(m) * part[2] >> 64);
    const unsigned quarters = static_cast<unsigned>((all + (static_cast<wide>(1) << 125)) >> 126);
    const __int128 left = static_cast<__int128>(all - (static_cast<wide>(quarters) << 126));
    const double a = static_cast<double>(static_cast<long>(left >> 85)) * 0x1p-41,
                 b = static_cast<double>(static_cast<long>(left >> 42) & 0x7fffffffffful) * 0x1p-84;
    const double c = static_cast<double>(static_cast<long>(left) & 0x3fffffffffful) * 0x1p-126,
                 t = a + b, t_rest = (a - t) + b + c;
    const double r = t * 0x1.921fb54442d18p+0;
    return {r,
        simgen_fma(t, 0x1.921fb54442d18p+0, -r)
            + (t * 0x1.1a62633145c07p-54 + t_rest * 0x1.921fb54442d18p+0),
        quarters & 3};
}
static inline __device__ simgen_rest_of_angle simgen_rest(double x) /* not below 0 */
{
    if (x >= 0x1p20)
        return simgen_far_rest(x);
    const double k = __builtin_rint(x * 0.63661977236758134),
                 a = simgen_fma(k, -0x1.921fb54442d18p+0, x), b = k * 0x1.1a62633145c07p-54;
    const double r = a - b,
                 lost = simgen_fma(k, 0x1.1a62633145c07p-54, -b) - k * 0x1.f1976b7ed8fbcp-110;
    return { r, ((a - r) - b) - lost, static_cast<unsigned>(static_cast<int>(k)) & 3 };
}
struct simgen_pair_of_parts {
    double high, low;
};
static inline __device__ simgen_pair_of_parts simgen_sine_parts(simgen_rest_of_angle at)
{
    const double z = at.r * at.r;
    const double p =
        simgen_series(z, 1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0,
            -1.0 / 39916800.0, 1.0 / 362880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0);
    const double more = simgen_fma(at.r * z, p, simgen_fma(-0.5 * z, at.rest, at.rest)),
                 y = at.r + more;
    return { y, (at.r - y) + more };
}
static inline __device__ simgen_pair_of_parts simgen_cosine_parts(simgen_rest_of_angle at)
{
    const double z = at.r * at.r, half = 0.5 * z, w = 1.0 - half;
    const double p =
        simgen_series(z, -1.0 / 6402373705728000.0, 1.0 / 20922789888000.0, -1.0 / 87178291200.0,
            1.0 / 479001600.0, -1.0 / 3628800.0, 1.0 / 40320.0, -1.0 / 720.0, 1.0 / 24.0);
    const double more = ((1.0 - w) - half) + simgen_fma(z * z, p, -at.r * at.rest), y = w + more;
    return { y, (w - y) + more };
}
static inline __device__ double simgen_sine_at(simgen_rest_of_angle at, unsigned more)
{
    const unsigned quarters = at.quarters + more;
    const double y = quarters & 1 ? simgen_cosine_parts(at).high : simgen_sine_parts(at).high;
    return quarters & 2 ? -y : y;
}
static inline __device__ double sin(double x)
{
    return __builtin_fabs(x) < __builtin_inf()
               ? x == 0.0 ? x : copysign(1.0, x) * simgen_sine_at(simgen_rest(__builtin_fabs(x)), 0)
               : __builtin_nan("");
}
static inline __device__ double cos(double x)
{
    return __builtin_fabs(x) < __builtin_inf() ? simgen_sine_at(simgen_rest(__builtin_fabs(x)), 1)
                                               : __builtin_nan("");
}
static inline __device__ double tan(double x)
{
    if (!(__builtin_fabs(x) < __builtin_inf()) || x == 0.0)
        return x == 0.0 ? x : __builtin_nan("");
    const simgen_rest_of_angle at = simgen_rest(__builtin_fabs(x));
    simgen_pair_of_parts a = simgen_sine_parts(at), b = simgen_cosine_parts(at);
    if (at.quarters & 1) {
        const simgen_pair_of_parts other = a;
        a = { -b.high, -b.low };
        b = other;
    }
    const double q = a.high / b.high;
    return copysign(1.0, x) * (q + (simgen_fma(-q, b.high, a.high) + (a.low - q * b.low)) / b.high);
}
static inline __device__ void sincos(double x, double *s, double *c) { *s = sin(x), *c = cos(x); }
/* Of half turns. */
static inline __device__ simgen_rest_of_angle simgen_rest_of_half_turns(double x)
{
    const double k = __builtin_rint(2.0 * x), left = x - 0.5 * k, r = left * 0x1.921fb54442d18p+1,
                 turns = k - 4.0 * __builtin_floor(0.25 * k);
    return {r, simgen_fma(left, 0x1.921fb54442d18p+1, -r) + left * 0x1.1a62633145c07p-53,
        static_cast<unsigned>(static_cast<int>(turns))};
}
static inline __device__ double sinpi(double x)
{
    const double a = __builtin_fabs(x),
                 y = a < 0x1p53 ? simgen_sine_at(simgen_rest_of_half_turns(a), 0) : 0.0;
    return a < __builtin_inf() ? y == 0.0 ? copysign(0.0, x) : copysign(1.0, x) * y
                               : __builtin_nan("");
}
static inline __device__ double cospi(double x)
{
    const double a = __builtin_fabs(x),
                 y = a < 0x1p54 ? simgen_sine_at(simgen_rest_of_half_turns(a), 1) : 1.0;
    return a < __builtin_inf() ? y == 0.0 ? 0.0 : y : __builtin_nan("");
}
/* The angle of a point whose coordinates are not below 0, and not both 0; of x below 0, `back`. */
static inline __device__ double simgen_angle_to(double y, double x, bool back)
{
    const bool steep = y > x;
    double low = steep ? x : y, high = steep ? y : x;
    if (high == __builtin_inf())
        low = low == high ? 1.0 : 0.0, high = 1.0;
    const double by = high > 0x1p1000 ? 0x1p-30 : high < 0x1p-900 ? 0x1p120 : 1.0;
    low *= by, high *= by;
    const bool wide = low > 0.41421356 * high;
    const double less = high - low, more = high + low, n = wide ? -less : low,
                 d = wide ? more : high;
    const double n_rest = wide ? low - (high - less) : 0.0,
                 d_rest = wide ? (high - more) + low : 0.0;
    const double q = n / d, q_rest = (simgen_fma(-q, d, n) + (n_rest - q * d_rest)) / d, z = q * q;
    const double p = simgen_series(z, 0x1.0aca40aeebce0p-6, -0x1.1b2f96cc7eca8p-5,
        0x1.74dc387c1a6f4p-5, -0x1.ac7a3950dffbap-5, 0x1.e19a07798598ep-5, -0x1.110e878213482p-4,
        0x1.3b1392d24f335p-4, -0x1.745d165db0b8dp-4, 0x1.c71c71c3035c8p-4, -0x1.249249248d7d1p-3,
        0x1.9999999999953p-3, -0x1.5555555555555p-2);
    const double base = wide ? 0x1.921fb54442d18p-1 : 0.0, a = base + q;
    const double rest =
        ((base - a) + q) + (simgen_fma(q * z, p, q_rest) + (wide ? 0x1.1a62633145c07p-55 : 0.0));
    if (!steep && !back)
        return a + rest;
    const double whole = steep ? 0x1.921fb54442d18p+0 : 0x1.921fb54442d18p+1,
                 sign = steep && back ? 1.0 : -1.0, c = whole + sign * a;
    return c
           + (((whole - c) + sign * a)
               + ((steep ? 0x1.1a62633145c07p-54 : 0x1.1a62633145c07p-53) + sign * rest));
}
static inline __device__ double atan(double x)
{
    return x != x ? x : copysign(simgen_angle_to(__builtin_fabs(x), 1.0, false), x);
}
static inline __device__ double simgen_angle(double y, double x)
{
    if (x != x || y != y)
        return x + y;
    if (x == 0.0 && y == 0.0)
        return copysign(signbit(x) ? 3.1415926535897931 : 0.0, y);
    return copysign(simgen_angle_to(__builtin_fabs(y), __builtin_fabs(x), signbit(x)), y);
}
/* asin(root of z) / (root of z) - 1 */
static inline __device__ double simgen_arc_series(double z)
{
    return z
           * simgen_series(z, 0x1.f74bdb0d4b5bep-6, -0x1.898d77b6dddb2p-6, 0x1.7184808eff5eep-6,
               0x1.8f5a75293b096p-12, 0x1.2031dbbbbad45p-7, 0x1.0a9849ba5937fp-7,
               0x1.40e38d543d8d2p-7, 0x1.7a70c2a695fe0p-7, 0x1.c99afe79266f3p-7,
               0x1.1c4ebd7735bf2p-6, 0x1.6e8ba31c9dc09p-6, 0x1.f1c71c70ee54ap-6,
               0x1.6db6db6db7c7fp-5, 0x1.333333333332dp-4, 0x1.5555555555555p-3);
}
static inline __device__ double asin(double x)
{
    const double a = __builtin_fabs(x);
    if (a < 0.5)
        return simgen_fma(x, simgen_arc_series(a * a), x);
    const double z = 0.5 * (1.0 - a), s = sqrt(z),
                 rest = s > 0.0 ? simgen_fma(-s, s, z) * 0.5 / s : 0.0;
    const double h = 0x1.921fb54442d18p+0 - 2.0 * s, l = (0x1.921fb54442d18p+0 - h) - 2.0 * s;
    return copysign(
        h + (l + (0x1.1a62633145c07p-54 - 2.0 * simgen_fma(s, simgen_arc_series(z), rest))), x);
}
static inline __device__ double acos(double x)
{
    const double a = __builtin_fabs(x);
    if (a < 0.5) {
        const double h = 0x1.921fb54442d18p+0 - x, l = (0x1.921fb54442d18p+0 - h) - x;
        return h + (l + (0x1.1a62633145c07p-54 - x * simgen_arc_series(x * x)));
    }
    const double z = 0.5 * (1.0 - a), s = sqrt(z),
                 rest = s > 0.0 ? simgen_fma(-s, s, z) * 0.5 / s : 0.0;
    const double more = simgen_fma(s, simgen_arc_series(z), rest),
                 h = 0x1.921fb54442d18p+1 - 2.0 * s, l = (0x1.921fb54442d18p+1 - h) - 2.0 * s;
    return x > 0.0 ? 2.0 * (s + more) : h + (l + (0x1.1a62633145c07p-53 - 2.0 * more));
}

/* ---- Error functions and Gamma ---- */
static inline __device__ double simgen_erfc_beyond(double a) /* from 0.5 to 28 */
{
    const double z = a * a, low = simgen_fma(a, a, -z);
    return simgen_exp(-z, -low, 0) * simgen_erfcx_of(a);
}
static inline __device__ double simgen_erf_within(double x)
{
    const double z = x * x,
                 p = simgen_series(z, 1.0 / 236887827111936000.0, -1.0 / 12449059983360000.0,
                     1.0 / 690452066304000.0, -1.0 / 40537905408000.0, 1.0 / 2528170444800.0,
                     -1.0 / 168129561600.0, 1.0 / 11975040000.0, -1.0 / 918086400.0,
                     1.0 / 76204800.0, -1.0 / 6894720.0, 1.0 / 685440.0, -1.0 / 75600.0,
                     1.0 / 9360.0, -1.0 / 1320.0, 1.0 / 216.0, -1.0 / 42.0, 1.0 / 10.0, -1.0 / 3.0);
    const double y = x * 0x1.20dd750429b6dp+0,
                 low = simgen_fma(x, 0x1.20dd750429b6dp+0, -y) + x * 0x1.1ae3a914fed80p-56;
    return y + simgen_fma(y * z, p, low);
}
static inline __device__ double erf(double x)
{
    const double a = __builtin_fabs(x);
    return x != x || a == 0.0 ? x
           : a < 0.84         ? simgen_erf_within(x)
           : a > 6.0          ? copysign(1.0, x)
                              : copysign(1.0 - simgen_erfc_beyond(a), x);
}
static inline __device__ double erfc(double x)
{
    const double a = __builtin_fabs(x);
    if (a < 0.5)
        return 1.0 - simgen_erf_within(x);
    const double y = a < 28.0 ? simgen_erfc_beyond(a) : 0.0;
    return x != x ? x : x > 0.0 ? y : 2.0 - y;
}
static inline __device__ double tgamma(double x)
{
    const double a = __builtin_fabs(x);
    if (a < 0x1p-200)
        return 1.0 / x;
    if (x != x || (x < 0.0 && x == __builtin_rint(x)))
        return __builtin_nan("");
    double left = a < 190.0 ? a : 190.0, by = 0x1p-200, low = 0.0, up = 1.0;
    for (; left < 1.5; left += 1.0)
        up *= left;
    while (left > 2.5) {
        left -= 1.0;
        const double next = by * left;
        low = simgen_fma(by, left, -next) + low * left;
        by = next;
    }
    const double e = exp(simgen_log_gamma_beside_2(left - 2.0)),
                 y = simgen_fma(e, by, e * low) / up;
    return x > 0.0 ? y * 0x1p200 : -3.1415926535897931 / (x * sinpi(x)) / y * 0x1p-200;
}
static inline __device__ double lgamma(double x)
{
    const double a = __builtin_fabs(x);
    if (!(a < __builtin_inf()))
        return x != x ? x : a;
    if (a == 0.0 || (x < 0.0 && x == __builtin_rint(x)))
        return __builtin_inf();
    if (a < 0x1p-200)
        return -log(a);
    const simgen_gamma g = simgen_gamma_of(a);
    const double more = log(g.by);
    double y = g.log + (g.up ? -more : more);
    if (a >= 1.2 && a < 1.6) { /* where terms cancel */
        const double z = a - 2.0, p = simgen_log_gamma_series(z), u = p * z,
                     s = u + 0x1.b0ee6072093cep-2;
        const double rest =
            (0x1.b0ee6072093cep-2 - s + u) + (simgen_fma(p, z, -u) + 0x1.6cb90701fbfabp-58);
        const double high = s * z;
        y = high + (simgen_fma(s, z, -high) + rest * z);
    }
    if (x > 0.0)
        return y;
    const double pi = 3.1415926535897931, s = __builtin_fabs(sinpi(x)), p = a * s, q = pi / p;
    const double left = simgen_fma(-q, p, pi) + (1.2246467991473532e-16 - q * simgen_fma(a, s, -p));
    return log(q) + left / pi - y;
}

