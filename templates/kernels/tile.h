/* The main loop of a matrix product in tiles, for every kernel that is one:
 *
 *     C(m, n) = sum over k of A(m, k) B(k, n)
 *
 * Where elements of A and B come from say two operands of the kernel's own, Left and Right:
 *
 *     struct Left {
 *         using Element;                     what a load gives, and LDS holds
 *         static constexpr unsigned WIDTH;   elements of a load, 1, 2 or 4 side by side
 *         static constexpr Along ALONG;      where they lie side by side: along k, or along m and
 * for Right along n struct Line {                      trivially constructible Vector<Element,
 * WIDTH> load(unsigned step) const;
 *         };
 *         Line line(unsigned m, unsigned dm, unsigned k) const;
 *     };
 *
 * A line is made once for each load that a work-item makes in a step. load(step) is called in
 * the main loop and returns A(m + dm, step + k) and on, along k, or A(m + dm, step + k), A(m +
 * dm + 1, step + k) and on; of B the same, of column n + dn. m, n and step are the same for all
 * work-items: what is made of them alone needs no vector registers. dm, dn and k tell where in
 * the tile this work-item loads, and are multiples of the width where the load goes along them.
 *
 * Indices go beyond the matrices in the last tiles. load() must return zeros for k beyond the
 * end, in A and in B both; what it returns for m or n beyond the end does not matter, as long as
 * it reads no memory that is not there: the kernel stores no such result. */
#pragma once
#include "vector.h"

enum class Along { K, M, N };
enum class Multiply { SCALARS, MFMA, MMA, WMMA }; /* what multiplies (fragment.h) */

/* One of two types. */
template <bool FIRST, class One, class Other>
struct EitherOf {
    using Type = One;
};
template <class One, class Other>
struct EitherOf<false, One, Other> {
    using Type = Other;
};
template <bool FIRST, class One, class Other>
using Either = typename EitherOf<FIRST, One, Other>::Type;

/* What a work-group multiplies in one step, M x N x K, and the ITEM_M x ITEM_N results that each
 * of its work-items holds (simgen/layers/product/tile.py chooses them). AHEAD: the elements of
 * one k are read while another one is multiplied. Number: what is multiplied and added up, float
 * or int. */
template <unsigned TILE_ROWS, unsigned TILE_COLUMNS, unsigned TILE_DEPTH, unsigned ITEM_ROWS,
    unsigned ITEM_COLUMNS, bool READ_AHEAD, class Number = float>
struct Tile {
    static constexpr unsigned M = TILE_ROWS;
    static constexpr unsigned N = TILE_COLUMNS;
    static constexpr unsigned K = TILE_DEPTH;
    static constexpr unsigned ITEM_M = ITEM_ROWS;
    static constexpr unsigned ITEM_N = ITEM_COLUMNS;
    static constexpr bool AHEAD = READ_AHEAD;
    using Total = Number;
    static constexpr unsigned ITEMS_M = M / ITEM_M;
    static constexpr unsigned ITEMS_N = N / ITEM_N;
    static constexpr unsigned ITEMS = ITEMS_M * ITEMS_N; /* of a work-group */

    using Sum = Total[ITEM_M][ITEM_N];
};

/* The k of a line, for those whose last steps go beyond the end of k. */
template <unsigned END, bool CHECKED>
struct Depth {
    unsigned k;

    static __device__ __forceinline__ Depth at(unsigned k) { return {k}; }
    __device__ __forceinline__ bool ends(unsigned step) const { return step + k >= END; }
};
template <unsigned END>
struct Depth<END, false> {
    static __device__ __forceinline__ Depth at(unsigned) { return {}; }
    __device__ __forceinline__ bool ends(unsigned) const { return false; }
};

/* A work-item's share of an operand's tile, on its way from memory to LDS. There it lies as
 * [k][m] or [k][n]; what is loaded along k with rows 4 banks apart, so that stores meet no bank
 * twice. OF_K: how far apart in LDS elements of neighbouring k lie. */
