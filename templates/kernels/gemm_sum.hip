/* SIZE sums of TERMS terms each, added in a fixed order: y[i] = ALPHA sum over z of terms[z][i]
 * [+ bias] [+ BETA c[i]], and what follows, where the channel of result i is i / INNER %
 * CHANNELS. */
#include "prelude.h"
#include "vector.h"
#include "constants/gemm_sum.h"
#include "epilogue.h"

/* these two stand for parameters that the kernel may lack */
constexpr const AddedElement* bias = nullptr;
constexpr const AddedElement* c = nullptr;
constexpr unsigned LANES = BLOCK / SLICES;
constexpr unsigned UNROLLED = SLICES == 1 && TERMS <= 32 ? TERMS : Unrolled<4, TermElement>::COUNT;

/* Elements `at` and on of a term, which begin there. Narrow results are 4 at the end too; what
 * is behind it is read of no term. */
template <unsigned COUNT, class Stored>
static __device__ __forceinline__ auto read(const Stored* term, unsigned at)
{
    if constexpr (SIZE % COUNT == 0) {
        return fetched<Total, COUNT>(term);
    } else {
        const Total y = at + 1 < SIZE ? fetched<Total, 1>(term + 1) : Total{};
        const Total z = at + 2 < SIZE ? fetched<Total, 1>(term + 2) : Total{};
        const Total w = at + 3 < SIZE ? fetched<Total, 1>(term + 3) : Total{};
        return Vector<Total, 4>{fetched<Total, 1>(term), y, z, w};
    }
}

/* What becomes of the sums of results i, i + 1 and so on. */
struct Finish {
    const AddedElement *bias, *c;
    const float *bn_w, *bn_b, *running_mean, *running_var, *channel_scales;

    __device__ __forceinline__ Total operator()(Total sum, unsigned i) const
    {
        if constexpr (ALPHA != 1)
            sum *= ALPHA;
        if constexpr (WITH_CHANNEL_SCALES)
            sum = scaled_by_channel(sum, i / INNER % CHANNELS, channel_scales);
        if constexpr (WITH_BIAS)
            sum = plus(sum, load(bias, i % COLUMNS));
        if constexpr (WITH_C)
            sum = plus_multiple(sum, BETA, SIZE % WIDTH == 0 || i < SIZE ? load(c, i) : Total{});
        if constexpr (WITH_EPILOGUE)
            sum = epilogue_of(
                i / INNER % CHANNELS, bn_w, bn_b, running_mean, running_var, channel_scales)(sum);
        return sum;
    }
    __device__ __forceinline__ Vector<Total, 2> operator()(Vector<Total, 2> sums, unsigned i) const
    {
        return Vector<Total, 2>{(*this)(sums.x, i), (*this)(sums.y, i + 1)};
    }
    __device__ __forceinline__ Vector<Total, 4> operator()(Vector<Total, 4> sums, unsigned i) const
    {
        return Vector<Total, 4>{(*this)(sums.x, i), (*this)(sums.y, i + 1), (*this)(sums.z, i + 2),
            (*this)(sums.w, i + 3)};
    }
};

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const TermElement* __restrict__ terms,
#if WITH_BIAS
    const AddedElement* __restrict__ bias,
#endif
#if WITH_C
    const AddedElement* __restrict__ c,
#endif
#if WITH_BATCH_NORM
    const float* __restrict__ bn_w, const float* __restrict__ bn_b,
    const float* __restrict__ running_mean, const float* __restrict__ running_var,
#endif
#if WITH_CHANNEL_SCALES
    const float* __restrict__ channel_scales,
#endif
    Element* __restrict__ y)
{
    const unsigned at = (blockIdx.x * LANES + threadIdx.x % LANES) * WIDTH;
    Vector<Total, WIDTH> sum{};
    if (at < SIZE) {
#pragma unroll UNROLLED
        for (unsigned z = SLICES == 1 ? 0 : threadIdx.x / LANES; z < TERMS; z += SLICES) {
            const Vector<Total, WIDTH> term = read<WIDTH>(terms + z * SIZE + at, at);
            add(sum, term);
        }
    }
    if constexpr (SLICES > 1) {
        alignas(16) __shared__ Vector<Total, WIDTH> partial[BLOCK];
        partial[threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.x >= LANES)
            return;
#pragma unroll
        for (unsigned slice = 1; slice < SLICES; slice++) {
            const Vector<Total, WIDTH> other = partial[slice * LANES + threadIdx.x];
            add(sum, other);
        }
    }
    if (at >= SIZE)
        return;
    if constexpr (ALPHA != 1 || WITH_BIAS || WITH_C || WITH_EPILOGUE || WITH_CHANNEL_SCALES)
        sum = Finish{bias, c, bn_w, bn_b, running_mean, running_var, channel_scales}(sum, at);
    store_whole(y + at, sum);
}
