/* What simgen decides (simgen/layers/product/circulant.py), with sample values. */
#pragma once

/* To the spectra of rows of blocks, of the filters; back to rows of blocks, and to gradients of
 * the filters. */
enum class Step { ROWS, FILTERS, RESULTS, GRADIENT };

#define KERNEL circulant_sample
constexpr unsigned BLOCK = 64;
constexpr Step STEP = Step::ROWS;
constexpr unsigned SIZE = 16; /* elements of a block: a power of two */
constexpr unsigned DOWN = 5;  /* rows of blocks */
constexpr unsigned ACROSS = 3; /* blocks of a row */
