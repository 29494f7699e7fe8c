/* Softmax and cross-entropy: the loss of each row, from its maximum and the logarithm of its
 * sum, and the sums over each work-group's rows. */
#include "prelude.h"
#include "constants/cross_entropy.h"
#include "access.h"
#include "reduce.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, const int* __restrict__ labels, const float* __restrict__ peaks,
    const float* __restrict__ log_sums, float* __restrict__ losses, float* __restrict__ sums,
    float* __restrict__ counts)
{
    alignas(16) __shared__ float partial[BLOCK];
    alignas(16) __shared__ float counted[BLOCK];
    const unsigned row = blockIdx.x * BLOCK + threadIdx.x;
    float loss = 0, count = 0;
    if (ROWS % BLOCK == 0 || row < ROWS) {
        const int label = labels[row];
        if (label != IGNORED) {
            const unsigned base = row / INNER * (AXIS * INNER) + row % INNER;
            loss =
                log_sums[row] - (load(x, base + static_cast<unsigned>(label) * INNER) - peaks[row]);
            count = 1;
        }
        losses[row] = loss;
    }
    const auto place = [](unsigned k) { return k; };
    const float sum = reduce<Add, BLOCK, FINALS>(loss, partial, threadIdx.x, place);
    const float rows = reduce<Add, BLOCK, FINALS>(count, counted, threadIdx.x, place);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = sum;
        counts[blockIdx.x] = rows;
    }
}
