/* The product of a time step: SUMS sums for each unit and sample of a work-group, over K terms. */
#pragma once
#include "prelude.h"
#include "constants/recurrent.h"
#include "vector.h"

constexpr unsigned PITCH = DEPTH + 4; /* of rows in LDS: neighbours begin in other banks */
constexpr unsigned SAMPLE_LANES = SAMPLES / HELD, UNIT_LANES = UNITS / OWN;
/* turns of a loop of loads that are unrolled: all of those of a piece */
constexpr unsigned AHEAD = WITH_HELD ? 8 : 64;
template <unsigned SUMS>
/* what a slice leaves, and what keeps banks apart */
constexpr unsigned PARTIAL = SUMS * SAMPLES * UNITS + 1;
template <unsigned SUMS>
constexpr unsigned FLOATS = /* of LDS: pieces of both sides, then partial sums */
    (SAMPLES + SUMS * UNITS) * PITCH > SLICES* PARTIAL<SUMS> ? (SAMPLES + SUMS * UNITS) * PITCH
                                                             : SLICES * PARTIAL<SUMS>;
template <unsigned SUMS>
/* of LDS, of weights that stay there; behind them lies what does not */
constexpr unsigned WEIGHTS = SUMS * UNITS * PITCH;
template <unsigned SUMS>
constexpr unsigned HELD_FLOATS =
    WEIGHTS<SUMS>
    + (SAMPLES * PITCH > SLICES * PARTIAL<SUMS> ? SAMPLES * PITCH : SLICES * PARTIAL<SUMS>);

/* Dynamic shared memory. */
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define STEP_LDS(name, count) extern __shared__ __align__(16) float name[]
#else
#define STEP_LDS(name, count) alignas(16) __shared__ float name[count]
#endif

/* ROWS rows of `from`, PITCH apart in LDS, of k from `start` on; zeros beyond `rows` and K. */
template <unsigned ROWS, unsigned K, unsigned WIDE, class Stored, class Place>
static __device__ __forceinline__ void hold_rows(
    float* held, const Stored* from, unsigned start, Place place)
{
    constexpr unsigned PIECES = DEPTH / WIDE;
#pragma unroll AHEAD
    for (unsigned first = 0; first < ROWS * PIECES; first += BLOCK) {
        const unsigned at = first + threadIdx.x;
        const unsigned row = at / PIECES, k = at % PIECES * WIDE;
        if (ROWS * PIECES % BLOCK != 0 && at >= ROWS * PIECES)
            continue;
        unsigned offset = 0;
        Vector<float, WIDE> values{};
        if (place(row, offset) && (K % DEPTH == 0 || start + k < K))
            values = fetched<float, WIDE>(from + offset + start + k);
        unpack(values, held + row * PITCH + k);
    }
}

/* The same of UNITS columns of `from`, whose rows are along k and HIDDEN long. */
template <unsigned K, unsigned WIDE>
static __device__ __forceinline__ void hold_columns(
    float* held, const WeightElement* from, unsigned start, unsigned unit)
{
    constexpr unsigned PIECES = UNITS / WIDE;
#pragma unroll AHEAD
    for (unsigned first = 0; first < DEPTH * PIECES; first += BLOCK) {
        const unsigned at = first + threadIdx.x;
        const unsigned k = at / PIECES, column = at % PIECES * WIDE;
        if (DEPTH * PIECES % BLOCK != 0 && at >= DEPTH * PIECES)
            continue;
        Vector<float, WIDE> values{};
        if ((HIDDEN % UNITS == 0 || unit + column < HIDDEN) && (K % DEPTH == 0 || start + k < K))
            values = fetched<float, WIDE>(from + (start + k) * HIDDEN + unit + column);
        unpack(values, held + column * PITCH + k, PITCH);
    }
}

#if WITH_PREFETCH
/* A piece on its way: its loads wait in registers while the piece before it is multiplied. */
template <unsigned COUNT, unsigned WIDE>
struct Coming {
    static constexpr unsigned TURNS = (COUNT / WIDE + BLOCK - 1) / BLOCK;
    Vector<float, WIDE> values[TURNS];

    /* Of each vector: `fetch(at)` loads it. */
    template <class Fetch>
    __device__ __forceinline__ void begin(Fetch fetch)
    {
#pragma unroll
        for (unsigned turn = 0; turn < TURNS; turn++) {
            const unsigned at = turn * BLOCK + threadIdx.x;
            values[turn] =
                COUNT / WIDE % BLOCK == 0 || at < COUNT / WIDE ? fetch(at) : Vector<float, WIDE>{};
        }
    }
    /* `put(at, values)` stores it. */
    template <class Put>
    __device__ __forceinline__ void end(Put put) const
    {
#pragma unroll
        for (unsigned turn = 0; turn < TURNS; turn++) {
            const unsigned at = turn * BLOCK + threadIdx.x;
            if (COUNT / WIDE % BLOCK == 0 || at < COUNT / WIDE)
                put(at, values[turn]);
        }
    }
};

