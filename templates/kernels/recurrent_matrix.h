/* The product of a time step by NVIDIA's matrix instructions, mma.sync, of 16-bit factors that
 * both lie along k in memory.
 *
 * A warp has ROWS of the work-group's samples with all of its COLUMNS (units of all gates), and
 * every SLICES-th piece of k; slices leave partial sums. Each work-item reads 16 bytes of a row
 * at once. An instruction takes two words of a row from a lane, l % 4 and 4 + l % 4 of 8 (PTX
 * ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"); here they are words 0 and
 * 1, then 2 and 3, of those that the lane has read. So k goes in another order, which is the
 * same one in both factors.
 *
 * Where weights do not stay in LDS, both factors pass through it, STAGES - 1 pieces ahead:
 * loaded into registers, less than two pieces were on their way at once, as ptxas orders them,
 * however far the loop is unrolled. A lane reads what it has moved itself, so that no barrier is
 * needed until partial sums take the same place.
 *
 * On this CPU, lanes exchange what they hold, and each multiplies for its own results. */
#pragma once
#include "recurrent.h"

#if WITH_MATRIX
constexpr unsigned PIECE = 32; /* elements of k that four lanes read of a row at once */
template <unsigned SUMS, class Stored>
struct StepProduct {
    static constexpr unsigned COLUMNS = SUMS * UNITS;
    static constexpr unsigned WARPS = BLOCK / 32;
    static constexpr unsigned ROWS = SAMPLES / (WARPS / SLICES);
    static constexpr unsigned DOWN = ROWS / 16, ACROSS = COLUMNS / 8;
    static_assert(
        SAMPLES % (WARPS / SLICES) == 0 && ROWS % 16 == 0 && UNITS % 8 == 0 && WARPS % SLICES == 0);
    /* where results lie that are stored by fours */
    static constexpr unsigned STAGED = (SLICES * PARTIAL<SUMS> + 3) / 4 * 4;
    static constexpr unsigned STAGES = DEPTH / (PIECE * SLICES);
    static constexpr unsigned LOADS = 2 * DOWN + ACROSS; /* of a lane, of a piece */
    /* words of LDS, of what is on its way */
    static constexpr unsigned RING = WITH_HELD ? 0 : STAGES * WARPS * LOADS * 32 * 4;
    /* Words of LDS beside the weights that stay there, where STORED results follow the partial
     * sums. */
    template <unsigned STORED>
    static constexpr unsigned PASSING = STAGED + STORED > RING ? STAGED + STORED : RING;

    struct alignas(16) Words {
        unsigned words[4];
    };
    struct Piece {
        Words left[2 * DOWN]; /* rows l / 4 and 8 + l / 4 of each 16 */
        Words right[ACROSS]; /* rows l / 4 of each 8 */
    };
    using Sums = float[DOWN][ACROSS][4];

    /* Weights that stay in LDS, as the lanes take them: 16 bytes of each lane, side by side. */
    template <unsigned K>
    /* words */
    static constexpr unsigned KEPT =
        (K + PIECE * SLICES - 1) / (PIECE * SLICES) * SLICES * ACROSS * 32 * 4;

    template <unsigned K, class RowOfRight>
    static __device__ __forceinline__ void keep(
        float* kept, const Stored* right, RowOfRight row_of_right)
    {
        Words* const words = reinterpret_cast<Words*>(kept);
#pragma unroll 4
        for (unsigned at = threadIdx.x; at < KEPT<K> / 4; at += BLOCK) {
            const unsigned lane = at % 32, row = at / 32 % ACROSS * 8 + lane / 4;
            const unsigned k = at / (32 * ACROSS) * PIECE + lane % 4 * 8;
            words[at] = words_of(right, row_of_right, row, k, K % (PIECE * SLICES) == 0 || k < K);
        }
    }

