/* Softmax and cross-entropy, backward, element by element: dx = dy share (softmax(x) - [class =
 * label]). */
#include "prelude.h"
#include "constants/cross_entropy_backward.h"

constexpr float LOG2_E = 1.44269504f;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ x,
    const int* __restrict__ labels, const float* __restrict__ peaks,
    const float* __restrict__ log_sums, const float* __restrict__ share,
    const float* __restrict__ dy, Element* __restrict__ dx)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (at >= SIZE)
        return;
    const float factor = dy[0] * share[0];
    const auto gradient = [&](unsigned place, float value) {
        const unsigned row = place / (AXIS * INNER) * INNER + place % INNER;
        const int label = labels[row];
        const float p = fast_exp2((value - peaks[row] - log_sums[row]) * LOG2_E);
        const bool is_right = static_cast<unsigned>(label) == place / INNER % AXIS;
        return label == IGNORED ? 0.0f : (is_right ? p - 1.0f : p) * factor;
    };
    if (SIZE % VECTOR == 0 || WITH_NARROW) {
        /* Behind the last element, narrow tensors are filled up. */
        const float4 in = load4(x + at);
        const float values[VECTOR] = {in.x, in.y, in.z, in.w};
        float out[VECTOR];
#pragma unroll
        for (unsigned k = 0; k < VECTOR; k++)
            out[k] = gradient(at + k < SIZE ? at + k : SIZE - 1, values[k]);
        store4(dx + at, float4{out[0], out[1], out[2], out[3]});
    } else if constexpr (!WITH_NARROW) {
#pragma unroll
        for (unsigned k = 0; k < VECTOR; k++)
            if (at + k < SIZE)
                store(dx, at + k, gradient(at + k, load(x, at + k)));
    }
}
