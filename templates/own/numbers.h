/* Functions of float32 numbers in the part of C that C++ and OpenCL C share: a few instructions
 * of the machine, or float64 without fused steps, which all simulators have, rounded at the end.
 * Each is within the maximum error that HIP documents, at all arguments (benchmarks/functions). */
SIMGEN_NUMBER double simgen_step(double a, double b, double c)
{
#pragma clang fp contract(off)
    return a * b + c;
}
SIMGEN_NUMBER float simgen_f_fma(float a, float b, float c)
{
    return __builtin_elementwise_fma(a, b, c);
}
/* 1 / x of a number that is no zero and not infinite; the instruction is a first guess. */
SIMGEN_NUMBER double simgen_inverse(double x)
{
    const double r = simgen_rcp(x), s = simgen_step(r, simgen_step(-x, r, 1.0), r);
    return simgen_step(s, simgen_step(-x, s, 1.0), s);
}
/* Of numbers that are float32's, too. */
SIMGEN_NUMBER double simgen_root(double x)
{
    const double y = __builtin_elementwise_sqrt((float)x);
    return y > 0.0 ? simgen_step(simgen_step(-y, y, x) * 0.5, simgen_inverse(y), y) : y;
}
/* e^x from -700 to 700: x = k ln 2 + r, and the Taylor series of r. */
SIMGEN_NUMBER double simgen_exp_of(double x)
{
    const double shifted = simgen_step(x, 1.4426950408889634, 0x1.8p52), k = shifted - 0x1.8p52;
    const double r =
        simgen_step(k, -1.9082149292705877e-10, simgen_step(k, -0.69314718036912382, x));
    double p = 1.0 / 6227020800.0;
    p = simgen_step(p, r, 1.0 / 479001600.0);
    p = simgen_step(p, r, 1.0 / 39916800.0);
    p = simgen_step(p, r, 1.0 / 3628800.0);
    p = simgen_step(p, r, 1.0 / 362880.0);
    p = simgen_step(p, r, 1.0 / 40320.0);
    p = simgen_step(p, r, 1.0 / 5040.0);
    p = simgen_step(p, r, 1.0 / 720.0);
    p = simgen_step(p, r, 1.0 / 120.0);
    p = simgen_step(p, r, 1.0 / 24.0);
    p = simgen_step(p, r, 1.0 / 6.0);
    p = simgen_step(p, r, 0.5);
    p = simgen_step(p, r, 1.0);
    p = simgen_step(p, r, 1.0);
    return p * SIMGEN_DOUBLE((SIMGEN_LONG_BITS(shifted) + 1023) << 52);
}
/* Of a normal number: x = m 2^e with m from sqrt(1/2) to sqrt(2), and ln m = 2 artanh((m - 1) /
 * (m + 1)). */