    /* `row_of(row, offset)` says where a row of a factor begins, and whether it is there; rows
     * have K elements. */
    template <unsigned K, class RowOfLeft, class RowOfRight>
    static __device__ __forceinline__ void multiply(const Stored* left, RowOfLeft row_of_left,
        const Stored* right, RowOfRight row_of_right, float* partial, const float* kept = nullptr)
    {
        const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const unsigned slice = warp % SLICES, first_row = warp / SLICES * ROWS;
        Sums sum = {};
/* as many loads of the left at a time as registers hold, then what they are multiplied with */
#if WITH_HELD
        constexpr unsigned FREE = (112 - 4 * DOWN * ACROSS) / (8 * DOWN);
        constexpr unsigned UNROLLED = FREE < 1 ? 1 : FREE > 8 ? 8 : FREE;
        constexpr unsigned TOGETHER = UNROLLED * PIECE * SLICES;
        for (unsigned first = 0; first < K; first += TOGETHER) {
            Words loaded[UNROLLED][2 * DOWN];
#pragma unroll
            for (unsigned u = 0; u < UNROLLED; u++) {
                const unsigned k = first + (u * SLICES + slice) * PIECE + lane % 4 * 8;
#pragma unroll
                for (unsigned i = 0; i < 2 * DOWN; i++)
                    loaded[u][i] = words_of(left, row_of_left, first_row + i * 8 + lane / 4, k,
                        K % TOGETHER == 0 || k < K);
            }
            scheduling_fence();
#pragma unroll
            for (unsigned u = 0; u < UNROLLED; u++) {
                const unsigned piece_of_k = first / PIECE + u * SLICES + slice;
                if (K % TOGETHER != 0 && piece_of_k * 32 * ACROSS >= KEPT<K> / 4)
                    continue;
                Piece piece;
#pragma unroll
                for (unsigned i = 0; i < 2 * DOWN; i++)
                    piece.left[i] = loaded[u][i];
#pragma unroll
                for (unsigned j = 0; j < ACROSS; j++)
                    piece.right[j] =
                        reinterpret_cast<const Words*>(kept)[(piece_of_k * ACROSS + j) * 32 + lane];
                add(piece, sum);
            }
        }
#else
        constexpr unsigned TURNS = (K + PIECE * SLICES - 1) / (PIECE * SLICES);
        Words* const ring = reinterpret_cast<Words*>(partial) + warp * (LOADS * 32) + lane;
        const auto begin = [&](unsigned turn, unsigned stage) {
            const unsigned k = (turn * SLICES + slice) * PIECE + lane % 4 * 8;
            Words* const to = ring + stage * (WARPS * LOADS * 32);
            if (turn < TURNS) {
#pragma unroll
                for (unsigned i = 0; i < 2 * DOWN; i++)
                    bring(to + i * 32, left, row_of_left, first_row + i * 8 + lane / 4, k,
                        K % (PIECE * SLICES) == 0 || k < K);
#pragma unroll
                for (unsigned j = 0; j < ACROSS; j++)
                    bring(to + (2 * DOWN + j) * 32, right, row_of_right, j * 8 + lane / 4, k,
                        K % (PIECE * SLICES) == 0 || k < K);
            }
            end_turn();
        };
#pragma unroll
        for (unsigned stage = 0; stage < STAGES - 1; stage++)
            begin(stage, stage);
        unsigned stage = 0, free = STAGES - 1;
        for (unsigned turn = 0; turn < TURNS; turn++) {
            wait<STAGES - 2>();
            Piece piece;
#pragma unroll
            for (unsigned i = 0; i < 2 * DOWN; i++)
                piece.left[i] = ring[(stage * WARPS * LOADS + i) * 32];
#pragma unroll
            for (unsigned j = 0; j < ACROSS; j++)
                piece.right[j] = ring[(stage * WARPS * LOADS + 2 * DOWN + j) * 32];
            begin(turn + STAGES - 1, free); /* where what the turn before has multiplied lay */
            add(piece, sum);
            free = stage;
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
        __syncthreads(); /* all have read what lay where partial sums go */
#endif
#pragma unroll
        for (unsigned i = 0; i < DOWN; i++)
#pragma unroll
            for (unsigned j = 0; j < ACROSS; j++)
#pragma unroll
                for (unsigned e = 0; e < 4; e++) {
                    const unsigned row = first_row + i * 16 + e / 2 * 8 + lane / 4;
                    const unsigned column = j * 8 + lane % 4 * 2 + e % 2;
                    partial[slice * PARTIAL<SUMS> + (column / UNITS * SAMPLES + row) * UNITS
                            + column % UNITS] = sum[i][j][e];
                }
    }

    template <class RowOf>
    static __device__ __forceinline__ Words words_of(
        const Stored* from, RowOf row_of, unsigned row, unsigned k, bool inside)
    {
        unsigned offset = 0;
        if (!row_of(row, offset) || !inside)
            return {};
#ifdef CHAIN /* asm, so that loads stay side by side, before what waits for them */
        Words found;
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(found.words[0]), "=r"(found.words[1]), "=r"(found.words[2]), "=r"(found.words[3])
            : "l"(from + offset + k));
        return found;
#else
        return *reinterpret_cast<const Words*>(from + offset + k);
#endif
    }

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
    /* 16 bytes of a row, or zeros, that come to LDS without a register: cp.async. */
    template <class RowOf>
    static __device__ __forceinline__ void bring(
        Words* to, const Stored* from, RowOf row_of, unsigned row, unsigned k, bool inside)
    {
        unsigned offset = 0;
        const bool there = row_of(row, offset) && inside;
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
            :
            : "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
            "l"(from + (there ? offset + k : 0)), "r"(there ? 16 : 0)
            : "memory");
    }
    /* Behind those of a turn; and until those of all but the last COUNT turns are there. */
    static __device__ __forceinline__ void end_turn()
    {
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    template <unsigned COUNT>
    static __device__ __forceinline__ void wait()
    {
        asm volatile("cp.async.wait_group %0;" ::"n"(COUNT) : "memory");
    }

    static __device__ __forceinline__ void add(const Piece& piece, Sums& sum)
    {
#pragma unroll
        for (unsigned half = 0; half < 4; half += 2)
#pragma unroll
            for (unsigned i = 0; i < DOWN; i++)
#pragma unroll
                for (unsigned j = 0; j < ACROSS; j++)
                    instruction(sum[i][j], piece.left[2 * i].words + half,
                        piece.left[2 * i + 1].words + half, piece.right[j].words + half);
    }

    static __device__ __forceinline__ void instruction(
        float (&d)[4], const unsigned* above, const unsigned* below, const unsigned* b)
    {
        if constexpr (Stored::HALF)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, "
                         "%5, %6, %7}, {%8, %9}, "
                         "{%0, %1, %2, %3};"
                : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                : "r"(above[0]), "r"(below[0]), "r"(above[1]), "r"(below[1]), "r"(b[0]), "r"(b[1]));
        else
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                         "{%4, %5, %6, %7}, {%8, %9}, "
                         "{%0, %1, %2, %3};"
                : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                : "r"(above[0]), "r"(below[0]), "r"(above[1]), "r"(below[1]), "r"(b[0]), "r"(b[1]));
    }
