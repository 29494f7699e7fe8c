/* A matrix with 2:4 sparsity times a dense one, by matrix instructions
 * (simgen/layers/sparse/structured_matrix.py), with sample values. */
#pragma once

#define KERNEL structured_matrix_sample
constexpr unsigned BLOCK = 128;
constexpr unsigned M = 300; /* rows of a and y */
constexpr unsigned N = 1496; /* columns of b and y */
constexpr unsigned K = 544;
constexpr unsigned TILE_M = 64; /* of a work-group */
constexpr unsigned TILE_N = 64;
constexpr unsigned ITEM_M = 4; /* of a work-item, ITEM_M x ITEM_N */
constexpr unsigned ITEM_N = 8;
constexpr unsigned STAGES = 4; /* steps in LDS */
using LeftElement = float; /* of a, b and y */
using RightElement = float;
using Element = float;