SIMGEN_NUMBER double simgen_log_of(double x)
{
    const unsigned long bits = SIMGEN_LONG_BITS(x) - 0x3fe6a09e00000000ul;
    const double e = (int)(bits >> 52 ^ 0x800) - 0x800,
                 m = SIMGEN_DOUBLE((bits & 0xffffffffffffful) + 0x3fe6a09e00000000ul);
    const double s = (m - 1.0) * simgen_inverse(m + 1.0), z = s * s;
    double p = 2.0 / 21;
    p = simgen_step(p, z, 2.0 / 19);
    p = simgen_step(p, z, 2.0 / 17);
    p = simgen_step(p, z, 2.0 / 15);
    p = simgen_step(p, z, 2.0 / 13);
    p = simgen_step(p, z, 2.0 / 11);
    p = simgen_step(p, z, 2.0 / 9);
    p = simgen_step(p, z, 2.0 / 7);
    p = simgen_step(p, z, 2.0 / 5);
    p = simgen_step(p, z, 2.0 / 3);
    const double low = simgen_step(e, 1.9082149292705877e-10, s * z * p) + 2.0 * s;
    return simgen_step(e, 0.69314718036912382, low);
}
/* sin r and cos r within pi / 4. */
SIMGEN_NUMBER double simgen_sine_of(double r)
{
    const double z = r * r;
    double p = 1.0 / 6227020800.0;
    p = simgen_step(p, z, -1.0 / 39916800.0);
    p = simgen_step(p, z, 1.0 / 362880.0);
    p = simgen_step(p, z, -1.0 / 5040.0);
    p = simgen_step(p, z, 1.0 / 120.0);
    p = simgen_step(p, z, -1.0 / 6.0);
    return simgen_step(p * z, r, r);
}
SIMGEN_NUMBER double simgen_cosine_of(double r)
{
    const double z = r * r;
    double p = -1.0 / 87178291200.0;
    p = simgen_step(p, z, 1.0 / 479001600.0);
    p = simgen_step(p, z, -1.0 / 3628800.0);
    p = simgen_step(p, z, 1.0 / 40320.0);
    p = simgen_step(p, z, -1.0 / 720.0);
    p = simgen_step(p, z, 1.0 / 24.0);
    p = simgen_step(p, z, -0.5);
    return simgen_step(p, z, 1.0);
}
/* sin(pi x) of a float32. */
SIMGEN_NUMBER double simgen_sine_of_half_turns(float x)
{
    const float k = __builtin_rintf(x), left = x - k;
    const double a = __builtin_fabsf(left);
    const double y = a > 0.25 ? simgen_cosine_of((0.5 - a) * 3.1415926535897931)
                              : simgen_sine_of(a * 3.1415926535897931);
    return (left < 0.0f) != (0.5f * k != __builtin_rintf(0.5f * k)) ? -y : y;
}
/* The angle of a point whose coordinates are not below 0, and not both 0. */
SIMGEN_NUMBER double simgen_angle_of(double y, double x)
{
    const int steep = y > x, endless = (steep ? y : x) > 1e39;
    const double low = endless ? (y > 1e39 && x > 1e39 ? 1.0 : 0.0)
                       : steep ? x
                               : y,
                 high = endless ? 1.0
                        : steep ? y
                                : x;
    const int wide = low > 0.41421356 * high;
    const double t = (wide ? low - high : low) * simgen_inverse(wide ? low + high : high),
                 z = t * t;
    double p = 0x1.0aca40aeebce0p-6;
    p = simgen_step(p, z, -0x1.1b2f96cc7eca8p-5);
    p = simgen_step(p, z, 0x1.74dc387c1a6f4p-5);
    p = simgen_step(p, z, -0x1.ac7a3950dffbap-5);
    p = simgen_step(p, z, 0x1.e19a07798598ep-5);
    p = simgen_step(p, z, -0x1.110e878213482p-4);
    p = simgen_step(p, z, 0x1.3b1392d24f335p-4);
    p = simgen_step(p, z, -0x1.745d165db0b8dp-4);
    p = simgen_step(p, z, 0x1.c71c71c3035c8p-4);
    p = simgen_step(p, z, -0x1.249249248d7d1p-3);
    p = simgen_step(p, z, 0x1.9999999999953p-3);
    p = simgen_step(p, z, -0x1.5555555555555p-2);
    const double r = simgen_step(p * z, t, t), a = wide ? r + 0.78539816339744828 : r;
    return steep ? 1.5707963267948966 - a : a;
}
/* e^(a a) erfc(a) from 0 to 30: Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x)
 * exp(x^2) erfc x in 0 <= x < infinity", Math. Comp. 36 (1981). */
SIMGEN_NUMBER double simgen_erfcx_of(double a)
{
    const double t = (a - 4.0) * simgen_inverse(a + 4.0);
    double p = 0x1.64646f4b4500dp-30;
    p = simgen_step(p, t, 0x1.0e6e31c4c3d2dp-29);
    p = simgen_step(p, t, -0x1.e42eeabc455b0p-27);
    p = simgen_step(p, t, -0x1.39c2d26ffc7bcp-26);
    p = simgen_step(p, t, 0x1.d800d194300d8p-24);
    p = simgen_step(p, t, 0x1.4228f94cb14a0p-24);
    p = simgen_step(p, t, -0x1.bb060d489f118p-21);
    p = simgen_step(p, t, 0x1.3b43c0f10774cp-22);
    p = simgen_step(p, t, 0x1.7f2999c682cdbp-18);
    p = simgen_step(p, t, -0x1.788c36e07ec4ap-17);
    p = simgen_step(p, t, -0x1.995984dfe8aadp-16);
    p = simgen_step(p, t, 0x1.3be0679d358cep-13);
    p = simgen_step(p, t, -0x1.a1df2235b5d53p-13);
    p = simgen_step(p, t, -0x1.8d4a9c4509db7p-11);
    p = simgen_step(p, t, 0x1.49c67280cb823p-8);
    p = simgen_step(p, t, -0x1.0962388271f2fp-6);
    p = simgen_step(p, t, 0x1.3079edf69610bp-5);
    p = simgen_step(p, t, -0x1.0fb06dfe56e70p-4);
    p = simgen_step(p, t, 0x1.7fee004e11c85p-4);
    p = simgen_step(p, t, -0x1.9ddb23c3e87c0p-4);
    p = simgen_step(p, t, 0x1.16ecefcfa53c9p-4);
    p = simgen_step(p, t, 0x1.f7f5df66fd68cp-7);
    p = simgen_step(p, t, -0x1.1df1ad154a28ep-3);
    p = simgen_step(p, t, 0x1.3ba5916e9fd7fp+0);
    return p * simgen_inverse(1.0 + 2.0 * a);
}
/* erfc(a) with a from 0 on, whose square is given. */
SIMGEN_NUMBER double simgen_erfc_of(double a, double square)
{
    return a > 26.0 ? 0.0 : simgen_exp_of(-square) * simgen_erfcx_of(a);
}
/* (ln Gamma(2 + z) / z - (1 - Euler's constant)) / z, for z from -0.8 to 1/2. */
SIMGEN_NUMBER double simgen_log_gamma_series(double z)
{
    double p = -0x1.ec19cae92253bp-25;
    p = simgen_step(p, z, -0x1.512e306f652c2p-24);
    p = simgen_step(p, z, -0x1.9da1d88568b13p-26);
    p = simgen_step(p, z, 0x1.3a6ca27378b8fp-23);
    p = simgen_step(p, z, -0x1.bc4a9c292006fp-25);
    p = simgen_step(p, z, 0x1.6dcb85bf85423p-23);
    p = simgen_step(p, z, -0x1.03be3af6e7401p-21);
    p = simgen_step(p, z, 0x1.027a308fd4606p-20);
    p = simgen_step(p, z, -0x1.10241caf76035p-19);
    p = simgen_step(p, z, 0x1.2593ee8d99b12p-18);
    p = simgen_step(p, z, -0x1.3ccffeace3453p-17);
    p = simgen_step(p, z, 0x1.580d16334d989p-16);
    p = simgen_step(p, z, -0x1.78ddc77c80985p-15);
    p = simgen_step(p, z, 0x1.a127b99205afcp-14);
    p = simgen_step(p, z, -0x1.d3fd4f2ea8d96p-13);
    p = simgen_step(p, z, 0x1.0b36af702bb44p-11);
    p = simgen_step(p, z, -0x1.38ac5c283d349p-10);
    p = simgen_step(p, z, 0x1.7add6eaded323p-9);
    p = simgen_step(p, z, -0x1.e404fc2194ba4p-8);
    p = simgen_step(p, z, 0x1.51322ac7d82b9p-6);
    p = simgen_step(p, z, -0x1.13e001a5575fap-4);
    return simgen_step(p, z, 0x1.4a34cc4a60fa6p-2);
}
/* ln Gamma(2 + z), for the same z. */
SIMGEN_NUMBER double simgen_log_gamma_beside_2(double z)
{
    return simgen_step(simgen_log_gamma_series(z), z, 0x1.b0ee6072093cep-2) * z;
}
/* ln Gamma(x) above 0: `by`, what it is to be multiplied (`up`: divided) by beside e to this
 * power. */
