/* AMD's matrix instructions, V_MFMA, as a fragment of a product (tile.h).
 *
 * A wavefront's instruction adds to D the product of its two factors, SIDE x K and K x SIDE, K =
 * EACH x GROUPS. Of the first one, lane l holds row l % SIDE, and EACH elements of k side by
 * side, from EACH (l / SIDE) on; of the second one so the column l % SIDE. Of D it holds, in
 * result r, row 8 (r / 4) + 4 (l / 32) + r % 4 for a SIDE of 32, 4 (l / 16) + r for one of 16,
 * and column l % SIDE (AMD Instinct MI300 Instruction Set Architecture, 7.1.4.2; all CDNA
 * alike).
 *
 * The first factor is B here, and the second one A: so 4 results of a lane lie side by side in a
 * row of C. A lane reads RUN elements of a row at once, 16 bytes, which serve one instruction or
 * several: number s of them has the elements from EACH s on of each run. Of an instruction, K =
 * EACH GROUPS: EACH is 1 of f32; 4 of f16 and bf16, 2 of bf16 on gfx908, 8 of both on gfx950; 8
 * of 8-bit floats; 4 of i8, 8 on gfx942, 16 on gfx950.
 *
 * On this CPU, lanes exchange what they have read, and each multiplies for its own results: so
 * that a lane that holds what belongs to another one makes a wrong result there too. Products
 * are added one by one, in order of k, and are exact. On GPUs they are added in another order,
 * but within an instruction (simgen/layers/product/fragment.py). */
#pragma once
#include "tile.h"

#if defined(__AMDGCN__)
template <class Total, unsigned RESULTS>
using MfmaSums = Total __attribute__((ext_vector_type(RESULTS)));
template <unsigned EACH>
using MfmaHalves = _Float16 __attribute__((ext_vector_type(EACH)));
template <unsigned EACH>
using MfmaShorts = short __attribute__((ext_vector_type(EACH)));
template <unsigned EACH>
using MfmaBfloats = __bf16 __attribute__((ext_vector_type(EACH)));
template <unsigned WORDS>
using MfmaWords = int __attribute__((ext_vector_type(WORDS)));

/* Words as what an instruction takes. */
template <class Taken>
static __device__ __forceinline__ Taken taken(const int* words)
{
    if constexpr (sizeof(Taken) == 4)
        return __builtin_bit_cast(Taken, words[0]);
    else if constexpr (sizeof(Taken) == 8)
        return __builtin_bit_cast(Taken, MfmaWords<2>{words[0], words[1]});
    else
        return __builtin_bit_cast(Taken, MfmaWords<4>{words[0], words[1], words[2], words[3]});
}
#define SIMGEN_MFMA(TAKEN, FORM)                                                                   \
    __builtin_amdgcn_mfma_##FORM(taken<TAKEN>(first), taken<TAKEN>(second), sums, 0, 0, 0)

/* One instruction; `first` and `second` are the words of EACH elements. */
template <class Total, class Stored, unsigned SIDE, unsigned EACH, class Sums>
static __device__ __forceinline__ Sums mfma(const int* first, const int* second, Sums sums)
{
    if constexpr (sizeof(Stored) == 4) {
        if constexpr (SIDE == 16)
            return SIMGEN_MFMA(float, f32_16x16x4f32);
        else
            return SIMGEN_MFMA(float, f32_32x32x2f32);
    } else if constexpr (__is_same(Total, int)) {
        if constexpr (SIDE == 16 && EACH == 4)
            return SIMGEN_MFMA(int, i32_16x16x16i8);
        else if constexpr (EACH == 4)
            return SIMGEN_MFMA(int, i32_32x32x8i8);
        else if constexpr (SIDE == 16 && EACH == 8)
            return SIMGEN_MFMA(long, i32_16x16x32_i8);
        else if constexpr (EACH == 8)
            return SIMGEN_MFMA(long, i32_32x32x16_i8);
        else if constexpr (SIDE == 16)
            return SIMGEN_MFMA(MfmaWords<4>, i32_16x16x64_i8);
        else
            return SIMGEN_MFMA(MfmaWords<4>, i32_32x32x32_i8);
    } else if constexpr (Stored::BITS == 8 && Stored::SHIFT == 20) { /* 3 bits of a fraction */
        if constexpr (SIDE == 16)
            return SIMGEN_MFMA(long, f32_16x16x32_fp8_fp8);
        else
            return SIMGEN_MFMA(long, f32_32x32x16_fp8_fp8);
    } else if constexpr (Stored::BITS == 8) {
        if constexpr (SIDE == 16)
            return SIMGEN_MFMA(long, f32_16x16x32_bf8_bf8);
        else
            return SIMGEN_MFMA(long, f32_32x32x16_bf8_bf8);
    } else if constexpr (Stored::HALF) {
        if constexpr (SIDE == 16 && EACH == 4)
            return SIMGEN_MFMA(MfmaHalves<4>, f32_16x16x16f16);
        else if constexpr (EACH == 4)
            return SIMGEN_MFMA(MfmaHalves<4>, f32_32x32x8f16);
        else if constexpr (SIDE == 16)
            return SIMGEN_MFMA(MfmaHalves<8>, f32_16x16x32_f16);
        else
            return SIMGEN_MFMA(MfmaHalves<8>, f32_32x32x16_f16);
    } else if constexpr (Stored::SHORTENED) {
        if constexpr (SIDE == 16 && EACH == 2)
            return SIMGEN_MFMA(MfmaShorts<2>, f32_16x16x8bf16);
        else if constexpr (EACH == 2)
            return SIMGEN_MFMA(MfmaShorts<2>, f32_32x32x4bf16);
        else if constexpr (SIDE == 16 && EACH == 4)
            return SIMGEN_MFMA(MfmaShorts<4>, f32_16x16x16bf16_1k);
        else if constexpr (EACH == 4)
            return SIMGEN_MFMA(MfmaShorts<4>, f32_32x32x8bf16_1k);
        else if constexpr (SIDE == 16)
            return SIMGEN_MFMA(MfmaBfloats<8>, f32_16x16x32_bf16);
        else
            return SIMGEN_MFMA(MfmaBfloats<8>, f32_32x32x16_bf16);
    }
}
#undef SIMGEN_MFMA
#endif

