/* Sorted runs of RUN keys become sorted runs of twice as many: a work-item finds the key at its
 * place (merge path). */
#include "prelude.h"
#include "constants/embedding_merge.h"

static __device__ __forceinline__ unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const int* __restrict__ sorted, int* __restrict__ keys)
{
    const unsigned at = blockIdx.x * BLOCK + threadIdx.x;
    if (PLACES % BLOCK != 0 && at >= PLACES)
        return;
    /* keys of both runs that are before it */
    const unsigned start = at / (2 * RUN) * (2 * RUN), before = at - start;
    const unsigned a_count = least(RUN, PLACES - start);
    const unsigned b_count = least(RUN, PLACES - start - a_count);
    const unsigned* a = reinterpret_cast<const unsigned*>(sorted) + start;
    const unsigned* b = a + a_count;
    /* Of a before it, at least and at most. Compilers would subtract with a clamp, which
     * simulators ignore. */
    unsigned low = before - opaque(least(before, b_count));
    unsigned high = least(before, a_count);
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (a[middle] < b[before - 1 - middle])
            low = middle + 1;
        else
            high = middle;
    }
    const unsigned of_b = before - low;
    const bool from_a = of_b >= b_count || (low < a_count && a[low] < b[of_b]);
    keys[at] = static_cast<int>(from_a ? a[low] : b[of_b]);
}