typedef struct {
    double log, by;
    int up;
} simgen_gamma;
SIMGEN_NUMBER simgen_gamma simgen_gamma_of(double x)
{
    simgen_gamma g = { 0.0, 1.0, x < 1.2 };
    if (x >= 8.0) {
        const double w = simgen_inverse(x), z = w * w;
        double p = 1.0 / 156;
        p = simgen_step(p, z, -691.0 / 360360);
        p = simgen_step(p, z, 1.0 / 1188);
        p = simgen_step(p, z, -1.0 / 1680);
        p = simgen_step(p, z, 1.0 / 1260);
        p = simgen_step(p, z, -1.0 / 360);
        p = simgen_step(p, z, 1.0 / 12);
        g.log =
            simgen_step(x - 0.5, simgen_log_of(x) - 1.0, simgen_step(p, w, 0.41893853320467274));
        return g;
    }
    const int near_0 = x < 0.5;
    g.by = near_0 ? x * (x + 1.0) : g.up ? x : 1.0;
    double z = near_0 ? x : g.up ? x - 1.0 : x - 2.0;
    for (; z > 0.5; z -= 1.0)
        g.by *= z + 1.0;
    g.log = simgen_log_gamma_beside_2(z);
    return g;
}

/* ---- Exponentials ---- */
/* base^x 2^more, by the rest of x beside multiples of log 2 to this base; products of these are
 * exact. */
