/* The main loop of a product by wgmma, the matrix instructions of NVIDIA's sm_90a: a warpgroup
 * of 128 work-items multiplies 64 rows of A by all columns of B, both in LDS as staged.h says;
 * the tensor memory accelerator moves them there, by tensor maps that the launcher makes
 * (templates/launchers/cuda_run.py), and fills what is beyond the end of a matrix with zeros.
 *
 * An instruction adds to D, 64 x N, the product of A, 64 x 16, and B, 16 x N; of 8-bit integers
 * and floats, with 32 of k, of tf32, with 8. Lane l of warp w of a warpgroup holds of D what it
 * would hold by mma.sync of rows 16 w to 16 w + 15 (PTX ISA, "Matrix Fragments for
 * wgmma.mma_async.m64nNk16"). So this CPU multiplies as there (StagedMma). */
#pragma once
#include "staged.h"

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
/* Maps of up to three tensors, given by value: in memory they would be cold, and nothing is
 * moved before they are read. */
struct alignas(64) TensorMaps {
    char bytes[3 * 128];
};

/* The registers of D in an instruction, of 4 for 8 columns. */
#define WGMMA_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_64 WGMMA_32 \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_128 WGMMA_64 \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_D(C, j)                                                                              \
    C(sum[0][2 * (j)]), C(sum[0][2 * (j) + 1]), C(sum[1][2 * (j)]), C(sum[1][2 * (j) + 1])
#define WGMMA_D4(C, j) WGMMA_D(C, j), WGMMA_D(C, j + 1), WGMMA_D(C, j + 2), WGMMA_D(C, j + 3)
#define WGMMA_D8(C) WGMMA_D4(C, 0), WGMMA_D4(C, 4)
#define WGMMA_D16(C) WGMMA_D8(C), WGMMA_D4(C, 8), WGMMA_D4(C, 12)
#define WGMMA_D32(C)                                                                               \
    WGMMA_D16(C), WGMMA_D4(C, 16), WGMMA_D4(C, 20), WGMMA_D4(C, 24), WGMMA_D4(C, 28)
/* A, B and so on are the numbers of the operands behind D. */
#define WGMMA(N, TYPE, REGISTERS, A, B, TURNED_A, TURNED_B, ...)                                   \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE " {" REGISTERS  \
                 "}, " A ", " B ", 1, 1, 1, " TURNED_A ", " TURNED_B ";"                           \
        : __VA_ARGS__                                                                              \
        : "l"(a), "l"(b), "n"(TURN_A), "n"(TURN_B))
#define WGMMA_S8(N, REGISTERS, A, B, ...)                                                          \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k32.s32.s8.s8 {" REGISTERS "}, " A ", " B \
                 ", 1;"                                                                            \
        : __VA_ARGS__                                                                              \
        : "l"(a), "l"(b))
#define WGMMA_TF32(N, REGISTERS, A, B, ...)                                                        \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" REGISTERS "}, " A     \
                 ", " B ", 1, 1, 1;"                                                               \
        : __VA_ARGS__                                                                              \
        : "l"(a), "l"(b))
#define WGMMA_F8(N, TYPE, REGISTERS, A, B, ADDS, ...)                                              \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k32.f32." #TYPE "." #TYPE " {" REGISTERS  \
                 "}, " A ", " B ", " ADDS ", 1, 1;"                                                \
        : __VA_ARGS__                                                                              \
        : "l"(a), "l"(b), "n"(IS_ADDED ? 1 : 0))
#define WGMMA_OF(N, REGISTERS, A, B, TURNED_A, TURNED_B, D) \
    if constexpr (APART) { \
        if constexpr (F8<Stored>::FOUR_THREE) \
            WGMMA_F8(N, e4m3, REGISTERS, A, B, TURNED_A, D("+f")); \
        else \
            WGMMA_F8(N, e5m2, REGISTERS, A, B, TURNED_A, D("+f")); \
    } else if constexpr (sizeof(Stored) == 1) \
        WGMMA_S8(N, REGISTERS, A, B, D("+r")); \
    else if constexpr (sizeof(Stored) == 4) \
        WGMMA_TF32(N, REGISTERS, A, B, D("+f")); \
    else if constexpr (Stored::HALF) \
        WGMMA(N, f16, REGISTERS, A, B, TURNED_A, TURNED_B, D("+f")); \
    else \
        WGMMA(N, bf16, REGISTERS, A, B, TURNED_A, TURNED_B, D("+f"))

