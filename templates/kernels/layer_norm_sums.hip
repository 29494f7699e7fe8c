/* Layer normalisation, the gradients of gamma and beta (gamma alone, and no mean, unless
 * CENTRED): sums over rows, or over each of CHUNKS chunks of them. */
#include "prelude.h"
#include "constants/layer_norm_sums.h"
#include "vector.h"

static __device__ __forceinline__ float& place(
    float* partial, unsigned lane, unsigned slice, unsigned i)
{
    return partial[(slice * VECTOR + i) * LANES + lane];
}

/* The sums of `value` over the work-items of its columns, in all of them. */
static __device__ __forceinline__ void column_sums(
    float (&value)[VECTOR], float* partial, unsigned lane, unsigned slice)
{
#pragma unroll
    for (unsigned i = 0; i < VECTOR; i++)
        place(partial, lane, slice, i) = value[i];
    __syncthreads();
    if constexpr (SLICES > FINALS) {
        if (slice < FINALS) {
#pragma unroll
            for (unsigned i = 0; i < VECTOR; i++) {
#pragma unroll
                for (unsigned k = FINALS; k < SLICES; k += FINALS)
                    value[i] += place(partial, lane, slice + k, i);
                place(partial, lane, slice, i) = value[i];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (unsigned i = 0; i < VECTOR; i++) {
        value[i] = place(partial, lane, 0, i);
#pragma unroll
        for (unsigned k = 1; k < FINALS; k++)
            value[i] += place(partial, lane, k, i);
    }
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ x,
    const Element* __restrict__ dy,
#if CENTRED
    const float* __restrict__ mean, const float* __restrict__ invstd, float* __restrict__ dgamma,
    float* __restrict__ dbeta)
#else
    const float* __restrict__ invstd, float* __restrict__ dgamma)
#endif
{
    alignas(16) __shared__ float dots[BLOCK * VECTOR];
#if CENTRED
    alignas(16) __shared__ float sums[BLOCK * VECTOR];
#endif
    const unsigned lane = threadIdx.x % LANES;
    const unsigned slice = threadIdx.x / LANES;
    const unsigned chunk = blockIdx.x % CHUNKS;
    const unsigned column = (blockIdx.x / CHUNKS * LANES + lane) * VECTOR;
    const bool is_column = AXIS % (LANES * VECTOR) == 0 || column < AXIS;

    float dot[VECTOR] = {}, sum[VECTOR] = {};
#pragma unroll Unrolled<4, Element>::COUNT
    for (unsigned k = 0; k < HELD; k++) {
        const unsigned row = (chunk * HELD + k) * SLICES + slice;
        if (is_column && (ROWS % (HELD * SLICES) == 0 || row < ROWS)) {
#if CENTRED
            const float centre = mean[row], scale = invstd[row];
#else
            const float centre = 0.0f, scale = invstd[row];
#endif
            float value[VECTOR], slope[VECTOR];
            unpack(fetched<float, VECTOR>(x + row * AXIS + column), value);
            unpack(fetched<float, VECTOR>(dy + row * AXIS + column), slope);
#pragma unroll
            for (unsigned i = 0; i < VECTOR; i++) {
                dot[i] = fused(slope[i], (value[i] - centre) * scale, dot[i]);
                sum[i] += slope[i];
            }
        }
    }
    column_sums(dot, dots, lane, slice);
#if CENTRED
    column_sums(sum, sums, lane, slice);
#endif
    if (slice == 0 && is_column) {
#pragma unroll
        for (unsigned i = 0; i < VECTOR; i++) {
            dgamma[chunk * AXIS + column + i] = dot[i];
#if CENTRED
            dbeta[chunk * AXIS + column + i] = sum[i];
#endif
        }
    }
}
