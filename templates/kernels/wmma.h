/* RDNA's matrix instructions of a wavefront of 32 lanes, V_WMMA, as a fragment of a product
 * (tile.h): from gfx11 on.
 *
 * An instruction adds to D, 16 x 16, the product of its two factors, both 16 x 16. Of the first
 * one, lane l holds row l % 16, of the second one so the column l % 16: on gfx11 all 16 elements
 * of k, which lanes l and l + 16 both hold (EACH is 16); on gfx12 those from 8 (l / 16) on (EACH
 * is 8). Of D it holds, in result r, column l % 16 and row 2 r + l / 16 on gfx11, r + 8 (l / 16)
 * on gfx12 (AMD RDNA3 and RDNA4 Instruction Set Architecture, 7.9; LLVM's gfx12 forms have other
 * names).
 *
 * The first factor is B here, and the second one A: so 8 results of a lane lie side by side in a
 * row of C, if on gfx11 lane l gives column 8 (l % 2) + l % 16 / 2 of B for row l % 16.
 *
 * On this CPU, lanes exchange what they have read, and each multiplies for its own results: so
 * that a lane that holds what belongs to another one makes a wrong result there too. Products
 * are added one by one, in order of k, and are exact. */
#pragma once
#include "mfma.h"

#if defined(__AMDGCN__)
template <unsigned WORDS, class Taken>
static __device__ __forceinline__ Taken gathered(const int* words)
{
    int __attribute__((ext_vector_type(WORDS))) all;
#pragma unroll
    for (unsigned word = 0; word < WORDS; word++)
        all[word] = words[word];
    return __builtin_bit_cast(Taken, all);
}

/* One instruction; `first` and `second` are the words of EACH elements. */
template <class Total, class Stored, unsigned EACH, class Sums>
static __device__ __forceinline__ Sums wmma(const int* first, const int* second, Sums sums)
{
    constexpr unsigned WORDS = EACH * sizeof(Stored) / 4;
    if constexpr (__is_same(Total, int)) {
        const auto a = gathered<WORDS, MfmaWords<WORDS>>(first);
        const auto b = gathered<WORDS, MfmaWords<WORDS>>(second);
        if constexpr (EACH == 16)
            return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a, true, b, sums, false);
        else
            return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, true, b, sums, false);
    } else if constexpr (Stored::HALF) {
        const auto a = gathered<WORDS, MfmaHalves<EACH>>(first);
        const auto b = gathered<WORDS, MfmaHalves<EACH>>(second);
        if constexpr (EACH == 16)
            return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, sums);
        else
            return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, sums);
    } else if constexpr (Stored::SHORTENED) {
        const auto a = gathered<WORDS, MfmaShorts<EACH>>(first);
        const auto b = gathered<WORDS, MfmaShorts<EACH>>(second);
        if constexpr (EACH == 16)
            return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, sums);
        else
            return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, sums);
    }
}
#endif

template <class Tile, class Stored, unsigned EACH>
struct Wmma {
    using Total = typename Tile::Total;
    template <class>
    using Held = Stored;
    static constexpr bool BY_ROW = true;
    static constexpr unsigned DEPTH = 16;
    static constexpr unsigned RESULTS = 8; /* of a lane, of one instruction */
    static constexpr unsigned WORDS = EACH * sizeof(Stored) / 4;
    /* A wavefront's part of the tile, in instructions. */
    static constexpr unsigned ACROSS = Tile::ITEM_N / RESULTS;
    static constexpr unsigned DOWN = Tile::ITEM_M;
    static constexpr unsigned WAVES_N = Tile::N / (ACROSS * 16);
    static_assert(
        Tile::ITEM_N % RESULTS == 0 && Tile::N % (ACROSS * 16) == 0 && Tile::M % (DOWN * 16) == 0);

    struct alignas(WORDS == 2 ? 8 : 16) Run {
        int words[WORDS];
    };
    Run left[DOWN];
    Run right[ACROSS];

