/* Softmax over rows, forward: y = exp(x - max x) / sum exp(x - max x), or its logarithm
 * (Algo::LOG). Algo::FAST subtracts no maximum. Without WITH_RESULT, the maximum and the scale
 * of each row alone: then softmax_apply.hip makes the rest. */
#include "prelude.h"
#include "softmax.h"
#include "constants/softmax_forward.h"

/* -inf: below all elements, and its exponential is zero even in a row of nothing but -FLT_MAX. */
static __device__ __forceinline__ float lowest() { return as_float(0xff800000u); }

/* Of a row's sum: its logarithm (LOG), or reciprocal; 0 where all elements are hidden (MASKED). */
static __device__ __forceinline__ float scale_of(float sum)
{
    if constexpr (LOG)
        return fast_log2(sum) * LN_2;
    return MASKED && sum == 0.0f ? 0.0f : fast_rcp(sum);
}

/* Sweeps over a row that is too long to hold. NVIDIA's compiler leaves them as they are written,
 * with one load on its way; clang unrolls for AMD GPUs by itself, and fails where it is told to. */
#if defined(__AMDGCN__)
#define SWEEP
#else
#define SWEEP _Pragma("unroll 4")
#endif

static __device__ __forceinline__ float largest(float most, float x) { return maximum(most, x); }
static __device__ __forceinline__ float largest(float most, float4 x)
{
    return maximum(maximum(maximum(maximum(most, x.x), x.y), x.z), x.w);
}

static __device__ __forceinline__ float add(float sum, float x, float most)
{
    return sum + exponential(x, most);
}
static __device__ __forceinline__ float add(float sum, float4 x, float most)
{
    return sum + exponential(x.x, most) + exponential(x.y, most) + exponential(x.z, most)
           + exponential(x.w, most);
}

static __device__ __forceinline__ float4 result(float4 x, float most, float scale)
{
    return float4{result(x.x, most, scale), result(x.y, most, scale), result(x.z, most, scale),
        result(x.w, most, scale)};
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x,
#if WITH_RESULT
    Element* __restrict__ y)
#else
    float* __restrict__ peaks, float* __restrict__ scales)
#endif
{
    alignas(16) __shared__ float maxima[BLOCK];
    alignas(16) __shared__ float sums[BLOCK];
    /* row within the work-group */
    const unsigned lane = CONTIGUOUS ? threadIdx.x / SLICES : threadIdx.x % GROUP_ROWS;
    const unsigned slice = CONTIGUOUS ? threadIdx.x % SLICES : threadIdx.x / GROUP_ROWS;
    const unsigned row = blockIdx.x * GROUP_ROWS + lane;
    const unsigned base = row / INNER * (AXIS * INNER) + row % INNER - skew(row);
    const unsigned end = AXIS + skew(row);
    float most = MASKED ? FLOOR : lowest();
    float sum = 0;

    if constexpr (KEPT) {
        Share values(x, row, lowest());
        if constexpr (CENTRED) {
#pragma unroll
            for (unsigned k = 0; k < HELD; k += VECTOR) {
                float part[VECTOR];
                values.first(part, k, slice);
#pragma unroll
                for (unsigned j = 0; j < VECTOR; j++)
                    most = maximum(most, part[j]);
            }
            most = row_reduce<Maximum>(most, maxima, lane, slice);
        }
#pragma unroll
        for (unsigned k = 0; k < HELD; k += VECTOR) {
            float part[VECTOR];
            if constexpr (CENTRED)
                values.again(part, k, slice);
            else
                values.first(part, k, slice);
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                sum = add(sum, part[j], most);
        }
#if WITH_RESULT
        const float scale = scale_of(row_reduce<Add>(sum, sums, lane, slice));
#pragma unroll
        for (unsigned k = 0; k < HELD; k += VECTOR) {
            float part[VECTOR];
            values.again(part, k, slice);
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                part[j] = result(part[j], most, scale);
            put(y, row, place(k, slice), part);
        }
#endif
    } else if constexpr (IN_REGISTERS) {
        float value[HELD];
#pragma unroll
        for (unsigned k = 0; k < HELD; k += VECTOR) {
            const unsigned at = k * SLICES + slice * VECTOR;
            unpack(value + k, own_or(x, base, row, at, lowest()));
            if constexpr (CENTRED) {
                for (unsigned j = 0; j < VECTOR; j++)
                    most = maximum(most, value[k + j]);
            }
        }
        if constexpr (CENTRED)
            most = row_reduce<Maximum>(most, maxima, lane, slice);

#pragma unroll
        for (unsigned k = 0; k < HELD; k++) {
            if constexpr (LOG) {
                value[k] -= most;
                sum += fast_exp2(value[k] * LOG2_E);
            } else {
                value[k] = exponential(value[k], most);
                sum += value[k];
            }
        }
        sum = row_reduce<Add>(sum, sums, lane, slice);

        const float scale = scale_of(sum);
#if !WITH_RESULT
        if (slice == 0 && row < ROWS) {
            peaks[row] = most;
            scales[row] = scale;
        }
#else
#pragma unroll
        for (unsigned k = 0; k < HELD; k += VECTOR) {
            const unsigned at = k * SLICES + slice * VECTOR;
            if (!inside(row, at))
                continue;
            if constexpr (VECTOR == 4) {
                const float4 four{scaled(value[k], scale), scaled(value[k + 1], scale),
                    scaled(value[k + 2], scale), scaled(value[k + 3], scale)};
                write(y, base, row, at, four);
            } else {
                write(y, base, row, at, scaled(value[k], scale));
            }
        }
#endif
    } else {
        /* Too long to hold. Of this work-item: elements slice * VECTOR, and on in strides of the
         * whole row's items. */
        if constexpr (CENTRED) {
            if (row < ROWS) {
                SWEEP
                for (unsigned at = slice * VECTOR; at < end; at += SLICES * VECTOR)
                    most = largest(most, own(x, base, row, at, lowest()));
            }
            most = row_reduce<Maximum>(most, maxima, lane, slice);
        }
        if (row < ROWS) {
            SWEEP
            for (unsigned at = slice * VECTOR; at < end; at += SLICES * VECTOR)
                sum = add(sum, own(x, base, row, at, lowest()), most);
        }
        sum = row_reduce<Add>(sum, sums, lane, slice);

        const float scale = scale_of(sum);
#if !WITH_RESULT
        if (slice == 0 && row < ROWS) {
            peaks[row] = most;
            scales[row] = scale;
        }
#else
        if (row < ROWS) {
            SWEEP
            for (unsigned at = slice * VECTOR; at < end; at += SLICES * VECTOR) {
                const auto in = read(x, base, at);
                write(y, base, row, at, result(in, most, scale));
            }
        }
#endif
    }
}