SIMGEN_NUMBER float simgen_power_of(float x, float bits, float high, float low, int more)
{
    const float k = __builtin_rintf(x * bits), r = (x - k * high) - k * low;
    const int by = (int)k + more, part = by >> 1;
    return simgen_exp2(r * bits) * SIMGEN_FLOAT(part + 127 << 23)
           * SIMGEN_FLOAT(by - part + 127 << 23);
}
SIMGEN_NUMBER float simgen_limited(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}
SIMGEN_NUMBER float simgen_f_exp(float x)
{
    return simgen_power_of(
        simgen_limited(x, -105.0f, 90.0f), 1.44269504f, 0x1.62e400p-1f, 0x1.7f7d1cp-20f, 0);
}
SIMGEN_NUMBER float simgen_f_exp10(float x)
{
    return simgen_power_of(
        simgen_limited(x, -46.0f, 39.0f), 3.32192809f, 0x1.344000p-2f, 0x1.3509f8p-18f, 0);
}
/* The instruction takes subnormal results for 0. */
SIMGEN_NUMBER float simgen_f_exp2(float x)
{
    const int small = x < -126.0f;
    return simgen_exp2(x + (small ? 64.0f : 0.0f)) * (small ? 0x1p-64f : 1.0f);
}
SIMGEN_NUMBER float simgen_f_expm1(float x)
{
    const double d = simgen_limited(x, -20.0f, 90.0f);
    const float y =
        (float)(__builtin_fabsf(x) < 0x1p-10f ? simgen_step(d * d, simgen_step(d, 1.0 / 6, 0.5), d)
                                              : simgen_exp_of(d) - 1.0);
    return x == 0.0f ? x : y;
}
SIMGEN_NUMBER float simgen_f_cosh(float x)
{
    const double a = simgen_limited(__builtin_fabsf(x), 0.0f, 95.0f), e = simgen_exp_of(a);
    return x != x ? x : (float)(0.5 * (e + simgen_inverse(e)));
}
SIMGEN_NUMBER float simgen_f_sinh(float x)
{
    const double a = simgen_limited(__builtin_fabsf(x), 0.0f, 95.0f), e = simgen_exp_of(a),
                 z = a * a;
    double p = 1.0 / 39916800;
    p = simgen_step(p, z, 1.0 / 362880);
    p = simgen_step(p, z, 1.0 / 5040);
    p = simgen_step(p, z, 1.0 / 120);
    p = simgen_step(p, z, 1.0 / 6);
    const double y = a < 0.5 ? simgen_step(p * z, a, a) : 0.5 * (e - simgen_inverse(e));
    return x != x ? x : __builtin_copysignf((float)y, x);
}
SIMGEN_NUMBER float simgen_f_tanh(float x)
{
    const float a = __builtin_fabsf(x), z = a * a;
    float p = 0x1.2c83c001d2709p-9f;
    p = simgen_f_fma(p, z, -0x1.116a168e18e77p-7f);
    p = simgen_f_fma(p, z, 0x1.64a9766b3a952p-6f);
    p = simgen_f_fma(p, z, -0x1.ba08c4e66a3c8p-5f);
    p = simgen_f_fma(p, z, 0x1.1110e919f7ad3p-3f);
    p = simgen_f_fma(p, z, -0x1.55555539a3fddp-2f);
    const float y = a < 0.625f
                        ? simgen_f_fma(p * z, a, a)
                        : 1.0f - 2.0f / (simgen_f_exp(2.0f * (a < 10.0f ? a : 10.0f)) + 1.0f);
    return x != x ? x : __builtin_copysignf(y, x);
}

/* ---- Logarithms ---- */
/* As LLVM makes it for AMD GPUs: of a subnormal number, the instruction's is that of 0. */
SIMGEN_NUMBER float simgen_f_log2(float x)
{
    const int small = x < 0x1p-126f;
    return simgen_log2(x * (small ? 0x1p32f : 1.0f)) - (small ? 32.0f : 0.0f);
}
SIMGEN_NUMBER float simgen_log_to(float x, float high, float low, float shift)
{
    const int small = x < 0x1p-126f;
    const float y = simgen_log2(x * (small ? 0x1p32f : 1.0f)), r = y * high;
    const float whole = r + simgen_f_fma(y, low, simgen_f_fma(y, high, -r));
    return (__builtin_fabsf(y) < __builtin_inff() ? whole : y) - (small ? shift : 0.0f);
}
SIMGEN_NUMBER float simgen_f_log(float x)
{
    return simgen_log_to(x, 0x1.62e42ep-1f, 0x1.efa39ep-25f, 0x1.62e430p+4f);
}
SIMGEN_NUMBER float simgen_f_log10(float x)
{
    return simgen_log_to(x, 0x1.344134p-2f, 0x1.09f79ep-26f, 0x1.344136p+3f);
}
SIMGEN_NUMBER float simgen_f_log1p(float x)
{
    const double d = x;
    if (__builtin_fabs(d) < 0x1p-13)
        return (float)simgen_step(d * d, simgen_step(simgen_step(d, -0.25, 1.0 / 3), d, -0.5), d)
               + 0.0f * x;
    return x > -1.0f    ? x < __builtin_inff() ? (float)simgen_log_of(1.0 + d) : x
           : x == -1.0f ? -__builtin_inff()
                        : __builtin_nanf("");
}
SIMGEN_NUMBER float simgen_f_asinh(float x)
{
    const double a = __builtin_fabsf(x);
    const double y = a < 0x1p-12 ? simgen_step(a * a, a * (-1.0 / 6), a)
                     : a < 1e9   ? simgen_log_of(a + simgen_root(simgen_step(a, a, 1.0)))
                                 : simgen_log_of(2.0 * a);
    return __builtin_fabsf(x) < __builtin_inff() ? __builtin_copysignf((float)y, x) : x;
}
SIMGEN_NUMBER float simgen_f_acosh(float x)
{
    const double a = (double)x - 1.0,
                 y = x < 1e9f ? simgen_log_of(1.0 + (a + simgen_root(a * (a + 2.0))))
                              : simgen_log_of(2.0 * x);
    return x >= 1.0f ? x < __builtin_inff() ? (float)y : x : __builtin_nanf("");
}
SIMGEN_NUMBER float simgen_f_atanh(float x)
{
    const double a = __builtin_fabsf(x);
    const double y = a < 0x1p-12 ? simgen_step(a * a, a * (1.0 / 3), a)
                     : a < 1.0   ? 0.5 * (simgen_log_of(1.0 + a) - simgen_log_of(1.0 - a))
                     : a == 1.0  ? __builtin_inf()
                                 : __builtin_nan("");
    return __builtin_copysignf((float)y, x);
}