template <class Operand, unsigned EXTENT, unsigned DEPTH, unsigned ITEMS>
struct ByDepth {
    using Element = typename Operand::Element;
    static constexpr unsigned WIDTH = Operand::WIDTH;
    static constexpr bool ALONG_K = Operand::ALONG == Along::K;
    static constexpr unsigned STRIDE = EXTENT + (ALONG_K ? 4 : 0);
    static constexpr unsigned SIZE = DEPTH * STRIDE; /* elements in LDS */
    static constexpr unsigned OF_K = STRIDE;
    static constexpr unsigned PIECES = EXTENT * DEPTH / WIDTH;
    static constexpr unsigned LOADS = (PIECES + ITEMS - 1) / ITEMS;
    /* Loads of a work-item differ in k alone: one line serves them all. */
    static constexpr bool ALIGNED = !ALONG_K && ITEMS * WIDTH % EXTENT == 0;

    Vector<Element, WIDTH> value[LOADS];
    typename Operand::Line lines[ALIGNED ? 1 : LOADS];

    static __device__ __forceinline__ unsigned piece(unsigned load)
    {
        return threadIdx.x + load * ITEMS;
    }
    static __device__ __forceinline__ unsigned k(unsigned load)
    {
        return ALONG_K ? piece(load) % (DEPTH / WIDTH) * WIDTH : piece(load) / (EXTENT / WIDTH);
    }
    static __device__ __forceinline__ unsigned at(unsigned load)
    {
        return ALONG_K ? piece(load) / (DEPTH / WIDTH) : piece(load) % (EXTENT / WIDTH) * WIDTH;
    }
    static __device__ __forceinline__ bool mine(unsigned load)
    {
        return PIECES % ITEMS == 0 || piece(load) < PIECES;
    }

    __device__ __forceinline__ ByDepth(const Operand& from, unsigned origin)
    {
        if constexpr (ALIGNED) {
            lines[0] = from.line(origin, at(0), k(0));
        } else {
#pragma unroll
            for (unsigned load = 0; load < LOADS; load++)
                lines[load] = from.line(origin, at(load), k(load));
        }
    }
    __device__ __forceinline__ void fetch(unsigned step)
    {
#pragma unroll
        for (unsigned load = 0; load < LOADS; load++)
            if (mine(load)) {
                if constexpr (ALIGNED)
                    value[load] = lines[0].load(step + load * (ITEMS * WIDTH / EXTENT));
                else
                    value[load] = lines[load].load(step);
            }
    }
    __device__ __forceinline__ void store(Element* tile) const
    {
#pragma unroll
        for (unsigned load = 0; load < LOADS; load++) {
            if (!mine(load))
                continue;
            Element* place = tile + k(load) * STRIDE + at(load);
            if constexpr (ALONG_K)
                unpack(value[load], place, STRIDE);
            else
                vector_at<WIDTH>(place) = value[load];
        }
    }
};

/* A word of narrow elements that were loaded: all of a few loads along k, or element `row` of
 * each. */
template <bool ALONG_K, unsigned OF_WORD, class Piece, unsigned TIMES>
static __device__ __forceinline__ unsigned joined(const Piece (&pieces)[TIMES], unsigned row)
{
    constexpr unsigned BITS = 32 / OF_WORD;
    constexpr unsigned EACH = ALONG_K ? OF_WORD / TIMES : 1; /* elements of a load */
    constexpr unsigned MASK = (1u << EACH * BITS) - 1;
    unsigned word = 0;
#pragma unroll
    for (unsigned time = 0; time < TIMES; time++) {
        const unsigned part = pieces[time].words[row / OF_WORD] >> row % OF_WORD * BITS;
        word |= (part & MASK) << time * EACH * BITS;
    }
    return word;
}

/* The same as [m][k] or [n][k]: a row's elements of neighbouring k lie side by side, in whole
 * words, as matrix instructions take them. Rows are 4 banks apart beside their length, so that 8
 * lanes that read 16 bytes each, of rows side by side, meet no bank twice. */
