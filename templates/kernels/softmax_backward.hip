/* Softmax over rows, backward: dx = y (dy - sum y dy), or dx = dy - exp(y) sum dy (Algo::LOG).
 * Without WITH_RESULT, the sum of each row alone: then softmax_apply_backward.hip makes the
 * rest. */
#include "prelude.h"
#include "softmax.h"

/* What elements add to their row's sum. */
static __device__ __forceinline__ float add(float sum, float y, float dy)
{
    return LOG ? sum + dy : fused(y, dy, sum);
}
static __device__ __forceinline__ float add(float sum, float4 y, float4 dy)
{
    return add(add(add(add(sum, y.x, dy.x), y.y, dy.y), y.z, dy.z), y.w, dy.w);
}

static __device__ __forceinline__ float4 gradient(float4 y, float4 dy, float sum)
{
    return float4{gradient(y.x, dy.x, sum), gradient(y.y, dy.y, sum), gradient(y.z, dy.z, sum),
        gradient(y.w, dy.w, sum)};
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ y, const Element* __restrict__ dy,
#if WITH_RESULT
    Element* __restrict__ dx)
#else
    float* __restrict__ totals)
#endif
{
    alignas(16) __shared__ float sums[BLOCK];
    /* row within the work-group */
    const unsigned lane = CONTIGUOUS ? threadIdx.x / SLICES : threadIdx.x % GROUP_ROWS;
    const unsigned slice = CONTIGUOUS ? threadIdx.x % SLICES : threadIdx.x / GROUP_ROWS;
    const unsigned row = blockIdx.x * GROUP_ROWS + lane;
    const unsigned base = row / INNER * (AXIS * INNER) + row % INNER - skew(row);
    const unsigned end = AXIS + skew(row);
    float sum = 0;

    if constexpr (KEPT) {
        Share values(y, row), slopes(dy, row);
#pragma unroll
        for (unsigned k = 0; k < HELD; k += VECTOR) {
            float part[VECTOR], slope[VECTOR];
            values.first(part, k, slice);
            slopes.first(slope, k, slice);
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                sum = add(sum, part[j], slope[j]);
        }
        sum = row_reduce<Add>(sum, sums, lane, slice);
#if WITH_RESULT
#pragma unroll
        for (unsigned k = 0; k < HELD; k += VECTOR) {
            float part[VECTOR], slope[VECTOR];
            values.again(part, k, slice);
            slopes.again(slope, k, slice);
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                part[j] = gradient(part[j], slope[j], sum);
            put(dx, row, place(k, slice), part);
        }
#endif
    } else if constexpr (IN_REGISTERS) {
        float out[HELD]; /* y */
        float slope[HELD]; /* dy */
#pragma unroll
        for (unsigned k = 0; k < HELD; k += VECTOR) {
            const unsigned at = k * SLICES + slice * VECTOR;
            unpack(out + k, own_or(y, base, row, at, 0.0f));
        }
#pragma unroll
        for (unsigned k = 0; k < HELD; k += VECTOR) {
            const unsigned at = k * SLICES + slice * VECTOR;
            unpack(slope + k, own_or(dy, base, row, at, 0.0f));
        }
#pragma unroll
        for (unsigned k = 0; k < HELD; k++)
            sum = add(sum, out[k], slope[k]);
        sum = row_reduce<Add>(sum, sums, lane, slice);
#if !WITH_RESULT
        if (slice == 0 && row < ROWS)
            totals[row] = sum;
#else

#pragma unroll
        for (unsigned k = 0; k < HELD; k += VECTOR) {
            const unsigned at = k * SLICES + slice * VECTOR;
            if (!inside(row, at))
                continue;
            if constexpr (VECTOR == 4) {
                const float4 four{gradient(out[k], slope[k], sum),
                    gradient(out[k + 1], slope[k + 1], sum),
                    gradient(out[k + 2], slope[k + 2], sum),
                    gradient(out[k + 3], slope[k + 3], sum)};
                write(dx, base, row, at, four);
            } else {
                write(dx, base, row, at, gradient(out[k], slope[k], sum));
            }
        }
#endif
    } else {
        /* Too long to hold. Of this work-item: elements slice * VECTOR, and on in strides of the
         * whole row's items. */
        if (row < ROWS) {
            for (unsigned at = slice * VECTOR; at < end; at += SLICES * VECTOR) {
                const auto out = own(y, base, row, at, 0.0f);
                const auto slope = own(dy, base, row, at, 0.0f);
                sum = add(sum, out, slope);
            }
        }
        sum = row_reduce<Add>(sum, sums, lane, slice);
#if !WITH_RESULT
        if (slice == 0 && row < ROWS)
            totals[row] = sum;
#else

        if (row < ROWS) {
            for (unsigned at = slice * VECTOR; at < end; at += SLICES * VECTOR) {
                const auto out = read(y, base, at);
                const auto slope = read(dy, base, at);
                write(dx, base, row, at, gradient(out, slope, sum));
            }
        }
#endif
    }
}
