/* Joins what attention.hip made of chunks of the keys: sums are multiplied by exp(peak of the
 * chunk - largest peak), and added up. */
#include "prelude.h"
#include "constants/attention_join.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const float* __restrict__ peaks,
    const float* __restrict__ sums, const float* __restrict__ parts, float* __restrict__ lse,
    Element* __restrict__ results)
{
    const unsigned at = blockIdx.x * BLOCK + threadIdx.x, row = at / FOURS, column = at % FOURS * 4;
    if (row >= ROWS)
        return;
    float peak = peaks[row];
    for (unsigned chunk = 1; chunk < CHUNKS; chunk++)
        peak = maximum(peak, peaks[chunk * ROWS + row]);
    float total = 0.0f;
    float y[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (unsigned chunk = 0; chunk < CHUNKS; chunk++) {
        const unsigned place = chunk * ROWS + row;
        const float factor = fast_exp2(peaks[place] - peak);
        total = fused(sums[place], factor, total);
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            if (VALUE_DIM % 4 == 0 || column + i < VALUE_DIM)
                y[i] = fused(parts[place * VALUE_DIM + column + i], factor, y[i]);
    }
    const float scale = total > 0.0f ? fast_rcp(total) : 0.0f;
    if (column == 0)
        lse[row] = total > 0.0f ? (fast_log2(total) + peak) * 0.69314718f : 0.0f;
    if constexpr (VALUE_DIM % 4 == 0) {
        store4(results + row * VALUE_DIM + column,
            float4{y[0] * scale, y[1] * scale, y[2] * scale, y[3] * scale});
    } else {
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            if (column + i < VALUE_DIM)
                store(results, row * VALUE_DIM + column + i, y[i] * scale);
    }
}
