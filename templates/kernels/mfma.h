/* AMD's matrix instructions, V_MFMA, as a fragment of a product (tile.h).
 *
 * A wavefront's instruction adds to D the product of its two factors, SIDE x K and K x SIDE, K = EACH x GROUPS. Of the first one,
 * lane l holds row l % SIDE, and EACH elements of k side by side, from EACH (l / SIDE) on; of the second one so the column l % SIDE.
 * Of D it holds, in result r, row 8 (r / 4) + 4 (l / 32) + r % 4 for a SIDE of 32, 4 (l / 16) + r for one of 16, and column
 * l % SIDE (AMD Instinct MI300 Instruction Set Architecture, 7.1.4.2; all CDNA alike).
 *
 * The first factor is B here, and the second one A: so 4 results of a lane lie side by side in a row of C. A lane reads RUN elements
 * of a row at once, 16 bytes, which serve several instructions: number s of them has the elements from EACH s on of each run.
 *
 * On this CPU, lanes exchange what they have read, and each multiplies for its own results: so that a lane that holds what belongs
 * to another one makes a wrong result there too. Products are added one by one, in order of k, and are exact. On GPUs they are added
 * in another order, but within an instruction (simgen/layers/product/fragment.py). */
#pragma once
#include "tile.h"

#if defined(__AMDGCN__)
template <unsigned RESULTS>
using MfmaSums = float __attribute__((ext_vector_type(RESULTS)));
using MfmaWords = int __attribute__((ext_vector_type(2)));
using MfmaHalves = _Float16 __attribute__((ext_vector_type(4)));
using MfmaShorts = short __attribute__((ext_vector_type(4)));

/* One instruction; `first` and `second` are the words of EACH elements. */
template <class Stored, unsigned SIDE, unsigned EACH, class Sums>
static __device__ __forceinline__ Sums mfma(const int* first, const int* second, Sums sums)
{
    if constexpr (sizeof(Stored) == 4) {
        const float a = __builtin_bit_cast(float, first[0]);
        const float b = __builtin_bit_cast(float, second[0]);
        if constexpr (SIDE == 16)
            return __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, sums, 0, 0, 0);
        else
            return __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, sums, 0, 0, 0);
    } else if constexpr (Stored::HALF) {
        const MfmaHalves a = __builtin_bit_cast(MfmaHalves, MfmaWords{first[0], first[1]});
        const MfmaHalves b = __builtin_bit_cast(MfmaHalves, MfmaWords{second[0], second[1]});
        if constexpr (SIDE == 16)
            return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, sums, 0, 0, 0);
        else
            return __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, sums, 0, 0, 0);
    } else if constexpr (Stored::SHORTENED && EACH == 4) {
        const MfmaShorts a = __builtin_bit_cast(MfmaShorts, MfmaWords{first[0], first[1]});
        const MfmaShorts b = __builtin_bit_cast(MfmaShorts, MfmaWords{second[0], second[1]});
        if constexpr (SIDE == 16)
            return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, sums, 0, 0, 0);
        else
            return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, sums, 0, 0, 0);
    }
}
#endif

template <class Tile, class Stored, unsigned SIDE, unsigned EACH>
struct Mfma {
    template <class>
    using Held = Stored;
    static constexpr bool BY_ROW = true;
    static constexpr unsigned GROUPS = 64 / SIDE;
    static constexpr unsigned RUN = 16 / sizeof(Stored);
    static constexpr unsigned DEPTH = RUN * GROUPS;
    static constexpr unsigned RESULTS = SIDE * SIDE / 64; /* of a lane, of one instruction */
    static constexpr unsigned WORDS = EACH * sizeof(Stored) / 4;
    /* A wavefront's part of the tile, in instructions. */
    static constexpr unsigned ACROSS = Tile::ITEM_N / RESULTS;
    static constexpr unsigned DOWN = Tile::ITEM_M;
    static constexpr unsigned WAVES_N = Tile::N / (ACROSS * SIDE);
    static_assert(Tile::ITEM_N % RESULTS == 0 && Tile::N % (ACROSS * SIDE) == 0 && Tile::M % (DOWN * SIDE) == 0);

    struct alignas(16) Run {
        int words[4];
    };
    Run left[DOWN];
    Run right[ACROSS];

