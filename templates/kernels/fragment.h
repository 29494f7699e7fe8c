/* What multiplies in a product of tiles: the fragment that simgen has chosen
 * (simgen/layers/product/fragment.py). */
#pragma once
#include "tile.h"
#include "mfma.h"
#include "mma.h"
#include "wmma.h"
#include "constants/tile.h"

/* Of factors that are stored as Stored. */
template <class Tile, class Stored = float>
using Fragment = Either<
    MULTIPLY == Multiply::MFMA, Mfma<Tile, Stored, MATRIX_SIDE, MATRIX_EACH>,
    Either<
        MULTIPLY == Multiply::MMA, Mma<Tile, Stored>,
        Either<MULTIPLY == Multiply::WMMA, Wmma<Tile, Stored, MATRIX_EACH>, Scalars<Tile>>>>;
