/* y0 = x, y1 = x, ... */
#include "prelude.h"
#include "constants/copy.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */

#define PARAMETER(i) , Element* __restrict__ y##i
#define STORE4(i) store4(y##i + at, in);
#define STORE(i) y##i[k] = in;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x EACH_OUTPUT(PARAMETER))
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || at + VECTOR <= SIZE) {
        const float4 in = load4(x + at);
        EACH_OUTPUT(STORE4)
    } else if (SIZE % VECTOR != 0) {
        for (unsigned k = at; k < SIZE; k++) {
            const Element in = x[k];
            EACH_OUTPUT(STORE)
        }
    }
}

#undef PARAMETER
#undef STORE4
#undef STORE