#elif !defined(__AMDGCN__)
    template <class RowOf>
    static void bring(
        Words* to, const Stored* from, RowOf row_of, unsigned row, unsigned k, bool inside)
    {
        *to = words_of(from, row_of, row, k, inside);
    }
    static void end_turn() {}
    template <unsigned COUNT>
    static void wait()
    {
    }

    static void add(const Piece& piece, Sums& sum)
    {
        __shared__ Piece held[BLOCK / 32][32];
        const unsigned lane = threadIdx.x % 32;
        const Piece* const lanes = held[threadIdx.x / 32];
        held[threadIdx.x / 32][lane] = piece;
        __syncthreads();
        for (unsigned i = 0; i < DOWN; i++)
            for (unsigned j = 0; j < ACROSS; j++)
                for (unsigned e = 0; e < 4; e++)
                    for (unsigned k = 0; k < PIECE; k++) {
                        /* the lane of four that has read it */
                        const unsigned of_row = k / 8, word = k % 8 / 2, shift = k % 2 * 16;
                        const unsigned a =
                            lanes[lane / 4 * 4 + of_row].left[2 * i + e / 2].words[word];
                        const unsigned b =
                            lanes[(lane % 4 * 2 + e % 2) * 4 + of_row].right[j].words[word];
                        sum[i][j][e] = fused(
                            Stored::widen(a >> shift), Stored::widen(b >> shift), sum[i][j][e]);
                    }
        __syncthreads();
    }
#endif
};

/* COUNT rows of units, of `row_of(row, offset)` each, from `staged` to memory by fours; units
 * from `first` on. */
template <unsigned COUNT, class Stored, class RowOf>
static __device__ __forceinline__ void store_staged(
    const float* staged, Stored* to, unsigned first, RowOf row_of)
{
    for (unsigned at = threadIdx.x; at < COUNT * (UNITS / 4); at += BLOCK) {
        const unsigned row = at / (UNITS / 4), unit = at % (UNITS / 4) * 4;
        unsigned offset = 0, from = 0;
        if (row_of(row, offset, from) && (HIDDEN % UNITS == 0 || first + unit < HIDDEN))
            store4(to + offset + first + unit, load4(staged + from * UNITS + unit));
    }
}
#endif
