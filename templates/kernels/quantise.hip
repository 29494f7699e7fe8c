/* Numbers of few bits, and a scale of each group of neighbours: the largest magnitude of a group
 * becomes about the largest number. LANES work-items have a group; each takes 16 neighbours at
 * once. */
#include "prelude.h"
#include "scales.h"
#include "constants/quantise.h"
#include "reduce.h"

constexpr unsigned EACH = 16;
constexpr unsigned PIECES = GROUP / EACH; /* of a group */
constexpr unsigned HELD = (PIECES + LANES - 1) / LANES; /* of a work-item, at most */
constexpr bool IN_REGISTERS = HELD <= 2; /* or it reads them again */
constexpr unsigned UNROLLED = IN_REGISTERS ? HELD : 1;
constexpr unsigned OWN = BLOCK / LANES; /* groups of a work-group */

static __device__ __forceinline__ void read(float (&to)[EACH], const Element* from)
{
#pragma unroll
    for (unsigned i = 0; i < EACH; i += 4) {
        const float4 four = load4(from + i);
        to[i] = four.x;
        to[i + 1] = four.y;
        to[i + 2] = four.z;
        to[i + 3] = four.w;
    }
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, unsigned* __restrict__ y, unsigned* __restrict__ scales)
{
    __shared__ float largest[BLOCK];
    __shared__ unsigned made[OWN];
    const unsigned lane = threadIdx.x % LANES, own = threadIdx.x / LANES;
    const unsigned group = blockIdx.x * OWN + own;
    const bool there = GROUPS % OWN == 0 || group < GROUPS;
    const Element* from = x + group * GROUP;
    float held[IN_REGISTERS ? HELD : 1][EACH];
    float most = 0.0f;
#pragma unroll UNROLLED
    for (unsigned k = 0; k < HELD; k++) {
        const unsigned piece = k * LANES + lane;
        float(&part)[EACH] = held[IN_REGISTERS ? k : 0];
        if (there && piece < PIECES) {
            read(part, from + piece * EACH);
#pragma unroll
            for (unsigned i = 0; i < EACH; i++)
                most = maximum(most, absolute(part[i]));
        }
    }
    if constexpr (LANES > 1)
        most = reduce<Maximum, LANES, 16>(
            most, largest, lane, [&](unsigned slice) { return own * LANES + slice; });
    const auto scale = ScaleOf<Scale>::made(most, INVERSE, TOP, LARGEST_SCALE);

#pragma unroll UNROLLED
    for (unsigned k = 0; k < HELD; k++) {
        const unsigned piece = k * LANES + lane;
        float(&part)[EACH] = held[IN_REGISTERS ? k : 0];
        if (there && piece < PIECES) {
            if constexpr (!IN_REGISTERS)
                read(part, from + piece * EACH);
#pragma unroll
            for (unsigned i = 0; i < EACH; i++) {
                const float number = part[i] * scale.inverse;
                part[i] = minimum(
                    maximum(sizeof(Scale) == 4 ? number : settled(number), -LARGEST), LARGEST);
            }
            store16<Number>(y + (group * PIECES + piece) * (Number::BITS / 2), part);
        }
    }
    /* Scales of less than a word are stored by words. */
    constexpr unsigned SHARED = 4 / sizeof(Scale), BITS = 32 / SHARED;
    if (lane == 0)
        made[own] = there ? scale.bits : 0u;
    __syncthreads();
    const unsigned word = blockIdx.x * (OWN / SHARED) + threadIdx.x;
    if (threadIdx.x < OWN / SHARED && word * SHARED < GROUPS) {
        unsigned bits = 0;
#pragma unroll
        for (unsigned i = 0; i < SHARED; i++)
            bits |= opaque(made[threadIdx.x * SHARED + i]) << i * BITS % 32;
        scales[word] = bits;
    }
}