    static __device__ __forceinline__ unsigned lane() { return threadIdx.x % 32; }
    static __device__ __forceinline__ unsigned wave_row()
    {
        return threadIdx.x / 32 / WAVES_N * (DOWN * 16);
    }
    static __device__ __forceinline__ unsigned wave_column()
    {
        return threadIdx.x / 32 % WAVES_N * (ACROSS * 16);
    }
    /* Where in k a lane's elements begin; and the column of B that it gives. */
    static __device__ __forceinline__ unsigned deep()
    {
        return EACH == 16 ? 0 : lane() / 16 * EACH;
    }
    static __device__ __forceinline__ unsigned given()
    {
        return EACH == 16 ? lane() % 2 * 8 + lane() % 16 / 2 : lane() % 16;
    }

    static __device__ __forceinline__ unsigned row(unsigned i)
    {
        return wave_row() + i * 16 + lane() % 16;
    }
    static __device__ __forceinline__ unsigned column(unsigned j)
    {
        return wave_column() + j / RESULTS * 16 + lane() / 16 * RESULTS + j % RESULTS;
    }
    static __device__ __forceinline__ unsigned first_left(unsigned stride)
    {
        return (wave_row() + lane() % 16) * stride + deep();
    }
    static __device__ __forceinline__ unsigned first_right(unsigned stride)
    {
        return (wave_column() + given()) * stride + deep();
    }

    template <unsigned A_STRIDE, unsigned B_STRIDE>
    __device__ __forceinline__ void read(const Stored* a, const Stored* b)
    {
#pragma unroll
        for (unsigned i = 0; i < DOWN; i++)
            left[i] = *reinterpret_cast<const Run*>(a + i * (16 * A_STRIDE));
#pragma unroll
        for (unsigned j = 0; j < ACROSS; j++)
            right[j] = *reinterpret_cast<const Run*>(b + j * (16 * B_STRIDE));
    }

#if defined(__AMDGCN__)
    __device__ __forceinline__ void multiply(typename Tile::Sum& sum) const
    {
#pragma unroll
        for (unsigned i = 0; i < DOWN; i++)
#pragma unroll
            for (unsigned j = 0; j < ACROSS; j++) {
                MfmaSums<Total, RESULTS> part;
#pragma unroll
                for (unsigned r = 0; r < RESULTS; r++)
                    part[r] = sum[i][j * RESULTS + r];
                part = wmma<Total, Stored, EACH>(right[j].words, left[i].words, part);
#pragma unroll
                for (unsigned r = 0; r < RESULTS; r++)
                    sum[i][j * RESULTS + r] = part[r];
            }
    }
#elif !defined(__CUDACC__) && !defined(__CUDACC_RTC__)
    static constexpr unsigned OF_WORD = 4 / sizeof(Stored);

    void multiply(typename Tile::Sum& sum) const
    {
        __shared__ Total firsts[Tile::ITEMS / 32][ACROSS][EACH][32];
        __shared__ Total seconds[Tile::ITEMS / 32][DOWN][EACH][32];
        const unsigned wave = threadIdx.x / 32;
        for (unsigned e = 0; e < EACH; e++) {
            for (unsigned j = 0; j < ACROSS; j++)
                firsts[wave][j][e][lane()] = element(right[j], e);
            for (unsigned i = 0; i < DOWN; i++)
                seconds[wave][i][e][lane()] = element(left[i], e);
        }
        __syncthreads();
        for (unsigned i = 0; i < DOWN; i++)
            for (unsigned j = 0; j < ACROSS; j++)
                for (unsigned r = 0; r < RESULTS; r++) {
                    const unsigned half = lane() / 16;
                    const unsigned x = EACH == 16 ? 2 * r + half : 8 * half + r;
                    Total& to = sum[i][j * RESULTS + r];
                    for (unsigned k = 0; k < DEPTH; k++) {
                        /* which of the two halves of the lanes */
                        const unsigned from = EACH == 16 ? half : k / EACH;
                        to = fused(firsts[wave][j][k % EACH][16 * from + x],
                            seconds[wave][i][k % EACH][16 * from + lane() % 16], to);
                    }
                }
        __syncthreads();
    }
    static Total element(const Run& run, unsigned e)
    {
        return Stored::widen(
            static_cast<unsigned>(run.words[e / OF_WORD]) >> e % OF_WORD * sizeof(Stored) * 8);
    }
#endif
};
