/* Concatenation of narrow elements, where rows begin or end within a word: a work-item makes
 * VECTOR neighbours of the whole, of whichever inputs they are. */
#include "prelude.h"
#include "constants/concat_mixed.h"

constexpr unsigned PARTS = sizeof(ROWS) / sizeof(ROWS[0]);
constexpr unsigned SAMPLE = STARTS[PARTS]; /* elements of a sample of the whole */
constexpr unsigned SIZE = SAMPLES * SAMPLE;

#define PARAMETER(i) , const Element* __restrict__ x##i
#define ARGUMENT(i) , x##i
#define CHOOSE(i)                                \
    if (i + 1 == PARTS || place < STARTS[i + 1]) \
        return load(x##i, sample * ROWS[i] + (place - STARTS[i]));

/* Element `at` of the whole. */
static __device__ __forceinline__ float chosen(unsigned at EACH_INPUT(PARAMETER))
{
    const unsigned sample = at / SAMPLE;
    const unsigned place = at % SAMPLE;
    EACH_INPUT(CHOOSE)
    return 0;
}

#undef PARAMETER
#define PARAMETER(i) const Element* __restrict__ x##i,

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    EACH_INPUT(PARAMETER) Element* __restrict__ y)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (at >= SIZE)
        return;
    float out[VECTOR];
#pragma unroll
    for (unsigned k = 0; k < VECTOR; k++)
        out[k] = chosen(at + k < SIZE ? at + k : at EACH_INPUT(ARGUMENT));
    keep4(y + at, float4{out[0], out[1], out[2], out[3]});
}

#undef PARAMETER
#undef ARGUMENT
#undef CHOOSE
