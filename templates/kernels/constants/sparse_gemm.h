/* A sparse matrix times a dense one (simgen/layers/sparse/sparse_gemm.py), with sample values. */
#pragma once

#define KERNEL sparse_gemm_sample
constexpr unsigned BLOCK = 64;
constexpr unsigned M = 300; /* rows of a and y */
constexpr unsigned N = 1500; /* columns of b and y */
constexpr unsigned SIDE = 1; /* rows and columns of the blocks that a is stored in */
constexpr unsigned LANES = 64; /* work-items of a row of blocks */
constexpr unsigned WIDTH = 4; /* columns of an access */
/* whether the work-items of a row share its sums; otherwise, its columns */
constexpr bool SHARED = false;
using LeftElement = float; /* of a, b and y */
using RightElement = float;
using Element = float;
