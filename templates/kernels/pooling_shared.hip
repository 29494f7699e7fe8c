/* Pooling: the largest value of windows, its place, or the mean. SLICES work-items share a
 * window. */
#include "prelude.h"
#include "constants/pooling_shared.h"
#include "pooling.h"
#include "pooling_mean.h"
#include "side_by_side.h"

constexpr unsigned WINDOWS = PLANES * P * Q;
constexpr unsigned WINDOW = KERNEL_H * KERNEL_W; /* elements */
/* No window has padding. */
constexpr bool INSIDE = PAD_H == 0 && PAD_W == 0 && (P - 1) * STRIDE_H + KERNEL_H <= H
                        && (Q - 1) * STRIDE_W + KERNEL_W <= W;
constexpr bool WHOLE_ROWS = INSIDE && KERNEL_W == W;
constexpr unsigned UNROLL = WINDOW > 16 * SLICES ? 4 : (WINDOW + SLICES - 1) / SLICES;

template <Op>
struct Made {
    using Type = Result;
};
template <>
struct Made<Op::FIRST> {
    using Type = int; /* the place r * KERNEL_W + s of the first maximum */
};

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, Made<OP>::Type* __restrict__ y)
{
    alignas(16) __shared__ float partial[BLOCK];
    alignas(16) __shared__ int places[BLOCK];
    const unsigned slice = threadIdx.x % SLICES;
    const unsigned window = blockIdx.x * (BLOCK / SLICES) + threadIdx.x / SLICES;
    const unsigned top = window / Q % P * STRIDE_H - PAD_H;
    const unsigned left = window % Q * STRIDE_W - PAD_W;
    const Element* const plane = x + window / (P * Q) * (H * W);

    float value = OP == Op::MEAN ? 0.0f : lowest();
    int place = WINDOW; /* none yet */
    if (window < WINDOWS) {
#pragma unroll UNROLL
        for (unsigned k = 0; k < WINDOW; k += SLICES) {
            const unsigned at = k + slice; /* element of the window */
            const unsigned row = top + at / KERNEL_W;
            const unsigned column = left + at % KERNEL_W;
            const bool there = INSIDE
                                   ? k + SLICES <= WINDOW || at < WINDOW
                                   : (k + SLICES <= WINDOW || at < WINDOW) && row < H && column < W;
            /* Whole rows of a window lie one behind the other. */
            const unsigned index = WHOLE_ROWS ? top * W + at : row * W + column;
            const float candidate = there ? load(plane + index) : OP == Op::MEAN ? 0.0f : lowest();
            if constexpr (OP == Op::FIRST)
                place = candidate > value ? static_cast<int>(at) : place;
            value = OP == Op::MEAN ? value + candidate : maximum(value, candidate);
        }
    }
    partial[threadIdx.x] = value;
    if constexpr (OP == Op::FIRST)
        places[threadIdx.x] = place;

#pragma unroll
    for (unsigned half = SLICES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (slice < half) {
            const float other = partial[threadIdx.x + half];
            if constexpr (OP == Op::FIRST) {
                const int elsewhere = places[threadIdx.x + half];
                const bool earlier = other == value && elsewhere < place;
                place = other > value || earlier ? elsewhere : place;
                places[threadIdx.x] = place;
            }
            value = OP == Op::MEAN ? value + other : maximum(value, other);
            partial[threadIdx.x] = value;
        }
    }
    if (slice == 0 && window < WINDOWS) {
        if constexpr (OP == Op::FIRST)
            /* A window of nothing but -inf has its maximum in the first place too. */
            reinterpret_cast<int*>(y)[window] =
                place < static_cast<int>(WINDOW) ? place : first_inside(top, left);
        else if constexpr (OP == Op::MEAN)
            value = mean_of(value, EVEN ? 0 : counted_rows(top) * counted_columns(left));
        if constexpr (OP != Op::FIRST && sizeof(Result) == 4)
            store(reinterpret_cast<Result*>(y), window, value);
    }
    if constexpr (OP != Op::FIRST && sizeof(Result) < 4) {
        constexpr unsigned OWN = BLOCK / SLICES; /* windows of a work-group */
        store_side_by_side<OWN, WINDOWS>(
            y, blockIdx.x * OWN, threadIdx.x / SLICES, slice == 0, value);
    }
}
