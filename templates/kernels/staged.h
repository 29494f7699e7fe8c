/* The main loop of a product of 16-bit factors, or of 8-bit integers along k, whose tiles wait
 * in LDS several steps ahead, on NVIDIA GPUs from sm_80 on: cp.async moves 16 bytes from memory
 * to LDS, and needs no register. On this CPU it is a copy.
 *
 * A step of an operand lies in rows of 128 bytes, of 8 pieces: along k, a row for each m or n;
 * else a row for each k, of 64 m or n side by side, one such panel after the other (of 16-bit
 * factors). Piece p of row r lies in place p ^ r % 8: so 8 lanes that read the same piece of 8
 * rows meet no bank twice, and neither do those that store a row. It is what PTX ISA calls the
 * 128-byte swizzle.
 *
 * Operands are those of tile.h with a WIDTH of 16 bytes. Their lines have place(step), where
 * load(step) would read, and ends(step), whether that is beyond the end of k: then zeros are put
 * into LDS, and nothing is read. */
#pragma once
#include "mma.h"

#ifndef __AMDGCN__

/* LDS that a launch asks for, beside what kernels declare. */
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define ASKED_LDS(name, nbytes) extern __shared__ __align__(1024) unsigned char name[]
#else
#define ASKED_LDS(name, nbytes) alignas(1024) __shared__ unsigned char name[nbytes]
#endif

/* How many work-groups share the tiles of a launch: as many as the GPU holds, which may have
 * another number of units than was planned for. */
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define SHARING(planned) gridDim.x
#else
#define SHARING(planned) planned
#endif

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
/* 16 bytes, or zeros, some time before arrived<> says so. */
static __device__ __forceinline__ void move_piece(unsigned char* to, const char* from, bool zeros)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
        :
        : "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from), "r"(zeros ? 0 : 16)
        : "memory");
}
/* What was moved since the last call is a group; whether all but the last COUNT groups have
 * arrived. */
static __device__ __forceinline__ void end_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <unsigned COUNT>
static __device__ __forceinline__ void arrived()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(COUNT) : "memory");
}
/* The value of the lane whose number differs in the lowest bit. */
static __device__ __forceinline__ float neighbours(float value)
{
    float other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 31, -1;" : "=f"(other) : "f"(value));
    return other;
}
static __device__ __forceinline__ int neighbours(int value)
{
    int other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 31, -1;" : "=r"(other) : "r"(value));
    return other;
}
#else
static __device__ __forceinline__ void move_piece(unsigned char* to, const char* from, bool zeros)
{
    for (unsigned i = 0; i < 16; i++)
        to[i] = zeros ? 0 : static_cast<unsigned char>(from[i]);
}
static __device__ __forceinline__ void end_group() {}
template <unsigned COUNT>
static __device__ __forceinline__ void arrived()
{
}
#endif

/* A step of an operand in LDS, and a work-item's share of moving it there. */
template <class Operand, unsigned EXTENT, unsigned DEPTH, unsigned ITEMS>
struct Moved {
    using Element = typename Operand::Element;
    static constexpr bool ALONG_K = Operand::ALONG == Along::K;
    static constexpr unsigned PIECE = 16 / sizeof(Element);
    static constexpr unsigned OF_ROW = 128 / sizeof(Element);
    static constexpr unsigned NBYTES = EXTENT * DEPTH * sizeof(Element);
    static constexpr unsigned MOVES = NBYTES / 16 / ITEMS;
    static_assert(Operand::WIDTH == PIECE && NBYTES % (16 * ITEMS) == 0 && ITEMS % 64 == 0);
    static_assert(ALONG_K ? DEPTH == OF_ROW : EXTENT % OF_ROW == 0 && 8 * DEPTH % ITEMS == 0);
    /* Between moves, if they are apart alike: then one line serves them all. */
    static constexpr bool REGULAR = Operand::REGULAR;
    static constexpr unsigned OF_PANEL = ALONG_K ? 1 : 8 * DEPTH / ITEMS; /* moves */

