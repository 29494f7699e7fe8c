/* y = a b: a (M, K) in compressed rows, b (K, N) and y (M, N) dense, by rows. Elements rows[i] to rows[i + 1] of `values` are those
 * of row i, and `columns` says where in it they are. */
#include "prelude.h"
#include "vector.h"
#include "constants/sparse_gemm.h"

constexpr unsigned ROWS = BLOCK / LANES; /* of a work-group */
constexpr unsigned UNROLLED = Unrolled<4, LeftElement, RightElement>::COUNT;

/* sum += factor * of, element by element, each rounded once. */
static __device__ __forceinline__ void add_multiple(float& sum, float factor, float of) { sum = fused(factor, of, sum); }
static __device__ __forceinline__ void add_multiple(float2& sum, float factor, float2 of)
{
    sum.x = fused(factor, of.x, sum.x);
    sum.y = fused(factor, of.y, sum.y);
}
static __device__ __forceinline__ void add_multiple(float4& sum, float factor, float4 of)
{
    sum.x = fused(factor, of.x, sum.x);
    sum.y = fused(factor, of.y, sum.y);
    sum.z = fused(factor, of.z, sum.z);
    sum.w = fused(factor, of.w, sum.w);
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const LeftElement* __restrict__ values, const int* __restrict__ columns, const int* __restrict__ rows,
    const RightElement* __restrict__ b, Element* __restrict__ y)
{
    using Piece = Vector<float, WIDTH>;
    const unsigned lane = LANES == BLOCK ? threadIdx.x : threadIdx.x % LANES;
    const unsigned first = blockIdx.x * ROWS;
    const unsigned row = LANES == BLOCK ? blockIdx.x : first + threadIdx.x / LANES;

    if constexpr (SHARED) {
        /* Few columns: work-items of a row have every LANES-th of its elements, and their sums are added up in pairs. */
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
        if ((M % ROWS != 0 && row >= M) || (N % (LANES * WIDTH) != 0 && column >= N))
            return;
        Piece sum = {};
        const unsigned end = rows[row + 1];
#pragma unroll UNROLLED
        for (unsigned at = rows[row]; at < end; at++)
            add_multiple(
                sum, load(values, at), fetched<float, WIDTH>(b + (static_cast<unsigned>(columns[at]) * N + column)));
        float results[WIDTH];
        unpack(sum, results);
        store_vector<WIDTH>(y + (row * N + column), results);
    }
}
