#pragma once

#define KERNEL layer_norm_sums_end_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned AXIS = 768; /* columns: elements of a row */
constexpr unsigned CHUNKS = 64; /* sums of a column */
constexpr unsigned VECTOR = 4; /* columns of a work-item */
constexpr unsigned LANES = 16; /* work-items side by side */
constexpr unsigned SLICES = 16; /* work-items of a column */
#define CENTRED 1 /* both gradients, of what has its mean subtracted; otherwise that of gamma */