    typename Operand::Line lines[REGULAR ? 1 : MOVES];

    /* Where in a step the piece lies that element (at, k) is in. */
    static __device__ __forceinline__ unsigned place(unsigned at, unsigned k)
    {
        if constexpr (ALONG_K)
            return at * 128 + (k / PIECE ^ at % 8) * 16;
        else
            return at / OF_ROW * (DEPTH * 128) + k * 128 + (at % OF_ROW / PIECE ^ k % 8) * 16;
    }
    static __device__ __forceinline__ unsigned piece(unsigned move)
    {
        return threadIdx.x + move * ITEMS;
    }
    static __device__ __forceinline__ unsigned at(unsigned move)
    {
        return ALONG_K ? piece(move) / 8
                       : piece(move) / (8 * DEPTH) * OF_ROW + piece(move) % 8 * PIECE;
    }
    static __device__ __forceinline__ unsigned k(unsigned move)
    {
        return ALONG_K ? piece(move) % 8 * PIECE : piece(move) / 8 % DEPTH;
    }

    __device__ __forceinline__ Moved(const Operand& from, unsigned origin)
    {
#pragma unroll
        for (unsigned move = 0; move < (REGULAR ? 1 : MOVES); move++)
            lines[move] = from.line(origin, at(move), k(move));
    }
    /* How much further than the first move one is, along m or n and along k. */
    static constexpr __device__ __forceinline__ unsigned further(unsigned move)
    {
        return ALONG_K ? move * (ITEMS / 8) : move / OF_PANEL * OF_ROW;
    }
    static constexpr __device__ __forceinline__ unsigned deeper(unsigned move)
    {
        return ALONG_K ? 0 : move % OF_PANEL * (ITEMS / 8);
    }
    __device__ __forceinline__ void move(unsigned step, unsigned char* to) const
    {
#pragma unroll
        for (unsigned move = 0; move < MOVES; move++) {
            unsigned char* piece = to + place(at(0), k(0))
                                   + further(move) * (ALONG_K ? 128 : DEPTH * sizeof(Element))
                                   + deeper(move) * 128;
            if constexpr (REGULAR)
                move_piece(piece,
                    lines[0].place(step) + Operand::apart(further(move), deeper(move)),
                    lines[0].ends(step + deeper(move)));
            else
                move_piece(piece, lines[move].place(step), lines[move].ends(step));
        }
    }
};

/* mma.sync, of factors that lie so. An instruction has 8 columns of C side by side, so that
 * ldmatrix may turn what does not lie along k; a lane has 2 of them. Where these are to be
 * SETTLED, neighbours exchange halves afterwards, and hold 4 results side by side each; else see
 * Run. */
template <class Tile, class Stored, bool SETTLED = true>
struct StagedMma : Mma<Tile, Stored> {
    using Base = Mma<Tile, Stored>;
    using Words = typename Base::Words;

    static __device__ __forceinline__ unsigned column(unsigned j)
    {
        const unsigned lane = Base::lane();
        if constexpr (SETTLED)
            return Base::warp_column() + j / 4 * 16 + lane % 2 * 8 + lane % 4 / 2 * 4 + j % 4;
        else
            return Base::warp_column() + j / 2 * 8 + lane % 4 * 2 + j % 2;
    }