/* ---- Angles ---- */
/* An angle within pi / 4 in two parts, and how many quarters of a turn are before it. */
typedef struct {
    float high, low;
    unsigned quarters;
} simgen_rest_of_turn;
/* Numbers below 2^8 less k pi / 2, whose parts of 16 bits have exact products. */
SIMGEN_NUMBER simgen_rest_of_turn simgen_within_turns(float x)
{
    const float k = __builtin_rintf(x * 0.636619772f), a = x - k * 0x1.921e00p+0f,
                p = k * 0x1.b54400p-16f;
    const float r = a - p, b = r - a;
    const simgen_rest_of_turn at = {
        r, ((a - (r - b)) - (p + b)) - k * 0x1.0b4612p-34f, (unsigned)(int)k};
    return at;
}
/* Others: the 24 bits of x by those of 1 / (2 pi) whose product is no whole number of turns. */
SIMGEN_NUMBER simgen_rest_of_turn simgen_beyond_turns(float x)
{
    const unsigned bits = SIMGEN_WORD(x), from = (bits >> 23) - 134, word = from >> 5;
    const unsigned long m = (bits & 0x7fffff) | 0x800000;
    const unsigned a = word == 0   ? 0x000028beu
                       : word == 1 ? 0x60db9391u
                       : word == 2 ? 0x054a7f09u
                                   : 0xd5f47d4du;
    const unsigned b = word == 0   ? 0x60db9391u
                       : word == 1 ? 0x054a7f09u
                       : word == 2 ? 0xd5f47d4du
                                   : 0x377036d8u;
    const unsigned c = word == 0   ? 0x054a7f09u
                       : word == 1 ? 0xd5f47d4du
                       : word == 2 ? 0x377036d8u
                                   : 0xa5664f10u;
    const unsigned d = word == 0   ? 0xd5f47d4du
                       : word == 1 ? 0x377036d8u
                       : word == 2 ? 0xa5664f10u
                                   : 0xe4107f94u;
    const unsigned by = from & 31;
    const unsigned long first = (((unsigned long)a << 32 | b) << by) >> 32,
                        second = (((unsigned long)b << 32 | c) << by) >> 32;
    const unsigned long third = (((unsigned long)c << 32 | d) << by) >> 32;
    /* of a turn, in 2^-64 */
    const unsigned long low = m * second + (m * third >> 32), part = (m * first << 32) + low;
    const unsigned quarters = (unsigned)((part + (1ul << 61)) >> 62);
    const long left = (long)(part - ((unsigned long)quarters << 62));
    const unsigned upper = (unsigned)(left >> 32), lower = (unsigned)left;
    const float p = (float)((int)upper >> 8) * 0x1p-24f;
    const float q = (float)((upper & 0xff) << 16 | lower >> 16) * 0x1p-48f, t = p + q;
    const float rest = (q - (t - p)) + (float)(lower & 0xffff) * 0x1p-64f;
    const float r = t * 0x1.921fb6p+2f;
    const simgen_rest_of_turn at = {r,
        simgen_f_fma(t, 0x1.921fb6p+2f, -r) + simgen_f_fma(t, -0x1.777a5cp-23f, rest * 6.28318531f),
        quarters};
    return at;
}
SIMGEN_NUMBER float simgen_sine_beside(simgen_rest_of_turn at)
{
    const float z = at.high * at.high;
    float p = 1.0f / 362880;
    p = simgen_f_fma(p, z, -1.0f / 5040);
    p = simgen_f_fma(p, z, 1.0f / 120);
    p = simgen_f_fma(p, z, -1.0f / 6);
    return at.high + simgen_f_fma(at.high * z, p, simgen_f_fma(-0.5f * z, at.low, at.low));
}
SIMGEN_NUMBER float simgen_cosine_beside(simgen_rest_of_turn at)
{
    const float z = at.high * at.high, part = 0.5f * z, w = 1.0f - part;
    float p = -1.0f / 3628800;
    p = simgen_f_fma(p, z, 1.0f / 40320);
    p = simgen_f_fma(p, z, -1.0f / 720);
    p = simgen_f_fma(p, z, 1.0f / 24);
    return w + (((1.0f - w) - part) + simgen_f_fma(z * z, p, -at.high * at.low));
}
SIMGEN_NUMBER simgen_rest_of_turn simgen_rest_of(float a)
{
    return a < 0x1p8f ? simgen_within_turns(a) : simgen_beyond_turns(a);
}
SIMGEN_NUMBER float simgen_f_sin(float x)
{
    const float a = __builtin_fabsf(x);
    const simgen_rest_of_turn at = simgen_rest_of(a);
    const float s = simgen_sine_beside(at), c = simgen_cosine_beside(at),
                y = at.quarters & 1 ? c : s;
    return a < __builtin_inff() ? __builtin_copysignf(1.0f, x) * (at.quarters & 2 ? -y : y)
                                : __builtin_nanf("");
}
SIMGEN_NUMBER float simgen_f_cos(float x)
{
    const float a = __builtin_fabsf(x);
    const simgen_rest_of_turn at = simgen_rest_of(a);
    const float s = simgen_sine_beside(at), c = simgen_cosine_beside(at),
                y = at.quarters & 1 ? s : c;
    return a < __builtin_inff() ? (at.quarters + 1) & 2 ? -y : y : __builtin_nanf("");
}
SIMGEN_NUMBER float simgen_f_tan(float x)
{
    const float a = __builtin_fabsf(x);
    const simgen_rest_of_turn at = simgen_rest_of(a);
    const double r = (double)at.high + at.low, s = simgen_sine_of(r), c = simgen_cosine_of(r);
    const double y = at.quarters & 1 ? -c * simgen_inverse(s) : s * simgen_inverse(c);
    return a < __builtin_inff() ? a > 0.0f ? __builtin_copysignf(1.0f, x) * (float)y : x
                                : __builtin_nanf("");
}
SIMGEN_NUMBER float simgen_f_sinpi(float x)
{
    const float y = (float)simgen_sine_of_half_turns(x);
    return !(__builtin_fabsf(x) < __builtin_inff()) ? __builtin_nanf("")
           : y == 0.0f                              ? __builtin_copysignf(y, x)
                                                    : y;
}
SIMGEN_NUMBER float simgen_f_cospi(float x)
{
    /* within a turn */
    const float a = __builtin_fabsf(x), left = a - 2.0f * __builtin_rintf(0.5f * a),
                b = __builtin_fabsf(left);
    return a < __builtin_inff()
               ? b == 0.5f ? 0.0f
                           : (float)(b > 0.25f ? simgen_sine_of_half_turns(0.5f - b)
                                               : simgen_cosine_of(b * 3.1415926535897931))
               : __builtin_nanf("");
}
SIMGEN_NUMBER float simgen_f_atan2(float y, float x)
{
    const double p = __builtin_fabsf(y), q = __builtin_fabsf(x);
    const double a = p + q == 0.0 ? 0.0 : simgen_angle_of(p, q);
    const int back = (int)SIMGEN_WORD(x) < 0;
    return x != x || y != y ? x + y
                            : __builtin_copysignf((float)(back ? 3.1415926535897931 - a : a), y);
}
SIMGEN_NUMBER float simgen_f_atan(float x)
{
    return x != x ? x : __builtin_copysignf((float)simgen_angle_of(__builtin_fabsf(x), 1.0), x);
}
SIMGEN_NUMBER float simgen_f_asin(float x)
{
    const double a = __builtin_fabsf(x);
    return a <= 1.0 ? __builtin_copysignf(
                          (float)simgen_angle_of(a, simgen_root((1.0 - a) * (1.0 + a))), x)
                    : __builtin_nanf("");
}
SIMGEN_NUMBER float simgen_f_acos(float x)
{
    const double a = __builtin_fabsf(x), y = simgen_angle_of(simgen_root((1.0 - a) * (1.0 + a)), a);
    return a <= 1.0 ? (float)(x < 0.0f ? 3.1415926535897931 - y : y) : __builtin_nanf("");
}

