/* Keys of the places of a text: first by word, then in their order. Each work-group sorts CHUNK
 * of them (a bitonic network); what fills the last one up is behind all keys. */
#include "prelude.h"
#include "constants/embedding_sort.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const int* __restrict__ ids, int* __restrict__ keys)
{
    __shared__ unsigned held[CHUNK];
    const unsigned first = blockIdx.x * CHUNK;
    for (unsigned k = threadIdx.x; k < CHUNK; k += BLOCK) {
        const unsigned place = first + k;
        held[k] = place < PLACES ? static_cast<unsigned>(ids[place]) * PLACES + place : 0xffffffffu;
    }
    /* of what is sorted up or down by turns */
    for (unsigned length = 2; length <= CHUNK; length *= 2) {
        for (unsigned apart = length / 2; apart; apart /= 2) {
            __syncthreads();
            for (unsigned pair = threadIdx.x; pair < CHUNK / 2; pair += BLOCK) {
                const unsigned low = pair / apart * 2 * apart + pair % apart;
                const unsigned a = held[low], b = held[low + apart];
                const bool up = (low & length) == 0;
                if ((a > b) == up) {
                    held[low] = b;
                    held[low + apart] = a;
                }
            }
        }
    }
    __syncthreads();
    for (unsigned k = threadIdx.x; k < CHUNK; k += BLOCK)
        if (PLACES % CHUNK == 0 || first + k < PLACES)
            keys[first + k] = static_cast<int>(held[k]);
}
