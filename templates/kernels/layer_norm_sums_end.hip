/* Layer normalisation, the gradients of gamma, and by as many work-groups behind them of beta,
 * from the sums of chunks of rows. */
#include "prelude.h"
#include "constants/layer_norm_sums_end.h"
#include "vector.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
#if CENTRED
    const float* __restrict__ part_dgamma, const float* __restrict__ part_dbeta,
    float* __restrict__ dgamma, float* __restrict__ dbeta)
#else
    const float* __restrict__ part, float* __restrict__ y)
#endif
{
    alignas(16) __shared__ float sums[BLOCK * VECTOR];
    constexpr unsigned GROUPS = (AXIS + LANES * VECTOR - 1) / (LANES * VECTOR); /* of each tensor */
#if CENTRED
    const float* part = blockIdx.x < GROUPS ? part_dgamma : part_dbeta;
    float* y = blockIdx.x < GROUPS ? dgamma : dbeta;
#endif
    const unsigned lane = threadIdx.x % LANES;
    const unsigned slice = threadIdx.x / LANES;
    const unsigned column = (blockIdx.x % GROUPS * LANES + lane) * VECTOR;
    const bool is_column = AXIS % (LANES * VECTOR) == 0 || column < AXIS;

    float sum[VECTOR] = {};
    if (is_column) {
#pragma unroll 8
        for (unsigned chunk = slice; chunk < CHUNKS; chunk += SLICES) {
            float term[VECTOR];
            unpack(vector_at<VECTOR>(part + chunk * AXIS + column), term);
#pragma unroll
            for (unsigned i = 0; i < VECTOR; i++)
                sum[i] += term[i];
        }
    }
#pragma unroll
    for (unsigned i = 0; i < VECTOR; i++)
        sums[i * BLOCK + threadIdx.x] = sum[i];
    __syncthreads();
    if (slice == 0 && is_column) {
#pragma unroll
        for (unsigned i = 0; i < VECTOR; i++) {
#pragma unroll
            for (unsigned k = 1; k < SLICES; k++)
                sum[i] += sums[i * BLOCK + k * LANES + lane];
            y[column + i] = sum[i];
        }
    }
}
