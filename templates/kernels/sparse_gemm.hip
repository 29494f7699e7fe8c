/* y = a b: a (M, K) in compressed rows of blocks, b (K, N) and y (M, N) dense, by rows. Blocks
 * rows[i] to rows[i + 1] of `values` are those of row i of blocks, and `columns` says where in
 * it they are. With blocks of one element that is CSR. */
#include "prelude.h"
#include "vector.h"
#include "add_multiple.h"
#include "constants/sparse_gemm.h"

constexpr unsigned ROWS = BLOCK / LANES; /* of blocks, of a work-group */
/* a block's elements are uniform: scalar registers are few */
constexpr unsigned UNROLLED_INSIDE = SIDE <= 4 ? SIDE : 1;
constexpr unsigned UNROLLED = SIDE == 1 ? Unrolled<4, LeftElement, RightElement>::COUNT : 1;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const LeftElement* __restrict__ values,
    const int* __restrict__ columns, const int* __restrict__ rows,
    const RightElement* __restrict__ b, Element* __restrict__ y)
{
    using Piece = Vector<float, WIDTH>;
    const unsigned lane = LANES == BLOCK ? threadIdx.x : threadIdx.x % LANES;
    const unsigned first = blockIdx.x * ROWS;
    const unsigned row = LANES == BLOCK ? blockIdx.x : first + threadIdx.x / LANES;

    if constexpr (SHARED) {
        /* Few columns: work-items of a row have every LANES-th of its elements, and their sums
         * are added up in pairs. */
        __shared__ float held[N * BLOCK];
        Piece sum[N / WIDTH] = {};
        if (row < M) {
            const unsigned end = rows[row + 1];
            for (unsigned at = rows[row] + lane; at < end; at += LANES) {
                const float value = load(values, at);
                const RightElement* from = b + static_cast<unsigned>(columns[at]) * N;
#pragma unroll
                for (unsigned n = 0; n < N / WIDTH; n++)
                    add_multiple(sum[n], value, fetched<float, WIDTH>(from + n * WIDTH));
            }
        }
#pragma unroll
        for (unsigned n = 0; n < N / WIDTH; n++)
            unpack(sum[n], held + n * WIDTH * BLOCK + threadIdx.x, BLOCK);
#pragma unroll
        for (unsigned half = LANES / 2; half; half /= 2) {
            __syncthreads();
            if (lane < half)
#pragma unroll
                for (unsigned n = 0; n < N; n++)
                    held[n * BLOCK + threadIdx.x] += held[n * BLOCK + threadIdx.x + half];
        }
        __syncthreads();
        for (unsigned at = threadIdx.x; at < ROWS * N; at += BLOCK)
            if (M % ROWS == 0 || first + at / N < M)
                store(y, first * N + at, held[at % N * BLOCK + at / N * LANES]);
    } else {
        const unsigned column = (blockIdx.y * LANES + lane) * WIDTH;
        if ((M % (ROWS * SIDE) != 0 && row >= M / SIDE)
            || (N % (LANES * WIDTH) != 0 && column >= N))
            return;
        Piece sum[SIDE] = {};
        const unsigned end = rows[row + 1];
#pragma unroll UNROLLED
        for (unsigned at = rows[row]; at < end; at++) {
            const RightElement* from = b + (static_cast<unsigned>(columns[at]) * SIDE * N + column);
#pragma unroll UNROLLED_INSIDE
            for (unsigned k = 0; k < SIDE; k++) {
                const Piece piece = fetched<float, WIDTH>(from + k * N);
#pragma unroll
                for (unsigned r = 0; r < SIDE; r++)
                    add_multiple(sum[r], load(values, (at * SIDE + r) * SIDE + k), piece);
            }
        }
#pragma unroll
        for (unsigned r = 0; r < SIDE; r++) {
            float results[WIDTH];
            unpack(sum[r], results);
            store_vector<WIDTH>(y + ((row * SIDE + r) * N + column), results);
        }
    }
}
