/* Inverse Fourier transforms of products[SIZE SIZE / 2][channel][2][tile]: of each tile, STEP_H x STEP_W pixels of the target; and what
 * follows. */
#include "prelude.h"
#include "vector.h"
#include "conv_fft.h"
#include "constants/conv_fft_target.h"
#include "epilogue.h"

constexpr const float* bias = nullptr; /* stands for a parameter that the kernel may lack */
constexpr unsigned TILES = BATCH * DOWN * ACROSS; /* of all samples */
constexpr unsigned TOTAL = CHANNELS * TILES;

/* Where rows of a tile lie in LDS on their way to memory, half of all at a time: in other banks than those of neighbours. */
constexpr unsigned RUN = T + 8;
constexpr unsigned OF_LINE = HALF * RUN + 1;
static_assert(LINES * OF_LINE <= TILE_LDS);

/* A row of a tile, as far as it has results. */
static __device__ __forceinline__ void store(float (&row)[T], float shift, const Epilogue& epilogue, unsigned column, float* out)
{
#pragma unroll
    for (unsigned s = 0; s < STEP_W; s += STORE_WIDTH) {
        if (COLUMNS_COUNT % STEP_W != 0 && column + s >= COLUMNS_COUNT)
            continue;
#pragma unroll
        for (unsigned part = 0; part < STORE_WIDTH; part++)
            row[s + part] = epilogue(WITH_BIAS ? row[s + part] + shift : row[s + part]);
        store_vector<STORE_WIDTH>(out + s, row + s);
    }
}

/* Rows 2 item + ODD of all tiles, of which each work-item has one, `row`. Work-items side by side store side by side. */
template <unsigned ODD, class Finish>
static __device__ __forceinline__ void store_together(const float (&row)[T], float* lds, float* __restrict__ target, Finish finish)
{
    __syncthreads(); /* what was in LDS has been read */
    float* mine = lds + threadIdx.x % LINES * OF_LINE + threadIdx.x / LINES * RUN;
#pragma unroll
    for (unsigned s = 0; s < STEP_W; s++)
        mine[s] = row[s];
    __syncthreads();
    for (unsigned at = threadIdx.x; at < LINES * HALF * T; at += BLOCK) {
        const unsigned s = at % T;
        const unsigned item = at / T % HALF;
        const unsigned nth = at / T / HALF;
        const unsigned line = blockIdx.x * LINES + nth;
        const unsigned tile = line % TILES;
        const unsigned channel = line / TILES;
        const unsigned r = tile / ACROSS % DOWN * STEP_H + 2 * item + ODD;
        const unsigned column = tile % ACROSS * STEP_W + s;
        if (s < STEP_W && 2 * item + ODD < STEP_H && r < ROWS_COUNT && column < COLUMNS_COUNT && (TOTAL % LINES == 0 || line < TOTAL)) {
            const unsigned plane = tile / (DOWN * ACROSS) * CHANNELS + channel;
            target[(plane * ROWS_COUNT + r) * COLUMNS_COUNT + column] = finish(channel, lds[nth * OF_LINE + item * RUN + s]);
        }
    }
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ products,
#if WITH_BIAS
    const float* __restrict__ bias,
#endif
#if WITH_BATCH_NORM
    const float* __restrict__ bn_w, const float* __restrict__ bn_b, const float* __restrict__ running_mean,
    const float* __restrict__ running_var,
#endif
    float* __restrict__ target)
{
    const unsigned item = threadIdx.x / LINES;
    const unsigned line = blockIdx.x * LINES + threadIdx.x % LINES;
    const unsigned at = TOTAL % LINES == 0 || line < TOTAL ? line : TOTAL - 1; /* not stored */
    const unsigned tile = at % TILES;
    const unsigned channel = at / TILES;
    const float* from = products + (item * CHANNELS + channel) * (2 * HELD) + tile;
    float re[T];
    float im[T];
#pragma unroll
    for (unsigned u = 0; u < T; u++) {
        re[u] = from[u * (HALF * 2 * CHANNELS * HELD)];
        im[u] = from[u * (HALF * 2 * CHANNELS * HELD) + HELD];
    }
    __shared__ float lds[TILE_LDS];
    tile_of(re, im, lds);
    if constexpr (STORE_WIDTH < 4) {
        const auto finish = [&](unsigned of, float value) {
            return epilogue_of(of, bn_w, bn_b, running_mean, running_var)(WITH_BIAS ? value + bias[of] : value);
        };
        store_together<0>(re, lds, target, finish);
        store_together<1>(im, lds, target, finish);
        return;
    }
    if (TOTAL % LINES != 0 && line >= TOTAL)
        return;
    const unsigned sample = tile / (DOWN * ACROSS);
    const unsigned row = tile / ACROSS % DOWN * STEP_H + 2 * item;
    const unsigned column = tile % ACROSS * STEP_W;
    const float shift = WITH_BIAS ? bias[channel] : 0.0f;
    const Epilogue epilogue = epilogue_of(channel, bn_w, bn_b, running_mean, running_var);
    float* upper = target + ((sample * CHANNELS + channel) * ROWS_COUNT + row) * COLUMNS_COUNT + column;
    float* lower = upper + COLUMNS_COUNT;
    if (2 * item < STEP_H && row < ROWS_COUNT)
        store(re, shift, epilogue, column, upper);
    if (2 * item + 1 < STEP_H && row + 1 < ROWS_COUNT)
        store(im, shift, epilogue, column, lower);
}
