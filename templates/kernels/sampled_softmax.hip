/* Sampled softmax: the scores of each row's words, its loss, and their gradients, an element by
 * each work-item. */
#include "prelude.h"
#include "constants/sampled_softmax.h"

constexpr float LOG2_E = 1.44269504f;
constexpr float HIT = -30000.0f; /* score of a sample that is the right word */

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
#if PART == 0
    const float* __restrict__ x, const float* __restrict__ w, const int* __restrict__ labels,
    const int* __restrict__ samples, float* __restrict__ scores)
#elif PART == 1
    const float* __restrict__ scores, const float* __restrict__ peaks,
    const float* __restrict__ log_sums, float* __restrict__ losses)
#elif PART == 2
    const float* __restrict__ scores, const float* __restrict__ peaks,
    const float* __restrict__ log_sums, const float* __restrict__ dy, float* __restrict__ shares)
#elif PART == 3
    const float* __restrict__ w, const int* __restrict__ labels, const int* __restrict__ samples,
    const float* __restrict__ shares, float* __restrict__ dx)
#else
    const float* __restrict__ x, const int* __restrict__ labels, const int* __restrict__ samples,
    const float* __restrict__ shares, float* __restrict__ dw)
#endif
{
    const unsigned at = blockIdx.x * BLOCK + threadIdx.x;
    if (at >= SIZE)
        return;
#if PART == 0
    const unsigned row = at / COLUMNS, column = at % COLUMNS;
    const int label = labels[row], word = column == 0 ? label : samples[column - 1];
    const unsigned base = static_cast<unsigned>(word) * FEATURES;
    float sum = 0;
    for (unsigned k = 0; k < FEATURES; k++)
        sum = fused(x[row * FEATURES + k], w[base + k], sum);
    sum += ZIPF * fast_log2(static_cast<float>(word + 1));
    scores[at] = column != 0 && word == label ? HIT : sum;
#elif PART == 1
    losses[at] = log_sums[at] - (scores[at * COLUMNS] - peaks[at]);
#elif PART == 2
    const unsigned row = at / COLUMNS;
    const float p = fast_exp2((scores[at] - peaks[row] - log_sums[row]) * LOG2_E);
    shares[at] = (at % COLUMNS == 0 ? p - 1.0f : p) * (dy[0] * SHARE);
#elif PART == 3
    const unsigned row = at / FEATURES, feature = at % FEATURES;
    const float* of_row = shares + row * COLUMNS;
    float sum = of_row[0] * w[static_cast<unsigned>(labels[row]) * FEATURES + feature];
    for (unsigned k = 1; k < COLUMNS; k++)
        sum = fused(of_row[k], w[static_cast<unsigned>(samples[k - 1]) * FEATURES + feature], sum);
    dx[at] = sum;
#else
    const int word = static_cast<int>(at / FEATURES);
    const unsigned feature = at % FEATURES;
    float sum = 0;
    for (unsigned row = 0; row < ROWS; row++)
        if (labels[row] == word)
            sum = fused(shares[row * COLUMNS], x[row * FEATURES + feature], sum);
    for (unsigned k = 1; k < COLUMNS; k++)
        if (samples[k - 1] == word)
            for (unsigned row = 0; row < ROWS; row++)
                sum = fused(shares[row * COLUMNS + k], x[row * FEATURES + feature], sum);
    dw[at] = sum;
#endif
}
