// ---- divide
KERNEL(divide, const float* x, float* y) { y[AT] = x[AT] / x[ITEMS + AT]; }
// ---- reciprocal_root
KERNEL(reciprocal_root, const float* x, float* y)
{
    y[AT] = 1.0f / __builtin_sqrtf(__builtin_fabsf(x[AT]));
}
// ---- root
KERNEL(root, const float* x, float* y) { y[AT] = __builtin_sqrtf(x[AT]); }
// ---- exponential
KERNEL(exponential, const float* x, float* y) { y[AT] = __builtin_expf(x[AT]); }
// ---- logarithm
KERNEL(logarithm, const float* x, float* y) { y[AT] = __builtin_logf(x[AT]); }
// ---- softplus
KERNEL(softplus, const float* x, float* y) { y[AT] = __builtin_logf(1.0f + __builtin_expf(x[AT])); }
// ---- sigmoid
KERNEL(sigmoid, const float* x, float* y) { y[AT] = 1.0f / (1.0f + __builtin_expf(-x[AT])); }
// ---- gelu
KERNEL(gelu, const float* x, float* y)
{
    const float v = x[AT], u = 0.7978845608f * (v + 0.044715f * v * v * v);
    y[AT] = v * (1.0f - 1.0f / (__builtin_expf(2.0f * u) + 1.0f));
}
// ---- power
KERNEL(power, const float* x, float* y)
{
    y[AT] = __builtin_exp2f(x[ITEMS + AT] * __builtin_log2f(x[AT]));
}
// ---- rotary_embedding
KERNEL(rotary_embedding, const float* x, float* y)
{
    const float angle = (float)(AT / 16) * __builtin_exp2f(-0.5f * (float)(AT % 16));
    const float c = __builtin_cosf(angle), s = __builtin_sinf(angle);
    y[AT] = x[AT] * c - x[ITEMS + AT] * s;
    y[ITEMS + AT] = x[AT] * s + x[ITEMS + AT] * c;
}
// ---- normalise_vector
KERNEL(normalise_vector, const float* x, float* y)
{
    const float a = x[AT], b = x[ITEMS + AT];
    const float norm = __builtin_sqrtf(a * a + b * b);
    y[AT] = a / norm;
    y[ITEMS + AT] = b / norm;
}
// ---- mandelbrot
KERNEL(mandelbrot, const float* x, float* y)
{
    const float a = x[AT], b = x[ITEMS + AT];
    float u = 0, v = 0;
    int steps = 0;
    while (u * u + v * v < 4.0f && steps < 50) {
        const float next = u * u - v * v + a;
        v = 2.0f * u * v + b;
        u = next;
        steps++;
    }
    y[AT] = (float)steps;
}
// ---- floor_modulo
KERNEL(floor_modulo, const float* x, float* y)
{
    const float a = x[AT], b = x[ITEMS + AT];
    y[AT] = a - __builtin_floorf(a / b) * b;
    y[ITEMS + AT] = __builtin_roundf(a) + __builtin_ceilf(b) + __builtin_truncf(a * b);
}
// ---- scale_by_power
KERNEL(scale_by_power, const float* x, float* y)
{
    y[AT] = __builtin_ldexpf(x[AT], (int)(AT % 301) - 150);
}
// ---- black_scholes
KERNEL(black_scholes, const float* x, float* y)
{
    const float s = x[AT], k = x[ITEMS + AT], v = 0.3f, t = 1.5f, r = 0.02f;
    const float root = __builtin_sqrtf(t);
    const float d = (__builtin_logf(s / k) + (r + 0.5f * v * v) * t) / (v * root);
    const float m = 1.0f / (1.0f + 0.2316419f * __builtin_fabsf(d));
    const float p = m * (0.31938153f + m * (-0.356563782f + m * (1.781477937f + m * (-1.821255978f + m * 1.330274429f))));
    const float tail = 0.39894228f * __builtin_expf(-0.5f * d * d) * p;
    y[AT] = d > 0.0f ? 1.0f - tail : tail;
}
// ---- classify
KERNEL(classify, const float* x, unsigned* y)
{
    const float a = x[AT];
    y[AT] = __builtin_isnan(a) ? 1u : __builtin_isinf(a) ? 2u : a == 0.0f ? 3u : a < 0.0f ? 4u : 5u;
    y[ITEMS + AT] = (unsigned)__builtin_signbit(a) + 2u * ((as_uint(a) & 0x7fffffffu) < 0x00800000u);
}
// ---- limits
KERNEL(limits, const float* x, float* y)
{
    const float a = x[AT], b = x[ITEMS + AT];
    y[AT] = __builtin_copysignf(__builtin_fmaxf(a, b), -a);
    y[ITEMS + AT] = __builtin_fminf(__builtin_fmaxf(a, -1.0f), 1.0f) + __builtin_fminf(a, b);
}
// ---- kahan_sum
KERNEL(kahan_sum, const float* x, float* y)
{
    float sum = 0, lost = 0;
    for (unsigned k = 0; k < AT % 37 + 1; k++) {
        const float term = x[(AT + 5 * k) % ITEMS] - lost, next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    y[AT] = sum;
}
// ---- double_dot
KERNEL(double_dot, const float* x, float* y)
{
    double sum = 0;
    for (unsigned k = 0; k < 16; k++)
        sum += (double)x[(AT + k) % ITEMS] * (double)x[ITEMS + (AT + k) % ITEMS];
    y[AT] = (float)sum;
}
// ---- bilinear_sample
KERNEL(bilinear_sample, const float* x, float* y)
{
    const float u = __builtin_fabsf(x[ITEMS + AT]), v = __builtin_fabsf(x[2 * ITEMS + AT]);
    const int column = (int)u % 31, row = (int)v % 15;
    const float fu = u - __builtin_floorf(u), fv = v - __builtin_floorf(v);
    const float* p = x + row * 32 + column;
    const float top = p[0] + fu * (p[1] - p[0]), low = p[32] + fu * (p[33] - p[32]);
    y[AT] = top + fv * (low - top);
}
// ---- newton_cube_root
KERNEL(newton_cube_root, const float* x, float* y)
{
    const float a = __builtin_fabsf(x[AT]) + 0.01f;
    float r = a > 1.0f ? a : 1.0f;
    for (unsigned k = 0; k < 40; k++)
        r = (2.0f * r + a / (r * r)) / 3.0f;
    y[AT] = r;
}
// ---- n_body
KERNEL(n_body, const float* x, float* y)
{
    float force = 0;
    for (unsigned k = 0; k < 32; k++) {
        const float dx = x[k] - x[AT], dy = x[ITEMS + k] - x[ITEMS + AT];
        const float r2 = dx * dx + dy * dy + 0.01f, r = __builtin_sqrtf(r2);
        force += dx / (r2 * r);
    }
    y[AT] = force;
}
// ---- softmax_row
KERNEL(softmax_row, const float* x, float* y)
{
    __shared__ float row[BLOCK];
    const unsigned t = threadIdx.x;
    const float v = x[AT];
    row[t] = v;
    __syncthreads();
    for (unsigned s = BLOCK / 2; s; s /= 2) {
        if (t < s)
            row[t] = __builtin_fmaxf(row[t], row[t + s]);
        __syncthreads();
    }
    const float e = __builtin_expf(v - row[0]);
    __syncthreads();
    row[t] = e;
    __syncthreads();
    for (unsigned s = BLOCK / 2; s; s /= 2) {
        if (t < s)
            row[t] += row[t + s];
        __syncthreads();
    }
    y[AT] = e / row[0];
}
// ---- layer_norm
KERNEL(layer_norm, const float* x, float* y)
{
    __shared__ float sum[BLOCK], squares[BLOCK];
    const unsigned t = threadIdx.x;
    sum[t] = x[AT];
    squares[t] = x[AT] * x[AT];
    __syncthreads();
    for (unsigned s = BLOCK / 2; s; s /= 2) {
        if (t < s) {
            sum[t] += sum[t + s];
            squares[t] += squares[t + s];
        }
        __syncthreads();
    }
    const float mean = sum[0] / BLOCK, variance = squares[0] / BLOCK - mean * mean;
    y[AT] = (x[AT] - mean) / __builtin_sqrtf(variance + 1e-5f);
}
