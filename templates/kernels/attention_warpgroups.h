/* Attention's products by wgmma (sm_90a), as attention_matrix.h has them by mma.sync: a warpgroup
 * has 64 rows of queries, and a warpgroup of its own moves the tiles by tensor maps of q, k and v
 * (warpgroups.h). Weights are a factor in registers. While values are added up, the next scores
 * become weights; and warpgroups take turns, so that one multiplies while another computes
 * exponentials (J. Shah et al., "FlashAttention-3", 2024). */
#pragma once
#include "warpgroups.h"
#include "attention_matrix.h"

#if TENSOR_MAPS && (defined(__CUDACC__) || defined(__CUDACC_RTC__))
#define BY_WARPGROUPS 1
#define SCORES_OF(N, TYPE, REGISTERS, A, B, ADDED, D)                                              \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE " {" REGISTERS  \
                 "}, " A ", " B ", " ADDED ", 1, 1, 0, 0;"                                         \
        : D("+f")                                                                                  \
        : "l"(a), "l"(b), "n"(IS_ADDED ? 1 : 0))
#define VALUES_OF(N, TYPE, REGISTERS, A, B, D)                                                     \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE " {" REGISTERS  \
                 "}, {" A "}, " B ", 1, 1, 1, 1;"                                                  \
        : D("+f")                                                                                  \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define BY_TYPE(CALL, N, ...)                                                                      \
    if constexpr (Element::HALF)                                                                   \
        CALL(N, f16, __VA_ARGS__);                                                                 \
    else                                                                                           \
        CALL(N, bf16, __VA_ARGS__)

using Factor = Element; /* that of tensors, by a name that structures leave alone */

struct OfWarpgroups {
    struct Lying { /* rows along k */
        using Element = Factor;
        static constexpr Along ALONG = Along::K;
        static constexpr unsigned WIDTH = 8;
        static constexpr bool REGULAR = true;
        struct Line {};
    };
    using Moves = WarpgroupProduct<Tile<128, 64, 64, 2, 16, false>, Lying, Lying, 2, 1, MOVERS>;
    /* Registers of each work-item, as in warpgroups.h. */
    static constexpr unsigned ALL = BLOCK + MOVERS,
                              LAUNCHED = 65536 / (LAUNCH_GROUPS * ALL) / 8 * 8;
    static constexpr unsigned FREE =
        (LAUNCHED * ALL - MOVERS * Moves::MOVER_REGISTERS) / BLOCK / 8 * 8;
    static constexpr unsigned ITEM_REGISTERS = FREE < 240 ? FREE : 240;
    static constexpr unsigned GROUPS_OF_ROWS = BLOCK / 128, STAGE = KeyPanels::NBYTES
                                                                    + ValuePanels::NBYTES;
    static constexpr unsigned BARRIERS = QueryPanels::NBYTES + STAGES * STAGE;
    static constexpr unsigned NBYTES = BARRIERS + 8 + STAGES * 32;

    unsigned lds;
    unsigned queries, keys, values; /* low words of descriptors, of the first stage */
    unsigned keys_at = 0, keys_phase = 0, values_at = 0, values_phase = 0; /* stages */

    explicit __device__ __forceinline__ OfWarpgroups(unsigned char* store)
        : lds(static_cast<unsigned>(__cvta_generic_to_shared(store)))
    {
        const unsigned group = Moves::of_warp(threadIdx.x / 128);
        queries = low_word<true>(lds + group * (64 * 128));
        keys = low_word<true>(lds + QueryPanels::NBYTES);
        values = low_word<false>(lds + QueryPanels::NBYTES + KeyPanels::NBYTES);
    }
    /* As `described` of warpgroups.h, of panels of values. */
    template <bool ALONG_K>
    static __device__ __forceinline__ unsigned low_word(unsigned at)
    {
        return (at & 0x3ffff) >> 4 | (ALONG_K ? 1u : ValuePanels::PANEL / 16u) << 16;
    }
    /* Of stages of keys, KIND 0: full, 1: empty; of values, 2 and 3. Behind them, of queries. */
    __device__ __forceinline__ unsigned barrier(unsigned kind, unsigned stage) const
    {
        return lds + BARRIERS + (kind * STAGES + stage) * 8;
    }

