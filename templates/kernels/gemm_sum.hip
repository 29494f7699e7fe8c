/* SIZE sums of TERMS terms each, added in a fixed order: y[i] = ALPHA sum over z of terms[z][i] [+ bias] [+ BETA c[i]], and what
 * follows, where the channel of result i is i / INNER % CHANNELS. */
#include "prelude.h"
#include "vector.h"
#include "constants/gemm_sum.h"
#include "epilogue.h"

constexpr const float* bias = nullptr; /* these two stand for parameters that the kernel may lack */
constexpr const float* c = nullptr;
constexpr unsigned LANES = BLOCK / SLICES;
constexpr unsigned UNROLLED = SLICES == 1 && TERMS <= 32 ? TERMS : 4;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ terms,
#if WITH_BIAS
    const float* __restrict__ bias,
#endif
#if WITH_C
    const float* __restrict__ c,
#endif
#if WITH_BATCH_NORM
    const float* __restrict__ bn_w, const float* __restrict__ bn_b, const float* __restrict__ running_mean,
    const float* __restrict__ running_var,
#endif
    float* __restrict__ y)
{
    const unsigned at = (blockIdx.x * LANES + threadIdx.x % LANES) * WIDTH;
    Vector<float, WIDTH> sum{};
    if (at < SIZE) {
#pragma unroll UNROLLED
        for (unsigned z = SLICES == 1 ? 0 : threadIdx.x / LANES; z < TERMS; z += SLICES)
            sum += vector_at<WIDTH>(terms + z * SIZE + at);
    }
    if constexpr (SLICES > 1) {
        alignas(16) __shared__ Vector<float, WIDTH> partial[BLOCK];
        partial[threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.x >= LANES)
            return;
#pragma unroll
        for (unsigned slice = 1; slice < SLICES; slice++)
            sum += partial[slice * LANES + threadIdx.x];
    }
    if (at >= SIZE)
        return;
    float results[WIDTH];
    unpack(sum, results);
#pragma unroll
    for (unsigned part = 0; part < WIDTH; part++) {
        float& value = results[part];
        if constexpr (ALPHA != 1)
            value *= ALPHA;
        if constexpr (WITH_BIAS)
            value += bias[(at + part) % COLUMNS];
        if constexpr (WITH_C)
            value = fused(BETA, c[at + part], value);
        if constexpr (WITH_EPILOGUE)
            value = epilogue_of((at + part) / INNER % CHANNELS, bn_w, bn_b, running_mean, running_var)(value);
    }
    store_vector<WIDTH>(y + at, results);
}
