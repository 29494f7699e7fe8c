/* A convolution of each channel along the tokens before, and of the last tokens a copy. A
 * work-item has RUN tokens of VECTOR channels. */
#include "prelude.h"
#include "constants/causal_conv.h"
#include "access.h"
#include "gelu.h"

#if WITH_STATE
#define STATE const Element *__restrict__ state,
#else
#define STATE
#endif
#if WITH_BIAS
#define BIAS const Element *__restrict__ bias,
#else
#define BIAS
#endif
#if WITH_LAST
#define LAST_TOKENS , Element *__restrict__ last
#else
#define LAST_TOKENS
#endif

constexpr unsigned ACROSS = (CHANNELS + VECTOR - 1) / VECTOR;
constexpr unsigned RUNS = (TOKENS + RUN - 1) / RUN;
constexpr unsigned BEFORE = WIDTH - 1;
constexpr unsigned GROUPS = (SAMPLES * RUNS * ACROSS + BLOCK - 1) / BLOCK;

/* VECTOR neighbours. */
static __device__ __forceinline__ void get(float* to, const Element* from)
{
    if constexpr (VECTOR == 4) {
        const float4 four = load4(from);
        to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    } else {
        to[0] = load(from, 0);
    }
}
static __device__ __forceinline__ void put(Element* to, const float* from)
{
    if constexpr (VECTOR == 4)
        store4(to, float4{from[0], from[1], from[2], from[3]});
    else
        store(to, 0, from[0]);
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ x,
    STATE const Element* __restrict__ w, BIAS Element* __restrict__ y LAST_TOKENS)
{
    /* channel `channel` and those behind it, of a token counted from BEFORE tokens before x on */
    const auto token = [&](float* to, unsigned sample, unsigned at, unsigned channel) {
        if (at < BEFORE) {
#if WITH_STATE
            get(to, state + (sample * BEFORE + at) * CHANNELS + channel);
#else
            for (unsigned j = 0; j < VECTOR; j++)
                to[j] = 0.0f;
#endif
        } else {
            get(to, x + (sample * TOKENS + at - BEFORE) * CHANNELS + channel);
        }
    };
    const unsigned item = blockIdx.x * BLOCK + threadIdx.x;
#if WITH_LAST
    if (blockIdx.x >= GROUPS) {
        const unsigned at = item - GROUPS * BLOCK, row = at / ACROSS;
        if (row >= SAMPLES * BEFORE)
            return;
        const unsigned channel = at % ACROSS * VECTOR;
        float kept[VECTOR];
        token(kept, row / BEFORE, TOKENS + row % BEFORE, channel);
        put(last + row * CHANNELS + channel, kept);
        return;
    }
#endif
    const unsigned channel = item % ACROSS * VECTOR, run = item / ACROSS;
    const unsigned sample = run / RUNS, first = run % RUNS * RUN;
    if (sample >= SAMPLES)
        return;
    float factors[VECTOR * WIDTH], sums[RUN][VECTOR];
#pragma unroll
    for (unsigned k = 0; k < VECTOR * WIDTH; k += VECTOR)
        get(factors + k, w + channel * WIDTH + k);
#pragma unroll
    for (unsigned j = 0; j < VECTOR; j++)
        sums[0][j] = 0.0f;
#if WITH_BIAS
    get(sums[0], bias + channel);
#endif
#pragma unroll
    for (unsigned r = 1; r < RUN; r++)
#pragma unroll
        for (unsigned j = 0; j < VECTOR; j++)
            sums[r][j] = sums[0][j];
#pragma unroll
    for (unsigned i = 0; i < RUN + BEFORE; i++) {
        if (first + i >= TOKENS + BEFORE)
            break;
        float part[VECTOR];
        token(part, sample, first + i, channel);
#pragma unroll
        for (unsigned r = 0; r < RUN; r++)
            if (i >= r && i - r < WIDTH)
#pragma unroll
                for (unsigned j = 0; j < VECTOR; j++)
                    sums[r][j] = fused(factors[j * WIDTH + i - r], part[j], sums[r][j]);
    }
#pragma unroll
    for (unsigned r = 0; r < RUN; r++) {
        if (first + r >= TOKENS)
            break;
        if constexpr (SILU)
#pragma unroll
            for (unsigned j = 0; j < VECTOR; j++)
                sums[r][j] = gelu<Gelu::SILU>(sums[r][j]);
        put(y + (sample * TOKENS + first + r) * CHANNELS + channel, sums[r]);
    }
}

#undef STATE
#undef BIAS
#undef LAST_TOKENS