template <class Tile, class Stored, unsigned SIDE, unsigned EACH>
struct Mfma {
    using Total = typename Tile::Total;
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
    static_assert(Tile::ITEM_N % RESULTS == 0 && Tile::N % (ACROSS * SIDE) == 0
                  && Tile::M % (DOWN * SIDE) == 0);

    struct alignas(16) Run {
        int words[4];
    };
    Run left[DOWN];
    Run right[ACROSS];

    static __device__ __forceinline__ unsigned lane() { return threadIdx.x % 64; }
    static __device__ __forceinline__ unsigned wave_row()
    {
        return threadIdx.x / 64 / WAVES_N * (DOWN * SIDE);
    }
    static __device__ __forceinline__ unsigned wave_column()
    {
        return threadIdx.x / 64 % WAVES_N * (ACROSS * SIDE);
    }

    static __device__ __forceinline__ unsigned row(unsigned i)
    {
        return wave_row() + i * SIDE + lane() % SIDE;
    }
    static __device__ __forceinline__ unsigned column(unsigned j)
    {
        return wave_column() + j / RESULTS * SIDE + j % RESULTS / 4 * (4 * GROUPS)
               + lane() / SIDE * 4 + j % 4;
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
                    MfmaSums<Total, RESULTS> part;
#pragma unroll
                    for (unsigned r = 0; r < RESULTS; r++)
                        part[r] = sum[i][j * RESULTS + r];
                    part = mfma<Total, Stored, SIDE, EACH>(
                        right[j].words + word, left[i].words + word, part);
#pragma unroll
                    for (unsigned r = 0; r < RESULTS; r++)
                        sum[i][j * RESULTS + r] = part[r];
                }
    }
#elif !defined(__CUDACC__) && !defined(__CUDACC_RTC__)
    /* Element e of a run, as a number. */
    static Total element(const Run& run, unsigned e)
    {
        if constexpr (sizeof(Stored) == 4)
            return __builtin_bit_cast(Total, run.words[e]);
        else
            return Stored::widen(static_cast<unsigned>(run.words[e * sizeof(Stored) / 4])
                                 >> e * sizeof(Stored) * 8 % 32);
    }
    static constexpr unsigned PART = RUN < 8 ? RUN : 8; /* of a run, that lanes exchange at once */
    static constexpr unsigned STEP = EACH < PART ? EACH : PART;

    void multiply(typename Tile::Sum& sum) const
    {
        __shared__ Total firsts[Tile::ITEMS / 64][ACROSS][PART][64];
        __shared__ Total seconds[Tile::ITEMS / 64][DOWN][PART][64];
        const unsigned wave = threadIdx.x / 64;
        for (unsigned part = 0; part < RUN; part += PART) {
            for (unsigned e = 0; e < PART; e++) {
                for (unsigned j = 0; j < ACROSS; j++)
                    firsts[wave][j][e][lane()] = element(right[j], part + e);
                for (unsigned i = 0; i < DOWN; i++)
                    seconds[wave][i][e][lane()] = element(left[i], part + e);
            }
            __syncthreads();
            for (unsigned i = 0; i < DOWN; i++)
                for (unsigned j = 0; j < ACROSS; j++)
                    add(firsts[wave][j], seconds[wave][i], sum[i] + j * RESULTS);
            __syncthreads();
        }
    }
    /* A lane's results of the instructions that a part of the runs is for. */
    static void add(const Total (&first)[PART][64], const Total (&second)[PART][64], Total* to)
    {
        for (unsigned r = 0; r < RESULTS; r += 4) {
            const unsigned x = r / 4 * (4 * GROUPS) + lane() / SIDE * 4;
            const unsigned y = lane() % SIDE;
            for (unsigned start = 0; start < PART; start += STEP)
                for (unsigned group = 0; group < GROUPS; group++)
                    for (unsigned e = start; e < start + STEP; e++)
                        for (unsigned next = 0; next < 4; next++)
                            to[r + next] = fused(first[e][group * SIDE + x + next],
                                second[e][group * SIDE + y], to[r + next]);
        }
    }
#endif
};
