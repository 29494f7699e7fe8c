// Sums of rows in two launches of one kernel: LDS that the launch asks for, and as many groups as it says.
#include <hip/hip_runtime.h>

extern "C" __global__ void reduce(const float* in, float* out, unsigned n)
{
    in += blockIdx.y * n;
    extern __shared__ float part[];
    float sum = 0.0f;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        sum += in[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.y * gridDim.x + blockIdx.x] = part[0];
}
