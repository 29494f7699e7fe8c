/* NVIDIA's matrix instructions of a warp, mma.sync, as a fragment of a product (tile.h): of
 * 16-bit factors and of 8-bit integers, whose sums are exact in 32 bits, and of float32 cut off
 * to tf32, of which 13 bits less are read; from sm_80 on. From sm_89 on of 8-bit floats, of
 * whose sums an instruction keeps few bits: each adds from zero, and float32 additions add up
 * what it makes.
 *
 * An instruction adds to D, 16 x 8, the product of A, 16 x K, and B, K x 8; a row of A and a
 * column of B have 32 bytes. Lane l holds of A the words l % 4 and 4 + l % 4 of rows l / 4 and 8
 * + l / 4, of B the same words of column l / 4, and of D the columns 2 (l % 4) and 2 (l % 4) + 1
 * of both rows (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"). ldmatrix
 * takes 8 rows of 16 bytes, to which 8 lanes point, and gives word l % 4 of row l / 4 to lane l:
 * four times that at once.
 *
 * Two instructions share 16 columns of C: of each 4 side by side, the first one has two, and the
 * second one the others. So a lane holds 4 results side by side.
 *
 * On this CPU, lanes exchange what they point to and what they hold, and each multiplies for its
 * own results: so that a lane that holds what belongs to another one makes a wrong result there
 * too. Products are added one by one, in order of k, and are exact. On GPUs they are added in
 * another order, but within an instruction (simgen/layers/product/fragment.py). */
#pragma once
#include "tile.h"

/* 8-bit floats, with 3 bits of a fraction or with 2; what is no Narrow (elements.h) has no
 * SHIFT. */
template <class Stored, class = unsigned>
struct F8 {
    static constexpr bool value = false, OCP = false;
};
template <class Stored>
struct F8<Stored, decltype(0u + Stored::SHIFT)> {
    static constexpr bool value = Stored::BITS == 8;
    static constexpr bool FOUR_THREE = Stored::SHIFT == 20;
    static constexpr bool OCP = Stored::FOUR_THREE || Stored::FIVE_TWO;
};

template <class Tile, class Stored>
struct Mma {
    template <class>
    using Held = Stored;
    static constexpr bool BY_ROW = true;
    static constexpr unsigned DEPTH = 32 / sizeof(Stored);
    static constexpr unsigned RUN = 16 / sizeof(Stored); /* what lies in a row of ldmatrix */
    static constexpr bool APART = F8<Stored>::value;     /* whether an instruction adds from zero */
    /* A warp's part of the tile, in 16 x 16 results. */
    static constexpr unsigned DOWN = Tile::ITEM_M / 2;
    static constexpr unsigned ACROSS = Tile::ITEM_N / 4;
    static constexpr unsigned WARPS_N = Tile::N / (16 * ACROSS);
    static_assert(Tile::ITEM_M % 2 == 0 && Tile::ITEM_N % 4 == 0 && Tile::M % (16 * DOWN) == 0
                  && Tile::N % (16 * ACROSS) == 0);

    struct Words {
        unsigned words[4];
    };
    Words left[DOWN];    /* of A: row l / 4, the other row, and of both the other words */
    Words right[ACROSS]; /* of B: both words for the first instruction, and for the second one */

    static __device__ __forceinline__ unsigned lane() { return threadIdx.x % 32; }
    static __device__ __forceinline__ unsigned warp_row()
    {
        return threadIdx.x / 32 / WARPS_N * (DOWN * 16);
    }
    static __device__ __forceinline__ unsigned warp_column()
    {
        return threadIdx.x / 32 % WARPS_N * (ACROSS * 16);
    }

    static __device__ __forceinline__ unsigned row(unsigned i)
    {
        return warp_row() + i / 2 * 16 + i % 2 * 8 + lane() / 4;
    }
    static __device__ __forceinline__ unsigned column(unsigned j)
    {
        return warp_column() + j / 4 * 16 + lane() % 4 * 4 + j % 4;
    }
    /* Where the row lies that a lane points to. */
    static __device__ __forceinline__ unsigned first_left(unsigned stride)
    {
        return (warp_row() + lane() % 16) * stride + lane() / 16 * RUN;
    }
    static __device__ __forceinline__ unsigned first_right(unsigned stride)
    {
        return (warp_column() + lane() % 8 / 2 * 4 + lane() / 16 * 2 + lane() % 2) * stride
               + lane() / 8 % 2 * RUN;
    }

