/* A matrix with 2:4 sparsity times a dense one (simgen/layers/sparse/structured_gemm.py), with
 * sample values. */
#pragma once

#define KERNEL structured_gemm_sample
constexpr unsigned BLOCK = 64;
constexpr unsigned M = 300; /* rows of a and y */
constexpr unsigned N = 1500; /* columns of b and y */
constexpr unsigned K = 512;
constexpr unsigned LANES = 64; /* work-items of a row */
constexpr unsigned WIDTH = 4; /* columns of an access */
using LeftElement = float; /* of a, b and y */
using RightElement = float;
using Element = float;
