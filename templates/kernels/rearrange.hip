/* Elements of a tensor at other places: y's in their order, each from where its axes say that it
 * lies in x. */
#include "prelude.h"
#include "constants/rearrange.h"

constexpr int AXES = sizeof(EXTENTS) / sizeof(EXTENTS[0]);

/* Where in x the element `at` of y lies, along axis J and those before it; and whether that is
 * one. */
template <int J>
static __device__ __forceinline__ void walk(unsigned at, unsigned& from, bool& inside)
{
    constexpr unsigned EXTENT = EXTENTS[J], STRIDE = STRIDES[J], LEFT = BEFORE[J],
                       LIMIT = LIMITS[J];
    const unsigned i = at % EXTENT - LEFT;
    if constexpr (LIMIT != 0)
        inside = inside && i < LIMIT; /* what lies before x is beyond every limit */
    from += i * STRIDE;
    if constexpr (J > 0)
        walk<J - 1>(at / EXTENT, from, inside);
}

static __device__ __forceinline__ float source(const Element* x, unsigned at)
{
    unsigned from = FIRST;
    bool inside = true;
    walk<AXES - 1>(at, from, inside);
    return inside ? load(x, from) : VALUE;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, Element* __restrict__ y)
{
    const unsigned at = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (SIZE % (BLOCK * VECTOR) != 0 && at >= SIZE)
        return;
    if constexpr (sizeof(Element) < 4) { /* of whatever rows */
        float four[4];
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
            four[k] = source(x, at + k < SIZE ? at + k : at);
        const float4 made = {four[0], four[1], four[2], four[3]};
        if constexpr (VALUE == 0.0f) /* else it may be no number of this type, and is rounded */
            keep4(y + at, made);
        else
            store4(y + at, made);
    } else if constexpr (VECTOR == 4) { /* neighbours in x too, and not next to padding */
        unsigned from = FIRST;
        bool inside = true;
        walk<AXES - 1>(at, from, inside);
        if (inside) {
            store4(y + at, load4(x + from));
        } else {
            store4(y + at, float4{VALUE, VALUE, VALUE, VALUE});
        }
    } else {
        store(y, at, source(x, at));
    }
}
