/* y(f, g) = ALPHA sum over k of x(f, k) w(g, k) [+ BETA c(f, g)] [+ bias], FEW x MANY results,
 * and what follows: a matrix product of which one side is so short that reading w is all of the
 * work. Where k is cut into chunks, work-group z leaves the partial sums of chunk z, and nothing
 * else. */
#include "prelude.h"
#include "tile.h"
#include "grouped.h"
#include "constants/gemm_skinny.h"
#include "epilogue.h"

/* these two stand for parameters that the kernel may lack */
constexpr const AddedElement* c = nullptr;
constexpr const AddedElement* bias = nullptr;
constexpr const ScaleElement* group_scales = nullptr; /* and this one for scales of groups of B */
constexpr unsigned LANES = BLOCK / SLICES;
constexpr unsigned VALUES = ROWS * FEW; /* results of a work-item, where rows of w lie along k */
constexpr unsigned FINALS = 16;         /* partial sums at the end of a reduction */
constexpr unsigned UNROLLED = Unrolled<4, LeftElement, RightElement>::COUNT; /* of k */

/* One of two tensors. */
template <bool FIRST, class One, class Other>
static __device__ __forceinline__ auto chosen(const One* one, const Other* other)
{
    if constexpr (FIRST)
        return one;
    else
        return other;
}
static __device__ __forceinline__ Total dot(Total a, Total b, Total sum)
{
    return fused(a, b, sum);
}
static __device__ __forceinline__ Total dot(
    const Vector<Total, 2>& a, const Vector<Total, 2>& b, Total sum)
{
    return fused(a.y, b.y, fused(a.x, b.x, sum));
}
static __device__ __forceinline__ Total dot(Vector<Total, 4> a, Vector<Total, 4> b, Total sum)
{
    return fused(a.w, b.w, fused(a.z, b.z, fused(a.y, b.y, fused(a.x, b.x, sum))));
}
static __device__ __forceinline__ void add_multiple(Total& sum, Total factor, Total of)
{
    sum = fused(factor, of, sum);
}
static __device__ __forceinline__ void add_multiple(
    Vector<Total, 2>& sum, Total factor, Vector<Total, 2> of)
{
    sum.x = fused(factor, of.x, sum.x);
    sum.y = fused(factor, of.y, sum.y);
}
static __device__ __forceinline__ void add_multiple(
    Vector<Total, 4>& sum, Total factor, Vector<Total, 4> of)
{
    sum.x = fused(factor, of.x, sum.x);
    sum.y = fused(factor, of.y, sum.y);
    sum.z = fused(factor, of.z, sum.z);
    sum.w = fused(factor, of.w, sum.w);
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const LeftElement* __restrict__ a,
    const RightElement* __restrict__ b,
#if WITH_GROUPS
    const ScaleElement* __restrict__ group_scales,
#endif
#if WITH_C
    const AddedElement* __restrict__ c,
#endif
#if WITH_BIAS
    const AddedElement* __restrict__ bias,
#endif
#if WITH_BATCH_NORM
    const float* __restrict__ bn_w, const float* __restrict__ bn_b,
    const float* __restrict__ running_mean, const float* __restrict__ running_var,
#endif
#if WITH_CHANNEL_SCALES
    const float* __restrict__ channel_scales,
#endif
    Element* __restrict__ y)
{
    const auto* x = chosen<X_FIRST>(a, b);
    const auto* w = chosen<X_FIRST>(b, a);
    const unsigned first = SPLITS > 1 ? blockIdx.z * CHUNK : 0;
    const unsigned last = K % CHUNK == 0 || first + CHUNK < K ? first + CHUNK : K;
    Element* to = SPLITS > 1 ? y + blockIdx.z * (FEW * MANY) : y;
    using Piece = Vector<Total, W_WIDTH>;

    if constexpr (ALONG_K) {
        alignas(16) __shared__ Total held[VALUES * BLOCK];
        const unsigned slice = threadIdx.x % SLICES;
        const unsigned row = (blockIdx.x * LANES + threadIdx.x / SLICES) * ROWS;

        Total sum[ROWS][FEW] = {};
        for (unsigned k = first + slice * W_WIDTH; k < last; k += SLICES * W_WIDTH) {
            Piece xs[FEW];
#pragma unroll
            for (unsigned f = 0; f < FEW; f++) {
                if constexpr (X_WIDTH == W_WIDTH)
                    xs[f] = fetched<Total, W_WIDTH>(x + f * X_FEW + k * X_K);
                else
                    xs[f] = gathered<Total, W_WIDTH>(x + f * X_FEW + k * X_K, X_K);
            }
#pragma unroll
            for (unsigned r = 0; r < ROWS; r++) {
                /* Beyond the last row it reads the last one: those results are not stored. */
                const unsigned g =
                    MANY % (ROWS * LANES) == 0 || row + r < MANY ? row + r : MANY - 1;
                const Piece ws =
                    piece_of<Total, W_WIDTH, WITH_GROUPS, K, GROUP>(w, group_scales, g, W_MANY, k);
#pragma unroll
                for (unsigned f = 0; f < FEW; f++)
                    sum[r][f] = dot(xs[f], ws, sum[r][f]);
            }
        }

        /* The slices' sums, [value][lane][slice]: first to FINALS for each result, then to one. */
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++)
#pragma unroll
            for (unsigned f = 0; f < FEW; f++)
                held[(r * FEW + f) * BLOCK + threadIdx.x] = sum[r][f];
        __syncthreads();
        for (unsigned at = threadIdx.x; at < VALUES * LANES * FINALS; at += BLOCK) {
            Total* part = held + at / FINALS * SLICES + at % FINALS;
            Total total = part[0];
#pragma unroll
            for (unsigned s = FINALS; s < SLICES; s += FINALS)
                total = plus(total, part[s]);
            part[0] = total;
        }
        __syncthreads();
        for (unsigned at = threadIdx.x; at < VALUES * LANES; at += BLOCK) {
            const Total* part = held + at * SLICES;
            Total total = part[0];
#pragma unroll
            for (unsigned s = 1; s < FINALS; s++)
                total = plus(total, part[s]);
            const unsigned f = at / LANES % FEW;
            const unsigned g = (blockIdx.x * LANES + at % LANES) * ROWS + at / (LANES * FEW);
            if (MANY % (ROWS * LANES) == 0 || g < MANY) {
                if constexpr (ALPHA != 1)
                    total *= ALPHA;
                const unsigned channel = FEW_COLUMNS ? f : g;
                if constexpr (WITH_CHANNEL_SCALES)
                    total = scaled_by_channel(total, channel, channel_scales);
                if constexpr (WITH_C)
                    total = plus_multiple(total, BETA, load(c, f * Y_FEW + g * Y_MANY));
                if constexpr (WITH_EPILOGUE)
                    total = epilogue_of(channel, bn_w, bn_b, running_mean, running_var,
                        channel_scales)(WITH_BIAS ? plus(total, load(bias, channel)) : total);
                else if constexpr (WITH_BIAS)
                    total = plus(total, load(bias, channel));
                store(to, f * Y_FEW + g * Y_MANY, total);
            }
        }
    } else {
        constexpr unsigned COLUMNS = W_WIDTH; /* of w, for a work-item */
        constexpr bool PARTLY = MANY % (LANES * COLUMNS) != 0;
        alignas(16) __shared__ Piece held[FEW * BLOCK];
        const unsigned slice = threadIdx.x / LANES;
        const unsigned lane = threadIdx.x % LANES;
        const unsigned column = (blockIdx.x * LANES + lane) * COLUMNS;
        /* Beyond the last column it reads the last ones: those results are not stored. */
        const unsigned g = !PARTLY || column < MANY ? column : MANY - COLUMNS;

        Piece sum[FEW] = {};
#pragma unroll UNROLLED
        for (unsigned k = first + slice; k < last; k += SLICES) {
            const Piece ws = fetched<Total, COLUMNS>(w + k * W_K + g);
#pragma unroll
            for (unsigned f = 0; f < FEW; f++)
                add_multiple(sum[f], load(x, f * X_FEW + k * X_K), ws);
        }

        /* The slices' sums, [f][slice][lane]; each slice adds up some of the results. */
#pragma unroll
        for (unsigned f = 0; f < FEW; f++)
            held[f * BLOCK + threadIdx.x] = sum[f];
        __syncthreads();
        if (PARTLY && column >= MANY)
            return;
        for (unsigned f = slice; f < FEW; f += SLICES) {
            Piece total = held[f * BLOCK + lane];
#pragma unroll
            for (unsigned s = 1; s < SLICES; s++) {
                const Piece other = held[f * BLOCK + s * LANES + lane];
                add(total, other);
            }
            Total results[COLUMNS];
            unpack(total, results);
#pragma unroll
            for (unsigned part = 0; part < COLUMNS; part++) {
                Total& value = results[part];
                if constexpr (ALPHA != 1)
                    value *= ALPHA;
                const unsigned channel = FEW_COLUMNS ? f : g + part;
                if constexpr (WITH_CHANNEL_SCALES)
                    value = scaled_by_channel(value, channel, channel_scales);
                if constexpr (WITH_C)
                    value = plus_multiple(value, BETA, load(c, f * Y_FEW + (g + part) * Y_MANY));
                if constexpr (WITH_EPILOGUE)
                    value = epilogue_of(channel, bn_w, bn_b, running_mean, running_var,
                        channel_scales)(WITH_BIAS ? plus(value, load(bias, channel)) : value);
                else if constexpr (WITH_BIAS)
                    value = plus(value, load(bias, channel));
            }
            if constexpr (Y_WIDTH == COLUMNS && COLUMNS > 1)
                store_vector<COLUMNS>(to + (f * Y_FEW + g), results);
            else
#pragma unroll
                for (unsigned part = 0; part < COLUMNS; part++)
                    store(to, f * Y_FEW + (g + part) * Y_MANY, results[part]);
        }
    }
}