/* COUNT stages of work-groups of which a unit holds AT_ONCE. There may be MOVERS, a warpgroup
 * behind the work-items of the tile, which moves what the others multiply: so none of these
 * waits for the others. With PAIRS, two work-groups, a cluster, one tile below the other, have
 * the same columns of B: but for the first COUNT steps, each of them has half of each step of B
 * moved, for both. */
template <class Tile, class Left, class Right, unsigned COUNT, unsigned AT_ONCE, unsigned MOVERS,
    bool SETTLED = true, bool PAIRS = false>
struct WarpgroupProduct {
    using Stored = typename Left::Element;
    using Fragment = StagedMma<Tile, Stored, SETTLED>; /* which says where results lie */
    using A = Moved<Left, Tile::M, Tile::K, Tile::ITEMS>;
    using B = Moved<Right, Tile::N, Tile::K, Tile::ITEMS>;
    /* Of 8-bit floats a step is added up from zero, and then to the sums: in PARTS of the tile's
     * columns, as many as have registers beside the sums. */
    static constexpr bool APART = Fragment::APART;
    static constexpr unsigned PARTS = APART && Tile::N > 128 ? 2 : 1;
    static constexpr unsigned COLUMNS = Tile::N / PARTS; /* of an instruction */
    static constexpr unsigned STAGE = A::NBYTES + B::NBYTES;
    /* with two barriers for each stage */
    static constexpr unsigned NBYTES = COUNT * STAGE + COUNT * 16;
    static constexpr unsigned DEPTH = 32 / sizeof(Stored);
    static constexpr unsigned TURN_A = A::ALONG_K ? 0 : 1, TURN_B = B::ALONG_K ? 0 : 1;
    /* Registers of each work-item: as many as all are launched with, until movers leave most of
     * theirs to the others, which would wait for ever for more than there are. */
    static constexpr unsigned ALL = Tile::ITEMS + MOVERS,
                              LAUNCHED = 65536 / (AT_ONCE * ALL) / 8 * 8, MOVER_REGISTERS = 24;
    static constexpr unsigned FREE =
        (LAUNCHED * ALL - MOVERS * MOVER_REGISTERS) / Tile::ITEMS / 8 * 8;
    static constexpr unsigned ITEM_REGISTERS = FREE < 240 ? FREE : 240;
    static_assert(Tile::ITEM_M == 2 && Tile::M * 2 == Tile::ITEMS && Tile::ITEM_N * 4 == Tile::N
                  && COUNT > 1);
    static_assert(
        (A::ALONG_K && B::ALONG_K) || sizeof(Stored) == 2, "wgmma turns elements of 16 bits");
    static_assert(
        !PAIRS || MOVERS > 0, "movers leave when all stages are given back, the last ones too");
    static_assert(!PAIRS || Tile::N % 128 == 0, "halves of B are whole panels");

    static __device__ __forceinline__ unsigned row(unsigned i) { return Fragment::row(i); }
    static __device__ __forceinline__ unsigned column(unsigned j) { return Fragment::column(j); }

