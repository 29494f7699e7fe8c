/* y = x where a query sees a key, and HIDDEN where it does not; of (samples, ..., QUERIES,
 * KEYS). */
#include "prelude.h"
#include "constants/mask.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

#if WITH_LENGTHS
#define LENGTHS const int* __restrict__ lengths,
#define SEES(at) (at) % KEYS < static_cast<unsigned>(lengths[(at) / SAMPLE])
#else
#define LENGTHS
#define SEES(at) (at) % KEYS <= (at) / KEYS % QUERIES + (KEYS - QUERIES)
#endif

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, LENGTHS Element* __restrict__ y)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || together<Element>(at, SIZE)) {
        const float4 in = load4(x + at);
        float4 out = in;
        /* What lies behind the end of a narrow tensor is nobody's. */
        out.x = SEES(at) ? in.x : HIDDEN;
        out.y = SEES(at + 1 < SIZE ? at + 1 : at) ? in.y : HIDDEN;
        out.z = SEES(at + 2 < SIZE ? at + 2 : at) ? in.z : HIDDEN;
        out.w = SEES(at + 3 < SIZE ? at + 3 : at) ? in.w : HIDDEN;
        keep4(y + at, out);
    } else if (SIZE % VECTOR != 0) {
        for (unsigned k = at; k < SIZE; k++)
            store(y, k, SEES(k) ? load(x, k) : HIDDEN);
    }
}

#undef LENGTHS
#undef SEES