    /* Begins; whether this work-item is there to move tiles alone. */
    __device__ __forceinline__ bool moves(
        const char* maps, unsigned head, unsigned row0, int start, int end)
    {
        if (threadIdx.x == BLOCK) {
#pragma unroll
            for (unsigned stage = 0; stage < STAGES; stage++)
#pragma unroll
                for (unsigned kind = 0; kind < 4; kind++)
                    Moves::begin(barrier(kind, stage), kind % 2 ? GROUPS_OF_ROWS : 1);
            Moves::begin(barrier(4, 0), 1);
            asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
        }
        __syncthreads();
        if (threadIdx.x < BLOCK) {
            asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(ITEM_REGISTERS));
            if (threadIdx.x / 128 == GROUPS_OF_ROWS - 1)
                give_turn();
            return false;
        }
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Moves::MOVER_REGISTERS));
        if (threadIdx.x != BLOCK)
            return true;
        move_panels<QueryPanels>(lds, maps, row0, head, barrier(4, 0));
        unsigned stage = 0, phase = 1;
        for (int key0 = start; key0 < end; key0 += TILE_KEYS) {
            const unsigned to = lds + QueryPanels::NBYTES + stage * STAGE;
            Moves::wait(barrier(1, stage), phase);
            move_panels<KeyPanels>(to, maps + 128, key0, head, barrier(0, stage));
            Moves::wait(barrier(3, stage), phase);
            move_panels<ValuePanels>(
                to + KeyPanels::NBYTES, maps + 256, key0, head, barrier(2, stage));
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            phase ^= stage == 0;
        }
        return true;
    }
    template <class Tiles>
    static __device__ __forceinline__ void move_panels(
        unsigned to, const char* map, unsigned row, unsigned head, unsigned barrier)
    {
        Moves::expect(barrier, Tiles::NBYTES);
#pragma unroll
        for (unsigned panel = 0; panel < Tiles::NBYTES / Tiles::PANEL; panel++)
            Moves::template move<false>(
                to + panel * Tiles::PANEL, map, panel * 64, row, head, barrier);
    }

    /* Turns: a named barrier of each warpgroup, at which it waits for the one before. */
    static __device__ __forceinline__ void give_turn()
    {
        if constexpr (GROUPS_OF_ROWS > 1)
            asm volatile("bar.arrive %0, 256;" ::"r"((threadIdx.x / 128 + 1) % GROUPS_OF_ROWS + 1)
                : "memory");
    }
    static __device__ __forceinline__ void await_turn()
    {
        if constexpr (GROUPS_OF_ROWS > 1)
            asm volatile("bar.sync %0, 256;" ::"r"(threadIdx.x / 128 + 1) : "memory");
    }
    template <unsigned N>
    static __device__ __forceinline__ void hold(float (&sums)[R][N])
    {
#pragma unroll
        for (unsigned i = 0; i < R; i++)
#pragma unroll
            for (unsigned j = 0; j < N; j++)
                asm volatile("" : "+f"(sums[i][j])::"memory");
    }

    template <bool IS_ADDED, unsigned N>
    static __device__ __forceinline__ void multiply(
        float (&sum)[R][N], unsigned long long a, unsigned long long b)
    {
        if constexpr (N == 32) {
            BY_TYPE(SCORES_OF, 128, WGMMA_64, "%64", "%65", "%66", WGMMA_D16);
        } else {
            static_assert(N == 16);
            BY_TYPE(SCORES_OF, 64, WGMMA_32, "%32", "%33", "%34", WGMMA_D8);
        }
    }
    template <unsigned N>
    static __device__ __forceinline__ void add(
        float (&sum)[R][N], const unsigned (&a)[4], unsigned long long b)
    {
        if constexpr (N == 64) {
            BY_TYPE(VALUES_OF, 256, WGMMA_128, "%128, %129, %130, %131", "%132", WGMMA_D32);
        } else if constexpr (N == 32) {
            BY_TYPE(VALUES_OF, 128, WGMMA_64, "%64, %65, %66, %67", "%68", WGMMA_D16);
        } else {
            static_assert(N == 16);
            BY_TYPE(VALUES_OF, 64, WGMMA_32, "%32, %33, %34, %35", "%36", WGMMA_D8);
        }
    }
    __device__ __forceinline__ void multiply_keys(float (&scores)[R][OF_ROW])
    {
        const unsigned b = keys + keys_at * (STAGE / 16);
        Moves::wait(barrier(0, keys_at), keys_phase);
        hold(scores);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        multiply<false>(scores, Moves::descriptor(queries), Moves::descriptor(b));
#pragma unroll
        for (unsigned k = 16; k < (DIM + 15) / 16 * 16; k += 16)
            multiply<true>(scores,
                Moves::descriptor(queries + (k / 64 * QueryPanels::PANEL + k % 64 * 2) / 16),
                Moves::descriptor(b + (k / 64 * KeyPanels::PANEL + k % 64 * 2) / 16));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }
    __device__ __forceinline__ void add_values(float (&y)[R][OF_VALUE], const Weights& weights)
    {
        const unsigned b = values + values_at * (STAGE / 16);
        Moves::wait(barrier(2, values_at), values_phase);
        hold(y);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (unsigned k = 0; k < TILE_KEYS / 16; k++)
            add(y, weights.words[0][k], Moves::descriptor(b + k * 128));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }
    /* A stage is multiplied, and may be filled again. */
    __device__ __forceinline__ void give_back(unsigned kind, unsigned& stage, unsigned& phase)
    {
        if (threadIdx.x % 128 == 0)
            Moves::arrive(barrier(kind, stage));
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        phase ^= stage == 0;
    }

    /* The products of a tile's keys; more of them by next(). */
    __device__ __forceinline__ void begin(float (&scores)[R][OF_ROW])
    {
        Moves::wait(barrier(4, 0), 0);
        await_turn();
        multiply_keys(scores);
        give_turn();
        Moves::template multiplied<0>();
        hold(scores);
        give_back(1, keys_at, keys_phase);
    }
    /* Has the next scores multiplied, and weighted values added to y, which is there after
     * added(). */
    __device__ __forceinline__ void next(
        float (&scores)[R][OF_ROW], float (&y)[R][OF_VALUE], const Weights& weights)
    {
        await_turn();
        multiply_keys(scores);
        add_values(y, weights);
        give_turn();
        Moves::template multiplied<1>();
        hold(scores);
        give_back(1, keys_at, keys_phase);
    }
    /* The same without more scores. */
    __device__ __forceinline__ void end(float (&y)[R][OF_VALUE], const Weights& weights)
    {
        await_turn();
        add_values(y, weights);
        give_turn();
        added(y);
    }
    __device__ __forceinline__ void added(float (&y)[R][OF_VALUE])
    {
        Moves::template multiplied<0>();
        hold(y);
        give_back(3, values_at, values_phase);
    }
};
#endif
