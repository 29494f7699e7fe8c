/* Sums of partial sums (sum_of in simgen/layers/product/matrix_product.py), with sample values. */
#pragma once

#define KERNEL gemm_sum_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned TERMS = 32;  /* of a sum */
constexpr unsigned SIZE = 4096; /* sums */
constexpr unsigned SLICES = 4;  /* work-items that share the terms of one sum */
constexpr unsigned WIDTH = 4;   /* elements of a load and a store */
constexpr float ALPHA = 1.0f;
constexpr float BETA = 0.5f;
constexpr unsigned COLUMNS = 64;  /* of y: so many elements has the bias */
constexpr unsigned CHANNELS = 64;
constexpr unsigned INNER = 1; /* results side by side that are of one channel */
using TermElement = float;
using AddedElement = float;
using Element = float; /* of y */
using Total = float; /* what is added up */
#define WITH_BIAS 1
#define WITH_C 1