template <class Operand, unsigned EXTENT, unsigned DEPTH, unsigned ITEMS>
struct ByRow {
    using Element = typename Operand::Element;
    static constexpr unsigned WIDTH = Operand::WIDTH;
    static constexpr bool ALONG_K = Operand::ALONG == Along::K;
    static constexpr unsigned OF_WORD = 4 / sizeof(Element); /* elements */
    static constexpr unsigned STRIDE = DEPTH + 4 * OF_WORD;
    static constexpr unsigned SIZE = EXTENT * STRIDE; /* elements in LDS */
    static constexpr unsigned OF_K = 1;
    /* A piece is DOWN elements of k, at least a word of them, of ACROSS rows, in TIMES loads. */
    static constexpr unsigned DOWN = ALONG_K && WIDTH > OF_WORD ? WIDTH : OF_WORD;
    static constexpr unsigned ACROSS = ALONG_K ? 1 : WIDTH;
    static constexpr unsigned TIMES = ALONG_K ? DOWN / WIDTH : DOWN;
    static constexpr unsigned PIECES = EXTENT * DEPTH / (ACROSS * DOWN);
    static constexpr unsigned LOADS = (PIECES + ITEMS - 1) / ITEMS; /* pieces of a work-item */
    /* Side by side are work-items that load side by side: along k; else 8 of k, so that they
     * store into different banks. */
    static constexpr unsigned DEEP = DEPTH / DOWN;
    static constexpr unsigned LANES_K = ALONG_K || DEEP < 8 ? DEEP : 8;
    /* pieces with the same k or LANES_K of them */
    static constexpr unsigned ROUND = LANES_K * (EXTENT / ACROSS);
    static constexpr bool ALIGNED = !ALONG_K && ITEMS % ROUND == 0;

    Vector<Element, WIDTH> value[LOADS][TIMES];
    typename Operand::Line lines[ALIGNED ? 1 : LOADS];

    static __device__ __forceinline__ unsigned piece(unsigned load)
    {
        return threadIdx.x + load * ITEMS;
    }
    static __device__ __forceinline__ unsigned k(unsigned load)
    {
        return (piece(load) / ROUND * LANES_K + piece(load) % LANES_K) * DOWN;
    }
    static __device__ __forceinline__ unsigned at(unsigned load)
    {
        return piece(load) % ROUND / LANES_K * ACROSS;
    }
    static __device__ __forceinline__ bool mine(unsigned load)
    {
        return PIECES % ITEMS == 0 || piece(load) < PIECES;
    }

    __device__ __forceinline__ ByRow(const Operand& from, unsigned origin)
    {
        if constexpr (ALIGNED) {
            lines[0] = from.line(origin, at(0), k(0));
        } else {
#pragma unroll
            for (unsigned load = 0; load < LOADS; load++)
                lines[load] = from.line(origin, at(load), k(load));
        }
    }
    __device__ __forceinline__ void fetch(unsigned step)
    {
#pragma unroll
        for (unsigned load = 0; load < LOADS; load++)
            if (mine(load)) {
#pragma unroll
                for (unsigned time = 0; time < TIMES; time++) {
                    const unsigned down = time * (ALONG_K ? WIDTH : 1);
                    if constexpr (ALIGNED)
                        value[load][time] =
                            lines[0].load(step + load * (ITEMS / ROUND * LANES_K * DOWN) + down);
                    else
                        value[load][time] = lines[load].load(step + down);
                }
            }
    }
    __device__ __forceinline__ void store(Element* tile) const
    {
#pragma unroll
        for (unsigned load = 0; load < LOADS; load++) {
            if (!mine(load))
                continue;
            Element* place = tile + at(load) * STRIDE + k(load);
            if constexpr (TIMES == 1 && ALONG_K)
                vector_at<WIDTH>(place) = value[load][0];
            else if constexpr (OF_WORD == 1)
                unpack(value[load][0], place, STRIDE);
            else
#pragma unroll
                for (unsigned row = 0; row < ACROSS; row++)
                    *reinterpret_cast<unsigned*>(place + row * STRIDE) =
                        joined<ALONG_K, OF_WORD>(value[load], row);
        }
    }
};
template <bool BY_ROW, class Operand, unsigned EXTENT, unsigned DEPTH, unsigned ITEMS>
using Share =
    Either<BY_ROW, ByRow<Operand, EXTENT, DEPTH, ITEMS>, ByDepth<Operand, EXTENT, DEPTH, ITEMS>>;