/* ---- Powers and roots ---- */
SIMGEN_NUMBER float simgen_f_pow(float x, float y)
{
    const float a = __builtin_fabsf(x), endless = __builtin_inff();
    const int whole = y == __builtin_rintf(y), odd = whole && 0.5f * y != __builtin_rintf(0.5f * y);
    const double log = a == 0.0f ? -__builtin_inf() : a < endless ? simgen_log_of(a) : a;
    const double t = a == 1.0f && y == y ? 0.0 : y * log;
    const float r = (float)simgen_exp_of(t > 200.0 ? 200.0 : t < -200.0 ? -200.0 : t);
    return y == 0.0f || x == 1.0f              ? 1.0f
           : x != x || y != y                  ? x + y
           : x < 0.0f && a < endless && !whole ? __builtin_nanf("")
           : odd                               ? __builtin_copysignf(r, x)
                                               : r;
}
SIMGEN_NUMBER float simgen_whole_power(float x, int y)
{
    const float a = __builtin_fabsf(x);
    const double log = a == 0.0f              ? -__builtin_inf()
                       : a < __builtin_inff() ? simgen_log_of(a)
                                              : a,
                 t = y * log;
    const float r = a == 1.0f ? 1.0f
                              : (float)simgen_exp_of(t > 200.0    ? 200.0
                                                     : t < -200.0 ? -200.0
                                                                  : t);
    return y == 0 ? 1.0f : x != x ? x : y & 1 ? __builtin_copysignf(r, x) : r;
}
SIMGEN_NUMBER float simgen_f_rsqrt(float x)
{
    const int small = x < 0x1p-126f;
    return simgen_rsq(x * (small ? 0x1p24f : 1.0f)) * (small ? 0x1p12f : 1.0f);
}
SIMGEN_NUMBER double simgen_cube_root_of(float a) /* above 0 */
{
    const double y = simgen_exp2(simgen_f_log2(a) * 0.333333333f);
    return simgen_step(simgen_step(-y * y, y, a), simgen_inverse(3.0 * y * y), y);
}
SIMGEN_NUMBER float simgen_f_cbrt(float x)
{
    const float a = __builtin_fabsf(x);
    return a > 0.0f && a < __builtin_inff() ? __builtin_copysignf((float)simgen_cube_root_of(a), x)
                                            : x;
}
SIMGEN_NUMBER float simgen_f_rcbrt(float x)
{
    const float a = __builtin_fabsf(x), y = a > 0.0f && a < __builtin_inff()
                                                ? (float)simgen_inverse(simgen_cube_root_of(a))
                                                : 1.0f / a;
    return __builtin_copysignf(y, x);
}