    static __device__ __forceinline__ unsigned lane() { return threadIdx.x % 64; }
    static __device__ __forceinline__ unsigned wave_row() { return threadIdx.x / 64 / WAVES_N * (DOWN * SIDE); }
    static __device__ __forceinline__ unsigned wave_column() { return threadIdx.x / 64 % WAVES_N * (ACROSS * SIDE); }

    static __device__ __forceinline__ unsigned row(unsigned i) { return wave_row() + i * SIDE + lane() % SIDE; }
    static __device__ __forceinline__ unsigned column(unsigned j)
    {
        return wave_column() + j / RESULTS * SIDE + j % RESULTS / 4 * (4 * GROUPS) + lane() / SIDE * 4 + j % 4;
    }
    static __device__ __forceinline__ unsigned first_left(unsigned stride)
    {
        return (wave_row() + lane() % SIDE) * stride + lane() / SIDE * RUN;
    }
    static __device__ __forceinline__ unsigned first_right(unsigned stride)
    {
        return (wave_column() + lane() % SIDE) * stride + lane() / SIDE * RUN;
    }

    template <unsigned A_STRIDE, unsigned B_STRIDE>
    __device__ __forceinline__ void read(const Stored* a, const Stored* b)
    {
#pragma unroll
        for (unsigned i = 0; i < DOWN; i++)
            left[i] = *reinterpret_cast<const Run*>(a + i * (SIDE * A_STRIDE));
#pragma unroll
        for (unsigned j = 0; j < ACROSS; j++)
            right[j] = *reinterpret_cast<const Run*>(b + j * (SIDE * B_STRIDE));
    }

#if defined(__AMDGCN__)
    __device__ __forceinline__ void multiply(typename Tile::Sum& sum) const
    {
#pragma unroll
        for (unsigned word = 0; word < 4; word += WORDS)
#pragma unroll
            for (unsigned i = 0; i < DOWN; i++)
#pragma unroll
                for (unsigned j = 0; j < ACROSS; j++) {
                    MfmaSums<RESULTS> part;
#pragma unroll
                    for (unsigned r = 0; r < RESULTS; r++)
                        part[r] = sum[i][j * RESULTS + r];
                    part = mfma<Stored, SIDE, EACH>(right[j].words + word, left[i].words + word, part);
#pragma unroll
                    for (unsigned r = 0; r < RESULTS; r++)
                        sum[i][j * RESULTS + r] = part[r];
                }
    }
#elif !defined(__CUDACC__) && !defined(__CUDACC_RTC__)
    /* Element e of a run, as a number. */
    static float element(const Run& run, unsigned e)
    {
        if constexpr (sizeof(Stored) == 4)
            return __builtin_bit_cast(float, run.words[e]);
        else
            return Stored::widen(static_cast<unsigned>(run.words[e * sizeof(Stored) / 4]) >> e * sizeof(Stored) * 8 % 32);
    }
    void multiply(typename Tile::Sum& sum) const
    {
        __shared__ float firsts[Tile::ITEMS / 64][ACROSS][RUN][64];
        __shared__ float seconds[Tile::ITEMS / 64][DOWN][RUN][64];
        const unsigned wave = threadIdx.x / 64;
        for (unsigned e = 0; e < RUN; e++) {
            for (unsigned j = 0; j < ACROSS; j++)
                firsts[wave][j][e][lane()] = element(right[j], e);
            for (unsigned i = 0; i < DOWN; i++)
                seconds[wave][i][e][lane()] = element(left[i], e);
        }
        __syncthreads();
        for (unsigned i = 0; i < DOWN; i++)
            for (unsigned j = 0; j < ACROSS; j++)
                for (unsigned r = 0; r < RESULTS; r += 4) {
                    const unsigned x = r / 4 * (4 * GROUPS) + lane() / SIDE * 4;
                    const unsigned y = lane() % SIDE;
                    float* to = sum[i] + j * RESULTS + r;
                    for (unsigned start = 0; start < RUN; start += EACH)
                        for (unsigned group = 0; group < GROUPS; group++)
                            for (unsigned e = start; e < start + EACH; e++)
                                for (unsigned part = 0; part < 4; part++)
                                    to[part] = fused(
                                        firsts[wave][j][e][group * SIDE + x + part], seconds[wave][i][e][group * SIDE + y], to[part]);
                }
        __syncthreads();
    }
#endif
};
