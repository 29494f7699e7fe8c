/* Batch normalisation, backward, element by element, from the gradients of the parameters. */
#include "prelude.h"
#include "batch_norm_apply.h"

static __device__ __forceinline__ float apply(
    float x, float dy, float mean, float invstd, float w, float dw, float db)
{
    const float shift = db * static_cast<float>(1.0 / ELEMENTS);
    const float tilt = dw * invstd * static_cast<float>(-1.0 / ELEMENTS);
    return w * invstd * fused(x - mean, tilt, dy - shift);
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const Element* __restrict__ dy, const float* __restrict__ mean,
    const float* __restrict__ invstd, const float* __restrict__ w,
    const float* __restrict__ dw, const float* __restrict__ db, Element* __restrict__ dx)
{
    if constexpr (SHARED || APART || MIXED) {
        const unsigned at = blockIdx.x * GROUP + threadIdx.x * EACH;
        if (SIZE % GROUP != 0 && at >= SIZE)
            return;
        const unsigned feature = feature_of(at);
        const float4 x_in = load4(x + at);
        const float4 dy_in = load4(dy + at);
        const auto mean_in = of_feature(mean, feature);
        const auto invstd_in = of_feature(invstd, feature);
        const auto w_in = of_feature(w, feature);
        const auto dw_in = of_feature(dw, feature);
        const auto db_in = of_feature(db, feature);
        const float4 out{apply(x_in.x, dy_in.x, part<0>(mean_in), part<0>(invstd_in), part<0>(w_in),
                             part<0>(dw_in), part<0>(db_in)),
            apply(x_in.y, dy_in.y, part<1>(mean_in), part<1>(invstd_in), part<1>(w_in),
                part<1>(dw_in), part<1>(db_in)),
            apply(x_in.z, dy_in.z, part<2>(mean_in), part<2>(invstd_in), part<2>(w_in),
                part<2>(dw_in), part<2>(db_in)),
            apply(x_in.w, dy_in.w, part<3>(mean_in), part<3>(invstd_in), part<3>(w_in),
                part<3>(dw_in), part<3>(db_in))};
        store4(dx + at, out);
    } else {
#pragma unroll
        for (unsigned k = 0; k < GROUP; k += BLOCK) {
            const unsigned at = blockIdx.x * GROUP + k + threadIdx.x;
            const unsigned feature = at / INNER % FEATURES;
            if (SIZE % GROUP == 0 || at < SIZE)
                store(dx, at,
                    apply(load(x, at), load(dy, at), mean[feature], invstd[feature], w[feature],
                        dw[feature], db[feature]));
        }
    }
}
