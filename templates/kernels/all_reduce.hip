/* y = the sum of some vectors, which lie one behind the other, in their order. */
#include "prelude.h"
#include "vector.h"
#include "constants/all_reduce.h"

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ x, float* __restrict__ y)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * WIDTH;
    if (SIZE % (BLOCK * WIDTH) != 0 && at >= SIZE)
        return;
    Vector<float, WIDTH> sum = vector_at<WIDTH>(x + at);
    for (unsigned v = 1; v < RANKS; v++) {
        const Vector<float, WIDTH> next = vector_at<WIDTH>(x + (v * SIZE + at));
        sum += next;
    }
    vector_at<WIDTH>(y + at) = sum;
}
