// ---- count_bits
KERNEL(count_bits, const unsigned* x, unsigned* y)
{
    y[AT] = __builtin_popcount(x[AT]) + (x[ITEMS + AT] ? __builtin_ctz(x[ITEMS + AT]) : 32) * 100;
    y[ITEMS + AT] = x[AT] ? __builtin_clz(x[AT]) : 32;
}
// ---- count_bits_64
KERNEL(count_bits_64, const ulong64* x, unsigned* y)
{
    y[AT] = __builtin_popcountll(x[AT]) + (x[AT] ? __builtin_clzll(x[AT]) : 64) * 100;
    y[ITEMS + AT] = x[AT] ? __builtin_ctzll(x[AT]) : 64;
}
// ---- rotate
KERNEL(rotate, const unsigned* x, unsigned* y)
{
    y[AT] = __builtin_rotateleft32(x[AT], x[ITEMS + AT] & 31u) ^ __builtin_rotateleft32(x[AT], 7);
    y[ITEMS + AT] = __builtin_bitreverse32(x[AT]);
}
// ---- morton
KERNEL(morton, const unsigned* x, unsigned* y)
{
    unsigned v = x[AT] & 0xffffu;
    v = (v | v << 8) & 0xff00ffu;
    v = (v | v << 4) & 0xf0f0f0fu;
    v = (v | v << 2) & 0x33333333u;
    y[AT] = (v | v << 1) & 0x55555555u;
}
// ---- divide_unsigned
KERNEL(divide_unsigned, const unsigned* x, unsigned* y)
{
    const unsigned b = x[ITEMS + AT] ? x[ITEMS + AT] : 1u;
    y[AT] = x[AT] / b;
    y[ITEMS + AT] = x[AT] % b + x[AT] / 7u;
}
// ---- divide_signed
KERNEL(divide_signed, const int* x, int* y)
{
    const int b = x[ITEMS + AT] >> 16 ? x[ITEMS + AT] >> 16 : 3;
    y[AT] = x[AT] / b;
    y[ITEMS + AT] = x[AT] % b - x[AT] / 10;
}
// ---- divide_64
KERNEL(divide_64, const ulong64* x, ulong64* y)
{
    if (AT < ITEMS / 2)
        y[AT] = x[AT] / (x[ITEMS / 2 + AT] >> 20 | 1u);
}
// ---- multiply_64
KERNEL(multiply_64, const ulong64* x, ulong64* y)
{
    if (AT < ITEMS / 2)
        y[AT] = (ulong64)((unsigned __int128)x[AT] * x[ITEMS / 2 + AT] >> 64) + x[AT] * x[ITEMS / 2 + AT];
}
// ---- split_mix
KERNEL(split_mix, const unsigned* x, unsigned* y)
{
    ulong64 z = x[AT] * 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    y[AT] = (unsigned)z;
    y[ITEMS + AT] = (unsigned)(z >> 32);
}
// ---- signed_64
KERNEL(signed_64, const long long* x, unsigned* y)
{
    const long long a = x[AT], b = x[(AT + 1) % ITEMS];
    y[AT] = (a < b) + 2 * (a == b) + 4 * (a + b > 0) + 8 * (a - b >= -1);
    y[ITEMS + AT] = (unsigned)((a < b ? a : b) >> (AT % 64));
}
// ---- common_divisor
KERNEL(common_divisor, const unsigned* x, unsigned* y)
{
    unsigned a = x[AT] & 0xffffu, b = x[ITEMS + AT] & 0xffffu;
    while (b) {
        const unsigned next = a % b;
        a = b;
        b = next;
    }
    y[AT] = a;
}
// ---- binary_divisor
KERNEL(binary_divisor, const unsigned* x, unsigned* y)
{
    unsigned a = x[AT] | 1u, b = x[ITEMS + AT] | 1u;
    while (a != b) {
        const unsigned more = a > b ? a - b : b - a, less = a > b ? b : a;
        a = more >> __builtin_ctz(more);
        b = less;
    }
    y[AT] = a;
}
// ---- state_machine
KERNEL(state_machine, const unsigned* x, unsigned* y)
{
    unsigned state = 0, count = 0;
    for (unsigned k = 0; k < 32; k++) {
        const unsigned bit = x[AT] >> k & 1u;
        switch (state) {
        case 0: state = bit ? 1 : 0; break;
        case 1: state = bit ? 2 : 3; count += 1; break;
        case 2: state = bit ? 4 : 0; count += 10; break;
        case 3: state = bit ? 0 : 5; count ^= 3; break;
        case 4: state = bit ? 4 : 1; count += 100; break;
        case 5: state = bit ? 2 : 6; count += 7; break;
        default: state = 0; count -= 1; break;
        }
    }
    y[AT] = count * 8 + state;
}
// ---- opcode_switch
KERNEL(opcode_switch, const unsigned* x, unsigned* y)
{
    const unsigned a = x[AT], b = x[ITEMS + AT];
    unsigned r;
    switch (a % 9) {
    case 0: r = a + b; break;
    case 1: r = a - b; break;
    case 2: r = a * b; break;
    case 3: r = a & b; break;
    case 4: r = a | b; break;
    case 5: r = a ^ b; break;
    case 6: r = a << (b & 31); break;
    case 7: r = a >> (b & 31); break;
    default: r = ~a; break;
    }
    y[AT] = r;
}
// ---- binary_search
KERNEL(binary_search, const unsigned* x, unsigned* y)
{
    unsigned low = 0, high = ITEMS;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (x[middle] < x[ITEMS + AT])
            low = middle + 1;
        else
            high = middle;
    }
    y[AT] = low;
}
// ---- collatz
KERNEL(collatz, const unsigned* x, unsigned* y)
{
    ulong64 n = (x[AT] & 1023u) + 1u;
    unsigned steps = 0;
    while (n != 1) {
        n = n & 1 ? 3 * n + 1 : n / 2;
        steps++;
    }
    y[AT] = steps;
}
// ---- saturating
KERNEL(saturating, const int* x, int* y)
{
    int sum, product;
    const bool over = __builtin_add_overflow(x[AT], x[ITEMS + AT], &sum);
    const bool wide = __builtin_mul_overflow(x[AT], x[ITEMS + AT], &product);
    y[AT] = over ? (x[AT] < 0 ? -2147483647 - 1 : 2147483647) : sum;
    y[ITEMS + AT] = wide ? -1 : product;
}
// ---- xor_shift
KERNEL(xor_shift, const unsigned* x, unsigned* y)
{
    unsigned s = x[AT] | 1u;
    for (unsigned k = 0; k < 20; k++) {
        s ^= s << 13;
        s ^= s >> 17;
        s ^= s << 5;
    }
    y[AT] = s;
}
// ---- integer_root
KERNEL(integer_root, const unsigned* x, unsigned* y)
{
    unsigned n = x[AT], root = 0;
    for (unsigned bit = 1u << 30; bit; bit >>= 2) {
        if (n >= root + bit) {
            n -= root + bit;
            root = (root >> 1) + bit;
        } else
            root >>= 1;
    }
    y[AT] = root;
}
// ---- checksum
KERNEL(checksum, const unsigned* x, unsigned* y)
{
    unsigned crc = 0xffffffffu ^ x[AT];
    for (unsigned k = 0; k < 32; k++)
        crc = crc >> 1 ^ (crc & 1u ? 0xedb88320u : 0u);
    y[AT] = ~crc;
}
// ---- absolute_differences
KERNEL(absolute_differences, const unsigned* x, unsigned* y)
{
    unsigned sum = 0;
    for (unsigned k = 0; k < 4; k++) {
        const int a = x[AT] >> 8 * k & 255u, b = x[ITEMS + AT] >> 8 * k & 255u;
        sum += a > b ? a - b : b - a;
    }
    y[AT] = sum;
}
// ---- magic_square
KERNEL(magic_square, const int* x, int* y)
{
    const int a = x[AT] >> 20, b = x[ITEMS + AT] >> 20;
    y[AT] = __builtin_abs(a - b) * (a > b ? a : b) + (a < 0 ? -1 : 1) * (b & -b);
}
