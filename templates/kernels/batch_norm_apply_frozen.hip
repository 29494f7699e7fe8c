/* Batch normalisation, backward, element by element, where its statistics do not depend on x. */
#include "prelude.h"
#include "batch_norm_apply.h"
#include "constants/batch_norm_given.h"

static __device__ __forceinline__ float apply(float dy, float spread, float w)
{
    const float invstd = FROZEN ? fast_rcp(fast_sqrt(spread + EPSILON)) : spread;
    return w * invstd * dy;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ dy, const float* __restrict__ spread, const float* __restrict__ w,
    Element* __restrict__ dx)
{
    if constexpr (SHARED || APART || MIXED) {
        const unsigned at = blockIdx.x * GROUP + threadIdx.x * EACH;
        if (SIZE % GROUP != 0 && at >= SIZE)
            return;
        const unsigned feature = feature_of(at);
        const float4 dy_in = load4(dy + at);
        const auto spread_in = of_feature(spread, feature);
        const auto w_in = of_feature(w, feature);
        const float4 out{
            apply(dy_in.x, part<0>(spread_in), part<0>(w_in)),
            apply(dy_in.y, part<1>(spread_in), part<1>(w_in)),
            apply(dy_in.z, part<2>(spread_in), part<2>(w_in)),
            apply(dy_in.w, part<3>(spread_in), part<3>(w_in))};
        store4(dx + at, out);
    } else {
#pragma unroll
        for (unsigned k = 0; k < GROUP; k += BLOCK) {
            const unsigned at = blockIdx.x * GROUP + k + threadIdx.x;
            const unsigned feature = at / INNER % FEATURES;
            if (SIZE % GROUP == 0 || at < SIZE)
                store(dx, at, apply(load(dy, at), spread[feature], w[feature]));
        }
    }
}