/* ---- Error functions and Gamma ---- */
SIMGEN_NUMBER float simgen_f_erf(float x)
{
    const double a = __builtin_fabsf(x), z = a * a;
    double p = 1.0 / 76204800;
    p = simgen_step(p, -z, 1.0 / 6894720);
    p = simgen_step(p, -z, 1.0 / 685440);
    p = simgen_step(p, -z, 1.0 / 75600);
    p = simgen_step(p, -z, 1.0 / 9360);
    p = simgen_step(p, -z, 1.0 / 1320);
    p = simgen_step(p, -z, 1.0 / 216);
    p = simgen_step(p, -z, 1.0 / 42);
    p = simgen_step(p, -z, 0.1);
    p = simgen_step(p, -z, 1.0 / 3);
    const double y =
        a < 0.5 ? 1.1283791670955126 * simgen_step(p * -z, a, a) : 1.0 - simgen_erfc_of(a, z);
    return x != x ? x : __builtin_copysignf((float)y, x);
}
SIMGEN_NUMBER float simgen_f_erfc(float x)
{
    const double a = __builtin_fabsf(x), y = simgen_erfc_of(a, a * a);
    return x != x ? x : (float)(x < 0.0f ? 2.0 - y : y);
}
SIMGEN_NUMBER float simgen_f_erfcx(float x)
{
    const double a = __builtin_fabsf(x), near = simgen_limited(-x, -1.0f, 10.0f), s = near * near;
    const double w = simgen_inverse(a > 28.0 && a < 1e39 ? a : 29.0), z = w * w;
    const double far =
        a < 1e39 ? 0.56418958354775629 * simgen_step(simgen_step(0.75, z, -0.5) * z, w, w) : 0.0;
    const double y = a > 28.0 ? far : simgen_erfcx_of(a);
    return x != x ? x : (float)(x < 0.0f ? 2.0 * simgen_exp_of(s) - y : y);
}
SIMGEN_NUMBER float simgen_f_normcdf(float x)
{
    const double a = __builtin_fabsf(x),
                 y = 0.5 * simgen_erfc_of(0.70710678118654752 * a, 0.5 * a * a);
    return x != x ? x : (float)(x < 0.0f ? y : 1.0 - y);
}
SIMGEN_NUMBER float simgen_f_lgamma(float x)
{
    const float a = __builtin_fabsf(x);
    if (!(a < __builtin_inff()))
        return x != x ? x : a;
    if (a == 0.0f || (x < 0.0f && x == __builtin_rintf(x)))
        return __builtin_inff();
    const simgen_gamma g = simgen_gamma_of(a);
    const double more = simgen_log_of(g.by), y = g.log + (g.up ? -more : more);
    return (float)(x > 0.0f ? y
                            : simgen_log_of(3.1415926535897931
                                            * simgen_inverse(
                                                a * __builtin_fabs(simgen_sine_of_half_turns(x))))
                                  - y);
}
SIMGEN_NUMBER float simgen_f_tgamma(float x)
{
    const float a = __builtin_fabsf(x);
    if (a == 0.0f)
        return 1.0f / x;
    if (x != x || (x < 0.0f && x == __builtin_rintf(x)))
        return __builtin_nanf("");
    const simgen_gamma g = simgen_gamma_of(a < 60.0f ? a : 60.0f);
    const double e = simgen_exp_of(g.log), y = g.up ? e * simgen_inverse(g.by) : e * g.by;
    return (float)(x > 0.0f ? y
                            : -3.1415926535897931
                                  * simgen_inverse(x * simgen_sine_of_half_turns(x) * y));
}

