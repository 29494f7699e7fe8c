#pragma once

#define KERNEL layer_norm_sums_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned ROWS = 1024;
constexpr unsigned AXIS = 768; /* columns: elements of a row */
constexpr unsigned VECTOR = 4; /* columns of a work-item */
constexpr unsigned LANES = 64; /* work-items of a row */
constexpr unsigned SLICES = 4; /* work-items of a column */
constexpr unsigned HELD = 32; /* rows of a work-item */
constexpr unsigned CHUNKS = 8; /* work-groups of a column */
constexpr unsigned FINALS = 4; /* partial results at the end of a reduction */
#define CENTRED 1 /* both gradients, of what has its mean subtracted; otherwise that of gamma */
using Element = float; /* of x and dy in memory */
