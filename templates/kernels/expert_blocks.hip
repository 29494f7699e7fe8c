/* Pairs of tokens and experts by experts, in blocks of ROWS places of which each has one
 * expert's: the pair at each place, PAIRS where there is none; the expert of each block, or
 * where its weights lie, EXPERTS where it has none; the first place of each expert. */
#include "prelude.h"
#include "constants/expert_blocks.h"
#include "expert_runs.h"

constexpr unsigned BLOCKS = PLACES / ROWS;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const int* __restrict__ sorted,
    int* __restrict__ order, int* __restrict__ experts, int* __restrict__ begins)
{
    __shared__ unsigned firsts[EXPERTS + 1], starts[EXPERTS + 1], slots[EXPERTS + 1];
    const unsigned* keys = reinterpret_cast<const unsigned*>(sorted);
    find_runs<PAIRS, EXPERTS, ROWS, BLOCK>(keys, firsts, starts, slots);
    const unsigned at = blockIdx.x * BLOCK + threadIdx.x;
    if (at < EXPERTS + 1)
        begins[at] = static_cast<int>(starts[at]);
    if (at < PLACES) {
        /* the last expert whose first place is not behind this one */
        unsigned low = 0, high = EXPERTS;
        while (low < high) {
            const unsigned middle = (low + high + 1) / 2;
            if (starts[middle] <= at)
                low = middle;
            else
                high = middle - 1;
        }
        const unsigned key = low < EXPERTS ? firsts[low] + at - opaque(starts[low]) : PAIRS;
        const bool there = low < EXPERTS && key < firsts[low + 1];
        order[at] = static_cast<int>(there ? keys[key] - low * PAIRS : PAIRS);
        if (at % ROWS == 0)
            experts[at / ROWS] = static_cast<int>(low == EXPERTS      ? EXPERTS
                                                  : STORED == EXPERTS ? low
                                                                      : slots[low] % STORED);
    }
}
