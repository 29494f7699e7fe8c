/* Turns pairs of a head's elements by an angle that grows with the token's position: (a, b) ->
 * (a cos - b sin, a sin + b cos).
 *
 * Angles are parts of a turn, as whole numbers of 32 bits: their products with a position wrap
 * around as angles do, and nothing is lost. A work-item has VECTOR pairs, or elements that do
 * not turn. */
#include "prelude.h"
#include "constants/rope.h"

#if WITH_POSITIONS
#define POSITIONS const int *__restrict__ positions,
#define POSITION_OF(row, token) static_cast<unsigned>(positions[(row) * TOKENS + (token)])
#else
#define POSITIONS
#define POSITION_OF(row, token) (token)
#endif

struct Angle {
    float cosine, sine;
};
/* By Taylor's polynomials, of what is left of the nearest quarter turn. */
static __device__ __forceinline__ Angle angle_of(unsigned turn)
{
    const unsigned quarter = (turn + (1u << 29)) >> 30;
    /* 2 pi / 2^32 */
    const float x = static_cast<float>(static_cast<int>(turn - (quarter << 30))) * 1.46291808e-9f;
    const float z = x * x;
    const float s = fused(
        x * z, fused(z, fused(z, fused(z, 1.0f / 362880, -1.0f / 5040), 1.0f / 120), -1.0f / 6), x);
    const float c = fused(z,
        fused(z,
            fused(z, fused(z, fused(z, -1.0f / 3628800, 1.0f / 40320), -1.0f / 720), 1.0f / 24),
            -0.5f),
        1.0f);
    const bool odd = (quarter & 1) != 0;
    const float cosine = odd ? s : c, sine = odd ? c : s;
    /* The cosine is less than 0 in quarters 1 and 2, the sine in 2 and 3. */
    const float low = (quarter + 1) & 2 ? -FACTOR : FACTOR, high = quarter & 2 ? -FACTOR : FACTOR;
    return Angle{cosine * low, sine * (BACK ? -high : high)};
}

/* The turns of pair `at` and those behind it: selected, since a table would lie in memory. */
static __device__ __forceinline__ unsigned turn_of(unsigned at, unsigned behind)
{
    unsigned turn = 0;
#pragma unroll
    for (unsigned k = 0; k + behind < PAIRS; k += VECTOR)
        turn = at == k ? TURNS[k + behind] : turn;
    return turn;
}

template <unsigned WIDTH>
static __device__ __forceinline__ void get(float* to, const Element* from)
{
    if constexpr (WIDTH == 4) {
        const float4 four = load4(from);
        to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    } else {
        to[0] = load(from, 0);
    }
}
template <unsigned WIDTH>
static __device__ __forceinline__ void put(Element* to, const float* from)
{
    if constexpr (WIDTH == 4)
        store4(to, float4{from[0], from[1], from[2], from[3]});
    else
        store(to, 0, from[0]);
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, POSITIONS Element* __restrict__ y)
{
    /* Work-items of a head: of neighbours each has both ends, or as many elements that do not
     * turn; of halves one of these ends. */
    constexpr unsigned EACH =
        INTERLEAVED ? (DIM + 2 * VECTOR - 1) / (2 * VECTOR) : (DIM - PAIRS) / VECTOR;
    const unsigned at = blockIdx.x * BLOCK + threadIdx.x, row = at / EACH,
                   part = at % EACH * VECTOR;
    if (row >= SIZE / DIM)
        return;
    const unsigned begin = INTERLEAVED ? 2 * part : part,
                   end = begin + (INTERLEAVED ? VECTOR : PAIRS);
    const unsigned low = row * DIM + begin, high = row * DIM + end;
    const bool turns = TURNING_HEADS == HEADS || row / TOKENS % HEADS < TURNING_HEADS;
    if (part >= PAIRS || !turns) {
        float kept[VECTOR];
        if (INTERLEAVED || part < PAIRS) {
            get<VECTOR>(kept, x + low);
            put<VECTOR>(y + low, kept);
        }
        if (end < DIM) {
            get<VECTOR>(kept, x + high);
            put<VECTOR>(y + high, kept);
        }
        return;
    }
    unsigned position[AXES];
#pragma unroll
    for (unsigned axis = 0; axis < AXES; axis++)
        position[axis] = POSITION_OF(row / (TOKENS * HEADS) * AXES + axis, row % TOKENS);
    float ends[2 * VECTOR];
    get<VECTOR>(ends, x + low);
    get<VECTOR>(ends + VECTOR, x + high);
#pragma unroll
    for (unsigned k = 0; k < VECTOR; k++) {
        unsigned of_pair = position[0];
#pragma unroll
        for (unsigned axis = 1; axis < AXES; axis++)
            of_pair = part + k >= ENDS[axis - 1] ? position[axis] : of_pair;
        const Angle angle = angle_of(of_pair * turn_of(part, k));
        float &a = ends[INTERLEAVED ? 2 * k : k], &b = ends[INTERLEAVED ? 2 * k + 1 : VECTOR + k];
        const float turned = fused(a, angle.cosine, -(b * angle.sine));
        b = fused(a, angle.sine, b * angle.cosine);
        a = turned;
    }
    put<VECTOR>(y + low, ends);
    put<VECTOR>(y + high, ends + VECTOR);
}

#undef POSITIONS
#undef POSITION_OF
