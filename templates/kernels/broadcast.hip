/* y = a + b, a - b, a b or a / b, where a and b may be smaller than y: of each axis, they have
 * all elements or one. */
#include "prelude.h"

enum class Operation { ADD, SUBTRACT, MULTIPLY, DIVIDE };
/* How neighbours of y find their element of a tensor: all have the same one; it is their own, as
 * one access; or one by one. */
enum class Way { ONCE, FOUR, EACH };
#include "constants/broadcast.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a work-group */
constexpr int AXES = sizeof(EXTENTS) / sizeof(EXTENTS[0]);

/* Where in a tensor the element of y lies, along axis J and those before it. */
template <bool SECOND, int J>
static __device__ __forceinline__ unsigned place(unsigned at)
{
    constexpr unsigned EXTENT = EXTENTS[J], STRIDE = SECOND ? STRIDES1[J] : STRIDES0[J];
    const unsigned here = STRIDE == 0 ? 0 : (J == 0 ? at : at % EXTENT) * STRIDE;
    if constexpr (J > 0)
        return here + place<SECOND, J - 1>(at / EXTENT);
    return here;
}

template <bool SECOND>
static __device__ __forceinline__ float one(const Element* x, unsigned at)
{
    return load(x, place<SECOND, AXES - 1>(at));
}

template <bool SECOND>
static __device__ __forceinline__ float4 four(const Element* x, unsigned at)
{
    constexpr Way WAY = SECOND ? WAY1 : WAY0;
    if constexpr (WAY == Way::FOUR) {
        return load4(x + place<SECOND, AXES - 1>(at));
    } else if constexpr (WAY == Way::ONCE) {
        const float same = one<SECOND>(x, at);
        return float4{same, same, same, same};
    } else {
        float each[4];
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
            each[k] = one<SECOND>(x, SIZE % VECTOR == 0 || at + k < SIZE ? at + k : at);
        return float4{each[0], each[1], each[2], each[3]};
    }
}

static __device__ __forceinline__ float result(float a, float b)
{
    if constexpr (OPERATION == Operation::ADD)
        return a + b;
    if constexpr (OPERATION == Operation::SUBTRACT)
        return a - b;
    return OPERATION == Operation::MULTIPLY ? a * b : a * fast_rcp(b);
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ a, const Element* __restrict__ b, Element* __restrict__ y)
{
    const unsigned at = blockIdx.x * GROUP + threadIdx.x * VECTOR;
    if (SIZE % GROUP == 0 || together<Element>(at, SIZE)) {
        const float4 left = four<false>(a, at), right = four<true>(b, at);
        store4(y + at, float4{result(left.x, right.x), result(left.y, right.y),
                           result(left.z, right.z), result(left.w, right.w)});
    } else if (SIZE % VECTOR != 0 && at < SIZE) {
        for (unsigned k = at; k < SIZE; k++)
            store(y, k, result(one<false>(a, k), one<true>(b, k)));
    }
}
