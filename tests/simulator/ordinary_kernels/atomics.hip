// ---- count_atomic
KERNEL(count_atomic, const unsigned* x, unsigned* y)
{
    __atomic_fetch_add(&y[x[AT] % 64], 1u, __ATOMIC_RELAXED);
}
// ---- count_shared
KERNEL(count_shared, const unsigned* x, unsigned* y)
{
    __shared__ unsigned bins[64];
    const unsigned t = threadIdx.x;
    if (t < 64)
        bins[t] = 0;
    __syncthreads();
    __atomic_fetch_add(&bins[x[AT] % 64], 1u, __ATOMIC_RELAXED);
    __syncthreads();
    if (t < 64)
        y[blockIdx.x * 64 + t] = bins[t];
}
// ---- sum_atomic
KERNEL(sum_atomic, const float* x, float* y)
{
    __hip_atomic_fetch_add(&y[AT % 8], x[AT], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
// ---- extremes_atomic
KERNEL(extremes_atomic, const int* x, int* y)
{
    __hip_atomic_fetch_max(&y[AT % 16], x[AT], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_min(&y[16 + AT % 16], x[AT], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
// ---- append
KERNEL(append, const int* x, int* y)
{
    if (x[AT] > 0)
        y[ITEMS + __hip_atomic_fetch_add(&y[0], 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)] = 7;
}
// ---- bits_atomic
KERNEL(bits_atomic, const unsigned* x, unsigned* y)
{
    __hip_atomic_fetch_or(&y[x[AT] / 32 % 16], 1u << x[AT] % 32, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_xor(&y[16 + x[AT] / 32 % 16], 1u << x[AT] % 32, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
// ---- exchange_loop
KERNEL(exchange_loop, const unsigned* x, unsigned* y)
{
    unsigned* p = &y[AT % 4];
    unsigned old = *p;
    while (!__hip_atomic_compare_exchange_strong(p, &old, old * 1u + x[AT] % 16u, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)) {
    }
}
// ---- shared_extreme
KERNEL(shared_extreme, const int* x, int* y)
{
    __shared__ int most, count;
    if (threadIdx.x == 0) {
        most = -2147483647;
        count = 0;
    }
    __syncthreads();
    __hip_atomic_fetch_max(&most, x[AT], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    const int ticket = __hip_atomic_fetch_add(&count, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    __syncthreads();
    y[blockIdx.x * BLOCK + ticket] = most;
}
