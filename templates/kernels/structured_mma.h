/* NVIDIA's matrix instructions of a warp whose factor A has 2:4 sparsity, mma.sp, as StagedMma
 * has those of whole factors: of 16-bit floats, from sm_80 on.
 *
 * An instruction adds to D, 16 x 8, the product of A, 16 x 32, of which 16 x 16 elements are
 * stored, and of B, 32 x 8. What is stored lies in lanes as a whole A of 16 x 16 would; B as two
 * of its kind, one below the other. Where in their groups of four the stored elements belong,
 * two lanes of each four say, which ones a selector: the first one of 16 columns, the second one
 * of the others, in the lower 16 bits of row l / 4, in the upper ones of row 8 + l / 4 (PTX ISA,
 * "Matrix Fragments for sparse mma.m16n8k32 with .f16 and .bf16 types"). So lanes 0 and 1 of
 * four hold what one instruction takes, and lanes 2 and 3 that of the next one.
 *
 * On this CPU, lanes exchange what they hold, and each multiplies for its own results, as in
 * mma.h. */
#pragma once
#include "staged.h"

#ifndef __AMDGCN__
template <class Tile, class Stored>
struct StructuredMma : StagedMma<Tile, Stored> {
    using Base = Mma<Tile, Stored>;
    using Words = typename Base::Words;
    static constexpr unsigned STORED = 16;        /* columns of A that an instruction is given, */
    static constexpr unsigned DEPTH = 2 * STORED; /* and those that it has */

    Words other[Base::ACROSS]; /* of B, for the second one of two instructions side by side */

    /* The factors' elements of part `part`; `a` and `b` are their steps. */
    template <class A, class B>
    __device__ __forceinline__ void read(
        const unsigned char* a, const unsigned char* b, unsigned part)
    {
        static_assert(A::ALONG_K && !B::ALONG_K);
        const unsigned lane = Base::lane();
#pragma unroll
        for (unsigned i = 0; i < Base::DOWN; i++)
            this->left[i] = Base::rows_at(
                reinterpret_cast<const Stored*>(a
                                                + A::place(Base::warp_row() + lane % 16 + i * 16,
                                                    part * STORED + lane / 16 * Base::RUN)));
#pragma unroll
        for (unsigned j = 0; j < Base::ACROSS; j++) {
            this->right[j] =
                this->turned(b + B::place(Base::warp_column() + j * 16, part * DEPTH + lane));
            other[j] =
                this->turned(b + B::place(Base::warp_column() + j * 16 + 8, part * DEPTH + lane));
        }
    }

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
    /* Positions ascend in each group, which machines from sm_90 on want to be told; CUDA 12.5 is
     * the first that has a word for it. */
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 5)
#define MMA_SP "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32."
#else
#define MMA_SP "mma.sp.sync.aligned.m16n8k32.row.col.f32."
#endif
    template <unsigned SELECTOR>
    static __device__ __forceinline__ void add(const Words& a, const Words& b, unsigned positions,
        float& x, float& y, float& below_x, float& below_y)
    {
        if constexpr (Stored::HALF)
            asm volatile(MMA_SP "f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, "
                                "%11}, {%0, %1, %2, %3}, %12, %13;"
                : "+f"(x), "+f"(y), "+f"(below_x), "+f"(below_y)
                : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]),
                "r"(b.words[0]), "r"(b.words[1]), "r"(b.words[2]), "r"(b.words[3]), "r"(positions),
                "n"(SELECTOR));
        else
            asm volatile(MMA_SP "bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, "
                                "%11}, {%0, %1, %2, %3}, %12, %13;"
                : "+f"(x), "+f"(y), "+f"(below_x), "+f"(below_y)
                : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]),
                "r"(b.words[0]), "r"(b.words[1]), "r"(b.words[2]), "r"(b.words[3]), "r"(positions),
                "n"(SELECTOR));
    }
#undef MMA_SP

    template <unsigned SELECTOR>
    __device__ __forceinline__ void multiply(
        const unsigned (&positions)[Base::DOWN], typename Tile::Sum& sum) const
    {
#pragma unroll
        for (unsigned i = 0; i < Base::DOWN; i++)
#pragma unroll
            for (unsigned j = 0; j < Base::ACROSS; j++) {
                float* const above = sum[2 * i] + 4 * j;
                float* const below = sum[2 * i + 1] + 4 * j;
                add<SELECTOR>(this->left[i], this->right[j], positions[i], above[0], above[1],
                    below[0], below[1]);
                add<SELECTOR>(
                    this->left[i], other[j], positions[i], above[2], above[3], below[2], below[3]);
            }
    }
#else
    template <unsigned SELECTOR>
    void multiply(const unsigned (&positions)[Base::DOWN], typename Tile::Sum& sum) const
    {
        __shared__ StructuredMma held[Tile::ITEMS / 32][32];
        __shared__ unsigned places[Tile::ITEMS / 32][32][Base::DOWN];
        const unsigned warp = threadIdx.x / 32, lane = Base::lane();
        held[warp][lane] = *this;
        for (unsigned i = 0; i < Base::DOWN; i++)
            places[warp][lane][i] = positions[i];
        __syncthreads();
        const StructuredMma* const lanes = held[warp];
        for (unsigned i = 0; i < Tile::ITEM_M; i++)
            for (unsigned j = 0; j < Tile::ITEM_N; j++)
                for (unsigned stored = 0; stored < STORED; stored++) {
                    const unsigned word = stored / 2, group = stored / 2;
                    const unsigned bits =
                        places[warp][lane / 4 * 4 + 2 * SELECTOR + group / 4][i / 2] >> i % 2 * 16;
                    const unsigned k = group * 4 + (bits >> (group % 4 * 4 + stored % 2 * 2)) % 4;
                    const unsigned x = 2 * (lane % 4) + j % 2; /* the instruction's column */
                    const unsigned a =
                        lanes[lane / 4 * 4 + word % 4].left[i / 2].words[word / 4 * 2 + i % 2];
                    const StructuredMma& of_b = lanes[x * 4 + k % 8 / 2];
                    const unsigned b = (j % 4 / 2 ? of_b.other : of_b.right)[j / 4].words[k / 8];
                    sum[i][j] = fused(Base::factor(a >> stored % 2 * 16),
                        Base::factor(b >> k % 2 * 16), sum[i][j]);
                }
        __syncthreads();
    }
#endif
};
#endif
