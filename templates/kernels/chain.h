/* Launches of a kernel that follow each other, as one launch on NVIDIA's GPUs (CHAIN;
 * templates/launchers/cuda_run.py): its work-groups are all there at once, and wait for each
 * other between the turns. Each argument lies the same number of bytes further at every turn. */
#pragma once
#include "prelude.h"

#ifdef CHAIN
#define ALONE /* what a turn reads, the one before may have written */
#define CHAIN_PARAMETERS , const long long* __restrict__ strides, unsigned* arrived, unsigned turns
#define CHAIN_TURNS for (unsigned turn = 0; turn < turns; turn++)

/* Goes on to the arguments of the next turn, given in their order. */
template <class... Places>
static __device__ __forceinline__ void advance(const long long* strides, Places&... places)
{
    unsigned nth = 0;
    ((places = reinterpret_cast<Places>(
          reinterpret_cast<unsigned long long>(places) + strides[nth++])),
        ...);
}

/* Work-groups with the same samples wait for each other: all have written what the next turn
 * reads. The counter is 0 before and behind. */
static __device__ __forceinline__ void next_turn(unsigned* arrived, unsigned turn, unsigned turns)
{
    __syncthreads();
    if (gridDim.x == 1)
        return;
    unsigned* const counter = arrived + blockIdx.y;
    if (threadIdx.x == 0) {
        const unsigned all = (turn + 1) * gridDim.x;
        unsigned seen;
        asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
            : "=r"(seen)
            : "l"(counter)
            : "memory");
        seen++;
        if (turn + 1 == turns) {
            if (seen == all)
                *counter = 0;
        } else {
            while (seen < all)
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                    : "=r"(seen)
                    : "l"(counter)
                    : "memory");
        }
    }
    __syncthreads();
}
#define CHAIN_NEXT(...) (next_turn(arrived, turn, turns), advance(strides, __VA_ARGS__))
#else
#define ALONE __restrict__
#define CHAIN_PARAMETERS
#define CHAIN_TURNS
#define CHAIN_NEXT(...) static_cast<void>(0)
#endif