    /* The factors' elements of k and on; `a` and `b` are their steps. */
    template <class A, class B>
    __device__ __forceinline__ void read(const unsigned char* a, const unsigned char* b, unsigned k)
    {
        static_assert((A::ALONG_K && B::ALONG_K) || sizeof(Stored) == 2,
            "ldmatrix turns elements of 16 bits");
        const unsigned lane = Base::lane(), run = Base::RUN;
        const unsigned left_at = Base::warp_row() + (A::ALONG_K ? lane % 16 : lane / 8 % 2 * run);
        const unsigned left_k = lane / 16 * run + (A::ALONG_K ? 0 : lane % 8);
#pragma unroll
        for (unsigned i = 0; i < Base::DOWN; i++)
            this->left[i] = rows_of<A::ALONG_K>(a + A::place(left_at + i * 16, k + left_k));
        const unsigned right_at = Base::warp_column() + lane / 16 * 8 + (B::ALONG_K ? lane % 8 : 0);
        const unsigned right_k = lane / 8 % 2 * run + (B::ALONG_K ? 0 : lane % 8);
#pragma unroll
        for (unsigned j = 0; j < Base::ACROSS; j++)
            this->right[j] = rows_of<B::ALONG_K>(b + B::place(right_at + j * 16, k + right_k));
    }

    template <bool ALONG_K>
    static __device__ __forceinline__ Words rows_of(const unsigned char* row)
    {
        if constexpr (ALONG_K)
            return Base::rows_at(reinterpret_cast<const Stored*>(row));
        else
            return turned(row);
    }

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
    /* As rows_at, of matrices whose columns are the rows that are read. */
    static __device__ __forceinline__ Words turned(const unsigned char* row)
    {
        Words held;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(held.words[0]), "=r"(held.words[1]), "=r"(held.words[2]), "=r"(held.words[3])
            : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row))));
        return held;
    }
    static __device__ __forceinline__ void settle(typename Tile::Sum& sum)
    {
        if constexpr (!SETTLED)
            return;
        const bool odd = Base::lane() % 2;
#pragma unroll
        for (unsigned i = 0; i < Tile::ITEM_M; i++)
#pragma unroll
            for (unsigned j = 0; j < Tile::ITEM_N; j += 4)
#pragma unroll
                for (unsigned part = 0; part < 2; part++) {
                    auto& low = sum[i][j + part];
                    auto& high = sum[i][j + 2 + part];
                    const auto other = neighbours(odd ? low : high);
                    low = odd ? other : low;
                    high = odd ? high : other;
                }
    }
#elif !defined(__AMDGCN__)
    static Words turned(const unsigned char* row)
    {
        __shared__ const unsigned char* rows[Tile::ITEMS / 32][32];
        const unsigned warp = threadIdx.x / 32, lane = Base::lane();
        rows[warp][lane] = row;
        __syncthreads();
        Words held;
        for (unsigned matrix = 0; matrix < 4; matrix++) {
            const unsigned char* const* first = rows[warp] + matrix * 8 + lane % 4 * 2;
            const unsigned low = reinterpret_cast<const unsigned short*>(first[0])[lane / 4];
            const unsigned high = reinterpret_cast<const unsigned short*>(first[1])[lane / 4];
            held.words[matrix] = low | high << 16;
        }
        __syncthreads();
        return held;
    }
    template <class Total>
    static void settle(Total (&sum)[Tile::ITEM_M][Tile::ITEM_N])
    {
        if constexpr (!SETTLED)
            return;
        __shared__ Total given[Tile::ITEMS][2];
        const bool odd = Base::lane() % 2;
        for (unsigned i = 0; i < Tile::ITEM_M; i++)
            for (unsigned j = 0; j < Tile::ITEM_N; j += 4) {
                for (unsigned part = 0; part < 2; part++)
                    given[threadIdx.x][part] = sum[i][j + (odd ? 0 : 2) + part];
                __syncthreads();
                for (unsigned part = 0; part < 2; part++)
                    sum[i][j + (odd ? 0 : 2) + part] = given[threadIdx.x ^ 1][part];
                __syncthreads();
            }
    }
#endif
};

/* The product of a tile: as Product of tile.h, with COUNT steps in LDS, which is NBYTES and
 * begins at a multiple of 1024. */
