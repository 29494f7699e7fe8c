/* Rows of one or two matrices, FIRST_EXTENT elements apart, copied to rows that are FIRST_PITCH
 * apart: what a longer row has more is zero. Pieces are as many neighbours as lie on an address of
 * their size. */
#include "prelude.h"
#include "constants/copy_rows.h"

/* What has so many bytes. */
template <unsigned NBYTES>
struct Bytes {
    using Piece = unsigned char;
};
template <>
struct Bytes<2> {
    using Piece = unsigned short;
};
template <>
struct Bytes<4> {
    using Piece = unsigned;
};
template <>
struct Bytes<8> {
    using Piece = int2;
};
template <>
struct Bytes<16> {
    using Piece = int4;
};
using FirstPiece = Bytes<FIRST_NBYTES>::Piece;
using SecondPiece = Bytes<SECOND_NBYTES>::Piece;
constexpr unsigned FIRST_PIECES = FIRST_ROWS * (FIRST_PITCH / FIRST_WIDTH);
constexpr unsigned FIRST_GROUPS = (FIRST_PIECES + BLOCK * EACH - 1) / (BLOCK * EACH);

/* OF_ROW and PITCH are pieces of a row, as it lies and as it is written. */
template <class Piece, unsigned ROWS, unsigned OF_ROW, unsigned PITCH>
static __device__ __forceinline__ void copy_rows(
    const Piece* __restrict__ from, Piece* __restrict__ to, unsigned group)
{
    const unsigned first = group * (BLOCK * EACH) + threadIdx.x;
    Piece pieces[EACH];
#pragma unroll
    for (unsigned i = 0; i < EACH; i++) {
        const unsigned at = first + i * BLOCK, row = at / PITCH, column = at % PITCH;
        pieces[i] = Piece{};
        if (row < ROWS && column < OF_ROW)
            pieces[i] = from[row * OF_ROW + column];
    }
#pragma unroll
    for (unsigned i = 0; i < EACH; i++)
        if (first + i * BLOCK < ROWS * PITCH)
            to[first + i * BLOCK] = pieces[i];
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const FirstPiece* __restrict__ a,
#if BOTH
    const SecondPiece* __restrict__ b,
#endif
    FirstPiece* __restrict__ copied_a
#if BOTH
    ,
    SecondPiece* __restrict__ copied_b
#endif
)
{
    if (!BOTH || blockIdx.x < FIRST_GROUPS)
        copy_rows<FirstPiece, FIRST_ROWS, FIRST_EXTENT / FIRST_WIDTH, FIRST_PITCH / FIRST_WIDTH>(
            a, copied_a, blockIdx.x);
#if BOTH
    else
        copy_rows<SecondPiece, SECOND_ROWS, SECOND_EXTENT / SECOND_WIDTH,
            SECOND_PITCH / SECOND_WIDTH>(b, copied_b, blockIdx.x - FIRST_GROUPS);
#endif
}
