/* Multiply-adds that round once, for a simulator whose instruction rounds the product, too. What
 * is left out of a sum is known (Knuth's TwoSum); a sum that is not exact is rounded to odd,
 * after which rounding to fewer places is right (Boldo and Melquiond, "Emulation of a FMA and
 * correctly rounded sums", 2008). */
SIMGEN_HERE double simgen_left_out(double a, double b, double sum)
{
    const double part = sum - a;
    return (a - (sum - part)) + (b - part);
}
SIMGEN_HERE double simgen_to_odd(double sum, double left_out)
{
    const long bits = SIMGEN_AS(long, sum), left = SIMGEN_AS(long, left_out);
    const unsigned size = (unsigned)(left >> 32) & 0x7fffffff; /* of 0 or NaN none of these: */
    const int step =
        ((unsigned)bits & 1) || size - 1u >= 0x7fefffffu ? 0 : (int)((bits ^ left) >> 63) | 1;
    return SIMGEN_AS(double, bits + step);
}
SIMGEN_HERE float simgen_fused_float(float a, float b, float c)
{
    /* this product is exact */
    const double product = (double)a * (double)b, sum = product + (double)c;
    return (float)simgen_to_odd(sum, simgen_left_out(product, (double)c, sum));
}
/* clang would make v_cmp_class_f64 of it, if it saw where the word comes from. */
SIMGEN_HERE int simgen_exponent(double x)
{
    unsigned upper = (unsigned)(SIMGEN_AS(long, x) >> 32);
    SIMGEN_HIDE(upper);
    return (int)(upper << 1 >> 21);
}
/* -1022 to 1023 */
SIMGEN_HERE double simgen_power_of_two(long e) { return SIMGEN_AS(double, (e + 1023) << 52); }
SIMGEN_HERE double simgen_upper_half(double x) /* 26 bits (Dekker) */
{
    const double part = 0x1.0000002p27 * x;
    return part - (part - x);
}
/* Of factors from 1 to 2 the product is a sum of two numbers. A summand that is far from it
 * tells its side alone. Results that are subnormal are rounded twice. */
SIMGEN_HERE double simgen_fused_double(double a, double b, double c)
{
    const double plain = a * b;
    if (simgen_exponent(a) == 0x7ff || simgen_exponent(b) == 0x7ff || a == 0.0 || b == 0.0)
        return plain + c;
    if (simgen_exponent(c) == 0x7ff)
        return c;
    long e = 0, far = 0;
    double x[3] = { a, b, c };
    for (int i = 0; i < 3; i++) {
        const long less = simgen_exponent(x[i]) ? 0 : 54,
                   bits = SIMGEN_AS(long, less ? x[i] * 0x1p54 : x[i]);
        const long found = (bits >> 52 & 0x7ff) - 1023 - less;
        e += i < 2 ? found : 0;
        far = found - e;
        x[i] = x[i] == 0.0 ? x[i]
                           : SIMGEN_AS(double, (bits & 0x800fffffffffffffl) | 0x3ff0000000000000l);
    }
    const long by = far > 130 ? 130 : far < -130 ? -130 : far;
    const double third = x[2] * simgen_power_of_two(by);
    const double p = x[0] * x[1], m = simgen_upper_half(x[0]), n = simgen_upper_half(x[1]),
                 k = x[0] - m, l = x[1] - n;
    const double rest = ((m * n - p) + m * l + k * n) + k * l;
    const double t = third + rest, u = p + t;
    const double t_left = simgen_left_out(third, rest, t), u_left = simgen_left_out(p, t, u),
                 low = t_left + u_left;
    double r = u + simgen_to_odd(low, simgen_left_out(t_left, u_left, low));
    e += far > 130 ? far - 130 : 0; /* the sum is the third, then */
    for (int i = 0; i < 3; i++) {
        const long step = e > 1000 ? 1000 : e < -1000 ? -1000 : e;
        r *= simgen_power_of_two(step);
        e -= step;
    }
    return r;
}
