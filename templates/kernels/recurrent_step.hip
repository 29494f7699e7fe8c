/* A time step of a recurrent layer, forward: the product of h of the step before with the
 * recurrent weights, and what the cell makes of it (simgen/layers/recurrent/recurrent.py has the
 * equations). In the first step, what was before is zero. */
#include "prelude.h"
#include "constants/recurrent_step.h"
#include "activation.h"
#include "chain.h"
#include "recurrent.h"
#include "recurrent_matrix.h"
#include "when.h"

/* These stand for parameters that the kernel may lack. */
constexpr const WeightElement* bw = nullptr;
constexpr const WeightElement* br = nullptr;
constexpr const float* cell_before = nullptr;
constexpr float* cell = nullptr;
constexpr float* candidate = nullptr;
constexpr float* gates = nullptr;

static __device__ __forceinline__ float sigmoid(float x)
{
    return activate<Activation::SIGMOID>(x, 0, 0);
}
static __device__ __forceinline__ float hyperbolic(float x)
{
    return activate<Activation::TANH>(x, 0, 0);
}

#define PARAMETERS(DO)                                                                             \
    DO(const float* ALONE, before)                                                                 \
    DO(const WeightElement* __restrict__, r)                                                       \
    WHEN(WITH_MATRIX, DO(const WeightElement* ALONE, rounded))                                     \
    WHEN(WITH_INPUT_BIAS, DO(const WeightElement* __restrict__, bw))                               \
    WHEN(WITH_BIAS, DO(const WeightElement* __restrict__, br))                                     \
    WHEN(WITH_CELL, DO(const float* ALONE, cell_before))                                           \
    WHEN(WITH_GATES, DO(float* ALONE, gates))                                                      \
    WHEN(WITH_CELL, DO(float* ALONE, cell))                                                        \
    WHEN(WITH_CANDIDATE, DO(float* ALONE, candidate))                                              \
    DO(float* ALONE, h)                                                                            \
    WHEN(WITH_MATRIX, DO(WeightElement* ALONE, y))

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const InputElement* ALONE x PARAMETERS(AND_DECLARED) CHAIN_PARAMETERS)
{
    const unsigned first_unit = blockIdx.x * UNITS;
    const unsigned first_sample = blockIdx.y * SAMPLES;
    const auto sample_at = [=](unsigned row, unsigned& offset) {
        offset = (first_sample + row) * HIDDEN;
        return BATCH % SAMPLES == 0 || first_sample + row < BATCH;
    };
    const auto weights_at = [=](unsigned row, unsigned& offset) {
        const unsigned unit = first_unit + row % UNITS;
        offset = (row / UNITS * HIDDEN + unit) * HIDDEN;
        return HIDDEN % UNITS == 0 || unit < HIDDEN;
    };
#if WITH_MATRIX
    using Product = StepProduct<GATES, WeightElement>;
    constexpr unsigned KEPT = WITH_HELD ? Product::template KEPT<HIDDEN> : 0;
    STEP_LDS(kept, KEPT + Product::template PASSING<SAMPLES * UNITS>);
    float* const held = kept + KEPT;
#if WITH_HELD
    Product::template keep<HIDDEN>(kept, r, weights_at);
    __syncthreads();
#endif
#elif WITH_HELD
    STEP_LDS(weights, HELD_FLOATS<GATES>);
    float* const held = weights + WEIGHTS<GATES>;
    hold_rows<GATES * UNITS, HIDDEN, WIDTH>(weights, r, 0, weights_at);
#else
    alignas(16) __shared__ float held[FLOATS<GATES>];
#endif
    CHAIN_TURNS {
    float early[GATES + 1] = {};
    if constexpr (EARLY) {
        const unsigned unit = first_unit + threadIdx.x % UNITS,
                       sample = first_sample + threadIdx.x / UNITS;
        if (threadIdx.x < SAMPLES * UNITS && unit < HIDDEN && sample < BATCH) {
#pragma unroll
            for (unsigned gate = 0; gate < GATES; gate++)
                early[gate] = load(
                    x, SKIPS ? sample * HIDDEN + unit : (sample * GATES + gate) * HIDDEN + unit);
            if constexpr (CELL == Cell::LSTM)
                early[GATES] = cell_before[sample * HIDDEN + unit];
            if constexpr (CELL == Cell::GRU)
                early[GATES] = before[sample * HIDDEN + unit];
        }
    }
#if WITH_MATRIX
    if constexpr (!FIRST) {
        Product::template multiply<HIDDEN>(rounded, sample_at, r, weights_at, held, kept);
        __syncthreads();
    }
#elif WITH_HELD
    {
        float sum[GATES * OWN][HELD] = {};
        hold_rows<SAMPLES, HIDDEN, WIDTH>(held, before, 0, sample_at);
        __syncthreads();
        add_products(held, weights, sum);
        __syncthreads();
        leave_partials(held, sum);
        __syncthreads();
    }
#elif WITH_PREFETCH
    if constexpr (!FIRST) {
        float* const weights = held + SAMPLES * PITCH;
        float sum[GATES * OWN][HELD] = {};
        ComingRows<SAMPLES, HIDDEN, WIDTH> left;
        ComingRows<GATES * UNITS, HIDDEN, WIDTH> right;
        left.fetch(before, 0, sample_at);
        right.fetch(r, 0, weights_at);
        for (unsigned k = 0; k < HIDDEN; k += DEPTH) {
            left.put(held);
            right.put(weights);
            __syncthreads();
            if (k + DEPTH < HIDDEN) {
                left.fetch(before, k + DEPTH, sample_at);
                right.fetch(r, k + DEPTH, weights_at);
            }
            add_products(held, weights, sum);
            __syncthreads();
        }
        leave_partials(held, sum);
        __syncthreads();
    }
#else
    if constexpr (!FIRST) {
        float* const weights = held + SAMPLES * PITCH;
        float sum[GATES * OWN][HELD] = {};
        for (unsigned k = 0; k < HIDDEN; k += DEPTH) {
            hold_rows<SAMPLES, HIDDEN, WIDTH>(held, before, k, sample_at);
            hold_rows<GATES * UNITS, HIDDEN, WIDTH>(weights, r, k, weights_at);
            __syncthreads();
            add_products(held, weights, sum);
            __syncthreads();
        }
        leave_partials(held, sum);
        __syncthreads();
    }
#endif

#if WITH_MATRIX || WITH_HELD || WITH_PREFETCH
    for (unsigned place = threadIdx.x; place < SAMPLES * UNITS; place += BLOCK) {
        const unsigned own_unit = place % UNITS, own_sample = place / UNITS;
        const unsigned unit = first_unit + own_unit, sample = first_sample + own_sample;
        if (unit >= HIDDEN || sample >= BATCH)
            continue;
#else
    const unsigned own_unit = threadIdx.x % UNITS, own_sample = threadIdx.x / UNITS;
    const unsigned unit = first_unit + own_unit, sample = first_sample + own_sample;
    if (own_sample >= SAMPLES || unit >= HIDDEN || sample >= BATCH)
        return;
#endif
    float inside[GATES], sums[GATES];
#pragma unroll
    for (unsigned gate = 0; gate < GATES; gate++) {
        inside[gate] = KNOWN(
            x, (SKIPS ? sample * HIDDEN + unit : (sample * GATES + gate) * HIDDEN + unit), gate);
        if constexpr (WITH_INPUT_BIAS)
            inside[gate] += load(bw, gate * HIDDEN + unit);
        sums[gate] = FIRST ? 0 : total<GATES>(held, gate, own_sample, own_unit);
        if constexpr (WITH_BIAS)
            sums[gate] += load(br, gate * HIDDEN + unit);
    }

    const unsigned at = sample * HIDDEN + unit;
    if constexpr (CELL == Cell::LSTM) {
        const float input = sigmoid(inside[0] + sums[0]);
        const float forget = sigmoid(inside[1] + sums[1]);
        const float fresh = hyperbolic(inside[2] + sums[2]);
        const float output = sigmoid(inside[3] + sums[3]);
        const float state =
            FIRST ? input * fresh : fused(forget, KNOWN(cell_before, at, GATES), input * fresh);
        cell[at] = state;
        h[at] = output * hyperbolic(state);
        float* const own = gates + sample * GATES * HIDDEN + unit;
        own[0] = input;
        own[HIDDEN] = forget;
        own[2 * HIDDEN] = fresh;
        own[3 * HIDDEN] = output;
    } else if constexpr (CELL == Cell::GRU) {
        const float reset = sigmoid(inside[0] + sums[0]);
        const float update = sigmoid(inside[1] + sums[1]);
        const float fresh = hyperbolic(fused(reset, sums[2], inside[2]));
        const float last = FIRST ? 0 : KNOWN(before, at, GATES);
        candidate[at] = sums[2];
        h[at] = fused(update, last - fresh, fresh);
        float* const own = gates + sample * GATES * HIDDEN + unit;
        own[0] = reset;
        own[HIDDEN] = update;
        own[2 * HIDDEN] = fresh;
    } else if constexpr (CELL == Cell::RELU) {
        h[at] = maximum(inside[0] + sums[0], 0.0f);
    } else {
        h[at] = hyperbolic(inside[0] + sums[0]);
    }
#if WITH_MATRIX
        held[Product::STAGED + place] = h[at];
#endif
#if WITH_MATRIX || WITH_HELD || WITH_PREFETCH
    }
#endif
#if WITH_MATRIX
    __syncthreads();
    store_staged<SAMPLES>(
        held + Product::STAGED, y, first_unit, [=](unsigned row, unsigned& offset, unsigned& from) {
            offset = (first_sample + row) * HIDDEN;
            from = row;
            return BATCH % SAMPLES == 0 || first_sample + row < BATCH;
        });
#endif
    CHAIN_NEXT(x PARAMETERS(AND_NAMED));
    }
}

#undef PARAMETERS
