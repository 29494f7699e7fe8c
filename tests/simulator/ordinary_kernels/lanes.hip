// ---- wave_sum
KERNEL(wave_sum, const int* x, int* y)
{
    const unsigned lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
    int sum = x[AT];
    for (unsigned s = 32; s; s /= 2)
        sum += __builtin_amdgcn_ds_bpermute((lane ^ s) * 4, sum);
    y[AT] = sum;
}
// ---- shuffle_down
KERNEL(shuffle_down, const int* x, int* y)
{
    const unsigned lane = threadIdx.x % 64;
    int sum = x[AT];
    for (unsigned s = 1; s < 64; s *= 2) {
        const int other = __builtin_amdgcn_ds_bpermute((lane + s) * 4, sum);
        sum += lane + s < 64 ? other : 0;
    }
    y[AT] = sum;
}
// ---- shuffle_divergent
KERNEL(shuffle_divergent, const int* x, int* y)
{
    int v = x[AT];
    if (threadIdx.x % 3 != 1)
        v += __builtin_amdgcn_ds_bpermute(((threadIdx.x + 3) % 63 / 3 * 3 + threadIdx.x % 3) * 4, v);
    y[AT] = v;
}
// ---- permute_forward
KERNEL(permute_forward, const int* x, int* y)
{
    y[AT] = __builtin_amdgcn_ds_permute((threadIdx.x * 5 + 3) % 64 * 4, x[AT]);
}
// ---- swizzle_xor
KERNEL(swizzle_xor, const int* x, int* y)
{
    int v = x[AT];
    const int other = __builtin_amdgcn_ds_swizzle(v, 0x041f);
    v = v > other ? v : other;
    v += __builtin_amdgcn_ds_swizzle(v, 0x101f);
    y[AT] = v - __builtin_amdgcn_ds_swizzle(v, 0x80b1);
}
// ---- dpp_scan
KERNEL(dpp_scan, const int* x, int* y)
{
    int v = x[AT];
    v += __builtin_amdgcn_update_dpp(0, v, 0x111, 0xf, 0xf, false);
    v += __builtin_amdgcn_update_dpp(0, v, 0x112, 0xf, 0xf, false);
    v += __builtin_amdgcn_update_dpp(0, v, 0x114, 0xf, 0xf, false);
    v += __builtin_amdgcn_update_dpp(0, v, 0x118, 0xf, 0xf, false);
    y[AT] = v;
}
// ---- dpp_quads
KERNEL(dpp_quads, const float* x, float* y)
{
    const int v = __builtin_bit_cast(int, x[AT]);
    const int across = __builtin_amdgcn_mov_dpp(v, 0xb1, 0xf, 0xf, true);
    const int mirrored = __builtin_amdgcn_mov_dpp(v, 0x140, 0xf, 0xf, true);
    y[AT] = x[AT] + __builtin_bit_cast(float, across) - __builtin_bit_cast(float, mirrored);
}
// ---- compact
KERNEL(compact, const int* x, int* y)
{
    const bool keep = x[AT] > 0;
    const unsigned long mask = __builtin_amdgcn_ballot_w64(keep);
    const unsigned before = __builtin_amdgcn_mbcnt_hi((unsigned)(mask >> 32), __builtin_amdgcn_mbcnt_lo((unsigned)mask, 0));
    const unsigned first = AT / 64 * 64;
    y[ITEMS + AT] = __builtin_popcountll(mask);
    if (keep)
        y[first + before] = x[AT];
}
// ---- any_and_all
KERNEL(any_and_all, const int* x, unsigned* y)
{
    const unsigned long mask = __builtin_amdgcn_ballot_w64(x[AT] > 0);
    y[AT] = (mask != 0) + 2u * (mask == ~0ul);
    y[ITEMS + AT] = mask ? __builtin_ctzl(mask) : 64;
}
// ---- read_lane
KERNEL(read_lane, const int* x, int* y)
{
    const int lane = __builtin_amdgcn_readfirstlane(x[AT]) & 63;
    y[AT] = x[AT] + __builtin_amdgcn_readlane(x[ITEMS + AT], lane) + __builtin_amdgcn_readlane(x[AT], 13);
}
// ---- unique_values
KERNEL(unique_values, const unsigned* x, unsigned* y)
{
    const unsigned v = x[AT] % 5;
    unsigned seen = 0;
    for (bool left = true; left;) {
        const unsigned leader = __builtin_amdgcn_readfirstlane(v);
        seen++;
        if (leader == v)
            left = false;
    }
    y[AT] = seen;
}
