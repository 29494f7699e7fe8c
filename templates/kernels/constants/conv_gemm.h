/* A convolution as a matrix product (simgen/layers/conv/implicit_gemm.py), with sample values. */
#pragma once

#define KERNEL conv_gemm_sample
constexpr unsigned BLOCK = 64;
constexpr bool UNROLLED = false; /* whether the windows are in memory */
/* whether a filter's taps, and those of the next input channel, lie in the order of the sum */
constexpr bool STRAIGHT = true;
/* partial sums; if there is more than one, the kernel stores them */
constexpr unsigned SPLITS = 1;
constexpr unsigned CHUNK = 27;   /* of k, for a work-group */
using SourceElement = float;
using FilterElement = float;
using AddedElement = float; /* of the bias */
using Element = float;
using Total = float; /* what is multiplied and added up */
#define WITH_BIAS 0
