/* The gradient of filters as a matrix product (simgen/layers/conv/implicit_gemm.py), with sample
 * values. */
#pragma once

#define KERNEL conv_gemm_filters_sample
constexpr unsigned BLOCK = 64;
constexpr bool UNROLLED = false; /* whether the windows are in memory */
/* partial sums; if there is more than one, the kernel stores them */
constexpr unsigned SPLITS = 1;
constexpr unsigned CHUNK = 70;   /* of k, for a work-group */
using SourceElement = float;
using ResultElement = float;
using Element = float;
