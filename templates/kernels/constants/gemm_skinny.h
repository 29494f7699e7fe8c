/* A product of which one side is short (simgen/layers/product/matrix_product.py), with sample
 * values. */
#pragma once

#define KERNEL gemm_skinny_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned FEW = 4; /* rows of x */
constexpr unsigned MANY = 300; /* of w */
constexpr unsigned K = 512;
constexpr bool ALONG_K = true; /* whether a row of w lies along k; otherwise a column of it */
constexpr unsigned X_FEW = 512; /* elements between neighbours */
constexpr unsigned X_K = 1;
constexpr unsigned W_MANY = 512;
constexpr unsigned W_K = 1;
constexpr unsigned Y_FEW = 300;
constexpr unsigned Y_MANY = 1;
constexpr unsigned ROWS = 4; /* of w, of a work-item, where they lie along k */
constexpr unsigned SLICES = 64; /* work-items that share a result */
constexpr unsigned X_WIDTH = 4; /* elements of a load or a store */
constexpr unsigned W_WIDTH = 4;
constexpr unsigned Y_WIDTH = 4;
constexpr bool X_FIRST = true; /* whether x is the first factor, and w the second one */
/* partial sums; if there is more than one, they are stored as they are */
constexpr unsigned SPLITS = 1;
constexpr unsigned CHUNK = 512; /* of k, for a work-group */
constexpr float ALPHA = 1.0f;
constexpr float BETA = 0.0f;
constexpr bool FEW_COLUMNS = false; /* whether columns of y are rows of x */
using LeftElement = float; /* of the first factor, the second one, what is added, and y */
using RightElement = float;
using AddedElement = float;
using Element = float;
using Total = float; /* what is multiplied and added up */
using ScaleElement = float; /* of the scales of B, where it has some */
constexpr unsigned GROUP = 8; /* elements of B along k that share a scale, if so (grouped.h) */
#define WITH_GROUPS 0
#define WITH_C 0
#define WITH_BIAS 0
