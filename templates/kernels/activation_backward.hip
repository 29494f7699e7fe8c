/* Activation, backward: dx = dy f'(x), element by element, from y = f(x). */
#include "prelude.h"
#include "activation.h"
#include "constants/activation.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

static __device__ __forceinline__ float gradient(float y, float dy)
{
    if constexpr (FUNCTION == Activation::RELU) {
        return y > 0.0f ? dy : 0.0f;
    } else if constexpr (FUNCTION == Activation::CLIPPED_RELU) {
        return y > 0.0f ? (y < CEILING ? dy : 0.0f) : 0.0f;
    } else if constexpr (FUNCTION == Activation::ELU) {
        return y > 0.0f ? dy : dy * (y + ALPHA);
    } else if constexpr (FUNCTION == Activation::SIGMOID) {
        return dy * (y * (1.0f - y));
    } else if constexpr (FUNCTION == Activation::TANH) {
        /* Near y = 1 the square would be rounded, where multiply-adds are not fused; 1 - y is
         * exact. */
        return dy * ((1.0f - y) * (1.0f + y));
    } else if constexpr (FUNCTION == Activation::SOFT_RELU) {
        /* Near zero 1 - exp(-y) would cancel: its Taylor polynomial there. */
        const float far = 1.0f - fast_exp2(y * -LOG2_E);
        const float tail =
            fused(y, fused(y, fused(y, -1.0f / 720, 1.0f / 120), -1.0f / 24), 1.0f / 6);
        const float near = y * fused(y, fused(y, tail, -0.5f), 1.0f);
        return dy * (y > 0.25f ? far : near);
    }
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ y, const Element* __restrict__ dy, Element* __restrict__ dx)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || together<Element>(at, SIZE)) {
        const float4 out = load4(y + at);
        const float4 slope = load4(dy + at);
        const float4 made{
            gradient(out.x, slope.x), gradient(out.y, slope.y), gradient(out.z, slope.z),
            gradient(out.w, slope.w)};
        if constexpr (FUNCTION == Activation::RELU || FUNCTION == Activation::CLIPPED_RELU)
            keep4(dx + at, made);
        else
            store4(dx + at, made);
    } else if (SIZE % VECTOR != 0 && at < SIZE) {
        for (unsigned k = at; k < SIZE; k++)
            store(dx, k, gradient(load(y, k), load(dy, k)));
    }
}
