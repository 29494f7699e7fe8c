/* The tile of a matrix product (simgen/layers/product/tile.py), with sample values. */
#pragma once

constexpr unsigned TILE_M = 32; /* what a work-group multiplies in one step */
constexpr unsigned TILE_N = 32;
constexpr unsigned TILE_K = 16;
constexpr unsigned ITEM_M = 4; /* results of a work-item: ITEM_M x ITEM_N */
constexpr unsigned ITEM_N = 4;
constexpr unsigned LAUNCH_GROUPS = 4; /* work-groups that a compute unit shall hold */
/* work-items behind these, which move what they multiply (warpgroups.h) */
constexpr unsigned MOVERS = 0;
/* whether the elements of one k are read while another one is multiplied */
constexpr bool AHEAD = true;
constexpr Multiply MULTIPLY = Multiply::SCALARS;
constexpr unsigned MATRIX_SIDE = 16; /* rows and columns of a matrix instruction */
constexpr unsigned MATRIX_EACH = 1;  /* elements of a factor that each lane gives it */
constexpr Along LEFT_ALONG = Along::K; /* how elements lie side by side that one load takes */
constexpr unsigned LEFT_WIDTH = 1;
constexpr Along RIGHT_ALONG = Along::N;
constexpr unsigned RIGHT_WIDTH = 4;
constexpr unsigned STORE_WIDTH = 4; /* elements of a store */