template <class Tile, class Left, class Right, class Fragment, unsigned COUNT>
struct StagedProduct {
    using A = Moved<Left, Tile::M, Tile::K, Tile::ITEMS>;
    using B = Moved<Right, Tile::N, Tile::K, Tile::ITEMS>;
    static constexpr unsigned STAGE = A::NBYTES + B::NBYTES;
    static constexpr unsigned NBYTES = COUNT * STAGE;
    static constexpr unsigned PARTS = Tile::K / Fragment::DEPTH;
    static_assert(COUNT > 1 && PARTS % 2 == 0);

    static __device__ __forceinline__ unsigned row(unsigned i) { return Fragment::row(i); }
    static __device__ __forceinline__ unsigned column(unsigned j) { return Fragment::column(j); }

    /* Lets multiply() be called again; all work-items must call it. */
    static __device__ __forceinline__ void forget(unsigned char*) { __syncthreads(); }

    /* Adds the products with k in [first, last) to sum. All work-items must call it, and once. */
    static __device__ __forceinline__ void multiply(const Left& left, const Right& right,
        unsigned row, unsigned column, unsigned first, unsigned last, unsigned char* lds,
        typename Tile::Sum& sum)
    {
        const A a(left, row);
        const B b(right, column);
        begin(a, b, first, last, lds);
        multiply_begun(a, b, first, last, lds, sum);
    }
    /* Has the first steps moved. It may be called as soon as the tile before is multiplied, by
     * all work-items. */
    static __device__ __forceinline__ void begin(
        const A& a, const B& b, unsigned first, unsigned last, unsigned char* lds)
    {
#pragma unroll 1
        for (unsigned stage = 0; stage + 1 < COUNT; stage++) {
            if (first + stage * Tile::K < last) {
                a.move(first + stage * Tile::K, lds + stage * STAGE);
                b.move(first + stage * Tile::K, lds + stage * STAGE + A::NBYTES);
            }
            end_group();
        }
    }
    /* Adds the products of what is begun. */
    static __device__ __forceinline__ void multiply_begun(const A& a, const B& b, unsigned first,
        unsigned last, unsigned char* lds, typename Tile::Sum& sum)
    {
        arrived<COUNT - 2>();
        __syncthreads();
        Fragment held[2];
        held[0].template read<A, B>(lds, lds + A::NBYTES, 0);
        unsigned now = 0;                    /* the stage that is multiplied, as an offset */
        unsigned free = (COUNT - 1) * STAGE; /* that which the step before was multiplied from */
        for (unsigned step = first; step < last; step += Tile::K) {
#pragma unroll
            for (unsigned part = 0; part < PARTS; part++) {
                if (part + 1 < PARTS) {
                    held[(part + 1) % 2].template read<A, B>(
                        lds + now, lds + now + A::NBYTES, (part + 1) * Fragment::DEPTH);
                } else {
                    arrived<COUNT - 2>();
                    __syncthreads();
                    free = now;
                    now = now + STAGE == NBYTES ? 0 : now + STAGE;
                    if (step + Tile::K < last)
                        held[0].template read<A, B>(lds + now, lds + now + A::NBYTES, 0);
                }
                if (part == 0) {
                    const unsigned next = step + (COUNT - 1) * Tile::K;
                    if (next < last) {
                        a.move(next, lds + free);
                        b.move(next, lds + free + A::NBYTES);
                    }
                    end_group();
                }
                held[part % 2].multiply(sum);
            }
        }
        Fragment::settle(sum);
    }
};

/* An element by itself: such a machine's memory takes 16 bits. */
template <class Stored>
static __device__ __forceinline__ void put(Stored* to, float value)
{
    if constexpr (sizeof(Stored) == 2)
        *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(Stored::narrow(value));
    else
        *to = value;
}

