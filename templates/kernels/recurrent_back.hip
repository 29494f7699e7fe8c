/* A time step of a recurrent layer, backward: the gradient of h, which is dy and what the step behind passes on through the
 * recurrent weights, and what the cell makes of it. In the first one, what is behind is zero; in the start, what was before. */
#include "prelude.h"
#include "constants/recurrent_back.h"
#include "activation.h"
#include "recurrent.h"
#include "recurrent_matrix.h"

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

/* Slopes by results. */
static __device__ __forceinline__ float of_sigmoid(float y) { return y * (1 - y); }
static __device__ __forceinline__ float of_tanh(float y) { return (1 - y) * (1 + y); }

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
#if WITH_MATRIX /* r is turned: it lies along the gates */
    const float* __restrict__ dy, const WeightElement* __restrict__ behind, const WeightElement* __restrict__ r,
#else
    const float* __restrict__ dy, const float* __restrict__ behind, const WeightElement* __restrict__ r,
#endif
#if WITH_GATES
    const float* __restrict__ carry_behind, const float* __restrict__ gates,
#else
    const float* __restrict__ h,
#endif
#if WITH_CELL
    const float* __restrict__ cell, const float* __restrict__ cell_before,
#endif
#if WITH_CANDIDATE
    const float* __restrict__ candidate, const float* __restrict__ h_before, float* __restrict__ drec,
#endif
#if WITH_GATES
    float* __restrict__ carry,
#endif
#if WITH_DX
    float* __restrict__ dx,
#endif
    float* __restrict__ dgates
#if WITH_ROUNDED_GATES
    , WeightElement* __restrict__ rounded_gates
#endif
#if WITH_MATRIX
    , WeightElement* __restrict__ rounded
#endif
)
{
    const unsigned first_unit = blockIdx.x * UNITS;
    const unsigned first_sample = blockIdx.y * SAMPLES;
#if WITH_MATRIX
    using Product = StepProduct<1, WeightElement>;
    constexpr unsigned KINDS = GATES + (CELL == Cell::GRU); /* of gradients: a GRU's third gate has two */
    STEP_LDS(held, Product::STAGED + KINDS * SAMPLES * UNITS);
    float* const staged = held + Product::STAGED;
    if constexpr (!FIRST) {
        const auto sample_at = [=](unsigned row, unsigned& offset) {
            offset = (first_sample + row) * (GATES * HIDDEN);
            return BATCH % SAMPLES == 0 || first_sample + row < BATCH;
        };
        const auto unit_at = [=](unsigned row, unsigned& offset) {
            offset = (first_unit + row) * (GATES * HIDDEN);
            return HIDDEN % UNITS == 0 || first_unit + row < HIDDEN;
        };
        Product::template multiply<GATES * HIDDEN>(behind, sample_at, r, unit_at, held);
        __syncthreads();
    }
#else
    alignas(16) __shared__ float held[FLOATS<1>];
    if constexpr (!FIRST) {
        float* const weights = held + SAMPLES * PITCH;
        float sum[1][HELD] = {};
        const auto sample_at = [=](unsigned row, unsigned& offset) {
            offset = (first_sample + row) * (GATES * HIDDEN);
            return BATCH % SAMPLES == 0 || first_sample + row < BATCH;
        };
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

#if WITH_MATRIX
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
    float dh = dy[at];
    if constexpr (!FIRST)
        dh += total<1>(held, 0, own_sample, own_unit);
    float made[GATES];
    if constexpr (CELL == Cell::LSTM) {
        const float input = gates[of_gates], forget = gates[of_gates + HIDDEN];
        const float fresh = gates[of_gates + 2 * HIDDEN], output = gates[of_gates + 3 * HIDDEN];
        const float squashed = activate<Activation::TANH>(cell[at], 0, 0);
        const float dc = fused(dh * output, of_tanh(squashed), FIRST ? 0 : carry_behind[at]);
        made[0] = dc * fresh * of_sigmoid(input);
        made[1] = dc * (START ? 0 : cell_before[at]) * of_sigmoid(forget);
        made[2] = dc * input * of_tanh(fresh);
        made[3] = dh * squashed * of_sigmoid(output);
        carry[at] = dc * forget;
    } else if constexpr (CELL == Cell::GRU) {
        if constexpr (!FIRST)
            dh += carry_behind[at];
        const float reset = gates[of_gates], update = gates[of_gates + HIDDEN], fresh = gates[of_gates + 2 * HIDDEN];
        made[1] = dh * ((START ? 0 : h_before[at]) - fresh) * of_sigmoid(update);
        made[2] = dh * (1 - update) * of_tanh(fresh);
        made[0] = made[2] * candidate[at] * of_sigmoid(reset);
        drec[of_gates] = made[0];
        drec[of_gates + HIDDEN] = made[1];
        drec[of_gates + 2 * HIDDEN] = made[2] * reset;
        carry[at] = dh * update;
    } else if constexpr (CELL == Cell::RELU) {
        made[0] = h[at] > 0 ? dh : 0;
    } else {
        made[0] = dh * of_tanh(h[at]);
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
    }
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
}
