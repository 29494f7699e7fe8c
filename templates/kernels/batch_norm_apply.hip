/* Batch normalisation, forward, element by element, with statistics that are given:
 * y = w (x - mean) / sqrt(variance + EPSILON) + b. `spread` is the variance, or 1 / sqrt(). */
#include "prelude.h"
#include "batch_norm_apply.h"
#include "constants/batch_norm_given.h"

static __device__ __forceinline__ float apply(float x, float mean, float spread, float w, float b)
{
    const float invstd = FROZEN ? fast_rcp(fast_sqrt(spread + EPSILON)) : spread;
    return fused(x - mean, w * invstd, b);
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const float* __restrict__ mean, const float* __restrict__ spread,
    const float* __restrict__ w, const float* __restrict__ b, Element* __restrict__ y)
{
    if constexpr (SHARED || APART || MIXED) {
        const unsigned at = blockIdx.x * GROUP + threadIdx.x * EACH;
        if (SIZE % GROUP != 0 && at >= SIZE)
            return;
        const unsigned feature = feature_of(at);
        const float4 x_in = load4(x + at);
        const auto mean_in = of_feature(mean, feature);
        const auto spread_in = of_feature(spread, feature);
        const auto w_in = of_feature(w, feature);
        const auto b_in = of_feature(b, feature);
        const float4 out{
            apply(x_in.x, part<0>(mean_in), part<0>(spread_in), part<0>(w_in), part<0>(b_in)),
            apply(x_in.y, part<1>(mean_in), part<1>(spread_in), part<1>(w_in), part<1>(b_in)),
            apply(x_in.z, part<2>(mean_in), part<2>(spread_in), part<2>(w_in), part<2>(b_in)),
            apply(x_in.w, part<3>(mean_in), part<3>(spread_in), part<3>(w_in), part<3>(b_in))};
        store4(y + at, out);
    } else {
#pragma unroll
        for (unsigned k = 0; k < GROUP; k += BLOCK) {
            const unsigned at = blockIdx.x * GROUP + k + threadIdx.x;
            const unsigned feature = at / INNER % FEATURES;
            if (SIZE % GROUP == 0 || at < SIZE)
                store(y, at,
                    apply(load(x, at), mean[feature], spread[feature], w[feature], b[feature]));
        }
    }
}