    template <unsigned A_STRIDE, unsigned B_STRIDE>
    __device__ __forceinline__ void read(const Stored* a, const Stored* b)
    {
#pragma unroll
        for (unsigned i = 0; i < DOWN; i++)
            left[i] = rows_at(a + i * (16 * A_STRIDE));
#pragma unroll
        for (unsigned j = 0; j < ACROSS; j++)
            right[j] = rows_at(b + j * (16 * B_STRIDE));
    }

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
    static __device__ __forceinline__ Words rows_at(const Stored* row)
    {
        Words held;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(held.words[0]), "=r"(held.words[1]), "=r"(held.words[2]), "=r"(held.words[3])
            : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row))));
        return held;
    }

    static __device__ __forceinline__ void add(
        const Words& a, const unsigned* b, float& x, float& y, float& below_x, float& below_y)
    {
        if constexpr (sizeof(Stored) == 4)
            asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
                         "{%4, %5, %6, %7}, {%8, %9}, "
                         "{%0, %1, %2, %3};"
                : "+f"(x), "+f"(y), "+f"(below_x), "+f"(below_y)
                : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b[0]),
                "r"(b[1]));
        else if constexpr (APART)
            add_apart(a, b, x, y, below_x, below_y);
        else if constexpr (Stored::HALF)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, "
                         "%5, %6, %7}, {%8, %9}, "
                         "{%0, %1, %2, %3};"
                : "+f"(x), "+f"(y), "+f"(below_x), "+f"(below_y)
                : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b[0]),
                "r"(b[1]));
        else
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                         "{%4, %5, %6, %7}, {%8, %9}, "
                         "{%0, %1, %2, %3};"
                : "+f"(x), "+f"(y), "+f"(below_x), "+f"(below_y)
                : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b[0]),
                "r"(b[1]));
    }

    static __device__ __forceinline__ void add_apart(
        const Words& a, const unsigned* b, float& x, float& y, float& below_x, float& below_y)
    {
        float sums[4];
        if constexpr (F8<Stored>::FOUR_THREE)
            asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, "
                         "{%4, %5, %6, %7}, {%8, %9}, "
                         "{%10, %10, %10, %10};"
                : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
                : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b[0]),
                "r"(b[1]), "f"(0.0f));
        else
            asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {%0, %1, %2, %3}, "
                         "{%4, %5, %6, %7}, {%8, %9}, "
                         "{%10, %10, %10, %10};"
                : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
                : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b[0]),
                "r"(b[1]), "f"(0.0f));
        x += sums[0];
        y += sums[1];
        below_x += sums[2];
        below_y += sums[3];
    }

    static __device__ __forceinline__ void add(
        const Words& a, const unsigned* b, int& x, int& y, int& below_x, int& below_y)
    {
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, "
                     "%6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+r"(x), "+r"(y), "+r"(below_x), "+r"(below_y)
            : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b[0]),
            "r"(b[1]));
    }

    __device__ __forceinline__ void multiply(typename Tile::Sum& sum) const
    {
#pragma unroll
        for (unsigned i = 0; i < DOWN; i++)
#pragma unroll
            for (unsigned j = 0; j < ACROSS; j++)
#pragma unroll
                for (unsigned half = 0; half < 2; half++) {
                    auto* above = sum[2 * i] + 4 * j + 2 * half;
                    auto* below = sum[2 * i + 1] + 4 * j + 2 * half;
                    add(left[i], right[j].words + 2 * half, above[0], above[1], below[0], below[1]);
                }
    }
#elif !defined(__AMDGCN__)
    static Words rows_at(const Stored* row)
    {
        __shared__ const Stored* rows[Tile::ITEMS / 32][32];
        const unsigned warp = threadIdx.x / 32;
        rows[warp][lane()] = row;
        __syncthreads();
        Words held;
        for (unsigned matrix = 0; matrix < 4; matrix++)
            held.words[matrix] =
                reinterpret_cast<const unsigned*>(rows[warp][matrix * 8 + lane() / 4])[lane() % 4];
        __syncthreads();
        return held;
    }

    /* As it is multiplied: of float32, instructions for tf32 read the upper bits. */
    static auto factor(unsigned word)
    {
        if constexpr (sizeof(Stored) == 4)
            return as_float(word & 0xffffe000u);
        else
            return Stored::widen(word);
    }

    void multiply(typename Tile::Sum& sum) const
    {
        constexpr unsigned OF_WORD = 4 / sizeof(Stored); /* elements */
        __shared__ Words lefts[Tile::ITEMS / 32][DOWN][32];
        __shared__ Words rights[Tile::ITEMS / 32][ACROSS][32];
        const unsigned warp = threadIdx.x / 32;
        for (unsigned i = 0; i < DOWN; i++)
            lefts[warp][i][lane()] = left[i];
        for (unsigned j = 0; j < ACROSS; j++)
            rights[warp][j][lane()] = right[j];
        __syncthreads();
        for (unsigned i = 0; i < Tile::ITEM_M; i++)
            for (unsigned j = 0; j < Tile::ITEM_N; j++) {
                auto total = sum[i][j];
                if constexpr (APART)
                    total = 0;
                for (unsigned k = 0; k < DEPTH; k++) {
                    const unsigned word = k / OF_WORD;
                    const unsigned shift = k % OF_WORD * 8 * sizeof(Stored);
                    const unsigned x = 2 * (lane() % 4) + j % 2; /* the instruction's column */
                    const unsigned a =
                        lefts[warp][i / 2][lane() / 4 * 4 + word % 4].words[word / 4 * 2 + i % 2];
                    const unsigned b =
                        rights[warp][j / 4][x * 4 + word % 4].words[j % 4 / 2 * 2 + word / 4];
                    total = fused(factor(a >> shift), factor(b >> shift), total);
                }
                if constexpr (APART)
                    total += sum[i][j];
                sum[i][j] = total;
            }
        __syncthreads();
    }
#endif
};
