/* Dropout, forward and backward: elements are dropped at random, and the others scaled. */
#include "prelude.h"
#include "constants/dropout.h"
#include "runs.h"

constexpr unsigned GROUP = BLOCK * VECTOR; /* elements of a run */
constexpr bool RANDOM = !ALL && THRESHOLD > 0;
constexpr unsigned ROUNDS = 7;

struct Four {
    unsigned x, y, z, w;
};

static __device__ __forceinline__ unsigned high(unsigned a, unsigned b)
{
    return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}

/* A round of Philox-4x32: two products of 64 bits, halves exchanged and mixed with the key. */
static __device__ __forceinline__ Four mix(Four c, unsigned left, unsigned right)
{
    return Four{
        high(0xcd9e8d57u, c.z) ^ c.y ^ left, 0xcd9e8d57u * c.z,
        high(0xd2511f53u, c.x) ^ c.w ^ right, 0xd2511f53u * c.x};
}

/* Four random numbers: Philox-4x32 at counter (i, 0, 0, 0), key (KEY, 0). */
static __device__ __forceinline__ Four philox(unsigned i)
{
    Four c{i, 0, 0, 0};
#pragma unroll
    for (unsigned round = 0; round < ROUNDS; round++)
        c = mix(c, KEY + round * 0x9e3779b9u, round * 0xbb67ae85u);
    return c;
}

static __device__ __forceinline__ float drop(float x, unsigned random)
{
    if constexpr (RANDOM)
        return random >= THRESHOLD ? x * SCALE : 0.0f;
    else
        return ALL ? 0.0f : x;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Element* __restrict__ x, Element* __restrict__ y)
{
    const auto four = [&](unsigned at, const float4& in, const Four& random) {
        const float4 out{
            drop(in.x, random.x), drop(in.y, random.y), drop(in.z, random.z), drop(in.w, random.w)};
        store4(y + at, out);
    };
    const auto randoms = [](unsigned at) { return RANDOM ? philox(at / VECTOR) : Four{}; };
    const auto each = [&](unsigned at, const float4& in) { four(at, in, randoms(at)); };
    in_runs<RUNS, GROUP, VECTOR, SIZE>(x, each, [&](unsigned at) {
        const Four random = randoms(at);
        if (SIZE % GROUP == 0 || together<Element>(at, SIZE)) {
            four(at, ALL ? float4{} : load4(x + at), random);
        } else if constexpr (SIZE % VECTOR != 0 && sizeof(Element) == sizeof(float)) {
            /* At most three elements are left. Narrow ones are together; NVIDIA's compiler does
             * not find that out by itself. */
            if (at < SIZE)
                store(y, at, drop(load(x, at), random.x));
            if (SIZE % VECTOR > 1 && at + 1 < SIZE)
                store(y, at + 1, drop(load(x, at + 1), random.y));
            if (SIZE % VECTOR > 2 && at + 2 < SIZE)
                store(y, at + 2, drop(load(x, at + 2), random.z));
        }
    });
}