/* ---- Remainders, which are exact: quotients of 22 bits at a time ---- */
typedef struct {
    float rest;
    unsigned quotient; /* its last bits */
} simgen_division;
SIMGEN_NUMBER simgen_division simgen_divided(float a, float b) /* above 0, and not infinite */
{
    double left = a;
    const double by = b, inverse = simgen_inverse(by);
    unsigned quotient = 0;
    /* by 2^n is not above what is left, which has fewer than n + 24 bits above by's last */
    for (int n =
             ((int)(SIMGEN_LONG_BITS(left) >> 52) - (int)(SIMGEN_LONG_BITS(by) >> 52)) / 22 * 22;
        n >= 0; n -= 22) {
        const double up = SIMGEN_DOUBLE((unsigned long)(1023 + n) << 52), step = by * up;
        const double down = SIMGEN_DOUBLE((unsigned long)(1023 - n) << 52);
        double times = (left * down * inverse + 0x1.8p52) - 0x1.8p52;
        left = simgen_step(-times, step, left);
        times -= left < 0.0 ? 1.0 : 0.0;
        left += left < 0.0 ? step : 0.0;
        quotient =
            n < 32 ? quotient + ((unsigned)SIMGEN_LONG_BITS(times + 0x1.8p52) << n) : quotient;
    }
    const simgen_division found = { (float)left, quotient };
    return found;
}
SIMGEN_NUMBER float simgen_f_fmod(float x, float y)
{
    const float a = __builtin_fabsf(x), b = __builtin_fabsf(y);
    if (!(b > 0.0f) || !(a < __builtin_inff()))
        return __builtin_nanf("");
    return a < b ? x : __builtin_copysignf(simgen_divided(a, b).rest, x);
}
/* The nearest multiple of y goes; of two, the even one. */
SIMGEN_NUMBER float simgen_nearest_rest(float x, float y, int *quotient)
{
    const float a = __builtin_fabsf(x), b = __builtin_fabsf(y);
    *quotient = 0;
    if (!(b > 0.0f) || !(a < __builtin_inff()))
        return __builtin_nanf("");
    simgen_division found = { a, 0 };
    if (a >= b && b < __builtin_inff())
        found = simgen_divided(a, b);
    const double left = found.rest, twice = 2.0 * left;
    const int up = twice > b || (twice == b && found.quotient & 1);
    const int bits = (int)(found.quotient + (unsigned)up) & 0x7fffffff;
    *quotient = (int)(SIMGEN_WORD(x) ^ SIMGEN_WORD(y)) < 0 ? -bits : bits;
    const float rest = (float)(up ? left - b : left);
    return (int)SIMGEN_WORD(x) < 0 ? -rest : rest;
}
SIMGEN_NUMBER float simgen_f_remainder(float x, float y)
{
    int q;
    return simgen_nearest_rest(x, y, &q);
}
/* The length of a vector, whose squares may be no numbers: so many times as large. */
SIMGEN_NUMBER double simgen_length_of(float x, float y, float z, float w, double *times)
{
    const float p =
        __builtin_fabsf(x) > __builtin_fabsf(y) ? __builtin_fabsf(x) : __builtin_fabsf(y);
    const float q = __builtin_fabsf(z) > __builtin_fabsf(w) ? __builtin_fabsf(z)
                                                            : __builtin_fabsf(w),
                most = p > q ? p : q;
    const double a = x, b = y, c = z, d = w;
    *times = most > 0x1p40f ? 0x1p-70 : most < 0x1p-40f ? 0x1p90 : 1.0;
    const double s = *times * *times, squares = simgen_step(a, a, b * b) + simgen_step(c, c, d * d);
    const float sum =
        (__builtin_fabsf(x) == __builtin_inff()) + (__builtin_fabsf(y) == __builtin_inff())
        + (__builtin_fabsf(z) == __builtin_inff()) + (__builtin_fabsf(w) == __builtin_inff());
    return sum > 0.0f ? __builtin_inf() : simgen_root(squares * s);
}
SIMGEN_NUMBER float simgen_f_length(float x, float y, float z, float w)
{
    double times;
    const double r = simgen_length_of(x, y, z, w, &times);
    return (float)(r * (times > 1.0 ? 0x1p-90 : times < 1.0 ? 0x1p70 : 1.0));
}
SIMGEN_NUMBER float simgen_f_length_inverse(float x, float y, float z, float w)
{
    double times;
    const double r = simgen_length_of(x, y, z, w, &times);
    return r > 0.0 && r < 1e100 ? (float)(simgen_inverse(r) * times) : 1.0f / (float)r;
}