/* How a work-group's items multiply what lies in LDS, a fragment: here each by fused
 * multiply-adds, its elements of A and B for one k. Other fragments have matrix instructions
 * multiply (mfma.h). What they have in common:
 *
 *     Held<Stored>            what of an operand's elements is in LDS: what the operands load gives
 *     BY_ROW                  in which order (Share)
 *     DEPTH                   of k, that are read and multiplied at a time
 *     row(i), column(j)       where sum[i][j] lies in the tile; j in steps of 4 are 4 columns side
 * by side first_left(STRIDE)      where in LDS a work-item's first elements of A lie, for k = 0;
 * first_right of B read<A_STRIDE, B_STRIDE>(a, b), multiply(sum)
 * / */
template <class Tile>
struct Scalars {
    using Total = typename Tile::Total;
    template <class Stored>
    using Held = Total;
    static constexpr bool BY_ROW = false;
    static constexpr unsigned DEPTH = 1;

    Total left[Tile::ITEM_M];
    Total right[Tile::ITEM_N];

    /* 64 work-items side by side take LANES_M x LANES_N places in the tile: few distinct
     * addresses in a read of LDS, and long runs in a store to C. */
    static constexpr unsigned WANTED = 64 / Tile::ITEMS_N > 8 ? 64 / Tile::ITEMS_N : 8;
    static constexpr unsigned LANES_M = Tile::ITEMS_M < WANTED ? Tile::ITEMS_M : WANTED;
    static constexpr unsigned LANES_N = 64 / LANES_M;

    static __device__ __forceinline__ unsigned item_row()
    {
        if constexpr (Tile::ITEMS_M > LANES_M)
            return threadIdx.x / 64 / (Tile::ITEMS_N / LANES_N) * LANES_M
                   + threadIdx.x % 64 / LANES_N;
        else
            return threadIdx.x % 64 / LANES_N;
    }
    static __device__ __forceinline__ unsigned item_column()
    {
        if constexpr (Tile::ITEMS_N > LANES_N)
            return threadIdx.x / 64 % (Tile::ITEMS_N / LANES_N) * LANES_N + threadIdx.x % LANES_N;
        else
            return threadIdx.x % LANES_N;
    }

    /* Where sum[i][j] lies in the tile: groups of 4, so that a read of 16 bytes gives 4 of them,
     * and neighbouring work-items read neighbouring addresses. j in steps of 4 are float4s of C. */
    static __device__ __forceinline__ unsigned row(unsigned i)
    {
        return i / 4 * 4 * Tile::ITEMS_M + item_row() * 4 + i % 4;
    }
    static __device__ __forceinline__ unsigned column(unsigned j)
    {
        return j / 4 * 4 * Tile::ITEMS_N + item_column() * 4 + j % 4;
    }

    static __device__ __forceinline__ unsigned first_left(unsigned) { return row(0); }
    static __device__ __forceinline__ unsigned first_right(unsigned) { return column(0); }

    /* `a` and `b` are this work-item's first elements of one k. */
    template <unsigned A_STRIDE, unsigned B_STRIDE>
    __device__ __forceinline__ void read(const Total* a, const Total* b)
    {
#pragma unroll
        for (unsigned i = 0; i < Tile::ITEM_M; i += 4)
            unpack(vector_at<4>(a + i * Tile::ITEMS_M), left + i);
#pragma unroll
        for (unsigned j = 0; j < Tile::ITEM_N; j += 4)
            unpack(vector_at<4>(b + j * Tile::ITEMS_N), right + j);
    }
    __device__ __forceinline__ void multiply(typename Tile::Sum& sum) const
    {
#pragma unroll
        for (unsigned i = 0; i < Tile::ITEM_M; i++)
#pragma unroll
            for (unsigned j = 0; j < Tile::ITEM_N; j++) {
                sum[i][j] = fused(left[i], right[j], sum[i][j]);
                pin(sum[i][j]);
            }
        scheduling_fence();
    }
};

