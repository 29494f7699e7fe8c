/* Two axes of a tensor change places: (FIRST, SECOND, INNER) becomes (SECOND, FIRST, INNER), in each sample. */
#include "prelude.h"
#include "constants/heads.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, Element* __restrict__ y)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (SIZE % (BLOCK * VECTOR) != 0 && at >= SIZE)
        return;
    const unsigned row = at / INNER; /* of y: sample, second, first */
    const unsigned first = row % FIRST;
    const unsigned second = row / FIRST % SECOND;
    const unsigned sample = row / (FIRST * SECOND);
    const unsigned from = ((sample * FIRST + first) * SECOND + second) * INNER + at % INNER;
    if constexpr (VECTOR == 4)
        store4(y + at, load4(x + from));
    else
        y[at] = x[from];
}
