/* The TOP_K best of EXPERTS scores of a token, in their order, and their weights. LANES
 * work-items have a token; each finds how many scores are before its own. */
#include "prelude.h"

enum class Scores { SOFTMAX, SIGMOID };
#include "constants/router.h"
#include "reduce.h"

constexpr unsigned LANES = 64;
constexpr unsigned TOKENS = BLOCK / LANES; /* of a work-group */
constexpr unsigned HELD = (EXPERTS + LANES - 1) / LANES; /* scores of a work-item */
constexpr float LOWEST = -3.4028234663852886e38f;
constexpr unsigned OF_GROUP = EXPERTS / GROUPS;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x,
#if CORRECTED
    const float* __restrict__ bias,
#endif
    float* __restrict__ y, int* __restrict__ ids)
{
    __shared__ float scores[TOKENS * EXPERTS];
    __shared__ float bests[BLOCK], sums[BLOCK], chosen[TOKENS * TOP_K];
    const unsigned lane = threadIdx.x % LANES, own = threadIdx.x / LANES;
    const unsigned token = blockIdx.x * TOKENS + own;
    const bool is_token = ROWS % TOKENS == 0 || token < ROWS;
    float* of_token = scores + own * EXPERTS;
    const auto place = [&](unsigned slice) { return own * LANES + slice; };

    /* What is weighted, and what is compared: that is exact where no correction is added. No
     * number is the lowest one. */
    float value[HELD], score[HELD], best = LOWEST;
#pragma unroll
    for (unsigned k = 0; k < HELD; k++) {
        const unsigned e = k * LANES + lane;
        const bool there = is_token && e < EXPERTS;
        const float in = there ? load(x, token * EXPERTS + e) : LOWEST;
        value[k] = in >= LOWEST ? in : LOWEST;
        best = maximum(best, value[k]);
    }
    float sum = 0.0f;
    if constexpr (SCORES == Scores::SOFTMAX) {
        best = reduce<Maximum, LANES, 16>(best, bests, lane, place);
#pragma unroll
        for (unsigned k = 0; k < HELD; k++) {
            score[k] = value[k];
            value[k] =
                k * LANES + lane < EXPERTS ? fast_exp2((value[k] - best) * 1.44269504f) : 0.0f;
            sum += value[k];
        }
        sum = reduce<Add, LANES, 16>(sum, sums, lane, place);
    } else {
#pragma unroll
        for (unsigned k = 0; k < HELD; k++) {
            score[k] = value[k];
            value[k] = fast_rcp(1.0f + fast_exp2(value[k] * -1.44269504f));
        }
    }
#pragma unroll
    for (unsigned k = 0; k < HELD; k++) {
        const unsigned e = k * LANES + lane;
        if (e < EXPERTS) {
#if CORRECTED
            score[k] = (SCORES == Scores::SOFTMAX ? value[k] * fast_rcp(sum) : value[k]) + bias[e];
#endif
            of_token[e] = score[k];
        }
    }
    __syncthreads();

    /* of each group the best, or with corrections the sum of its two best */
    if constexpr (TOP_GROUPS < GROUPS) {
        float group = LOWEST;
        if (lane < GROUPS) {
            float first = LOWEST, second = LOWEST;
            for (unsigned k = 0; k < OF_GROUP; k++) {
                const float other = of_token[lane * OF_GROUP + k];
                second = maximum(second, other < first ? other : first);
                first = maximum(first, other);
            }
            group = CORRECTED ? first + second : first;
        }
        bests[threadIdx.x] = group;
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < HELD; k++) {
            const unsigned e = k * LANES + lane, mine = e / OF_GROUP;
            unsigned before = 0;
            if (e < EXPERTS) {
                const float group_score = bests[own * LANES + mine];
                for (unsigned g = 0; g < GROUPS; g++) {
                    const float other = bests[own * LANES + g];
                    before += other > group_score || (other == group_score && g < mine);
                }
                if (before >= TOP_GROUPS) {
                    score[k] = LOWEST;
                    of_token[e] = LOWEST;
                }
            }
        }
        __syncthreads();
    }

    unsigned rank[HELD];
#pragma unroll
    for (unsigned k = 0; k < HELD; k++)
        rank[k] = 0;
    for (unsigned other = 0; other < EXPERTS; other++) {
        const float theirs = of_token[other];
#pragma unroll
        for (unsigned k = 0; k < HELD; k++)
            rank[k] += theirs > score[k] || (theirs == score[k] && other < k * LANES + lane);
    }
#pragma unroll
    for (unsigned k = 0; k < HELD; k++)
        if (k * LANES + lane < EXPERTS && rank[k] < TOP_K)
            chosen[own * TOP_K + rank[k]] = value[k];
    __syncthreads();
    if constexpr (NORMALISED) {
        sum = chosen[own * TOP_K];
#pragma unroll
        for (unsigned k = 1; k < TOP_K; k++)
            sum += chosen[own * TOP_K + k];
    }
    const float factor = NORMALISED || SCORES == Scores::SOFTMAX ? fast_rcp(sum) * SCALE : SCALE;
#pragma unroll
    for (unsigned k = 0; k < HELD; k++) {
        if (is_token && k * LANES + lane < EXPERTS && rank[k] < TOP_K) {
            y[token * TOP_K + rank[k]] = value[k] * factor;
            ids[token * TOP_K + rank[k]] = static_cast<int>(k * LANES + lane);
        }
    }
}
