// ---- half_load
KERNEL(half_load, const half* x, float* y) { y[AT] = 2.0f * (float)x[AT]; }
// ---- half_store
KERNEL(half_store, const float* x, half* y) { y[AT] = (half)x[AT]; }
// ---- half_axpy
KERNEL(half_axpy, const half* x, half* y) { y[AT] = (half)0.5f * x[AT] + x[ITEMS + AT]; }
// ---- half_pack
KERNEL(half_pack, const float* x, unsigned* y)
{
    const half a = (half)x[AT], b = (half)x[ITEMS + AT];
    y[AT] = (unsigned)__builtin_bit_cast(ushort, a) | (unsigned)__builtin_bit_cast(ushort, b) << 16;
}
// ---- half_unpack
KERNEL(half_unpack, const unsigned* x, float* y)
{
    y[AT] = (float)__builtin_bit_cast(half, (ushort)x[AT]);
    y[ITEMS + AT] = (float)__builtin_bit_cast(half, (ushort)(x[AT] >> 16));
}
// ---- half_dot
KERNEL(half_dot, const half* x, float* y)
{
    float sum = 0;
    for (unsigned k = 0; k < 8; k++)
        sum += (float)x[(AT + k) % ITEMS] * (float)x[ITEMS + (AT + k) % ITEMS];
    y[AT] = sum;
}
// ---- half_limits
KERNEL(half_limits, const half* x, half* y)
{
    const half a = x[AT], b = x[ITEMS + AT];
    y[AT] = a > b ? a - b : a * b;
}
// ---- bfloat_round
KERNEL(bfloat_round, const float* x, ushort* y)
{
    const unsigned u = as_uint(x[AT]);
    y[AT] = x[AT] != x[AT] ? (ushort)0x7fc0 : (ushort)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
// ---- bfloat_load
KERNEL(bfloat_load, const ushort* x, float* y) { y[AT] = as_float((unsigned)x[AT] << 16); }
// ---- grey_image
KERNEL(grey_image, const uchar* x, uchar* y)
{
    y[AT] = (uchar)((77u * x[3 * AT] + 151u * x[3 * AT + 1] + 28u * x[3 * AT + 2]) >> 8);
}
// ---- threshold_image
KERNEL(threshold_image, const uchar* x, uchar* y) { y[AT] = x[AT] > 127 ? 255 : 0; }
// ---- dequantise
KERNEL(dequantise, const signed char* x, float* y) { y[AT] = 0.125f * (float)(x[AT] - 3); }
// ---- quantise
KERNEL(quantise, const float* x, signed char* y)
{
    const float scaled = __builtin_rintf(x[AT] * 4.0f);
    y[AT] = (signed char)(int)__builtin_fminf(__builtin_fmaxf(scaled, -128.0f), 127.0f);
}
// ---- quantise_packed
KERNEL(quantise_packed, const float* x, unsigned* y)
{
    unsigned packed = 0;
    for (unsigned k = 0; k < 4; k++) {
        const float scaled = __builtin_rintf(x[k * ITEMS + AT] * 4.0f);
        packed |= ((unsigned)(int)__builtin_fminf(__builtin_fmaxf(scaled, -128.0f), 127.0f) & 255u) << 8 * k;
    }
    y[AT] = packed;
}
// ---- audio_mix
KERNEL(audio_mix, const short* x, short* y)
{
    const int sum = x[AT] + x[ITEMS + AT];
    y[AT] = (short)(sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum);
}
// ---- byte_lookup
KERNEL(byte_lookup, const uchar* x, unsigned* y) { y[AT] = x[x[AT] + 256]; }
// ---- byte_bins
KERNEL(byte_bins, const unsigned* x, unsigned* y)
{
    __shared__ uchar bins[16][BLOCK];
    const unsigned t = threadIdx.x;
    for (unsigned k = 0; k < 16; k++)
        bins[k][t] = 0;
    for (unsigned k = 0; k < 8; k++)
        bins[x[AT] >> 4 * k & 15u][t] += 1;
    __syncthreads();
    if (t < 16) {
        unsigned sum = 0;
        for (unsigned k = 0; k < BLOCK; k++)
            sum += bins[t][k];
        y[blockIdx.x * 16 + t] = sum;
    }
}
// ---- short_tile
KERNEL(short_tile, const ushort* x, unsigned* y)
{
    __shared__ short tile[16][17];
    const unsigned t = threadIdx.x;
    tile[t / 16][t % 16] = (short)x[AT];
    __syncthreads();
    y[AT] = (unsigned)(int)tile[t % 16][t / 16];
}
// ---- swap_bytes
KERNEL(swap_bytes, const unsigned* x, unsigned* y)
{
    y[AT] = __builtin_bswap32(x[AT]);
    y[ITEMS + AT] = (x[AT] & 0xff00ffu) << 8 | (x[AT] >> 8 & 0xff00ffu);
}
// ---- upper_case
KERNEL(upper_case, const uchar* x, uchar* y)
{
    y[AT] = x[AT] >= 'a' && x[AT] <= 'z' ? x[AT] - 32 : x[AT];
}
// ---- byte_filter
KERNEL(byte_filter, const uchar* x, uchar* y)
{
    const unsigned left = AT ? x[AT - 1] : 0u, right = AT + 1 < ITEMS ? x[AT + 1] : 0u;
    y[AT] = (uchar)((left + 2u * x[AT] + right + 2u) >> 2);
}
// ---- odd_bytes
KERNEL(odd_bytes, const uchar* x, uchar* y)
{
    if (AT % 3)
        y[AT] = (uchar)(x[AT] ^ 0x5au);
}
// ---- byte_dot
KERNEL(byte_dot, const int* x, int* y)
{
    int sum = 0;
    for (unsigned k = 0; k < 4; k++)
        sum += (int)(signed char)(x[AT] >> 8 * k) * (int)(signed char)(x[ITEMS + AT] >> 8 * k);
    y[AT] = sum;
}
// ---- colour_floats
KERNEL(colour_floats, const unsigned* x, float* y)
{
    const unsigned c = x[AT];
    y[AT] = (float)(c & 255) * 0.25f + (float)(c >> 8 & 255) * 0.5f;
    y[ITEMS + AT] = (float)(c >> 16 & 255) - (float)(c >> 24);
}