    /* Of a factor in LDS, in the 128-byte swizzle: 8 rows are 1024 bytes; panels of what does
     * not lie along k are PANEL. The low word counts 16 bytes, so that those of other places
     * differ by what they are apart. */
    template <bool ALONG_K>
    static __device__ __forceinline__ unsigned described(unsigned at)
    {
        constexpr unsigned PANEL = Tile::K * 128;
        return (at & 0x3ffff) >> 4 | (ALONG_K ? 1u : PANEL / 16u) << 16;
    }
    static __device__ __forceinline__ unsigned long long descriptor(unsigned low)
    {
        return low | 64ull << 32 | 1ull << 62;
    }
    /* With IS_ADDED the product is added to the sums, else it takes their place. */
    template <bool IS_ADDED, class Sums>
    static __device__ __forceinline__ void multiply(
        Sums& sum, unsigned long long a, unsigned long long b)
    {
        if constexpr (COLUMNS == 256) {
            WGMMA_OF(256, WGMMA_128, "%128", "%129", "%130", "%131", WGMMA_D32);
        } else if constexpr (COLUMNS == 128) {
            WGMMA_OF(128, WGMMA_64, "%64", "%65", "%66", "%67", WGMMA_D16);
        } else {
            static_assert(COLUMNS == 64);
            WGMMA_OF(64, WGMMA_32, "%32", "%33", "%34", "%35", WGMMA_D8);
        }
    }
    /* A step, of both factors where the descriptors say. */
    template <bool IS_ADDED, class Sums>
    static __device__ __forceinline__ void multiply_step(
        Sums& sum, unsigned long long a, unsigned long long b)
    {
        multiply<IS_ADDED>(sum, a, b);
#pragma unroll
        for (unsigned k = 1; k < Tile::K / DEPTH; k++)
            multiply<true>(
                sum, a + k * (A::ALONG_K ? 2 : DEPTH * 8), b + k * (B::ALONG_K ? 2 : DEPTH * 8));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }
    /* All but the last COUNT_LEFT steps are multiplied. */
    template <unsigned COUNT_LEFT>
    static __device__ __forceinline__ void multiplied()
    {
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(COUNT_LEFT) : "memory");
    }
    /* The compiler computes nothing of the sums before, and nothing with them afterwards. */
    template <class Number, unsigned ACROSS>
    static __device__ __forceinline__ void hold(Number (&sum)[Tile::ITEM_M][ACROSS])
    {
#pragma unroll
        for (unsigned i = 0; i < Tile::ITEM_M; i++)
#pragma unroll
            for (unsigned j = 0; j < ACROSS; j++)
                if constexpr (sizeof(Stored) == 1 && !APART)
                    asm volatile("" : "+r"(sum[i][j])::"memory");
                else
                    asm volatile("" : "+f"(sum[i][j])::"memory");
    }

    /* What is the same in all lanes of a warp, in a register that all of them share: the
     * compiler cannot know. */
    static __device__ __forceinline__ unsigned of_warp(unsigned value)
    {
        unsigned shared;
        asm volatile("redux.sync.max.u32 %0, %1, -1;" : "=r"(shared) : "r"(value));
        return shared;
    }

    /* Barriers are in LDS: a phase ends when as many have arrived as begin() says, and all bytes
     * that were expected. */
    static __device__ __forceinline__ void begin(unsigned barrier, unsigned count)
    {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
    }
    /* Lets the barriers of multiply() be begun again; all work-items must call it. */
    static __device__ __forceinline__ void forget(unsigned char* store)
    {
        const unsigned full =
            static_cast<unsigned>(__cvta_generic_to_shared(store)) + COUNT * STAGE;
        __syncthreads();
        if (threadIdx.x == 0)
            for (unsigned barrier = 0; barrier < 2 * COUNT; barrier++)
                asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(full + barrier * 8)
                    : "memory");
    }
    static __device__ __forceinline__ void expect(unsigned barrier, unsigned nbytes)
    {
        asm volatile(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(nbytes)
            : "memory");
    }
    static __device__ __forceinline__ void arrive(unsigned barrier)
    {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
    }
    /* A warpgroup has multiplied what was in a stage; of PAIRS, what the other work-group has
     * moved there, too. */
    static __device__ __forceinline__ void give_back(unsigned barrier)
    {
        arrive(barrier);
        if constexpr (PAIRS)
            asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, "
                         "%1;\nmbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
                "r"(rank() ^ 1)
                : "memory");
    }
    static __device__ __forceinline__ unsigned rank()
    {
        unsigned own;
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(own));
        return own;
    }
    static __device__ __forceinline__ void wait(unsigned barrier, unsigned phase)
    {
        asm volatile("{\n.reg .pred done;\nAGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, "
                     "[%0], %1;\n@done bra DONE;\n"
                     "bra AGAIN;\nDONE:\n}" ::"r"(barrier),
            "r"(phase)
            : "memory");
    }
    /* Elements x and on of rows y and on of matrix z, as many as the map says. What PASSES is
     * the first to leave the L2 cache, since all who read it do so now: what follows takes its
     * place, and not that of what others have written, which would go to memory meanwhile. */
    template <bool PASSES>
    static __device__ __forceinline__ void move(
        unsigned to, const char* map, unsigned x, unsigned y, unsigned z, unsigned barrier)
    {
        if constexpr (PASSES) {
            asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_"
                         "tx::bytes.L2::cache_hint [%0], [%1, {%2, %3, %4}], "
                         "[%5], %6;" ::"r"(to),
                "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "l"(first_to_leave())
                : "memory");
            return;
        }
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::"
                     "bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
            "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
            : "memory");
    }
    static __device__ __forceinline__ unsigned long long first_to_leave()
    {
        unsigned long long policy;
        asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
        return policy;
    }
    /* The same to that place of both work-groups of a pair, and of the barriers there. */
    template <bool PASSES>
    static __device__ __forceinline__ void move_to_both(
        unsigned to, const char* map, unsigned x, unsigned y, unsigned z, unsigned barrier)
    {
        const unsigned short both = 3;
        if constexpr (PASSES) {
            asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_"
                         "tx::bytes.multicast::cluster.L2::cache_hint [%0], "
                         "[%1, {%2, %3, %4}], [%5], %6, %7;" ::"r"(to),
                "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(both), "l"(first_to_leave())
                : "memory");
            return;
        }
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::"
                     "bytes.multicast::cluster [%0], "
                     "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
            "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(both)
            : "memory");
    }
    /* The same of a window of images with channels last: channels c and on of as many pixels as
     * the map says, of which the first one begins at (n, row, column), and is met by the tap
     * that is so much further down and across. */
    static __device__ __forceinline__ void move_windows(unsigned to, const char* map, unsigned c,
        int column, int row, unsigned n, unsigned across, unsigned down, unsigned barrier)
    {
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::"
                     "bytes [%0], [%1, {%2, %3, %4, %5}], [%6], "
                     "{%7, %8};" ::"r"(to),
            "l"(map), "r"(c), "r"(column), "r"(row), "r"(n), "r"(barrier),
            "h"(static_cast<unsigned short>(across)), "h"(static_cast<unsigned short>(down))
            : "memory");
    }
    /* A step of an operand, of EXTENT m or n, from `at` and k on. */
    template <class Operand, unsigned EXTENT, bool PASSES = false>
    static __device__ __forceinline__ void move_all(
        unsigned to, const char* map, unsigned at, unsigned k, unsigned item, unsigned barrier)
    {
        if constexpr (Operand::ALONG_K) {
            move<PASSES>(to, map, k, at, item, barrier);
        } else {
#pragma unroll
            for (unsigned panel = 0; panel < EXTENT / 64; panel++)
                move<PASSES>(to + panel * (Tile::K * 128), map, at + panel * 64, k, item, barrier);
        }
    }

    /* A step of both factors, of a tile and of k; `maps` are of A and of B, `item` is the number
     * of the product. Of PAIRS, B's map has half of a tile's columns. */
    template <bool PASSES = false>
    static __device__ __forceinline__ void bring_both(const char* maps, unsigned item, unsigned row,
        unsigned column, unsigned k, unsigned a, unsigned b, unsigned barrier)
    {
        move_all<A, Tile::M, PASSES>(a, maps, row, k, item, barrier);
        move_all<B, Tile::N, PASSES>(b, maps + 128, column, k, item, barrier);
        if constexpr (PAIRS && B::ALONG_K)
            move_all<B, Tile::N, PASSES>(
                b + Tile::N * 64, maps + 128, column + Tile::N / 2, k, item, barrier);
    }
    /* The same of a pair: a step of A, and for both of them this work-group's half of B. */
    template <bool PASSES = false>
    static __device__ __forceinline__ void bring_shared(const char* maps, unsigned item,
        unsigned row, unsigned column, unsigned k, unsigned a, unsigned b, unsigned barrier)
    {
        const unsigned half = rank();
        move_all<A, Tile::M, PASSES>(a, maps, row, k, item, barrier);
        if constexpr (B::ALONG_K) {
            move_to_both<PASSES>(b + half * (Tile::N * 64), maps + 128, k,
                column + half * (Tile::N / 2), item, barrier);
        } else {
            constexpr unsigned PANELS = Tile::N / 128;
#pragma unroll
            for (unsigned panel = 0; panel < PANELS; panel++) {
                const unsigned at = half * PANELS + panel;
                move_to_both<PASSES>(
                    b + at * (Tile::K * 128), maps + 128, column + at * 64, k, item, barrier);
            }
        }
    }
    /* Adds the products with k in [first, last) to sum; whether this work-item has any.
     * Work-groups that share factors run at once. */
    static __device__ __forceinline__ bool multiply(const char* maps, unsigned item, unsigned row,
        unsigned column, unsigned first, unsigned last, unsigned char* store,
        typename Tile::Sum& sum)
    {
        return multiply_moved(
            [&](unsigned k, unsigned a, unsigned b, unsigned barrier) {
                if (!PAIRS || k - first < COUNT * Tile::K)
                    bring_both<true>(maps, item, row, column, k, a, b, barrier);
                else
                    bring_shared<true>(maps, item, row, column, k, a, b, barrier);
            },
            first, last, store, sum);
    }
    /* The same, where bring(k, a, b, barrier) has the steps of both factors moved that begin at
     * k, to those places in LDS. */
    template <class Move>
    static __device__ __forceinline__ bool multiply_moved(const Move& bring, unsigned first,
        unsigned last, unsigned char* store, typename Tile::Sum& sum)
    {
        const unsigned steps = (last - first + Tile::K - 1) / Tile::K;
        const auto bring_step = [&](unsigned step, unsigned a, unsigned b, unsigned barrier) {
            bring(first + step * Tile::K, a, b, barrier);
        };
        Steps moved(store);
        moved.begin(bring_step, steps);
        if (moved.moves(bring_step, steps))
            return false;
        moved.multiply(bring_step, steps, steps, sum);
        Fragment::settle(sum);
        return true;
    }

    /* Steps that are moved to LDS and multiplied from there, one after the other, whatever sums
     * they are of. bring(step, a, b, barrier) has one moved, in all there are `count`; a stage
     * is filled again when all warpgroups have multiplied what was in it. */
    struct Steps {
        unsigned lds;
        /* the stage of a step, and of the one before */
        unsigned stage = 0, phase = 0, done = 0, done_phase = 0;
        /* of a stage, the low words of both factors' descriptors, and the barrier that says it
         * is full */
        unsigned a, b, barrier;
        unsigned step = 0;

        __device__ __forceinline__ Steps(unsigned char* store)
            : lds(static_cast<unsigned>(__cvta_generic_to_shared(store))),
              a(described<A::ALONG_K>(
                  lds + of_warp(threadIdx.x / 128) * (A::ALONG_K ? 64 * 128 : Tile::K * 128))),
              b(described<B::ALONG_K>(lds + A::NBYTES)), barrier(full(0))
        {
        }
        __device__ __forceinline__ unsigned full(unsigned of) const
        {
            return lds + COUNT * STAGE + of * 8;
        }
        __device__ __forceinline__ unsigned empty(unsigned of) const
        {
            return lds + COUNT * (STAGE + 8) + of * 8;
        }
        template <class Move>
        __device__ __forceinline__ void fill(const Move& bring, unsigned at, unsigned to) const
        {
            expect(full(to), STAGE);
            bring(at, lds + to * STAGE, lds + to * STAGE + A::NBYTES, full(to));
        }

        template <class Move>
        __device__ __forceinline__ void begin(const Move& bring, unsigned count) const
        {
            if (threadIdx.x == (MOVERS > 0 ? Tile::ITEMS : 0)) {
                for (unsigned of = 0; of < COUNT; of++) {
                    WarpgroupProduct::begin(full(of), 1);
                    WarpgroupProduct::begin(empty(of), (PAIRS ? 2 : 1) * Tile::ITEMS / 128);
                }
                asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::
                        : "memory");
                for (unsigned of = 0; of < COUNT && of < count; of++)
                    fill(bring, of, of);
            }
            if constexpr (PAIRS) {
                __syncwarp();
                asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
            }
            __syncthreads();
            if constexpr (PAIRS) /* the other one's barriers are there, too */
                asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
        }
        /* Moves all that is multiplied behind what begin() did; whether this work-item is for
         * that alone. */
        template <class Move>
        __device__ __forceinline__ bool moves(const Move& bring, unsigned count) const
        {
            if constexpr (MOVERS == 0)
                return false;
            if (threadIdx.x >= Tile::ITEMS) {
                move_steps(bring, count);
                return true;
            }
            asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(ITEM_REGISTERS));
            return false;
        }
        template <class Move>
        __device__ __forceinline__ void move_steps(const Move& bring, unsigned count) const
        {
            asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(MOVER_REGISTERS));
            if (threadIdx.x != Tile::ITEMS)
                return;
            unsigned to = 0, round = 0;
            for (unsigned at = COUNT; at < count; at++) {
                wait(empty(to), round);
                fill(bring, at, to);
                to = to + 1 == COUNT ? 0 : to + 1;
                round ^= to == 0;
            }
            /* the other one gives stages back to this, which is to be there as long */
            if constexpr (PAIRS)
                for (unsigned of = 0; of < COUNT && of < count; of++) {
                    wait(empty(to), round);
                    to = to + 1 == COUNT ? 0 : to + 1;
                    round ^= to == 0;
                }
        }
        /* The step before is multiplied: its stage gets what comes next. */
        template <class Move>
        __device__ __forceinline__ void next(const Move& bring, unsigned count) const
        {
            if (step == 0)
                return;
            if (threadIdx.x % 128 == 0)
                give_back(empty(done));
            if (MOVERS == 0 && threadIdx.x == 0 && step - 1 + COUNT < count) {
                wait(empty(done), done_phase);
                fill(bring, step - 1 + COUNT, done);
            }
            __syncwarp();
        }

        /* Adds the products of steps up to `end` to sum; `count` are those of all sums. */
        template <class Move>
        __device__ __forceinline__ void multiply(
            const Move& bring, unsigned end, unsigned count, typename Tile::Sum& sum)
        {
            while (step < end) {
                wait(barrier, phase);
                if constexpr (APART) {
                    add_apart(bring, count, descriptor(a), descriptor(b), sum);
                } else {
                    hold(sum);
                    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
                    multiply_step<true>(sum, descriptor(a), descriptor(b));
                    multiplied<1>();
                    next(bring, count);
                }
                done = stage;
                done_phase = phase;
                const bool last = stage + 1 == COUNT;
                stage = last ? 0 : stage + 1;
                phase ^= last;
                a += last ? 0 - (COUNT - 1) * (STAGE / 16) : STAGE / 16;
                b += last ? 0 - (COUNT - 1) * (STAGE / 16) : STAGE / 16;
                barrier += last ? 0 - (COUNT - 1) * 8 : 8;
                step++;
            }
            if constexpr (!APART) {
                multiplied<0>();
                hold(sum);
                if constexpr (PAIRS) /* the movers wait for it */
                    if (step == count && threadIdx.x % 128 == 0)
                        give_back(empty(done));
            }
        }
        /* A step of 8-bit floats. With multiply-adds, by what the compiler does not know to be
         * 1, in place of additions, 64 steps of a small tile take 5 % less; large ones as long. */
        template <class Move>
        __device__ __forceinline__ void add_apart(const Move& bring, unsigned count,
            unsigned long long a, unsigned long long b, typename Tile::Sum& sum)
        {
            const float one = as_float(0x3f800000u | gridDim.z >> 16);
#pragma unroll
            for (unsigned part = 0; part < PARTS; part++) {
                float apart[Tile::ITEM_M][COLUMNS / 4];
                hold(apart);
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
                multiply_step<false>(apart, a, b + part * (COLUMNS * 128 / 16));
                if (part == 0 && MOVERS == 0)
                    next(bring, count);
                multiplied<0>();
                if (part + 1 == PARTS && MOVERS > 0 && threadIdx.x % 128 == 0)
                    give_back(barrier + COUNT * 8);
                hold(apart);
#pragma unroll
                for (unsigned i = 0; i < Tile::ITEM_M; i++)
#pragma unroll
                    for (unsigned j = 0; j < COLUMNS / 4; j++)
                        sum[i][part * (COLUMNS / 4) + j] =
                            __fmaf_rn(apart[i][j], one, sum[i][part * (COLUMNS / 4) + j]);
            }
        }
    };
};
#endif
