#pragma once

#define KERNEL expert_product_sample
constexpr unsigned BLOCK = 256;
constexpr Gate FUNCTION = Gate::SWIGLU; /* where it is gated */
constexpr bool GATED = true;
constexpr bool GATHERED = true; /* rows of a are those of tokens */
constexpr unsigned PAIRS = 100; /* of a token and an expert */
constexpr unsigned TOP_K = 8; /* pairs of a token */
constexpr unsigned ROWS = 4; /* of a block */
constexpr unsigned STORED = 128; /* experts that have weights */
constexpr unsigned WIDTH = 96; /* columns of y */
constexpr unsigned DEPTH = 256; /* and of a, a multiple of four */
constexpr unsigned PLACES = 400; /* rows of y */
constexpr unsigned LANES = 16; /* work-items of a column */
using Element = float; /* of a in memory */
using Weight = float; /* the same of w */
using Scale = float; /* of the scales of w, where it has some */
constexpr unsigned GROUP = 0; /* elements of w along k with one scale */
constexpr unsigned SHARING = 1; /* rows of w with the same scales */
#define SCALED_WEIGHTS 0
