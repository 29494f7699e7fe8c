/* Inverse Fourier transforms of products[PLACES][channel][2][tile]: of each tile, STEP_H x
 * STEP_W pixels of the target; and what follows. */
#include "prelude.h"
#include "vector.h"
#include "conv_fft.h"
#include "constants/conv_fft_target.h"
#include "epilogue.h"

constexpr const float* bias = nullptr; /* stands for a parameter that the kernel may lack */
constexpr unsigned TILES = BATCH * DOWN * ACROSS; /* of all samples */
constexpr unsigned TOTAL = CHANNELS * TILES;

/* Where rows of a tile lie in LDS on their way to memory, half of all at a time: in other banks
 * than those of neighbours, which are SPREAD banks apart, or an odd number of them. */
constexpr unsigned RUN = T + 1;
constexpr unsigned SPREAD = LINES < 32 ? 32 / LINES : 1;
constexpr unsigned OF_LINE = HALF * RUN + (3 * SPREAD - HALF * RUN % (2 * SPREAD)) % (2 * SPREAD);
constexpr unsigned STORED_LDS = LINES * OF_LINE > TILE_LDS ? LINES * OF_LINE : TILE_LDS;
/* T work-items store a row: of how many items of a tile, and of how many tiles, at once. */
constexpr unsigned ITEMS_AT_ONCE = BLOCK / T < HALF ? BLOCK / T : HALF;
constexpr unsigned LINES_AT_ONCE = BLOCK / T / ITEMS_AT_ONCE;

/* A row of a tile, as far as it has results. */
static __device__ __forceinline__ void store(
    float (&row)[T], float shift, const Epilogue& epilogue, unsigned column, float* out)
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

/* Rows 2 item + ODD of all tiles, of which each work-item has one, `row`. Work-items side by
 * side store side by side. */
template <unsigned ODD, class Finish>
static __device__ __forceinline__ void store_together(
    const float (&row)[T], float* lds, float* __restrict__ target, Finish finish)
{
    __syncthreads(); /* what was in LDS has been read */
    float* mine = lds + threadIdx.x % LINES * OF_LINE + threadIdx.x / LINES * RUN;
#pragma unroll
    for (unsigned s = 0; s < STEP_W; s++)
        mine[s] = row[s];
    __syncthreads();
    const unsigned s = threadIdx.x % T;
    const unsigned own = threadIdx.x / T; /* of the rows that are stored at once */
    for (unsigned nth = own / ITEMS_AT_ONCE; nth < LINES; nth += LINES_AT_ONCE) {
        const unsigned line = blockIdx.x * LINES + nth;
        const unsigned tile = line % TILES;
        const unsigned channel = line / TILES;
        const unsigned column = tile % ACROSS * STEP_W + s;
        if (s >= STEP_W || column >= COLUMNS_COUNT || (TOTAL % LINES != 0 && line >= TOTAL))
            continue;
        const unsigned plane = tile / (DOWN * ACROSS) * CHANNELS + channel;
        const unsigned first = tile / ACROSS % DOWN * STEP_H + ODD;
        float* out = target + (plane * ROWS_COUNT + first) * COLUMNS_COUNT + column;
#pragma unroll
        for (unsigned times = 0; times < HALF / ITEMS_AT_ONCE; times++) {
            const unsigned item = own % ITEMS_AT_ONCE + times * ITEMS_AT_ONCE;
            if (2 * item + ODD < STEP_H && first + 2 * item < ROWS_COUNT)
                out[2 * item * COLUMNS_COUNT] =
                    finish(channel, lds[nth * OF_LINE + item * RUN + s]);
        }
    }
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const float* __restrict__ products,
#if WITH_BIAS
    const float* __restrict__ bias,
#endif
#if WITH_BATCH_NORM
    const float* __restrict__ bn_w, const float* __restrict__ bn_b,
    const float* __restrict__ running_mean, const float* __restrict__ running_var,
#endif
    float* __restrict__ target)
{
    const unsigned item = threadIdx.x / LINES;
    const unsigned line = blockIdx.x * LINES + threadIdx.x % LINES;
    const unsigned at = TOTAL % LINES == 0 || line < TOTAL ? line : TOTAL - 1; /* not stored */
    const unsigned tile = at % TILES;
    const unsigned channel = at / TILES;
    float re[T];
    float im[T];
    take_places<2 * CHANNELS * HELD, HELD>(re, im, products + channel * (2 * HELD) + tile);
    __shared__ float lds[STORED_LDS];
    tile_of(re, im, lds);
    if constexpr (STORE_WIDTH < 4) {
        const auto finish = [&](unsigned of, float value) {
            return epilogue_of(of, bn_w, bn_b, running_mean, running_var)(
                WITH_BIAS ? value + bias[of] : value);
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
    float* upper =
        target + ((sample * CHANNELS + channel) * ROWS_COUNT + row) * COLUMNS_COUNT + column;
    float* lower = upper + COLUMNS_COUNT;
    if (2 * item < STEP_H && row < ROWS_COUNT)
        store(re, shift, epilogue, column, upper);
    if (2 * item + 1 < STEP_H && row + 1 < ROWS_COUNT)
        store(im, shift, epilogue, column, lower);
}
