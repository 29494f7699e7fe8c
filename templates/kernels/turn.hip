/* Matrices turned: (BATCH, ROWS, COLUMNS) becomes (BATCH, COLUMNS, ROWS). */
#include "prelude.h"
#include "vector.h"
#include "constants/turn.h"

constexpr unsigned SIDE = 32; /* of a tile */
constexpr unsigned PITCH = SIDE + 1; /* banks of LDS differ along both sides */
constexpr unsigned EACH = BLOCK / SIDE; /* rows of a tile that are read at once */
constexpr unsigned MATRIX = ROWS * COLUMNS;
using Number = decltype(load(static_cast<const Source*>(nullptr), 0u)); /* float, or int */

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const Source* __restrict__ x, Target* __restrict__ y)
{
    const unsigned item = threadIdx.x;
    if constexpr (TILED) {
        __shared__ Number tile[SIDE * PITCH];
        const unsigned first_column = blockIdx.x * SIDE, first_row = blockIdx.y * SIDE;
        const unsigned matrix = blockIdx.z * MATRIX;
        const unsigned column = item % SIDE, row = item / SIDE;
#pragma unroll
        for (unsigned k = 0; k < SIDE; k += EACH)
            if (first_row + row + k < ROWS && first_column + column < COLUMNS)
                tile[column * PITCH + row + k]
                    = load(x, matrix + (first_row + row + k) * COLUMNS + first_column + column);
        __syncthreads();
        if constexpr (sizeof(Target) < 4) { /* ROWS is a multiple of 4 */
            const unsigned across = item / (SIDE / 4), down = item % (SIDE / 4) * 4;
            if (first_column + across < COLUMNS && first_row + down < ROWS) {
                const Number* from = tile + across * PITCH + down;
                store4(y + matrix + (first_column + across) * ROWS + first_row + down,
                    Vector<Number, 4>{from[0], from[1], from[2], from[3]});
            }
        } else {
#pragma unroll
            for (unsigned k = 0; k < SIDE; k += EACH)
                if (first_column + row + k < COLUMNS && first_row + column < ROWS)
                    store(y, matrix + (first_column + row + k) * ROWS + first_row + column,
                        tile[(row + k) * PITCH + column]);
        }
    } else {
        const unsigned at = (blockIdx.x * BLOCK + item) * 4;
        if (at < BATCH * MATRIX) {
            Number four[4];
#pragma unroll
            for (unsigned k = 0; k < 4; k++) {
                const unsigned to = at + k < BATCH * MATRIX ? at + k : at;
                four[k] = load(x, to / MATRIX * MATRIX + to % ROWS * COLUMNS + to % MATRIX / ROWS);
            }
            store4(y + at, Vector<Number, 4>{four[0], four[1], four[2], four[3]});
        }
    }
}
