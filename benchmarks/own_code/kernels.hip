// Kernels of well-known public kinds, each in its plain form, written for this comparison.
#define FULL 0xffffffffffffffffull

__device__ float warp_sum(float v)
{
    for (int by = warpSize / 2; by > 0; by /= 2)
        v += __shfl_down(v, by);
    return v;
}

__device__ float block_sum(float v)
{
    __shared__ float parts[32];
    const int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    v = warp_sum(v);
    if (lane == 0)
        parts[warp] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / warpSize ? parts[lane] : 0.0f;
    if (warp == 0)
        v = warp_sum(v);
    if (threadIdx.x == 0)
        parts[0] = v;
    __syncthreads();
    v = parts[0];
    __syncthreads();
    return v;
}

extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ void gemv(const float* a, const float* x, float* y, int n)
{
    float sum = 0;
    for (int k = threadIdx.x; k < n; k += blockDim.x)
        sum += a[blockIdx.x * n + k] * x[k];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        y[blockIdx.x] = sum;
}

extern "C" __global__ void gemm(const float* a, const float* b, float* c, int n)
{
    __shared__ float left[16][16], above[16][17];
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        above[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int j = 0; j < 16; j++)
            sum += left[threadIdx.y][j] * above[j][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void hgemv(const half* a, const half* x, float* y, int n)
{
    float sum = 0;
    for (int k = threadIdx.x; k < n; k += blockDim.x)
        sum += __half2float(a[blockIdx.x * n + k]) * __half2float(x[k]);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        y[blockIdx.x] = sum;
}

extern "C" __global__ void rmsnorm(const float* x, const float* w, float* y, int n)
{
    const float* row = x + blockIdx.x * n;
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sum += row[i] * row[i];
    const float scale = rsqrtf(block_sum(sum) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[blockIdx.x * n + i] = row[i] * scale * w[i];
}

extern "C" __global__ void layernorm(const float* x, const float* w, const float* b, float* y, int n)
{
    const float* row = x + blockIdx.x * n;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        sum += row[i];
        squares += row[i] * row[i];
    }
    const float mean = block_sum(sum) / n, scale = rsqrtf(block_sum(squares) / n - mean * mean + 1e-5f);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[blockIdx.x * n + i] = (row[i] - mean) * scale * w[i] + b[i];
}

extern "C" __global__ void softmax(const float* x, float* y, int n)
{
    const float* row = x + blockIdx.x * n;
    float most = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < n; i += warpSize)
        most = fmaxf(most, row[i]);
    for (int by = warpSize / 2; by > 0; by /= 2)
        most = fmaxf(most, __shfl_xor(most, by));
    for (int i = threadIdx.x; i < n; i += warpSize)
        sum += __expf(row[i] - most);
    for (int by = warpSize / 2; by > 0; by /= 2)
        sum += __shfl_xor(sum, by);
    for (int i = threadIdx.x; i < n; i += warpSize)
        y[blockIdx.x * n + i] = __expf(row[i] - most) / sum;
}

extern "C" __global__ void stencil(const float* x, float* y, int width, int height, float centre, float side)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < 1 || j < 1 || i >= width - 1 || j >= height - 1)
        return;
    const float* at = x + j * width + i;
    y[j * width + i] = centre * at[0] + side * (at[-1] + at[1] + at[-width] + at[width]);
}

extern "C" __global__ void reduction(const float* x, float* y, int n)
{
    __shared__ float parts[256];
    float sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x)
        sum += x[i];
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int by = 128; by > 0; by /= 2) {
        if (threadIdx.x < by)
            parts[threadIdx.x] += parts[threadIdx.x + by];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        y[blockIdx.x] = parts[0];
}

extern "C" __global__ void histogram(const unsigned char* x, unsigned* bins, int n)
{
    __shared__ unsigned own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = (blockIdx.x * 256 + threadIdx.x) * 4; i + 3 < n; i += 1024 * gridDim.x) {
        const uchar4 four = *reinterpret_cast<const uchar4*>(x + i);
        atomicAdd(&own[four.x], 1u);
        atomicAdd(&own[four.y], 1u);
        atomicAdd(&own[four.z], 1u);
        atomicAdd(&own[four.w], 1u);
    }
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

// A query against all keys, in one pass with a running maximum; a work-item is one of 64 channels.
extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int keys, float scale)
{
    const int at = threadIdx.x;
    float most = -INFINITY, sum = 0, kept = 0;
    for (int j = 0; j < keys; j++) {
        float score = q[blockIdx.x * 64 + at] * k[j * 64 + at];
        for (int by = 32; by > 0; by /= 2)
            score += __shfl_xor(score, by);
        score *= scale;
        const float higher = fmaxf(most, score), shrunk = __expf(most - higher), weight = __expf(score - higher);
        sum = sum * shrunk + weight;
        kept = kept * shrunk + weight * v[j * 64 + at];
        most = higher;
    }
    o[blockIdx.x * 64 + at] = kept / sum;
}

extern "C" __global__ void rotary(half* x, int heads, int size)
{
    const int pair = threadIdx.x, half_size = size / 2;
    const float angle = blockIdx.x * __expf(-9.21034037f * (2.0f * pair / size));
    const float c = __cosf(angle), s = __sinf(angle);
    for (int h = 0; h < heads; h++) {
        half* at = x + (blockIdx.x * heads + h) * size + pair;
        const float a = __half2float(at[0]), b = __half2float(at[half_size]);
        at[0] = __float2half(a * c - b * s);
        at[half_size] = __float2half(a * s + b * c);
    }
}
