/* Weights of few bits, of which so many along k share a scale. */
#pragma once
#include "tile.h"

/* Elements k to k + 3 of a row of K, which lie in a word, or in half of one, and are of one
 * group. */
template <unsigned K, unsigned GROUP, class Stored, class Scale>
static __device__ __forceinline__ float4 scaled4(
    const Stored* weights, const Scale* scales, unsigned row, unsigned k)
{
    static_assert(K % GROUP == 0 && GROUP % 8 == 0, "groups end within a word");
    const unsigned at = row * K + k;
    constexpr unsigned BITS = Stored::BITS, SHARED = 32 / BITS; /* elements of a word */
    const unsigned word =
        reinterpret_cast<const unsigned*>(weights)[at / SHARED] >> at % SHARED * BITS;
    const float scale = load(scales, row * (K / GROUP) + k / GROUP);
    return float4{Stored::widen(word) * scale, Stored::widen(word >> BITS) * scale,
        Stored::widen(word >> 2 * BITS) * scale, Stored::widen(word >> 3 * BITS) * scale};
}

/* The same, or elements that are stored as they are. */
template <class Held, unsigned WIDTH, bool IS_GROUPED, unsigned K, unsigned GROUP, class Stored,
    class Scale>
static __device__ __forceinline__ Vector<Held, WIDTH> piece_of(
    const Stored* weights, const Scale* scales, unsigned row, unsigned stride, unsigned k)
{
    if constexpr (IS_GROUPED)
        return scaled4<K, GROUP>(weights, scales, row, k);
    else
        return fetched<Held, WIDTH>(weights + row * stride + k);
}

/* Such weights as the second operand of a product (tile.h): rows of K, of which a tile has PART.
 * Loads give Held, which is float or a narrow type that they are rounded to. */
template <class Held, class Stored, class Scale, unsigned ROWS, unsigned PART, unsigned K,
    unsigned GROUP, bool CHECKED>
struct GroupedRows {
    using Element = Held;
    static constexpr unsigned WIDTH = 4;
    static constexpr Along ALONG = Along::K;
    const Stored* __restrict__ weights;
    const Scale* __restrict__ scales;

    struct Line {
        const Stored* weights;
        const Scale* scales;
        unsigned row, k;

        __device__ __forceinline__ Vector<Held, 4> load(unsigned step) const
        {
            if (CHECKED && step + k >= K)
                return {};
            const float4 values = scaled4<K, GROUP>(weights, scales, row, step + k);
            if constexpr (sizeof(Held) < 4) {
                const unsigned bits[] = {Held::narrow(values.x), Held::narrow(values.y),
                    Held::narrow(values.z), Held::narrow(values.w)};
                return packed_of<Held>(bits);
            } else {
                return values;
            }
        }
    };
    __device__ __forceinline__ Line line(unsigned at, unsigned apart, unsigned k) const
    {
        /* Beyond the end it loads the last row: those results are not stored. */
        const unsigned row = ROWS % PART == 0 || at + apart < ROWS ? at + apart : ROWS - 1;
        return Line{weights, scales, row, k};
    }
};

/* An operand of a kernel, with scales or without: number `item` of matrices of so many elements. */
template <class Operand, bool IS_GROUPED, unsigned ELEMENTS, unsigned GROUP, class Stored,
    class Scale>
static __device__ __forceinline__ Operand operand_of(
    const Stored* matrices, const Scale* scales, unsigned item)
{
    if constexpr (IS_GROUPED)
        return Operand{
            matrices + item * (ELEMENTS / 8 * Stored::BITS), scales + item * (ELEMENTS / GROUP)};
    else
        return Operand{matrices + item * ELEMENTS};
}
