/* A time step of a recurrent layer, backward: the gradient of h, which is dy and what the step
 * behind passes on through the recurrent weights, and what the cell makes of it. In the first
 * one, what is behind is zero; in the start, what was before. */
#include "prelude.h"
#include "constants/recurrent_back.h"
#include "activation.h"
#include "chain.h"
#include "recurrent.h"
#include "recurrent_matrix.h"
#include "when.h"

/* These stand for parameters that the kernel may lack. */
constexpr const float* carry_behind = nullptr;
constexpr const float* gates = nullptr;
constexpr const float* cell = nullptr;
constexpr const float* cell_before = nullptr;
constexpr const float* candidate = nullptr;
constexpr const float* h_before = nullptr;
constexpr const float* h = nullptr;
constexpr float* drec = nullptr;
constexpr float* carry = nullptr;
constexpr float* dx = nullptr;
constexpr const float* dhy = nullptr;

/* Slopes by results. */
static __device__ __forceinline__ float of_sigmoid(float y) { return y * (1 - y); }
static __device__ __forceinline__ float of_tanh(float y) { return (1 - y) * (1 + y); }

#if WITH_MATRIX /* r is turned: it lies along the gates */
using BehindElement = WeightElement;
#else
using BehindElement = float;
#endif
#define PARAMETERS(DO)                                                                             \
    WHEN(WITH_FINAL, DO(const float* __restrict__, dhy))                                           \
    DO(const BehindElement* ALONE, behind)                                                         \
    DO(const WeightElement* __restrict__, r)                                                       \
    WHEN(WITH_GATES, DO(const float* ALONE, carry_behind) DO(const float* ALONE, gates))           \
    UNLESS(WITH_GATES, DO(const float* ALONE, h))                                                  \
    WHEN(WITH_CELL, DO(const float* ALONE, cell) DO(const float* ALONE, cell_before))              \
    WHEN(WITH_CANDIDATE, DO(const float* ALONE, candidate) DO(const float* ALONE, h_before))       \
    WHEN(WITH_CANDIDATE, DO(float* ALONE, drec))                                                   \
    WHEN(WITH_GATES, DO(float* ALONE, carry))                                                      \
    WHEN(WITH_DX, DO(float* ALONE, dx))                                                            \
    DO(float* ALONE, dgates)                                                                       \
    WHEN(WITH_ROUNDED_GATES, DO(WeightElement* ALONE, rounded_gates))                              \
    WHEN(WITH_MATRIX, DO(WeightElement* ALONE, rounded))

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* ALONE dy PARAMETERS(AND_DECLARED) CHAIN_PARAMETERS)
{
    const unsigned first_unit = blockIdx.x * UNITS;
    const unsigned first_sample = blockIdx.y * SAMPLES;
    const auto sample_at = [=](unsigned row, unsigned& offset) {
        offset = (first_sample + row) * (GATES * HIDDEN);
        return BATCH % SAMPLES == 0 || first_sample + row < BATCH;
    };
#if WITH_MATRIX
    using Product = StepProduct<1, WeightElement>;
    /* of gradients: a GRU's third gate has two */
    constexpr unsigned KINDS = GATES + (CELL == Cell::GRU);
    constexpr unsigned KEPT = WITH_HELD ? Product::template KEPT<GATES * HIDDEN> : 0;
    STEP_LDS(kept, KEPT + Product::template PASSING<KINDS * SAMPLES * UNITS>);
    float* const held = kept + KEPT;
    float* const staged = held + Product::STAGED;
    const auto unit_at = [=](unsigned row, unsigned& offset) {
        offset = (first_unit + row) * (GATES * HIDDEN);
        return HIDDEN % UNITS == 0 || first_unit + row < HIDDEN;
    };
#if WITH_HELD
    Product::template keep<GATES * HIDDEN>(kept, r, unit_at);
    __syncthreads();
#endif
#elif WITH_HELD
    STEP_LDS(weights, HELD_FLOATS<1>);
    float* const held = weights + WEIGHTS<1>;
    hold_columns<GATES * HIDDEN, WIDTH>(weights, r, 0, first_unit);
#else
    alignas(16) __shared__ float held[FLOATS<1>];
#endif
    CHAIN_TURNS {
    float early[GATES + 4] = {};
    if constexpr (EARLY) {
        const unsigned unit = first_unit + threadIdx.x % UNITS,
                       sample = first_sample + threadIdx.x / UNITS;
        const unsigned at = sample * HIDDEN + unit;
        if (threadIdx.x < SAMPLES * UNITS && unit < HIDDEN && sample < BATCH) {
            early[0] = dy[at];
#pragma unroll
            for (unsigned gate = 0; gate < GATES; gate++)
                early[1 + gate] =
                    WITH_GATES ? gates[(sample * GATES + gate) * HIDDEN + unit] : h[at];
            if constexpr (WITH_CELL || WITH_CANDIDATE) {
                early[GATES + 1] = WITH_CELL ? cell[at] : candidate[at];
                early[GATES + 2] = START ? 0 : WITH_CELL ? cell_before[at] : h_before[at];
                early[GATES + 3] = carry_behind[at];
            }
        }
    }
#if WITH_MATRIX
    if constexpr (!FIRST) {
        Product::template multiply<GATES * HIDDEN>(behind, sample_at, r, unit_at, held, kept);
        __syncthreads();
    }
#elif WITH_HELD
    {
        float sum[OWN][HELD] = {};
        hold_rows<SAMPLES, GATES * HIDDEN, LEFT_WIDTH>(held, behind, 0, sample_at);
        __syncthreads();
        add_products(held, weights, sum);
        __syncthreads();
        leave_partials(held, sum);
        __syncthreads();
    }
#elif WITH_PREFETCH
    if constexpr (!FIRST) {
        float* const weights = held + SAMPLES * PITCH;
        float sum[OWN][HELD] = {};
        ComingRows<SAMPLES, GATES * HIDDEN, LEFT_WIDTH> left;
        ComingColumns<GATES * HIDDEN, WIDTH> right;
        left.fetch(behind, 0, sample_at);
        right.fetch(r, 0, first_unit);
        for (unsigned k = 0; k < GATES * HIDDEN; k += DEPTH) {
            left.put(held);
            right.put(weights);
            __syncthreads();
            if (k + DEPTH < GATES * HIDDEN) {
                left.fetch(behind, k + DEPTH, sample_at);
                right.fetch(r, k + DEPTH, first_unit);
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
        float sum[OWN][HELD] = {};
        for (unsigned k = 0; k < GATES * HIDDEN; k += DEPTH) {
            hold_rows<SAMPLES, GATES * HIDDEN, LEFT_WIDTH>(held, behind, k, sample_at);
            hold_columns<GATES * HIDDEN, WIDTH>(weights, r, k, first_unit);
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
    const unsigned at = sample * HIDDEN + unit;
    const unsigned of_gates = sample * GATES * HIDDEN + unit;
    float dh = KNOWN(dy, at, 0);
    if constexpr (WITH_FINAL)
        dh += dhy[at];
    if constexpr (!FIRST)
        dh += total<1>(held, 0, own_sample, own_unit);
    float made[GATES];
    if constexpr (CELL == Cell::LSTM) {
        const float input = KNOWN(gates, of_gates, 1), forget = KNOWN(gates, of_gates + HIDDEN, 2);
        const float fresh = KNOWN(gates, of_gates + 2 * HIDDEN, 3),
                    output = KNOWN(gates, of_gates + 3 * HIDDEN, GATES);
        const float squashed = activate<Activation::TANH>(KNOWN(cell, at, GATES + 1), 0, 0);
        const float dc = fused(dh * output, of_tanh(squashed),
            FIRST && !WITH_FINAL ? 0 : KNOWN(carry_behind, at, GATES + 3));
        made[0] = dc * fresh * of_sigmoid(input);
        made[1] = dc * (START ? 0 : KNOWN(cell_before, at, GATES + 2)) * of_sigmoid(forget);
        made[2] = dc * input * of_tanh(fresh);
        made[3] = dh * squashed * of_sigmoid(output);
        carry[at] = dc * forget;
    } else if constexpr (CELL == Cell::GRU) {
        if constexpr (!FIRST)
            dh += KNOWN(carry_behind, at, GATES + 3);
        const float reset = KNOWN(gates, of_gates, 1), update = KNOWN(gates, of_gates + HIDDEN, 2),
                    fresh = KNOWN(gates, of_gates + 2 * HIDDEN, 3);
        made[1] = dh * ((START ? 0 : KNOWN(h_before, at, GATES + 2)) - fresh) * of_sigmoid(update);
        made[2] = dh * (1 - update) * of_tanh(fresh);
        made[0] = made[2] * KNOWN(candidate, at, GATES + 1) * of_sigmoid(reset);
        drec[of_gates] = made[0];
        drec[of_gates + HIDDEN] = made[1];
        drec[of_gates + 2 * HIDDEN] = made[2] * reset;
        carry[at] = dh * update;
    } else if constexpr (CELL == Cell::RELU) {
        made[0] = KNOWN(h, at, 1) > 0 ? dh : 0;
    } else {
        made[0] = dh * of_tanh(KNOWN(h, at, 1));
    }
    float all = 0;
#pragma unroll
    for (unsigned gate = 0; gate < GATES; gate++) {
        dgates[of_gates + gate * HIDDEN] = made[gate];
        all = gate ? all + made[gate] : made[gate];
    }
    if constexpr (WITH_DX)
        dx[at] = all;
#if WITH_MATRIX
#pragma unroll
        for (unsigned gate = 0; gate < GATES; gate++)
            staged[gate * SAMPLES * UNITS + place] = made[gate];
        if constexpr (CELL == Cell::GRU)
            staged[GATES * SAMPLES * UNITS + place] = made[2] * gates[of_gates];
#endif
#if WITH_MATRIX || WITH_HELD || WITH_PREFETCH
    }
#endif
#if WITH_MATRIX
    __syncthreads();
    const auto stored = [=](unsigned third) { /* which kind the third gate's is */
        return [=](unsigned row, unsigned& offset, unsigned& from) {
            const unsigned gate = row % GATES, sample = row / GATES;
            offset = ((first_sample + sample) * GATES + gate) * HIDDEN;
            from = (gate == 2 ? third : gate) * SAMPLES + sample;
            return BATCH % SAMPLES == 0 || first_sample + sample < BATCH;
        };
    };
    store_staged<GATES * SAMPLES>(staged, rounded, first_unit, stored(CELL == Cell::GRU ? 3 : 2));
#if WITH_ROUNDED_GATES
    store_staged<GATES * SAMPLES>(staged, rounded_gates, first_unit, stored(2));
#endif
#endif
    CHAIN_NEXT(dy PARAMETERS(AND_NAMED));
    }
}

#undef PARAMETERS