/* 4 elements at once, narrow ones rounded two at a time. */
template <class Stored, class Number>
static __device__ __forceinline__ void put_four(Stored* to, const Number* from)
{
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
    if constexpr (sizeof(Stored) == 2) {
        if constexpr (Stored::HALF || Stored::SHORTENED) {
            int2 words;
            if constexpr (Stored::HALF)
                asm("cvt.rn.f16x2.f32 %0, %3, %2;\n\tcvt.rn.f16x2.f32 %1, %5, %4;"
                    : "=r"(words.x), "=r"(words.y)
                    : "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3]));
            else
                asm("cvt.rn.bf16x2.f32 %0, %3, %2;\n\tcvt.rn.bf16x2.f32 %1, %5, %4;"
                    : "=r"(words.x), "=r"(words.y)
                    : "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3]));
            *reinterpret_cast<int2*>(to) = words;
            return;
        }
    }
#endif
    store_vector<4>(to, from);
}
/* 2 elements at once, of 16 or 32 bits. */
template <class Stored, class Number>
static __device__ __forceinline__ void put_two(Stored* to, const Number* from)
{
    if constexpr (sizeof(Stored) == 4) {
        store_vector<2>(to, from);
    } else {
        static_assert(sizeof(Stored) == 2);
        unsigned& word = *reinterpret_cast<unsigned*>(to);
#ifdef SIMGEN_NARROWS_TWO
        if constexpr (Stored::HALF || Stored::SHORTENED)
            word = narrow_two<Stored::HALF>(from[0], from[1]);
        else
#endif
            word = Stored::narrow(from[0]) | Stored::narrow(from[1]) << 16;
    }
}
/* 16 bytes of a row, of narrow results that are not settled: of 4 lanes, each has as many
 * results, two of each 8 columns, and afterwards those that lie side by side. So lanes that
 * store together write whole sectors of memory. */
template <class Stored>
struct Run {
    static constexpr unsigned LENGTH = 16 / sizeof(Stored);
    alignas(16) unsigned words[4];

    /* Of a lane's results j and on, from the first column of its warp, where j is a multiple of
     * LENGTH. */
    static __device__ __forceinline__ unsigned column(unsigned j)
    {
        return 4 * j + threadIdx.x % 4 * LENGTH;
    }

    /* Rounds LENGTH values; not 0 where it may have been wrong, and mend() must be called. */
    template <class Number>
    __device__ __forceinline__ unsigned round(const Number* values)
    {
#ifdef SIMGEN_NARROWS_FOUR
        if constexpr (BY_FOURS) {
            unsigned wrong = 0;
#pragma unroll
            for (unsigned four = 0; four < 4; four++, values += 4) {
                words[four] =
                    narrow_four<Stored::FOUR_THREE>(values[0], values[1], values[2], values[3]);
                wrong |= Stored::largest(words[four]);
            }
            return wrong;
        } else
#endif
        {
#pragma unroll
            for (unsigned four = 0; four < LENGTH / 4; four++)
                put_four(reinterpret_cast<Stored*>(words) + 4 * four, values + 4 * four);
            return 0;
        }
    }
    template <class Number>
    __device__ __forceinline__ void mend(const Number* values)
    {
#ifdef SIMGEN_NARROWS_FOUR
        if constexpr (BY_FOURS)
#pragma unroll
            for (unsigned four = 0; four < 4; four++, values += 4)
                words[four] =
                    Stored::all_beyond(words[four], values[0], values[1], values[2], values[3]);
#endif
    }
    /* Gives each lane what it stores; all lanes must call it. */
    __device__ __forceinline__ void share()
    {
        exchange(words);
        if constexpr (sizeof(Stored) == 1) {
            /* Each lane's word has two columns of the first 8, and two of the others. */
            const unsigned first[4] = {words[0], words[1], words[2], words[3]};
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
                words[half] = lower_halves(first[2 * half], first[2 * half + 1]);
                words[2 + half] = upper_halves(first[2 * half], first[2 * half + 1]);
            }
        }
    }
    __device__ __forceinline__ void store(Stored* to) const
    {
        *reinterpret_cast<int4*>(to) = int4{static_cast<int>(words[0]), static_cast<int>(words[1]),
            static_cast<int>(words[2]), static_cast<int>(words[3])};
    }

private:
#ifdef SIMGEN_NARROWS_FOUR
    static constexpr bool BY_FOURS = F8<Stored>::OCP;
#endif
    static __device__ __forceinline__ unsigned lower_halves(unsigned low, unsigned high)
    {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
        unsigned both;
        asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(both) : "r"(low), "r"(high));
        return both;
#else
        return (low & 0xffffu) | high << 16;
#endif
    }
    static __device__ __forceinline__ unsigned upper_halves(unsigned low, unsigned high)
    {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
        unsigned both;
        asm("prmt.b32 %0, %1, %2, 0x7632;" : "=r"(both) : "r"(low), "r"(high));
        return both;
#else
        return low >> 16 | (high & 0xffff0000u);
#endif
    }
    /* Word w of lane l of four becomes word l of lane w. */
    static __device__ __forceinline__ void exchange(unsigned (&words)[4])
    {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#pragma unroll
        for (unsigned apart = 1; apart < 4; apart *= 2) {
            const bool upper = threadIdx.x & apart;
#pragma unroll
            for (unsigned pair = 0; pair < 2; pair++) {
                unsigned& low = words[apart == 1 ? 2 * pair : pair];
                unsigned& high = words[apart == 1 ? 2 * pair + 1 : pair + 2];
                unsigned other;
                asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;"
                    : "=r"(other)
                    : "r"(upper ? low : high), "r"(apart));
                low = upper ? other : low;
                high = upper ? high : other;
            }
        }
#else
        __shared__ unsigned given[1024][4];
        for (unsigned w = 0; w < 4; w++)
            given[threadIdx.x][w] = words[w];
        __syncthreads();
        for (unsigned lane = 0; lane < 4; lane++)
            words[lane] = given[threadIdx.x / 4 * 4 + lane][threadIdx.x % 4];
        __syncthreads();
#endif
    }
};
/* All lanes of a warp have come here, and what they have stored in LDS is seen. On this CPU all
 * work-items must call it. */
