/* y = a b: of each row of a (M, K), `values` has two of every four neighbours, and `positions`
 * says which, 2 bits each; b (K, N) and y (M, N) are dense, by rows. */
#include "prelude.h"
#include "vector.h"
#include "add_multiple.h"
#include "constants/structured_gemm.h"

constexpr unsigned ROWS = BLOCK / LANES; /* of a work-group */
constexpr unsigned SPAN = 32;            /* columns of a whose positions are in a word */
constexpr unsigned WORDS = (K + SPAN - 1) / SPAN;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const LeftElement* __restrict__ values,
    const int* __restrict__ positions, const RightElement* __restrict__ b, Element* __restrict__ y)
{
    const unsigned lane = LANES == BLOCK ? threadIdx.x : threadIdx.x % LANES;
    const unsigned row = LANES == BLOCK ? blockIdx.x : blockIdx.x * ROWS + threadIdx.x / LANES;
    const unsigned column = (blockIdx.y * LANES + lane) * WIDTH;
    if ((M % ROWS != 0 && row >= M) || (N % (LANES * WIDTH) != 0 && column >= N))
        return;

    Vector<float, WIDTH> sum = {};
    for (unsigned word = 0; word < WORDS; word++) {
        unsigned places = static_cast<unsigned>(positions[row * WORDS + word]);
        const unsigned first = word * SPAN;
        const unsigned last = K % SPAN == 0 || first + SPAN < K ? first + SPAN : K;
        for (unsigned k = first; k < last; k += 4) {
#pragma unroll
            for (unsigned i = 0; i < 2; i++) {
                add_multiple(sum, load(values, row * (K / 2) + k / 2 + i),
                    fetched<float, WIDTH>(b + ((k + places % 4) * N + column)));
                places /= 4;
            }
        }
    }
    float results[WIDTH];
    unpack(sum, results);
    store_vector<WIDTH>(y + (row * N + column), results);
}
