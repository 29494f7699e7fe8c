/* y(i, :) = w(ids(i), :): rows of a table. A work-item copies VECTOR neighbours. */
#include "prelude.h"
#include "constants/embedding.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ w, const int* __restrict__ ids, Element* __restrict__ y)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (SIZE % (BLOCK * VECTOR) != 0 && at >= SIZE)
        return;
    if constexpr (sizeof(Element) < 4) { /* of whatever rows */
        float four[4];
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            const unsigned place = at + k < SIZE ? at + k : at;
            four[k] = load(w, static_cast<unsigned>(ids[place / ROW]) * ROW + place % ROW);
        }
        keep4(y + at, float4{four[0], four[1], four[2], four[3]});
    } else {
        const unsigned from = static_cast<unsigned>(ids[at / ROW]) * ROW + at % ROW;
        if constexpr (VECTOR == 4)
            store4(y + at, load4(w + from));
        else
            store(y, at, load(w, from));
    }
}