static __device__ __forceinline__ void warp_barrier()
{
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
    __syncwarp();
#else
    __syncthreads();
#endif
}

/* So many neighbours from LDS to memory, which begin at a multiple of them in both. */
template <unsigned WIDTH, class Stored>
static __device__ __forceinline__ void copy_run(Stored* to, const Stored* from)
{
    constexpr unsigned NBYTES = WIDTH * sizeof(Stored);
    if constexpr (NBYTES == 16) {
        *reinterpret_cast<int4*>(to) = *reinterpret_cast<const int4*>(from);
    } else if constexpr (NBYTES == 8) {
        *reinterpret_cast<int2*>(to) = *reinterpret_cast<const int2*>(from);
    } else if constexpr (NBYTES == 4) {
        *reinterpret_cast<int*>(to) = *reinterpret_cast<const int*>(from);
    } else {
        static_assert(NBYTES == 2);
        *reinterpret_cast<short*>(to) = *reinterpret_cast<const short*>(from);
    }
}

/* Work-groups in bands of ROWS tiles down, so that those which run together share both factors
 * in L2: (across, down). */
template <unsigned TILES_ACROSS, unsigned TILES_DOWN, unsigned ROWS = 8>
static __device__ __forceinline__ unsigned banded(unsigned across, unsigned down, bool second)
{
    const unsigned at = down * TILES_ACROSS + across;
    const unsigned first = at / (ROWS * TILES_ACROSS) * ROWS;
    const unsigned inside = at % (ROWS * TILES_ACROSS);
    /* of the last band, if that is not whole; compilers divide by constants cheaply */
    constexpr unsigned REST = TILES_DOWN % ROWS;
    if (REST == 0 || first + ROWS <= TILES_DOWN)
        return second ? first + inside % ROWS : inside / ROWS;
    constexpr unsigned LAST = REST > 0 ? REST : 1;
    return second ? first + inside % LAST : inside / LAST;
}
#endif