/* The product of a tile; a kernel's LDS are arrays of A_SIZE and B_SIZE elements, aligned to 16
 * bytes: two steps each. */
template <class Tile, class Left, class Right, class Fragment = Scalars<Tile>>
struct Product {
    using A = Share<Fragment::BY_ROW, Left, Tile::M, Tile::K, Tile::ITEMS>;
    using B = Share<Fragment::BY_ROW, Right, Tile::N, Tile::K, Tile::ITEMS>;
    static_assert(Tile::K % Fragment::DEPTH == 0);
    static constexpr unsigned A_SIZE = 2 * A::SIZE;
    static constexpr unsigned B_SIZE = 2 * B::SIZE;

    /* Where sum[i][j] lies in the tile. */
    static __device__ __forceinline__ unsigned row(unsigned i) { return Fragment::row(i); }
    static __device__ __forceinline__ unsigned column(unsigned j) { return Fragment::column(j); }

    /* The products of one step: `a` and `b` are this work-item's first elements of it in LDS. */
    static __device__ __forceinline__ void step(
        const typename A::Element* a, const typename B::Element* b, typename Tile::Sum& sum)
    {
        if constexpr (Tile::AHEAD) {
            Fragment held[2];
            held[0].template read<A::STRIDE, B::STRIDE>(a, b);
#pragma unroll
            for (unsigned k = 0; k < Tile::K; k += Fragment::DEPTH) {
                const unsigned next = k + Fragment::DEPTH;
                if (next < Tile::K)
                    held[next / Fragment::DEPTH % 2].template read<A::STRIDE, B::STRIDE>(
                        a + next * A::OF_K, b + next * B::OF_K);
                held[k / Fragment::DEPTH % 2].multiply(sum);
            }
        } else {
#pragma unroll
            for (unsigned k = 0; k < Tile::K; k += Fragment::DEPTH) {
                Fragment now;
                now.template read<A::STRIDE, B::STRIDE>(a + k * A::OF_K, b + k * B::OF_K);
                now.multiply(sum);
            }
        }
    }

    /* Adds the products with k in [first, last) to sum, in order of k; (row, column) is the
     * tile's first element of C, first a multiple of Tile::K. LDS holds two steps: while one is
     * multiplied, the next one is on its way. All work-items must call it, and once: it has
     * barriers, but none at its end. */
    static __device__ __forceinline__ void multiply(const Left& left, const Right& right,
        unsigned row, unsigned column, unsigned first, unsigned last, typename A::Element* a_tiles,
        typename B::Element* b_tiles, typename Tile::Sum& sum)
    {
        A a(left, row);
        B b(right, column);
        a.fetch(first);
        b.fetch(first);
        a.store(a_tiles);
        b.store(b_tiles);
        __syncthreads();
        unsigned half = 0;
        for (unsigned next = first + Tile::K; next < last; next += Tile::K) {
            a.fetch(next);
            b.fetch(next);
            scheduling_fence(); /* the registers of the addresses are free again */
            step(a_tiles + half * A::SIZE + Fragment::first_left(A::STRIDE),
                b_tiles + half * B::SIZE + Fragment::first_right(B::STRIDE), sum);
            half ^= 1;
            a.store(a_tiles + half * A::SIZE);
            b.store(b_tiles + half * B::SIZE);
            __syncthreads();
        }
        step(a_tiles + half * A::SIZE + Fragment::first_left(A::STRIDE),
            b_tiles + half * B::SIZE + Fragment::first_right(B::STRIDE), sum);
    }
};
