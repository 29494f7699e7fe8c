/* Products of the rows of a block with the weights of its expert: y = a w^T, or gated f(a w0^T)
 * (a w1^T), w1 behind w0. LANES work-items have an element of all rows. A row is that of a
 * pair's token or, unless GATHERED, that of the place. */
#include "prelude.h"
#include "gate_unit.h"
#include "scales.h"
#include "constants/expert_product.h"

constexpr unsigned COLUMNS = BLOCK / LANES; /* of a work-group */
constexpr unsigned PARTS = GATED ? 2 : 1;
static_assert(PLACES % ROWS == 0, "rows of y are those of whole blocks");

#if SCALED_WEIGHTS
constexpr unsigned HIGH = (PARTS * WIDTH + SHARING - 1) / SHARING; /* rows of scales */
#endif

static __device__ __forceinline__ float dot(float4 a, float4 b, float sum)
{
    return fused(a.w, b.w, fused(a.z, b.z, fused(a.y, b.y, fused(a.x, b.x, sum))));
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ a, const Weight* __restrict__ w,
#if SCALED_WEIGHTS
    const Scale* __restrict__ scales,
#endif
    const int* __restrict__ order, const int* __restrict__ experts, float* __restrict__ y)
{
    __shared__ float sums[PARTS * ROWS * BLOCK];
    const unsigned lane = threadIdx.x % LANES, column = threadIdx.x / LANES;
    const unsigned first = blockIdx.x * ROWS, n = blockIdx.y * COLUMNS + column;
    const unsigned slot = static_cast<unsigned>(experts[blockIdx.x]);
    const Element* rows[ROWS];
    unsigned pairs[ROWS];
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) {
        pairs[r] = static_cast<unsigned>(order[first + r]);
        /* without a pair, it is not read */
        rows[r] = a + (GATHERED ? pairs[r] / TOP_K : first + r) * DEPTH;
    }
    float sum[PARTS][ROWS] = {};
    if (slot < STORED && (WIDTH % COLUMNS == 0 || n < WIDTH)) {
#if SCALED_WEIGHTS
        const unsigned* of_expert = reinterpret_cast<const unsigned*>(w)
                                    + static_cast<unsigned long long>(slot)
                                          * (PARTS * WIDTH * (DEPTH / 16) * (Weight::BITS / 2));
        const unsigned of_slot = slot * (HIGH * (DEPTH / GROUP));
#else
        const Weight* of_expert =
            w + static_cast<unsigned long long>(slot) * (PARTS * WIDTH * DEPTH);
#endif
        for (unsigned k = lane * 4; k < DEPTH; k += LANES * 4) {
            float4 weights[PARTS];
#pragma unroll
            for (unsigned part = 0; part < PARTS; part++) {
                const unsigned row = part * WIDTH + n;
#if SCALED_WEIGHTS
                weights[part] = scaled(numbers4<Weight>(of_expert, row * DEPTH + k), scales,
                    of_slot + row / SHARING * (DEPTH / GROUP) + k / GROUP);
#else
                weights[part] = load4(of_expert + row * DEPTH + k);
#endif
            }
#pragma unroll
            for (unsigned r = 0; r < ROWS; r++)
                if (pairs[r] < PAIRS) {
                    const float4 x = load4(rows[r] + k);
#pragma unroll
                    for (unsigned part = 0; part < PARTS; part++)
                        sum[part][r] = dot(x, weights[part], sum[part][r]);
                }
        }
    }
#pragma unroll
    for (unsigned part = 0; part < PARTS; part++)
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++)
            sums[(part * ROWS + r) * BLOCK + threadIdx.x] = sum[part][r];
    __syncthreads();
    for (unsigned at = threadIdx.x; at < ROWS * COLUMNS; at += BLOCK) {
        const unsigned r = at / COLUMNS, c = at % COLUMNS, to = blockIdx.y * COLUMNS + c;
        float total[PARTS];
#pragma unroll
        for (unsigned part = 0; part < PARTS; part++) {
            const float* partial = sums + (part * ROWS + r) * BLOCK + c * LANES;
            total[part] = partial[0];
#pragma unroll
            for (unsigned k = 1; k < LANES; k++)
                total[part] += partial[k];
        }
        if (WIDTH % COLUMNS == 0 || to < WIDTH) {
            if constexpr (GATED)
                y[(first + r) * WIDTH + to] = unit<FUNCTION>(total[0]) * total[PARTS - 1];
            else
                y[(first + r) * WIDTH + to] = total[0];
        }
    }
}
