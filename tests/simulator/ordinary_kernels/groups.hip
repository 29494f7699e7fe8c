// ---- clear
KERNEL(clear, const float* x, unsigned* y) { y[AT] = y[ITEMS + AT] = 0; }
// ---- block_sum
KERNEL(block_sum, const float* x, float* y)
{
    __shared__ float part[BLOCK];
    const unsigned t = threadIdx.x;
    part[t] = x[AT];
    __syncthreads();
    for (unsigned s = BLOCK / 2; s; s /= 2) {
        if (t < s)
            part[t] += part[t + s];
        __syncthreads();
    }
    if (t == 0)
        y[blockIdx.x] = part[0];
}
// ---- scan
KERNEL(scan, const unsigned* x, unsigned* y)
{
    __shared__ unsigned sums[2][BLOCK];
    const unsigned t = threadIdx.x;
    unsigned from = 0;
    sums[0][t] = x[AT];
    __syncthreads();
    for (unsigned s = 1; s < BLOCK; s *= 2) {
        sums[1 - from][t] = sums[from][t] + (t >= s ? sums[from][t - s] : 0);
        from = 1 - from;
        __syncthreads();
    }
    y[AT] = sums[from][t];
}
// ---- tree_scan
KERNEL(tree_scan, const unsigned* x, unsigned* y)
{
    __shared__ unsigned tree[BLOCK];
    const unsigned t = threadIdx.x;
    tree[t] = x[AT];
    for (unsigned s = 1; s < BLOCK; s *= 2) {
        __syncthreads();
        if ((t + 1) % (2 * s) == 0)
            tree[t] += tree[t - s];
    }
    if (t == BLOCK - 1)
        tree[t] = 0;
    for (unsigned s = BLOCK / 2; s; s /= 2) {
        __syncthreads();
        if ((t + 1) % (2 * s) == 0) {
            const unsigned left = tree[t - s];
            tree[t - s] = tree[t];
            tree[t] += left;
        }
    }
    __syncthreads();
    y[AT] = tree[t];
}
// ---- transpose
KERNEL(transpose, const float* x, float* y)
{
    __shared__ float tile[16][17];
    const unsigned column = threadIdx.x % 16, row = threadIdx.x / 16;
    tile[row][column] = x[row * 32 + blockIdx.x * 16 + column];
    __syncthreads();
    y[(blockIdx.x * 16 + row) * 16 + column] = tile[column][row];
}
// ---- bitonic_sort
KERNEL(bitonic_sort, const int* x, int* y)
{
    __shared__ int keys[BLOCK];
    const unsigned t = threadIdx.x;
    keys[t] = x[AT];
    for (unsigned size = 2; size <= BLOCK; size *= 2)
        for (unsigned s = size / 2; s; s /= 2) {
            __syncthreads();
            const unsigned other = t ^ s;
            if (other > t && (keys[t] > keys[other]) == ((t & size) == 0)) {
                const int held = keys[t];
                keys[t] = keys[other];
                keys[other] = held;
            }
        }
    __syncthreads();
    y[AT] = keys[t];
}
// ---- sorting_network
KERNEL(sorting_network, const float* x, float* y)
{
    float v[4];
    for (unsigned k = 0; k < 4; k++)
        v[k] = x[k * ITEMS + AT];
#define EXCHANGE(a, b) { const float low = __builtin_fminf(v[a], v[b]), high = __builtin_fmaxf(v[a], v[b]); v[a] = low; v[b] = high; }
    EXCHANGE(0, 1) EXCHANGE(2, 3) EXCHANGE(0, 2) EXCHANGE(1, 3) EXCHANGE(1, 2)
    y[AT] = v[1];
    y[ITEMS + AT] = v[3];
}
// ---- stencil
KERNEL(stencil, const float* x, float* y)
{
    __shared__ float halo[BLOCK + 2];
    const unsigned t = threadIdx.x;
    halo[t + 1] = x[AT];
    if (t == 0)
        halo[0] = AT ? x[AT - 1] : 0.0f;
    if (t == BLOCK - 1)
        halo[t + 2] = AT + 1 < ITEMS ? x[AT + 1] : 0.0f;
    __syncthreads();
    y[AT] = 0.25f * halo[t] + 0.5f * halo[t + 1] + 0.25f * halo[t + 2];
}
// ---- stencil_2d
KERNEL(stencil_2d, const float* x, float* y)
{
    const int column = AT % 23, row = AT / 23;
    float sum = -4.0f * x[AT];
    sum += column > 0 ? x[AT - 1] : 0.0f;
    sum += column < 22 ? x[AT + 1] : 0.0f;
    sum += row > 0 ? x[AT - 23] : 0.0f;
    sum += AT + 23 < ITEMS ? x[AT + 23] : 0.0f;
    y[AT] = sum;
}
// ---- matrix_tile
KERNEL(matrix_tile, const float* x, float* y)
{
    __shared__ float a[16][16], b[16][17];
    const unsigned column = threadIdx.x % 16, row = threadIdx.x / 16;
    a[row][column] = x[AT];
    b[row][column] = x[ITEMS + AT];
    __syncthreads();
    float sum = 0;
    for (unsigned k = 0; k < 16; k++)
        sum += a[row][k] * b[k][column];
    y[AT] = sum;
}
// ---- gather
KERNEL(gather, const unsigned* x, unsigned* y) { y[AT] = x[x[ITEMS + AT] % ITEMS]; }
// ---- scatter
KERNEL(scatter, const unsigned* x, unsigned* y) { y[(AT * 77u + 5u) % ITEMS] = x[AT]; }
// ---- arg_max
KERNEL(arg_max, const float* x, unsigned* y)
{
    __shared__ float most[BLOCK];
    __shared__ unsigned where[BLOCK];
    const unsigned t = threadIdx.x;
    most[t] = x[AT];
    where[t] = t;
    for (unsigned s = BLOCK / 2; s; s /= 2) {
        __syncthreads();
        if (t < s && (most[t + s] > most[t] || (most[t + s] == most[t] && where[t + s] < where[t]))) {
            most[t] = most[t + s];
            where[t] = where[t + s];
        }
    }
    __syncthreads();
    if (t == 0)
        y[blockIdx.x] = where[0];
}
// ---- vector_four
KERNEL(vector_four, const float4* x, float4* y)
{
    if (AT >= ITEMS / 4)
        return;
    const float4 a = x[AT], b = x[ITEMS / 4 + AT];
    y[AT] = {a.x + b.y, a.y - b.x, a.z * b.w, a.w};
}
// ---- shared_vectors
KERNEL(shared_vectors, const float4* x, float4* y)
{
    __shared__ float4 tile[BLOCK / 4];
    const unsigned t = threadIdx.x;
    if (t < BLOCK / 4)
        tile[t] = x[blockIdx.x * (BLOCK / 4) + t];
    __syncthreads();
    if (t < BLOCK / 4)
        y[blockIdx.x * (BLOCK / 4) + t] = tile[(t * 5 + 1) % (BLOCK / 4)];
}
// ---- sparse_rows
KERNEL(sparse_rows, const unsigned* x, float* y)
{
    float sum = 0;
    const unsigned first = x[AT] % 400, count = x[ITEMS + AT] % 20;
    for (unsigned k = first; k < first + count; k++)
        sum += as_float(x[2 * ITEMS + k]);
    y[AT] = sum;
}
// ---- local_table
KERNEL(local_table, const unsigned* x, unsigned* y)
{
    unsigned table[8];
    for (unsigned k = 0; k < 8; k++)
        table[k] = x[(AT + k * k) % ITEMS];
    for (unsigned k = 0; k < 8; k++)
        table[table[k] % 8] += k;
    y[AT] = table[x[AT] % 8];
}