/* What hold_rows does, in two parts. */
template <unsigned ROWS, unsigned K, unsigned WIDE>
struct ComingRows : Coming<ROWS * DEPTH, WIDE> {
    template <class Stored, class Place>
    __device__ __forceinline__ void fetch(const Stored* from, unsigned start, Place place)
    {
        this->begin([&](unsigned at) {
            const unsigned row = at / (DEPTH / WIDE), k = start + at % (DEPTH / WIDE) * WIDE;
            unsigned offset = 0;
            return place(row, offset) && (K % DEPTH == 0 || k < K)
                       ? fetched<float, WIDE>(from + offset + k)
                       : Vector<float, WIDE>{};
        });
    }
    __device__ __forceinline__ void put(float* held) const
    {
        this->end([&](unsigned at, Vector<float, WIDE> values) {
            unpack(values, held + at / (DEPTH / WIDE) * PITCH + at % (DEPTH / WIDE) * WIDE);
        });
    }
};
/* What hold_columns does. */
template <unsigned K, unsigned WIDE>
struct ComingColumns : Coming<UNITS * DEPTH, WIDE> {
    __device__ __forceinline__ void fetch(const WeightElement* from, unsigned start, unsigned unit)
    {
        this->begin([&](unsigned at) {
            const unsigned k = start + at / (UNITS / WIDE),
                           column = unit + at % (UNITS / WIDE) * WIDE;
            const bool inside =
                (HIDDEN % UNITS == 0 || column < HIDDEN) && (K % DEPTH == 0 || k < K);
            return inside ? fetched<float, WIDE>(from + k * HIDDEN + column)
                          : Vector<float, WIDE>{};
        });
    }
    __device__ __forceinline__ void put(float* held) const
    {
        this->end([&](unsigned at, Vector<float, WIDE> values) {
            unpack(values, held + at % (UNITS / WIDE) * WIDE * PITCH + at / (UNITS / WIDE), PITCH);
        });
    }
};
#endif

static __device__ __forceinline__ float dot(float4 a, float4 b, float sum)
{
    return fused(a.w, b.w, fused(a.z, b.z, fused(a.y, b.y, fused(a.x, b.x, sum))));
}

/* This work-item's share of the sums of a piece of k, SUMS for OWN units in all: slices have
 * neighbouring fours of it. */
template <unsigned SUMS>
static __device__ __forceinline__ void add_products(
    const float* left, const float* right, float (&sum)[SUMS][HELD])
{
    const unsigned slice = threadIdx.x % SLICES;
    const unsigned unit = threadIdx.x / SLICES % UNIT_LANES;
    const unsigned lane = threadIdx.x / (SLICES * UNIT_LANES);
#pragma unroll AHEAD
    for (unsigned i = 0; i < DEPTH; i += 4 * SLICES) {
        const unsigned k = i + 4 * slice;
        float4 weights[SUMS];
#pragma unroll
        for (unsigned s = 0; s < SUMS; s++)
            weights[s] = load4(right + (s * UNIT_LANES + unit) * PITCH + k);
#pragma unroll
        for (unsigned p = 0; p < HELD; p++) {
            const float4 value = load4(left + (p * SAMPLE_LANES + lane) * PITCH + k);
#pragma unroll
            for (unsigned s = 0; s < SUMS; s++)
                sum[s][p] = dot(value, weights[s], sum[s][p]);
        }
    }
}

/* Leaves the slices' sums in LDS; all work-items have done with what lay there. */
template <unsigned SUMS>
static __device__ __forceinline__ void leave_partials(
    float* partial, const float (&sum)[SUMS][HELD])
{
    const unsigned slice = threadIdx.x % SLICES;
    const unsigned unit = threadIdx.x / SLICES % UNIT_LANES;
    const unsigned lane = threadIdx.x / (SLICES * UNIT_LANES);
#pragma unroll
    for (unsigned s = 0; s < SUMS; s++)
#pragma unroll
        for (unsigned p = 0; p < HELD; p++)
            partial[slice * PARTIAL<SUMS / OWN>
                    + (s / OWN * SAMPLES + p * SAMPLE_LANES + lane) * UNITS + s % OWN * UNIT_LANES
                    + unit] = sum[s][p];
}

/* Sum `which` of a unit and sample of the work-group. */
template <unsigned SUMS>
static __device__ __forceinline__ float total(
    const float* partial, unsigned which, unsigned sample, unsigned unit)
{
    const float* part = partial + (which * SAMPLES + sample) * UNITS + unit;
    float found = part[0];
#pragma unroll
    for (unsigned slice = 1; slice < SLICES; slice++)
        found += part[slice * PARTIAL<SUMS>];
    return found;
}

/* What a work-item's results are made of beside sums: of weights that stay in LDS, it is loaded
 * before the product, and waits beside it. */
/* each work-item has one result at most */
constexpr bool EARLY = WITH_HELD && SAMPLES * UNITS <= BLOCK;
#define KNOWN(array, at, nth) (EARLY ? early[nth] : load(array, at))
